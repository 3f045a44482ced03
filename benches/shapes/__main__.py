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
from concurrent.futures import ThreadPoolExecutor
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
CHECKED = {"runs": 1, "seconds": 0.2, "at_once": 2}


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
    parser.set_defaults(at_once=1)
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
    """Returns the data set of a point, drawn if it is absent, and the work of a contestant on it."""
    data, folder = DATA[point.data], options.data / point.data
    if options.check:
        whole, data = data.rows, data.small()
        point = point.small(data.rows / whole)
    if not folder.exists():
        print(f"drawing {point.data}", file=sys.stderr, flush=True)
        data.write(folder)
    warm(folder)
    work = Work(folder, point.batch, point.window, options.threads, data.fills, data.cell)
    return data, replace(work, vocabulary=data.vocabulary, below=point.below, cached=point.cached)


def run(contestant, work, options):
    task = {"contestant": contestant, "work": asdict(work) | {"folder": str(work.folder)}}
    task |= {"seconds": options.seconds, "check": options.check}
    return launch(sys.executable, HERE / "measure.py", task, options.limit, options.data / "home")


def contest(data, work, options):
    """Runs all turns of both contestants at a point; returns the figures, or the reason why there are none."""
    found = {"rows": data.rows, "group": data.group, "batch": work.batch, "forebay": [], "by_hand": [], "reason": None}
    try:
        for _ in range(options.runs):
            ours = run("forebay", work, options)
            # The loop by hand holds the number of row groups that forebay chose for the window.
            theirs = run("by_hand", replace(work, held=ours["held"]), options)
            if not agree(ours["delivers"], theirs["delivers"]):
                raise Failed(f"forebay delivers {ours['delivers']}, the loop by hand {theirs['delivers']}")
            found["forebay"].append(ours)
            found["by_hand"].append(theirs)
    except Failed as failed:
        found["reason"] = str(failed)
    return found


def agree(ours, theirs):
    """Whether both deliver the same values; floats may differ slightly because they were added in another
    order."""
    return ours | {"sum": 0} == theirs | {"sum": 0} and math.isclose(ours["sum"], theirs["sum"], rel_tol=1e-9)


def main():
    options = arguments()
    report = {"machine": machine(), "threads": options.threads, "runs": options.runs, "seconds": options.seconds}
    report |= {"load_before": os.getloadavg()[0], "platform": platform.platform(), "axes": {}}
    print(tables.header(report), flush=True)
    for name in options.only:
        axis = AXES[name]
        chosen = [point for point in axis.points if not options.points or point.name in options.points]
        prepared = {point.name: prepare(point, options) for point in chosen}
        with ThreadPoolExecutor(options.at_once) as turns:
            found = turns.map(lambda pair: contest(*pair, options), prepared.values())
            points = dict(zip(prepared, found, strict=True))
        report["axes"][name] = {"title": axis.title, "per_byte": axis.per_byte, "points": points}
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
