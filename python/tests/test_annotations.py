"""Footers with unusual metadata and annotations."""

from __future__ import annotations

import datetime
import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb


def rows(where: Path, **options: Any) -> list[dict[str, Any]]:
    with fb.Loader(where, **options) as loader:
        return [row for batch in loader for row in batch.to_arrow().to_pylist()]


def patched(path: Path, table: pa.Table, old: bytes, new: bytes) -> Path:
    """Writes a file of these rows, and replaces some bytes in its footer."""
    path.parent.mkdir(exist_ok=True)
    pq.write_table(table, path, store_schema=False)
    data = path.read_bytes()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") :]
    assert footer.count(old) == 1 and len(old) == len(new)
    path.write_bytes(data[: -len(footer)] + footer.replace(old, new))
    return path


def test_metadata_that_is_not_utf8_is_left_out(tmp_path: Path) -> None:
    field = pa.field("x", pa.list_(pa.field("item", pa.int16(), metadata={b"k": b"\xe9", b"kept": b"yes"})), metadata={b"\xe9": b"v"})
    schema = pa.schema([field, ("d", pa.duration("s"))], metadata={b"classes": pickle.dumps(["cat"]), b"kept": b"so"})
    table = pa.table([[[1, 2]], [datetime.timedelta(seconds=5)]], schema=schema)
    where = tmp_path / "a.parquet"
    pq.write_table(table, where)
    seen = pa.schema(fb.Dataset(where).schema)
    assert (seen.metadata, seen.field("x").metadata or {}) == ({b"kept": b"so"}, {})
    # The writer's Arrow schema, which is stored in the same metadata, is still used.
    assert seen.field("d").type == pa.duration("s")
    assert rows(where) == table.to_pylist()
    plain = pa.table({"x": [1, 2]})
    made_by = patched(tmp_path / "by.parquet", plain, b"parquet-cpp", b"parqu\xe9t-cpp")
    assert rows(made_by) == plain.to_pylist()


# The bytes that annotate a column as a 32-bit date: the old annotation, and the logical type.
DATE = b"\x25\x0c\x4c\x6c\x00\x00"

ANNOTATIONS = {
    "unknown": b"\x25\x0c\x4c\x9c\x00\x00",
    "unknown, and the old one misfits": b"\x25\x00\x4c\x9c\x00\x00",
    "does not fit": b"\x25\x00\x4c\xec\x00\x00",
    "the old one is of no known kind": b"\x25\x7e\x4c\xec\x00\x00",
}


@pytest.mark.parametrize("case", ANNOTATIONS)
@pytest.mark.parametrize("nested", [False, True])
def test_an_annotation_that_does_not_fit_leaves_the_physical_values(tmp_path: Path, case: str, nested: bool) -> None:
    days = pa.array([-3, 5, None, 8], pa.date32())
    column = pa.array([[{"a": day}] for day in days]) if nested else days
    path = patched(tmp_path / "a.parquet", pa.table({"id": range(4), "x": column}), DATE, ANNOTATIONS[case])
    dates, numbers = days.to_pylist(), days.cast(pa.int32()).to_pylist()
    want: list[Any] = dates if case == "unknown" else numbers
    assert [row["x"] for row in rows(path)] == [[{"a": value}] for value in want] if nested else want
    assert rows(path, columns=["id"]) == [{"id": at} for at in range(4)]
    if not nested and want is numbers:
        # The filter does not rely on the statistics, because it is unknown in which order they compare values.
        assert rows(path, columns=["id"], filter=fb.col("x") < 0) == [{"id": 0}]
