"""Columns whose rows differ in length or shape: lists, arrays and images."""

from __future__ import annotations

import itertools
import operator
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..errors import InvalidError
from ..options.checks import whole

__all__ = ["Arrays", "Images", "Ragged"]


class Ragged:
    """A column of lists of differing lengths: all items one after the other, and where each row begins.

    Row ``i`` is ``values[offsets[i]:offsets[i + 1]]``. All arrays share the batch's memory.
    ``torch.nn.EmbeddingBag`` and ``torch.nested`` take them as they are.

    Parameters
    ----------
    values : numpy.ndarray, Ragged or dict
        All items, row after row: an array of shape ``(items, ...)``, for lists of lists another
        :class:`Ragged`, for lists of structures a dict from each field to its array or :class:`Ragged`.
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

    __slots__ = {  # noqa: RUF023  help() shows these texts
        "values": "All items, row after row: an array, a Ragged or a dict of them.",
        "offsets": "Where each row begins, and where the last one ends, of shape ``(rows + 1,)``.",
    }

    values: Any
    """All items, row after row: an array of shape ``(items, ...)``, a :class:`Ragged` or a dict of them."""
    offsets: np.ndarray[Any, Any]
    """Where each row begins, and where the last one ends, of shape ``(rows + 1,)``."""

    def __init__(self, values: Any, offsets: np.ndarray[Any, Any]) -> None:
        self.values = values
        self.offsets = offsets

    @property
    def lengths(self) -> np.ndarray[Any, Any]:
        """Items in each row, as an integer array of shape ``(rows,)``."""
        return np.diff(self.offsets)

    @property
    def dtype(self) -> np.dtype[Any]:
        """The type of an item.

        Raises
        ------
        AttributeError
            The items are structures, which have a type for each field.
        """
        if isinstance(self.values, dict):
            raise AttributeError(f"structures have a type for each field (see .values[{next(iter(self.values))!r}])")
        dtype: np.dtype[Any] = self.values.dtype
        return dtype

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int | slice) -> Any:
        rows = len(self)
        if isinstance(row, slice):
            start, stop, step = row.indices(rows)
            if step != 1:
                raise InvalidError(f"rows are cut one after the other, not in steps of {step} (take them one by one)")
            return Ragged(self.values, self.offsets[start : max(start, stop) + 1])
        try:
            row = operator.index(row)
        except TypeError:
            raise InvalidError(
                f"a row is an int or a slice, got {type(row).__name__} "
                "(take rows one by one, or make a matrix with .padded())"
            ) from None
        at = row + rows if row < 0 else row
        if not 0 <= at < rows:
            raise IndexError(f"row {row} is out of range for {rows} rows")
        return _cut(self.values, self.offsets[at], self.offsets[at + 1])

    def __iter__(self) -> Iterator[Any]:
        return (self[row] for row in range(len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
        """The rows as a matrix, without a copy, if all have the same length."""
        if isinstance(self.values, dict):
            raise InvalidError("lists of structures do not form an array (take a field: .values[...])")
        lengths = self.lengths
        length = int(lengths[0]) if len(lengths) else 0
        if (lengths != length).any():
            raise InvalidError(
                f"rows of {lengths.min()} to {lengths.max()} items do not form a matrix (use .padded(fill=0))"
            )
        items = np.asarray(self._items())
        matrix = items.reshape(len(self), length, *items.shape[1:])
        if dtype is not None:
            matrix = matrix.astype(dtype, copy=False)
        return matrix.copy() if copy else matrix

    def tolist(self) -> list[Any]:
        """The rows as lists of Python objects; structures are dicts.

        Returns
        -------
        list
            A list for each row.

        Examples
        --------
        >>> import forebay as fb
        >>> import numpy as np
        >>> fb.Ragged({"x": np.array([1, 2, 3])}, np.array([0, 2, 3])).tolist()
        [[{'x': 1}, {'x': 2}], [{'x': 3}]]
        """
        items = _objects(self.values)
        return [items[start:end] for start, end in itertools.pairwise(self.offsets.tolist())]

    def padded(self, fill: Any = 0, length: int | None = None) -> Any:
        """The rows as a new matrix, filled up with ``fill``.

        Lists of lists are filled up at each level, and structures in each field.

        Parameters
        ----------
        fill : scalar, default 0
            Value after the end of a row. The type of the items must be able to hold it; integers cannot hold
            a fraction.
        length : int, optional
            Columns of the matrix; longer rows are cut off. Default: as many as the longest row has.

        Returns
        -------
        numpy.ndarray or dict
            A new array of shape ``(rows, length, ...)`` and the type of the items; for structures a dict of
            such arrays.

        Raises
        ------
        InvalidError
            The type of the items cannot hold ``fill``, or ``length`` is not an int of at least 0.

        Examples
        --------
        >>> import forebay as fb
        >>> import numpy as np
        >>> fb.Ragged(np.array([1, 2, 3]), np.array([0, 2, 3])).padded(fill=-1, length=3)
        array([[ 1,  2, -1],
               [ 3, -1, -1]])
        """
        if isinstance(self.values, dict):
            return {name: Ragged(items, self.offsets).padded(fill, length) for name, items in self.values.items()}
        items = self._items()
        items = items.padded(fill) if isinstance(items, Ragged) else items
        lengths = self.lengths
        if length is None:
            length = int(lengths.max()) if len(lengths) else 0
        length = whole(length, "length", 0)
        matrix = np.full((len(self), length, *items.shape[1:]), _item(fill, items.dtype), dtype=items.dtype)
        kept = np.minimum(lengths, length)
        within = np.arange(length) < kept[:, None]
        # Row by row, `matrix` has the kept items in the same order as `items`, so one assignment copies all.
        item = np.arange(len(items)) - np.repeat(self.offsets[:-1] - self.offsets[0], lengths)
        matrix[within] = items[item < length]
        return matrix

    def _items(self) -> Any:
        """The items of these rows only. If this object is a slice, ``values`` also has the items of other
        rows."""
        return _cut(self.values, self.offsets[0], self.offsets[-1])

    def __repr__(self) -> str:
        return (
            f"<forebay.Ragged of {len(self)} rows, {self.offsets[-1] - self.offsets[0]} items of {_kind(self.values)}>"
        )


class Arrays(Ragged):
    """Arrays whose shape differs from row to row: a :class:`Ragged` that returns each row as an array.

    The sides of an array are its dimensions. Row ``i`` is a view over the batch's memory. ``padded()``
    returns a new array that is as long on each side as the longest row. If a row has a side of length 0, the
    lengths of its inner sides are not stored. Such an inner side gets length 0 if its length differs between
    rows, and its fixed length otherwise.

    Parameters
    ----------
    values : numpy.ndarray or Ragged
        The items of all rows along their first side.
    offsets : numpy.ndarray
        Where each row begins in the items, and where the last one ends: ``int64`` of shape ``(rows + 1,)``.

    Examples
    --------
    >>> import numpy as np
    >>> from forebay.batch.ragged import Arrays, Ragged
    >>> rows = Arrays(Ragged(np.arange(8), np.array([0, 3, 6, 8])), np.array([0, 2, 3]))
    >>> [row.shape for row in rows]
    [(2, 3), (1, 2)]
    >>> rows.padded().shape
    (2, 2, 3)
    """

    __slots__ = ("_sides",)

    def __init__(self, values: Any, offsets: np.ndarray[Any, Any]) -> None:
        super().__init__(values, offsets)
        self._sides: tuple[int | None, ...] = ()

    def __getitem__(self, row: int | slice) -> Any:
        rows = super().__getitem__(row)
        if not isinstance(row, slice):
            return self._complete(np.asarray(rows), self._sides)
        cut = type(self)(rows.values, rows.offsets)
        cut._sides = self._sides
        return cut

    def padded(self, fill: Any = 0, length: int | None = None) -> Any:
        """The rows as a new array, filled up with ``fill``, as :meth:`Ragged.padded` does.

        Parameters
        ----------
        fill : scalar, default 0
            Value after the end of a row.
        length : int, optional
            Length of the first side; longer rows are cut off. Default: that of the longest row.

        Returns
        -------
        numpy.ndarray
            With a dimension for the rows, and one for each side.
        """
        return self._complete(super().padded(fill, length), (None, *self._sides))

    def _with_sides(self, sides: tuple[int | None, ...]) -> Arrays:
        """Sets the length of each side (dimension) of a row, with None for a side that differs between rows.
        Returns this object.

        The sides after the last None become dimensions of the items' array, unless they are stored as lists.
        """
        differing = max((at for at, side in enumerate(sides) if side is None), default=-1)
        fixed = tuple(side for side in sides[differing + 1 :] if side is not None)
        if len(fixed) > 1 and not self._is_nested(len(sides)):
            self.values = _shaped(self.values, fixed)
        self._sides = sides
        return self

    def _is_nested(self, depth: int) -> bool:
        """Whether the rows are lists nested as deep as they have sides (dimensions)."""
        items = self.values
        for _ in range(depth - 1):
            if not isinstance(items, Ragged):
                return False
            items = items.values
        return True

    @staticmethod
    def _complete(array: np.ndarray[Any, Any], sides: tuple[int | None, ...]) -> np.ndarray[Any, Any]:
        """Returns ``array``. If it has no values, it is reshaped to the known lengths of its sides, because
        empty lists do not contain the lengths of inner sides."""
        if array.size or len(sides) != array.ndim:
            return array
        shape = [found if side is None else side for found, side in zip(array.shape, sides, strict=True)]
        # If no side has length 0, the row is a null. It has no values, so it cannot be reshaped to the sides.
        return array if all(shape) else array.reshape(shape)

    def __repr__(self) -> str:
        return f"<forebay.Arrays: {len(self)} arrays of {self.dtype}>"


class Images(Arrays):
    """Images of differing sizes: a :class:`Ragged` of rows of pixels that returns each image as an array.

    Image ``i`` is a view of shape ``(height, width, channels)`` over the batch's memory. ``values.values``
    are the pixels of all images, of shape ``(pixels, channels)``. ``padded()`` is a new array with the
    largest height and width of the images.

    Parameters
    ----------
    values : Ragged
        The rows of pixels of all images.
    offsets : numpy.ndarray
        Where each image begins among the rows, and where the last one ends: ``int64`` of shape ``(images +
        1,)``.

    Examples
    --------
    >>> import numpy as np
    >>> from forebay.batch.ragged import Images, Ragged
    >>> pixels = np.arange(24, dtype=np.uint8).reshape(8, 3)
    >>> images = Images(Ragged(pixels, np.array([0, 3, 6, 8])), np.array([0, 2, 3]))
    >>> [image.shape for image in images]
    [(2, 3, 3), (1, 2, 3)]
    >>> images.padded().shape
    (2, 2, 3, 3)
    """

    __slots__ = ()

    def __repr__(self) -> str:
        pixels = self.values._items()
        return f"<forebay.Images: {len(self)} images, {len(pixels)} pixels of {pixels.shape[1]} x {pixels.dtype}>"


def _shaped(items: Any, sides: tuple[int, ...]) -> Any:
    if isinstance(items, Ragged):
        return Ragged(_shaped(items.values, sides), items.offsets)
    return items.reshape(-1, *sides)


def _cut(items: Any, start: int, end: int) -> Any:
    """The items from ``start`` up to but not including ``end``, without a copy."""
    if isinstance(items, dict):
        return {name: _cut(field, start, end) for name, field in items.items()}
    if isinstance(items, Ragged):
        return Ragged(items.values, items.offsets[start : end + 1])
    return items[start:end]


def _item(fill: Any, dtype: np.dtype[Any]) -> Any:
    """``fill`` as an item of type ``dtype``. Only the rounding of floats may change its value."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            item = np.full((), fill, dtype=dtype)[()]
            if dtype.kind in "biu":
                is_same = bool(item == fill)
            else:
                is_same = dtype.kind != "f" or bool(np.isfinite(item)) or not np.isfinite(fill)
    except (TypeError, ValueError, OverflowError):
        is_same = False
    if not is_same:
        raise InvalidError(f"lists of {dtype} cannot be padded with {fill!r} (give a value that such items can have)")
    return item


def _objects(items: Any) -> list[Any]:
    """The items as Python objects."""
    if isinstance(items, dict):
        names, fields = list(items), [_objects(field) for field in items.values()]
        return [dict(zip(names, values, strict=True)) for values in zip(*fields, strict=True)]
    objects: list[Any] = items.tolist()
    return objects


def _kind(items: Any) -> str:
    """The type of the items in words."""
    if isinstance(items, dict):
        return f"structures of {', '.join(items)}"
    return "lists" if isinstance(items, Ragged) else str(items.dtype)
