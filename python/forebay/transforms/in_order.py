"""Delivers the batches that the user's functions made in the order of the epoch, and puts a row into batches
whose rows were all rejected."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from .. import _forebay
from ..errors import BadRowError
from .ahead import Ahead, Made
from .functions import Functions
from .rejected import taken, uncounted
from .several import Several

__all__: list[str] = []


class InOrder:
    """Gives the training loop the batches that the user's functions made.

    Rejected rows are counted in the order of the epoch, and no batch is empty: a batch without rows gets the
    first row of the next batch that has rows or, if none follows, the first row of the epoch that the functions keep.
    ``read_again`` reads the epoch from its first row, to find that row if the epoch was resumed after it.
    """

    def __init__(
        self,
        native: _forebay.Epoch,
        source: Ahead | Several,
        functions: Functions,
        read_again: Callable[[], Ahead | Several],
    ) -> None:
        self._native = native
        self._source = source
        self._read_again = read_again
        self._refill = functions.refill
        self._rejects = functions.by_rows
        self._counts = False
        self._ready: deque[Made] = deque()
        self._first: dict[str, Any] | None = None

    def pull(self) -> Made | None:
        """Waits for the next batch, and returns it; ``None`` after the last batch."""
        if self._ready:
            return self._ready.popleft()
        empty: list[Made] = []
        while (made := self._source.pull()) is not None:
            rejected, stand_ins, has_rows = made.outcome
            self._counts = self._counts or bool(rejected)
            if self._counts:
                made = made._replace(step=self._native.settle(made.step, rejected))
            if stand_ins:
                self._native.repeats(stand_ins)
            if not has_rows:
                empty.append(made)
                continue
            if empty:
                first = _repeated(made.batch, 1)
                self._ready.extend(self._filled(one, first) for one in empty)
            if self._first is None and self._rejects and self._native.is_whole:
                self._first = _repeated(made.batch, 1)
            self._ready.append(made)
            return self._ready.popleft()
        if empty:
            first = self._first_of_epoch()
            self._ready.extend(self._filled(one, first) for one in empty)
        return self._ready.popleft() if self._ready else None

    def _first_of_epoch(self) -> dict[str, Any]:
        """The first row of the epoch that the functions keep."""
        if self._first is None and not self._native.is_whole:
            over, self._source = self._source, self._read_again()
            try:
                while self._first is None and (made := self._source.pull()) is not None:
                    if made.outcome.has_rows:
                        self._first = _repeated(made.batch, 1)
            finally:
                self._source.close()
                self._source = over
        if self._first is None:
            raise self._rejected_all()
        return self._first

    def _rejected_all(self) -> BadRowError:
        """The error for an epoch of which this rank has no row left, with the place of the first bad one."""
        said = f"the functions rejected all rows of this rank in epoch {self._native.number}"
        rows = self._native.skipped.rows()
        if not rows:
            return BadRowError(f"{said} (reject fewer rows)")
        file, row_group, row, column, cause, _ = rows[0]
        place = [file, None if row_group is None else f"row group {row_group}", None if row is None else f"row {row}"]
        at = ", ".join(part for part in place if part is not None)
        message = f"{at}: {said}, the first because: {cause} (reject fewer rows)"
        return BadRowError(message, file=file, row_group=row_group, row=row, column=column)

    def close(self) -> None:
        """Ends the thread or workers that make the batches."""
        self._source.close()

    def _filled(self, made: Made, row: dict[str, Any]) -> Made:
        count = len(made.outcome.rejected) if self._refill else 1
        self._native.repeats(count)
        return made._replace(batch=uncounted(_repeated(row, count)))


def _repeated(batch: Mapping[str, Any], count: int) -> dict[str, Any]:
    """Makes a batch that has the first row of ``batch`` ``count`` times, in new memory. Values that belong to
    the whole batch are not changed."""
    return {name: _of_value(value, count) for name, value in batch.items()}


def _of_value(value: Any, count: int) -> Any:
    if isinstance(value, Mapping):
        return _repeated(value, count)
    lists = taken(value, [0] * count)
    if lists is not None:
        return lists
    if getattr(value, "shape", None) is not None:
        return value[np.zeros(count, np.int64)]
    if isinstance(value, (str, bytes)) or not hasattr(value, "__len__"):
        return value
    return type(value)([value[0]] * count) if isinstance(value, (list, tuple)) else value[:1]
