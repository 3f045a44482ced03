"""Files with different columns: columns that are not requested, and types that store the same values."""

from __future__ import annotations

import datetime
import decimal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

UTC = datetime.timezone.utc


def files(folder: Path, *tables: pa.Table | dict[str, Any]) -> Path:
    folder.mkdir(exist_ok=True)
    for at, table in enumerate(tables):
        pq.write_table(pa.table(table), folder / f"{at}.parquet")
    return folder


def rows(where: Path, **options: Any) -> list[dict[str, Any]]:
    with fb.Loader(where, **options) as loader:
        return [row for batch in loader for row in batch.to_arrow().to_pylist()]


DIFFERENCES: dict[str, tuple[Any, Any]] = {
    "numbers and texts": ({"id": [0], "x": [1]}, {"id": [1], "x": ["a"]}),
    "one name twice": ({"id": [0]}, pa.table([pa.array([1]), pa.array([2]), pa.array([3])], ["id", "x", "x"])),
    "a column more": ({"id": [0]}, {"id": [1], "x": [1]}),
    "a column less": ({"id": [0], "x": [1]}, {"id": [1]}),
}


@pytest.mark.parametrize("case", DIFFERENCES)
def test_a_column_that_nobody_asked_for_refuses_nothing(tmp_path: Path, case: str) -> None:
    where = files(tmp_path / "t", *DIFFERENCES[case])
    want = [{"id": 0}, {"id": 1}]
    data = fb.Dataset(where)
    assert data.num_rows == 2 and "x" in data.columns
    assert rows(where, columns=["id"]) == want
    assert rows(where, columns=["id"], filter=fb.col("id") > 0) == want[1:]
    assert rows(where, columns=["id"], rename={"id": "x"}) == [{"x": 0}, {"x": 1}]
    assert [batch["id"].tolist() for batch in fb.Loader(data, columns=["i*"], batch_size=2)] == [[0, 1]]
    refused = r'"x": .*choose other columns with columns='
    for options in ({}, {"columns": ["x"]}, {"columns": ["id"], "filter": fb.col("x") > 0}):
        with pytest.raises(fb.UnsupportedError, match=refused):
            fb.Loader(where, **options)  # type: ignore[arg-type]
    report = subprocess.run(
        [sys.executable, "-m", "forebay", "inspect", str(where), "--json", "-"], capture_output=True, text=True
    )
    assert '"column": "x"' in report.stdout.replace('":"', '": "'), report
    plan = [sys.executable, "-m", "forebay", "plan", str(where), "--columns", "id", "--world", "1", "--batch-size", "1"]
    assert subprocess.run(plan, capture_output=True).returncode == 0


def test_the_refusal_names_the_column_and_two_files_and_how_types_differ(tmp_path: Path) -> None:
    where = files(tmp_path / "t", *DIFFERENCES["numbers and texts"])
    with pytest.raises(fb.UnsupportedError) as caught:
        fb.Loader(where)
    said = str(caught.value)
    assert f'{where}/1.parquet, column "x": want int64 as in {where}/0.parquet, got string' in said
    assert "merge_schema" not in said
    fixed = files(tmp_path / "u", *({"x": pa.array([[1] * n], pa.list_(pa.int64(), n))} for n in (2, 3)))
    with pytest.raises(fb.UnsupportedError, match=r"want list<int64>\[2\] as in .*got list<int64>\[3\].*merge_schema"):
        fb.Loader(fixed)


TIME = datetime.datetime(2024, 5, 17, 12, 30, 1, 5)

FORMS: dict[str, tuple[list[pa.DataType], Any]] = {
    "lists": ([pa.list_(pa.int64()), pa.large_list(pa.int64())], [1, 2]),
    "lists of lists": (
        [pa.list_(pa.large_list(pa.int8())), pa.large_list(pa.list_(pa.field("element", pa.int8(), nullable=False)))],
        [[1], []],
    ),
    "lists of one length": ([pa.list_(pa.float32()), pa.list_(pa.float32(), 2), pa.large_list(pa.float32())], [1.5, 2]),
    "lists in structures": (
        [pa.struct([("a", pa.list_(t)), ("b", t)]) for t in (pa.string(), pa.large_string())],
        {"a": ["x"], "b": "y"},
    ),
    "structures in another order": (
        [pa.struct([("a", pa.int8()), ("b", pa.string())]), pa.struct([("b", pa.string()), ("a", pa.int8())])],
        {"a": 1, "b": "y"},
    ),
    "maps": ([pa.map_(pa.string(), pa.list_(pa.int8())), pa.map_(pa.string(), pa.large_list(pa.int8()))], [("k", [1])]),
    "texts": ([pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())], "x"),
    "binary": ([pa.binary(), pa.large_binary(), pa.binary_view()], b"x"),
    "UTC": ([pa.timestamp("us", zone) for zone in ("UTC", "Etc/UTC", "+00:00", "Z")], TIME.replace(tzinfo=UTC)),
    "decimals": ([pa.decimal128(5, 2), pa.decimal128(18, 2), pa.decimal256(40, 2)], decimal.Decimal("1.25")),
}


@pytest.mark.parametrize("case", FORMS)
def test_columns_that_differ_in_form_alone_are_one(tmp_path: Path, case: str) -> None:
    types, value = FORMS[case]
    tables = []
    for at, data_type in enumerate(types):
        values = pa.array([value, value if "length" in case else None], data_type)
        tables.append({"id": [2 * at, 2 * at + 1], "x": values})
    given = [value, value if "length" in case else None]
    want = [{"id": 2 * at + row, "x": given[row]} for at in range(len(types)) for row in range(2)]
    for order in (tables, tables[::-1]):
        where = files(tmp_path / ("t" if order is tables else "u"), *order)
        for merge in (False, True):
            found = sorted(rows(where, merge_schema=merge, batch_size=3), key=lambda row: row["id"])
            assert found == want, merge
    if "length" in case:
        (batch,) = fb.Loader(where, batch_size=6)
        assert batch["x"].shape == (6, 2)
        assert isinstance(next(iter(fb.Loader(where, merge_schema=True)))["x"], fb.Ragged)


WIDER: dict[str, tuple[list[pa.DataType], Any]] = {
    "units": ([pa.timestamp("ns"), pa.timestamp("us"), pa.timestamp("ms")], [TIME, TIME, TIME.replace(microsecond=0)]),
    "zones": ([pa.timestamp("us", "Europe/Stockholm"), pa.timestamp("us", "UTC")], [TIME.replace(tzinfo=UTC)] * 2),
    "times of day": ([pa.time32("ms"), pa.time64("us")], [datetime.time(1, 2, 3), datetime.time(1, 2, 3, 4)]),
    "durations": ([pa.duration("s"), pa.duration("us")], [datetime.timedelta(seconds=3)] * 2),
    "scales": ([pa.decimal128(5, 2), pa.decimal128(9, 4)], [decimal.Decimal("-1.25"), decimal.Decimal("1.2345")]),
    "more digits than 128 bits have": (
        [pa.decimal128(38, 0), pa.decimal128(38, 20)],
        [decimal.Decimal(10**37), decimal.Decimal("0.5")],
    ),
    "numbers in lists": ([pa.list_(pa.int8()), pa.large_list(pa.float32())], [[1], [0.5]]),
    "lists of nothing": ([pa.list_(pa.null()), pa.list_(pa.string())], [[None], ["a"]]),
    "fixed lists": ([pa.list_(pa.int8(), 2), pa.list_(pa.int8(), 3)], [[1, 2], [1, 2, 3]]),
    "numbers in structures": ([pa.struct([("a", pa.int8())]), pa.struct([("a", pa.int64())])], [{"a": 1}, {"a": 2}]),
}


@pytest.mark.parametrize("case", WIDER)
def test_wider_types_are_read_with_merge_schema_and_keep_each_value(tmp_path: Path, case: str) -> None:
    types, values = WIDER[case]
    where = files(
        tmp_path / "t",
        *({"id": [at, -at], "x": pa.array([value, None], t)} for at, (t, value) in enumerate(zip(types, values, strict=True))),
    )
    with pytest.raises(fb.UnsupportedError, match='column "x".*merge_schema'):
        fb.Loader(where)
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="64MiB", tier="rows")
    for extra in ({}, {"cache": cache}, {"cache": cache}):
        found = pa.Table.from_batches(
            [batch.to_arrow() for batch in fb.Loader(where, merge_schema=True, batch_size=2, **extra)]
        )["x"]
        seen: list[Any] = []
        for value in found:
            if value.is_valid and pa.types.is_timestamp(value.type):
                seen.append(value.cast(pa.timestamp("us", value.type.tz)).as_py())
            elif value.is_valid and pa.types.is_duration(value.type):
                seen.append(value.cast(pa.duration("us")).as_py())
            else:
                seen.append(value.as_py())
        assert seen == [some for value in values for some in (value, None)]


def test_a_filter_and_its_statistics_compare_moments_and_not_numbers(tmp_path: Path) -> None:
    moments = [np.datetime64("2024-05-17T00:00:00") + np.timedelta64(hour, "h") for hour in range(48)]
    tables = []
    for at, unit in enumerate(("ns", "us", "ms")):
        hours = moments[16 * at : 16 * at + 16]
        tables.append(
            {"id": range(16 * at, 16 * at + 16), "t": pa.array([hour.astype(f"M8[{unit}]") for hour in hours], pa.timestamp(unit))}
        )
    where = tmp_path / "t"
    where.mkdir()
    for at, table in enumerate(tables):
        pq.write_table(pa.table(table), where / f"{at}.parquet", row_group_size=4, write_page_index=True)
    for hour in (0, 3, 15, 16, 21, 31, 32, 40, 47):
        wanted = str(moments[hour])
        for filter, want in (
            (fb.col("t") >= wanted, range(hour, 48)),
            (fb.col("t") == wanted, [hour]),
            (fb.col("t") != wanted, [other for other in range(48) if other != hour]),
        ):
            found = [row["id"] for row in rows(where, merge_schema=True, columns=["id"], filter=filter)]
            assert found == list(want), (hour, filter)


def test_a_value_that_does_not_fit_is_refused_with_its_place(tmp_path: Path) -> None:
    late = pa.array([0, None, 9_999_999_999_999_999], pa.timestamp("us"))
    where = files(tmp_path / "t", {"x": pa.array([1], pa.timestamp("ns"))}, {"x": late})
    with pytest.raises(fb.UnsupportedError, match=r"1\.parquet, row group 0, row 2, column .x.: 9999999999999999 of timestamp\[us\] does not fit"):
        rows(where, merge_schema=True)
    lists = pa.array([[1, 2], None, [3]], pa.list_(pa.int64()))
    where = files(tmp_path / "u", {"x": pa.array([[1, 2]], pa.list_(pa.int64(), 2))}, {"x": lists})
    with pytest.raises(fb.UnsupportedError, match=r"1\.parquet, row group 0, row 2, column .x.: a list of 1 items.*merge_schema"):
        rows(where)
    assert [row["x"] for row in rows(where, merge_schema=True)] == [[1, 2], [1, 2], None, [3]]


def test_moments_and_local_times_are_never_one_column(tmp_path: Path) -> None:
    where = files(tmp_path / "t", *({"x": pa.array([1], pa.timestamp("us", zone))} for zone in (None, "UTC")))
    for merge in (False, True):
        with pytest.raises(fb.UnsupportedError, match=r"want timestamp\[us\] as in .*got timestamp\[us, UTC\]"):
            fb.Loader(where, merge_schema=merge)


def test_names_that_arrow_cannot_hand_over_are_said(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    for column, name in (
        (pa.array([{"x\0": 1}]), "x\\\\0"),
        (pa.array([[{"y": {"z\0z": 1}}]]), "z\\\\0z"),
        (pa.array([[[{"v\0": 2}]]]), "v\\\\0"),
    ):
        pq.write_table(pa.table({"s": column, "id": [1]}), path)
        with fb.Loader(path) as loader:
            batch = next(iter(loader))
            assert batch["id"].tolist() == [1] and len(batch["s"]) == 1
            said = f'column "s" has a zero byte in the name of a field in it, "{name}".*columns='
            for hand_over in (lambda: pa.schema(loader.schema), batch.to_arrow, lambda batch=batch: pa.array(batch.column("s"))):
                with pytest.raises(fb.InvalidError, match=said):
                    hand_over()
        assert rows(path, columns=["id"]) == [{"id": 1}]
