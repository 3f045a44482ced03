"""Rows that the user's functions reject, and that are left out of their batch or replaced."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..batch.ragged import Ragged
from ..errors import BadRow, InvalidError

__all__: list[str] = []

#: The column that is True for rows that count.
ROW_MASK = "row_mask"


class Outcome(NamedTuple):
    """The rows of a batch that functions rejected."""

    rejected: Sequence[tuple[int, str]] = ()
    """The ordinals of the rejected rows in the batch, and the reasons."""
    stand_ins: int = 0
    """Number of rows that take the place of rejected rows."""
    has_rows: bool = True
    """Whether the batch has any rows left."""


class Kept:
    """The rows of a batch that were not rejected."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], refill: bool) -> None:
        #: The present form of each row, by its ordinal in the batch.
        self.made: dict[int, Mapping[str, Any]] = dict(enumerate(rows))
        self.rejected: list[tuple[int, str]] = []
        self._count = len(rows)
        self._refill = refill

    def reject(self, number: int, bad: BadRow, function: str) -> None:
        """Leaves a row out."""
        del self.made[number]
        self.rejected.append((number, str(bad) or f"rejected by {function}"))

    def numbers(self) -> list[int]:
        """For each row of the batch to make, the ordinal of that row in the batch that was read.

        If the batch keeps its size, a rejected row is replaced by the nearest row before it, or else after
        it.
        """
        own = list(self.made)
        if not self._refill or not own or not self.rejected:
            return own
        return [own[max(bisect.bisect_right(own, number) - 1, 0)] for number in range(self._count)]

    def rows(self) -> list[Mapping[str, Any]]:
        """The rows in the batch to make."""
        if not self._refill or not self.rejected:
            return list(self.made.values())
        return [
            self.made[number] if number == place else uncounted(self.made[number])
            for place, number in enumerate(self.numbers())
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
        """The result for the batch."""
        stand_ins = self._count - len(self.made) if self._refill and self.made else 0
        return Outcome(sorted(self.rejected), stand_ins, bool(self.made))


def taken(column: Any, numbers: Sequence[int]) -> Ragged | None:
    """The given rows of a column of lists of numbers; ``None`` for another column, which is put together row
    by row."""
    if type(column) is not Ragged or not isinstance(column.values, np.ndarray):
        return None
    rows = [column[number] for number in numbers]
    return Ragged(np.concatenate(rows), np.cumsum([0, *map(len, rows)]))


def uncounted(row: Mapping[str, Any]) -> dict[str, Any]:
    """The same row, but not counted if there is a column ``row_mask``."""
    made = dict(row)
    if ROW_MASK in made:
        made[ROW_MASK] = made[ROW_MASK] & False
    return made
