"""Compares forebay with what people use instead: on the same rows, the same cores, in the same run.

    python benches/peers [w1] [w2] ... [handover] [memory] [--only forebay,by_hand] [--json FILE] [--markdown FILE]

Each contestant runs in a process of its own; contestants take turns (A B A B ...), so that a change of the machine's
speed meets all alike. A figure is the median of the turns, with the least and the most. README.md beside this file says
what is counted, `setup` installs the contestants; one that is not installed is listed with the reason.

w1 w1-float w1-float16   photographs: random resized crop and flip; normalised; in half precision
w1-q75 w1-q85 w1-q95     w1 on real photographs, which need FOREBAY_TEST_DATA: by quality;
w1-444 w1-grey w1-progressive   and by form, of quality 85
w2 w3 w4 w4m             a table; token lists; tiny PNG; MNIST's size
w4-raw w4-bytes          the pixels of w4 as lists of numbers, as binary
handover                 the Rust iterator (`forebay bench`) against the Python loop, w1 and w2
memory                   peak memory of forebay on w1 under small budgets
"""

import argparse
import importlib
import json
import os
import platform
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import extras
import tables
from turns.children import Failed, launch, missing
from turns.figures import machine
from turns.files import warm
from turns.words import count
from workloads import WORKLOADS

HERE = Path(__file__).parent
# The contestants, in the order in which they take turns.
FILES = sorted(file.stem for file in (HERE / "loaders").glob("[!_]*.py"))
PEERS = sorted(FILES, key=lambda name: name != "forebay")
CONVERSION_LIMIT = 1_800  # seconds


def arguments():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="benches/peers", description=__doc__, formatter_class=raw)
    parser.add_argument("--data", type=Path, default=Path(".bench"), help="folder for what is made [%(default)s]")
    parser.add_argument("--runs", type=count, default=5, help="turns [%(default)s]")
    parser.add_argument("--seconds", type=float, default=12.0, help="window of a run [%(default)s]")
    parser.add_argument("--check", type=float, default=20.0, help="seconds to count the rows of an epoch [%(default)s]")
    parser.add_argument("--limit", type=float, default=120.0, help="most seconds of a run [%(default)s]")
    parser.add_argument("--threads", type=count, default=2, help="threads or workers of each [%(default)s]")
    parser.add_argument("--only", default="", metavar="A,B", help="these contestants: " + ", ".join(PEERS))
    whose = "interpreter of a contestant, or of an environment that setup would make"
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help=whose)
    parser.add_argument("--program", default="forebay", help="the program forebay [%(default)s]")
    parser.add_argument("--discard", action="store_true", help="remove converted files once their workloads are over")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all that was measured")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the tables in Markdown")
    parser.add_argument("what", nargs="*", metavar="what", help="workloads, handover or memory [all]")
    options = parser.parse_args()
    options.data.mkdir(parents=True, exist_ok=True)
    options.data = options.data.resolve()
    has_photographs = "FOREBAY_TEST_DATA" in os.environ
    possible = [name for name, work in WORKLOADS.items() if has_photographs or not work.photographs]
    options.what = options.what or [*possible, "handover", "memory"]
    options.only = options.only.split(",") if options.only else PEERS
    options.python = dict(pair.split("=", 1) for pair in options.python)
    for word in options.what:
        if word not in (*WORKLOADS, "handover", "memory"):
            parser.error(f"'{word}' is no workload (one of {', '.join(WORKLOADS)}, handover, memory)")
        if word in WORKLOADS and word not in possible:
            parser.error(f"{word} needs photographs: set FOREBAY_TEST_DATA to the folder that has them")
    for word in options.only:
        if word not in PEERS:
            parser.error(f"'{word}' is no contestant (one of {', '.join(PEERS)})")
    return options


def interpreter(options, name, environment):
    """Returns the interpreter that the options name for a contestant or for its virtual environment. Otherwise
    it is the one in that environment, or without an environment this one."""
    installed = options.data / "venvs" / (environment or "") / "bin" / "python"
    default = str(installed) if environment and installed.exists() else sys.executable
    return options.python.get(name, options.python.get(environment, default))


def prepared(work, options):
    """Returns the workload with its data, and makes the data where it is missing."""
    folder = options.data / work.data
    if not any(folder.glob("*.parquet")):
        if work.synth:
            subprocess.run([options.program, "synth", folder, *work.synth], check=True)
        elif work.photographs:
            making = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(making, ignore_errors=True)
            python = interpreter(options, "photographs", "main")
            subprocess.run([python, HERE / "photographs.py", work.name, making], check=True)
            making.rename(folder)
        else:
            source = prepared(WORKLOADS["w4"], options).folder
            making = folder.with_name(f"{folder.name}.part")
            shutil.rmtree(making, ignore_errors=True)
            form = "lists" if work.name == "w4-raw" else "binary"
            subprocess.run([interpreter(options, "raw", "main"), HERE / "raw.py", form, source, making], check=True)
            making.rename(folder)
    warm(folder)
    return replace(work, folder=folder, rows=inspected(folder, options)["rows"])


def inspected(folder, options):
    return json.loads(subprocess.check_output([options.program, "inspect", folder, "--json", "-"]))


def converted(name, peer, work, python, options):
    """Returns the folder of the data in the contestant's own format, and the seconds that writing it took. It
    writes the folder if it is missing."""
    if not hasattr(peer, "convert"):
        return None, None
    # The folder is named after the contestant that converted the data.
    whose = getattr(peer, "CONVERTED", name)
    folder = options.data / "converted" / whose / f"{work.data}-{inspected(work.folder, options)['fingerprint'][:8]}"
    note = folder / "converted.json"
    if not note.exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        print(f"  {name}: converting {work.data}", flush=True)
        done = run(python, options, task(name, work, options, folder, convert=True), limit=CONVERSION_LIMIT)
        note.write_text(json.dumps(done))
    warm(folder)
    return folder, json.loads(note.read_text())["seconds"]


def shares(work, name):
    """Whether the workload called ``name`` reads the same data as ``work``."""
    return name in WORKLOADS and WORKLOADS[name].data == work.data


def discard(work, options):
    for folder in options.data.glob(f"converted/*/{work.data}-????????"):
        shutil.rmtree(folder)


def task(name, work, options, folder=None, **more):
    """Returns the arguments of `measure.py`."""
    return {
        "peer": name,
        "work": work.name,
        "folder": str(work.folder),
        "rows": work.rows,
        "converted": folder and str(folder),
        "threads": options.threads,
        "seconds": options.seconds,
        "check": 0.0,
        **more,
    }


def run(python, options, task, limit=None):
    """Runs `measure.py` and returns its result."""
    return launch(python, HERE / "measure.py", task, limit or options.limit, options.data / "home")


def launched(name, options, **words):
    return run(interpreter(options, name, None), options, task(name, options=options, **words))


def contest(work, options):
    """Runs all turns of all contestants of a workload; returns the runs of each, or the reason why it has
    none."""
    entries = []
    for name in options.only:
        peer = importlib.import_module(f"loaders.{name}")
        if work.name not in peer.WORKLOADS:
            continue
        entry = {"name": name, "reads": peer.READS, "pixels": peer.PIXELS if work.kind == "images" else None}
        entry |= {"runs": [], "converted": None, "reason": None}
        entries.append(entry)
        python = interpreter(options, name, peer.ENVIRONMENT)
        try:
            entry["reason"] = missing(python, peer.NEEDS)
            if not entry["reason"]:
                folder, entry["converted"] = converted(name, peer, work, python, options)
                entry["launch"] = (python, folder)
        except Failed as failed:
            entry["reason"] = str(failed)
    for turn in range(options.runs):
        for entry in entries:
            if entry["reason"]:
                continue
            python, folder = entry["launch"]
            # Only the first turn counts rows, because one epoch of a slow contestant takes long.
            check = 0.0 if turn else options.check
            try:
                entry["runs"].append(run(python, options, task(entry["name"], work, options, folder, check=check)))
            except Failed as failed:
                entry["reason"] = str(failed)
    for entry in entries:
        entry.pop("launch", None)
    return entries


def main():
    options = arguments()
    report = {"machine": machine(), "threads": options.threads, "runs": options.runs, "seconds": options.seconds}
    report |= {"load_before": os.getloadavg()[0], "platform": platform.platform(), "workloads": {}}
    print(tables.header(report), flush=True)
    for at, name in enumerate(options.what):
        if name in WORKLOADS:
            work = prepared(WORKLOADS[name], options)
            entries = contest(work, options)
            told = {"title": work.title, "unit": work.unit, "rows": work.rows}
            report["workloads"][name] = told | {"contestants": entries}
            print(tables.text(work, entries), flush=True)
            if options.discard and not any(shares(work, later) for later in options.what[at + 1 :]):
                discard(work, options)
        else:
            works = {key: prepared(WORKLOADS[key], options) for key in extras.WORKLOADS[name]}
            report[name] = extras.MEASURES[name](works, options, lambda **words: launched("forebay", options, **words))
            print(extras.text(name, report[name]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(report, indent=2) + "\n")
        if options.markdown:
            options.markdown.write_text(tables.markdown(report) + "\n")
    print(tables.notes(report))


if __name__ == "__main__":
    main()
