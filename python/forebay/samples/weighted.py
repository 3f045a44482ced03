"""Rows drawn by weight as the samples of a loader."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any

from ..errors import InvalidError
from ..options.checks import whole

__all__ = ["Sample"]


@dataclass(frozen=True, repr=False)
class Sample:
    """Rows drawn by weight, in each epoch anew: a frozen value for ``samples=``.

    A row comes as often as its weight says: on average exactly, and in each epoch rounded down or up. The same holds
    for all rows of a class together, so ``Sample(by="label")`` gives each class the same number of rows in each epoch,
    to within one. What PyTorch calls a ``WeightedRandomSampler`` draws each row independently, so that the numbers vary
    around these.

    A sample is a row: batches are as ever, and ``len()``, plans and states count rows as they are drawn. All ranks have
    as many batches. Which rows an epoch has depends on the data, the seed and its number alone. A row that comes
    several times in an epoch has another random crop each time; its repeats are dealt over the time that its row group
    is in the window of the shuffle.

    The column is read before the first epoch, and what it says kept on local disk if that took more than 4 MiB of local
    files or any request to a store. It has its stored name, as in filters.

    Parameters
    ----------
    weights : "balanced", mapping or str, optional
        With ``by``, ``"balanced"`` for the same number of rows of each class, which is the default; or a mapping from
        classes to the weight of each of their rows: ``{"cat": 3, "dog": 1}``. Without ``by``, the name of a column of
        numbers that holds the weight of each row. Weights are 0 or more, and only their ratio counts.
    by : str, optional
        Column of whole numbers, booleans or texts that says the class of each row.
    others : float, optional
        The weight of classes that a mapping does not have. Default: none, they are an error.
    replacement : bool, default True
        Whether a row may come several times in an epoch. If not, a row whose weight would have it come more than once
        comes once, and the others share the rest.
    rows : int, optional
        Rows of an epoch. Default: with replacement as many as there are rows with a weight over 0; without as many as
        the weights permit without a row that comes for certain, for balanced classes as many of each as the rarest has.
    seed : int, optional
        Seed of what is drawn. Default: that of the shuffle, 0 without one.

    Raises
    ------
    InvalidError
        No column is named, a weight is negative or not finite, or an argument is of the wrong type.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Sample(by="label")
    forebay.Sample('balanced', by='label')
    >>> fb.Sample({"cat": 3, "dog": 1}, by="animal", rows=10_000)
    forebay.Sample({'cat': 3.0, 'dog': 1.0}, by='animal', rows=10000)
    >>> fb.Sample("importance", replacement=False)
    forebay.Sample('importance', replacement=False)
    """

    weights: str | Mapping[Any, float] | None = None
    """``"balanced"``, the weight of each class, or the column that holds the weights."""
    by: str | None = field(default=None, kw_only=True)
    """Column that says the class of each row."""
    others: float | None = field(default=None, kw_only=True)
    """The weight of classes that have none of their own."""
    replacement: bool = field(default=True, kw_only=True)
    """Whether a row may come several times in an epoch."""
    rows: int | None = field(default=None, kw_only=True)
    """Rows of an epoch."""
    seed: int | None = field(default=None, kw_only=True)
    """Seed of what is drawn."""

    def __post_init__(self) -> None:
        if self.by is not None and not isinstance(self.by, str):
            raise InvalidError(f"by must be the name of a column, got {self.by!r}")
        if self.by is None:
            if self.weights in (None, "balanced"):
                raise InvalidError("a sample names no column (pass by=... for a column of classes)")
            if not isinstance(self.weights, str):
                raise InvalidError(
                    f"weights of classes were given, and no column of them (pass by=...): {self.weights!r}"
                )
        elif self.weights is None:
            object.__setattr__(self, "weights", "balanced")
        elif isinstance(self.weights, Mapping):
            given = {_class(value): _weight(weight, value) for value, weight in self.weights.items()}
            object.__setattr__(self, "weights", given)
        elif self.weights != "balanced":
            raise InvalidError(f'weights must be "balanced" or a mapping from classes to weights, got {self.weights!r}')
        if self.others is not None:
            if not isinstance(self.weights, Mapping):
                raise InvalidError("others is the weight of classes that a mapping does not have, and weights is none")
            object.__setattr__(self, "others", _weight(self.others, "others"))
        if not isinstance(self.replacement, bool):
            raise InvalidError(f"replacement must be True or False, got {self.replacement!r}")
        if self.rows is not None:
            object.__setattr__(self, "rows", whole(self.rows, "rows", 1, 40))
        if self.seed is not None:
            object.__setattr__(self, "seed", whole(self.seed, "seed", 0))

    def __hash__(self) -> int:
        weights = tuple(self.weights.items()) if isinstance(self.weights, Mapping) else self.weights
        return hash((weights, self.by, self.others, self.replacement, self.rows, self.seed))

    def _spec(self) -> dict[str, Any]:
        """The value as the library reads it."""
        weights: Any = "values" if self.by is None else self.weights
        if isinstance(weights, Mapping):
            weights = {"classes": {"weights": list(weights.items()), "others": self.others}}
        spec = {"column": self.weights if self.by is None else self.by, "weights": weights}
        return {"weighted": {**spec, "replacement": self.replacement, "rows": self.rows, "seed": self.seed}}

    def __repr__(self) -> str:
        given = [("by", self.by), ("others", self.others)]
        given += [("rows", self.rows), ("seed", self.seed)]
        options = [f"{name}={value!r}" for name, value in given if value is not None]
        if not self.replacement:
            options.append("replacement=False")
        return f"forebay.Sample({', '.join([repr(self.weights), *options])})"


def _class(value: Any) -> int | str:
    """The class as the library knows it: a boolean is a number."""
    if isinstance(value, str):
        return str(value)
    # Booleans of numpy are no integers.
    if isinstance(value, Integral) or type(value).__name__ == "bool":
        number = int(value)
        if -(1 << 63) <= number < 1 << 63:
            return number
    raise InvalidError(f"a class must be an int of 64 bits, a bool or a str, got {value!r}")


def _weight(weight: Any, of: Any) -> float:
    if isinstance(weight, bool) or not isinstance(weight, Real):
        raise InvalidError(f"the weight of {of!r} must be a number, got {weight!r}")
    number = float(weight)
    if not 0 <= number < float("inf"):
        raise InvalidError(f"the weight of {of!r} must be a finite number from 0 on, got {weight!r}")
    return number
