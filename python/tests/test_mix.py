"""Mixes of data sets: their weights, the end of an epoch, the order, states, and the options of a loader."""

from __future__ import annotations

import json
import pickle
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

# The numbers of rows of the two sources, in row groups of 50.
SIZES = (1_000, 300)

Row = tuple[int, int]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Two data sets with one schema."""
    root = tmp_path_factory.mktemp("mix")
    for name, rows in zip("ab", SIZES, strict=True):
        (root / name).mkdir()
        table = pa.table({"id": pa.array(range(rows), pa.int64()), "of": pa.array([name] * rows)})
        pq.write_table(table, root / name / "part.parquet", row_group_size=50)
    return root / "a", root / "b"


def mixed(folders: Iterable[Path], weights: tuple[float, ...] = (0.7, 0.3), **options: Any) -> fb.Mix:
    """Returns a mix of shuffled loaders, in batches of 10."""
    lanes = options.pop("lanes", None)
    loaders = [
        fb.Loader(folder, shuffle=fb.Shuffle(seed=number, window_rows=120, lanes=lanes), row_id=True)
        for number, folder in enumerate(folders)
    ]
    sizes: dict[str, Any] = {} if "global_batch_size" in options else {"batch_size": 10}
    given = {**sizes, "source": True, "threads": 2, "memory": "64MB", **options}
    mix = fb.Mix(list(zip(loaders, weights, strict=True)), **given)
    for loader in loaders:
        loader.close()
    return mix


def rows(batch: Any) -> list[Row]:
    """Returns the rows of a batch as pairs of source and number."""
    return list(zip(batch["source"].tolist(), batch["id"].tolist(), strict=True))


def epoch(mix: fb.Mix) -> list[list[Row]]:
    """Returns the rows of each batch of the next epoch."""
    return [rows(batch) for batch in mix]


def flat(batches: Iterable[list[Row]]) -> list[Row]:
    return [row for batch in batches for row in batch]


def every(source: int) -> list[Row]:
    return [(source, row) for row in range(SIZES[source])]


def test_a_timeline_of_a_mix_is_written_on_close(folders: tuple[Path, Path], tmp_path: Path) -> None:
    file = tmp_path / "trace.json"
    with mixed(folders, trace=file) as mix:
        epoch(mix)
    assert {"next", "fetch"} <= {event["name"] for event in json.loads(file.read_text())["traceEvents"]}
    with pytest.raises(fb.InvalidError, match="trace"):
        mixed(folders, trace="s3://bucket/trace.json")


def test_each_batch_has_its_share_of_each_source(folders: tuple[Path, Path]) -> None:
    with mixed(folders) as mix:
        batches = epoch(mix)
        # Each batch takes 3 of the 300 rows of the second source, so this source ends first.
        assert len(batches) == len(mix) == 100
        for batch in batches:
            assert Counter(source for source, _ in batch) == {0: 7, 1: 3}
        assert sorted(row for row in flat(batches) if row[0] == 1) == every(1)
        taken = [row for row in flat(batches) if row[0] == 0]
        assert len(set(taken)) == len(taken) == 700
        assert epoch(mix) != batches
        plan = mix.plan(0).to_dict()
        assert [source["unread"] for source in plan["sources"]] == [300, 0]
    with mixed(folders, (0.65, 0.35)) as mix:
        counts = [Counter(source for source, _ in batch)[0] for batch in epoch(mix)[:80]]
        assert set(counts) == {6, 7}
        for end in range(1, 81):
            assert abs(sum(counts[:end]) - 6.5 * end) < 1


def test_an_epoch_ends_with_the_first_or_the_last_source(folders: tuple[Path, Path]) -> None:
    with mixed(folders, (1, 1), stop="last") as mix:
        batches = epoch(mix)
        counts = Counter(flat(batches))
        assert all(counts[row] == 1 for row in every(0))
        # The epoch takes 1,000 rows of a source with 300: three passes and a third of one.
        assert {counts[row] for row in every(1)} == {3, 4}
        assert sum(counts[row] for row in every(1)) == 1_000
        passes = [row for row in flat(batches) if row[0] == 1]
        for begin in (0, 300, 600):
            assert sorted(passes[begin : begin + 300]) == every(1), "a pass has each row once"
        assert passes[:300] != passes[300:600]
    with mixed(folders, (1, 1), stop="last", repeat=False) as mix:
        batches = epoch(mix)
        assert sorted(flat(batches)) == every(0) + every(1)
        assert all(source == 0 for source, _ in flat(batches[61:]))
    with mixed(folders, stop="first", drop_last=True, batch_size=16) as mix:
        assert {len(batch) for batch in epoch(mix)} == {16}


def test_passes_are_those_of_the_sources_own_loader(folders: tuple[Path, Path]) -> None:
    alone = fb.Loader(folders[1], shuffle=fb.Shuffle(seed=1, window_rows=120), batch_size=300)
    orders = [next(iter(alone.epoch(number)))["id"].tolist() for number in range(4)]
    alone.close()
    with mixed(folders, (1, 1), stop="last") as mix:
        passes = [row for source, row in flat(epoch(mix)) if source == 1]
    assert [passes[at : at + 300] for at in (0, 300, 600)] == orders[:3]
    assert passes[900:] == orders[3][:100]


def test_the_source_of_each_row_may_be_by_chance(folders: tuple[Path, Path]) -> None:
    with mixed(folders, (0.7, 0.3), random_shares=5, lanes=1) as mix:
        steps = epoch(mix)
        of_the_second = [sum(source == 1 for source, _ in step) for step in steps]
        assert all(len(step) == 10 for step in steps[:-1])
        assert sum(of_the_second[:32]) == sum(of_the_second[32:64]) == 96, "exact over 32 steps"
        assert 1.5 < np.var(of_the_second[:96]) < 2.9, "2.1 if rows were drawn independently"
        assert flat(steps)[-1] not in flat(steps)[:-1] and len(set(flat(steps))) == len(flat(steps))
        again = epoch(mix)
        assert [sum(source for source, _ in step) for step in again] == of_the_second and again != steps
        assert len(mix) == len(steps)
        assert [place.source for place in mix.which(3, epoch=0)] == [source for source, _ in sorted(steps[3])]


def test_shares_by_chance_resume_on_other_worlds(folders: tuple[Path, Path]) -> None:
    options: dict[str, Any] = {"random_shares": 9, "lanes": 2, "global_batch_size": 12, "stop": "last"}
    with mixed(folders, (0.6, 0.4), **options) as mix:
        steps, states = [], []
        for batch in mix:
            steps.append(sorted(rows(batch)))
            states.append(json.dumps(mix.state_dict()))
    for at in (1, 40, 100):
        ranks = [mixed(folders, (0.6, 0.4), **options, shard=fb.Shard(rank=rank, world=3)) for rank in range(3)]
        for rank in ranks:
            rank.load_state_dict(json.loads(states[at - 1]))
        tails = [epoch(rank) for rank in ranks]
        assert len({len(tail) for tail in tails}) == 1
        together = [sorted(flat(step)) for step in zip(*tails, strict=True)]
        assert [sorted(set(step)) for step in together] == [sorted(set(step)) for step in steps[at:]]
        for rank in ranks:
            rank.close()
    with mixed(folders, (0.6, 0.4), **{**options, "random_shares": None}) as other:
        with pytest.raises(fb.StateMismatchError, match="random_shares 9, this mix has none"):
            other.load_state_dict(json.loads(states[3]))


@pytest.mark.parametrize("ends", [{"stop": "first"}, {"stop": "last"}, {"stop": "last", "repeat": False}])
def test_steps_hold_the_same_rows_on_any_world(folders: tuple[Path, Path], ends: dict[str, Any]) -> None:
    def steps(world: int) -> list[list[Row]]:
        ranks = []
        for rank in range(world):
            shard = fb.Shard(rank=rank, world=world)
            with mixed(folders, (0.55, 0.45), shard=shard, global_batch_size=32, lanes=4, **ends) as mix:
                ranks.append(epoch(mix))
                assert len(ranks[-1]) == len(mix)
        assert len({len(batches) for batches in ranks}) == 1
        return [sorted(flat(batches)) for batches in zip(*ranks, strict=True)]

    alone = steps(1)
    assert steps(4) == alone
    assert steps(3) == alone


def test_a_state_resumes_anywhere_on_any_world(folders: tuple[Path, Path]) -> None:
    random.seed(18)
    options = {"global_batch_size": 24, "lanes": 4, "stop": "last"}
    with mixed(folders, (0.6, 0.4), **options) as mix:
        wholes, states = [], [mix.state_dict()]
        for _ in range(2):
            for batch in mix:
                wholes.append(sorted(rows(batch)))
                states.append(mix.state_dict())
    assert all(len(json.dumps(state)) < 4_000 for state in states)
    for at in [*sorted(random.sample(range(len(wholes)), 8)), 0, len(wholes) - 1]:
        world = random.choice([1, 2, 3, 4, 5])
        ranks: list[list[list[Row]]] = []
        for rank in range(world):
            shard = fb.Shard(rank=rank, world=world)
            with mixed(folders, (0.6, 0.4), shard=shard, threads=1 + at % 3, **options) as mix:
                mix.load_state_dict(json.loads(json.dumps(states[at])))
                assert {**mix.state_dict(), "split": 0} == {**states[at], "split": 0}
                tail = epoch(mix)
                ranks.append(tail + (epoch(mix) if at < len(wholes) // 2 else []))
        together = [sorted(flat(batches)) for batches in zip(*ranks, strict=True)]
        assert together == wholes[at:], f"from step {at} on {world} ranks"


def test_other_batches_begin_at_a_border_and_lose_nothing(folders: tuple[Path, Path]) -> None:
    with mixed(folders, (0.6, 0.4), stop="last", repeat=False) as mix:
        seen: list[Row] = []
        for number, batch in enumerate(mix):
            seen += rows(batch)
            if number == 20:
                break
        state = mix.state_dict()
    with mixed(folders, (0.6, 0.4), stop="last", repeat=False, batch_size=7, lanes=None) as mix:
        mix.load_state_dict(state)
        for number, batch in enumerate(mix):
            seen += rows(batch)
            if number == 30:
                break
        again = mix.state_dict()
        assert again["origin"]["step"] == 21
    with mixed(folders, (0.6, 0.4), stop="last", repeat=False, batch_size=7) as mix:
        mix.load_state_dict(again)
        seen += flat(epoch(mix))
        assert sorted(seen) == every(0) + every(1)
        assert mix.state_dict()["epoch"] == 1
        assert sorted(flat(epoch(mix))) == every(0) + every(1)


def test_weights_change_at_a_step_of_the_run(folders: tuple[Path, Path]) -> None:
    schedule = {5: [0.2, 0.8], 35: [1, 0], 60: [0.5, 0.5]}
    with mixed(folders, (1, 0), schedule=schedule) as mix:
        counts = []
        for step, batch in enumerate(mix):
            assert mix.weights[0] == pytest.approx({0: 1, 1: 0.2, 2: 1, 3: 0.5}[sum(step + 1 >= at for at in schedule)])
            counts.append(Counter(source for source, _ in rows(batch))[0])
            if step == 36:
                state = mix.state_dict()
        assert counts[:65] == [10] * 5 + [2] * 30 + [10] * 25 + [5] * 5
        length = len(counts)
        # The schedule counts steps over all epochs, so the next epoch has the weights from step 60 on.
        assert Counter(source for source, _ in epoch(mix)[0]) == {0: 5, 1: 5}
        assert [place.source for place in mix.which(length)].count(0) == 5
    # A state can be resumed with other weights for later steps, but not with other weights for earlier ones.
    with mixed(folders, (1, 0), schedule={**schedule, 60: [0.9, 0.1]}) as mix:
        mix.load_state_dict(state)
        tail = [Counter(source for source, _ in batch)[0] for batch in epoch(mix)]
        assert tail[:28] == [10] * 23 + [9] * 5
    with mixed(folders, (1, 0), schedule={5: [0.3, 0.7]}) as mix, pytest.raises(fb.StateMismatchError) as caught:
        mix.load_state_dict(state)
    assert "[1, 4] from step 5" in str(caught.value) and "other weights may begin at step 37" in str(caught.value)


def test_which_names_the_rows_that_come(folders: tuple[Path, Path]) -> None:
    random.seed(3)
    for world, ends in ((1, {"stop": "last"}), (3, {"stop": "first"}), (2, {"stop": "last", "repeat": False})):
        rank = random.randrange(world)
        with mixed(folders, (0.45, 0.55), shard=fb.Shard(rank=rank, world=world), **ends) as mix:
            length = len(mix)
            coming = mix.which()
            for number in range(2):
                for step, batch in enumerate(mix):
                    places = mix.which(step, epoch=number)
                    assert [(place.source, place.row_id) for place in places] == list(
                        zip(batch["source"].tolist(), batch["row_id"].tolist(), strict=True)
                    )
                    assert [place.row_group * 50 + place.row for place in places] == batch["id"].tolist()
                    if number == 0 and step == 0:
                        assert places == coming
                    if step == 17:
                        assert places == mix.which(number * length + step)
            with pytest.raises(fb.InvalidError, match="there is no step"):
                mix.which(length, epoch=0)


def test_statistics_count_the_rows_of_each_source(folders: tuple[Path, Path]) -> None:
    with mixed(folders) as mix:
        taken = Counter(source for source, _ in flat(epoch(mix)))
        stats = mix.stats()
        assert [source["rows"] for source in stats.to_dict()["sources"]] == [taken[0], taken[1]] == [700, 300]
        assert "0: 700 rows (70.00 %), 1: 300 rows (30.00 %)" in str(stats)
        assert stats.to_dict()["next"]["count"] == 99, "all but the first"
        assert mix.metrics()["forebay/sources/1/rows"] == 300
        memory = stats.to_dict()["memory"]
        assert memory["budget"] == 64_000_000
        assert 0 < memory["row_groups_peak"] + memory["batches"] <= memory["budget"]
        spec = mix.spec
        assert spec["stop"] == "first" and len(spec["sources"]) == 2
        assert sum(source["memory"] for source in spec["sources"]) <= spec["memory"] == 64_000_000


def test_one_budget_is_for_all_sources(folders: tuple[Path, Path]) -> None:
    with pytest.raises(fb.TooLargeError) as caught:
        mixed(folders, memory="5kB")
    assert "memory" in str(caught.value)
    sources = [(fb.Loader(folder, shuffle=fb.Shuffle.exact(1)), 1) for folder in folders]
    with pytest.raises(fb.TooLargeError, match="of 2 sources need") as caught:
        fb.Mix(sources, batch_size=4, memory="100kB")
    enough = re.search(r"raise memory to ([\d.]+) KiB", str(caught.value))
    assert enough is not None
    with fb.Mix(sources, batch_size=4, memory=f"{float(enough[1])}KiB") as mix:
        assert len(list(mix)) == 150
        memory = mix.stats().to_dict()["memory"]
        assert memory["row_groups_peak"] + memory["batches"] <= memory["budget"]


def test_a_mix_is_used_as_a_loader(folders: tuple[Path, Path]) -> None:
    mix = mixed(folders)
    assert isinstance(mix, fb.Loader)
    assert mix.columns == ["id", "of", "row_id", "source"]
    assert (mix.num_rows, mix.batch_size) == (1_300, 10)
    first = epoch(mix)
    again = pickle.loads(pickle.dumps(mix))
    assert epoch(again) == first
    assert repr(mix).startswith("forebay.Mix([(<forebay.Dataset ") and "source=True" in repr(mix)
    batches = fb.adapters.Batches(mix, lambda batch: rows(batch))
    assert list(batches.epoch(0)) == first and len(batches) == 100
    with pytest.raises(fb.InvalidError, match=r"call warm\(\) on the loaders of its sources"):
        mix.warm()
    running = iter(mix)
    next(running)
    later = iter(mix)
    with pytest.raises(fb.ClosedError, match="another epoch was started"):
        next(running)
    assert len(list(later)) == 100
    state = mix.state_dict()
    mix.close()
    with pytest.raises(fb.ClosedError):
        next(iter(mix))
    assert mix.state_dict() == state
    again.close()


def test_functions_see_the_rows_of_all_sources(folders: tuple[Path, Path]) -> None:
    def double(row: fb.Row) -> dict[str, Any]:
        return {"id": row["id"], "source": row["source"], "draw": fb.rng(row).integers(1 << 40)}

    def drawn(workers: int | fb.Workers) -> list[Any]:
        # Each row of the second source is delivered several times.
        with mixed(folders, (1, 1), stop="last", transform_rows=double, transform_workers=workers) as mix:
            return [(*row, int(draw)) for batch in mix for row, draw in zip(rows(batch), batch["draw"], strict=True)]

    found = drawn(0)
    assert drawn(fb.Workers(2, threads=True)) == found
    assert len({draw for *_, draw in found}) == len(found), "each row of each pass has numbers of its own"


def test_rows_at_the_same_place_of_two_sources_draw_apart(folders: tuple[Path, Path]) -> None:
    def drawn(row: fb.Row) -> dict[str, Any]:
        return {"draw": fb.rng(row).integers(1 << 40)}

    with fb.Mix([(folder, 1) for folder in folders], batch_size=20, transform_rows=drawn) as mix:
        draws = [int(draw) for batch in mix for draw in batch["draw"]]
    assert len(set(draws)) == len(draws)


def test_bad_rows_of_a_mix_are_no_list_to_deny(folders: tuple[Path, Path], tmp_path: Path) -> None:
    with mixed(folders) as mix:
        assert mix.skipped() == []
        with pytest.raises(fb.InvalidError, match="a row id belongs to one of its sources"):
            mix.skipped(save=tmp_path / "deny.txt")
    assert not (tmp_path / "deny.txt").exists()


def test_a_column_that_a_source_does_not_have_is_null(folders: tuple[Path, Path], tmp_path: Path) -> None:
    table = pa.table({"id": pa.array(range(90), pa.int64()), "note": [f"note {row}" for row in range(90)]})
    pq.write_table(table, tmp_path / "c.parquet")
    with fb.Mix([(folders[0], 1), (tmp_path, 1)], batch_size=6) as mix:
        assert mix.columns == ["id", "of", "note"]
        batch = next(iter(mix))
        assert batch["of"].tolist() == ["a"] * 3 + [None] * 3
        assert batch["note"].tolist() == [None] * 3 + ["note 0", "note 1", "note 2"]
    pq.write_table(pa.table({"id": pa.array(range(9), pa.int32())}), tmp_path / "c.parquet")
    with pytest.raises(fb.InvalidError) as caught:
        fb.Mix([(folders[0], 1), (tmp_path, 1)])
    assert 'column "id" of source 1 is int32, but int64 in an earlier source' in str(caught.value)


def test_weights_are_numbers_of_any_type(folders: tuple[Path, Path]) -> None:
    for weights in (
        (Decimal("0.3"), Decimal("0.7")),
        (Fraction(3, 10), Fraction(7, 10)),
        (np.float64(0.3), 0.7),
        (3, 7),
    ):
        with mixed(folders, weights, schedule={4: weights}) as mix:  # type: ignore[arg-type]
            assert mix.weights == [0.3, 0.7]


@pytest.mark.parametrize("framework", ["numpy", "torch", "jax"])
def test_an_array_with_rows_of_a_source_that_has_no_such_column_says_what_to_do(
    folders: tuple[Path, Path], documented: Path, framework: str
) -> None:
    pytest.importorskip(framework)
    photos = fb.Loader(documented / "data" / "train", columns=["image"], decode={"image": fb.Image.resize(8, 8)})
    for source, column in ((photos, "image"), (fb.Loader(documented / "data" / "train", columns=["label"]), "label")):
        names = fb.Loader(folders[0], columns=["of"])
        with fb.Mix([(source, 1), (names, 1)], batch_size=4) as mix:
            assert next(iter(mix)).to_arrow().column(column).null_count == 2
            with pytest.raises(fb.NullError) as caught:
                batches = mix if framework == "numpy" else getattr(fb, framework).batches(mix)
                dict(next(iter(batches)))
        said = str(caught.value)
        assert f'leave "{column}" out with columns= of the sources\' loaders' in said and "Arrow" in said
        assert "null_mask" not in said and caught.value.column == column
        assert ("fill_null= of its loader" in said) == (column == "label"), "images are never null in their own source"


def test_a_mask_that_one_source_makes_is_made_by_all_that_have_the_column(tmp_path: Path) -> None:
    for name in ("a", "b"):
        pq.write_table(pa.table({"x": [1, None, 3], "tokens": [[1], [2, 3], []]}), tmp_path / f"{name}.parquet")
    pq.write_table(pa.table({"y": [1, 2, 3]}), tmp_path / "c.parquet")

    def source(name: str, **options: Any) -> fb.Loader:
        return fb.Loader(tmp_path / f"{name}.parquet", **options)

    x: dict[str, Any] = {"columns": ["x"]}
    masked, filled = source("a", null_mask=["*"], **x), source("b", fill_null={"x": 7}, **x)
    said = (
        r'column "x": source 0 makes a mask of "x" \(null_mask\), and source 1 does not, but fills its nulls \(fill_null\) '
        r'\(name "x" in null_mask of source 1 as well'
    )
    with pytest.raises(fb.InvalidError, match=said):
        fb.Mix([(masked, 1), (filled, 1)], batch_size=2)
    both = source("b", null_mask=["x"], fill_null={"x": 7}, **x)
    with fb.Mix([(masked, 1), (both, 1)], batch_size=6) as mix:
        batch = next(iter(mix))
        found = sorted(zip(batch["x"].tolist(), batch["x.mask"].tolist(), strict=True))
        assert found == [(0, False), (1, True), (1, True), (3, True), (3, True), (7, False)]
    with fb.Mix([(masked, 1), (source("c"), 1)], batch_size=2) as mix:
        assert next(iter(mix)).to_arrow().column("x.mask").null_count == 1, "it has no such column"
    tokens: dict[str, Any] = {"columns": ["tokens"]}
    plain, padded = (source(n, pad={"tokens": fb.Pad(4, mask=n == "b")}, **tokens) for n in ("a", "b"))
    with pytest.raises(fb.InvalidError, match=r'source 1 makes a mask of "tokens" \(pad\), and source 0 does not'):
        fb.Mix([(plain, 1), (padded, 1)], batch_size=2)


@pytest.mark.parametrize("side", ["right", "left"])
def test_rows_padded_to_the_longest_list_have_one_length_in_a_joined_batch(tmp_path: Path, side: Any) -> None:
    lists = {"a": [[1, 2, 3]] * 6, "b": [[4] * 7, [5]] * 3}
    for name, tokens in lists.items():
        pq.write_table(pa.table({"tokens": tokens}), tmp_path / f"{name}.parquet")

    def source(name: str, pad: fb.Pad) -> fb.Loader:
        return fb.Loader(tmp_path / f"{name}.parquet", pad={"tokens": pad})

    pad = fb.Pad(value=-1, side=side, mask=True)
    with fb.Mix([(source("a", pad), 1), (source("b", pad), 1)], batch_size=4) as mix:
        batches = list(mix)
    assert [batch["tokens"].shape for batch in batches] == [(4, 7)] * 3
    found = [
        list(row[own]) for batch in batches for row, own in zip(batch["tokens"], batch["tokens.mask"], strict=True)
    ]
    assert sorted(found) == sorted([*lists["a"], *lists["b"]])
    assert all((batch["tokens"][~batch["tokens.mask"]] == -1).all() for batch in batches)
    with pytest.raises(fb.InvalidError, match='column "tokens" of source 1 is'):
        fb.Mix([(source("a", pad), 1), (source("b", fb.Pad(value=-2, side=side, mask=True)), 1)], batch_size=4)


def test_a_mask_of_views_is_made_by_all_sources_that_have_a_view(documented: Path, tmp_path: Path) -> None:
    images = pq.read_table(documented / "data" / "train").column("image")[:8].to_pylist()
    pq.write_table(pa.table({"image": images, "id": range(8)}), tmp_path / "whole.parquet")
    pq.write_table(pa.table({"image": [*images[:7], None], "id": range(8)}), tmp_path / "null.parquet")
    pq.write_table(pa.table({"id": range(8)}), tmp_path / "none.parquet")
    views = fb.Views(a=fb.Image.resize(8, 8), b=fb.Image.resize(4, 4))

    def source(name: str, **options: Any) -> tuple[fb.Loader, int]:
        return fb.Loader(tmp_path / f"{name}.parquet", decode={"image": views}, **options), 1

    masked = source("null", null_mask=["image"])
    with pytest.raises(fb.InvalidError) as caught:
        fb.Mix([masked, source("whole")], batch_size=4)
    assert str(caught.value) == (
        'column "image": source 0 makes a mask of "image" (null_mask), and source 1 does not (name "image" in '
        "null_mask of source 1 as well: with it, fill_null sets the value in place of a null, or make the mask in no "
        "source)"
    )
    both = fb.Mix([masked, source("whole", null_mask=["image"])], batch_size=16)
    assert sorted(next(iter(both))["image.mask"].tolist()) == [False] + [True] * 15
    # The errors advise only what is possible: a mask, for example, can be left out only with its image.
    mixed = fb.Mix([source("whole"), (tmp_path / "none.parquet", 1)], batch_size=4)
    with pytest.raises(fb.NullError, match=r"leave \"image.a\" out with columns= of the .*, or out of forebay.Views"):
        next(iter(mixed))["image.a"]
    marked = fb.Mix([masked, (tmp_path / "none.parquet", 1)], batch_size=4)
    with pytest.raises(fb.NullError, match='leave "image" out with columns='):
        next(iter(marked))["image.mask"]


def test_images_of_several_sources_are_one_array(documented: Path) -> None:
    image = {"image": fb.Image.resize(16, 16)}
    sources = [fb.Loader(documented / "data" / name, decode=image) for name in ("train", "val")]
    with fb.Mix(list(zip(sources, (3, 1), strict=True)), batch_size=16) as mix:
        batch = next(iter(mix))
        assert batch["image"].shape == (16, 16, 16, 3) and batch["image"].dtype == np.uint8
        for source, at, count in ((sources[0], 0, 12), (sources[1], 12, 4)):
            own = next(iter(source))
            assert np.array_equal(batch["image"][at : at + count], own["image"][:count])


@pytest.mark.parametrize(
    ("sources", "options", "said"),
    [
        ([], {}, "a mix needs at least one source"),
        ("ab", {}, "sources must be a list"),
        ([("a",)], {}, "source 0 must be a pair"),
        ([("a", "1")], {}, "the weight of source 0 must be a number"),
        ([("a", -1), ("b", 1)], {}, "the weight of source 0 is -1"),
        ([("a", 0), ("b", 0)], {}, "all weights are 0"),
        ([("a", 1), ("b", 1)], {"stop": "never"}, "stop must be 'first' or 'last'"),
        ([("a", 1), ("b", 1)], {"schedule": {3: [1]}}, "1 weights at step 3"),
        ([("a", 1), ("b", 1)], {"schedule": {0: [1, 1]}}, "at least 1"),
        ([("a", 1), ("b", 0)], {"stop": "last"}, "source 1 never ends"),
        ([("a", 1), ("b", 1)], {"batch_size": 5_000, "drop_last": True}, "no step of 5000 rows"),
        ([("a", 1), ("b", 1)], {"repeat": 1}, "repeat must be True or False"),
        ([("a", 10**400), ("b", 1)], {}, "source 0 must be a number that a float holds, got an int of 1329 bits"),
        ([("a", Decimal("sNaN")), ("b", 1)], {}, "source 0 must be a number that a float holds"),
        ([("a", Decimal("NaN")), ("b", 1)], {}, "the weight of source 0 is NaN"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    folders: tuple[Path, Path], sources: Any, options: dict[str, Any], said: str
) -> None:
    if isinstance(sources, list):
        where = dict(zip("ab", folders, strict=True))
        sources = [(where[one[0]], *one[1:]) for one in sources]
    with pytest.raises(fb.InvalidError) as caught:
        fb.Mix(sources, **options)
    assert said in str(caught.value)


def test_options_of_a_source_that_belong_to_the_mix_are_refused(folders: tuple[Path, Path]) -> None:
    for options in ({"batch_size": 8}, {"memory": "1GB"}, {"transform": dict}, {"shard": fb.Shard(rank=0, world=2)}):
        loader = fb.Loader(folders[0], **options)  # type: ignore[arg-type]
        with pytest.raises(fb.InvalidError, match=f"source 0 has {next(iter(options))}, which belongs to the mix"):
            fb.Mix([(loader, 1)])
    with pytest.raises(fb.InvalidError, match="source 0 has skip_steps, which belongs to the mix"):
        fb.Mix([(fb.Loader(folders[0], skip_steps=[(0, 1)]), 1)])
    with pytest.raises(fb.InvalidError, match="source 0 has .?row_mask.?, which a mix does not have"):
        fb.Mix([(fb.Loader(folders[0], row_mask=True), 1)])
    with pytest.raises(fb.InvalidError, match="itself a mix"):
        fb.Mix([(mixed(folders), 1)])


def test_states_of_others_are_refused(folders: tuple[Path, Path]) -> None:
    with mixed(folders) as mix, fb.Loader(folders[0]) as loader:
        next(iter(mix))
        state: Any = mix.state_dict()
        with pytest.raises(
            fb.StateMismatchError, match=r"this is a state of a loader, .* \(pass it to a forebay.Loader"
        ):
            mix.load_state_dict(loader.state_dict())
        with pytest.raises(fb.StateMismatchError, match=r"this is a state of a mix, .* \(pass it to a forebay.Mix"):
            loader.load_state_dict(state)
        with pytest.raises(
            fb.StateMismatchError, match="cannot be read as a state of a mix: missing field `[a-z]+` .pass"
        ):
            mix.load_state_dict({"epoch": 0})
        assert mix.state_dict() == state
        for change, said in (
            ({"mix": 9}, "format version"),
            ({"stop": "last"}, "stop"),
            ({"sources": state["sources"][:1]}, "number of sources"),
            ({"sources": state["sources"][::-1]}, "data set"),
            ({"row": 11}, "contradict"),
        ):
            with pytest.raises(fb.StateMismatchError, match=said):
                mix.load_state_dict({**state, **change})


def test_a_fresh_process_goes_on(folders: tuple[Path, Path]) -> None:
    program = """
import json, sys
import forebay as fb
a, b, state = sys.argv[1:]
of = lambda where, seed: fb.Loader(where, shuffle=fb.Shuffle(seed=seed, window_rows=120, lanes=2), row_id=True)
mix = fb.Mix([(of(a, 0), 0.6), (of(b, 1), 0.4)], batch_size=20, source=True, memory="64MB", threads=1)
mix.load_state_dict(json.loads(state))
print(json.dumps([sorted(zip(batch["source"].tolist(), batch["id"].tolist())) for batch in mix]))
"""
    ranks = [mixed(folders, (0.6, 0.4), shard=fb.Shard(rank=rank, world=2), lanes=2) for rank in range(2)]
    epochs = [iter(mix) for mix in ranks]
    for _ in range(13):
        for one in epochs:
            next(one)
    states = [mix.state_dict() for mix in ranks]
    assert states[0] == states[1], "the same on every rank"
    tail = [sorted(flat(map(rows, batches))) for batches in zip(*epochs, strict=True)]
    run = subprocess.run(
        [sys.executable, "-c", program, *map(str, folders), json.dumps(states[0])],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [[tuple(row) for row in batch] for batch in json.loads(run.stdout)] == tail
    for mix in ranks:
        mix.close()


def test_batches_of_a_mix_are_tensors(folders: tuple[Path, Path]) -> None:
    torch = pytest.importorskip("torch")
    with mixed(folders) as mix:
        first = epoch(mix)
        batches = fb.torch.batches(mix)
        names = ("id", "source")
        found = [rows({name: batch[name].numpy() for name in names}) for batch in batches.epoch(0)]
        assert found == first
        data = torch.utils.data.DataLoader(fb.torch.dataset(mix), batch_size=None, num_workers=1)
        assert sum(len(batch["id"]) for batch in data) == 1_000


def lists_of(folder: Path, documents: int, seed: int) -> Path:
    """Writes documents of 1 to 20 tokens. Each token is the number of its document, counted from 1."""
    chance = random.Random(seed)
    folder.mkdir()
    tokens = [[number] * chance.randint(1, 20) for number in range(1, documents + 1)]
    table = pa.table({"tokens": pa.array(tokens, pa.list_(pa.int32()))})
    pq.write_table(table, folder / "part.parquet", row_group_size=50)
    return folder


def packs_of(folder: Path, length: int = 16) -> fb.Loader:
    return fb.Loader(
        folder, samples=fb.Pack("tokens", length, split=False, truncate=True), shuffle=fb.Shuffle(seed=3, lanes=6)
    )


def test_packs_of_two_sources_have_their_weights_and_resume_on_other_ranks(tmp_path: Path) -> None:
    web, books = (lists_of(tmp_path / name, rows, rows) for name, rows in (("web", 400), ("books", 300)))

    def made(rank: int, world: int, **options: Any) -> fb.Mix:
        sources = [(packs_of(web), 0.75), (packs_of(books), 0.25)]
        shard = fb.Shard(rank=rank, world=world)
        return fb.Mix(sources, global_batch_size=12, shard=shard, source=True, **options)

    def step_of(batches: list[Any]) -> list[tuple[int, ...]]:
        packs = [
            (source, *tokens.tolist())
            for batch in batches
            for source, tokens in zip(batch["source"].tolist(), batch["tokens"], strict=True)
        ]
        return sorted(packs)

    alone = made(0, 1)
    batches = list(alone)
    assert len(batches) == len(alone)
    assert batches[0]["tokens"].shape == (12, 16)
    cu_seqlens, longest = fb.Pack.flash(batches[0])
    assert (cu_seqlens[-1], longest <= 16) == (12 * 16, True)
    share = sum((batch["source"] == 0).sum() for batch in batches[:-1]) / (12 * (len(batches) - 1))
    assert abs(share - 0.75) < 0.1
    steps = [step_of([batch]) for batch in batches]
    for at in (0, len(steps) // 2):
        alone.load_state_dict({**made(0, 1).state_dict()})
        under_way = iter(alone)
        for _ in range(at):
            next(under_way)
        state = json.loads(json.dumps(alone.state_dict()))
        skip = (at + 1, at + 3)
        ranks = [made(rank, 3, skip_steps=[skip]) for rank in range(3)]
        for rank in ranks:
            rank.load_state_dict(state)
        rest = [step_of(list(together)) for together in zip(*ranks, strict=True)]
        assert rest == [steps[at], *steps[at + 3 :]]
        assert ranks[0].state_dict().get("skipped") == [list(skip)]


def test_a_mix_of_buckets_has_one_for_each_rank_by_default(tmp_path: Path) -> None:
    folder = lists_of(tmp_path / "web", 200, 1)
    buckets = fb.Loader(folder, samples=fb.Bucket("tokens", tokens=64))
    mix = fb.Mix([(buckets, 1), (buckets, 1)], stop="last")
    assert sorted(len(batch["tokens"]) for batch in mix) == sorted([len(batch["tokens"]) for batch in buckets] * 2)


def test_packs_of_two_lengths_are_refused(tmp_path: Path) -> None:
    folder = lists_of(tmp_path / "web", 200, 1)
    with pytest.raises(fb.InvalidError, match=r"source 0 has packs of 16 values, source 1 of 32 \(give all packs"):
        fb.Mix([(packs_of(folder), 1), (packs_of(folder, 32), 1)])


def test_weights_by_tokens_are_divided_by_the_mean_tokens_of_a_sample(tmp_path: Path) -> None:
    chance = random.Random(8)
    totals, folders = [], []
    for name, rows, longest in (("web", 900, 60), ("books", 300, 400)):
        (tmp_path / name).mkdir()
        lists = [[row] * chance.randint(0, longest) for row in range(rows)]
        table = pa.table({"tokens": pa.array(lists, pa.list_(pa.int32())), "twice": [2 * len(one) for one in lists]})
        pq.write_table(table, tmp_path / name / "part.parquet", row_group_size=100)
        totals.append(sum(map(len, lists)))
        folders.append(tmp_path / name)
    kinds = [
        (None, [900, 300]),
        (fb.Pack("tokens", 64), None),
        (fb.Bucket("tokens", tokens=512, reshuffle=True), None),
    ]
    for samples, counts in kinds:

        def sources(weights: list[float], samples: Any = samples) -> list[Any]:
            shuffle = fb.Shuffle(seed=3, lanes=6)
            columns = None if isinstance(samples, fb.Pack) else ["tokens"]
            loaders = [fb.Loader(folder, columns=columns, samples=samples, shuffle=shuffle) for folder in folders]
            return list(zip(loaders, weights, strict=True))

        def made(weights: list[float], rank: int = 0, world: int = 1, **options: Any) -> fb.Mix:
            shard = fb.Shard(rank=rank, world=world)
            return fb.Mix(sources(weights), global_batch_size=12, shard=shard, stop="last", source=True, **options)

        if counts is None:
            alone = [fb.Loader(folder, samples=samples, batch_size=1) for folder in folders]
            counts = [len(loader) for loader in alone]
        means = [total / count for total, count in zip(totals, counts, strict=True)]
        mix = made([0.7, 0.3], by="tokens")
        assert mix.mean_costs == means and mix.weights == pytest.approx([0.7, 0.3], abs=1e-4)
        of_samples = made([0.7 / means[0], 0.3 / means[1]])
        assert of_samples.mean_costs is None and mix.state_dict() == of_samples.state_dict()
        given = [0, 0]
        for batch, expected in zip(mix, of_samples, strict=True):
            assert batch.to_arrow().equals(expected.to_arrow())
            assert mix.state_dict() == of_samples.state_dict()
            if samples is None:
                for source, tokens in zip(batch["source"], batch["tokens"], strict=True):
                    given[source] += len(tokens)
        if samples is None:
            assert given[0] / sum(given) == pytest.approx(0.7, abs=0.02)
        under_way = iter(mix)
        next(under_way)
        mix.set_weights([0.2, 0.8])
        assert mix.weights == pytest.approx([0.2, 0.8], abs=1e-4)
        state = json.loads(json.dumps(mix.state_dict()))
        rest = [sorted(batch["source"].tolist()) for batch in under_way]
        ranks = [made([0.7, 0.3], rank, 3, by="tokens") for rank in range(3)]
        for one in ranks:
            one.load_state_dict(state)
        steps = [
            sorted(np.concatenate([batch["source"] for batch in step]).tolist()) for step in zip(*ranks, strict=True)
        ]
        assert [step for step in steps if len(step) > 2] == [step for step in rest if len(step) > 2]
    # One cost for each source, and arithmetic.
    with fb.Mix(sources([1, 1]), by=["tokens", fb.col("twice") / 2]) as mix:
        assert mix.mean_costs == pytest.approx([totals[0] / counts[0], totals[1] / counts[1]])
        assert mix.spec["by"][0] == "tokens"
        with pickle.loads(pickle.dumps(mix)) as again:
            assert again.mean_costs == mix.mean_costs
    refused: list[tuple[dict[str, Any], str]] = [
        ({"by": ["tokens"] * 3}, "`by` has 3 costs, for 2 sources"),
        ({"by": fb.col("tokens") - 1_000}, "costs are numbers from 0 on"),
        ({"by": fb.col("tokens") * 0}, r'weights by "tokens" \* 0, which is 0 in all rows .*source 0'),
        ({"by": 3}, "by must be a column"),
    ]
    for options, said in refused:
        with pytest.raises(fb.InvalidError, match=said):
            fb.Mix(sources([1, 1]), **options)
    with pytest.raises(fb.UnknownColumnError, match='"token".*source 0'):
        fb.Mix(sources([1, 1]), by="token")
    for kind, said in ((fb.Window(2), "windows, which may share rows"), (fb.Sample(by="twice"), "drawn by weight")):
        with pytest.raises(fb.InvalidError, match=f"samples are .*{said.split(',')[0]}"):
            fb.Mix(sources([1, 1], kind), by="tokens")


def test_weights_by_a_cost_that_rounding_would_change_are_refused(tmp_path: Path) -> None:
    for name, cost in (("short", 20), ("long", 200_000)):
        pq.write_table(pa.table({"n": [cost] * 50}), tmp_path / f"{name}.parquet")

    def made(weights: list[float]) -> fb.Mix:
        files = [tmp_path / "short.parquet", tmp_path / "long.parquet"]
        return fb.Mix(list(zip(files, weights, strict=True)), by="n", batch_size=8)

    with pytest.raises(fb.InvalidError, match=r"source 1 would have to give 0\.0000020 .* for 0\.0200 of the cost"):
        made([0.98, 0.02])
    with made([0.1, 0.9]) as mix:
        assert mix.weights == pytest.approx([0.1, 0.9], rel=0.05)
        with pytest.raises(fb.InvalidError, match="rounded to 100,000ths"):
            mix.set_weights([0.98, 0.02])


def test_weights_are_set_in_the_loop_and_kept_in_the_state(folders: tuple[Path, Path]) -> None:
    def counts(batches: Iterable[Any]) -> list[int]:
        return [batch["source"].tolist().count(1) for batch in batches]

    with mixed(folders, (0.9, 0.1), stop="last") as mix:
        under_way = iter(mix)
        assert counts(next(under_way) for _ in range(3)) == [1, 1, 1]
        mix.set_weights([0.4, 0.6])
        assert mix.weights == pytest.approx([0.4, 0.6])
        assert counts(next(under_way) for _ in range(2)) == [6, 6]
        state = json.loads(json.dumps(mix.state_dict()))
        assert state["set_from"] == 3
        rest = [sorted(rows(batch)) for batch in under_way]
        with pytest.raises(fb.InvalidError, match="weights must be a list of weights, got 3"):
            mix.set_weights(3)  # type: ignore[arg-type]
        with pytest.raises(fb.InvalidError, match=r"weights must be a list, got \{0.4, 0.6\}, which has no order"):
            mix.set_weights({0.4, 0.6})
        with pytest.raises(fb.InvalidError, match="1 weights were given"):
            mix.set_weights([1])
    with mixed(folders, (0.9, 0.1), stop="last") as again:
        again.load_state_dict(state)
        assert [sorted(rows(batch)) for batch in again] == rest
    with mixed(folders, (0.8, 0.2), stop="last") as other, pytest.raises(fb.StateMismatchError, match="the weights"):
        other.load_state_dict(state)


def test_weights_that_end_an_epoch_move_the_state_to_the_next(tmp_path: Path) -> None:
    for name, rows in (("a", 16), ("b", 85)):
        pq.write_table(pa.table({"id": range(rows)}), tmp_path / f"{name}.parquet")

    def mix() -> fb.Mix:
        return fb.Mix([(tmp_path / f"{name}.parquet", 1) for name in "ab"], batch_size=8, stop="last")

    with mix() as whole, mix() as pulled, mix() as resumed:
        for number, _ in enumerate(whole):
            if number == 4:
                # Source a has ended, and source b counts as ended without a weight.
                whole.set_weights([1, 0])
        assert number == 4
        state = whole.state_dict()
        assert (state["epoch"], state["row"]) == (1, 0)
        # A batch that was pulled, and is not handed over yet, stays in the epoch.
        epoch = pulled.epoch(0)
        for _ in range(5):
            last = epoch.pull()
            assert last is not None
        pulled.set_weights([1, 0], step=5)
        assert epoch.pull() is None and pulled.state_dict()["epoch"] == 0
        epoch.hand_over(last)
        assert pulled.state_dict() == state
        resumed.load_state_dict(state)
        assert resumed.state_dict()["epoch"] == 1
        assert [batch["id"].tolist() for batch in resumed] == [batch["id"].tolist() for batch in whole]


def test_the_state_after_an_epoch_has_its_step_even_if_no_epoch_follows(tmp_path: Path) -> None:
    for name, rows in (("a", 15), ("b", 6)):
        pq.write_table(pa.table({"id": range(rows)}), tmp_path / f"{name}.parquet")
    sources = [(tmp_path / "a.parquet", 0.1), (tmp_path / "b.parquet", 0.25)]
    schedule = {5: [0, 3], 9: [2, 3]}
    with fb.Mix(sources, batch_size=10, stop="last", max_passes=2, schedule=schedule) as mix:
        steps = len(list(mix))
        state = mix.state_dict()
        assert (state["epoch"], state["row"], state["step"]) == (1, 0, steps)
        # Source a has no weight in the steps that would follow.
        with pytest.raises(fb.InvalidError, match="source 0 never ends"):
            list(mix)


def test_weights_of_batches_that_were_made_ahead_are_not_set(folders: tuple[Path, Path]) -> None:
    ahead = []

    def transform(batch: Any) -> Any:
        ahead.append(batch["source"].tolist().count(1))
        return batch

    with mixed(folders, (0.9, 0.1), stop="last", transform=transform) as mix:
        under_way = iter(mix)
        next(under_way)
        mix.set_weights([0.4, 0.6], step=60)
        got = [batch["source"].tolist().count(1) for batch in under_way]
    assert got[:59] == [1] * 59
    assert set(got[59:69]) == {6}


def test_a_source_has_at_most_its_passes(folders: tuple[Path, Path]) -> None:
    def given(passes: Any) -> list[int]:
        with mixed(folders, (0.5, 0.5), stop="last", max_passes=passes) as mix:
            assert pickle.loads(pickle.dumps(mix)).plan().to_dict() == mix.plan().to_dict()
            assert mix.spec["max_passes"] == ([passes] * 2 if isinstance(passes, int) else passes or [])
            return [source["rows"] for source in mix.plan().to_dict()["sources"]]

    assert given(None) == [1_000, 1_000]
    assert given(2) == given([None, 2]) == [1_000, 600]
    with pytest.raises(fb.InvalidError, match="max_passes must be"):
        given("2")


@pytest.mark.parametrize("weights", [(1, 5), (1, 1)])
def test_the_memory_that_an_error_asks_for_is_enough(tmp_path: Path, weights: tuple[int, int]) -> None:
    for name in "ab":
        pq.write_table(pa.table({"tokens": [[1] * (n % 60) for n in range(50)]}), tmp_path / f"{name}.parquet")

    def mix(memory: str) -> fb.Mix:
        sources = [fb.Loader(tmp_path / f"{name}.parquet", samples=fb.Pack("tokens", 256)) for name in "ab"]
        return fb.Mix(list(zip(sources, weights, strict=True)), batch_size=300, memory=memory)

    refused = 0
    for memory in range(1, 14):
        try:
            mix(f"{memory}MiB").close()
        except fb.TooLargeError as error:
            refused += 1
            found = re.search(r"raise memory to ([\d.]+) MiB", str(error))
            assert found and float(found[1]) > memory, error
            mix(f"{found[1]}MiB").close()
    assert refused > 3
