"""What nested columns, lists, padding and keys of folders cost beside what they are compared with.

    cargo build --release
    python benches/columns.py [--data DIR] [--runs 7] [coco] [lists] [padded] [folders]

coco      photographs with boxes (list<struct<box: list<float>, label: int32>>) and captions (list<string>), beside the
          photographs alone
lists     lists of uint8 and fixed lists of float32, without nulls and with every tenth one null, beside fixed binary of as
          many bytes
padded    lists of int32 tokens as rows of one length, and of the longest of the batch, beside the lists as they are
folders   photographs with the keys of their folders, an integer and a text, beside the photographs alone; and the same of twenty
          columns of int32, which show what a key costs a row

The two sides of a line take turns; a figure is the median of the runs. Each run reads one epoch that warms up and then whole
epochs for at least a second, and asks for each array of each batch.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from turns.words import count

import forebay as fb

CROP = fb.Image.random_resized_crop(224).flip()
WORDS = ["a", "cat", "dog", "sits", "on", "the", "table", "two", "red"]
LONGEST = 2048
SECONDS = 1


def rate(folder, **options):
    """Returns rows a second, and microseconds of processor time per row."""
    with fb.Loader(folder, threads=os.cpu_count(), **options) as loader:
        read(loader)
        start, busy, rows = time.perf_counter(), time.process_time(), 0
        while time.perf_counter() < start + SECONDS:
            rows += read(loader)
        return rows / (time.perf_counter() - start), (time.process_time() - busy) / rows * 1e6


def read(loader):
    """Reads an epoch, asks for each array of each batch, and returns the number of rows."""
    return sum(batch.num_rows for batch in loader if dict(batch))


def compare(options, name, limit, base, other):
    """Prints one line: the rate of ``other`` beside that of ``base``, which take turns."""
    found = [(rate(base[0], **base[1]), rate(other[0], **other[1])) for _ in range(options.runs)]
    ratio = statistics.median(b[0] / a[0] for a, b in found)
    cost = statistics.median(b[1] / a[1] for a, b in found)
    rows = statistics.median(b[0] for _, b in found)
    print(f"{name:28} {rows:12,.0f} rows/s, {ratio:5.2f} of the other side (asked: {limit}), "
          f"{cost:5.2f} of its processor time", flush=True)


def write(path, table, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, path, row_group_size=rows, compression="none", use_dictionary=False)


def drawn(options):
    """Writes a folder of photographs, in three files."""
    photographs = options.data / "photographs"
    if not photographs.exists():
        words = ["--rows", "600", "--rows-per-file", "200", "--image", "500x375"]
        subprocess.run([options.program, "synth", photographs, *words], check=True, stdout=subprocess.DEVNULL)
    return photographs


def coco(options):
    folder = options.data / "coco"
    if not folder.exists():
        photographs = drawn(options)
        draw = random.Random(1)
        box = pa.struct([("box", pa.list_(pa.float32())), ("label", pa.int32())])
        for number, path in enumerate(sorted(photographs.glob("*.parquet"))):
            table = pq.read_table(path)
            boxes = [
                [{"box": [draw.random() * 500 for _ in range(4)], "label": draw.randrange(80)} for _ in range(draw.randrange(15))]
                for _ in range(table.num_rows)
            ]
            captions = [[" ".join(draw.choices(WORDS, k=10)) for _ in range(5)] for _ in range(table.num_rows)]
            table = table.append_column("objects", pa.array(boxes, pa.list_(box)))
            write(folder / f"{number}.parquet", table.append_column("captions", pa.array(captions)), 100)
    given = {"batch_size": 64, "decode": {"image": CROP}, "shuffle": fb.Shuffle(seed=1)}
    alone = (folder, {**given, "columns": ["image"]})
    compare(options, "photographs, boxes, captions", 0.95, alone, (folder, {**given, "columns": ["image", "objects", "captions"]}))


def lists(options):
    count, rows = 48_000, 2_000
    folder = options.data / "lists"
    values = np.random.default_rng(1).integers(0, 256, count * rows, dtype=np.uint8)
    floats = np.random.default_rng(1).random(count // 4 * rows, dtype=np.float32)
    missing = np.arange(rows) % 10 == 3
    offsets = pa.array(np.arange(rows + 1) * count, pa.int32())
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(floats), count // 4)
    columns = {
        "binary": pa.FixedSizeBinaryArray.from_buffers(pa.binary(count), rows, [None, pa.py_buffer(values)]),
        "uint8": pa.ListArray.from_arrays(offsets, pa.array(values)),
        "uint8, some null": pa.ListArray.from_arrays(offsets, pa.array(values), mask=pa.array(missing)),
        "float32": fixed,
        "float32, some null": pa.FixedSizeListArray.from_arrays(pa.array(floats), count // 4, mask=pa.array(missing)),
    }
    for name, column in columns.items():
        path = folder / name / "0.parquet"
        if not path.exists():
            # pyarrow compresses and uses dictionaries by default.
            path.parent.mkdir(parents=True)
            pq.write_table(pa.table({"x": column}), path, row_group_size=250)
    given = {"batch_size": 100}
    for name in list(columns)[1:]:
        more = {"fill_null": {"x": 0.0}} if "null" in name else {}
        compare(options, f"lists of {name}", 0.5, (folder / "binary", given), (folder / name, {**given, **more}))


def padded(options):
    folder = options.data / "padded"
    if not folder.exists():
        draw = np.random.default_rng(1)
        offsets = np.concatenate([[0], np.cumsum(draw.integers(LONGEST // 2, LONGEST, 20_000))]).astype(np.int32)
        tokens = draw.integers(0, 50_000, offsets[-1], dtype=np.int32)
        write(folder / "0.parquet", pa.table({"tokens": pa.ListArray.from_arrays(offsets, tokens)}), 1_000)
    given = {"batch_size": 256, "shuffle": fb.Shuffle(seed=1)}
    for name, pad in (("padded", fb.Pad(LONGEST)), ("padded to the longest", fb.Pad())):
        compare(options, name, 0.8, (folder, given), (folder, {**given, "pad": {"tokens": pad}}))


def folders(options):
    photographs = options.data / "photographs in folders"
    if not photographs.exists():
        for number, path in enumerate(sorted(drawn(options).glob("*.parquet"))):
            write(photographs / f"year={2000 + number}" / f"city=c{number}" / "0.parquet", pq.read_table(path), 100)
    given = {"batch_size": 64, "decode": {"image": CROP}, "shuffle": fb.Shuffle(seed=1)}
    alone = (photographs, {**given, "columns": ["image"]})
    compare(options, "photographs, year, city", 0.98, alone, (photographs, {**given, "columns": ["image", "year", "city"]}))
    folder = options.data / "folders"
    names = [f"c{number}" for number in range(20)]
    if not folder.exists():
        draw = np.random.default_rng(1)
        for number in range(20):
            table = pa.table({name: draw.integers(0, 1_000, 100_000, dtype=np.int32) for name in names})
            write(folder / f"year={2000 + number // 4}" / f"city=c{number % 4}" / "0.parquet", table, 100_000)
    given = {"batch_size": 8_192, "shuffle": fb.Shuffle(seed=1, window_rows=400_000)}
    for more in (["year"], ["year", "city"]):
        with_keys = (folder, {**given, "columns": names + more})
        compare(options, f"keys: {', '.join(more)}", 0.98, (folder, {**given, "columns": names}), with_keys)


PARTS = {"coco": coco, "lists": lists, "padded": padded, "folders": folders}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release"
    parser.add_argument("--data", type=Path, default=Path(".bench/columns"))
    parser.add_argument("--runs", type=count, default=7)
    parser.add_argument("--program", type=Path, default=target / "forebay")
    parser.add_argument("what", nargs="*", default=list(PARTS))
    options = parser.parse_args()
    unknown = set(options.what) - set(PARTS)
    if unknown:
        sys.exit(f"no such part: {', '.join(sorted(unknown))} ({', '.join(PARTS)})")
    print(f"load before: {os.getloadavg()[0]:.2f}; medians of {options.runs} runs")
    for what in options.what:
        PARTS[what](options)


if __name__ == "__main__":
    main()
