"""Rows of differing lengths."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from .errors import InvalidError

__all__ = ["Ragged"]


class Ragged:
    """A column of lists of differing lengths: all items one after the other, and where each row begins.

    Row ``i`` is ``values[offsets[i]:offsets[i + 1]]``. Both arrays share the batch's memory.
    ``torch.nn.EmbeddingBag`` and ``torch.nested`` take them as they are.

    Parameters
    ----------
    values : numpy.ndarray
        All items, row after row, of shape ``(items,)``.
    offsets : numpy.ndarray
        Where each row begins, and where the last one ends: ``int64`` of shape ``(rows + 1,)``.

    Examples
    --------
    >>> import forebay as fb
    >>> import numpy as np
    >>> words = fb.Ragged(np.array([1, 2, 3]), np.array([0, 2, 2, 3]))
    >>> words
    <forebay.Ragged of 3 rows, 3 items of int64>
    >>> words.padded(fill=0)
    array([[1, 2],
           [0, 0],
           [3, 0]])
    """

    __slots__ = {  # noqa: RUF023  with what help() shows
        "values": "All items, row after row, of shape ``(items,)``.",
        "offsets": "Where each row begins, and where the last one ends, of shape ``(rows + 1,)``.",
    }

    values: np.ndarray[Any, Any]
    """All items, row after row, of shape ``(items,)``."""
    offsets: np.ndarray[Any, Any]
    """Where each row begins, and where the last one ends, of shape ``(rows + 1,)``."""

    def __init__(self, values: np.ndarray[Any, Any], offsets: np.ndarray[Any, Any]) -> None:
        self.values = values
        self.offsets = offsets

    @property
    def lengths(self) -> np.ndarray[Any, Any]:
        """Items in each row, as an integer array of shape ``(rows,)``."""
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
            raise IndexError(f"row {row} is out of range for {rows} rows")
        return self.values[self.offsets[at] : self.offsets[at + 1]]

    def __iter__(self) -> Iterator[np.ndarray[Any, Any]]:
        return (self[row] for row in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """The rows as a matrix, without a copy, if all have the same length."""
        lengths = self.lengths
        length = int(lengths[0]) if len(lengths) else 0
        if (lengths != length).any():
            raise InvalidError(
                f"rows of {lengths.min()} to {lengths.max()} items do not form a matrix (use .padded(fill=0))"
            )
        matrix = self.values.reshape(len(self), length)
        if dtype is not None:
            matrix = matrix.astype(dtype, copy=False)
        return matrix.copy() if copy else matrix

    def padded(self, fill: Any = 0, length: int | None = None) -> np.ndarray[Any, Any]:
        """The rows as a new matrix, filled up with ``fill``.

        Parameters
        ----------
        fill : scalar, default 0
            Value after the end of a row.
        length : int, optional
            Columns of the matrix; longer rows are cut off. Default: as many as the longest row has.

        Returns
        -------
        numpy.ndarray
            A new array of shape ``(rows, length)`` and the type of the items.

        Examples
        --------
        >>> import forebay as fb
        >>> import numpy as np
        >>> fb.Ragged(np.array([1, 2, 3]), np.array([0, 2, 3])).padded(fill=-1, length=3)
        array([[ 1,  2, -1],
               [ 3, -1, -1]])
        """
        lengths = self.lengths
        if length is None:
            length = int(lengths.max()) if len(lengths) else 0
        matrix = np.full((len(self), length), fill, dtype=self.values.dtype)
        kept = np.minimum(lengths, length)
        within = np.arange(length) < kept[:, None]
        # Row by row and item by item, the kept items are in the same order in `values` and in `matrix`.
        item = np.arange(len(self.values)) - np.repeat(self.offsets[:-1], lengths)
        matrix[within] = self.values[item < length]
        return matrix

    def __repr__(self) -> str:
        return f"<forebay.Ragged of {len(self)} rows, {len(self.values)} items of {self.values.dtype}>"
