"""Cuts batches of the loader into whole row groups, which Petastorm's readers deliver, and orders their
rows."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ..batch.ragged import Ragged
from ..dataset import Dataset
from ..errors import UnsupportedError

__all__: list[str] = []

Columns = dict[str, Any]

#: The column with the row ids: the numbers of the rows in stored order.
ROW_ID = "row_id"


class Numbered:
    """Counts row groups while their rows arrive batch by batch in stored order."""

    def __init__(self, dataset: Dataset) -> None:
        self.count = 0
        """The number of row groups so far."""
        self._dataset = dataset
        self._last: Any = None

    def of(self, ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        """Takes the row ids of the next batch, and returns for each row the number of its row group."""
        of_group = starts(ids, self._dataset)
        begins = np.append(self._last is None or of_group[0] != self._last, of_group[1:] != of_group[:-1])
        numbers = self.count - 1 + np.cumsum(begins)
        self.count, self._last = int(numbers[-1]) + 1, of_group[-1]
        return numbers


def groups(
    batches: Iterable[Columns],
    dataset: Dataset,
    order: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None,
    in_place: bool = False,
) -> Iterator[Columns]:
    """Yields each row group as one batch, in the order in which the row groups arrive.

    ``order`` takes the row ids of a row group, and returns the indexes of its rows in the wanted order. If
    ``order`` is None, rows stay in the order in which they arrive. With ``in_place``, the columns of
    ``batches`` may be overwritten, so the caller must not use them afterwards.
    """
    parts: list[Columns] = []
    at: int | None = None
    scratch = _Scratch() if in_place else None
    for batch in batches:
        for start, piece in _pieces(batch, dataset):
            if parts and start != at:
                yield _united(parts, order, scratch)
                parts = []
            at = start
            parts.append(piece)
    if parts:
        yield _united(parts, order, scratch)


def regular(batch: Columns) -> Columns:
    """Returns the batch with each column of equally long lists as one matrix, which is quick to cut and
    join."""
    return {name: matrix(column) if isinstance(column, Ragged) else column for name, column in batch.items()}


def filled_up(batches: Iterable[Columns], least: int) -> Iterator[Columns]:
    """Yields the batches, and then their first row once more if they have fewer than ``least`` rows. This one
    row suffices, because the shares of the processes differ by at most one row."""
    first: Columns | None = None
    rows = 0
    for batch in batches:
        if least and first is None and len(batch[ROW_ID]):
            # The row is copied, because the batch may be reordered in place.
            first = {name: taken(column, np.zeros(1, np.intp)) for name, column in batch.items()}
        rows += len(batch[ROW_ID])
        yield batch
    if first is not None and rows < least:
        yield first


def starts(ids: np.ndarray[Any, Any], dataset: Dataset) -> np.ndarray[Any, Any]:
    """Returns for each row id the id of the first row in the same row group."""
    if dataset._native.stores_row_ids():
        raise UnsupportedError(f"{dataset!r} stores ids of its rows: read it with fb.Loader")
    if len(ids):
        first, last = _start(dataset, int(ids.min())), _start(dataset, int(ids.max()))
        if first == last:
            return np.full(len(ids), first)
    ascending = np.argsort(ids)
    sorted_ids = ids[ascending]
    found = np.empty(len(ids), np.int64)
    waiting = [(0, len(ids))] if len(ids) else []
    while waiting:
        low, high = waiting.pop()
        first, last = _start(dataset, int(sorted_ids[low])), _start(dataset, int(sorted_ids[high - 1]))
        if first == last:
            # Both ends are in the same row group, whose ids are consecutive, so all ids between them are too.
            found[ascending[low:high]] = first
        else:
            middle = (low + high) // 2
            waiting += [(low, middle), (middle, high)]
    return found


def as_stored(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the indexes that bring the rows of a row group into stored order. If few ids are missing
    between the lowest and the highest, each index is put at its place without sorting."""
    least = int(ids.min())
    span = int(ids.max()) - least + 1
    if span <= 4 * len(ids):
        places = np.full(span, -1, np.int64)
        places[ids - least] = np.arange(len(ids))
        is_there = places >= 0
        order = places if is_there.all() else places[is_there]
        # If a row occurs twice, one of its indexes was overwritten, so the ids have to be sorted instead.
        if len(order) == len(ids):
            return order
    return np.argsort(ids, kind="stable")


def taken(column: Any, index: Any) -> Any:
    """Returns the rows of a column that ``index`` selects: an array of indexes, a mask or a slice."""
    if isinstance(column, Ragged):
        rows = list(column)
        return _objects([rows[at] for at in np.arange(len(rows))[index]])
    if isinstance(index, np.ndarray) and index.dtype != np.bool_:
        # `take` is many times faster than `column[index]` if each row has several values.
        return column.take(index, axis=0)
    return column[index]


def joined(columns: list[Any]) -> Any:
    """Joins columns end to end."""
    if len(columns) == 1:
        return columns[0]
    if any(isinstance(column, Ragged) or column.dtype == object for column in columns):
        return _objects([row for column in columns for row in column])
    return np.concatenate(columns)


def _pieces(batch: Columns, dataset: Dataset) -> Iterator[tuple[int, Columns]]:
    """Cuts a batch where the row group changes. Yields each piece with the id of the first row of its row
    group."""
    of_group = starts(batch[ROW_ID], dataset)
    if not len(of_group):
        return
    cuts = [0, *(np.flatnonzero(of_group[1:] != of_group[:-1]) + 1).tolist(), len(of_group)]
    if len(cuts) == 2:
        yield int(of_group[0]), batch
        return
    for low, high in itertools.pairwise(cuts):
        yield int(of_group[low]), {name: taken(column, slice(low, high)) for name, column in batch.items()}


class _Scratch:
    """A buffer that is used again for each column that is reordered, because allocating new memory costs more
    than copying."""

    def __init__(self) -> None:
        self._bytes = np.empty(0, np.uint8)

    def taken(self, column: Any, index: np.ndarray[Any, Any]) -> Any:
        """Returns the rows of a column in the order of ``index``, in the column's own memory if possible."""
        if not isinstance(column, np.ndarray) or column.dtype == object or not column.flags.writeable:
            return taken(column, index)
        if len(index) != len(column):
            return taken(column, index)
        if self._bytes.nbytes < column.nbytes:
            self._bytes = np.empty(column.nbytes, np.uint8)
        moved = self._bytes[: column.nbytes].view(column.dtype).reshape(column.shape)
        # With the mode "clip" numpy writes directly to `out`. It clips nothing, because all indexes are
        # valid.
        column[...] = column.take(index, axis=0, out=moved, mode="clip")
        return column


def _united(
    parts: list[Columns],
    order: Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None,
    scratch: _Scratch | None,
) -> Columns:
    group = {name: joined([part[name] for part in parts]) for name in parts[0]}
    if order is None:
        return group
    index = order(group[ROW_ID])
    if (index[1:] > index[:-1]).all():
        return group
    move = taken if scratch is None else scratch.taken
    return {name: move(column, index) for name, column in group.items()}


def _start(dataset: Dataset, row_id: int) -> int:
    place = dataset._native.row(row_id)
    assert place is not None
    return row_id - place[2]


def matrix(column: Ragged) -> Any:
    """Returns equally long lists as the rows of a matrix, and other lists unchanged."""
    lengths = column.lengths
    if isinstance(column.values, (dict, Ragged)) or not len(lengths) or (lengths != lengths[0]).any():
        return column
    return np.asarray(column)


def _objects(values: list[Any]) -> np.ndarray[Any, Any]:
    """Returns a one-dimensional array of these objects, even if they are arrays of one shape."""
    made = np.empty(len(values), object)
    for at, value in enumerate(values):
        made[at] = value
    return made
