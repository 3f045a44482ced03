"""A batch is a mapping of views, and each column supports the protocols of its consumers."""

from __future__ import annotations

import collections.abc
import datetime
import gc
import pickle
import sys
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROWS, small

import forebay as fb


@pytest.fixture(scope="module")
def batch(plain: Path) -> fb.Batch:
    with fb.Loader(plain, batch_size=ROWS) as loader:
        return next(iter(loader))


def test_every_kind_of_column_arrives_as_arrow_has_it(batch: fb.Batch, table: pa.Table) -> None:
    for name in ("id", "u8", "f16", "f32", "f64", "flag"):
        want = table[name].to_numpy()
        assert batch[name].dtype == want.dtype
        assert batch[name].tobytes() == want.tobytes(), name
    assert batch["when"].dtype == "datetime64[us]"
    assert batch["day"].dtype == "datetime64[D]"
    assert batch["span"].dtype == "timedelta64[ms]"
    for name in ("when", "day", "span"):
        assert (batch[name].view("i8") == np.arange(ROWS)).all()
    assert batch["name"].dtype == object
    assert batch["name"].tolist() == table["name"].to_pylist()
    assert batch["blob"].tolist() == table["blob"].to_pylist()
    assert batch["vector"].shape == (ROWS, 3)
    assert batch["vector"].tolist() == table["vector"].to_pylist()
    assert (batch["cell"].dtype, batch["cell"].shape) == (np.uint8, (ROWS, 2))
    assert [row.tobytes() for row in batch["cell"]] == table["cell"].to_pylist()


def test_a_batch_is_not_pickled_and_its_columns_are(batch: fb.Batch, table: pa.Table) -> None:
    with pytest.raises(TypeError, match=r"is not pickled \(send dict\(batch\)"):
        pickle.dumps(batch)
    sent = pickle.loads(pickle.dumps(dict(batch)))
    assert list(sent) == table.column_names
    assert sent["vector"].tolist() == table["vector"].to_pylist()
    assert pickle.loads(pickle.dumps(batch.to_arrow())).to_pylist() == table.to_pylist()


def test_a_batch_is_a_mapping(batch: fb.Batch, table: pa.Table) -> None:
    assert isinstance(batch, collections.abc.Mapping)
    assert list(batch) == list(batch.keys()) == table.column_names
    assert len(batch) == len(table.column_names)
    assert "id" in batch
    assert "nothing" not in batch
    assert 3 not in batch
    assert batch.get("nothing") is None
    assert batch.get("nothing", 5) == 5
    assert batch.get("id") is batch["id"]
    assert dict(**batch)["id"] is batch["id"]
    assert dict(batch.items())["f32"] is batch["f32"]
    assert next(iter(batch.values())) is batch["id"]
    assert batch.num_rows == ROWS
    assert repr(batch).startswith(f"<forebay.Batch of {ROWS} rows: id: int64")


def test_an_unknown_column_is_a_key_error_with_a_hint(batch: fb.Batch) -> None:
    with pytest.raises(KeyError, match='did you mean "vector"') as caught:
        batch["vektor"]
    assert isinstance(caught.value, fb.UnknownColumnError)
    assert not str(caught.value).startswith("'")


def test_an_array_is_a_view_that_outlives_its_batch(plain: Path) -> None:
    with fb.Loader(plain, batch_size=128) as loader:
        epoch = iter(loader)
        batch = next(epoch)
        array = batch["f64"]
        assert array.base is not None
        assert not array.flags.owndata
        assert array.flags.writeable
        assert np.shares_memory(array, np.asarray(batch.column("f64")))
        assert np.shares_memory(array, np.from_dlpack(batch.column("f64")))
        want = array.copy()
        del batch
        for _ in epoch:
            gc.collect()
        assert (array == want).all()
    del epoch, loader
    gc.collect()
    assert (array == want).all()


def test_lists_of_differing_lengths_are_ragged(batch: fb.Batch, table: pa.Table) -> None:
    words = batch["words"]
    assert isinstance(words, fb.Ragged)
    assert len(words) == ROWS
    assert [row.tolist() for row in words] == table["words"].to_pylist()
    assert words[-1].tolist() == table["words"][ROWS - 1].as_py()
    assert words.values.dtype == np.int32
    assert words.offsets[0] == 0
    assert not words.values.flags.owndata
    with pytest.raises(ValueError, match=r"padded\(fill=0\)"):
        np.asarray(words)
    with pytest.raises(IndexError):
        words[ROWS]
    padded = words.padded(fill=-1)
    assert padded.shape == (ROWS, 4)
    for row, want in zip(padded.tolist(), table["words"].to_pylist(), strict=True):
        assert row == want + [-1] * (4 - len(want))
    assert words.padded(length=2).shape == (ROWS, 2)
    assert words.padded(length=2)[4].tolist() == [0, 1]
    assert words.padded(fill=9, length=6)[4].tolist() == [0, 1, 2, 3, 9, 9]
    # A fill value that the items cannot have is not changed into one.
    for fill in (1.5, float("nan"), 2**31, None, "a"):
        with pytest.raises(fb.InvalidError, match="lists of int32 cannot be padded with"):
            words.padded(fill=fill)
    assert words.padded(fill=2.0)[0].tolist() == [2] * 4
    for row in ([1, 2], np.ones(ROWS, bool), 1.0):
        with pytest.raises(fb.InvalidError, match="a row is an int or a slice"):
            words[row]
    assert words[np.int8(3)].tolist() == words[3].tolist()


def test_lists_of_floats_are_filled_up_with_what_the_type_holds() -> None:
    for dtype in (np.float16, np.float32):
        lists = fb.Ragged(np.ones(3, dtype), np.array([0, 2, 3]))
        for fill in (0.1, 1e-99, float("inf"), float("-inf"), float("nan")):
            padded = lists.padded(fill)
            assert padded.dtype == dtype
            np.testing.assert_array_equal(padded[1, 1], dtype(fill))
        for fill in (1e39, -1e39, "a", None):
            with pytest.raises(fb.InvalidError, match=f"lists of {np.dtype(dtype)} cannot be padded with"):
                lists.padded(fill)


def test_equally_long_lists_are_a_matrix_without_a_copy(batch: fb.Batch, table: pa.Table) -> None:
    matrix = np.asarray(batch["pairs"])
    assert matrix.tolist() == table["pairs"].to_pylist()
    assert np.shares_memory(matrix, batch["pairs"].values)


def test_a_null_is_refused_with_both_remedies(tmp_path: Path) -> None:
    values = pa.array([1.0, None, 3.0], pa.float32())
    lists = pa.array([[1], [2, None], None], pa.list_(pa.int32()))
    pq.write_table(pa.table({"x": values, "l": lists, "s": ["a", None, "c"]}), tmp_path / "n.parquet")
    with fb.Loader(tmp_path, batch_size=3) as loader:
        batch = next(iter(loader))
    with pytest.raises(fb.NullError, match=r"row 1 .*fill_null=\{\"x\": 0.0\}.*pyarrow.record_batch") as caught:
        batch["x"]
    assert isinstance(caught.value, ValueError)
    assert caught.value.column == "x"
    with pytest.raises(fb.NullError, match="row"):
        batch["l"]
    with pytest.raises(fb.NullError):
        np.from_dlpack(batch.column("x"))
    assert batch["s"].tolist() == ["a", None, "c"]
    assert pa.record_batch(batch)["x"].to_pylist() == [1.0, None, 3.0]
    with fb.Loader(tmp_path, columns=["x"], batch_size=3, fill_null={"x": -1}) as loader:
        assert next(iter(loader))["x"].tolist() == [1.0, -1.0, 3.0]
    pq.write_table(pa.table({"c": pa.array([b"ab", None], pa.binary(2))}), tmp_path / "n.parquet")
    with fb.Loader(tmp_path, fill_null={"c": 7}) as loader:
        assert next(iter(loader))["c"].tolist() == [[97, 98], [7, 7]]
    with pytest.raises(fb.InvalidError, match="256 is not a value"):
        fb.Loader(tmp_path, fill_null={"c": 256})


def test_floats_keep_their_bits(tmp_path: Path) -> None:
    bits = np.array([0x7FC00001, 0x7F800000, 0xFF800000, 0x80000000, 0x00000001], np.uint32)
    pq.write_table(pa.table({"x": bits.view(np.float32)}), tmp_path / "f.parquet")
    with fb.Loader(tmp_path) as loader:
        assert (next(iter(loader))["x"].view(np.uint32) == bits).all()


def test_arrow_takes_batches_columns_and_schemas(batch: fb.Batch, table: pa.Table, plain: Path) -> None:
    arrow = pa.record_batch(batch)
    assert arrow.num_rows == ROWS
    assert arrow["name"].to_pylist() == table["name"].to_pylist()
    assert arrow["id"].buffers()[1].address == batch["id"].ctypes.data
    assert pa.array(batch.column("words")).to_pylist() == table["words"].to_pylist()
    with fb.Loader(plain) as loader:
        schema = pa.schema(loader.schema)
        assert schema.names == table.column_names == loader.schema.names
        assert schema == arrow.schema
        assert "id: int64" in repr(loader.schema)
        assert loader.schema == batch.schema
    # An unconsumed capsule is freed too.
    batch.__arrow_c_array__()
    batch.column("id").__dlpack__()
    batch.column("id").__dlpack__(max_version=(1, 1))


def test_dlpack_speaks_both_generations(batch: fb.Batch) -> None:
    column = batch.column("vector")
    assert column.__dlpack_device__() == (1, 0)
    assert "dltensor_versioned" in repr(column.__dlpack__(max_version=(1, 0)))
    assert '"dltensor"' in repr(column.__dlpack__())
    array = np.from_dlpack(column)
    assert (array == batch["vector"]).all()
    assert np.shares_memory(array, batch["vector"])
    copied = np.from_dlpack(column, copy=True)
    assert not np.shares_memory(copied, batch["vector"])
    assert (np.from_dlpack(batch.column("flag")) == batch["flag"]).all()
    with pytest.raises(BufferError, match="no type for"):
        np.from_dlpack(batch.column("name"))
    with pytest.raises(BufferError, match="host memory"):
        batch.column("id").__dlpack__(dl_device=(2, 0))


@pytest.mark.skipif(sys.version_info < (3, 12), reason="the buffer protocol of Python classes came with 3.12")
def test_a_column_is_a_buffer(batch: fb.Batch) -> None:
    view = memoryview(batch.column("f32"))  # type: ignore[arg-type]
    assert view.format == "f"
    assert np.shares_memory(np.asarray(view), batch["f32"])


def test_a_column_is_an_array(batch: fb.Batch) -> None:
    column = batch.column("f32")
    assert np.asarray(column, dtype=np.float64).dtype == np.float64
    assert not np.shares_memory(np.array(column), batch["f32"])
    assert len(column) == ROWS
    assert column.name == "f32"
    assert column.null_count == 0
    assert repr(column) == f'<forebay.Column "f32": float32, {ROWS} rows>'


def test_torch_takes_every_number_without_a_warning(batch: fb.Batch) -> None:
    torch = pytest.importorskip("torch")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for name in ("id", "u8", "f16", "f32", "f64", "flag", "vector", "cell"):
            tensor = torch.from_numpy(batch[name])
            assert tensor.data_ptr() == batch[name].ctypes.data
            assert torch.equal(torch.from_dlpack(batch.column(name)), tensor)


@pytest.mark.parametrize(
    ("values", "want"),
    [
        (pa.array([["a", None], []], pa.list_(pa.string())), [["a", None], []]),
        (pa.array(["x", None, "x"]).dictionary_encode(), ["x", None, "x"]),
        (pa.array([1, 2], pa.time32("ms")), [datetime.timedelta(milliseconds=1), datetime.timedelta(milliseconds=2)]),
    ],
    ids=["text lists", "dictionary", "times"],
)
def test_what_numpy_has_no_type_for_is_objects(tmp_path: Path, values: pa.Array, want: object) -> None:
    pq.write_table(pa.table({"x": values}), tmp_path / "o.parquet")
    assert next(iter(fb.Loader(tmp_path, batch_size=8)))["x"].tolist() == want


def test_images_have_their_shape_and_type(photos: Path) -> None:
    spec = fb.Image.resize(16, 24)
    for image, dtype, shape in [
        (spec, "uint8", (8, 16, 24, 3)),
        (spec.layout("NCHW"), "uint8", (8, 3, 16, 24)),
        (spec.grayscale(), "uint8", (8, 16, 24, 1)),
        (spec.dtype("float32"), "float32", (8, 16, 24, 3)),
        (spec.dtype("float16").normalize((0.5,) * 3, (0.25,) * 3), "float16", (8, 16, 24, 3)),
    ]:
        with fb.Loader(photos, columns=["image"], decode={"image": image}, batch_size=8) as loader:
            array = next(iter(loader))["image"]
            assert (array.dtype, array.shape) == (dtype, shape)
            assert not array.flags.owndata


def test_bfloat16_reaches_numpy_and_torch(photos: Path) -> None:
    spec = fb.Image.resize(16, 24)
    with fb.Loader(photos, decode={"image": spec.dtype("float32")}, batch_size=8) as loader:
        exact = next(iter(loader))["image"]
    with fb.Loader(photos, decode={"image": spec.dtype("bfloat16")}, batch_size=8) as loader:
        batch = next(iter(loader))
        assert "bfloat16[16, 24, 3]" in repr(loader.schema)
    array = batch["image"]
    try:
        import ml_dtypes
    except ImportError:
        assert array.dtype == np.uint16
    else:
        assert array.dtype == ml_dtypes.bfloat16
        assert np.abs(array.astype(np.float32) - exact).max() < 1 / 128
    torch = pytest.importorskip("torch")
    tensor = torch.from_dlpack(batch.column("image"))
    assert tensor.dtype == torch.bfloat16
    assert tuple(tensor.shape) == (8, 16, 24, 3)
    assert np.abs(tensor.float().numpy() - exact).max() < 1 / 128


def test_batches_have_the_rows_that_were_written(plain: Path, table: pa.Table) -> None:
    with small(plain) as loader:
        for batch in loader:
            rows = batch["id"]
            assert batch["name"].tolist() == [f"row {i}" for i in rows]
            assert (batch["f64"] == table["f64"].to_numpy()[rows]).all()
            assert [list(words) for words in batch["words"]] == [list(range(i % 5)) for i in rows]


@pytest.mark.parametrize("library", ["pandas", "polars", "duckdb"])
def test_other_libraries_take_a_batch_by_the_capsule(plain: Path, library: str) -> None:
    module = pytest.importorskip(library)
    with small(plain, columns=["id", "name", "words", "vector"]) as train:
        batch = next(iter(train))
    want = pa.record_batch(batch).to_pylist()
    if library == "pandas":
        if not hasattr(module.DataFrame, "from_arrow"):
            pytest.skip("pandas before 3.0")
        rows = module.DataFrame.from_arrow(batch).to_dict("records")
    elif library == "polars":
        rows = module.from_arrow(batch.to_arrow()).to_dicts()
    else:
        relation = module.from_arrow(batch)
        rows = [dict(zip(relation.columns, row, strict=True)) for row in relation.fetchall()]
    assert [{**row, "words": list(row["words"]), "vector": list(row["vector"])} for row in rows] == want


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int64(), (1 << 53) + 1),
        (pa.int64(), -(1 << 53) - 1),
        (pa.int64(), (1 << 63) - 1),
        (pa.uint64(), (1 << 63) + 1),
        (pa.uint64(), (1 << 64) - 1),
        (pa.timestamp("ns"), 1_700_000_000_123_456_789),
    ],
)
def test_a_fill_is_exact_where_a_float_is_not(tmp_path: Path, kind: pa.DataType, value: int) -> None:
    lists = pa.array([[1, None], None, [None]], pa.list_(kind))
    pq.write_table(pa.table({"x": pa.array([1, None, 3], kind), "list": lists}), tmp_path / "a.parquet")
    fills = {"x": value, "list": np.uint64(value) if value > 0 else value}
    with fb.Loader(tmp_path, batch_size=3, fill_null=fills) as loader:
        batch = next(iter(loader))
        again = pickle.loads(pickle.dumps(loader))
        assert loader.spec["fill_null"] == {"x": value, "list": value}
    with again:
        assert next(iter(again))["x"].tobytes() == batch["x"].tobytes()
    assert batch["x"].view("u8").tolist() == [1, value % (1 << 64), 3]
    assert batch["list"].values.view("u8").tolist() == [1, value % (1 << 64), value % (1 << 64)]
    if not pa.types.is_integer(kind):
        return
    options = {"columns": ["list"], "pad": {"list": fb.Pad(length=2)}, "fill_null": {"list": value}}
    with fb.Loader(tmp_path, batch_size=3, shuffle=None, **options) as padded:
        assert next(iter(padded))["list"].view("u8")[0].tolist() == [1, value % (1 << 64)]


@pytest.mark.parametrize("kind", [pa.float64(), pa.int32(), pa.uint32()])
def test_a_fill_that_its_column_does_not_hold_is_refused_with_all_its_digits(tmp_path: Path, kind: pa.DataType) -> None:
    pq.write_table(pa.table({"x": pa.array([1, None], kind)}), tmp_path / "a.parquet")
    with pytest.raises(fb.InvalidError, match='"x": fill_null value 9007199254740993 is not a value of type'):
        fb.Loader(tmp_path, fill_null={"x": (1 << 53) + 1})


def test_libraries_read_a_batch_by_the_calls_that_the_documentation_names(tmp_path: Path) -> None:
    polars, pandas = pytest.importorskip("polars"), pytest.importorskip("pandas")
    lists = pa.array([[1], None, [2, 3]], pa.list_(pa.int64()))
    stored = pa.table({"id": [1, None, 3], "lists": lists, "text": ["a", None, "b"]})
    pq.write_table(stored, tmp_path / "a.parquet")
    with fb.Loader(tmp_path, batch_size=3, shuffle=None) as loader:
        batch = next(iter(loader))
    want = stored.to_pylist()
    assert pa.table(batch).to_pylist() == pa.record_batch(batch).to_pylist() == batch.to_arrow().to_pylist() == want
    assert polars.from_arrow(batch.to_arrow()).to_dicts() == want
    assert polars.from_arrow(batch).struct.unnest().to_dicts() == want
    with pytest.raises(fb.NullError):
        polars.DataFrame(batch)
    if hasattr(pandas.DataFrame, "from_arrow"):
        assert pandas.DataFrame.from_arrow(batch)["text"].isna().tolist() == [False, True, False]
