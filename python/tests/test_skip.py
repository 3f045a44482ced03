"""Bad rows that are skipped: no batch is empty, shapes are kept on request, limits survive a resume, and
functions reject rows."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 24


def vectors(folder: Path, bad: Iterable[int], rows: int = ROWS) -> Path:
    """Writes rows of two numbers in row groups of 8. The bad rows are null."""
    values = pa.array([None if row in bad else [float(row), 1.0] for row in range(rows)], pa.list_(pa.float32(), 2))
    path = folder / "vectors.parquet"
    pq.write_table(pa.table({"id": np.arange(rows), "x": values}), path, row_group_size=8)
    return path


def loader(path: Path, rank: int = 0, world: int = 1, **options: Any) -> fb.Loader:
    given: dict[str, Any] = {
        "decode": {"x": fb.Tensor("float32", (2,))},
        "on_bad_row": fb.Skip(at_most=100),
        "shuffle": fb.Shuffle.stored(lanes=1),
        "shard": fb.Shard(rank=rank, world=world),
    }
    return fb.Loader(path, **(given | options))


def ids(batches: Iterable[Any]) -> list[list[int]]:
    return [batch["id"].tolist() for batch in batches]


@pytest.mark.parametrize(
    ("bad", "expected"),
    [
        ({3}, [[11], [11], [19]]),
        ({3, 11}, [[19], [19], [19]]),
        ({11}, [[3], [19], [19]]),
        ({19}, [[3], [11], [3]]),
        ({11, 19}, [[3], [3], [3]]),
    ],
    ids=str,
)
def test_a_batch_without_a_good_row_has_the_next_one_of_its_rank(tmp_path: Path, bad: set[int], expected: Any) -> None:
    path = vectors(tmp_path, bad)
    for threads in (1, 3):
        one = loader(path, 3, 8, global_batch_size=8, threads=threads, row_mask=True, row_id=True)
        batches = list(one)
        assert ids(batches) == expected
        stats = one.stats().to_dict()
        assert (stats["skipped_rows"], stats["padded_rows"]) == (len(bad), len(bad))
        counted = [batch["row_mask"].tolist() for batch in batches]
        assert counted == [[step * 8 + 3 not in bad] for step in range(3)]
        assert [batch["x"][0, 0] for batch in batches] == [row for (row,) in expected]
        assert len({int(batch["row_id"][0]) - int(batch["id"][0]) for batch in batches}) == 1
    # Wherever the run is resumed, the rest is the same.
    straight = loader(path, 3, 8, global_batch_size=8)
    epoch = straight.epoch(0)
    for step in range(2):
        next(epoch)
        resumed = loader(path, 3, 8, global_batch_size=8)
        resumed.load_state_dict(json.loads(json.dumps(straight.state_dict())))
        assert ids(resumed) == expected[step + 1 :]
        assert resumed.stats().to_dict()["skipped_rows"] == sum(row >= 8 * (step + 1) for row in bad)
        assert len(list(resumed)) == 3, "the next epoch is whole"


def test_a_rank_without_a_good_row_is_told(tmp_path: Path) -> None:
    path = vectors(tmp_path, {3, 11, 19})
    says = "row 3, column .*no row of this rank in epoch 0 can be delivered, the first because: null"
    with pytest.raises(fb.BadRowError, match=says) as refused:
        list(loader(path, 3, 8, global_batch_size=8))
    assert "fill_null" in str(refused.value), "the next move for that row"
    assert ids(loader(path, 2, 8, global_batch_size=8)) == [[2], [10], [18]]


def test_a_batch_of_a_lost_row_group_is_not_empty(tmp_path: Path) -> None:
    path = vectors(tmp_path, ())
    stored = bytearray(path.read_bytes())
    group = pq.ParquetFile(path).metadata.row_group(1)
    for column in range(2):
        begin = group.column(column).dictionary_page_offset or group.column(column).data_page_offset
        stored[begin : begin + 8] = b"\xff" * 8
    path.write_bytes(stored)
    one = loader(path, batch_size=4)
    assert ids(one) == [[0, 1, 2, 3], [4, 5, 6, 7], [16], [16], [16, 17, 18, 19], [20, 21, 22, 23]]
    assert len(one.skipped()) == 8


def test_the_limit_is_kept_to_before_a_row_stands_in(tmp_path: Path) -> None:
    one = loader(vectors(tmp_path, {3, 11}), 3, 8, global_batch_size=8, on_bad_row=fb.Skip(at_most=1))
    with pytest.raises(fb.BadRowError, match="row group 1, row 3.*2 bad rows, of which 1 may be skipped"):
        list(one)


@pytest.mark.parametrize(("bad", "expected"), [({1, 3}, [0, 0, 2, 2]), ({0, 1}, [2, 2, 2, 3]), ({0, 1, 2, 3}, [4] * 4)], ids=str)
def test_batches_keep_their_shape_where_asked(tmp_path: Path, bad: set[int], expected: list[int]) -> None:
    skip = fb.Skip(at_most=100, refill=True)
    one = loader(vectors(tmp_path, bad), batch_size=4, on_bad_row=skip, row_mask=True, row_id=True)
    batches = list(one)
    assert {batch["x"].shape for batch in batches} == {(4, 2)}
    assert batches[0]["id"].tolist() == expected == batches[0]["x"][:, 0].tolist()
    assert [batch["id"].tolist() for batch in batches[1:]] == [list(range(at, at + 4)) for at in range(4, ROWS, 4)]
    counted = np.concatenate([batch["id"][batch["row_mask"]] for batch in batches])
    assert counted.tolist() == [row for row in range(ROWS) if row not in bad]
    assert (batches[0]["row_id"] - batches[0]["id"] == batches[1]["row_id"][0] - 4).all()
    stats = one.stats().to_dict()
    assert (stats["skipped_rows"], stats["padded_rows"]) == (len(bad), len(bad))
    assert len(one.skipped()) == len(bad)


def test_windows_and_packs_keep_their_shape(tmp_path: Path) -> None:
    skip = fb.Skip(at_most=100, refill=True)
    one = loader(vectors(tmp_path, {9}), samples=fb.Window(4, overlap=False), batch_size=2, on_bad_row=skip)
    assert [batch["id"][:, 0].tolist() for batch in one] == [[0, 4], [12, 12], [16, 20]]
    lists = pa.array([[row, None if row == 2 else row] for row in range(8)], pa.list_(pa.int64()))
    pq.write_table(pa.table({"t": lists}), tmp_path / "lists.parquet")
    packs = fb.Loader(tmp_path / "lists.parquet", samples=fb.Pack("t", 2), batch_size=4, on_bad_row=skip, row_mask=True)
    batches = list(packs)
    assert [batch["t"][:, 0].tolist() for batch in batches] == [[0, 1, 1, 3], [4, 5, 6, 7]]
    assert batches[0]["row_mask"].tolist() == [True, True, False, True]
    assert [ends.tolist() for ends in batches[0]["cu_seqlens"]] == [[0, 2]] * 4


def test_the_limit_goes_on_behind_a_resume(tmp_path: Path) -> None:
    path = vectors(tmp_path, {1, 2, 9, 10})
    first, second, third = (loader(path, batch_size=8, on_bad_row=fb.Skip(at_most=most)) for most in (3, 3, 4))
    next(iter(first))
    state = json.loads(json.dumps(first.state_dict()))
    assert state["skipped"] == 2
    second.load_state_dict(state)
    assert second.state_dict() == state
    with pytest.raises(fb.BadRowError, match="row group 1, row 2.*4 bad rows, of which 3 may be skipped"):
        list(second)
    third.load_state_dict(state)
    assert [len(batch["id"]) for batch in third] == [6, 8]
    assert "skipped" not in third.state_dict(), "each epoch counts from 0"
    assert len(list(third)) == 3
    clean = loader(vectors(tmp_path, ()), batch_size=8)
    next(iter(clean))
    assert "skipped" not in clean.state_dict()


def test_the_limit_of_each_source_of_a_mix_goes_on_behind_a_resume(tmp_path: Path) -> None:
    for name, bad in (("a", {1, 2, 9, 10}), ("b", {0})):
        (tmp_path / name).mkdir()
        vectors(tmp_path / name, bad)

    def mix(at_most: int) -> fb.Mix:
        skip = fb.Skip(at_most=at_most)
        return fb.Mix([(loader(tmp_path / name, shard=None, on_bad_row=skip), 0.5) for name in "ab"], batch_size=16)

    straight = mix(4)
    sizes = [len(batch["id"]) for batch in straight]
    assert sizes == [13, 14, 16]
    first, second, third = mix(3), mix(3), mix(4)
    next(iter(first))
    state = json.loads(json.dumps(first.state_dict()))
    assert [source["skipped"] for source in state["sources"]] == [2, 1]
    second.load_state_dict(state)
    with pytest.raises(fb.BadRowError, match="a/vectors.parquet, row group 1, row 2.*4 bad rows, of which 3"):
        list(second)
    third.load_state_dict(state)
    assert [len(batch["id"]) for batch in third] == sizes[1:]


# Functions


def even(row: fb.Row) -> dict[str, Any]:
    if row["id"] % 2:
        raise fb.BadRow(f"{row['id']} is odd")
    return dict(row)


def from_16(row: fb.Row) -> dict[str, Any]:
    if row["id"] < 16:
        raise fb.BadRow("too early")
    return dict(row)


def until_16(row: fb.Row) -> dict[str, Any]:
    if row["id"] >= 16:
        raise fb.BadRow("too late")
    return dict(row)


def named(rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Rejects the first odd row of the list, by the row itself or by its position."""
    for place, row in enumerate(rows):
        if row["id"] % 2:
            raise fb.BadRow(f"{row['id']} is odd", row if row["id"] % 4 == 1 else place)
    return {name: np.stack([row[name] for row in rows]) for name in rows[0]} | {"rows": len(rows)}


WORKERS = pytest.mark.parametrize("workers", [0, fb.Workers(2, threads=True), 2], ids=["here", "threads", "processes"])


@WORKERS
@pytest.mark.parametrize("functions", [{"transform_rows": even}, {"collate": named}], ids=["rows", "collate"])
def test_rows_that_a_function_rejects_are_bad_rows(tmp_path: Path, functions: Any, workers: Any) -> None:
    path = vectors(tmp_path, {4, 5})
    with loader(path, batch_size=6, transform_workers=workers, on_bad_row=fb.Skip(at_most=13), **functions) as one:
        assert ids(one) == [[0, 2], [6, 8, 10], [12, 14, 16], [18, 20, 22]]
        rows = one.skipped()
        places = [(row.row_group or 0) * 8 + (row.row or 0) for row in rows]
        assert places == [4, 5, 1, 3, 7, 9, 11, 13, 15, 17, 19, 21, 23], "the epoch's own of a batch come first"
        assert rows[2].cause == "1 is odd" and rows[2].column is None and Path(rows[2].file or "").name == path.name
        assert one.stats().to_dict()["skipped_rows"] == 13
        one.skipped(save=tmp_path / "bad.txt")
    with loader(path, batch_size=6, deny=tmp_path / "bad.txt", on_bad_row="raise") as rest:
        assert sum(ids(rest), []) == [0, 2, 6, 8, 10, 12, 14, 16, 18, 20, 22]
    with loader(path, batch_size=6, transform_workers=workers, on_bad_row=fb.Skip(at_most=12), **functions) as one:
        with pytest.raises(fb.BadRowError, match="row group 2, row 7: 13 bad rows, of which 12 may be skipped: 23 is odd"):
            list(one)
        assert len(one.skipped()) == 13


@WORKERS
@pytest.mark.parametrize("functions", [{"transform_rows": even}, {"collate": named}], ids=["rows", "collate"])
def test_a_rejected_row_raises_with_its_place_by_default(tmp_path: Path, functions: Any, workers: Any) -> None:
    path = vectors(tmp_path, ())
    with loader(path, batch_size=6, transform_workers=workers, on_bad_row="raise", **functions) as one:
        with pytest.raises(fb.BadRowError, match=r"vectors.parquet, row group 0, row 1: 1 is odd .*Skip\(at_most=") as caught:
            list(one)
        assert (caught.value.row_group, caught.value.row) == (0, 1)


@WORKERS
def test_a_batch_whose_rows_were_all_rejected_is_not_empty(tmp_path: Path, workers: Any) -> None:
    path = vectors(tmp_path, ())
    options: Any = {"batch_size": 8, "row_mask": True, "transform_workers": workers}
    with loader(path, transform_rows=from_16, **options) as one:
        batches = list(one)
        assert ids(batches) == [[16], [16], list(range(16, 24))]
        assert [int(batch["row_mask"].sum()) for batch in batches] == [0, 0, 8]
        assert one.stats().to_dict()["padded_rows"] == 2
    with loader(path, transform_rows=until_16, **options) as one:
        assert ids(one) == [list(range(8)), list(range(8, 16)), [0]]
    with loader(path, transform_rows=until_16, filter=fb.col("id") >= 16, **options) as one:
        with pytest.raises(fb.BadRowError, match="rejected all rows of this rank"):
            list(one)


@WORKERS
def test_batches_keep_their_shape_where_functions_reject_rows(tmp_path: Path, workers: Any) -> None:
    path, skip = vectors(tmp_path, {0}), fb.Skip(at_most=100, refill=True)
    options: Any = {"batch_size": 4, "row_mask": True, "transform_workers": workers, "on_bad_row": skip}
    for functions in ({"transform_rows": even}, {"collate": named}):
        with loader(path, **options, **functions) as one:
            batches = list(one)
            # Rows 0 and 1 are bad, and row 2 stands in for both.
            assert ids(batches[:2]) == [[2, 2, 2, 2], [4, 4, 6, 6]]
            assert {batch["x"].shape for batch in batches} == {(4, 2)}
            assert sorted(sum((batch["id"][batch["row_mask"]].tolist() for batch in batches[1:]), [])) == list(range(4, 24, 2))
    with loader(path, transform_rows=from_16, **options) as one:
        assert ids(one)[:5] == [[16] * 4] * 4 + [[16, 17, 18, 19]]


@WORKERS
def test_rejected_rows_and_others_have_one_limit(tmp_path: Path, workers: Any) -> None:
    path = vectors(tmp_path, {8, 10})
    options: Any = {"batch_size": 8, "transform_rows": even, "transform_workers": workers}
    with loader(path, on_bad_row=fb.Skip(at_most=9), **options) as one:
        with pytest.raises(fb.BadRowError, match="10 bad rows, of which 9 may be skipped"):
            list(one)
    path = vectors(tmp_path, {row for row in range(1, ROWS, 2) if row > 8} | {16})
    with loader(path, on_bad_row=fb.Skip(at_most=12), **options) as one:
        with pytest.raises(fb.BadRowError, match="row group 2, row 7, column.*13 bad rows, of which 12 may be skipped: null"):
            list(one)


@WORKERS
def test_lists_that_are_passed_on_are_taken_without_rejected_rows(tmp_path: Path, workers: Any) -> None:
    table = pa.table({"id": range(12), "t": [[row] * (row % 3) for row in range(12)]})
    pq.write_table(table, tmp_path / "t.parquet")
    for refill, expected in ((False, [2, 4, 6, 8, 10]), (True, [2, 2, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10])):
        skip = fb.Skip(at_most=12, refill=refill)
        options: Any = {"transform_rows": later, "transform_workers": workers, "batch_size": 4, "on_bad_row": skip}
        with fb.Loader(tmp_path / "t.parquet", **options) as one:
            lists = [row.tolist() for batch in one for row in batch["t"]]
            assert lists == [[row] * (row % 3) for row in expected]


def later(row: fb.Row) -> dict[str, Any]:
    if row["id"] == 0:
        raise fb.BadRow
    return even(row)


@WORKERS
def test_rejected_rows_count_behind_a_resume(tmp_path: Path, workers: Any) -> None:
    path = vectors(tmp_path, {0})

    def made(at_most: int) -> fb.Loader:
        skip = fb.Skip(at_most=at_most)
        return loader(path, batch_size=8, transform_rows=even, transform_workers=workers, on_bad_row=skip)

    with made(13) as one, made(12) as other, made(13) as third:
        epoch = iter(one)
        next(epoch)
        state = one.state_dict()
        assert state["skipped"] == 5
        epoch.close()
        other.load_state_dict(state)
        with pytest.raises(fb.BadRowError, match="13 bad rows, of which 12"):
            list(other)
        third.load_state_dict(state)
        assert ids(third) == [[8, 10, 12, 14], [16, 18, 20, 22]]


def whole(batch: dict[str, Any]) -> dict[str, Any]:
    raise fb.BadRow("this batch")


def nameless(rows: list[dict[str, Any]]) -> dict[str, Any]:
    raise fb.BadRow("one of these")


@WORKERS
@pytest.mark.parametrize(
    ("functions", "said"),
    [({"transform": whole}, "raise it in transform_rows"), ({"collate": nameless}, "without the row that is bad")],
    ids=["transform", "collate"],
)
def test_a_rejection_that_names_no_row_is_refused(tmp_path: Path, functions: Any, said: str, workers: Any) -> None:
    with loader(vectors(tmp_path, ()), batch_size=8, transform_workers=workers, **functions) as one:
        with pytest.raises(fb.InvalidError, match=said):
            list(one)


@WORKERS
def test_a_resumed_run_fills_a_batch_with_the_first_row_of_the_epoch(tmp_path: Path, workers: Any) -> None:
    path = vectors(tmp_path, ())
    options: Any = {"batch_size": 8, "row_mask": True, "transform_workers": workers, "transform_rows": between_3_and_16}
    for steps in (1, 2):
        with loader(path, **options) as one, loader(path, **options) as other:
            batches = iter(one)
            whole = ids([next(batches) for _ in range(steps)])
            other.load_state_dict(one.state_dict())
            resumed = ids(other)
            assert whole + resumed == [[3, 4, 5, 6, 7], list(range(8, 16)), [3]]
            assert len(other.skipped()) == 8


def between_3_and_16(row: fb.Row) -> dict[str, Any]:
    return until_16(row) if row["id"] >= 3 else from_16(row)


@WORKERS
def test_a_resumed_mix_fills_a_batch_with_the_first_row_of_the_epoch(tmp_path: Path, workers: Any) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    paths = [vectors(tmp_path / name, ()) for name in ("a", "b")]

    def mixed() -> fb.Mix:
        stored: Any = {"on_bad_row": fb.Skip(at_most=100), "shuffle": fb.Shuffle.stored(lanes=1)}
        each = [(fb.Loader(path, columns=["id"], **stored), 1) for path in paths]
        return fb.Mix(each, batch_size=8, transform_rows=until_16, transform_workers=workers)

    with mixed() as one, mixed() as other:
        steps = iter(one)
        whole = ids([next(steps) for _ in range(4)])
        other.load_state_dict(one.state_dict())
        resumed = ids(other)
        assert resumed == ids(steps) == [whole[0][:1]] * 2
