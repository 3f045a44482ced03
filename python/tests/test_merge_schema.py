"""Files whose columns differ."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import forebay as fb

FILES: list[dict[str, Any]] = [
    {"id": pa.array(range(0, 50), pa.int32()), "x": pa.array(range(50), pa.int8()), "old": pa.array(["a"] * 50)},
    {
        "new": pa.array([[1, 2], []] * 25),
        "x": pa.array(range(50), pa.uint16()),
        "id": pa.array(range(50, 100), pa.int64()),
    },
    {
        "id": pa.array(range(100, 150), pa.uint32()),
        "x": pa.array([None, -0.5] * 25, pa.float32()),
        "s": pa.array([{"a": 1, "b": None}] * 50, pa.struct([("a", pa.int64()), ("b", pa.string())])),
    },
]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "t").mkdir()
    for at, columns in enumerate(FILES):
        pq.write_table(pa.table(columns), tmp_path / "t" / f"{at}.parquet", row_group_size=16)
    return tmp_path / "t"


def merged() -> list[dict[str, Any]]:
    """Returns what pyarrow makes of the files, in the merged types."""
    tables = [pa.table(columns) for columns in FILES]
    whole = pa.concat_tables(tables, promote_options="permissive")
    return sorted(whole.to_pylist(), key=lambda row: row["id"])


def test_columns_that_differ_are_merged_as_pyarrow_merges_them(folder: Path, tmp_path: Path) -> None:
    data = fb.Dataset(folder, merge_schema=True)
    assert data.columns == ["id", "x", "old", "new", "s"]
    want = merged()
    options: dict[str, Any] = {"batch_size": 13, "shuffle": fb.Shuffle(seed=2, window_rows=60)}
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")
    for extra in ({}, {"cache": cache}, {"cache": cache}, {"filter": fb.col("id") >= 0}):
        found = {}
        with fb.Loader(
            data, columns=["id", "x", "old", "new"], **options, **extra, fill_null={"x": -9, "new": 0}
        ) as loader:
            assert str(pa.schema(loader.schema).field("x").type) == "float"
            for batch in loader:
                assert batch["id"].dtype == np.int64 and batch["x"].dtype == np.float32
                lists = batch["new"].tolist()
                for row, x, old, new in zip(
                    batch["id"].tolist(), batch["x"].tolist(), batch["old"], lists, strict=True
                ):
                    found[row] = (x, old, new)
        null = {row["id"]: (-9 if row["x"] is None else row["x"], row["old"], row["new"] or []) for row in want}
        assert found == null
    with fb.Loader(data, columns=["s"], batch_size=200) as loader:
        (batch,) = loader
        assert pa.record_batch(batch)["s"].to_pylist() == [row["s"] for row in want]


def test_a_filter_reads_a_merged_column_in_its_own_type(folder: Path) -> None:
    data = fb.Dataset(folder, merge_schema=True)
    want = merged()

    def ids(filter: Any) -> list[int]:
        with fb.Loader(data, columns=["id"], filter=filter) as loader:
            return sorted(int(row) for batch in loader for row in batch["id"])

    assert ids(fb.col("id") > 120) == list(range(121, 150))
    assert ids(fb.col("x") < 3.5) == [row["id"] for row in want if row["x"] is not None and row["x"] < 3.5]
    assert ids(fb.col("old") == "a") == list(range(50))
    assert ids(fb.col("old").is_null()) == list(range(50, 150))
    assert ids(~fb.col("s").is_null() | (fb.col("id") == 3)) == [3, *range(100, 150)]


def test_a_null_of_a_file_that_lacks_a_column_is_refused_where_an_array_cannot_hold_it(folder: Path) -> None:
    with fb.Loader(folder, merge_schema=True, columns=["id", "new"], batch_size=150) as loader:
        with pytest.raises(fb.NullError, match="new"):
            [batch["new"] for batch in loader]


def test_without_it_both_files_are_named_and_the_option(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(fb.UnsupportedError, match=r"1\.parquet.*0\.parquet.*columns=.*merge_schema"):
        fb.Loader(folder)
    other = tmp_path / "u"
    other.mkdir()
    pq.write_table(pa.table({"id": [1]}), other / "a.parquet")
    pq.write_table(pa.table({"id": ["1"]}), other / "b.parquet")
    with pytest.raises(fb.UnsupportedError, match="no type holds the values of both"):
        fb.Loader(other, merge_schema=True)
    with pytest.raises(fb.InvalidError, match="merge_schema and a Dataset"):
        fb.Loader(fb.Dataset(other / "a.parquet"), merge_schema=True)
    with pytest.raises(fb.InvalidError, match="True or False"):
        fb.Dataset(other, merge_schema="yes")  # type: ignore[arg-type]


def test_copies_merge_too_and_files_that_agree_are_as_they_were(folder: Path, tmp_path: Path) -> None:
    data = fb.Dataset(folder, merge_schema=True)
    assert pickle.loads(pickle.dumps(data)).columns == copy.copy(data).columns == data.columns
    with fb.Loader(folder, merge_schema=True, columns=["id"], shuffle=fb.Shuffle(seed=1)) as loader:
        again = pickle.loads(pickle.dumps(loader))
        assert [batch["id"].tolist() for batch in again] == [batch["id"].tolist() for batch in loader]
    one = folder / "0.parquet"
    assert fb.Dataset(one, merge_schema=True).fingerprint == fb.Dataset(one).fingerprint


def test_folders_and_a_merge_go_together(tmp_path: Path) -> None:
    for day in (1, 2, 3):
        folder = tmp_path / "t" / f"day={day}"
        folder.mkdir(parents=True)
        columns = {"id": pa.array([day * 10 + row for row in range(5)], pa.int32() if day < 3 else pa.int64())}
        if day == 2:
            columns["extra"] = pa.array(["e"] * 5)
        pq.write_table(pa.table(columns), folder / "a.parquet")
    filter = (fb.col("day") >= 2) & ~fb.col("extra").is_null()
    alone = fb.Loader(tmp_path / "t", merge_schema=True, filter=filter)
    shared = fb.Loader(fb.Dataset(tmp_path / "t", merge_schema=True), filter=filter)
    for loader in (alone, shared):
        (batch,) = loader
        assert batch["id"].tolist() == [20, 21, 22, 23, 24] and set(batch["extra"]) == {"e"}
        assert batch["day"].tolist() == [2] * 5
    assert ds.dataset(tmp_path / "t").count_rows() == 15


def test_folders_that_are_left_out_take_no_columns_with_them(tmp_path: Path) -> None:
    types = {1: pa.int32(), 2: pa.int32(), 3: pa.int64()}
    for day, number in types.items():
        folder = tmp_path / "t" / f"day={day}"
        folder.mkdir(parents=True)
        columns = {"id": pa.array(range(5), number)} | ({"late": pa.array([0.5] * 5)} if day == 3 else {})
        pq.write_table(pa.table(columns), folder / "a.parquet")
    filter = fb.col("day") < 3
    data = fb.Dataset(tmp_path / "t", merge_schema=True)
    alone = fb.Loader(tmp_path / "t", merge_schema=True, filter=filter)
    shared = fb.Loader(data, filter=filter)
    assert str(alone.schema) == str(shared.schema) and alone.state_dict() == shared.state_dict()
    assert pa.schema(alone.schema).field("id").type == pa.int64()
    for loader in (alone, shared):
        (batch,) = loader
        assert batch.to_arrow()["late"].null_count == 10
    with pytest.raises(fb.InvalidError, match="matches no folder"):
        fb.Loader(tmp_path / "t", merge_schema=True, filter=fb.col("day") > 9)


def test_a_column_of_nulls_alone_is_of_any_type(tmp_path: Path) -> None:
    """pandas writes such a column if all its values are missing."""
    values: dict[str, list[Any]] = {"text": ["a", None], "number": [1, 2], "list": [[1.5], None], "when": [None, None]}
    pq.write_table(pa.table({name: pa.nulls(2) for name in values}), tmp_path / "0.parquet")
    pq.write_table(pa.table(values), tmp_path / "1.parquet")
    pq.write_table(pa.table({name: pa.nulls(2) for name in values}), tmp_path / "2.parquet")
    with pytest.raises(fb.UnsupportedError, match="merge_schema"):
        fb.Loader(tmp_path)
    with fb.Loader(tmp_path, merge_schema=True, batch_size=4) as loader:
        found = pa.Table.from_batches([batch.to_arrow() for batch in loader])
    nothing = [None, None]
    assert {name: found[name].to_pylist() for name in values} == {
        name: nothing + stored + nothing for name, stored in values.items()
    }
    with fb.Loader(tmp_path, merge_schema=True, filter=fb.col("number") >= 2, columns=["text"]) as loader:
        assert [batch.to_arrow()["text"].to_pylist() for batch in loader] == [[None]]
    with fb.Loader(tmp_path, merge_schema=True, filter=fb.col("number").is_null(), columns=["text"]) as loader:
        assert sum(batch.num_rows for batch in loader) == 4
