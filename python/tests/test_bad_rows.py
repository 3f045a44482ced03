"""Rows that cannot be delivered: they are left out and listed, or filled."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 24


@pytest.fixture
def holes(tmp_path: Path) -> Path:
    """Row 2 has no image, row 9 has half of one, row 13 has no score, row 17 has a null in its list, and row
    20 has no text."""
    from PIL import Image

    encoded = io.BytesIO()
    Image.new("RGB", (8, 8)).save(encoded, "png")
    good = encoded.getvalue()
    rows = range(ROWS)
    table = pa.table(
        {
            "id": pa.array(rows),
            "image": pa.array([None if i == 2 else good[: 40 if i == 9 else None] for i in rows], pa.binary()),
            "score": pa.array([None if i == 13 else i / 2 for i in rows], pa.float32()),
            "tokens": pa.array([[i, None if i == 17 else 1] for i in rows], pa.list_(pa.int32())),
            "text": pa.array([None if i == 20 else str(i) for i in rows]),
        }
    )
    pq.write_table(table, tmp_path / "holes.parquet", row_group_size=10)
    return tmp_path


@pytest.mark.parametrize("transform", [None, dict])
def test_rows_that_are_left_out_are_listed(holes: Path, transform: Any) -> None:
    decode = {"image": fb.Image.resize(8, 8)}
    with fb.Loader(holes, decode=decode, batch_size=6, on_bad_row=fb.Skip(at_most=4), transform=transform) as loader:
        assert loader.skipped() == []
        epoch = iter(loader)
        batches = list(epoch)
        assert [len(batch["id"]) for batch in batches] == [5, 5, 4, 6]
        assert [i for batch in batches for i in batch["id"].tolist()] == [
            i for i in range(ROWS) if i not in (2, 9, 13, 17)
        ]
        assert batches[-1]["text"].tolist() == ["18", "19", None, "21", "22", "23"]
        rows = loader.skipped()
        assert rows == epoch.skipped
        assert all(type(row) is fb.SkippedRow and Path(row.file or "").name == "holes.parquet" for row in rows)
        assert [row[1:4] for row in rows] == [(0, 2, "image"), (0, 9, "image"), (1, 3, "score"), (1, 7, "tokens")]
        assert rows[0].cause == "null where an image is needed"
        assert rows[2].cause == "null where a value is needed"
        del epoch
        assert loader.skipped() == rows
        next(iter(loader))
        assert len(loader.skipped()) <= len(rows)


def test_rows_over_the_limit_are_listed_too(holes: Path) -> None:
    decode = {"image": fb.Image.resize(8, 8)}
    with fb.Loader(holes, decode=decode, batch_size=6, on_bad_row=fb.Skip(at_most=2)) as loader:
        # The error names the first row beyond the limit, and not the last row of its batch.
        with pytest.raises(fb.BadRowError, match="row group 1, row 3.*4 bad rows, of which 2 may be skipped"):
            list(loader)
        assert [row.row for row in loader.skipped()] == [2, 9, 3, 7]


def test_of_a_row_that_is_bad_twice_the_first_column_is_named(tmp_path: Path) -> None:
    rows = {
        "lists": pa.array([[1, None] if row % 3 == 0 else [1] for row in range(300)], pa.list_(pa.int64())),
        "number": pa.array([None if row % 3 == 0 else row for row in range(300)], pa.int32()),
    }
    for file in range(4):
        pq.write_table(pa.table(rows), tmp_path / f"{file}.parquet", row_group_size=20)
    shuffle, skip = fb.Shuffle(seed=3, window_rows=200), fb.Skip(at_most=1_000)
    for _ in range(5):
        with fb.Loader(tmp_path, batch_size=16, threads=3, shuffle=shuffle, on_bad_row=skip) as loader:
            list(loader)
            assert {row.column for row in loader.skipped()} == {"lists"}
            assert len(loader.skipped()) == 400


def test_what_skip_says_is_what_it_does() -> None:
    said = fb.Skip.__doc__ or ""
    assert "left out" in said
    assert "replaced" not in said


@pytest.mark.parametrize(
    ("values", "filled"),
    [
        (pa.array([1, None], pa.int16()), [1, 0]),
        (pa.array([1.5, None], pa.float64()), [1.5, 0.0]),
        (pa.array([True, None]), [True, False]),
        (pa.array([[1.0, None], [2.0, 3.0]]), [[1.0, 0.0], [2.0, 3.0]]),
        (pa.array([[1, 2], None], pa.list_(pa.int64())), [[1, 2], []]),
        (pa.array([[1, None], None], pa.list_(pa.int32(), 2)), [[1, 0], [0, 0]]),
        (pa.array([[True, None], None], pa.list_(pa.bool_(), 2)), [[True, False], [False, False]]),
        (pa.array([b"ab", None], pa.binary(2)), [[97, 98], [0, 0]]),
        (pa.array([10, None], pa.timestamp("us")), [10, 0]),
        (pa.array([10, None], pa.date32()), [10, 0]),
        (pa.array([10, None], pa.time32("ms")), [10, 0]),
        (pa.array([10, None], pa.duration("ns")), [10, 0]),
    ],
    ids=lambda value: str(getattr(value, "type", "")),
)
def test_the_fill_that_a_null_error_advises_works(tmp_path: Path, values: pa.Array, filled: list[Any]) -> None:
    pq.write_table(pa.table({"x": values}), tmp_path / "x.parquet")
    with fb.Loader(tmp_path) as loader, pytest.raises(fb.NullError) as caught:
        next(iter(loader))["x"]
    advice = re.search(r"fill_null=(\{[^}]*\})", str(caught.value))
    assert advice is not None
    with fb.Loader(tmp_path, fill_null=eval(advice[1])) as loader:
        got = next(iter(loader))["x"]
    rows = [row.tolist() for row in got] if isinstance(got, fb.Ragged) else got
    if isinstance(rows, np.ndarray):
        rows = (rows.view(np.int64) if rows.dtype.kind in "mM" else rows).tolist()
    assert rows == filled


def test_text_and_binary_are_filled_by_their_own_kind(tmp_path: Path) -> None:
    pq.write_table(pa.table({"s": ["a", None], "b": pa.array([b"a", None], pa.binary())}), tmp_path / "x.parquet")
    with fb.Loader(tmp_path, fill_null={"s": "", "b": b"\x00\xff"}) as loader:
        batch = next(iter(loader))
        assert batch["s"].tolist() == ["a", ""]
        assert batch["b"].tolist() == [b"a", b"\x00\xff"]
    for fill in ({"s": 0}, {"s": b""}, {"b": ""}, {"b": 0.0}):
        with pytest.raises(fb.InvalidError, match=r"fill_null|is not a value"):
            fb.Loader(tmp_path, fill_null=fill)  # type: ignore[arg-type]


def test_a_page_whose_kind_was_changed_to_an_index_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"x": pa.array(range(100), pa.int64())})
    pq.write_table(table, path, row_group_size=50, use_dictionary=False, compression="none")
    chunk = pq.ParquetFile(path).metadata.row_group(0).column(0)
    stored = bytearray(path.read_bytes())
    # The first field of a page header is the page type, in zigzag form: 0 for a data page, 1 for an index.
    assert stored[chunk.data_page_offset : chunk.data_page_offset + 2] == b"\x15\x00"
    stored[chunk.data_page_offset + 1] = 2
    path.write_bytes(stored)
    with fb.Loader(path, batch_size=10) as loader, pytest.raises(fb.CorruptError, match="row group 0.*index"):
        list(loader)
    with fb.Loader(path, batch_size=10, on_bad_row=fb.Skip(at_most=50)) as loader:
        # One of the good rows stands in where a batch would be empty.
        assert sorted({row for batch in loader for row in batch["x"].tolist()}) == list(range(50, 100))
