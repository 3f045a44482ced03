"""Columns of tensors: bytes, files of numpy and lists have the values that numpy reads."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from forebay import _forebay

ROWS = 57
SHAPE = (3, 4, 2)
TYPES = _forebay.TENSOR_TYPES


def arrays(dtype: str, shape: tuple[int, ...] = SHAPE) -> np.ndarray:
    """Returns an array for each row. Negative numbers set the high bits of integers, too."""
    rng = np.random.default_rng(len(dtype))
    drawn = rng.integers(-100, 100, (ROWS, *shape))
    return (drawn > 0) if dtype == "bool" else drawn.astype(dtype)


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def npz(array: np.ndarray) -> bytes:
    # Petastorm's CompressedNdarrayCodec writes cells in this form.
    file = io.BytesIO()
    np.savez_compressed(file, arr=array)
    return file.getvalue()


def plain_npz(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.savez(file, array)
    return file.getvalue()


def fortran(array: np.ndarray) -> bytes:
    return npy(np.asfortranarray(array))


def swapped(array: np.ndarray) -> bytes:
    return npy(array.astype(array.dtype.newbyteorder(">")))


def raw(array: np.ndarray) -> bytes:
    return array.tobytes()


def raw_swapped(array: np.ndarray) -> bytes:
    return array.astype(array.dtype.newbyteorder(">")).tobytes()


WRITERS: list[tuple[Callable[[np.ndarray], bytes], dict[str, str]]] = [
    (raw, {}),
    (raw_swapped, {"byte_order": "big"}),
    (npy, {"format": "npy"}),
    (fortran, {"format": "npy"}),
    (swapped, {"format": "npy"}),
    (npz, {"format": "npz"}),
    (plain_npz, {"format": "npz"}),
]


def read(path: Path, column: str, tensor: fb.Tensor, **options: object) -> np.ndarray:
    """Returns all rows of a column, in batches that end within row groups."""
    with fb.Loader(path, columns=[column], decode={column: tensor}, batch_size=10, **options) as loader:  # type: ignore[arg-type]
        ((_, kind, element, shape),) = loader.schema.layout()
        batches = [batch[column] for batch in loader]
    assert (kind, np.dtype(element).name, shape) == ("dense", tensor.dtype, tensor.shape)
    return np.concatenate(batches)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("write", "options"), WRITERS, ids=lambda value: getattr(value, "__name__", ""))
def test_cells_of_bytes_are_the_arrays_that_were_written(
    dtype: str, write: Callable[[np.ndarray], bytes], options: dict[str, str], tmp_path: Path
) -> None:
    want = arrays(dtype)
    cells = [write(array) for array in want]
    table = pa.table({"x": pa.array(cells, pa.binary())})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=20)
    got = read(tmp_path, "x", fb.Tensor(dtype, SHAPE, **options))  # type: ignore[arg-type]
    assert got.dtype == want.dtype and got.flags.writeable
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", TYPES)
def test_lists_are_the_arrays_that_were_written(dtype: str, tmp_path: Path) -> None:
    want = arrays(dtype)
    item = pa.from_numpy_dtype(want.dtype)
    nested = pa.list_(pa.list_(pa.list_(item)))
    flat, deep = want.reshape(ROWS, -1).tolist(), want.tolist()
    if dtype == "float16":  # pyarrow takes no Python floats for it
        flat, deep = [list(row) for row in want.reshape(ROWS, -1)], [[list(map(list, b)) for b in a] for a in want]
    columns = {
        "flat": pa.array(flat, pa.list_(item)),
        "large": pa.array(flat, pa.large_list(item)),
        "fixed": pa.array(flat, pa.list_(item, 24)),
        "nested": pa.array(deep, nested),
        "mixed": pa.array(deep, pa.list_(pa.list_(pa.list_(item), 4))),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=20)
    for name in columns:
        got = read(tmp_path, name, fb.Tensor(dtype, SHAPE))  # type: ignore[arg-type]
        assert got.dtype == want.dtype
        np.testing.assert_array_equal(got, want, err_msg=name)


def test_one_block_and_cells_of_one_length_and_with_a_path(tmp_path: Path) -> None:
    want = arrays("int16")
    cells = [raw(array) for array in want]
    structs = pa.array(
        [{"bytes": cell, "path": None} for cell in cells], pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    )
    pq.write_table(pa.table({"fixed": pa.array(cells, pa.binary(48)), "struct": structs}), tmp_path / "a.parquet")
    for name in ("fixed", "struct"):
        np.testing.assert_array_equal(read(tmp_path, name, fb.Tensor("int16", SHAPE)), want)
    with pytest.raises(fb.InvalidError, match=r"cells of 48 bytes, and int16\[3\] takes 6"):
        read(tmp_path, "fixed", fb.Tensor("int16", 3))


def test_many_small_cells_are_each_in_their_row(tmp_path: Path) -> None:
    want = np.random.default_rng(1).integers(0, 1 << 60, (9_000, 2))
    bad = [17, 4_000, 8_191]
    cells = [b"" if row in bad else raw(value) for row, value in enumerate(want)]
    pq.write_table(pa.table({"x": cells, "id": range(len(cells))}), tmp_path / "a.parquet", row_group_size=1_000)
    with fb.Loader(
        tmp_path,
        decode={"x": fb.Tensor("int64", 2)},
        batch_size=5_000,
        shuffle=fb.Shuffle(seed=1),
        on_bad_row=fb.Skip(at_most=3),
    ) as loader:
        seen = []
        for batch in loader:
            np.testing.assert_array_equal(batch["x"], want[batch["id"]])
            seen += batch["id"].tolist()
    assert sorted(seen) == [row for row in range(len(cells)) if row not in bad]


def test_shuffled_and_cached_rows_are_the_same(tmp_path: Path) -> None:
    want = arrays("float32")
    lists = want.reshape(ROWS, -1).tolist()
    columns = {
        "id": pa.array(range(ROWS)),
        "raw": pa.array([raw(array) for array in want]),
        "npz": pa.array([npz(array) for array in want]),
        "flat": pa.array(lists, pa.list_(pa.float32())),
        "fixed": pa.array(lists, pa.list_(pa.float32(), 24)),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=9)
    tensor = fb.Tensor("float32", SHAPE)
    decode = {"raw": tensor, "flat": tensor, "fixed": tensor, "npz": fb.Tensor("float32", SHAPE, format="npz")}
    for cache in (None, fb.DiskCache(tmp_path / "cache", max_bytes="1g", tier="rows")):
        with fb.Loader(
            tmp_path / "a.parquet", decode=decode, batch_size=7, shuffle=fb.Shuffle(seed=3, window_rows=20), cache=cache
        ) as loader:
            for _ in range(3):
                seen = []
                for batch in loader:
                    for name in decode:
                        np.testing.assert_array_equal(batch[name], want[batch["id"]], err_msg=name)
                    seen += batch["id"].tolist()
                assert sorted(seen) == list(range(ROWS))


def test_a_bad_cell_says_its_place_and_both_lengths(tmp_path: Path) -> None:
    want = arrays("float32", (2, 3))
    cells: list[bytes | None] = [raw(array) for array in want]
    cells[23], cells[31], cells[40] = b"short", None, npy(want[40])
    lists: list[list[float | None] | None] = want.reshape(ROWS, -1).tolist()
    lists[23], lists[31], lists[40] = [1.0], None, [None] * 6
    table = pa.table(
        {"id": pa.array(range(ROWS)), "raw": pa.array(cells), "list": pa.array(lists, pa.list_(pa.float32()))}
    )
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=20)
    tensor = fb.Tensor("float32", (2, 3))
    said = {
        "raw": ("5 bytes where float32[2, 3] takes 24", "null where a tensor is needed", "152 bytes where"),
        "list": ("a list of 1 values where float32[2, 3] takes 6", "null where float32[2, 3] needs a value", "null"),
    }
    for column, messages in said.items():
        with pytest.raises(fb.BadRowError, match="row group 1, row 3") as raised:
            read(tmp_path, column, tensor)
        assert messages[0] in str(raised.value) and (raised.value.column, raised.value.row) == (column, 3)
        with fb.Loader(
            tmp_path, columns=["id", column], decode={column: tensor}, batch_size=9, on_bad_row=fb.Skip(at_most=3)
        ) as loader:
            good = 0
            for batch in loader:
                np.testing.assert_array_equal(batch[column], want[batch["id"]])
                good += batch.num_rows
            skipped = loader.skipped()
        assert good == ROWS - 3
        assert [(row.row_group, row.row) for row in skipped] == [(1, 3), (1, 11), (2, 0)]
        for row, message in zip(skipped, messages, strict=True):
            assert message in str(row), row


def test_a_file_of_another_array_is_a_bad_row(tmp_path: Path) -> None:
    file = npy(np.zeros((3, 2), np.float64))
    several = io.BytesIO()
    np.savez(several, a=np.zeros(3), b=np.zeros(3))
    damaged = bytearray(npz(np.arange(6, dtype=np.float64).reshape(2, 3)))
    damaged[70] ^= 0xFF
    for cell, tensor, said in (
        (file, fb.Tensor("float32", (3, 2), format="npy"), "float64[3, 2] where float32[3, 2]"),
        (file, fb.Tensor("float64", (2, 3), format="npy"), "float64[3, 2] where float64[2, 3]"),
        (file, fb.Tensor("float64", (3, 2), format="npz"), "not a .npz file"),
        (file[:-1], fb.Tensor("float64", (3, 2), format="npy"), "47 bytes of values where float64[3, 2] takes 48"),
        (npy(np.array(["a"])), fb.Tensor("float64", 1, format="npy"), "str[1] where float64[1] is wanted"),
        (npy(np.array([1j])), fb.Tensor("float64", 1, format="npy"), "not that of an array of numbers or text"),
        (several.getvalue(), fb.Tensor("float64", 3, format="npz"), "2 arrays"),
        (bytes(damaged), fb.Tensor("float64", (2, 3), format="npz"), "a .np"),
    ):
        pq.write_table(pa.table({"x": pa.array([cell])}), tmp_path / "a.parquet")
        with pytest.raises(fb.BadRowError) as raised:
            read(tmp_path, "x", tensor)
        assert said in str(raised.value)


def test_arrays_of_petastorm_are_those_that_numpy_reads(foreign: Path) -> None:
    folders = sorted((foreign / "petastorm-legacy").glob("*"))
    if not folders:
        pytest.skip("FOREBAY_TEST_DATA has no petastorm-legacy")
    for folder in folders:
        for column, dtype in (("matrix", "float32"), ("matrix_uint16", "uint16")):
            want = {}
            for file in folder.rglob("*.parquet"):
                stored = pq.ParquetFile(file).read(columns=["id", column]).to_pylist()
                want |= {row["id"]: np.load(io.BytesIO(row[column])) for row in stored}
            tensor = fb.Tensor(dtype, (32, 16, 3), format="npy")  # type: ignore[arg-type]
            seen = 0
            with fb.Loader(folder, columns=["id", column], decode={column: tensor}) as loader:
                for batch in loader:
                    for row, value in zip(batch["id"], batch[column], strict=True):
                        np.testing.assert_array_equal(value, want[row])
                        seen += 1
            assert seen == len(want) == 100


def test_a_tensor_is_a_small_frozen_value() -> None:
    tensor = fb.Tensor(np.float32, [3, np.int64(4)])  # type: ignore[arg-type]
    assert tensor == fb.Tensor("float32", (3, 4)) and hash(tensor) == hash(fb.Tensor("float32", (3, 4)))
    assert tensor != fb.Tensor("float32", (3, 4), format="npy")
    assert pickle.loads(pickle.dumps(tensor)) == copy.deepcopy(tensor) == tensor
    assert repr(tensor) == "forebay.Tensor('float32', (3, 4))"
    assert repr(fb.Tensor("int8", 5, format="npz")) == "forebay.Tensor('int8', (5,), format='npz')"
    for arguments, options, said in (
        (("float31", 3), {}, "dtype must be one of bool, "),
        (("complex64", 3), {}, "dtype must be one of"),
        ((None, 3), {}, "dtype must be one of"),
        ((">f4", 3), {}, "byte_order"),
        (("int8", ()), {}, "at least one side"),
        (("int8", (3, 0)), {}, "at least 1"),
        (("int8", "33"), {}, "tuple of int"),
        (("int8", 2.5), {}, "tuple of int"),
        (("int8", 3), {"format": "npx"}, "format must be 'raw', 'npy' or 'npz'"),
        (("int8", 3), {"byte_order": "native"}, "byte_order must be"),
        (("int8", 3), {"byte_order": "big", "format": "npy"}, "leave byte_order out"),
    ):
        with pytest.raises(fb.InvalidError, match=said):
            fb.Tensor(*arguments, **options)  # type: ignore[arg-type]


def test_a_loader_keeps_its_tensors(tmp_path: Path) -> None:
    want = arrays("uint8")
    table = pa.table({"x": pa.array([raw(array) for array in want]), "y": pa.array(range(ROWS))})
    pq.write_table(table, tmp_path / "a.parquet")
    decode = {"x": fb.Tensor("uint8", SHAPE)}
    with fb.Loader(tmp_path, decode=decode) as loader:
        assert loader.spec["decode"] == {}
        assert loader.spec["tensors"] == {
            "x": {"dtype": "uint8", "shape": list(SHAPE), "format": "raw", "byte_order": "little"}
        }
        assert "decode={'x': forebay.Tensor('uint8', (3, 4, 2))}" in repr(loader)
        again = pickle.loads(pickle.dumps(loader))
    with again:
        np.testing.assert_array_equal(next(iter(again))["x"], want[:32])
        assert again.spec["tensors"]
    sampled = fb.Dataset(tmp_path).sample(4, decode=decode)
    np.testing.assert_array_equal(sampled["x"], want[:4])
    np.testing.assert_array_equal(np.from_dlpack(sampled.column("x")), want[:4])
    with fb.Loader(tmp_path) as loader:
        assert "tensors" not in loader.spec
    for wrong, said in (
        ({"y": fb.Tensor("int64", 1)}, "holds int64, not tensors"),
        ({"x": "raw"}, "must be a forebay.Image, Views, Clip, Boxes, Keypoints, Mask, Masks, Tensor, Text, Json or None, got str"),
    ):
        with pytest.raises(fb.InvalidError, match=said):
            fb.Loader(tmp_path, decode=wrong)  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="fill_null value .* is not a value of type uint8"):
        fb.Loader(tmp_path, decode=decode, fill_null={"x": b""})
