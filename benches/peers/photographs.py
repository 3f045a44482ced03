"""Writes a data set of real photographs as JPEG of 500x375: `python photographs.py WORKLOAD TO`.

The photographs are the Kodak set and CC0 photographs in the folder FOREBAY_TEST_DATA. Each row is a random part
of a photograph at a random scale, so that few photographs make many different pictures.
"""

import io
import os
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image
from workloads import WORKLOADS

ROWS, ROWS_PER_FILE, ROWS_PER_GROUP = 3_000, 500, 100
SIZE = (500, 375)
SMALLEST = 0.8  # share of a photograph's largest part of that shape
FOLDERS = ("kodak", "cc0-photos-png")


def photographs():
    folder = Path(os.environ["FOREBAY_TEST_DATA"])
    files = sorted(file for name in FOLDERS for file in (folder / name).rglob("*.png"))
    if not files:
        sys.exit(f"{folder} has no photographs in {' or '.join(FOLDERS)}: set FOREBAY_TEST_DATA to the folder with both")
    for file in files:
        with Image.open(file) as image:
            yield image.convert("RGB")


def part(image, random):
    """Returns a random part of an image, in the size that all rows have."""
    width, height = SIZE if image.width >= image.height else SIZE[::-1]
    largest = min(image.width / width, image.height / height)
    across, down = (int(side * largest * random.uniform(SMALLEST, 1)) for side in (width, height))
    x, y = random.integers(image.width - across + 1), random.integers(image.height - down + 1)
    return image.resize((width, height), Image.Resampling.LANCZOS, (x, y, x + across, y + down))


def encoded(image, quality, sampling="4:2:0", grey=False, progressive=False):
    written = io.BytesIO()
    image = image.convert("L") if grey else image
    image.save(written, "JPEG", quality=quality, subsampling=sampling, progressive=progressive)
    return written.getvalue()


def main():
    settings, target = WORKLOADS[sys.argv[1]].photographs, Path(sys.argv[2])
    images, random = list(photographs()), np.random.default_rng(1)
    cells = [encoded(part(images[row % len(images)], random), **settings) for row in range(ROWS)]
    target.mkdir(parents=True)
    for at in range(0, ROWS, ROWS_PER_FILE):
        rows = range(at, min(at + ROWS_PER_FILE, ROWS))
        table = pa.table({
            "image": pa.array([cells[row] for row in rows], pa.binary()),
            "label": pa.array([row % len(images) for row in rows], pa.int64()),
        })
        pq.write_table(table, target / f"{at:05}.parquet", row_group_size=ROWS_PER_GROUP, compression="none")
    print(f"{ROWS} JPEG of {len(images)} photographs, {sum(map(len, cells)) / ROWS / 1e3:.0f} KB each")


if __name__ == "__main__":
    main()
