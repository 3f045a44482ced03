"""The user's functions between the loader and the training step, in the order in which a batch goes through them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..errors import InvalidError
from .rows import Columns, Empty, collate, split

__all__: list[str] = []


class Keys(NamedTuple):
    """What the random numbers of a batch are drawn from."""

    rows: np.ndarray[Any, Any]
    """One of each row, where functions are of rows."""
    batch: int
    """That of the batch as a whole."""


@dataclass(frozen=True)
class Functions:
    """The functions of a loader: of each row, of all rows, and of the batch."""

    rows: Callable[..., Any] | None = None
    collate: Callable[..., Any] | None = None
    batch: Callable[..., Any] | None = None

    @property
    def by_rows(self) -> bool:
        """Whether batches are cut into rows."""
        return self.rows is not None or self.collate is not None

    @property
    def names(self) -> list[str]:
        """The options of a loader that they were given with."""
        given = {"transform_rows": self.rows, "collate": self.collate, "transform": self.batch}
        return [name for name, function in given.items() if function is not None]

    def apply(
        self,
        arrays: dict[str, Any],
        count: int,
        keys: Keys,
        at: At,
        empty: Empty = np.empty,
        seed: Callable[[int], object] | None = None,
    ) -> Any:
        """What the functions make of a batch of ``count`` rows; ``at`` says where they are, if one raises.

        ``seed`` is called with the key of each row or batch before a function gets it.
        """
        made = arrays
        at.seed = seed
        # A batch whose rows were all left out has no row to make columns of.
        if self.by_rows and count > 0:
            rows = split(arrays, count, keys.rows.tolist())
            at.function = "transform_rows"
            made_rows = (
                rows if self.rows is None else [self._of_row(row, number, at) for number, row in enumerate(rows)]
            )
            at.row = None
            if self.collate is None:
                made = collate(made_rows, rows, arrays, np.empty if self.batch else empty)
            else:
                at.function = "collate"
                at.draws(keys.batch)
                made = _checked(self.collate(made_rows), "collate", count)
        if self.batch is not None:
            at.function = "transform"
            at.draws(keys.batch)
            made = _checked(self.batch(Columns.of(made, keys.batch)), "transform", count)
        return made

    def _of_row(self, row: Any, number: int, at: At) -> Any:
        at.row = number
        at.draws(row._key)
        assert self.rows is not None
        made = self.rows(row)
        if not isinstance(made, Mapping):
            raise TypeError(f"transform_rows must return a dict, got {type(made).__name__}")
        return made


class At:
    """The function that is at work, and the row of the batch that it works on, if it is of one row."""

    __slots__ = ("function", "row", "seed")

    def __init__(self) -> None:
        self.function = "transform"
        self.row: int | None = None
        self.seed: Callable[[int], object] | None = None

    def draws(self, key: int) -> None:
        """The function gets what this is the key of."""
        if self.seed is not None:
            self.seed(key)


def nbytes(made: Any) -> int:
    """Bytes of the arrays of a batch."""
    if isinstance(made, Mapping):
        return sum(nbytes(value) for value in made.values())
    size = getattr(made, "nbytes", 0)
    return size if isinstance(size, int) else 0


def _checked(made: Any, function: str, count: int) -> dict[str, Any]:
    """The columns that a function returned for a batch of ``count`` rows."""
    if not isinstance(made, Mapping):
        raise TypeError(f"{function} must return a dict of arrays, got {type(made).__name__}")
    if not made:
        raise InvalidError(f"{function} must return at least one column, got an empty dict")
    for name, value in made.items():
        _check_rows(name, value, function, count)
    return dict(made)


def _check_rows(name: Any, value: Any, function: str, rows: int) -> None:
    """Refuses a column with another number of rows than the batch. Other values belong to the whole batch."""
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
