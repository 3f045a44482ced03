"""Applies a function to the rows of a batch, and turns its results into columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..errors import BadRow, InvalidError, NullError
from ..transforms.functions import At, Functions, Keys
from ..transforms.rows import Empty, cells, split
from .values import UNKNOWN, Node, Type, agreed, node, owned, plain, type_of

__all__: list[str] = []

#: The only key of a batch of prepared rows. Its value is a :class:`Made`.
MADE = "made"


class Made:
    """The columns of the rows that a function made. It has no length, so the loader takes it for one value of
    the whole batch."""

    def __init__(self, types: dict[str, Type], nodes: dict[str, Node], sizes: list[int]) -> None:
        self.types = types
        self.nodes = nodes
        #: About how many bytes each row takes.
        self.sizes = sizes


class Collected:
    """Rows that are collected to columns, one row after the other."""

    def __init__(self) -> None:
        self._types: dict[str, Type] = {}
        self._values: dict[str, list[Any]] = {}
        self._sizes: list[int] = []

    def add(self, row: Any) -> None:
        """Adds a row, or raises an error if its columns or types differ from those of the rows before."""
        if not isinstance(row, Mapping):
            raise InvalidError(f"prepare must return a dict for each row, got {type(row).__name__}")
        if not row or not all(isinstance(name, str) and name for name in row):
            raise InvalidError(f"prepare must return at least one column, by its name, got {list(row)!r}")
        if not self._types:
            self._types = dict.fromkeys(row, UNKNOWN)
            self._values = {name: [] for name in row}
        check_names(self._types, row)
        size = 0
        for name, value in row.items():
            value = plain(value)
            found, more = type_of(name, value)
            value = owned(value)
            self._types[name] = agreed(name, self._types[name], found)
            self._values[name].append(value)
            size += more
        self._sizes.append(size)

    def made(self) -> Made:
        """The columns of all rows."""
        nodes = {name: node(of, self._values[name]) for name, of in self._types.items()}
        return Made(self._types, nodes, self._sizes)


def check_names(before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
    """Refuses columns that differ from those of the rows before."""
    if before.keys() != now.keys():
        raise InvalidError(
            f"prepare returned the columns {', '.join(map(repr, before))} for the rows before, and "
            f"{', '.join(map(repr, now))} for this one (return the same columns for each row)"
        )


def _column(batch: Any, name: str, kind: str, element: str | None) -> Any:
    """A column of a batch. A column with nulls becomes a list, but its values have the same types as in a
    column without nulls."""
    records = batch._records(name)
    if records is not None:
        return records
    try:
        return batch[name]
    except NullError:
        values: list[Any] = batch._objects(name)
    if element is None or kind not in ("dense", "ragged"):
        return values
    dtype = np.dtype(element)
    return [_typed(value, dtype) for value in values]


def _typed(value: Any, dtype: np.dtype[Any]) -> Any:
    """Converts a number or a list of numbers to numpy. None stays None, and a list with None stays a list."""
    if value is None or (isinstance(value, list) and None in value):
        return value if value is None else [_typed(item, dtype) for item in value]
    return np.array(value, dtype)[()]


@dataclass(frozen=True)
class Preparing(Functions):
    """The function that ``prepare`` was given, in the form in which workers get the functions of a loader."""

    option: ClassVar[str] = "workers"

    @property
    def names(self) -> list[str]:
        """The name of the option with which the function was given."""
        return ["prepare"]

    def columns(self, batch: Any) -> dict[str, Any]:
        """The columns of a batch as the function gets them: a null is ``None``, since no option fills it here."""
        layout = {name: (kind, element) for name, kind, element, _ in batch.schema.layout()}
        return {name: _column(batch, name, *layout[name]) for name in batch}

    def apply(
        self,
        arrays: dict[str, Any],
        count: int,
        keys: Keys,
        at: At,
        empty: Empty = np.empty,
        seed: Callable[[int], object] | None = None,
    ) -> Any:
        """Applies the function to each row of a batch. If it raises, ``at`` has the row."""
        at.seed, at.function = seed, "prepare"
        assert self.rows is not None
        collected = Collected()
        for number, row in enumerate(split(cells(arrays), keys.rows.tolist())):
            at.row = number
            at.draws(row._key)
            try:
                made = self.rows(row)
            except BadRow as bad:
                raise InvalidError(
                    f"prepare keeps every row, and cannot leave one out: {str(bad) or 'rejected'} (return the row with "
                    "a column that marks it, and leave it out with filter=)"
                ) from None
            collected.add(made)
        at.row = None
        return {MADE: collected.made()}
