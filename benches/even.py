"""Measures how evenly a loader keeps an accelerator busy that takes rows at 1 / 1.3 of the loader's rate.

    cargo build --release
    python benches/even.py [--data DIR] [--runs 5] [--python petastorm=PATH] [local] [cached] [pixels] [ranks] [threads] [peers]

local     photographs from a local disk, in the page cache
cached    the same from a warm row cache
pixels    the same from a warm cache of pixels
ranks     two ranks of a machine, which wait for each other after each step
threads   what the loader gives by itself against the best of a search over threads, and what each costs the processors
peers     Petastorm and torch's DataLoader (over Hugging Face datasets) on an accelerator as slow as they are

`forebay bench --help` explains what is counted; distant storage has a benchmark of its own, `benches/w5.py`.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import w5
from turns.words import count

MARGIN = 1.3
BATCH = 64
SECONDS = 20  # of each run
GRID = [1, 2, 3, 4]


def bench(options, *words):
    """Returns the report of `forebay bench`."""
    command = [options.program, "bench", options.data / "w5", "--image", "image=rrc224", "--batch-size", BATCH]
    command += ["--json", "-", *words]
    return json.loads(subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True).stdout)


def free(options, *words):
    """Returns the rows a second that the loader reaches when nothing holds it back, in the epochs after the
    first."""
    report = bench(options, "--epochs", 3, *words)
    return report["warm_rows_per_second"]


def even(options, name, *words):
    """Prints one line of the table: the medians of the runs, and the worst run."""
    figures = {"busy %": [], "variation": [], "worst second %": [], "p99.9 ms": [], "gap ms": [], "late %": []}
    rate = statistics.median(free(options, *words) for _ in range(3))
    step = BATCH / (rate / MARGIN) * 1e3
    if name == "ranks":
        step *= 2
    for _ in range(options.runs):
        report = bench(options, "--epochs", 1000, "--seconds", SECONDS, "--step-ms", step, *words)
        ranks = report["accelerator"]["ranks"]
        figures["busy %"].append(report["accelerator"]["utilisation_min"] * 100)
        figures["variation"].append(max(rank["variation"] for rank in ranks))
        figures["worst second %"].append(min(rank["worst_second"] for rank in ranks) * 100)
        figures["p99.9 ms"].append(report["next_ms"]["p99.9"])
        figures["gap ms"].append(report["epoch_gap_ms"] or 0.0)
        figures["late %"].append(max(rank["late"] for rank in ranks) * 100)
    worst = {"busy %": min, "worst second %": min}
    cells = [f"{key} {statistics.median(found):.2f} ({worst.get(key, max)(found):.2f})" for key, found in figures.items()]
    print(f"{name:8} {rate:6,.0f} rows/s, {step:5.1f} ms a step: " + ", ".join(cells), flush=True)


def warm(options, folder, tier):
    words = ["--cache", folder, "--cache-bytes", "20GB", "--cache-tier", tier]
    for _ in range(2):
        bench(options, "--epochs", 1, *words)
    return words


def threads(options):
    """Compares the default with each fixed number of threads, in turns."""
    runs = {number: [] for number in [None, *GRID]}
    for _ in range(options.runs):
        for number, found in runs.items():
            report = bench(options, "--epochs", 2, *(["--threads", number] if number else []))
            found.append((report["warm_rows_per_second"], report["cpu_seconds_per_1000_rows"]))
    for number, found in runs.items():
        rate, cpu = (statistics.median(column) for column in zip(*found))
        low, high = min(rate for rate, _ in found), max(rate for rate, _ in found)
        name = "left to it" if number is None else f"{number} threads"
        print(f"{name:10} {rate:6,.0f} rows/s ({low:,.0f} to {high:,.0f}), {cpu:.3f} s of processors for 1,000 rows")


def peers(options):
    folder = str(options.data / "w5")
    for name, url in (("petastorm", f"file://{folder}"), ("hf", folder)):
        python = options.python.get(name, sys.executable)
        lacks = w5.missing(name, python)
        if lacks:
            print(f"{name}: skipped, {', '.join(lacks)} not installed")
            continue
        rate = max(peer(name, python, url, 0.0, 1)["rate"] for _ in range(2))
        step = BATCH / (rate / MARGIN)
        found = [peer(name, python, url, step, 2) for _ in range(options.runs)]
        print(
            f"{name:10} {rate:6,.0f} rows/s, {step * 1e3:5.1f} ms a step: busy {w5.shown(found, 'busy', 100, min)} %, "
            f"worst second {w5.shown(found, 'worst', 100, min)} %, p99.9 {w5.shown(found, 'p999', 1e3, max)} ms, "
            f"gap {w5.shown(found, 'gap', 1e3, max)} ms",
            flush=True,
        )


def peer(name, python, url, step, epochs):
    with tempfile.TemporaryDirectory() as folder:
        task = json.dumps([name, url, url, BATCH, os.cpu_count(), epochs, step, folder, ""])
        environment = os.environ | {"XDG_CACHE_HOME": folder, "HF_HOME": folder}
        ran = subprocess.run(
            [python, w5.__file__, "--one", task], env=environment, capture_output=True, text=True, check=True
        )
        return json.loads(ran.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release"
    parser.add_argument("--data", type=Path, default=Path(".bench"))
    parser.add_argument("--runs", type=count, default=5)
    parser.add_argument("--program", type=Path, default=target / "forebay")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help="the interpreter of a peer")
    parser.add_argument("what", nargs="*", default=["local", "cached", "pixels", "ranks", "threads", "peers"])
    options = parser.parse_args()
    options.python = dict(pair.split("=", 1) for pair in options.python)
    if not any((options.data / "w5").glob("*.parquet")):
        words = ["--rows", "3000", "--rows-per-file", "500", "--image", "500x375"]
        subprocess.run([options.program, "synth", options.data / "w5", *words], check=True)
    print(f"load before: {os.getloadavg()[0]:.2f}; medians of {options.runs} runs (and the worst)")
    with tempfile.TemporaryDirectory(dir=options.data) as folder:
        for what in options.what:
            if what == "local":
                even(options, what)
            elif what == "ranks":
                even(options, what, "--world", 2)
            elif what in ("cached", "pixels"):
                even(options, what, *warm(options, f"{folder}/{what}", "rows" if what == "cached" else what))
            else:
                {"threads": threads, "peers": peers}[what](options)


if __name__ == "__main__":
    main()
