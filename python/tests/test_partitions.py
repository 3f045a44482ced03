"""Folders named `key=value` are columns."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import forebay as fb

NULL = "__HIVE_DEFAULT_PARTITION__"


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Writes two levels of folders whose names contain every special character, as Spark writes them."""
    number = 0
    for year in (2023, 2024):
        for city in ("Oslo", "S%C3%A3o Paulo", "a%2Fb", "100%25", NULL):
            folder = tmp_path / "t" / f"year={year}" / f"city={city}"
            folder.mkdir(parents=True)
            for part in range(2):
                rows = pa.table({"id": pa.array(range(number, number + 30), pa.int64())})
                pq.write_table(rows, folder / f"part-{part}.parquet", row_group_size=7)
                number += 30
    (tmp_path / "t" / "_SUCCESS").touch()
    (tmp_path / "t" / "_metadata").write_bytes(b"not read")
    return tmp_path / "t"


def rows(loader: fb.Loader) -> dict[int, tuple[Any, Any]]:
    found = {}
    for batch in loader:
        for row, year, city in zip(batch["id"].tolist(), batch["year"].tolist(), batch["city"].tolist(), strict=True):
            assert row not in found
            found[row] = (year, city)
    return found


def test_keys_are_columns_as_pyarrow_has_them(table: Path) -> None:
    stored = ds.dataset(table, partitioning="hive", exclude_invalid_files=True).to_table().to_pylist()
    want = {row["id"]: (row["year"], row["city"]) for row in stored}
    with fb.Loader(table, batch_size=50, drop_last=False, shuffle=fb.Shuffle(seed=1, window_rows=100)) as loader:
        assert loader.schema.names == ["id", "year", "city"]
        assert rows(loader) == want
        batch = next(iter(loader))
        assert batch["year"].dtype == np.int64
    assert {city for _, city in want.values()} == {"Oslo", "São Paulo", "a/b", "100%", None}


def test_filters_leave_whole_folders_out(table: Path) -> None:
    everything = ds.dataset(table, partitioning="hive", exclude_invalid_files=True)
    for filters, condition in (
        ([("year", "==", 2024)], ds.field("year") == 2024),
        ([("city", "in", ["Oslo", "a/b"])], ds.field("city").isin(["Oslo", "a/b"])),
        ([("city", "<", "P"), ("id", ">=", 40)], (ds.field("city") < "P") & (ds.field("id") >= 40)),
    ):
        want = everything.to_table(filter=condition)["id"].to_pylist()
        with fb.Loader(table, batch_size=16, drop_last=False, filter=filters, shuffle=fb.Shuffle(seed=2)) as loader:
            got = [row for batch in loader for row in batch["id"].tolist()]
        assert sorted(got) == sorted(want), filters
    # Nothing is read from a folder that a filter excludes: its files are deleted.
    loader = fb.Loader(table, batch_size=16, drop_last=False, filter=[("year", "==", 2024)], columns=["id", "city"])
    for file in (table / "year=2023").rglob("*.parquet"):
        file.unlink()
    with loader:
        assert sum(batch.num_rows for batch in loader) == 300


def test_footers_of_folders_that_a_filter_leaves_out_are_not_read(table: Path) -> None:
    with fb.Loader(fb.Dataset(table), columns=["id"], filter=fb.col("year") != 2023, shuffle=fb.Shuffle(seed=4)) as loader:
        want = [batch["id"].tolist() for batch in loader]
        state = loader.state_dict()
    with pytest.raises(fb.InvalidError, match="cannot compare"):
        fb.Loader(table, filter=fb.col("year") == "2024")
    # Only the first footer is read, to see whether the files have a column of that name.
    _, *others = sorted((table / "year=2023").rglob("*.parquet"))
    for file in others:
        file.write_bytes(b"no footer")
    for filter in (fb.col("year") != 2023, ~(fb.col("year") <= 2023), [("year", "in", [2024, 2025])]):
        with fb.Loader(table, columns=["id"], filter=filter, shuffle=fb.Shuffle(seed=4)) as loader:
            # The data set, and therefore the order, is the same as if the footers had been read.
            assert [batch["id"].tolist() for batch in loader] == want
            assert loader.state_dict()["fingerprint"] == state["fingerprint"]
    with fb.Loader(table, filter=fb.col("year") != 2023, shuffle=fb.Shuffle(seed=4), columns=["id"]) as loader:
        loader.load_state_dict(state)
        assert loader.state_dict()["epoch"] == 1
        copy = pickle.loads(pickle.dumps(loader))
        assert [batch["id"].tolist() for batch in copy.epoch(0)] == want
    for filter, said in (
        (fb.col("year") == 1999, "matches no folder"),
        (fb.col("id") < 5, "no footer|not a Parquet file"),
    ):
        with pytest.raises(fb.ForebayError, match=said):
            fb.Loader(table, filter=filter)


def test_a_key_that_the_files_hold_leaves_no_folder_out(tmp_path: Path) -> None:
    for day in (1, 2):
        folder = tmp_path / "t" / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"day": [3 - day] * 4}), folder / "a.parquet")
    with fb.Loader(tmp_path / "t", filter=fb.col("day") == 1) as loader:
        assert [batch["day"].tolist() for batch in loader] == [[1, 1, 1, 1]]
        assert loader.num_rows == 4


def test_ranks_resume_and_a_cache_have_them_as_well(table: Path, tmp_path: Path) -> None:
    def loader(**options: Any) -> fb.Loader:
        shuffle = fb.Shuffle(seed=3, window_rows=100, lanes=2)
        return fb.Loader(table, batch_size=20, drop_last=False, shuffle=shuffle, **options)

    with loader() as whole:
        want = rows(whole)
    with loader(cache=fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")) as cached:
        assert [rows(cached) for _ in range(3)] == [want] * 3
    found: dict[int, tuple[Any, Any]] = {}
    for rank in range(2):
        with loader(shard=fb.Shard(rank=rank, world=2)) as first:
            epoch = iter(first)
            found |= rows(epoch_of(epoch, 4))
            state = json.loads(json.dumps(first.state_dict()))
        with loader(shard=fb.Shard(rank=rank, world=2)) as second:
            second.load_state_dict(state)
            found |= rows(second)
    assert found == want


def epoch_of(epoch: Any, batches: int) -> Any:
    """Returns the first batches of an epoch."""
    return [next(epoch) for _ in range(batches)]


def test_inspect_shows_them(table: Path) -> None:
    command = [sys.executable, "-m", "forebay", "inspect", str(table), "--json", "-"]
    report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
    shown = {column["name"]: column for column in report["columns"]}
    assert [shown[name]["type"] for name in ("id", "year", "city")] == ["int64", "int64", "string"]
    assert shown["year"]["stored_bytes"] == 0


def test_a_location_that_names_the_keys_has_the_files_alone(table: Path) -> None:
    for location, names in (
        (table / "year=*", ["id", "city"]),
        (table / "year=2024" / "city=*", ["id"]),
        (table / "year=2024", ["id", "city"]),
        (str(table) + "/**/*.parquet", ["id", "year", "city"]),
    ):
        assert fb.Dataset(location).schema.names == names


def test_the_type_is_that_of_all_values(tmp_path: Path) -> None:
    for value in ("07", "8", "-9"):
        pa_rows = pa.table({"id": [1]})
        (tmp_path / f"n={value}").mkdir()
        pq.write_table(pa_rows, tmp_path / f"n={value}" / "a.parquet")
    assert sorted(row for batch in fb.Loader(tmp_path, batch_size=3) for row in batch["n"].tolist()) == [-9, 7, 8]
    (tmp_path / "n=x").mkdir()
    pq.write_table(pa.table({"id": [1]}), tmp_path / "n=x" / "a.parquet")
    found = sorted(row for batch in fb.Loader(tmp_path, batch_size=4) for row in batch["n"].tolist())
    assert found == ["-9", "07", "8", "x"]


def test_keys_have_the_types_that_are_declared(tmp_path: Path) -> None:
    days = ("2024-05-01", "2024-05-02", NULL)
    for number, day in enumerate(days):
        folder = tmp_path / "t" / f"day={day}" / f"code=0{number}" / f"share={number / 4}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"id": [number]}), folder / "a.parquet")
    declared = {"day": pa.date32(), "code": "string", "share": np.float32}
    schema = pa.schema([("day", pa.date32()), ("code", pa.string()), ("share", pa.float32())])
    want = ds.dataset(tmp_path / "t", partitioning=ds.partitioning(schema, flavor="hive")).to_table().sort_by("id")
    data = fb.Dataset(tmp_path / "t", partition_types=declared)
    for loader in (fb.Loader(data), fb.Loader(tmp_path / "t", partition_types=declared), fb.Loader(pickle.loads(pickle.dumps(data)))):
        (batch,) = loader
        table = pa.table(pa.record_batch(batch))
        assert table["day"].to_pylist() == want["day"].to_pylist() and table["day"].type == pa.date32()
        assert table["code"].to_pylist() == want["code"].to_pylist() == ["00", "01", "02"]
        assert table["share"].to_pylist() == want["share"].to_pylist() and table["share"].type == pa.float32()
    with fb.Loader(tmp_path / "t", partition_types=declared, filter=fb.col("day") > "2024-05-01") as loader:
        assert [row for batch in loader for row in batch["id"].tolist()] == [1]
        copy = pickle.loads(pickle.dumps(loader))
        assert copy.num_rows == 1 and str(copy.schema) == str(loader.schema)
    for wrong, said in (
        ({"day": "int32"}, "in its folder's name is not a value of type int32"),
        ({"days": "date"}, "in no folder's name"),
        ({"day": "decimal"}, "has no type"),
        ([("day", "date")], "must be a dict"),
    ):
        with pytest.raises(fb.InvalidError, match=said):
            fb.Dataset(tmp_path / "t", partition_types=wrong)  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="partition_types and a Dataset"):
        fb.Loader(data, partition_types=declared)


def test_a_stored_column_comes_before_a_key(tmp_path: Path) -> None:
    (tmp_path / "n=1").mkdir()
    pq.write_table(pa.table({"n": pa.array([5, 6], pa.int16())}), tmp_path / "n=1" / "a.parquet")
    batch = next(iter(fb.Loader(tmp_path, batch_size=2)))
    assert list(batch) == ["n"]
    assert batch["n"].tolist() == [5, 6]


@pytest.mark.parametrize("merge", [False, True])
@pytest.mark.parametrize("stored", [(1,), (2,), (1, 2)])
def test_a_key_that_only_some_files_store_is_refused(tmp_path: Path, stored: tuple[int, ...], merge: bool) -> None:
    for key in (1, 2, 3):
        folder = tmp_path / "t" / f"k={key}"
        folder.mkdir(parents=True)
        columns = {"id": [key]} | ({"k": [key * 100]} if key in stored else {})
        pq.write_table(pa.table(columns), folder / "a.parquet")
    with pytest.raises(fb.UnsupportedError, match=r'a\.parquet, column "k": a key of its folder'):
        fb.Loader(tmp_path / "t", merge_schema=merge)
    with fb.Loader(tmp_path / "t", merge_schema=merge, columns=["id"], batch_size=3) as loader:
        assert [batch["id"].tolist() for batch in loader] == [[1, 2, 3]]
    both = fb.Dataset([tmp_path / "t" / f"k={key}" for key in stored], merge_schema=merge)
    (batch,) = fb.Loader(both)
    assert sorted(batch["k"].tolist()) == [key * 100 for key in stored]


def test_a_file_beside_the_folders_is_refused(table: Path) -> None:
    pq.write_table(pa.table({"id": [1]}), table / "beside.parquet")
    with pytest.raises(fb.UnsupportedError, match="year"):
        fb.Loader(table)
    assert fb.Loader(table, columns=["id"]).num_rows == fb.Dataset(table).num_rows
