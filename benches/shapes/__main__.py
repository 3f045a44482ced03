"""Compares forebay with pyarrow by hand, over files of every shape.

    python benches/shapes [--only row-groups,columns] [--points 10,1M] [--json FILE] [--markdown FILE] [--svg FILE]

Each run is a process of its own; the two contestants take turns, and mix equally many rows. README.md beside
this file says what is compared and how. Figures are medians of the turns.
"""

import argparse
import json
import math
import os
import platform
import sys
from dataclasses import asdict, replace
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1]))

import picture
import tables
import verdict
from axes import AXES
from data import DATA
from turns.children import Failed, launch
from turns.figures import machine
from turns.files import warm
from turns.words import count
from work import Work

HERE = Path(__file__).parent
CHECKED = {"runs": 1, "seconds": 0.0}


def arguments():
    raw = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="benches/shapes", description=__doc__, formatter_class=raw)
    parser.add_argument("--data", type=Path, default=Path(".bench/shapes"), help="folder for the files [%(default)s]")
    parser.add_argument("--runs", type=count, default=3, help="turns [%(default)s]")
    parser.add_argument("--seconds", type=float, default=3.0, help="least seconds of a run [%(default)s]")
    parser.add_argument("--limit", type=float, default=120.0, help="most seconds of a run [%(default)s]")
    parser.add_argument("--threads", type=count, default=2, help="threads of each [%(default)s]")
    parser.add_argument("--only", metavar="AXIS,…", help="these axes: " + ", ".join(AXES))
    parser.add_argument("--points", metavar="POINT,…", help="these points of the axes")
    parser.add_argument("--check", action="store_true", help="only see that both deliver the same of a few rows")
    parser.add_argument("--json", type=Path, metavar="FILE", help="all that was measured")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="the tables and the verdict in Markdown")
    parser.add_argument("--svg", type=Path, metavar="FILE", help="the picture")
    options = parser.parse_args()
    options.only = options.only.split(",") if options.only else list(AXES)
    options.points = options.points and options.points.split(",")
    points = {point.name for name in options.only if name in AXES for point in AXES[name].points}
    for word, words in [*((axis, AXES) for axis in options.only), *((point, points) for point in options.points or ())]:
        if word not in words:
            parser.error(f"'{word}' is not there (one of {', '.join(words)})")
    if options.check:
        vars(options).update(CHECKED, data=options.data / "small")
    options.data = options.data.resolve()
    return options


def prepare(point, options):
    """Returns the data set of a point and the work of a contestant on it; writes the data set if it is absent."""
    data, folder = DATA[point.data], options.data / point.data
    if options.check:
        whole, data = data.rows, data.small()
        point = point.small(data.rows / whole)
    if not folder.exists():
        print(f"drawing {point.data}", file=sys.stderr, flush=True)
        data.write(folder)
    warm(folder)
    work = Work(folder, point.batch, point.window, options.threads, data.fills, data.cell, task=point.task)
    work = replace(work, vocabulary=data.vocabulary, below=point.below, tier=point.tier, workers=point.workers)
    return data, work


def run(contestant, works, options):
    """Runs a contestant on pieces of work, all in one process."""
    works = [asdict(work) | {"folder": str(work.folder)} for work in works]
    task = {"contestant": contestant, "works": works, "seconds": options.seconds, "check": options.check}
    return launch(sys.executable, HERE / "measure.py", task, options.limit, options.data / "home")


def contest(prepared, options):
    """Runs all turns of both contestants; returns the figures of each piece of work, or the reason why there are
    none."""
    found = [{"rows": data.rows, "group": data.group, "batch": work.batch} for data, work in prepared]
    for point in found:
        point |= {"forebay": [], "by_hand": [], "reason": None, "skipped": False}
    works = [work for _, work in prepared]
    try:
        for _ in range(options.runs):
            ours = run("forebay", works, options)
            # The loop by hand mixes the same number of row groups as forebay chose to.
            held = [replace(work, held=one.get("held", 1)) for work, one in zip(works, ours, strict=True)]
            for point, *both in zip(found, ours, run("by_hand", held, options), strict=True):
                add(point, *both)
    except Failed as failed:
        for point in found:
            point["reason"] = str(failed)
    return found


def add(point, ours, theirs):
    """Adds the results of a turn to those of a point."""
    for one in (ours, theirs):
        if "rate" not in one:
            point["skipped"] = "skipped" in one
            point["reason"] = one.get("skipped") or one["failed"]
            return
    if not agree(ours["delivers"], theirs["delivers"]):
        point["reason"] = f"forebay delivers {ours['delivers']}, the loop by hand {theirs['delivers']}"
    point["forebay"].append(ours)
    point["by_hand"].append(theirs)


def agree(ours, theirs):
    """Whether both deliver the same values; floats may differ slightly because they were added in another
    order."""
    sums, others = ours["sums"], theirs["sums"]
    same = ours | {"sums": None} == theirs | {"sums": None} and sums.keys() == others.keys()
    return same and all(math.isclose(total, others[name], rel_tol=1e-9) for name, total in sums.items())


def main():
    options = arguments()
    report = {"machine": machine(), "threads": options.threads, "runs": options.runs, "seconds": options.seconds}
    report |= {"load_before": os.getloadavg()[0], "platform": platform.platform(), "axes": {}}
    print(tables.header(report), flush=True)
    for name in options.only:
        axis = AXES[name]
        chosen = [point for point in axis.points if not options.points or point.name in options.points]
        prepared = {point.name: prepare(point, options) for point in chosen}
        # With `--check`, each contestant runs all points of an axis in one process.
        parts = [list(prepared.values())] if options.check else [[one] for one in prepared.values()]
        points = dict(zip(prepared, (point for part in parts for point in contest(part, options)), strict=True))
        how = {"title": axis.title, "per_byte": axis.per_byte, "options": axis.options}
        report["axes"][name] = how | {"points": points}
        print(f"\n{name}: {axis.title}\n\n{tables.table(points)}", flush=True)
        if options.json:
            options.json.write_text(json.dumps(report, indent=2) + "\n")
    said = verdict.text(report, figures=not options.check)
    print(f"\n{said}")
    if options.markdown:
        options.markdown.write_text(f"{tables.markdown(report)}\n\n{said}\n")
    if options.svg:
        options.svg.write_text(picture.drawn(report))
    return 1 if any(verdict.failed(report)) else 0


if __name__ == "__main__":
    sys.exit(main())
