"""Compares the answers of a plan with the delivered rows, for any kind of samples, and restores positions
before every batch in fresh processes."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

TOPOLOGIES = 20
QUESTIONS = 50
FOLDERS = 3

#: In a mix, a row is a pair with the number of its source.
Row = Any


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Data sets of several files, each with row groups of its own size."""
    rng = np.random.default_rng(18)
    made = []
    for folder in range(FOLDERS):
        path = tmp_path_factory.mktemp(f"asked{folder}")
        n = 0
        for file in range(2 + folder):
            rows = int(rng.integers(40, 110))
            numbers = np.arange(n, n + rows)
            n += rows
            table = pa.table(
                {
                    "n": numbers,
                    "label": numbers % 5,
                    "t": numbers,
                    "episode": numbers // 23,
                    "tokens": [[int(row)] * int(rng.integers(1, 9)) for row in numbers],
                    "weight": (numbers % 3 + 1).astype(np.float64),
                }
            )
            pq.write_table(table, path / f"{file}.parquet", row_group_size=int(rng.integers(9, 40)))
        made.append(path)
    return made


def kinds() -> dict[str, Any]:
    return {
        "rows": None,
        "windows": fb.Window(3, by="t", within="episode", across="dataset"),
        "packs": fb.Pack("tokens", 16, value=-1),
        "buckets": fb.Bucket("tokens", rows=3),
        "weighted": fb.Sample(by="label"),
    }


class Topology:
    """A run with random options, which can be built for any rank of any world size."""

    def __init__(self, seed: int, folders: list[Path], scratch: Path) -> None:
        self.rng = rng = np.random.default_rng(seed)
        # Every fourth run is a mix.
        self.is_mix = seed % 4 == 3
        self.world = int(rng.integers(1, 5))
        self.global_batch = self.world * int(rng.integers(2, 7))
        self.sources = [self.options(folder, scratch / str(at)) for at, folder in enumerate(folders)]
        self.folders = folders

    def options(self, folder: Path, cache: Path) -> dict[str, Any]:
        rng = self.rng
        names = list(kinds())
        kind = "rows" if self.is_mix else names[int(rng.integers(len(names)))]
        # The tokens of packs identify their rows.
        options: dict[str, Any] = {"row_id": kind != "packs", "drop_last": bool(rng.integers(2))}
        if kind != "rows":
            options["samples"] = kinds()[kind]
        if kind == "buckets":
            options["pad"] = {"tokens": fb.Pad()}
        if rng.integers(2):
            options["filter"] = fb.col("n") % 7 != 3
        if rng.integers(2):
            options["deny"] = {"n": [int(n) for n in rng.integers(0, 60, 5)]}
        if rng.integers(2):
            options["cache"] = fb.DiskCache(cache, max_bytes="1GiB", tier="rows")
        lanes = self.world * int(rng.integers(1, 3))
        shuffles = [
            fb.Shuffle.stored(lanes=lanes),
            fb.Shuffle.exact(seed=int(rng.integers(99)), lanes=lanes),
            fb.Shuffle(seed=int(rng.integers(99)), window_rows=int(rng.integers(5, 90)), lanes=lanes),
        ]
        options["shuffle"] = shuffles[int(rng.integers(3))]
        if self.is_mix:
            # All sources have the same number of lanes.
            options["shuffle"] = fb.Shuffle(seed=int(rng.integers(99)), window_rows=40, lanes=2 * self.world)
            del options["drop_last"]
        return options

    def build(self, rank: int, world: int, threads: int) -> Any:
        run = {
            "shard": fb.Shard(rank=rank, world=world),
            "global_batch_size": self.global_batch,
            "threads": threads,
        }
        if not self.is_mix:
            return fb.Loader(self.folders[0], **self.sources[0], **run)
        sources = [fb.Loader(folder, **options) for folder, options in zip(self.folders, self.sources)]
        weights = [0.5, 0.3, 0.2]
        return fb.Mix(list(zip(sources, weights)), source=True, schedule={4: [0.2, 0.2, 0.6]}, **run)


def delivered(batch: Any) -> list[Row]:
    if "row_id" not in batch:
        return [n for pack in batch["tokens"].tolist() for n in dict.fromkeys(pack) if n >= 0]
    ids = batch["row_id"]
    flat = [int(one) for row in ids for one in np.ravel(row)] if isinstance(ids, fb.Ragged) else ids.ravel().tolist()
    return list(zip(batch["source"].tolist(), flat)) if "source" in batch else flat


def asked(run: Any, step: int, epoch: int, rank: int) -> list[Row]:
    places = run.which(step, epoch=epoch, rank=rank)
    return [(place.source, place.row_id) if hasattr(place, "source") else place.row_id for place in places]


def numbers_of(folder: Path) -> dict[int, int]:
    """Returns the column ``n`` by row id."""
    with fb.Loader(folder, columns=["n"], row_id=True, batch_size=1_000) as loader:
        return {row: n for batch in loader for row, n in zip(batch["row_id"].tolist(), batch["n"].tolist())}


@pytest.mark.parametrize("seed", range(TOPOLOGIES))
def test_what_is_asked_is_what_came(seed: int, folders: list[Path], tmp_path: Path) -> None:
    topology = Topology(seed, folders, tmp_path)
    rng = topology.rng
    came: dict[tuple[int, int, int], list[Row]] = {}
    ranks = [topology.build(rank, topology.world, 1 + rank % 2) for rank in range(topology.world)]
    state = None
    for epoch in range(2):
        epochs = [run.epoch(epoch) for run in ranks]
        saved_at = int(rng.integers(max(len(ranks[0]), 1)))
        for step, batches in enumerate(zip(*epochs, strict=True)):
            for rank, batch in enumerate(batches):
                came[epoch, step, rank] = delivered(batch)
            if (epoch, step) == (1, saved_at):
                state = json.loads(json.dumps(ranks[0].state_dict()))
    assert state is not None
    numbers = numbers_of(folders[0])
    are_packs = not topology.sources[0]["row_id"]
    denied = topology.sources[0].get("deny", {}).get("n", [])
    for run in ranks:
        run.close()
    # These processes did not take part: they have the ranks of the first run and other numbers of threads,
    # and one starts fresh while the other resumes.
    fresh, resumed = (topology.build(0, topology.world, 1) for _ in range(2))
    resumed.load_state_dict(state)
    steps = sorted(came)
    for question in range(QUESTIONS):
        epoch, step, rank = steps[int(rng.integers(len(steps)))]
        run = (fresh, resumed)[question % 2]
        said = asked(run, step, epoch, rank)
        named = [numbers[row] for row in said] if are_packs else said
        assert named == came[epoch, step, rank], (seed, epoch, step, rank)
    if denied and not topology.is_mix:
        rows = {row for batch in came.values() for row in batch}
        assert not (rows if are_packs else {numbers[row] for row in rows}) & set(denied)


#: Five runs: rows, a mix, windows, packs, and rows drawn by class.
CONFIGURATIONS: dict[str, Callable[[], dict[str, Any]]] = {
    "rows": lambda: {"filter": fb.col("n") % 7 != 3, "deny": {"n": [1, 2]}},
    "mix": dict,
    "windows": lambda: {"samples": fb.Window(3, by="t", within="episode", across="file")},
    "packs": lambda: {"samples": fb.Pack("tokens", 9, value=-1, across="dataset")},
    "weighted": lambda: {"samples": fb.Sample(by="label")},
}


def run_of(name: str, folders: list[Path], rank: int, world: int, threads: int) -> Any:
    """Builds a rank of a configuration."""
    # If the last step has fewer samples than ranks, some rank repeats one, and which one depends on the
    # number of ranks.
    run = {"shard": fb.Shard(rank=rank, world=world), "global_batch_size": 24, "threads": threads, "drop_last": True}
    order = fb.Shuffle(seed=5, window_rows=60, lanes=4)
    if name != "mix":
        return fb.Loader(folders[2], shuffle=order, row_id=name != "packs", **CONFIGURATIONS[name](), **run)
    sources = [fb.Loader(folder, shuffle=order, row_id=True) for folder in folders[:2]]
    return fb.Mix(list(zip(sources, (0.7, 0.3))), source=True, **run)


def tails(name: str, folders: list[Path], states: list[Any], world: int, threads: int) -> Iterator[list[list[Row]]]:
    """Returns, for each of the states, the rows of each remaining step of the epoch, over all ranks."""
    for state in states:
        ranks = [run_of(name, folders, rank, world, threads) for rank in range(world)]
        for run in ranks:
            run.load_state_dict(state)
        epochs = [iter(run) for run in ranks]
        yield [sorted(row for batch in step for row in delivered(batch)) for step in zip(*epochs, strict=True)]
        for run in ranks:
            run.close()


def main() -> None:
    """Runs in a fresh process, and restores states that another process saved."""
    told = json.load(sys.stdin)
    folders = [Path(folder) for folder in told["folders"]]
    print(json.dumps(list(tails(told["name"], folders, told["states"], told["world"], told["threads"]))))


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_the_position_before_every_batch_resumes_in_a_fresh_process(name: str, folders: list[Path]) -> None:
    ranks = [run_of(name, folders, rank, 2, 2) for rank in range(2)]
    states, steps = [], []
    epochs = [iter(run) for run in ranks]
    for _ in range(len(ranks[0])):
        states.append(ranks[1].state_dict())
        steps.append(sorted(row for epoch in epochs for row in delivered(next(epoch))))
    for run in ranks:
        run.close()
    assert len(states) > 5
    assert all(len(json.dumps(state)) < 64 << 10 for state in states)
    told = {"name": name, "folders": list(map(str, folders)), "states": states, "world": 3, "threads": 1}
    here = Path(__file__)
    code = f"import sys; sys.path.insert(0, {str(here.parent)!r}); import {here.stem}; {here.stem}.main()"
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(told), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    wanted = [[[list(row) if isinstance(row, tuple) else row for row in step] for step in steps[at:]] for at in range(len(steps))]
    assert found == wanted


def test_a_state_is_small_whatever_the_filter(folders: list[Path]) -> None:
    many = fb.col("n").is_in(list(range(0, 100_000, 2)))
    options: dict[str, Any] = {"filter": many, "shuffle": fb.Shuffle(seed=3), "batch_size": 4}
    with fb.Loader(folders[0], skip_steps=[(at * 2, at * 2 + 1) for at in range(1, 12)], **options) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        assert len(json.dumps(state)) < 64 << 10
        rest = [batch["n"].tolist() for batch in batches]
    with fb.Loader(folders[0], **options) as again:
        again.load_state_dict(state)
        assert [batch["n"].tolist() for batch in again] == rest
    other = fb.col("n").is_in(list(range(0, 100_002, 2)))
    with fb.Loader(folders[0], **{**options, "filter": other}) as again:
        with pytest.raises(fb.StateMismatchError, match=r"saved with filter xxh3-128:\w+, this loader has xxh3-128"):
            again.load_state_dict(state)
    a, b = (fb.Loader(folder, shuffle=fb.Shuffle(seed=1)) for folder in folders[:2])
    with pytest.raises(fb.InvalidError, match=r"20000 weights: 10000 changes of 2 sources .*up to 4000"):
        fb.Mix([(a, 1), (b, 1)], schedule={step + 1: [1, 2] for step in range(10_000)})
