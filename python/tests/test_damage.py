"""Files with one changed bit: what pyarrow refuses raises an error here, or delivers the rows that were
written."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

NUMBERS = pa.array([7, 8, 9, 7, 8, 9], pa.int64())
TEXTS = pa.array(["aa", "ab", "cc", "aa"])
#: The bytes before the first page.
MAGIC = 4
#: One of this many bits is changed. It is odd, so that each place in a byte has its turn; the nightly runs change all.
EACH = 1 if os.environ.get("FOREBAY_LONG") else 5
#: The bits of a byte that are changed where a file is read twice for each.
OF_A_BYTE = (0, 4) if os.environ.get("FOREBAY_LONG") else (0,)


def flipped(file: Path, is_footer: bool = False) -> Iterator[int]:
    """Yields the file with one bit of its pages changed, or one of its footer: one of ``EACH`` bits after the other."""
    sound = file.read_bytes()
    footer = len(sound) - 8 - int.from_bytes(sound[-8:-4], "little")
    bits = range(footer * 8, (len(sound) - 8) * 8) if is_footer else range(MAGIC * 8, footer * 8)
    for bit in bits[::EACH]:
        damaged = bytearray(sound)
        damaged[bit // 8] ^= 1 << (bit % 8)
        file.write_bytes(damaged)
        yield bit


def rows(file: Path, count: int) -> list[Any]:
    """Returns the rows of column ``c`` in one batch."""
    batches = list(fb.Loader(file, batch_size=count, threads=1))
    return [row for batch in batches for row in pa.table(batch.to_arrow())["c"].to_pylist()]


def encoded(encoding: str) -> dict[str, Any]:
    return {"use_dictionary": False, "column_encoding": {"c": encoding}}


CASES: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    "dictionary": (NUMBERS, {}),
    "plain": (pa.array([1, None] * 3, pa.int64()), {"use_dictionary": False}),
    "split bytes": (NUMBERS.cast(pa.float64()), encoded("BYTE_STREAM_SPLIT")),
    "differences": (NUMBERS, encoded("DELTA_BINARY_PACKED")),
    "shared beginnings": (TEXTS, encoded("DELTA_BYTE_ARRAY")),
    "lists": (pa.array([[1, 2], None, [], [3, None]] * 2, pa.list_(pa.int64())), {"use_dictionary": False}),
    "structures": (pa.array([{"a": 1}, None, {"a": None}] * 2), {"use_dictionary": False}),
    "nullable texts": (pa.array(["aa", None, "ab", "cc", None, "aa"]), {"use_dictionary": False}),
    "lists of texts": (pa.array([["a", "bc"], None, [], ["d", None]] * 2), {"use_dictionary": False}),
    "lists of structures": (pa.array([[{"a": "x"}, {"a": None}], None, [], [None]] * 2), {"use_dictionary": False}),
    "dictionary of texts": (pa.array(["aa"] * 20 + ["ab"] * 3 + ["cc"] * 17), {}),
    "dictionary of decimals": (pa.array([7] * 20 + [8] * 3 + [9] * 17).cast(pa.decimal128(20, 0)), {}),
    "booleans": (pa.array([True] * 20 + [False] * 3 + [None] + [True] * 16), {}),
    "lists of lists": (pa.array([[["x"], []], None, [], [None, ["y", None]]] * 2), {"use_dictionary": False}),
}


#: Pages of version 1 compress the levels together with the values.
@pytest.mark.parametrize(
    ("compression", "version"), [("none", "2.0"), ("none", "1.0"), ("snappy", "1.0"), ("gzip", "1.0")]
)
@pytest.mark.parametrize("case", CASES)
def test_what_pyarrow_refuses_never_comes_as_other_rows(
    tmp_path: Path, case: str, version: str, compression: str
) -> None:
    column, written = CASES[case]
    file = tmp_path / "c.parquet"
    written = {"compression": compression, "data_page_version": version, "write_statistics": False, **written}
    pq.write_table(pa.table({"c": column}), file, **written)
    refused = 0
    for bit in flipped(file):
        try:
            pq.ParquetFile(file).read(use_threads=False)
            continue
        except (pa.ArrowException, OSError):
            refused += 1
        try:
            found = rows(file, len(column))
        except fb.ForebayError:
            continue
        assert found == column.to_pylist(), bit
    assert refused > 0


#: A footer has no checksum, but some of its content is stored twice.
@pytest.mark.parametrize("case", CASES)
def test_a_footer_that_pyarrow_refuses_never_comes_as_other_rows(tmp_path: Path, case: str) -> None:
    column, written = CASES[case]
    file = tmp_path / "c.parquet"
    pq.write_table(pa.table({"c": column}), file, write_statistics=False, store_schema=False, **written)
    refused = 0
    for bit in flipped(file, is_footer=True):
        try:
            pq.ParquetFile(file).read(use_threads=False)
            continue
        except (pa.ArrowException, OSError, ValueError):
            refused += 1
        try:
            found = rows(file, len(column))
        except (fb.ForebayError, KeyError):
            continue
        assert found == column.to_pylist(), bit
    assert refused > 0


#: The checksum of a page covers its body, not its header.
@pytest.mark.parametrize("compression", ["none", "snappy", "zstd", "gzip"])
@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize(
    "case", ["dictionary", "plain", "lists", "nullable texts", "lists of texts", "nullable numbers"]
)
def test_a_page_with_a_checksum_never_comes_as_other_rows(
    tmp_path: Path, case: str, version: str, compression: str
) -> None:
    column, written = CASES.get(case, (pa.array([None if n % 3 == 0 else n * 7 for n in range(24)], pa.int32()), {}))
    file = tmp_path / "c.parquet"
    written = {"compression": compression, "data_page_version": version, "write_statistics": False, **written}
    pq.write_table(pa.table({"c": column}), file, write_page_checksum=True, **written)
    refused = 0
    for bit in flipped(file):
        try:
            found = rows(file, len(column))
        except fb.ForebayError:
            refused += 1
            continue
        assert found == column.to_pylist(), bit
    assert refused > 0


#: The Parquet crate does not check that such texts are UTF-8.
@pytest.mark.parametrize("encoding", ["DELTA_LENGTH_BYTE_ARRAY", "DELTA_BYTE_ARRAY"])
@pytest.mark.parametrize(
    "column", [["aé", "éa", "😀é", "é"], [["aé", "éa"], ["😀é"], None, ["é"]]], ids=["flat", "lists"]
)
def test_texts_that_are_not_utf_8_are_damage_of_a_row_group(tmp_path: Path, encoding: str, column: list[Any]) -> None:
    file = tmp_path / "c.parquet"
    leaf = "c" if isinstance(column[0], str) else "c.list.element"
    written = {"use_dictionary": False, "column_encoding": {leaf: encoding}, "compression": "none"}
    pq.write_table(pa.table({"c": column}), file, write_statistics=False, **written)
    refused = []
    for _ in flipped(file):
        try:
            rows(file, len(column))
        except fb.ForebayError as error:
            assert not isinstance(error, fb.InternalError), error
            refused.append(str(error))
    assert any("UTF-8" in cause and "row group 0" in cause and 'column "c"' in cause for cause in refused)


#: Row groups are read in pieces of 16 rows. A piece has some of a column's pages, or some of its rows if the
# whole column is read because it has lists.
PIECES = fb.Shuffle(seed=1, piece_rows=16)


def in_pieces(file: Path) -> list[Any]:
    """Returns the rows of column ``c``, ordered by the numbers beside them."""
    with fb.Loader(file, shuffle=PIECES, batch_size=16, threads=1) as loader:
        found = [row for batch in loader for row in pa.table(batch.to_arrow()).to_pylist()]
    return [row["c"] for row in sorted(found, key=lambda row: row["id"])]


#: Each column has several pages, and a dictionary unless the writer is told otherwise.
LISTS = pa.array([[row, row] if row % 2 else [] for row in range(48)], pa.list_(pa.int64()))
PIECED: dict[str, tuple[pa.Array, dict[str, Any]]] = {
    "lists": (LISTS, {}),
    "plain lists": (LISTS, {"use_dictionary": False}),
    "lists of texts": (pa.array([[str(row % 5)] * (row % 3) for row in range(48)]), {}),
    "structures": (pa.array([{"a": row, "b": str(row % 7)} if row % 3 else None for row in range(48)]), {}),
    "structures of lists": (pa.array([{"a": row, "l": [row] * (row % 3)} if row % 5 else None for row in range(48)]), {}),
    "numbers": (pa.array([row if row % 3 else None for row in range(48)], pa.int64()), {"use_dictionary": False}),
    "compressed numbers": (pa.array([row if row % 3 else None for row in range(48)]), {"compression": "snappy"}),
    "differences": (pa.array(range(48), pa.int64()), encoded("DELTA_BINARY_PACKED")),
}


@pytest.mark.parametrize("version", ["1.0", "2.0"])
@pytest.mark.parametrize("case", PIECED)
def test_what_is_refused_whole_never_comes_as_other_rows_in_pieces(tmp_path: Path, case: str, version: str) -> None:
    column, written = PIECED[case]
    file = tmp_path / "c.parquet"
    written = {"compression": "none", "data_page_version": version, "write_statistics": False, **written}
    table = pa.table({"c": column, "id": range(len(column))})
    pq.write_table(table, file, data_page_size=64, write_batch_size=8, **written)
    assert in_pieces(file) == column.to_pylist()
    last = pq.ParquetFile(file).metadata.row_group(0).column(table.num_columns - 1)
    of_ids = last.dictionary_page_offset or last.data_page_offset
    refused = 0
    for bit in flipped(file):
        if bit // 8 >= of_ids:
            break
        if bit % 8 not in OF_A_BYTE:
            continue
        try:
            rows(file, len(column))
            continue
        except fb.ForebayError:
            refused += 1
        try:
            found = in_pieces(file)
        except fb.InternalError:
            raise
        except fb.ForebayError as error:
            assert 'column "id"' not in str(error), error
            continue
        assert found == column.to_pylist(), bit
    assert refused > 0


@pytest.mark.parametrize("dictionary", [True, False])
def test_a_row_group_whose_lists_are_damaged_is_skipped_in_pieces(tmp_path: Path, dictionary: bool) -> None:
    file = tmp_path / "c.parquet"
    table = pa.table({"id": range(96), "c": [[row, row] for row in range(96)]})
    pq.write_table(
        table,
        file,
        compression="none",
        use_dictionary=dictionary,
        data_page_size=64,
        write_batch_size=8,
        row_group_size=48,
    )
    lists = pq.ParquetFile(file).metadata.row_group(0).column(1)
    damaged = bytearray(file.read_bytes())
    # This overwrites the header of the first page.
    damaged[lists.data_page_offset : lists.data_page_offset + 4] = b"\xff" * 4
    file.write_bytes(damaged)
    with pytest.raises(fb.CorruptError, match='row group 0, column "c"'):
        in_pieces(file)
    with fb.Loader(file, shuffle=PIECES, batch_size=96, threads=1, on_bad_row=fb.Skip(at_most=48)) as loader:
        found = [row for batch in loader for row in batch["id"].tolist()]
        assert sorted(found) == list(range(48, 96))
        skipped = loader.skipped()
        assert sorted(row.row for row in skipped) == list(range(48))
        assert {(row.row_group, row.column) for row in skipped} == {(0, "c")}


def test_an_offset_index_with_a_wrong_length_is_set_aside(tmp_path: Path) -> None:
    file = tmp_path / "c.parquet"
    table = pa.table({"id": range(48), "c": pa.array(range(48), pa.int64())})
    pq.write_table(
        table,
        file,
        compression="none",
        use_dictionary=False,
        data_page_size=64,
        write_batch_size=8,
        write_page_index=True,
    )
    sound = file.read_bytes()
    # An index is a list of structures with three numbers: offset, bytes, first row.
    pages = [at for at in range(len(sound) - 4) if sound[at : at + 2] == b"\x19\x6c" and sound[at + 2] == 0x16]
    assert len(pages) == 2
    changed = 0
    for at in pages:
        for byte in range(at + 2, at + 60):
            if sound[byte] != 0x15:
                continue
            for bit in (1, 2, 4, 32):
                damaged = bytearray(sound)
                damaged[byte + 1] ^= bit
                file.write_bytes(damaged)
                assert rows(file, 48) == in_pieces(file) == list(range(48)), (byte, bit)
                changed += 1
    assert changed >= 24


def test_differences_of_numbers_that_are_not_whole_are_refused(tmp_path: Path) -> None:
    """All other readers do the same, because the format allows differences only for whole numbers."""
    file = tmp_path / "c.parquet"
    pq.write_table(pa.table({"c": NUMBERS}), file, write_statistics=False, store_schema=False, **encoded("DELTA_BINARY_PACKED"))
    damaged = bytearray(file.read_bytes())
    footer = len(damaged) - 8 - int.from_bytes(damaged[-8:-4], "little")
    # This changes the type of the only column, in the schema and in its chunk, from INT64 (2) to DOUBLE (5).
    for at in range(footer, len(damaged) - 8):
        if damaged[at : at + 4] == b"\x15\x04\x25\x02" or damaged[at : at + 3] == b"\x15\x04\x19":
            damaged[at + 1] = 10
    file.write_bytes(damaged)
    assert pq.read_schema(file).field("c").type == pa.float64()
    with pytest.raises(OSError):
        pq.ParquetFile(file).read()
    with pytest.raises(fb.CorruptError, match='column "c"'):
        rows(file, len(NUMBERS))
