"""Tensors whose shape files declare: Arrow's extension type, and the arrays of Hugging Face."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 23


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(3).integers(0, 100, (ROWS, *shape))


def arrow_tensors(values: np.ndarray, nulls: tuple[int, ...] = (), **options: Any) -> pa.Array:
    """Returns a column of Arrow tensors; ``options`` are further parameters of their type."""
    kind = pa.fixed_shape_tensor(pa.from_numpy_dtype(values.dtype), values.shape[1:], **options)
    rows: list[list[int] | None] = values.reshape(ROWS, -1).tolist()
    for row in nulls:
        rows[row] = None
    return pa.ExtensionArray.from_storage(kind, pa.array(rows, kind.storage_type))


def hugging_face(path: Path, columns: dict[str, pa.Array], features: dict[str, Any]) -> None:
    """Writes a file with the metadata of the package ``datasets``."""
    table = pa.table(columns)
    metadata = {b"huggingface": json.dumps({"info": {"features": features}}).encode()}
    pq.write_table(table.replace_schema_metadata(metadata), path, row_group_size=9)


def nested(values: np.ndarray) -> pa.Array:
    kind = pa.from_numpy_dtype(values.dtype)
    for _ in values.shape[1:]:
        kind = pa.list_(kind)
    return pa.array(values.tolist(), kind)


@pytest.mark.parametrize(
    "options", [{}, {"dim_names": ["a", "b", "c"]}, {"permutation": [2, 1, 0]}, {"permutation": [0, 2, 1]}], ids=str
)
def test_tensors_of_arrow_are_those_that_pyarrow_makes(options: dict[str, Any], tmp_path: Path) -> None:
    tensors = arrow_tensors(drawn(2, 3, 4).astype(np.float32), **options)
    pq.write_table(pa.table({"x": tensors, "id": range(ROWS)}), tmp_path / "a.parquet", row_group_size=9)
    want = tensors.to_numpy_ndarray()
    for shuffle in (None, fb.Shuffle(seed=1, window_rows=10)):
        with fb.Loader(tmp_path, batch_size=5, shuffle=shuffle) as loader:
            assert loader.schema.layout()[0] == ("x", "dense", "<f4", want.shape[1:])
            for batch in loader:
                np.testing.assert_array_equal(batch["x"], want[batch["id"]])
                assert batch["x"].dtype == np.float32
                column = pa.record_batch(batch).column("x")
                assert column.type == pa.fixed_shape_tensor(pa.float32(), want.shape[1:])
                np.testing.assert_array_equal(column.to_numpy_ndarray(), want[batch["id"]])


def test_axes_are_permuted_as_arrow_specifies(tmp_path: Path) -> None:
    # pyarrow 26 itself returns wrong values for permutations that are not their own inverse.
    values = drawn(2, 3, 4)
    pq.write_table(pa.table({"x": arrow_tensors(values, permutation=[2, 0, 1])}), tmp_path / "a.parquet")
    with fb.Loader(tmp_path, batch_size=ROWS) as loader:
        (batch,) = loader
    np.testing.assert_array_equal(batch["x"], values.transpose(0, 3, 1, 2))


def test_nulls_of_tensors_stay_and_may_be_filled(tmp_path: Path) -> None:
    values = drawn(2, 3)
    features = {"huge": {"_type": "Array2D", "shape": [2, 3], "dtype": "int64"}}
    rows = values.tolist()
    rows[11] = None
    columns = {"arrow": arrow_tensors(values, (11,)), "huge": pa.array(rows, pa.list_(pa.list_(pa.int64())))}
    hugging_face(tmp_path / "a.parquet", columns, features)
    for name in columns:
        with fb.Loader(tmp_path, columns=[name], batch_size=ROWS) as loader:
            (batch,) = loader
        column = pa.record_batch(batch).column(name)
        assert column.is_null().to_pylist() == [row == 11 for row in range(ROWS)]
        with pytest.raises(fb.NullError, match="row 11 of this batch"):
            batch[name]
        with fb.Loader(tmp_path, columns=[name], batch_size=ROWS, fill_null={name: -1}) as loader:
            (batch,) = loader
        want = values.copy()
        want[11] = -1
        np.testing.assert_array_equal(batch[name], want)
        with fb.Loader(tmp_path, columns=[name], batch_size=ROWS, on_bad_row=fb.Skip(at_most=1)) as loader:
            (batch,) = loader
            assert [row.row for row in loader.skipped()] == [2]
        np.testing.assert_array_equal(batch[name], np.delete(values, 11, axis=0))


@pytest.mark.parametrize("shape", [(2, 3), (4, 1, 2), (2, 2, 2, 2), (1, 2, 3, 1, 2)], ids=str)
def test_arrays_of_hugging_face_are_dense(shape: tuple[int, ...], tmp_path: Path) -> None:
    values = drawn(*shape).astype(np.float32)
    features = {"x": {"_type": f"Array{len(shape)}D", "shape": list(shape), "dtype": "float32"}}
    hugging_face(tmp_path / "a.parquet", {"x": nested(values)}, features)
    with fb.Loader(tmp_path, batch_size=5) as loader:
        got = np.concatenate([batch["x"] for batch in loader])
        assert loader.schema.layout() == [("x", "dense", "<f4", shape)]
    np.testing.assert_array_equal(got, values)


def test_what_is_not_of_one_shape_stays_as_it_was(tmp_path: Path) -> None:
    ragged = [[[1, 2]] * (row % 3) for row in range(ROWS)]
    kind = pa.list_(pa.list_(pa.int64()))
    features = {
        "free": {"_type": "Array2D", "shape": [None, 2], "dtype": "int64"},
        "list": {"_type": "List", "feature": {"_type": "Value", "dtype": "int64"}},
        "other": {"_type": "Array3D", "shape": [2, 3, 4], "dtype": "int64"},
    }
    hugging_face(tmp_path / "a.parquet", {name: pa.array(ragged, kind) for name in features}, features)
    with fb.Loader(tmp_path, batch_size=ROWS) as loader:
        (batch,) = loader
    for name in features:
        assert isinstance(batch[name], fb.Ragged) and batch[name].tolist() == ragged


def test_an_array_of_another_shape_than_declared_is_a_bad_row(tmp_path: Path) -> None:
    values = drawn(2, 3)
    rows = values.tolist()
    rows[20] = [[1, 2, 3]]
    features = {"x": {"_type": "Array2D", "shape": [2, 3], "dtype": "int64"}}
    hugging_face(tmp_path / "a.parquet", {"x": pa.array(rows, pa.list_(pa.list_(pa.int64())))}, features)
    with fb.Loader(tmp_path, batch_size=5) as loader, pytest.raises(fb.BadRowError) as raised:
        list(loader)
    assert "a list of 1 values where int64[2, 3] is declared" in str(raised.value)
    assert (raised.value.row_group, raised.value.row) == (2, 2)
    with fb.Loader(tmp_path, batch_size=5, on_bad_row=fb.Skip(at_most=1)) as loader:
        got = np.concatenate([batch["x"] for batch in loader])
    np.testing.assert_array_equal(got, np.delete(values, 20, axis=0))


@pytest.mark.parametrize("shape", [(2, 3), (2, 1, 3), (1, 2, 1, 3), (1, 2, 1, 3, 1)], ids=len)
def test_an_array_that_is_null_has_a_mask(tmp_path: Path, shape: tuple[int, ...]) -> None:
    values = drawn(*shape)
    kind, rows = nested(values).type, values.tolist()
    rows[2] = rows[11] = None
    features = {"x": {"_type": f"Array{len(shape)}D", "shape": list(shape), "dtype": "int64"}}
    hugging_face(tmp_path / "a.parquet", {"x": pa.array(rows, kind)}, features)
    for options, fill in (({"null_mask": ["x"]}, 0), ({"null_mask": ["*"], "fill_null": {"x": 7}}, 7)):
        with fb.Loader(tmp_path, batch_size=5, shuffle=None, **options) as loader:  # type: ignore[arg-type]
            assert loader.schema.layout()[0] == ("x", "dense", "<i8", shape)
            batches = list(loader)
        got, mask = (np.concatenate([batch[name] for batch in batches]) for name in ("x", "x.mask"))
        assert np.flatnonzero(~mask).tolist() == [2, 11] and (got[~mask] == fill).all()
        np.testing.assert_array_equal(got[mask], values[mask])
    # A null within a value is not covered by the mask.
    rows[20] = [None, *rows[20][1:]]
    hugging_face(tmp_path / "a.parquet", {"x": pa.array(rows, kind)}, features)
    with fb.Loader(tmp_path, null_mask=["x"], batch_size=5, shuffle=None) as loader:
        with pytest.raises(fb.BadRowError, match='row group 2, row 2, column "x": null where int64'):
            list(loader)
    with fb.Loader(tmp_path, null_mask=["x"], batch_size=5, on_bad_row=fb.Skip(at_most=1)) as loader:
        assert sum(len(batch["x"]) for batch in loader) == ROWS - 1
