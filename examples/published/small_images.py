"""Epochs over tiny images, the shapes of MNIST and CIFAR-10, in a loop of numpy.

    python examples/published/small_images.py [--scale 1]

Published: Petastorm's example for PyTorch (https://github.com/uber/petastorm/tree/master/examples/mnist) writes MNIST
to Parquet, 60,000 images of 28 x 28, and trains 10 epochs in batches of 64. It states no rate, so what is compared
here is the loading alone, with what one would write by hand; CIFAR-10 (50,000 of 32 x 32 x 3) beside it. With images
this small it is the cost of each row that counts, and not of its pixels.

All read the same Parquet files of PNG from a local disk, mix row groups and the rows in them, and give uint8 batches of
64 with their labels; the loop adds up labels and pixels, and the sums have to agree:

by hand          pyarrow, `PIL.Image.open` row by row, `np.stack`
by hand, pool    the same with Pillow in a pool of threads
forebay          the PNG files decoded each epoch
forebay, pixels  `fb.DiskCache(tier="pixels")`: decoded in the first epoch, which is not timed
"""

from __future__ import annotations

import io
import json
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from common import apart, conditions, drawn, middle, missing, parser, table

SETS = {"MNIST": (60_000, 28, 1), "CIFAR-10": (50_000, 32, 3)}  # rows, side, channels
NEEDS = {
    "by hand": ["pyarrow", "PIL"],
    "by hand, pool": ["pyarrow", "PIL"],
    "forebay": ["forebay"],
    "forebay, pixels": ["forebay"],
}
BATCH = 64
Batches = Iterator[tuple[np.ndarray, np.ndarray]]


def by_hand(data: Path, side: int, channels: int, pool: ThreadPoolExecutor | None, number: int) -> Batches:
    """Yields the batches of an epoch, read by pyarrow and Pillow without a loader."""
    import pyarrow.parquet as pq
    from PIL import Image

    def pixels(blob: bytes) -> np.ndarray:
        image = np.asarray(Image.open(io.BytesIO(blob)).convert("L" if channels == 1 else "RGB"))
        return image.reshape(side, side, channels)

    random = np.random.default_rng(number)
    files = [pq.ParquetFile(file) for file in sorted(data.glob("*.parquet"))]
    groups = [(file, group) for file in files for group in range(file.num_row_groups)]
    for at in random.permutation(len(groups)):
        file, group = groups[at]
        read = file.read_row_group(group, columns=["image", "label"])
        blobs, labels = read["image"].to_pylist(), read["label"].to_numpy()
        mixed = random.permutation(len(blobs))
        for start in range(0, len(mixed), BATCH):
            rows = mixed[start : start + BATCH]
            some = [blobs[row] for row in rows]
            yield np.stack(list(pool.map(pixels, some) if pool else map(pixels, some))), labels[rows]


def loaded(train: Any) -> Batches:
    """Yields the batches of an epoch of forebay."""
    return ((batch["image"], batch["label"]) for batch in train)


def work(who: str, data: str, side: int, channels: int, threads: int, epochs: int) -> dict[str, Any]:
    """Returns the seconds of each epoch after the first, and the sums of the pixels and labels of the last one."""
    with tempfile.TemporaryDirectory() as folder:
        if who.startswith("forebay"):
            import forebay as fb

            image = fb.Image.resize(side, side)
            train = fb.Loader(
                data,
                columns=["image", "label"],
                decode={"image": image.grayscale() if channels == 1 else image},
                batch_size=BATCH,
                shuffle=fb.Shuffle(seed=17),
                threads=threads,
                cache=fb.DiskCache(f"{folder}/cache", max_bytes="2GB", tier="pixels") if "pixels" in who else None,
            )
        pool = ThreadPoolExecutor(threads) if "pool" in who else None
        seconds = []
        for number in range(epochs + 1):
            began, rows, total = time.perf_counter(), 0, np.zeros(2, np.int64)
            ours = loaded(train) if who.startswith("forebay") else by_hand(Path(data), side, channels, pool, number)
            for images, labels in ours:
                assert images.shape[1:] == (side, side, channels)
                rows += len(labels)
                total += int(images.sum()), int(labels.sum())
            seconds.append(time.perf_counter() - began)
        if who.startswith("forebay"):
            train.close()
    return {"rows": rows, "pixels": int(total[0]), "labels": int(total[1]), "seconds": seconds[1:]}


def main() -> None:
    built = parser(__doc__, scale=0.05)
    built.add_argument("--epochs", type=int, default=3, help="that are timed, after a first one")
    built.add_argument("--runs", type=int, default=1, help="in turns; medians are printed")
    built.add_argument("--one", help="for the script itself: the task of one process")
    options = built.parse_args()
    if options.one:
        print(json.dumps(work(*json.loads(options.one))))
        return
    conditions()
    names = []
    for name, modules in NEEDS.items():
        lacks = missing(modules)
        print(f"{name}: left out, {', '.join(lacks)} not installed") if lacks else names.append(name)
    lines = []
    for title, (published, side, channels) in SETS.items():
        rows = max(BATCH, round(published * options.scale))
        runs: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
        with drawn(options.data, title.lower(), rows, "--png", "--image", f"{side}x{side}") as data:
            for _ in range(options.runs):
                for name in names:
                    runs[name].append(apart([name, str(data), side, channels, options.threads, options.epochs], {}))
        sums = [found for name in names for found in runs[name]]
        assert all(found["rows"] == rows for found in sums), "a row was lost or delivered twice"
        assert len({found["labels"] for found in sums}) == 1, "not the same rows"
        # Pillow rounds grey levels differently, so the sums may differ by half a level for each pixel.
        spread = max(found["pixels"] for found in sums) - min(found["pixels"] for found in sums)
        assert spread <= (rows * side * side / 2 if channels == 1 else 0), "not the same pixels"
        for name in names:
            seconds = [second for found in runs[name] for second in found["seconds"]]
            rates = [rows / second for second in seconds]
            lines.append([f"{title}, {rows:,}", name, middle([1 / s for s in seconds], "{:.2f}"), middle(rates)])
    table(["data", "loader"], ["epochs/s", "images/s"], lines)


if __name__ == "__main__":
    main()
