"""Applies the user's functions to a batch, in this order: ``transform_rows`` to each row, ``collate`` to the
list of rows, ``transform`` to the batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np

from ..errors import BadRow, InvalidError
from .rejected import Kept, Outcome
from .rows import Columns, Empty, Row, cells, collate, columns_for_rows, split

__all__: list[str] = []


class Keys(NamedTuple):
    """The keys, or seeds, from which the user's functions draw their random numbers for a batch."""

    rows: np.ndarray[Any, Any]
    """The key of each row, if there are functions of rows."""
    batch: int
    """The key of the whole batch."""
    step: int
    """The key that all ranks share in this step."""


@dataclass(frozen=True)
class Functions:
    """The user's functions for a loader: of each row, of the list of all rows, and of the batch."""

    rows: Callable[..., Any] | None = None
    collate: Callable[..., Any] | None = None
    batch: Callable[..., Any] | None = None
    refill: bool = False
    """Whether the rows that a function rejects are replaced by other rows of the batch."""

    option: ClassVar[str] = "transform_workers"
    """The name of the option that says where the functions run."""

    @property
    def by_rows(self) -> bool:
        """Whether batches are cut into rows for the functions."""
        return self.rows is not None or self.collate is not None

    @property
    def names(self) -> list[str]:
        """The names of the options with which the functions were given."""
        given = {"transform_rows": self.rows, "collate": self.collate, "transform": self.batch}
        return [name for name, function in given.items() if function is not None]

    def columns(self, batch: Any) -> dict[str, Any]:
        """The columns of a batch, in the form in which the user's functions get them."""
        return columns_for_rows(batch) if self.by_rows else {name: batch[name] for name in batch}

    def apply(
        self,
        arrays: dict[str, Any],
        count: int,
        keys: Keys,
        at: At,
        empty: Empty = np.empty,
        seed: Callable[[int], object] | None = None,
    ) -> Any:
        """Applies the functions to a batch of ``count`` rows. If a function raises an exception, ``at`` says
        which function and which row it was.

        Returns an empty dict if the functions reject all rows. ``seed`` is called with the key of each row or
        batch before a function is called with that row or batch.
        """
        made = arrays
        at.seed = seed
        if self.by_rows:
            given = cells(arrays)
            rows = split(given, keys.rows.tolist())
            at.function = "transform_rows"
            kept = Kept(rows, self.refill)
            if self.rows is not None:
                self._of_rows(self.rows, rows, kept, at)
            at.row = None
            if self.collate is not None and kept.made:
                at.function = "collate"
                at.draws(keys.batch)
                made = self._collated(kept)
            elif kept.made:
                numbers = kept.numbers() if kept.rejected else None
                made = collate(kept.rows(), given, arrays, np.empty if self.batch else empty, numbers)
            at.outcome = kept.outcome()
            if not kept.made:
                return {}
            count = len(kept.numbers())
        if self.batch is not None:
            at.function = "transform"
            at.draws(keys.batch)
            try:
                made = self.batch(Columns.of(made, keys.batch, keys.step))
            except BadRow:
                raise InvalidError(
                    "transform takes whole batches, and BadRow rejects one row (raise it in transform_rows, or in "
                    "collate with the row)"
                ) from None
            made = _checked(made, "transform", count)
        return made

    def _of_rows(self, function: Callable[..., Any], rows: list[Row], kept: Kept, at: At) -> None:
        """Calls ``function`` with each row, and replaces the row in ``kept`` by the result."""
        seed, made_rows = at.seed, kept.made
        for number, row in enumerate(rows):
            at.row = number
            if seed is not None:
                seed(row._key)
            try:
                made = function(row)
            except BadRow as bad:
                kept.reject(number, bad, "transform_rows")
                continue
            # `Mapping` alone would accept a dict too, but the check for `dict` is ten times as fast.
            if not isinstance(made, (dict, Mapping)):
                raise TypeError(f"transform_rows must return a dict, got {type(made).__name__}")
            made_rows[number] = made

    def _collated(self, kept: Kept) -> dict[str, Any]:
        """Calls ``collate`` with the rows. If it rejects a row, it is called again without that row, until it
        returns a batch."""
        assert self.collate is not None
        while kept.made:
            rows = kept.rows()
            try:
                made = self.collate(rows)
            except BadRow as bad:
                kept.reject(kept.number_of(bad.at, rows), bad, "collate")
                continue
            return _checked(made, "collate", len(rows))
        return {}


class At:
    """The user's function that is running and, if it takes one row, the ordinal of that row in the batch."""

    __slots__ = ("function", "outcome", "row", "seed")

    def __init__(self) -> None:
        self.function = "transform"
        self.row: int | None = None
        self.outcome = Outcome()
        self.seed: Callable[[int], object] | None = None

    def draws(self, key: int) -> None:
        """Seeds the random generators with the key of the row or batch that a function gets next."""
        if self.seed is not None:
            self.seed(key)


def nbytes(made: Any) -> int:
    """Total size of the arrays of a batch, in bytes."""
    if isinstance(made, Mapping):
        return sum(nbytes(value) for value in made.values())
    size = getattr(made, "nbytes", 0)
    return size if isinstance(size, int) else 0


def _checked(made: Any, function: str, count: int) -> dict[str, Any]:
    """Checks the columns that a function returned for a batch of ``count`` rows."""
    if not isinstance(made, Mapping):
        raise TypeError(f"{function} must return a dict of arrays, got {type(made).__name__}")
    if not made:
        raise InvalidError(f"{function} must return at least one column, got an empty dict")
    for name, value in made.items():
        _check_rows(name, value, function, count)
    return dict(made)


def _check_rows(name: Any, value: Any, function: str, rows: int) -> None:
    """Raises an error for a column that does not have ``rows`` rows. Texts, and Python objects
    without a length, such as an int, belong to the whole batch and are accepted."""
    if isinstance(value, Mapping):
        for inner in value:
            _check_rows(f"{name}.{inner}", value[inner], function, rows)
        return
    try:
        shape = getattr(value, "shape", None)
    except RuntimeError:  # torch's strided nested tensors have none
        return
    if shape is None and (isinstance(value, (str, bytes)) or not hasattr(value, "__len__")):
        return
    if shape is not None and len(shape) == 0:
        got = f"{type(value).__name__} without rows"
    else:
        found = len(value) if shape is None or shape[0] is None else int(shape[0])
        if found == rows:
            return
        got = str(found)
    raise InvalidError(
        f"{function} must return {rows} rows of column {name!r}, as many as it was given, got {got}", column=str(name)
    )
