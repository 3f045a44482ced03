"""A Python function of one row between the loader and the training step."""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ids, small

import forebay as fb


def halve(row: fb.Row) -> dict[str, Any]:
    return {
        "id": row["id"],
        "half": row["f32"] / np.float32(2),
        "name": row["name"].upper(),
        "vector": row["vector"] * 2,
    }


def draw(row: fb.Row) -> dict[str, Any]:
    return {"id": row["id"], "x": fb.rng(row).random(3)}


def table(loader: Any) -> dict[int, Any]:
    """Returns the bytes of the random numbers of each row, by the id of the row."""
    return {int(i): x.tobytes() for batch in loader for i, x in zip(batch["id"], batch["x"], strict=True)}


def test_each_row_goes_through_it_and_batches_keep_their_order(plain: Path) -> None:
    with small(plain) as bare, small(plain, transform_rows=halve) as loader:
        for batch, made in zip(bare, loader, strict=True):
            assert type(made) is dict
            assert (made["id"] == batch["id"]).all()
            assert made["half"].dtype == np.float32
            assert (made["half"] == batch["f32"] / 2).all()
            assert made["name"].tolist() == [name.upper() for name in batch["name"]]
            assert made["vector"].shape == batch["vector"].shape
            assert (made["vector"] == batch["vector"] * 2).all()


def test_a_row_has_the_values_of_every_kind_of_column(plain: Path) -> None:
    rows: list[fb.Row] = []

    def keep(row: fb.Row) -> fb.Row:
        rows.append(row)
        return row

    with small(plain, transform_rows=keep) as loader, small(plain) as bare:
        batch, made = next(iter(bare)), next(iter(loader))
        assert list(rows[0]) == list(batch)
        for at, row in enumerate(rows[:64]):
            for name, value in row.items():
                there = batch[name][at]
                assert type(value) is type(there), name
                assert np.array_equal(value, there), name
        # The function returned every column unchanged, so each has the same type, including lists of differing lengths.
        assert isinstance(made["words"], fb.Ragged)
        for name in batch:
            assert type(made[name]) is type(batch[name])


def test_structures_and_images_are_cut_into_rows(tmp_path: Path, photos: Path) -> None:
    meta = pa.array([{"author": f"a{i}", "size": {"w": i, "h": 2 * i}} for i in range(20)])
    pq.write_table(pa.table({"id": pa.array(range(20)), "meta": meta}), tmp_path / "a.parquet")

    def change(row: fb.Row) -> dict[str, Any]:
        row["meta"]["size"]["w"] += 1
        return {"id": row["id"], "meta": row["meta"]}

    with fb.Loader(tmp_path, batch_size=8, transform_rows=change) as loader:
        made = next(iter(loader))
        assert made["meta"]["size"]["w"].tolist() == list(range(1, 9))
        assert made["meta"]["author"].tolist() == [f"a{i}" for i in range(8)]

    decode = {"image": fb.Image.resize(24, 32)}
    with (
        fb.Loader(photos, decode=decode, batch_size=8) as bare,
        fb.Loader(photos, decode=decode, batch_size=8, transform_rows=lambda r: {"x": r["image"][::-1]}) as loader,
    ):
        assert (next(iter(loader))["x"] == next(iter(bare))["image"][:, ::-1]).all()


def test_a_value_that_is_replaced_in_the_row_itself_is_delivered(plain: Path) -> None:
    def replace(row: fb.Row) -> fb.Row:
        row["f32"] = row["f32"] + np.float32(1)
        row["name"] += "!"
        return row

    with small(plain) as bare, small(plain, transform_rows=replace) as loader:
        for batch, made in zip(bare, loader, strict=True):
            assert (made["f32"] == batch["f32"] + np.float32(1)).all() and made["f32"].dtype == np.float32
            assert made["name"].tolist() == [f"{name}!" for name in batch["name"]]
            assert (made["id"] == batch["id"]).all()


def test_a_value_that_is_moved_to_another_row_is_delivered_there(plain: Path) -> None:
    before: dict[str, Any] = {}

    def move(row: fb.Row) -> dict[str, Any]:
        first = dict(before) or dict(row)
        before.update(row)
        return {"id": row["id"], "f32": first["f32"], "vector": first["vector"]}

    with small(plain, threads=1) as bare, small(plain, threads=1, transform_rows=move) as loader:
        batch, made = next(iter(bare)), next(iter(loader))
    assert made["id"].tolist() == batch["id"].tolist()
    assert made["f32"].tolist() == [batch["f32"][0], *batch["f32"][:-1]]
    assert made["vector"].tolist() == [batch["vector"].tolist()[0], *batch["vector"].tolist()[:-1]]


KINDS = ["f4", "f8", ">f4", "i8", "u1", "i2", "c8", "?", "M8[us]", "m8[s]", "M8[D]", "U3", "S2", "i4,f4"]
def listing(row: fb.Row) -> dict[str, Any]:
    n = int(row["id"])
    return {
        "id": row["id"],
        "ints": list(range(n % 3)),
        "small": [np.int8(n % 100)] * (n % 4),
        "texts": tuple(str(at) for at in range(n % 2)),
        "lists": [[n], [n, 1]][: n % 3],
        "dicts": [{"a": n, "b": "x"}] * (1 + n % 2),
        "ragged": fb.Ragged(np.arange(n % 5), np.array([0, n % 3, n % 5])) if n % 5 > 1 else [],
        "empty": [],
    }


def test_lists_that_a_function_returns_are_ragged(plain: Path) -> None:
    with small(plain, columns=["id"], transform_rows=listing) as loader:
        batch = next(iter(loader))
    rows = [listing(fb.Row(id=id)) for id in batch["id"]]
    for name in set(batch) - {"id"}:
        given = [row[name] for row in rows]
        assert type(batch[name]) is fb.Ragged and batch[name].offsets.dtype == np.int64
        assert batch[name].tolist() == [of.tolist() if isinstance(of, fb.Ragged) else list(of) for of in given]
    assert (batch["small"].dtype, batch["ints"].dtype, batch["empty"].dtype) == (np.int8, np.int64, np.int64)


SHAPES: list[tuple[int, ...]] = [(), (0,), (1,), (5,), (2, 3), (3, 0), (0, 3), (2, 2, 2)]


def cells(random: np.random.Generator, shape: tuple[int, ...], kind: np.dtype[Any], count: int) -> list[Any]:
    """Returns ``count`` cells of one shape and type. Some are in column-major order in memory. Cells without
    dimensions are arrays or scalars."""
    size = (count, *shape)
    bits = random.integers(0, 2, (*size, kind.itemsize), np.uint8)
    numbers = random.integers(0, 9, size).astype(kind) if kind.kind == "U" else bits.view(kind).reshape(size)
    as_scalars = random.random() < 0.5
    found = []
    for at in range(count):
        cell = numbers[at] if as_scalars else np.array(numbers[at], kind)
        found.append(np.asfortranarray(cell) if len(shape) > 1 and random.random() < 0.5 else cell)
    return found


def stacked(values: list[Any]) -> Any:
    """Stacks values one by one in an array; returns None if they differ in shape or type. Texts become objects."""
    first = values[0]
    if all(isinstance(value, (str, bytes)) for value in values):
        return np.array([*values, None], object)[:-1]
    if any(value.dtype != first.dtype or value.shape != first.shape for value in values):
        return None
    column = np.empty((len(values), *first.shape), first.dtype)
    for at, value in enumerate(values):
        column[at] = value
    return column


@pytest.mark.parametrize("seed", range(40))
def test_any_arrays_and_scalars_become_the_columns_that_they_are_one_by_one(plain: Path, seed: int) -> None:
    random = np.random.default_rng(seed)
    count = 1_000

    def drawn() -> tuple[tuple[int, ...], np.dtype[Any]]:
        return SHAPES[random.integers(len(SHAPES))], np.dtype(KINDS[random.integers(len(KINDS))])

    columns = {name: cells(random, *drawn(), count) for name in "abc"}
    # One value of a column may be of another shape or type.
    if seed % 4 == 0:
        columns["c"][random.integers(count)] = cells(random, *drawn(), 1)[0]

    def make(row: fb.Row) -> dict[str, Any]:
        return {"id": row["id"]} | {name: column[int(row["id"])] for name, column in columns.items()}

    with small(plain) as bare, small(plain, transform_rows=make) as loader:
        made = iter(loader)
        for batch in bare:
            expected = {name: stacked([column[at] for at in batch["id"]]) for name, column in columns.items()}
            if any(column is None for column in expected.values()):
                says = r"column 'c' differ in (type|shape): .* in row \d+ of the batch"
                with pytest.raises(fb.InvalidError, match=says):
                    next(made)
                return
            found = next(made)
            for name, column in expected.items():
                assert (found[name].dtype, found[name].shape) == (column.dtype, column.shape), name
                same = found[name].tolist() == column.tolist() if column.dtype == object else None
                assert found[name].tobytes() == column.tobytes() if same is None else same, name


def test_numbers_keep_their_types(plain: Path) -> None:
    def make(row: fb.Row) -> dict[str, Any]:
        return {
            "i": int(row["id"]),
            "f": 1.5,
            "b": True,
            "u8": row["u8"],
            "n": None,
            "when": row["when"] + np.timedelta64(1, "us"),
            "s": np.str_("x" * int(row["id"])) if row["id"] % 2 else "y",
            "t": b"x",
        }

    with small(plain, transform_rows=make) as loader:
        made = next(iter(loader))
    assert {name: made[name].dtype.str for name in made} == {
        "i": "<i8",
        "f": "<f8",
        "b": "|b1",
        "u8": "|u1",
        "n": "|O",
        "when": "<M8[us]",
        "t": "|O",
        "s": "|O",
    }


def test_tensors_become_arrays(plain: Path) -> None:
    torch = pytest.importorskip("torch")
    make = {"transform_rows": lambda row: {"x": torch.tensor([float(row["id"]), 1.0]), "y": torch.tensor(3)}}
    with small(plain, **make) as loader, small(plain) as bare:
        made, batch = next(iter(loader)), next(iter(bare))
        assert made["x"].dtype == np.float32 and made["y"].dtype == np.int64
        assert made["x"][:, 0].tolist() == batch["id"].tolist()
        ours = [{"x": torch.tensor([float(i), 1.0]), "y": torch.tensor(3)} for i in batch["id"]]
        theirs = torch.utils.data.default_collate(ours)
        assert (torch.from_numpy(made["x"]) == theirs["x"]).all()
        assert (torch.from_numpy(made["y"]) == theirs["y"]).all()


def every_third(row: Any, usual: Any, other: Any) -> Any:
    return other if row["id"] % 3 == 2 else usual


@pytest.mark.parametrize(
    ("make", "kind", "says"),
    [
        (
            lambda row: {"x": np.zeros((2, 3 + int(row["id"]) % 2))},
            fb.InvalidError,
            r"column 'x' differ in shape: \(2, 4\) in row 1 of the batch, \(2, 3\) in row 0 .* or pass collate=",
        ),
        (
            lambda row: {"x": every_third(row, np.float32(1), np.float64(1))},
            fb.InvalidError,
            "column 'x' differ in type: float64 in row 2 of the batch, float32 in row 0",
        ),
        (
            lambda row: {"x": every_third(row, 1, 1.5)},
            fb.InvalidError,
            "differ in type: float in row 2 .*, int in row 0",
        ),
        (lambda row: {"x": every_third(row, 1, None)}, fb.InvalidError, "NoneType in row 2 of the batch, int in row 0"),
        (lambda row: {"x": 1 << 70}, fb.InvalidError, "int of column 'x' does not fit int64"),
        (lambda row: {"x": every_third(row, [1], 2)}, fb.InvalidError, "int in row 2 of the batch, list in row 0"),
        (
            lambda row: {every_third(row, "x", "y"): 1},
            fb.InvalidError,
            "got 'y' for row 2 of the batch and 'x' for row 0",
        ),
        (lambda row: {"x": {every_third(row, "x", "y"): 1}}, fb.InvalidError, "dicts of column 'x' differ: row 2"),
        (lambda row: {}, fb.InvalidError, "at least one column"),
        (lambda row: 3, TypeError, "transform_rows must return a dict, got int"),
    ],
)
def test_rows_that_make_no_batch_are_refused(plain: Path, make: Any, kind: type[Exception], says: str) -> None:
    with fb.Loader(plain, batch_size=8, transform_rows=make) as loader, pytest.raises(kind, match=says) as caught:
        next(iter(loader))
    if hasattr(caught.value, "add_note"):
        assert any("batch 0 (as counted in this run) of epoch 0" in note for note in caught.value.__notes__)


class Mine(Exception):
    """An exception that only this test knows."""


def fail(row: fb.Row) -> dict[str, Any]:
    if row["id"] == 613:
        raise Mine("no")
    return {"id": row["id"]}


def test_an_exception_is_raised_at_its_batch_with_the_place_of_its_row(plain: Path) -> None:
    with small(plain) as bare:
        which = next(at for at, batch in enumerate(ids(bare)) if 613 in batch)
    with small(plain, transform_rows=fail) as loader:
        seen = 0
        with pytest.raises(Mine, match="no") as caught:
            for _ in loader:
                seen += 1
        assert seen == which
        assert "in fail" in "".join(traceback.format_tb(caught.value.__traceback__))
        if hasattr(caught.value, "add_note"):
            # Row 613 is row 213 of the second file, whose row groups have 90 rows.
            (note,) = caught.value.__notes__
            assert "forebay: in the transform_rows of " in note
            assert f"part-1.parquet, row group 2, row {213 - 180}, which is row " in note
            assert f"of batch {which} (as counted in this run) of epoch 0" in note
        assert loader.state_dict()["row"] == which * 64


def test_a_stop_iteration_of_its_own_does_not_end_the_epoch(plain: Path) -> None:
    def stop(row: fb.Row) -> Any:
        return next(iter(()))

    with small(plain, transform_rows=stop) as loader:
        with pytest.raises(RuntimeError, match="the transform_rows raised StopIteration") as caught:
            list(loader)
        assert isinstance(caught.value.__cause__, StopIteration)


def test_a_batch_transform_comes_after_it(plain: Path) -> None:
    def norm(batch: dict[str, Any]) -> dict[str, Any]:
        return {"id": batch["id"], "y": np.linalg.norm(batch["vector"], axis=1), "rows": len(batch["id"])}

    with small(plain, transform_rows=halve, transform=norm) as loader, small(plain) as bare:
        for batch, made in zip(bare, loader, strict=True):
            assert np.allclose(made["y"], np.linalg.norm(batch["vector"] * 2, axis=1))
            assert made["rows"] == batch.num_rows


def pad(rows: list[Any]) -> dict[str, Any]:
    longest = max(len(row["words"]) for row in rows)
    words = np.stack([np.pad(row["words"], (0, longest - len(row["words"]))) for row in rows])
    return {"id": np.array([row["id"] for row in rows]), "words": words}


@pytest.mark.parametrize("rows", [None, lambda row: {"id": row["id"], "words": row["words"]}], ids=["alone", "rows"])
def test_collate_puts_rows_together_in_its_own_way(plain: Path, rows: Any) -> None:
    with small(plain, transform_rows=rows, collate=pad) as loader, small(plain) as bare:
        for batch, made in zip(bare, loader, strict=True):
            assert (made["words"] == batch["words"].padded()).all()
            assert (made["id"] == batch["id"]).all()


@pytest.mark.parametrize(
    ("collate", "kind", "says"),
    [
        (lambda rows: [1], TypeError, "collate must return a dict of arrays, got list"),
        (lambda rows: {}, fb.InvalidError, "collate must return at least one column"),
        (lambda rows: {"x": np.zeros(3)}, fb.InvalidError, "collate must return 64 rows of column 'x', .* got 3"),
    ],
)
def test_what_collate_returns_is_checked(plain: Path, collate: Any, kind: type[Exception], says: str) -> None:
    with small(plain, collate=collate) as loader, pytest.raises(kind, match=says):
        next(iter(loader))


@pytest.mark.parametrize("name", ["transform_rows", "collate", "transform"])
def test_it_has_to_be_callable(plain: Path, name: str) -> None:
    with pytest.raises(fb.InvalidError, match=f"{name} must be callable, got int"):
        small(plain, **{name: 3})


# Random numbers


def test_the_random_numbers_of_a_row_differ_by_row_epoch_and_seed(plain: Path) -> None:
    def of(seed: int, epoch: int) -> dict[int, Any]:
        with small(plain, shuffle=fb.Shuffle(seed=seed), transform_rows=draw) as loader:
            return table(loader.epoch(epoch))

    first = of(17, 0)
    assert len(first) == len(set(first.values())) == 1_000
    assert of(17, 0) == first
    for other in (of(17, 1), of(18, 0)):
        assert other.keys() == first.keys()
        assert not set(other.values()) & set(first.values())


def test_they_do_not_depend_on_batches_lanes_threads_or_columns(plain: Path) -> None:
    with small(plain, transform_rows=draw) as loader:
        first = table(loader)
    for options in (
        {"batch_size": 7, "threads": 1},
        {"columns": ["id"]},
        {"shuffle": fb.Shuffle.exact(17, lanes=4), "memory": "1GB"},
        {"columns": ["name", "id"], "filter": [("id", ">=", 0)]},
        {"on_bad_row": fb.Skip(at_most=3)},
    ):
        with small(plain, **options, transform_rows=draw) as loader:
            assert table(loader) == first


def test_they_do_not_depend_on_ranks_or_where_a_run_was_resumed(plain: Path) -> None:
    shuffle = fb.Shuffle(seed=17, window_rows=200, lanes=4)
    with small(plain, shuffle=shuffle, transform_rows=draw) as loader:
        first = table(loader)
        of_ranks: dict[int, Any] = {}
        for rank in range(4):
            with small(plain, shuffle=shuffle, shard=fb.Shard(rank=rank, world=4), transform_rows=draw) as part:
                of_ranks.update(table(part))
        assert of_ranks == first
        epoch = iter(loader.epoch(0))
        seen = table(next(epoch) for _ in range(5))
        state = loader.state_dict()
    with small(plain, shuffle=shuffle, transform_rows=draw) as again:
        again.load_state_dict(state)
        rest = table(again)
    assert not seen.keys() & rest.keys()
    assert seen | rest == first


def test_a_row_that_was_left_out_takes_no_random_numbers_along(tmp_path: Path) -> None:
    numbers = pa.array([None if i % 5 == 3 else i for i in range(100)])
    for name, column in (("bad", numbers), ("good", pa.array(range(100)))):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"id": column}), tmp_path / name / "a.parquet")
    shuffle = fb.Shuffle(seed=3)
    skip = fb.Skip(at_most=20)
    with (
        fb.Loader(tmp_path / "bad", batch_size=8, shuffle=shuffle, transform_rows=draw, on_bad_row=skip) as bad,
        fb.Loader(tmp_path / "good", batch_size=8, shuffle=shuffle, transform_rows=draw) as good,
    ):
        kept, full = table(bad), table(good)
        assert len(kept) == 80
        assert kept == {i: full[i] for i in kept}


def test_a_batch_whose_rows_were_all_left_out_has_the_columns_of_others(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([None] * 4 + list(range(4)))}), tmp_path / "a.parquet")
    with fb.Loader(tmp_path, batch_size=4, on_bad_row=fb.Skip(at_most=4), transform_rows=draw) as loader:
        batches = list(loader)
    assert [sorted(batch) for batch in batches] == [["id", "x"], ["id", "x"]]
    assert batches[0]["id"].tolist() == [0]
    np.testing.assert_array_equal(batches[0]["x"][0], batches[1]["x"][0])


def test_one_generator_goes_on_in_a_row(plain: Path) -> None:
    def twice(row: fb.Row) -> dict[str, Any]:
        assert fb.rng(row) is fb.rng(row)
        return {"id": row["id"], "x": np.array([fb.rng(row).random(), fb.rng(row).random(), fb.rng(row).random()])}

    with small(plain, transform_rows=twice) as one, small(plain, transform_rows=draw) as other:
        assert table(one) == table(other)


def test_only_a_row_of_a_loader_has_random_numbers(plain: Path) -> None:
    for row in ({"id": 3}, fb.Row(id=3), None):
        with pytest.raises(fb.InvalidError, match="rng takes the row that transform_rows was given"):
            fb.rng(row)  # type: ignore[arg-type]


def test_without_a_shuffle_there_are_random_numbers_too(plain: Path) -> None:
    with fb.Loader(plain, batch_size=10, transform_rows=draw) as loader:
        zero, one = table(loader.epoch(0)), table(loader.epoch(1))
    assert len(set(zero.values()) | set(one.values())) == 2_000
