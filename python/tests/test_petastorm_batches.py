"""make_batch_reader: row groups of any Parquet files as arrays."""

from __future__ import annotations

import datetime
import decimal
import hashlib
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from forebay.petastorm import TransformSpec, make_batch_reader, make_reader
from forebay.petastorm.predicates import PredicateBase, in_lambda, in_negate, in_pseudorandom_split, in_set

HALF = [i for i in range(16) if int(hashlib.md5(str(i).encode()).hexdigest(), 16) % sys.maxsize < sys.maxsize // 2]

DAY = datetime.date(2024, 2, 29)
NOON = datetime.datetime(2024, 2, 29, 12, 0, 0, 123456)


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """Two files with two row groups of 4 rows; the second row group of each file has nulls."""
    folder = tmp_path_factory.mktemp("batches")
    for number in range(2):
        some = [None if i in (5, 6) else i for i in range(8)]
        table = pa.table(
            {
                "id": pa.array(range(number * 8, number * 8 + 8), pa.int64()),
                "small": pa.array(some, pa.int16()),
                "flag": pa.array([None if i is None else i % 2 == 0 for i in some]),
                "real": pa.array(some, pa.float32()),
                "text": pa.array([None if i is None else "x" * i for i in some]),
                "bytes": pa.array([None if i is None else b"y" * i for i in some]),
                "fixed": pa.array([None if i is None else b"%03d" % i for i in some], pa.binary(3)),
                "day": pa.array([None if i is None else DAY for i in some]),
                "at": pa.array([None if i is None else NOON for i in some], pa.timestamp("us")),
                "price": pa.array([None if i is None else decimal.Decimal(i) / 10 for i in some], pa.decimal128(5, 1)),
                "pair": pa.array([[i, i + 1] for i in range(8)], pa.list_(pa.int32())),
                "reals": pa.array([[1.5, None]] * 8, pa.list_(pa.float64())),
                "words": pa.array([["a", "b", "c"]] * 8),
                "structure": pa.array([{"x": 1}] * 8),
            }
        )
        pq.write_table(table, folder / f"{number}.parquet", row_group_size=4)
    return f"file://{folder}"


def stored(url, **options):
    with pytest.warns(UserWarning, match="unsupported field"):
        reader = make_batch_reader(url, shuffle_row_groups=False, **options)
    with reader:
        return list(reader)


def test_a_batch_has_the_rows_of_a_row_group(url):
    batches = stored(url)
    assert [batch.id.tolist() for batch in batches] == [list(range(at, at + 4)) for at in (0, 4, 8, 12)]
    assert type(batches[0]).__name__ == "inferred_schema_view"
    assert "structure" not in batches[0]._fields


def test_columns_without_nulls_have_the_types_that_are_stored(url):
    batch = stored(url)[0]
    types = {name: column.dtype.str for name, column in batch._asdict().items()}
    assert types == {
        "id": "<i8",
        "small": "<i2",
        "flag": "|b1",
        "real": "<f4",
        "text": "<U3",
        "bytes": "|O",
        "fixed": "|O",
        "day": "|O",
        "at": "<M8[us]",
        "price": "|O",
        "pair": "<i4",
        "reals": "<f8",
        "words": "|O",
    }
    assert batch.fixed.tolist() == [b"000", b"001", b"002", b"003"] and batch.day.tolist() == [DAY] * 4
    assert batch.price.tolist() == [decimal.Decimal(i) / 10 for i in range(4)]
    assert batch.pair.tolist() == [[i, i + 1] for i in range(4)] and batch.words.shape == (4, 3)
    assert batch.at[0] == np.datetime64(NOON) and np.isnan(batch.reals[:, 1]).all()


def test_nulls_are_what_pandas_has_for_them(url):
    batch = stored(url)[1]
    assert batch.small.dtype == np.float64 and np.isnan(batch.small).tolist() == [False, True, True, False]
    assert batch.flag.dtype == object and batch.flag.tolist() == [True, None, None, False]
    assert batch.real.dtype == np.float32 and np.isnan(batch.real[1:3]).all()
    assert batch.text.tolist() == ["xxxx", "None", "None", "xxxxxxx"]
    assert batch.bytes.tolist() == [b"yyyy", None, None, b"yyyyyyy"]
    assert batch.fixed.tolist() == [b"004", None, None, b"007"] and batch.day.tolist() == [DAY, None, None, DAY]
    assert np.isnat(batch.at).tolist() == [False, True, True, False] and batch.price[1] is None


def test_row_groups_are_shuffled_and_stay_whole(url):
    with make_batch_reader(url, schema_fields=["id", "pair"], seed=3, num_epochs=2) as reader:
        batches = list(reader)
    firsts = [batch.id[0] for batch in batches]
    assert sorted(firsts) == [0, 0, 4, 4, 8, 8, 12, 12] and firsts[:4] != [0, 4, 8, 12]
    for batch in batches:
        assert (np.diff(batch.id) == 1).all() and (batch.pair[:, 0] == batch.id % 8).all()


def test_row_groups_of_differing_lengths_stay_whole(tmp_path):
    table = pa.table({"id": np.arange(100), "l": [[i] * (1 + i // 30) for i in range(100)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=30)
    with make_batch_reader(f"file://{tmp_path}", seed=1, num_epochs=3) as reader:
        batches = list(reader)
    assert sorted(len(batch.id) for batch in batches) == sorted([30, 30, 30, 10] * 3)
    for batch in batches:
        assert batch.l.shape == (len(batch.id), 1 + batch.id[0] // 30) and (batch.l[:, 0] == batch.id).all()


def test_lists_of_differing_lengths_in_a_row_group_are_an_error(tmp_path):
    pq.write_table(pa.table({"l": [[1], [1, 2]]}), tmp_path / "a.parquet")
    with make_batch_reader(f"file://{tmp_path}") as reader:
        with pytest.raises(RuntimeError, match="expected to be the same length.*'1, 2'"):
            next(reader)


def test_several_files_are_read_as_one(url):
    urls = [f"{url}/1.parquet", f"{url}/0.parquet"]
    assert sorted(i for batch in stored(urls) for i in batch.id.tolist()) == list(range(16))
    assert sum(len(batch.id) for batch in stored(urls[0])) == 8


def test_folders_are_columns(tmp_path):
    for day, word in ((1, "a"), (2, "b")):
        folder = tmp_path / f"day={day}" / f"word={word}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [1.0, 2.0]}), folder / "a.parquet")
    with make_batch_reader(f"file://{tmp_path}", shuffle_row_groups=False) as reader:
        assert list(reader.schema.fields) == ["day", "word", "x"]
        batches = list(reader)
    assert [(batch.day.tolist(), batch.word.tolist()) for batch in batches] == [
        ([1, 1], ["a", "a"]),
        ([2, 2], ["b", "b"]),
    ]
    assert batches[0].day.dtype == np.int64 and batches[0].word.dtype.kind == "U"


def test_a_predicate_of_folders_alone_is_asked_once_for_each(tmp_path):
    for word in "abc":
        (tmp_path / f"word={word}").mkdir()
        pq.write_table(pa.table({"x": np.arange(10)}), tmp_path / f"word={word}" / "a.parquet")
    asked = []

    def is_b(word):
        asked.append(str(word))
        return word == "b"

    with make_batch_reader(f"file://{tmp_path}", predicate=in_lambda(["word"], is_b)) as reader:
        assert sorted(asked) == ["a", "b", "c"]
        assert [(set(batch.word), len(batch.x)) for batch in reader] == [({"b"}, 10)]
    with pytest.warns(UserWarning, match="No matching data"):
        make_batch_reader(f"file://{tmp_path}", predicate=in_lambda(["word"], lambda word: False))


class Even(PredicateBase):
    def get_fields(self):
        return {"id"}

    def do_include(self, frame):
        return frame["id"] % 2 == 0


@pytest.mark.parametrize(
    ("predicate", "ids"),
    [
        (in_lambda(["id"], lambda ids: ids > 12), [13, 14, 15]),
        (Even(), list(range(0, 16, 2))),
        (in_set([3, 12], "id"), [3, 12]),
        (in_negate(in_set([3], "small")), [i for i in range(16) if i % 8 != 3]),
        # The rows whose hash is below a half; see test_a_split_is_that_of_the_hash_of_text.
        (in_pseudorandom_split([0.5, 0.5], 0, "id"), HALF),
    ],
)
@pytest.mark.parametrize("fields", [["id"], ["id", "text"]])
def test_predicates_get_columns_of_pandas(url, predicate, ids, fields):
    batches = stored_of(url, predicate=predicate, schema_fields=fields)
    assert [i for batch in batches for i in batch.id.tolist()] == ids


def stored_of(url, **options):
    with pytest.warns(UserWarning):
        reader = make_batch_reader(url, **{"shuffle_row_groups": False, **options})
    with reader:
        return list(reader)


@pytest.mark.parametrize("pool", ["dummy", "thread", "process"])
def test_a_function_makes_other_columns(url, pool):
    spec = TransformSpec(
        shaped,
        edit_fields=[
            ("matrix", np.float32, (2, 2), False),
            ("vector", np.float32, (3,), False),
            ("n", np.int32, (), False),
        ],
        selected_fields=["id", "matrix", "vector", "n"],
    )
    options = {"transform_spec": spec, "reader_pool_type": pool, "workers_count": 2}
    with pytest.warns(UserWarning):
        reader = make_batch_reader(url, schema_fields=["id", "text"], seed=1, **options)
    with reader:
        batches = list(reader)
    assert batches[0]._fields == ("id", "matrix", "vector", "n")
    for batch in batches:
        assert batch.matrix.shape == (4, 2, 2) and batch.matrix.dtype == np.float32
        assert (batch.matrix[:, 1, 1] == batch.id).all() and (batch.vector[:, 2] == batch.id).all()
        assert (np.diff(batch.id) == 1).all() and (batch.n == batch.id + 1).all()


def shaped(frame):
    frame["matrix"] = [np.full((2, 2), i, np.float32) for i in frame["id"]]
    frame["vector"] = [np.full(3, i, np.float32) for i in frame["id"]]
    frame["n"] = (frame["id"] + 1).astype(np.int32)
    return frame[["id", "matrix", "vector", "n"]]


def test_a_function_may_leave_rows_out_and_add_some(url):
    few = TransformSpec(lambda frame: frame[frame["id"] % 3 == 0])
    found = [i for batch in stored_of(url, schema_fields=["id"], transform_spec=few) for i in batch.id.tolist()]
    assert sorted(found) == list(range(0, 16, 3))
    twice = TransformSpec(lambda frame: frame.loc[frame.index.repeat(2)])
    for order in ({}, {"shuffle_rows": True}, {"shuffle_row_groups": True}):
        batches = stored_of(url, schema_fields=["id"], transform_spec=twice, **order)
        assert sorted(i for batch in batches for i in batch.id.tolist()) == sorted([*range(16)] * 2)


def test_epochs_without_a_number_end_where_a_function_leaves_no_row(url):
    none = TransformSpec(lambda frame: frame[frame["id"] < 0])
    with make_batch_reader(url, num_epochs=None, transform_spec=none) as reader:
        with pytest.warns(UserWarning, match="left no row of a whole epoch"):
            assert list(reader) == []


@pytest.mark.parametrize("shards", ["rows", "equal", "row_groups"])
def test_shards_have_all_rows_with_a_function_too(url, shards):
    spec = TransformSpec(lambda frame: frame)
    found = [
        [
            i
            for batch in stored_of(
                url, schema_fields=["id"], transform_spec=spec, cur_shard=rank, shard_count=3, shards=shards
            )
            for i in batch.id
        ]
        for rank in range(3)
    ]
    assert set(sum(found, [])) == set(range(16))
    assert len(sum(found, [])) == (18 if shards == "equal" else 16)


@pytest.mark.parametrize(
    ("function", "fields", "message"),
    [
        (lambda frame: frame.assign(y=1), [], "do not match required schema columns"),
        (lambda frame: frame.assign(y="z"), [("y", np.float32, (2, 3), False)], "must be numpy array type"),
        (
            lambda frame: frame.assign(y=[np.zeros(3)] * len(frame)),
            [("y", np.float32, (2, 3), False)],
            "must be the shape",
        ),
        (
            lambda frame: frame.assign(y=[np.zeros((2, 3))] * len(frame)),
            [("y", np.float32, (None, 3), False)],
            "must be constant",
        ),
    ],
)
def test_what_a_function_returns_has_to_fit_its_schema(url, function, fields, message):
    with pytest.raises(ValueError, match=message):
        stored_of(url, schema_fields=["id"], transform_spec=TransformSpec(function, edit_fields=fields))


def test_an_error_of_a_function_is_the_readers(url):
    def fails(frame):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        stored_of(url, schema_fields=["id"], transform_spec=TransformSpec(fails))


def test_rows_of_any_parquet_are_read_with_a_warning(url):
    with pytest.warns(UserWarning, match="has no schema"):
        reader = make_reader(url, shuffle_row_groups=False, schema_fields=["id", "small", "text", "pair", "day", "at"])
    with reader:
        rows = list(reader)
    assert len(rows) == 16 and rows[5].small is None and rows[4].small == 4 and type(rows[4].small) is np.int16
    assert rows[1].text == "x" and rows[1].pair.tolist() == [1, 2]
    assert rows[0].day == np.datetime64(DAY) and rows[0].at == np.datetime64(NOON)


def test_cells_of_a_data_set_with_a_schema_are_as_they_are_stored(tmp_path):
    from forebay.petastorm.codecs import NdarrayCodec
    from forebay.petastorm.unischema import Unischema, UnischemaField

    schema = Unischema("S", [UnischemaField("x", np.float32, (2,), NdarrayCodec(), False)])
    url = f"file://{tmp_path}/data"
    fb.petastorm.write([{"x": np.ones(2, np.float32)}], schema, url)
    with pytest.warns(UserWarning, match="as they are stored"):
        reader = make_batch_reader(url)
    with reader:
        assert bytes(next(reader).x[0]).startswith(b"\x93NUMPY")


@pytest.mark.parametrize("shuffled", [False, True])
@pytest.mark.parametrize("kind", [pa.float16(), pa.float32(), pa.float64()], ids=str)
def test_floats_need_no_mask_and_nulls_among_them_are_nan(kind, shuffled, tmp_path):
    values = [None if i % 5 == 2 else float("inf") if i % 7 == 3 else i / 4 for i in range(40)]
    columns = {"id": pa.array(range(40)), "x": pa.array([None if v is None else np.float16(v) for v in values], kind)}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=10)
    with make_batch_reader(f"file://{tmp_path}", shuffle_row_groups=shuffled, seed=1) as reader:
        assert reader._plan._columns(reader._stored)[0]["null_mask"] == ["id"]
        batches = list(reader)
    expected = np.array([np.nan if v is None else v for v in values], kind.to_pandas_dtype())
    for batch in batches:
        assert batch.id.tolist() == list(range(batch.id[0], batch.id[0] + 10)) and batch.x.dtype == expected.dtype
        np.testing.assert_array_equal(batch.x, expected[batch.id])
    assert sorted(batch.id[0] for batch in batches) == [0, 10, 20, 30]


def test_batches_that_are_kept_keep_their_rows(tmp_path):
    columns = {"id": pa.array(range(500)), "twice": pa.array(2 * np.arange(500)), "pair": [[i, -i] for i in range(500)]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet", row_group_size=50)
    with make_batch_reader(f"file://{tmp_path}", num_epochs=3) as reader:
        kept = list(reader)
    assert len(kept) == 30
    for batch in kept:
        assert (np.diff(batch.id) == 1).all() and (batch.twice == 2 * batch.id).all()
        assert (batch.pair == np.stack([batch.id, -batch.id], axis=1)).all()


def test_arrays_that_a_function_returns_are_left_as_they_are(tmp_path):
    pandas = pytest.importorskip("pandas")
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "t.parquet", row_group_size=50)
    mine = np.arange(50.0)

    def with_mine(frame):
        return pandas.DataFrame({"id": frame["id"], "x": pandas.Series(mine, copy=False)}, copy=False)

    spec = TransformSpec(with_mine, edit_fields=[("x", np.float64, (), False)])
    with make_batch_reader(f"file://{tmp_path}", transform_spec=spec, seed=1) as reader:
        assert len(list(reader)) == 2
    assert mine.tolist() == list(range(50))
