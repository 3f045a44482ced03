"""Rows of differing lengths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .errors import InvalidError

__all__ = ["Ragged"]


class Ragged:
    """A column of lists: all items one after the other, and where each row begins.

    ``values`` and ``offsets`` are numpy arrays over the batch's own memory; row ``i`` is
    ``values[offsets[i]:offsets[i + 1]]``. ``torch.nn.EmbeddingBag`` and ``torch.nested`` take them as they are.
    """

    __slots__ = ("offsets", "values")

    #: All items, row after row.
    values: np.ndarray[Any, Any]
    #: Where each row begins, and where the last one ends: one more than there are rows.
    offsets: np.ndarray[Any, Any]

    def __init__(self, values: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any]) -> None:
        self.values = values
        self.offsets = offsets

    @property
    def lengths(self) -> np.ndarray[Any, Any]:
        """Items in each row."""
        return np.diff(self.offsets)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an item."""
        dtype: np.dtype[Any] = self.values.dtype
        return dtype

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray[Any, Any]:
        rows = len(self)
        at = row + rows if row < 0 else row
        if not 0 <= at < rows:
            raise IndexError(f"row {row} of {rows}")
        return self.values[self.offsets[at] : self.offsets[at + 1]]

    def __iter__(self) -> Iterator[np.ndarray[Any, Any]]:
        return (self[row] for row in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """The rows as a matrix, without a copy, if they are all equally long."""
        lengths = self.lengths
        length = int(lengths[0]) if len(lengths) else 0
        if (lengths != length).any():
            raise InvalidError(f"rows of {lengths.min()} to {lengths.max()} items make no matrix (use .padded(fill=0))")
        matrix = self.values.reshape(len(self), length)
        if dtype is not None:
            matrix = matrix.astype(dtype, copy=False)
        return matrix.copy() if copy else matrix

    def padded(self, fill: Any = 0, length: int | None = None) -> np.ndarray[Any, Any]:
        """The rows as a new matrix, filled up with ``fill``.

        Args:
            fill: What stands where a row has ended.
            length: Columns of the matrix; longer rows are cut off. Default: as many as the longest row has.
        """
        lengths = self.lengths
        if length is None:
            length = int(lengths.max()) if len(lengths) else 0
        matrix = np.full((len(self), length), fill, dtype=self.values.dtype)
        kept = np.minimum(lengths, length)
        within = np.arange(length) < kept[:, None]
        # Row by row and item by item, the kept items stand in `values` in the same order as in `matrix`.
        item = np.arange(len(self.values)) - np.repeat(self.offsets[:-1], lengths)
        matrix[within] = self.values[item < length]
        return matrix

    def __repr__(self) -> str:
        return f"<forebay.Ragged of {len(self)} rows, {len(self.values)} items of {self.values.dtype}>"
