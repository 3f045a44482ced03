"""One data set shared by 1, 2, 4 and 8 ranks: the rows that each of them gets, and the bytes that it reads.

    cargo build --release --workspace
    python examples/published/rank_shares.py [--scale 0.1] [--worlds 1 2 4 8]

Published: "How (Not) To Scale Deep Learning in 6 Easy Steps" (Databricks, Sean Owen, 2019, revised 2021,
https://www.databricks.com/blog/2019/08/15/how-not-to-scale-deep-learning-in-6-easy-steps.html) shares out Caltech-256
(30,607 images) by Petastorm's `cur_shard` and `shard_count`, under Horovod: 208 s an epoch on one GPU, 52 s on four of
a machine; the whole training 42 minutes on one, 7.3 on four, 5.7 on eight machines of one each.

There the GPUs are what there is more of. Here all ranks are processes of one machine, with as many processors between
them as one had alone, so the rate cannot rise by their number. What can be shown is the sharing: over all ranks each
row once, in equally many steps, and what each reads from the store (30 ms away, p99 300 ms, 50 MB/s between them), in
shares of the data set: what it fetches ahead for the next epoch included. With a cache that all of them share, each row
group is fetched once for all; what the store sends beyond that are second requests for answers that were late.
"""

from __future__ import annotations

import multiprocessing
import os
import tempfile
import time
import zlib
from collections import Counter
from multiprocessing.synchronize import Barrier
from typing import Any

from common import FAR, URL, conditions, drawn, memory_for, middle, parser, sent, served, stored_bytes, table

import forebay as fb

PUBLISHED_ROWS, CLASSES, SIDE = 30_607, 257, 299
GLOBAL_BATCH = 64
LINK = "50"
EPOCHS = 2
PATIENCE = 300  # seconds that a rank waits for the others


def loader(where: str, memory: int, rank: int, world: int, threads: int, cache: str | None) -> fb.Loader:
    return fb.Loader(
        where,
        columns=["image", "label"],
        decode={"image": fb.Image.resize(SIDE, SIDE)},
        batch_size=GLOBAL_BATCH // world,
        shuffle=fb.Shuffle(seed=17),
        shard=fb.Shard(rank=rank, world=world),
        threads=max(1, threads // world),
        memory=memory // world,
        cache=None if cache is None else fb.DiskCache(cache, max_bytes="20GB", tier="rows"),
    )


def share(memory: int, rank: int, world: int, threads: int, cache: str | None, together: Barrier, results: Any) -> None:
    """Reads all epochs as one rank, and sends a record of each; checksums of their pixels identify the rows."""
    with loader(URL, memory, rank, world, threads, cache) as train:
        laps = []
        for _ in range(EPOCHS):
            together.wait(PATIENCE)
            before, began, steps, rows = sent(), time.perf_counter(), 0, []
            for batch in train:
                steps += 1
                rows += [zlib.crc32(image) for image in batch["image"]]
            took = time.perf_counter() - began
            together.wait(PATIENCE)
            read = train.stats().to_dict()["traffic"]["bytes_read"]
            laps.append({"steps": steps, "rows": rows, "seconds": took, "read": read, "sent": sent() - before})
        assert all(lap["steps"] == len(train) for lap in laps)
        results.put(laps)


def run(memory: int, world: int, threads: int, cache: str | None) -> list[list[dict[str, Any]]]:
    """Returns the records of each rank's epochs; every rank runs in a process of its own."""
    # The processes are spawned, because threads do not survive a fork.
    spawn = multiprocessing.get_context("spawn")
    results, together = spawn.Queue(), spawn.Barrier(world)
    about = (world, threads, cache, together, results)
    ranks = [spawn.Process(target=share, args=(memory, rank, *about)) for rank in range(world)]
    for process in ranks:
        process.start()
    laps = [results.get(timeout=PATIENCE * EPOCHS) for _ in ranks]
    for process in ranks:
        process.join()
    return laps


def once(laps: list[list[dict[str, Any]]], everything: Counter[int], epoch: int) -> bool:
    """Whether the ranks together got every row in an epoch, with fewer repeated rows than ranks."""
    given = Counter(row for rank in laps for row in rank[epoch]["rows"])
    return set(given) == set(everything) and given.total() - everything.total() < len(laps)


def main() -> None:
    built = parser(__doc__, scale=0.01)
    built.add_argument("--worlds", type=int, nargs="+", default=[1, 2, 4], help="numbers of ranks")
    built.add_argument("--runs", type=int, default=1, help="in turns; medians are printed")
    options = built.parse_args()
    rows = max(GLOBAL_BATCH, round(PUBLISHED_ROWS * options.scale))
    words = ["--classes", str(CLASSES), "--image", f"{SIDE}x{SIDE}"]
    found: dict[tuple[int, bool], list[list[list[dict[str, Any]]]]] = {}
    with drawn(options.data, "caltech", rows, *words) as data:
        size = stored_bytes(data)
        memory = memory_for(size)  # of all ranks together
        print(f"{rows:,} images, {size / 1e6:,.0f} MB, global batches of {GLOBAL_BATCH}, a link of {LINK} MB/s;")
        conditions()
        with loader(str(data), memory, 0, 1, options.threads, None) as alone:
            everything = Counter(zlib.crc32(image) for batch in alone for image in batch["image"])
        for _ in range(options.runs):
            for world in options.worlds:
                for shared in (False, True):
                    with (
                        tempfile.TemporaryDirectory() as folder,
                        served(options.server, data, *FAR, "--rate-mb", LINK) as environment,
                    ):
                        os.environ.update(environment, XDG_CACHE_HOME=folder)
                        laps = run(memory, world, options.threads, f"{folder}/cache" if shared else None)
                    for epoch in range(EPOCHS):
                        assert once(laps, everything, epoch), "a row was lost or delivered twice"
                        assert len({rank[epoch]["steps"] for rank in laps}) == 1, "one rank would wait for the other"
                    found.setdefault((world, shared), []).append(laps)
    lines = []
    for (world, shared), runs in found.items():
        steps = runs[0][0][0]["steps"]
        rates = [[rows / max(rank[epoch]["seconds"] for rank in laps) for laps in runs] for epoch in range(EPOCHS)]
        each = [rank[0]["read"] / size for laps in runs for rank in laps]
        stores = [[max(rank[epoch]["sent"] for rank in laps) / size for laps in runs] for epoch in range(EPOCHS)]
        shares = [middle(values, "{:.2f}") for values in (each, *stores)]
        lines.append([str(world), "shared" if shared else "none", str(steps), *map(middle, rates), *shares])
    figures = ["steps", "images/s, epoch 1", "epoch 2", "read by a rank, epoch 1", "sent to all, epoch 1", "epoch 2"]
    table(["ranks", "cache"], figures, lines)
    print(f"\neach of {rows:,} rows exactly once over the ranks, in equally many steps: in every epoch of every line")


if __name__ == "__main__":
    main()
