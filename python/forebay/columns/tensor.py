"""The option for columns of tensors, stored as bytes, files of numpy or lists, and delivered as arrays of one
shape."""

from __future__ import annotations

import operator
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._forebay import TENSOR_FORMATS, TENSOR_TYPES
from ..errors import InvalidError
from ..options.checks import named, whole
from ..options.written import written

if TYPE_CHECKING:
    from ..choices import TensorFormat

__all__ = ["Tensor"]

_BYTE_ORDERS = ("little", "big")


@dataclass(frozen=True, repr=False)
class Tensor:
    """Decodes cells that hold tensors of one shape: a frozen value for ``decode=``.

    The column is delivered as a numpy array of shape ``(rows, *shape)``. It may be stored as binary, as
    ``struct<bytes, path>``, or as lists: one flat list of all numbers for each row, or lists nested as deep as the
    shape has dimensions. Nothing is cast: the type is that of the column or of the file. A cell of another
    length, shape or type makes its row a bad row. So does a null cell, or a null within a list, unless
    ``fill_null`` gives a number for it. With ``null_mask`` a second column says which rows are not null.

    Parameters
    ----------
    dtype : str or numpy.dtype
        The type of a value: ``"bool"``, ``"int8"`` to ``"int64"``, ``"uint8"`` to ``"uint64"``, or ``"float16"`` to
        ``"float64"``.
    shape : int or tuple of int
        The shape of one row: at least one dimension, each of at least 1.
    format : {"raw", "npy", "npz"}, default "raw"
        The format of a tensor in a cell of bytes; lists have no format.

        ``"raw"``
            Only the values, in row-major order.
        ``"npy"``
            A file of ``numpy.save``, as Petastorm's ``NdarrayCodec`` writes it, in either order of axes and bytes.
        ``"npz"``
            A file of ``numpy.savez`` or ``numpy.savez_compressed`` with one array, as Petastorm's
            ``CompressedNdarrayCodec`` writes it.
    byte_order : {"little", "big"}, default "little"
        The byte order of raw values. Files of numpy state it themselves.

    Raises
    ------
    InvalidError
        There is no such type, format or byte order, or a dimension is not an int of at least 1.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Tensor("float32", (3, 32, 32))
    forebay.Tensor('float32', (3, 32, 32))
    >>> fb.Tensor("uint16", 512, format="npy").shape
    (512,)
    """

    dtype: str
    """The type of a value, by its name in numpy."""
    shape: int | tuple[int, ...]
    """The shape of one row."""
    format: TensorFormat = field(default="raw", kw_only=True)
    """The format of a tensor in a cell of bytes."""
    byte_order: Literal["little", "big"] = field(default="little", kw_only=True)
    """The byte order of raw values."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "dtype", _stored_dtype(self.dtype))
        object.__setattr__(self, "shape", _shape(self.shape))
        named(self.format, "format", TENSOR_FORMATS)
        named(self.byte_order, "byte_order", _BYTE_ORDERS)
        if self.byte_order == "big" and self.format != "raw":
            raise InvalidError(
                f"byte_order='big', but files of format={self.format!r} have their own (leave byte_order out)"
            )

    def _spec(self) -> dict[str, Any]:
        """This object as JSON values, for the spec that the compiled library reads."""
        return {"dtype": self.dtype, "shape": self.shape, "format": self.format, "byte_order": self.byte_order}

    def __repr__(self) -> str:
        return written(self, self.dtype, self.shape)


def dtype_name(value: Any, argument: str) -> str:
    """The name of the numpy type ``value``, if it is a supported one; the error names ``argument``."""
    try:
        dtype = np.dtype(value)
    except TypeError:
        dtype = None
    if value is None or dtype is None or dtype.name not in TENSOR_TYPES:
        raise InvalidError(f"{argument} must be one of {', '.join(TENSOR_TYPES)}, got {value!r}")
    return str(dtype.name)


def _stored_dtype(value: Any) -> str:
    name = dtype_name(value, "dtype")
    if not np.dtype(value).isnative:
        raise InvalidError(f"dtype must be {name!r}, got {value!r} (raw values have a byte_order)")
    return name


def _shape(value: Any) -> tuple[int, ...]:
    try:
        sides: Iterable[Any] = (operator.index(value),)
    except TypeError:
        sides = value
    if isinstance(sides, (str, bytes)) or not isinstance(sides, Iterable):
        raise InvalidError(f"shape must be an int or a tuple of int, got {value!r}")
    shape = tuple(whole(side, "a side of shape", 1) for side in sides)
    if not shape:
        raise InvalidError("shape must have at least one side, got ()")
    return shape
