"""A loader as one Arrow stream."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 200


@pytest.fixture
def table(tmp_path):
    numbers = [None if row % 7 == 0 else row for row in range(ROWS)]
    columns = {
        "id": range(ROWS),
        "n": numbers,
        "text": [f"row {row}" for row in range(ROWS)],
        "vector": pa.FixedSizeListArray.from_arrays(pa.array(np.arange(ROWS * 4, dtype="float32")), 4),
        "list": [list(range(row % 3)) for row in range(ROWS)],
    }
    pq.write_table(pa.table(columns), tmp_path / "x.parquet", row_group_size=30)
    return tmp_path / "x.parquet"


def loader(table, **options):
    return fb.Loader(table, batch_size=16, shuffle=fb.Shuffle(seed=2), **options)


def test_pyarrow_reads_an_epoch_in_the_order_of_the_loader(table):
    expected = [batch.to_arrow() for batch in loader(table)]
    reader = pa.RecordBatchReader.from_stream(loader(table))
    assert reader.schema == expected[0].schema
    assert [batch.num_rows for batch in expected] == [16] * 12 + [8]
    assert reader.read_all() == pa.Table.from_batches(expected)


def test_the_stream_counts_in_the_position(table):
    whole = [batch["id"].tolist() for batch in loader(table, columns=["id"])]
    mine = loader(table, columns=["id"])
    reader = pa.RecordBatchReader.from_stream(mine)
    before = mine.state_dict()
    first = [reader.read_next_batch()["id"].to_pylist() for _ in range(3)]
    assert before == loader(table, columns=["id"]).state_dict(), "nothing was read before it was asked for"
    rest = loader(table, columns=["id"])
    rest.load_state_dict(mine.state_dict())
    rest = pa.RecordBatchReader.from_stream(rest).read_all()["id"].to_pylist()
    assert sum(first, []) + rest == sum(whole, [])


def test_masks_are_validity(table):
    mine = loader(
        table,
        columns=["id"],
        stack={"x": fb.Stack(["n", "id"], dtype="float32")},
        null_mask=["x"],
    )
    read = pa.RecordBatchReader.from_stream(mine).read_all()
    assert read.schema.names == ["x"]
    rows = read["x"].combine_chunks()
    rows = rows.storage if isinstance(rows, pa.ExtensionArray) else rows
    values = {row[1]: row[0] for row in rows.to_pylist()}
    assert values == {row: None if row % 7 == 0 else row for row in range(ROWS)}
    read = pa.RecordBatchReader.from_stream(loader(table, columns=["id", "n"], null_mask=["n"])).read_all()
    assert read.schema.names == ["id", "n"]
    assert sorted(zip(read["id"].to_pylist(), read["n"].to_pylist(), strict=True)) == [
        (row, None if row % 7 == 0 else row) for row in range(ROWS)
    ]


def test_a_padded_column_is_null_where_it_is_filled_up(table):
    mine = loader(table, columns=["id", "list"], pad={"list": fb.Pad(3, mask=True)})
    read = pa.RecordBatchReader.from_stream(mine).read_all()
    assert read.schema.names == ["id", "list"]
    lists = read["list"].combine_chunks()
    lists = lists.storage if isinstance(lists, pa.ExtensionArray) else lists
    for row, values in zip(read["id"].to_pylist(), lists.to_pylist(), strict=True):
        assert values == [*range(row % 3), *[None] * (3 - row % 3)]


def test_a_stored_column_that_is_named_like_a_mask_stays(tmp_path):
    pq.write_table(pa.table({"a": [1, 2], "a.mask": [True, False]}), tmp_path / "x.parquet")
    read = pa.RecordBatchReader.from_stream(fb.Loader(tmp_path / "x.parquet")).read_all()
    assert read.to_pydict() == {"a": [1, 2], "a.mask": [True, False]}


def test_an_error_arrives_with_its_text(table):
    mine = loader(table, columns=["id"], stack={"x": fb.Stack(["n"])})
    with pytest.raises(pa.ArrowException, match='column "n".*null where a value is stacked'):
        pa.RecordBatchReader.from_stream(mine).read_all()


def test_an_epoch_that_was_superseded_ends_with_an_error(table):
    mine = loader(table, columns=["id"])
    reader = pa.RecordBatchReader.from_stream(mine)
    reader.read_next_batch()
    assert len(list(mine)) == len(mine)
    with pytest.raises(pa.ArrowException, match="epoch"):
        reader.read_all()


def test_functions_are_refused(table):
    mine = loader(table, transform=lambda batch: batch)
    with pytest.raises(fb.InvalidError, match="the loader has transform"):
        pa.RecordBatchReader.from_stream(mine)


def test_a_mix_is_a_stream(table):
    mix = fb.Mix([(fb.Loader(table), 0.5), (fb.Loader(table), 0.5)], batch_size=16)
    assert pa.RecordBatchReader.from_stream(mix).read_all().num_rows > ROWS


def test_polars_reads_it(table):
    polars = pytest.importorskip("polars")
    mine = loader(table, columns=["id", "text", "n", "list"], null_mask=["n"])
    frame = polars.DataFrame(mine).sort("id")
    assert frame["id"].to_list() == list(range(ROWS))
    assert frame["n"].to_list() == [None if row % 7 == 0 else row for row in range(ROWS)]
    assert frame["text"][3] == "row 3" and frame["list"].to_list()[2] == [0, 1]
    matrix = polars.DataFrame(
        loader(table, columns=["id"], stack={"x": fb.Stack(["id"], dtype="int8")}, filter=[("id", "<", 9)])
    )
    assert matrix["x"].to_list() and len(matrix) == 9


def test_duckdb_reads_it(table):
    duckdb = pytest.importorskip("duckdb")
    mine = loader(table, columns=["id", "text", "n", "vector"], null_mask=["n"])
    assert len(mine) == 13
    found = duckdb.sql("select count(*), sum(id), count(n), max(text) from mine").fetchall()
    assert found == [(ROWS, sum(range(ROWS)), ROWS - len(range(0, ROWS, 7)), "row 99")]
