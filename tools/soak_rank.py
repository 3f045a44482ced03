"""The processes of tools/soak: a rank that is killed, and a steady one that records the resources that it
holds.

    soak_rank.py kind RANK WORLD FOLDER LOG [STATE]

A line of JSON is written to LOG for each batch of a rank (epoch, ids, state), and for each round of the steady one (what it
held when all of its loaders were closed).
"""

from __future__ import annotations

import gc
import hashlib
import json
import os
import random
import sys
import threading
import time
from pathlib import Path
from typing import Any, TextIO

import numpy as np

import forebay as fb

#: The number of rows of each source, and its weight in the mix. A step of BATCH rows has no padding on any
# number of ranks.
SOURCES = {"many": (4320, 3), "few": (1440, 1)}
ROWS = sum(rows for rows, _ in SOURCES.values())
BATCH = 120
LANES = 8

#: The cache has room for about half of the rows, so that the store is read in each epoch.
CACHE_BYTES = "6MB"


def cell(number: int) -> bytes:
    """Returns the content of the row with this number."""
    return hashlib.sha256(b"%d" % number).digest() * 64


def checked(batch: dict[str, Any]) -> dict[str, Any]:
    """The transform, which checks that the rows have the written content."""
    for number, held in zip(batch["id"].tolist(), batch["cell"], strict=True):
        if bytes(held) != cell(number):
            raise AssertionError(f"row {number} has other bytes than were written")
    return {"id": np.array(batch["id"])}


def loader(folder: Path, rank: int, world: int) -> fb.Mix:
    order = fb.Shuffle(seed=17, window_rows=200, lanes=LANES)
    cache = fb.DiskCache(folder / "cache", max_bytes=CACHE_BYTES, tier="rows")
    return fb.Mix(
        [(fb.Loader(f"s3://{name}/", shuffle=order, cache=cache), weight) for name, (_, weight) in SOURCES.items()],
        global_batch_size=BATCH,
        stop="last",
        repeat=False,
        shard=fb.Shard(rank=rank, world=world),
        memory="64MB",
        threads=1,
        transform=checked,
        transform_workers=1,
    )


def run_rank(folder: Path, log: TextIO, rank: int, world: int, state: Path | None) -> None:
    """Delivers epoch after epoch until it is killed."""
    train = loader(folder, rank, world)
    if state is not None:
        train.load_state_dict(json.loads(state.read_text()))
    while True:
        epoch = iter(train)
        for batch in epoch:
            write(log, {"epoch": epoch.number, "ids": batch["id"].tolist(), "state": train.state_dict()})


def run_steady(folder: Path, log: TextIO) -> None:
    """Opens a loader, delivers an epoch, leaves another early and closes it, until its standard input ends."""
    stopped = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), stopped.set()), daemon=True).start()
    rng = random.Random(17)
    while not stopped.is_set():
        steady_round(folder, rng)
        gc.collect()
        write(log, held())


def steady_round(folder: Path, rng: random.Random) -> None:
    """Runs one round in a function, so that its values are dropped when it returns."""
    with loader(folder, 0, 1) as train:
        found = [number for batch in train for number in batch["id"].tolist()]
        if sorted(found) != list(range(ROWS)):
            raise AssertionError(f"{ROWS} rows came as {len(found)}, {len(set(found))} of them different")
        left = iter(train)
        for _ in range(rng.randrange(1, ROWS // BATCH)):
            next(left)


def held() -> dict[str, Any]:
    """Returns the resources that the kernel counts for this process."""
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    files = [os.readlink(f"/proc/self/fd/{fd}") for fd in os.listdir("/proc/self/fd") if is_open(fd)]
    return {
        "at": time.time(),
        "bytes": 1024 * sum(int(status[name].split()[0]) for name in ("RssAnon", "RssShmem")),
        "threads": int(status["Threads"]),
        "handles": len([file for file in files if not is_segment(file)]),
        "segments": len([file for file in files if is_segment(file)]),
        "children": len(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()),
    }


def is_open(fd: str) -> bool:
    """Whether a listed descriptor is still open: the one that was used to make the list is closed by now."""
    return os.path.lexists(f"/proc/self/fd/{fd}")


def is_segment(file: str) -> bool:
    return file.startswith(("/memfd:", "/dev/shm/"))


def write(log: TextIO, line: dict[str, Any]) -> None:
    log.write(json.dumps(line) + "\n")
    log.flush()


def main(kind: str, rank: str, world: str, folder: str, log: str, state: str | None = None) -> None:
    with open(log, "a") as file:
        if kind == "steady":
            run_steady(Path(folder), file)
        else:
            run_rank(Path(folder), file, int(rank), int(world), state and Path(state))


if __name__ == "__main__":
    main(*sys.argv[1:])
