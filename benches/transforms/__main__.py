"""Transforms each photograph with albumentations: rate and memory, compared with PyTorch's DataLoader with
the same number of workers.

    python benches/transforms PHOTOS [--workers 1,2,4] [--turns 3] [--only noop]

PHOTOS is a folder that `forebay synth PHOTOS --rows 6000` draws. Contestants take turns, each in a process of its own. The
rate counts after the first batches, so that no process starts meanwhile. A DataLoader has all photographs in memory, still
encoded, and decodes them with OpenCV. Memory is what no file backs, of all processes, shared pages counted once.
"""

import argparse
import statistics
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from turns import children, figures
from turns.words import count

RUN = Path(__file__).with_name("run.py")

#: Seconds after which a run hangs.
LIMIT = 400

NEEDS = ["albumentations", "cv2", "torch", "forebay", "pyarrow"]


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("photos", type=Path)
    parser.add_argument("--workers", default="1,2,4")
    parser.add_argument("--turns", type=count, default=3)
    parser.add_argument("--only", choices=["augment", "noop"])
    given = parser.parse_args()
    lacks = children.missing(sys.executable, NEEDS)
    if lacks:
        raise SystemExit(lacks)
    counts = [int(count) for count in given.workers.split(",")]
    print(f"{figures.machine()}, {given.turns} turns")
    if given.only != "noop":
        compare("augment", contestants(counts), given)
    if given.only != "augment":
        noop = [("forebay", 0, ""), ("forebay", 0, "rows"), ("forebay", counts[-1], "rows"), ("threads", counts[-1], "rows")]
        compare("noop", noop, given)


def contestants(counts):
    """Yields the loader, its workers, and its function for each contestant."""
    found = [("forebay", 0, "rows")]
    for workers in counts:
        found += [("forebay", workers, "rows"), ("threads", workers, "rows"), ("torch", workers, "rows")]
    return found


def compare(what, found, given):
    runs = {one: [] for one in found}
    with tempfile.TemporaryDirectory() as home:
        for _ in range(given.turns):
            for one in found:
                loader, workers, function = one
                task = {
                    "photos": str(given.photos.resolve()),
                    "loader": loader,
                    "workers": workers,
                    "function": what if function else "",
                }
                try:
                    runs[one].append(children.launch(sys.executable, RUN, task, LIMIT, Path(home)))
                except children.Failed as failed:
                    print(f"{one}: {failed}", file=sys.stderr)
    print(f"\n| {what}: loader | workers | rows/s | least to most | processor ms/row | MB |")
    print("|---|---|---|---|---|---|")
    for (loader, workers, function), results in runs.items():
        if not results:
            continue
        rates = [run["rate"] for run in results]
        called = {"forebay": "forebay, processes", "threads": "forebay, threads", "torch": "DataLoader"}[loader]
        if workers == 0:
            called = "forebay, one thread" if function else "forebay without a transform"
        memory = statistics.median(run["memory"] for run in results) / 1e6
        middle, work = statistics.median(rates), statistics.median(run["work"] for run in results) * 1e3
        print(f"| {called} | {workers} | {middle:,.0f} | {figures.spread(rates)} | {work:.2f} | {memory:,.0f} |")


if __name__ == "__main__":
    main()
