"""Rows that the user's functions reject: left out of their batch, or replaced; and batches of which none is left."""

from __future__ import annotations

import bisect
from collections import deque
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from .. import _forebay
from ..errors import BadRow, BadRowError, InvalidError
from ..ragged import Ragged

if TYPE_CHECKING:
    from .ahead import Ahead, Made
    from .functions import Functions
    from .several import Several

__all__: list[str] = []

#: The column that says which rows count.
ROW_MASK = "row_mask"


class Outcome(NamedTuple):
    """Which rows of a batch functions rejected."""

    rejected: list[tuple[int, str]] = []
    """Their ordinals in the batch, and why."""
    stand_ins: int = 0
    """Rows that take their place."""
    has_rows: bool = True
    """Whether any are left."""


class Kept:
    """The rows of a batch that were not rejected."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], refill: bool) -> None:
        #: What was made of each, by its ordinal in the batch.
        self.made: dict[int, Mapping[str, Any]] = dict(enumerate(rows))
        self.rejected: list[tuple[int, str]] = []
        self._count = len(rows)
        self._refill = refill

    def reject(self, number: int, bad: BadRow, function: str) -> None:
        """Leaves a row out."""
        del self.made[number]
        self.rejected.append((number, str(bad) or f"rejected by {function}"))

    def numbers(self) -> list[int]:
        """The ordinals of the rows of the batch that is made.

        Where it keeps its size, the nearest one before a rejected row, or after it, stands in for it.
        """
        own = list(self.made)
        if not self._refill or not own:
            return own
        return [own[max(bisect.bisect_right(own, number) - 1, 0)] for number in range(self._count)]

    def rows(self) -> list[Mapping[str, Any]]:
        """These rows."""
        numbers = self.numbers()
        if not self._refill or not self.rejected:
            return [self.made[number] for number in numbers]
        return [
            self.made[number] if number == place else _uncounted(self.made[number])
            for place, number in enumerate(numbers)
        ]

    def number_of(self, at: Any, rows: list[Mapping[str, Any]]) -> int:
        """The ordinal in the batch of a row of a list that ``collate`` was given."""
        places = [place for place, row in enumerate(rows) if row is at]
        if isinstance(at, (int, np.integer)) and not isinstance(at, bool) and 0 <= at < len(rows):
            places = [int(at)]
        if not places:
            raise InvalidError(
                "collate raised BadRow without the row that is bad (pass it, or its place in the list: "
                'forebay.BadRow("why", rows[2]))'
            )
        return self.numbers()[places[0]]

    def outcome(self) -> Outcome:
        """What became of the batch."""
        stand_ins = self._count - len(self.made) if self._refill and self.made else 0
        return Outcome(sorted(self.rejected), stand_ins, bool(self.made))


def taken(column: Any, numbers: Sequence[int]) -> Ragged | None:
    """These rows of a column of lists of numbers; ``None`` for any other, which is put together from its rows."""
    if type(column) is not Ragged or not isinstance(column.values, np.ndarray):
        return None
    rows = [column[number] for number in numbers]
    return Ragged(np.concatenate(rows), np.cumsum([0, *map(len, rows)]))


class InOrder:
    """Batches as the training loop gets them: rejected rows are counted in the order of the epoch, and no batch is empty.

    A batch without a row has the first one of the next batch that has any, and after the last batch of the epoch that of the
    first one.
    """

    def __init__(self, native: _forebay.Epoch, source: Ahead | Several, functions: Functions) -> None:
        self._native = native
        self._source = source
        self._refill = functions.refill
        self._rejects = functions.by_rows
        self._counts = False
        self._ready: deque[Made] = deque()
        self._first: dict[str, Any] | None = None

    def pull(self) -> Made | None:
        """The next batch; ``None`` after the last."""
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
            if self._first is None and self._rejects:
                self._first = _repeated(made.batch, 1)
            self._ready.append(made)
            return self._ready.popleft()
        if empty and self._first is None:
            raise BadRowError("no row of the rest of the epoch was left by the functions (reject fewer rows)")
        self._ready.extend(self._filled(one, self._first or {}) for one in empty)
        return self._ready.popleft() if self._ready else None

    def close(self) -> None:
        """Ends what makes the batches."""
        self._source.close()

    def _filled(self, made: Made, row: dict[str, Any]) -> Made:
        count = len(made.outcome.rejected) if self._refill else 1
        self._native.repeats(count)
        return made._replace(batch=_uncounted(_repeated(row, count)))


def _repeated(batch: Mapping[str, Any], count: int) -> dict[str, Any]:
    """The first row of each column so many times, in memory of its own; what belongs to a whole batch as it is."""
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


def _uncounted(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same, which does not count where a column says so."""
    made = dict(row)
    if ROW_MASK in made:
        made[ROW_MASK] = made[ROW_MASK] & False
    return made
