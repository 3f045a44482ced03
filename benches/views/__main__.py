"""What several views of a photograph, SimCLR's augmentation and clips cost.

    make wheel
    pip install torchvision
    python benches/views PHOTOGRAPHS [--turns 5] [--seconds 4] [--threads 2] [--only dino]

PHOTOGRAPHS is a folder of JPEG or PNG files. They are resized to 500x375 and encoded with quality 85. Contestants take
turns, each in a process of its own. A DataLoader has as many workers as forebay has threads; each worker decodes with
torchvision, and transforms tensors of 8 bits with torchvision's v2. All files are in memory or in the page cache.
"""

import argparse
import io
import statistics
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image as Pillow

sys.path.insert(0, str(Path(__file__).parents[1]))

from turns import children, figures
from turns.words import count

RUN = Path(__file__).with_name("run.py")
# Seconds after which a run hangs.
LIMIT = 400
SIZE = (500, 375)
QUALITY = 85
# Images in the row of a clip.
FRAMES = 16

# Each comparison has contestants: a name, the loader, the data and what a row becomes. The first is the
# baseline.
COMPARISONS = {
    "dino": [
        ("one crop to 224", "forebay", "rows", "crop"),
        ("2 crops to 224, 8 to 96", "forebay", "rows", "dino"),
        ("the same, torchvision", "torch", "rows", "dino"),
    ],
    "simclr": [
        ("SimCLR, 2 views", "forebay", "rows", "simclr"),
        ("the same, torchvision", "torch", "rows", "simclr"),
    ],
    "clip": [
        ("16 rows", "forebay", "rows", "crop"),
        ("a clip of 16 images", "forebay", "lists", "clip"),
    ],
}


def files_of(folder):
    """Yields the photographs of a folder as JPEG files of one size."""
    found = [path for path in sorted(folder.rglob("*")) if path.suffix.lower() in (".jpg", ".jpeg", ".png")]
    for path in found:
        photograph = Pillow.open(path).convert("RGB")
        if photograph.height > photograph.width:
            photograph = photograph.rotate(90, expand=True)
        file = io.BytesIO()
        photograph.resize(SIZE, Pillow.Resampling.LANCZOS).save(file, "JPEG", quality=QUALITY)
        yield file.getvalue()


def prepare(folder, photographs, rows):
    """Writes the photographs again and again: one in each row, and sixteen in each row."""
    files = list(files_of(photographs))
    if not files:
        raise SystemExit(f"{photographs} has no JPEG or PNG files")
    cells = [files[row % len(files)] for row in range(rows)]
    lists = [cells[first : first + FRAMES] for first in range(0, rows, FRAMES)]
    for name, column in (("rows", cells), ("lists", lists)):
        path = folder / name / "0.parquet"
        path.parent.mkdir()
        kind = pa.binary() if name == "rows" else pa.list_(pa.binary())
        pq.write_table(pa.table({"image": pa.array(column, kind)}), path, compression="none", row_group_size=rows // 16)
    return sum(map(len, files)) / len(files) / 1000


def compare(what, runs):
    print(f"\n| {what} | images/s | processor ms for an image | times the first line's | spread |")
    print("|---|---:|---:|---:|---|")
    first = next(iter(runs.values()))
    for name, results in runs.items():
        rate, work = figures.middle(results, "rate"), figures.middle(results, "work")
        ratios = figures.ratios(results, first, "work")
        ratio, spread = statistics.median(ratios), figures.spread(ratios, "{:.2f}")
        print(f"| {name} | {rate:,.0f} | {work:.3f} | {ratio:.2f} | {spread} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("photographs", type=Path)
    parser.add_argument("--turns", type=count, default=5)
    parser.add_argument("--seconds", type=float, default=4)
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--rows", type=count, default=2048)
    parser.add_argument("--only", choices=list(COMPARISONS))
    given = parser.parse_args()
    lacks = children.missing(sys.executable, ["forebay", "torch", "torchvision"])
    if lacks:
        raise SystemExit(lacks)
    with tempfile.TemporaryDirectory() as home:
        size = prepare(Path(home), given.photographs, given.rows)
        print(f"{figures.machine()}, {given.threads} threads, {given.turns} turns, photographs of {size:.0f} kB")
        for what in [given.only] if given.only else COMPARISONS:
            runs = {name: [] for name, *_ in COMPARISONS[what]}
            for _ in range(given.turns):
                for name, loader, data, view in COMPARISONS[what]:
                    task = {"data": str(Path(home, data)), "loader": loader, "view": view}
                    task |= {"threads": given.threads, "seconds": given.seconds}
                    runs[name].append(children.launch(sys.executable, RUN, task, LIMIT, Path(home, "caches")))
            compare(what, runs)


if __name__ == "__main__":
    main()
