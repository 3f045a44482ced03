"""Two processes share an epoch: each row goes to exactly one of them, in equally many steps.

    forebay synth photos --rows 400
    python examples/ranks.py photos

Real training starts one process for each GPU with torchrun, mpirun or srun, and takes `fb.Shard.from_env()`. Here two
processes of this machine stand for them, and send back what they were given.
"""

from __future__ import annotations

import argparse
import hashlib
import multiprocessing
from collections import Counter

import forebay as fb

WORLD = 2


def main() -> None:
    arguments = parse()
    # The processes are spawned, because threads do not survive a fork.
    with multiprocessing.get_context("spawn").Pool(WORLD) as pool:
        shares = pool.starmap(share, [(arguments.photos, rank, WORLD) for rank in range(WORLD)])
    everything = share(arguments.photos, 0, 1)
    for rank, (steps, rows) in enumerate(shares):
        print(f"rank {rank} of {WORLD}: {steps} steps, {len(rows)} rows")
    together = Counter(row for _, rows in shares for row in rows)
    assert together == Counter(everything[1]), "a row was lost or delivered twice"
    assert len({steps for steps, _ in shares}) == 1, "one rank would wait for the other"
    print(f"together: {together.total()} rows, each exactly once")


def share(photos: str, rank: int, world: int) -> tuple[int, list[str]]:
    """Returns the number of steps of a rank in an epoch, and the hashes of the pictures that it got."""
    with fb.Loader(
        photos,
        columns=["image"],
        batch_size=32 // world,
        shuffle=fb.Shuffle(seed=17, lanes=WORLD),
        shard=fb.Shard(rank=rank, world=world),
    ) as train:
        rows = [hashlib.sha256(image).hexdigest() for batch in train for image in batch["image"]]
        return len(train), rows


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", help="folder of a data set")
    return parser.parse_args()


if __name__ == "__main__":
    main()
