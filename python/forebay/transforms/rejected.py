"""Handles the rows that the user's functions reject: they are left out of their batch, or replaced."""

from __future__ import annotations

import bisect
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..batch.ragged import Ragged
from ..errors import BadRow, InvalidError

__all__: list[str] = []

#: The name of the column that is True for rows that count, and False for repeated rows.
ROW_MASK = "row_mask"


class Outcome(NamedTuple):
    """The record of the rows of a batch that the user's functions rejected."""

    rejected: Sequence[tuple[int, str]] = ()
    """The ordinals of the rejected rows in the batch, and the reasons."""
    stand_ins: int = 0
    """Number of repeated rows that take the place of rejected rows."""
    has_rows: bool = True
    """Whether the batch has any rows left."""


class Kept:
    """The rows of a batch that the user's functions have not rejected so far."""

    def __init__(self, rows: Sequence[Mapping[str, Any]], refill: bool) -> None:
        #: The rows by their ordinal in the batch, in the form that the last function gave them.
        self.made: dict[int, Mapping[str, Any]] = dict(enumerate(rows))
        self.rejected: list[tuple[int, str]] = []
        self._count = len(rows)
        self._refill = refill

    def reject(self, number: int, bad: BadRow, function: str) -> None:
        """Leaves the row with the ordinal ``number`` out of the batch, and records the reason."""
        del self.made[number]
        self.rejected.append((number, str(bad) or f"rejected by {function}"))

    def numbers(self) -> list[int]:
        """For each row of the new batch, the ordinal that this row had before rows were rejected.

        If ``refill`` keeps the size of the batch, a rejected row is replaced by the nearest row before it
        that was not rejected or, without one, by the nearest row after it.
        """
        own = list(self.made)
        if not self._refill or not own or not self.rejected:
            return own
        return [own[max(bisect.bisect_right(own, number) - 1, 0)] for number in range(self._count)]

    def rows(self) -> list[Mapping[str, Any]]:
        """The rows of the new batch, in which ``refill`` replaces rejected rows by repeated ones."""
        if not self._refill or not self.rejected:
            return list(self.made.values())
        return [
            self.made[number] if number == place else uncounted(self.made[number])
            for place, number in enumerate(self.numbers())
        ]

    def number_of(self, at: Any, rows: list[Mapping[str, Any]]) -> int:
        """The ordinal in the batch of the row that ``collate`` rejected: ``at`` is a row of the list ``rows``
        that it was given, or the position of a row in this list."""
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
        """The record of rejected rows for the batch."""
        stand_ins = self._count - len(self.made) if self._refill and self.made else 0
        return Outcome(sorted(self.rejected), stand_ins, bool(self.made))


def taken(column: Any, numbers: Sequence[int]) -> Ragged | None:
    """Copies some rows of a column of lists of numbers. For any other column it returns ``None``, and the
    caller collates that column row by row."""
    if type(column) is not Ragged or not isinstance(column.values, np.ndarray):
        return None
    rows = [column[number] for number in numbers]
    return Ragged(np.concatenate(rows), np.cumsum([0, *map(len, rows)]))


def uncounted(row: Mapping[str, Any]) -> dict[str, Any]:
    """Copies a row, and marks the copy in the column ``row_mask``, if there is one, as a row that does not
    count."""
    made = dict(row)
    if ROW_MASK in made:
        made[ROW_MASK] = made[ROW_MASK] & False
    return made
