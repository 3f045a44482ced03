"""Caltech-256 through Petastorm, with and without its cache on local disk, beside forebay.

    cargo build --release --workspace
    python examples/published/petastorm_cache.py [--scale 0.1] [--python petastorm=PATH]

Published: "How (Not) To Scale Deep Learning in 6 Easy Steps" (Databricks, Sean Owen, 2019, revised 2021,
https://www.databricks.com/blog/2019/08/15/how-not-to-scale-deep-learning-in-6-easy-steps.html) trains on Caltech-256:
30,607 images in 257 classes, brought to 299 x 299 and written to Parquet. An epoch over a tenth of them in memory takes
18 s; over all of them through Petastorm, from cloud storage, 208 s: "The extra overhead comes from the I/O". What a
cache on local disk is worth for Petastorm was published later (https://arxiv.org/abs/2604.21275): together with
transforms in the workers and orderly queues it brought a training from 22 hours to 3.

Here the loading alone is repeated: some epochs as fast as it goes, from a store 30 ms away (p99 300 ms) over a link of
25 MB/s. Both read the same Parquet files and deliver shuffled uint8 batches of 64 x 299 x 299 x 3:

petastorm  `make_batch_reader`, images decoded by Pillow in its pool of ten threads, as many as it has by default; its
           batches are row groups, so they are taken apart to rows and batched again. `cache_type="local-disk"` keeps
           what the workers give: pixels. The read-ahead of s3fs is off: with it the store sends several times as much
forebay    no cache; `fb.DiskCache`, which keeps files and turns to pixels where that pays; pixels from the start

Both prepare the next epoch before the present one ends, so the time of all epochs is the one to compare. Bytes are
counted by the store. A library that is not installed is left out, and named. `--python petastorm=PATH` gives it an
interpreter of its own: Petastorm 0.13 reads from S3 with pyarrow 10, numpy 1, pandas 1 and s3fs.
"""

from __future__ import annotations

import importlib
import io
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from typing import Any

from common import (
    FAR,
    URL,
    apart,
    conditions,
    drawn,
    memory_for,
    middle,
    missing,
    parser,
    sent,
    served,
    stored_bytes,
    table,
)

PUBLISHED_ROWS, CLASSES, SIDE = 30_607, 257, 299
WORKERS = 10  # of Petastorm: they wait for the store as well as they decode
NEEDS = {"forebay": ["forebay"], "petastorm": ["petastorm", "s3fs", "PIL"]}
WAYS = [
    ("petastorm", "none"),
    ("petastorm", "local-disk"),
    ("forebay", "none"),
    ("forebay", "auto"),
    ("forebay", "pixels"),
]
CACHE_BYTES = 20 * 10**9


def forebay(cache: Any, memory: int, batch: int, threads: int, epochs: int, folder: str) -> Iterator[int]:
    """Yields the number of rows of each batch, epoch after epoch."""
    import forebay as fb

    with fb.Loader(
        URL,
        columns=["image", "label"],
        decode={"image": fb.Image.resize(SIDE, SIDE)},
        batch_size=batch,
        shuffle=fb.Shuffle(seed=17),
        threads=threads,
        memory=memory,
        cache=None if cache == "none" else fb.DiskCache(folder, max_bytes=CACHE_BYTES, tier=cache),
    ) as train:
        for _ in range(epochs):
            for one in train:
                assert one["image"].shape[1:] == (SIDE, SIDE, 3)
                yield len(one["label"])


def petastorm(cache: str, memory: int, batch: int, threads: int, epochs: int, folder: str) -> Iterator[int]:
    """Yields the same for Petastorm. One reader reads all epochs, because closing a reader deletes its cache."""
    import numpy as np
    from petastorm import TransformSpec, make_batch_reader
    from PIL import Image

    def pixels(blob: bytes) -> Any:
        image = Image.open(io.BytesIO(blob)).convert("RGB")
        return np.array(image if image.size == (SIDE, SIDE) else image.resize((SIDE, SIDE), Image.BILINEAR))

    def transform(frame: Any) -> Any:
        frame["image"] = frame["image"].map(pixels)
        return frame

    fields = [("image", np.uint8, (SIDE, SIDE, 3), False)]
    kept = {
        "cache_type": "local-disk",
        "cache_location": folder,
        "cache_size_limit": CACHE_BYTES,
        "cache_row_size_estimate": SIDE * SIDE * 3,
    }
    with make_batch_reader(
        URL,
        workers_count=WORKERS,
        transform_spec=TransformSpec(transform, edit_fields=fields, selected_fields=["image", "label"]),
        num_epochs=epochs,
        storage_options={"default_cache_type": "none"},
        shuffle_row_groups=True,
        seed=17,
        **({} if cache == "none" else kept),
    ) as reader:
        rows = ((image, label) for group in reader for image, label in zip(group.image, group.label))
        for some in batched(rows, batch):
            images, labels = (np.stack(column) for column in zip(*some))
            assert images.shape[1:] == (SIDE, SIDE, 3)
            yield len(labels)


def batched(rows: Iterable[Any], size: int) -> Iterator[list[Any]]:
    """Yields lists of `size` rows; the last list has the remaining rows."""
    held: list[Any] = []
    for row in rows:
        held.append(row)
        if len(held) == size:
            yield held
            held = []
    if held:
        yield held


def work(
    library: str, cache: str, memory: int, rows: int, batch: int, threads: int, epochs: int
) -> list[tuple[int, float, int]]:
    """Returns the rows, the seconds and the bytes sent by the store in each epoch; the first includes opening."""
    laps = []
    importlib.import_module(library)
    with tempfile.TemporaryDirectory() as folder:
        began, before, owed, seen = time.perf_counter(), sent(), rows, 0
        for count in globals()[library](cache, memory, batch, threads, epochs, f"{folder}/cache"):
            seen += count
            if seen >= owed:
                now, bytes_sent = time.perf_counter(), sent()
                laps.append((seen - owed + rows, now - began, bytes_sent - before))
                began, before, owed = now, bytes_sent, owed + rows
    assert seen == rows * epochs, f"{seen} rows of {rows * epochs}"
    return laps


def main() -> None:
    built = parser(__doc__, scale=0.01)
    built.add_argument("--epochs", type=int, default=3, help="two or more")
    built.add_argument("--batch-size", type=int, default=64)
    built.add_argument("--rate-mb", default="25", help="the link, in megabytes a second")
    built.add_argument("--runs", type=int, default=1, help="in turns; medians are printed")
    built.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help="interpreter of a library")
    built.add_argument("--one", help="for the script itself: the task of one contestant")
    options = built.parse_args()
    if options.one:
        print(json.dumps(work(*json.loads(options.one))))
        return
    python = dict(pair.split("=", 1) for pair in options.python)
    lacks = {name: missing(needs, python.get(name, sys.executable)) for name, needs in NEEDS.items()}
    for name, absent in lacks.items():
        if absent:
            print(f"{name}: left out, {', '.join(absent)} not installed")
    rows = max(options.batch_size, round(PUBLISHED_ROWS * options.scale))
    words = ["--classes", str(CLASSES), "--image", f"{SIDE}x{SIDE}"]
    ways = [(library, cache) for library, cache in WAYS if not lacks[library]]
    found: dict[tuple[str, str], list[Any]] = {way: [] for way in ways}
    with drawn(options.data, "caltech", rows, *words) as data:
        size = stored_bytes(data)
        print(f"{rows:,} images of {size / rows / 1e3:.0f} KB, {size / 1e6:,.0f} MB; a link of {options.rate_mb} MB/s;")
        conditions()
        for _ in range(options.runs):
            for way in ways:
                task = [*way, memory_for(size), rows, options.batch_size, options.threads, options.epochs]
                with served(options.server, data, *FAR, "--rate-mb", options.rate_mb) as environment:
                    found[way].append(apart(task, environment, python.get(way[0], sys.executable)))
    lines = []
    for way, runs in found.items():
        first = [run[0][1] for run in runs]
        later, remote = ([statistics.mean(lap[of] for lap in run[1:]) for run in runs] for of in (1, 2))
        every = [sum(lap[1] for lap in run) for run in runs]
        seconds = (middle(values, "{:.1f}") for values in (first, later, every))
        rate = middle([rows * options.epochs / seconds for seconds in every])
        lines.append([*way, *seconds, rate, middle([count / 1e6 for count in remote], "{:,.1f}")])
    figures = ["epoch 1, s", "each later, s", f"all {options.epochs}, s", "images/s, all", "MB sent, each later"]
    table(["library", "cache"], figures, lines)


if __name__ == "__main__":
    main()
