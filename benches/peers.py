"""forebay beside what people use instead, on the same bytes, the same cores, in the same run.

    python benches/peers.py [--data DIR] [--runs 5] [--threads 2] [images] [table] [handover] [memory]

Each contestant runs in a process of its own; contestants take turns (A B A B ...), so that a change of the machine's
speed meets all alike. A rate counts the rows after the first batch, over whole epochs, start-up apart. Printed are the
medians, the spread, and the ratio to forebay pair by pair. The data comes from `forebay synth`, into `--data`.

images    ImageNet-shaped JPEG, random resized crop 224 and flip, uint8 batches of 256:
          forebay; torch.utils.data.DataLoader with two workers and torchvision's own JPEG decoder and transforms
table     40 numbers a row (13 of them nullable), shuffled batches of 8,192 as a dict of arrays:
          forebay over a 65,536-row window; a pyarrow loader as written by hand
handover  the Rust iterator (`forebay bench`) against the Python loop, images and table
memory    peak resident memory of the images run under small budgets
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

BATCH_IMAGES, BATCH_TABLE, WINDOW = 256, 8192, 65_536


def measure(batches, rows_of):
    """Rows a second after the first batch, of an iterable of batches."""
    rows, began = 0, None
    for batch in batches:
        if began is None:
            began = time.perf_counter()
        else:
            rows += rows_of(batch)
    return rows / (time.perf_counter() - began)


# ---- contestants: each takes (data folder, threads, epochs) and returns rows a second ----


def images_forebay(data, threads, epochs, memory="4GiB", batch=BATCH_IMAGES, window=None):
    import forebay as fb

    image = fb.Image.random_resized_crop(224).flip()
    loader = fb.Loader(
        data, columns=["image", "label"], decode={"image": image}, batch_size=batch, threads=threads,
        shuffle=fb.Shuffle(seed=1, window_rows=window), memory=memory,
    )
    with loader:
        return measure((b for _ in range(epochs) for b in loader), lambda batch: len(batch["label"]))


def images_torchvision(data, threads, epochs):
    import pyarrow.parquet as pq
    import torch
    from torchvision.io import decode_jpeg
    from torchvision.transforms import v2

    crop = v2.Compose([v2.RandomResizedCrop(224, antialias=True), v2.RandomHorizontalFlip()])

    class Rows(torch.utils.data.IterableDataset):
        def __iter__(self):
            torch.set_num_threads(1)
            worker = torch.utils.data.get_worker_info()
            groups = [(f, g) for f in sorted(Path(data).glob("*.parquet")) for g in range(pq.ParquetFile(f).num_row_groups)]
            for file, group in groups[worker.id :: worker.num_workers]:
                table = pq.ParquetFile(file, memory_map=True).read_row_group(group, use_threads=False)
                for blob, label in zip(table["image"], table["label"]):
                    raw = torch.frombuffer(bytearray(blob.as_buffer()), dtype=torch.uint8)
                    yield crop(decode_jpeg(raw, mode="RGB")), label.as_py()

    loader = torch.utils.data.DataLoader(Rows(), batch_size=BATCH_IMAGES, num_workers=threads, persistent_workers=True)
    return measure((b for _ in range(epochs) for b in loader), lambda batch: len(batch[1]))


def table_forebay(data, threads, epochs):
    import forebay as fb
    import pyarrow.parquet as pq

    schema = pq.read_schema(next(Path(data).glob("*.parquet")))
    floats = {field.name: float("nan") for field in schema if str(field.type) == "float"}
    loader = fb.Loader(
        data, batch_size=BATCH_TABLE, threads=threads, shuffle=fb.Shuffle(seed=1, window_rows=WINDOW), fill_null=floats
    )
    with loader:
        return measure((dict(b) for _ in range(epochs) for b in loader), lambda batch: len(batch["label"]))


def table_by_hand(data, threads, epochs):
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from concurrent.futures import ThreadPoolExecutor

    pa.set_cpu_count(threads)
    groups = [(f, g) for f in sorted(Path(data).glob("*.parquet")) for g in range(pq.ParquetFile(f).num_row_groups)]
    held = 4  # row groups that are permuted together

    def read(chosen):
        return pa.concat_tables(pq.ParquetFile(f, memory_map=True).read_row_group(g) for f, g in chosen).combine_chunks()

    def epoch(number):
        random = np.random.default_rng(number)
        order = [groups[i] for i in random.permutation(len(groups))]
        blocks = [order[i : i + held] for i in range(0, len(order), held)]
        with ThreadPoolExecutor(1) as ahead:
            coming = ahead.submit(read, blocks[0])
            for at in range(len(blocks)):
                table = coming.result()
                if at + 1 < len(blocks):
                    coming = ahead.submit(read, blocks[at + 1])
                permuted = random.permutation(table.num_rows)
                columns = {name: table[name].to_numpy()[permuted] for name in table.column_names}
                for start in range(0, table.num_rows, BATCH_TABLE):
                    yield {name: column[start : start + BATCH_TABLE] for name, column in columns.items()}

    return measure((b for n in range(epochs) for b in epoch(n)), lambda batch: len(batch["label"]))


def rust(data, threads, epochs, extra):
    command = ["forebay", "bench", data, "--threads", str(threads), "--epochs", str(epochs), "--seed", "1", "--json", "-", *extra]
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return report["rows_per_second"]


def images_rust(data, threads, epochs):
    return rust(data, threads, epochs, ["--image", "image=rrc224", "--batch-size", str(BATCH_IMAGES)])


def table_rust(data, threads, epochs):
    return rust(data, threads, epochs, ["--batch-size", str(BATCH_TABLE), "--window-rows", str(WINDOW)])


CONTESTS = {
    "images": ("w1", ["images_forebay", "images_torchvision"]),
    "table": ("w2", ["table_forebay", "table_by_hand"]),
    "handover images": ("w1", ["images_forebay", "images_rust"]),
    "handover table": ("w2", ["table_forebay", "table_rust"]),
}
EPOCHS = {"w1": 1, "w2": 3}


# ---- the run ----


def prepare(folder):
    """Makes the two data sets that are missing."""
    for name, words in {"w1": ["--rows", "6000", "--image", "500x375"], "w2": ["--rows", "4000000", "--table"]}.items():
        if not any((folder / name).glob("*.parquet")):
            subprocess.run(["forebay", "synth", str(folder / name), *words], check=True)


def one(name, data, threads, epochs, **extra):
    """Runs a contestant in a process of its own: its rate and its peak memory in bytes."""
    words = [sys.executable, __file__, "--one", json.dumps([name, str(data), threads, epochs, extra])]
    printed = subprocess.run(words, check=True, capture_output=True, text=True).stdout
    return json.loads(printed.splitlines()[-1])


def contest(title, folder, threads, runs):
    data, names = CONTESTS[title]
    rates = {name: [] for name in names}
    for _ in range(runs):
        for name in names:
            rates[name].append(one(name, folder / data, threads, EPOCHS[data])["rate"])
    print(f"\n{title}, {threads} threads, {runs} interleaved runs")
    for name in names:
        ratios = [a / b for a, b in zip(rates[names[0]], rates[name])]
        print(
            f"  {name:20} {statistics.median(rates[name]):14,.0f} rows/s  ({min(rates[name]):,.0f} to {max(rates[name]):,.0f})"
            f"   forebay is {statistics.median(ratios):.2f} times that ({min(ratios):.2f} to {max(ratios):.2f})"
        )


def memory(folder, threads):
    print("\npeak resident memory, images")
    size = sum(f.stat().st_size for f in (folder / "w1").glob("*.parquet"))
    for budget in ["96MiB", "128MiB", "256MiB"]:
        peak = one("images_forebay", folder / "w1", threads, 1, memory=budget, batch=32, window=200)["peak"]
        import_only = one("nothing", folder / "w1", threads, 1)["peak"]
        print(
            f"  budget {budget}, data {size / 2**20:.0f} MiB: peak {peak / 2**20:.0f} MiB, "
            f"of which the interpreter with its imports {import_only / 2**20:.0f} MiB"
        )


def nothing(data, threads, epochs):
    """Imports what a contestant imports."""
    import forebay  # noqa: F401

    return 0.0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path(".bench"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("what", nargs="*", default=["images", "table", "handover", "memory"])
    options = parser.parse_args()
    if options.one:
        name, data, threads, epochs, extra = json.loads(options.one)
        rate = globals()[name](data, threads, epochs, **extra)
        print(json.dumps({"rate": rate, "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
        return
    prepare(options.data)
    print(f"load before: {os.getloadavg()[0]:.2f}; data warm in the page cache")
    for title in CONTESTS:
        if title.split()[0] in options.what:
            contest(title, options.data, options.threads, options.runs)
    if "memory" in options.what:
        memory(options.data, options.threads)


if __name__ == "__main__":
    main()
