"""Decides for each field of a Petastorm schema whether the loader decodes its values, or Python code does so
one by one."""

from __future__ import annotations

import decimal
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from .._forebay import TENSOR_TYPES
from ..columns.tensor import Tensor
from ..errors import InvalidError
from . import _images
from ._inferred import is_list
from ._stored import AS_STORED, Stored
from .codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
from .errors import DecodeFieldError
from .unischema import Unischema, UnischemaField, type_name

__all__: list[str] = []


@dataclass
class Reading:
    """The arguments of a loader that say how columns are read."""

    columns: list[str] = field(default_factory=list)
    decode: dict[str, Any] = field(default_factory=lambda: dict(AS_STORED))
    null_mask: list[str] = field(default_factory=list)
    fill_null: dict[str, float] = field(default_factory=dict)

    def options(self) -> dict[str, Any]:
        """Returns the arguments as keywords of a loader."""
        return dict(vars(self))


@dataclass(frozen=True)
class Values:
    """Makes the values of a field that a reader delivers, from the field's column in a batch of the
    loader."""

    field: UnischemaField
    make: Callable[[UnischemaField, Any], Iterable[Any]]

    def of(self, batch: Mapping[str, Any]) -> list[Any]:
        """Returns the field's values in a batch; a null is None, or NaN in a field of floats."""
        column, mask = batch[self.field.name], batch.get(f"{self.field.name}.mask")
        geometry = batch.get(f"{self.field.name}.geometry")
        if geometry is not None:
            column = _of_their_size(self.field, column, geometry, mask)
        made = list(self.make(self.field, column))
        if mask is not None and not mask.all():
            # As in pandas, a null is NaN in a field of floats, and None in other fields.
            absent = self.field.numpy_dtype(np.nan) if self.make is _scalars and column.dtype.kind == "f" else None
            for at in np.flatnonzero(~mask):
                made[at] = absent
        return made


def readings(stored: Stored, schema: Unischema) -> tuple[Reading, list[Values]]:
    """Returns the loader's arguments for reading the fields of a schema, and for each field the object that
    makes its values from a batch."""
    reading, values = Reading(), []
    for one in schema.fields.values():
        if one.name not in stored.types:
            raise InvalidError(
                f"the schema has a field {one.name!r}, and the files have no such column (leave it out "
                "with schema_fields=, or write the data set again)"
            )
        reading.columns.append(one.name)
        values.append(Values(one, _maker(one, stored.types[one.name], reading)))
    return reading, values


def _maker(one: UnischemaField, kind: Any, reading: Reading) -> Callable[[UnischemaField, Any], Iterable[Any]]:
    """Adds to ``reading`` how the loader reads a field, and returns the function that makes the field's
    values from the column that was read."""
    if type(one.codec) in (NdarrayCodec, CompressedNdarrayCodec):
        if not _is_tensor(one):
            return _by_codec
        file: Any = "npy" if type(one.codec) is NdarrayCodec else "npz"
        reading.decode[one.name] = Tensor(type_name(one.numpy_dtype), one.shape, format=file)
        reading.null_mask.append(one.name)
        return _arrays
    if type(one.codec) is CompressedImageCodec:
        if not _is_image(one):
            return _by_codec
        bits = 16 if np.dtype(one.numpy_dtype) == np.uint16 else 8
        image = _images.wanted(one.shape[0], one.shape[1], len(one.shape) == 2, bits)
        reading.decode[one.name] = image.emit_geometry()
        reading.null_mask.append(one.name)
        return _arrays
    if one.codec is not None and type(one.codec) is not ScalarCodec:
        return _by_codec
    if is_list(kind):
        return _lists
    if is_masked(kind):
        reading.null_mask.append(one.name)
    return _scalars


def _is_tensor(one: UnischemaField) -> bool:
    """Whether the loader itself can decode the arrays of this field: they must hold numbers, and the schema
    must give every side of their shape."""
    sides = bool(one.shape) and all(isinstance(side, (int, np.integer)) and side > 0 for side in one.shape)
    return sides and type_name(one.numpy_dtype) in TENSOR_TYPES


def _is_image(one: UnischemaField) -> bool:
    """Whether the loader itself can decode the images of this field: the schema must give their height and
    width, and they must be grey or have three channels."""
    if type_name(one.numpy_dtype) not in ("uint8", "uint16") or not one.shape or not all(one.shape):
        return False
    return len(one.shape) == 2 or (len(one.shape) == 3 and one.shape[2] == 3)


def _of_their_size(one: UnischemaField, column: Any, geometry: Any, mask: Any) -> Any:
    """Returns images after checking that each is stored in the size that the schema gives. The loader would
    have stretched an image of another size."""
    stored = geometry[mask, 6:8] if mask is not None else geometry[:, 6:8]
    others = np.flatnonzero((stored != one.shape[:2]).any(axis=1))
    if len(others):
        height, width = stored[others[0]].astype(int).tolist()
        raise DecodeFieldError(
            f'Decoding field "{one.name}" failed: an image is stored in {height} x {width} pixels, and the schema says '
            f"{one.shape} (a schema with None in place of the sides takes images of any size)"
        )
    return column[..., 0] if len(one.shape) == 2 else column


def _arrays(one: UnischemaField, column: Any) -> Iterable[Any]:
    return list(column)


def _by_codec(one: UnischemaField, column: Any) -> Iterable[Any]:
    """Returns the values of a column, which the field's codec decodes one by one."""
    if isinstance(column, np.ndarray) and column.ndim == 2:
        column = _cells(column)
    return (None if cell is None else _decoded(one, cell) for cell in column)


def _decoded(one: UnischemaField, cell: Any) -> Any:
    try:
        return one.codec.decode(one, cell)
    except Exception as error:
        raise DecodeFieldError(f'Decoding field "{one.name}" failed: {error}') from error


def _lists(one: UnischemaField, column: Any) -> Iterable[Any]:
    numeric = isinstance(one.numpy_dtype, type) and issubclass(one.numpy_dtype, (np.number, np.bool_))
    for row in column:
        yield np.asarray(row).astype(one.numpy_dtype) if numeric else np.asarray(row)


def _scalars(one: UnischemaField, column: Any) -> Iterable[Any]:
    dtype = one.numpy_dtype
    if column.dtype.kind in "mM":
        return _times(one, column)
    if isinstance(dtype, np.dtype):
        dtype = dtype.type
    if column.ndim == 2:
        column = _cells(column)
    if isinstance(dtype, type) and issubclass(dtype, (np.number, np.bool_)) and column.dtype != object:
        return list(column.astype(dtype))
    if dtype is np.bytes_:
        return (None if cell is None else _bytes(cell) for cell in column)
    if dtype is np.str_ and column.dtype == object:
        return (None if cell is None else np.str_(cell) for cell in column)
    cells = column.tolist()
    if one.codec is None and not (isinstance(dtype, type) and issubclass(dtype, (np.generic, decimal.Decimal))):
        return list(cells)
    return (None if cell is None else _made(one, dtype, cell) for cell in cells)


def _made(one: UnischemaField, dtype: Any, cell: Any) -> Any:
    try:
        return dtype(cell)
    except Exception as error:
        raise DecodeFieldError(f'Decoding field "{one.name}" failed: {error}') from error


def _times(one: UnischemaField, column: Any) -> Iterable[Any]:
    """Returns the values of a column of dates or times; times are in microseconds."""
    if column.dtype.kind == "M" and np.datetime_data(column.dtype)[0] != "D":
        column = column.astype("datetime64[us]")
    if one.numpy_dtype is np.datetime64:
        return list(column)
    return (_made(one, one.numpy_dtype, at) for at in column.tolist())


def _bytes(cell: Any) -> np.bytes_:
    return np.bytes_(cell.encode() if isinstance(cell, str) else cell)


def _cells(column: Any) -> list[bytes]:
    """Returns the rows of a matrix of bytes as a list of values. The loader delivers binary values of fixed
    length as such a matrix."""
    return [row.tobytes() for row in column]


def is_masked(kind: Any) -> bool:
    """Whether the loader can deliver a mask of nulls for a column of this Arrow type."""
    name = str(kind)
    text = ("string", "large_string", "binary", "large_binary", "decimal", "list<", "large_list<", "struct<", "map<")
    return not name.startswith(text)
