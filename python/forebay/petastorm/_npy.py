"""Reads numpy files that are stored as binary values. Unlike :class:`forebay.Tensor`, it reads arrays of any
shape and arrays of text."""

from __future__ import annotations

import io
from functools import lru_cache
from typing import Any

import numpy as np

__all__: list[str] = []

_MAGIC = b"\x93NUMPY"
#: For each version of the npy format, the offset of the header's length and the offset of the header itself.
_BEGINNINGS = {1: (8, 10), 2: (8, 12), 3: (8, 12)}
#: The largest number of parsed headers in a cache. The arrays of one column have few different headers.
_HEADERS = 1024


def array(cell: bytes) -> np.ndarray[Any, Any]:
    """Returns the array of a ``numpy.save`` file. Objects are never unpickled."""
    at = _BEGINNINGS.get(cell[6]) if cell[:6] == _MAGIC and len(cell) > 12 else None
    if at is None:
        return _loaded(cell)
    start = at[1] + int.from_bytes(cell[at[0] : at[1]], "little")
    dtype, shape, count, order = _header(cell[:start])
    if len(cell) - start != count * dtype.itemsize or dtype.itemsize == 0:
        return _loaded(cell)
    values = np.frombuffer(cell, dtype, count, start)
    # The array is copied because the bytes of a cell are read-only.
    return values.reshape(shape, order=order).copy(order="K")


def archived(cell: bytes) -> np.ndarray[Any, Any]:
    """Returns the array with the name ``arr`` in a ``numpy.savez`` file."""
    with np.load(io.BytesIO(cell), allow_pickle=False) as file:
        found: np.ndarray[Any, Any] = file["arr"]
    return found


def _loaded(cell: bytes) -> np.ndarray[Any, Any]:
    found: np.ndarray[Any, Any] = np.load(io.BytesIO(cell), allow_pickle=False)
    return found


@lru_cache(_HEADERS)
def _header(beginning: bytes) -> tuple[np.dtype[Any], tuple[int, ...], int, Any]:
    file = io.BytesIO(beginning)
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, is_fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("the array holds objects, which are never unpickled")
    return dtype, shape, int(np.prod(shape, dtype=np.int64)), "F" if is_fortran else "C"
