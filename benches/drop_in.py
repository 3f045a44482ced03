"""Runs Petastorm's scripts on forebay.petastorm and on Petastorm itself: the same code, in turns, in rows a
second.

    python benches/drop_in.py --python PATH [--runs 3] [images] [tables] [rows] [spec]

images   make_reader of JPEGs in a column of CompressedImageCodec, and torch's batches
tables   make_batch_reader of ten columns of numbers, and BatchedDataLoader
rows     named tuples of make_reader, of five numbers
spec     make_batch_reader with a TransformSpec of the user's, which scales raw pixels, on two workers

PATH is an interpreter with Petastorm 0.13.1 and torch; this one has forebay and torch. Each run is a process of its own, which
reads one epoch before it reads those that are timed.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORKLOADS = ("images", "tables", "rows", "spec")
EPOCHS = 2


def write(folder):
    """Writes the data sets that both packages read."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    import forebay as fb
    from forebay.petastorm.codecs import CompressedImageCodec
    from forebay.petastorm.unischema import Unischema, UnischemaField

    rng = np.random.default_rng(0)
    smooth = rng.integers(0, 256, (64, 8, 8, 3), np.uint8).repeat(28, 1).repeat(28, 2)
    image = UnischemaField("image", np.uint8, (224, 224, 3), CompressedImageCodec("jpeg", 85), False)
    label = UnischemaField("label", np.int64, (), None, False)
    photos = ({"image": smooth[at % 64], "label": at} for at in range(1_500))
    fb.petastorm.write(photos, Unischema("Photos", [image, label]), f"file://{folder}/images", row_group_rows=100)
    numbers = [UnischemaField(f"x{at}", np.float32, (), None, False) for at in range(4)]
    small = ({"label": at, **{f"x{one}": np.float32(at) for one in range(4)}} for at in range(50_000))
    fb.petastorm.write(small, Unischema("Small", [label, *numbers]), f"file://{folder}/rows", row_group_rows=5_000)
    (folder / "tables").mkdir()
    columns = {f"x{at}": rng.random(2_000_000, np.float32) for at in range(10)}
    pq.write_table(pa.table(columns), folder / "tables/a.parquet", row_group_size=50_000)
    (folder / "spec").mkdir()
    cells = [smooth[at % 64].tobytes() for at in range(1_000)]
    pq.write_table(pa.table({"image": cells, "label": range(1_000)}), folder / "spec/a.parquet", row_group_size=50)


def read(package, workload, url):
    """Reads an epoch as a script does, and returns the number of rows."""
    import importlib

    import numpy as np

    petastorm = importlib.import_module(package)
    torch_loaders = importlib.import_module(f"{package}.pytorch")
    if workload == "images":
        with torch_loaders.DataLoader(petastorm.make_reader(url, workers_count=2), batch_size=64) as loader:
            return sum(len(batch["label"]) for batch in loader)
    if workload == "tables":
        reader = petastorm.make_batch_reader(url, workers_count=2)
        with torch_loaders.BatchedDataLoader(reader, batch_size=1024) as loader:
            return sum(len(batch["x0"]) for batch in loader)
    if workload == "rows":
        with petastorm.make_reader(url, workers_count=2) as reader:
            return sum(1 for _ in reader)

    def scaled(frame):
        cells = [np.frombuffer(cell, np.uint8).reshape(224, 224, 3) for cell in frame["image"]]
        frame["image"] = [cell.astype(np.float32) / 255 for cell in cells]
        return frame

    spec = petastorm.TransformSpec(scaled, edit_fields=[("image", np.float32, (224, 224, 3), False)])
    reader = petastorm.make_batch_reader(url, workers_count=2, transform_spec=spec)
    with torch_loaders.BatchedDataLoader(reader, batch_size=64) as loader:
        return sum(len(batch["label"]) for batch in loader)


def timed(package, workload, url):
    """Returns the rows a second."""
    read(package, workload, url)
    begun = time.perf_counter()
    rows = sum(read(package, workload, url) for _ in range(EPOCHS))
    print(json.dumps(rows / (time.perf_counter() - begun)))


def main():
    if sys.argv[1:2] == ["timed"]:
        return timed(*sys.argv[2:])
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--python", required=True)
    words.add_argument("--runs", type=int, default=3)
    words.add_argument("workloads", nargs="*", choices=[[], *WORKLOADS], default=[])
    options = words.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder))
        for workload in options.workloads or WORKLOADS:
            rates = {"petastorm": [], "forebay.petastorm": []}
            for _ in range(options.runs):
                for package, found in rates.items():
                    python = options.python if package == "petastorm" else sys.executable
                    command = [python, __file__, "timed", package, workload, f"file://{folder}/{workload}"]
                    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
                    found.append(json.loads(out.stdout.splitlines()[-1]))
            theirs, ours = (statistics.median(found) for found in rates.values())
            print(
                f"{workload:8} petastorm {theirs:12,.0f} rows/s   forebay {ours:12,.0f} rows/s   {ours / theirs:6.2f} times"
            )


if __name__ == "__main__":
    main()
