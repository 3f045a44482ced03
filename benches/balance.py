"""Measures how evenly ranks share the cost of a step, and what it costs to balance them and to mix packs.

    make wheel
    python benches/balance.py [even] [rate] [mix] [--ranks 8 64 512] [--rows 4096] [--turns 7]

even   the most expensive rank of a step, divided by the mean of the ranks, as a mean over steps. The lengths are those
       with which `batch_rebalance` of transformers was measured: lognormal, with mean 5 and deviation 1 of the
       logarithm, cut off at 16 and 1,024. Orders are compared in tokens and in their squares: random rows,
       forebay's `balance=`, and, if transformers is installed, its sampler, which also cuts batches of other sizes.
       `padded` is the cost that this sampler evens out: it pads each batch to its longest row
rate   the time of a loader of packs with `balance=`, relative to one without
mix    the time of a mix of three sources of packs, relative to loaders of the sources that deliver one after the
       other, and that take turns batch by batch, in whole epochs. In turns, the rows of all sources pass through the
       processor's caches at the same time, as they do in the mix

`rate` and `mix` take turns, and print the median and the quartiles of the ratios of their turns. `even` reads on one
process: a step's rows are sorted by lane, and each rank would get the rows of its lane.
"""

import argparse
import itertools
import statistics
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
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
#: Epochs of a side in one turn of `rate` and `mix`.
EPOCHS = 10
#: The sizes of batches in which mixes are measured.
BATCHES = (32, 256)
#: Enough that the rows of a mix stay in memory, as those of its sources do.
MEMORY = "16GB"
PACK = fb.Pack("tokens", 2_048, split=False)
SHUFFLE = fb.Shuffle(seed=17, lanes=4, window_rows=65_536)


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


def packed(path, batch, **options):
    return fb.Loader(path, samples=PACK, shuffle=SHUFFLE, batch_size=batch, memory=MEMORY, **options)


def one_by_one(epoch, loaders):
    """The batches of an epoch of all loaders, one loader after the other."""
    return itertools.chain.from_iterable(loader.epoch(epoch) for loader in loaders)


def in_turns(epoch, loaders):
    """The batches of an epoch of all loaders, a batch of each in turn."""
    return itertools.chain.from_iterable(itertools.zip_longest(*(loader.epoch(epoch) for loader in loaders)))


def sources_of(paths, batch):
    return [packed(path, batch) for path in paths], one_by_one


def sources_in_turns(paths, batch):
    return [packed(path, batch) for path in paths], in_turns


def mix_of(paths, batch):
    # All sources end together, so an epoch of the mix has each of their packs once.
    sources = [fb.Loader(path, samples=PACK, shuffle=SHUFFLE) for path in paths]
    weighted = [(source, len(packed(path, batch))) for source, path in zip(sources, paths, strict=True)]
    return [fb.Mix(weighted, batch_size=batch, memory=MEMORY, stop="last", repeat=False)], one_by_one


def plain(paths, batch):
    return [packed(paths[0], batch)], one_by_one


def balanced(paths, batch):
    return [packed(paths[0], batch, balance="tokens")], one_by_one


def spent(side, paths, batch):
    """The seconds and the processor seconds of some epochs of a side's loaders."""
    loaders, batches_of = side(paths, batch)

    def deliver(epochs):
        for epoch in epochs:
            for _ in batches_of(epoch, loaders):
                pass

    deliver([0])
    wall, processor = time.perf_counter(), time.process_time()
    deliver(range(1, 1 + EPOCHS))
    return time.perf_counter() - wall, time.process_time() - processor


def compare(name, one, other, paths, batch, turns):
    """Prints what `one` takes relative to `other`. A loader prepares its next epoch while this one is delivered, and
    beside other loaders too, so each side has a process of its own in each turn."""
    ratios = []
    for turn in range(turns):
        taken = {}
        for side in (one, other) if turn % 2 else (other, one):
            with ProcessPoolExecutor(1, get_context("spawn")) as process:
                taken[side] = process.submit(spent, side, paths, batch).result()
        ratios.append([a / b for a, b in zip(taken[one], taken[other], strict=True)])
    for of, found in zip(("time", "processor time"), zip(*ratios, strict=True), strict=True):
        low, middle, high = statistics.quantiles(found, n=4)
        print(f"{name}, {of}: {middle:.3f} (quartiles {low:.3f} to {high:.3f})", flush=True)


def rate(options, folder):
    paths = [tokens(folder / "rate.parquet", 131_072, 1)]
    compare("balanced packs, relative to packs", balanced, plain, paths, 32, options.turns)


def mix(options, folder):
    means = ((1, 5.0), (5, 4.5), (9, 5.5))
    paths = [tokens(folder / f"{seed}.parquet", 131_072, seed, mean) for seed, mean in means]
    for batch in BATCHES:
        name = f"a mix of packs in batches of {batch}, relative to its sources"
        compare(f"{name} one after the other", mix_of, sources_of, paths, batch, options.turns)
        compare(f"{name} in turns", mix_of, sources_in_turns, paths, batch, options.turns)


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
