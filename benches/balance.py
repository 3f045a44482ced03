"""Measures how evenly ranks share the cost of a step, and what it costs to balance them and to mix packs.

    make wheel
    python benches/balance.py [even] [rate] [mix] [--ranks 8 64 512] [--rows 4096] [--turns 7]

even   the most expensive rank of a step, divided by the mean of the ranks, as a mean over steps. The lengths are those
       with which `batch_rebalance` of transformers was measured: lognormal, with mean 5 and deviation 1 of the
       logarithm, cut off at 16 and 1,024. Orders are compared in tokens and in their squares: random rows,
       forebay's `balance=`, and, if transformers is installed, its sampler, which also cuts batches of other sizes.
       `padded` is the cost that this sampler evens out: it pads each batch to its longest row
rate   packs a second of a loader, with and without `balance=`
mix    packs a second of a mix of three sources, and of the sources by themselves, in whole epochs

`rate` and `mix` take turns, and print the median and the range of the ratios of their turns. `even` reads on one
process: a step's rows are sorted by lane, and each rank would get the rows of its lane.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import forebay as fb

BATCH = 8
#: Row groups that a lane mixes, and that it reads in all.
WINDOW, GROUPS = 8, 24
#: The most steps in which orders are measured.
STEPS = 1_000
#: Steps in which the sampler of transformers is measured.
SAMPLED = {8: 500, 64: 200, 512: 40}
#: The squared term of the cost that this sampler evens out.
SQUARED = 0.001


def lengths(count, seed):
    drawn = np.random.default_rng(seed).lognormal(5.0, 1.0, count)
    return np.clip(drawn.astype(np.int32), 16, 1024)


def costs(ranks):
    """The three costs of each rank in a step; ``ranks`` has the lengths of its rows."""
    ranks = [of_rank.astype(np.float64) for of_rank in ranks]
    padded = [of_rank.max() for of_rank in ranks]
    return np.array(
        [
            [of_rank.sum() for of_rank in ranks],
            [(of_rank**2).sum() for of_rank in ranks],
            [len(of_rank) * (most + SQUARED * most**2) for of_rank, most in zip(ranks, padded, strict=True)],
        ]
    )


def unevenness(steps):
    """For each cost, the largest of a step divided by its mean, as a mean over the steps."""
    found = map(costs, itertools.islice(steps, STEPS))
    ratios = [of_step.max(axis=1) / of_step.mean(axis=1) for of_step in found]
    return np.mean(ratios, axis=0)


def of_forebay(path, ranks, rows, is_balanced):
    """The lengths of each rank's rows, step by step."""
    costs = [fb.col("length"), fb.col("length") * fb.col("length")]
    shuffle = fb.Shuffle(seed=17, lanes=ranks, window_rows=ranks * WINDOW * rows)
    options = {"balance": costs} if is_balanced else {}
    with fb.Loader(path, global_batch_size=ranks * BATCH, shuffle=shuffle, memory="8GB", **options) as loader:
        # Later epochs begin with a full window.
        for batch in loader.epoch(1):
            if len(batch["length"]) == ranks * BATCH:
                yield batch["length"].reshape(ranks, BATCH)


def of_transformers(drawn, ranks):
    from transformers.trainer_pt_utils import BatchRebalanceSampler

    step = ranks * BATCH
    used = drawn[: SAMPLED.get(ranks, 3) * step].tolist()
    sampler = BatchRebalanceSampler(used, step, dp_size=ranks, grad_accum=1)
    order = np.random.default_rng(1).permutation(len(used)).tolist()
    for begin in range(0, len(order), step):
        rows = order[begin : begin + step]
        assigned = sampler._assign(rows, [used[row] for row in rows])
        yield [np.array([used[row] for row in of_rank[0]]) for of_rank in assigned]


def window_bound(path, ranks, rows):
    """A bound on the evenness of any order that mixes rows within lanes: the most expensive lane of a window of rows,
    divided by the mean of the lanes, if row groups are dealt to lanes at random."""
    drawn = pq.read_table(path)["length"].to_numpy().astype(np.float64)
    lanes = drawn[: len(drawn) // (ranks * WINDOW * rows) * ranks * WINDOW * rows].reshape(-1, ranks, WINDOW * rows)
    return [np.mean([one.sum(axis=1).max() / one.sum(axis=1).mean() for one in lanes**power]) for power in (1, 2)]


def even(options, folder):
    print("| ranks | order | tokens | squares | padded |\n|---:|---|---:|---:|---:|")
    for ranks in options.ranks:
        drawn = lengths(ranks * GROUPS * options.rows, 7)
        path = folder / "lengths.parquet"
        pq.write_table(pa.table({"length": drawn}), path, row_group_size=options.rows)
        orders = {
            "random": lambda ranks=ranks, drawn=drawn: (
                np.random.default_rng(3)
                .permutation(drawn)[: len(drawn) // (ranks * BATCH) * ranks * BATCH]
                .reshape(-1, ranks, BATCH)[:500]
            ),
            "batch_rebalance": lambda ranks=ranks, drawn=drawn: of_transformers(drawn, ranks),
            "forebay, balance=": lambda ranks=ranks, path=path: of_forebay(path, ranks, options.rows, True),
        }
        for name, order in orders.items():
            try:
                found = unevenness(order())
            except ImportError:
                continue
            print(f"| {ranks} | {name} | {' | '.join(f'{ratio:.3f}' for ratio in found)} |", flush=True)
        tokens, squares = window_bound(path, ranks, options.rows)
        print(f"| {ranks} | a window of rows, row groups at random | {tokens:.3f} | {squares:.3f} | |", flush=True)


def tokens(path, rows, seed, mean=5.0):
    """Writes token lists with lognormal lengths."""
    drawn = np.clip(np.random.default_rng(seed).lognormal(mean, 1.0, rows).astype(np.int64), 16, 1024)
    ends = np.concatenate([[0], drawn.cumsum()])
    values = np.random.default_rng(seed + 1).integers(0, 50_000, ends[-1], np.int32)
    lists = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(values))
    pq.write_table(pa.table({"tokens": lists}), path, row_group_size=4_096)
    return path


def packed(path, **options):
    pack = fb.Pack("tokens", 2_048, split=False)
    shuffle = fb.Shuffle(seed=17, lanes=4, window_rows=65_536)
    return fb.Loader(path, samples=pack, shuffle=shuffle, **options)


def seconds(loader, epoch):
    """The seconds and the processor seconds of an epoch."""
    wall, processor = time.perf_counter(), time.process_time()
    for _ in loader.epoch(epoch):
        pass
    return time.perf_counter() - wall, time.process_time() - processor


def report(name, ratios):
    for of, found in zip(("time", "processor time"), zip(*ratios, strict=True), strict=True):
        low, middle, high = min(found), statistics.median(found), max(found)
        print(f"{name}, {of}: {middle:.3f} ({low:.3f} to {high:.3f})", flush=True)


def rate(options, folder):
    path = tokens(folder / "tokens.parquet", 131_072, 1)
    plain, balanced = packed(path, batch_size=32), packed(path, batch_size=32, balance="tokens")
    both = (plain, balanced)
    for loader in both:
        seconds(loader, 0)
    ratios = []
    for turn in range(options.turns):
        taken = {}
        for loader in both if turn % 2 else reversed(both):
            taken[loader] = seconds(loader, turn + 1)
        ratios.append([b / a for a, b in zip(taken[plain], taken[balanced], strict=True)])
    report("balanced packs, relative to packs", ratios)


def mix(options, folder):
    paths = [tokens(folder / f"{seed}.parquet", 65_536, seed, mean) for seed, mean in ((1, 5.0), (5, 4.5), (9, 5.5))]
    sources = [packed(path, batch_size=32) for path in paths]
    # All sources end together, so an epoch of the mix has each of their packs once.
    weighted = [(packed(path), len(source)) for path, source in zip(paths, sources, strict=True)]
    mixed = fb.Mix(weighted, batch_size=32, stop="last", repeat=False)
    sides = {"mix": [mixed], "alone": sources}
    for loader in (mixed, *sources):
        seconds(loader, 0)
    ratios = []
    for turn in range(options.turns):
        taken = {}
        for side in sides if turn % 2 else reversed(sides):
            taken[side] = np.sum([seconds(loader, turn + 1) for loader in sides[side]], axis=0)
        ratios.append(taken["mix"] / taken["alone"])
    report("a mix of packs, relative to its sources by themselves", ratios)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", choices=[[], "even", "rate", "mix"])
    parser.add_argument("--ranks", nargs="+", type=int, default=[8, 64, 512])
    parser.add_argument("--rows", type=int, default=4_096, help="rows of a row group")
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        for name, run in (("even", even), ("rate", rate), ("mix", mix)):
            if not options.parts or name in options.parts:
                run(options, Path(folder))


if __name__ == "__main__":
    main()
