"""The option for epochs whose rows are drawn by weight."""

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
    """Rows that each epoch draws anew by their weights: a frozen value for ``samples=``.

    The expected number of deliveries of a row in an epoch is proportional to its weight; each epoch delivers
    the row this number of times, rounded down or up. This is also true for all rows of a class together, so
    ``Sample(by="label")`` delivers the same number of rows of each class in each epoch, to within one.
    PyTorch's ``WeightedRandomSampler`` draws each row independently, so its numbers vary around the expected
    numbers.

    A sample is a row: batches have their usual form, and ``len()``, plans and states count the rows that are
    drawn. All ranks have the same number of batches. The rows of an epoch depend only on the data, the seed
    and the number of the epoch. A row that is drawn several times in an epoch has another random crop each
    time; its repeats are spread over the time in which its row group is in the window of the shuffle.

    The column is read before the first epoch. Its classes or weights are kept on local disk if reading it
    took more than 4 MiB of local files or any request to a store. The column is given by its stored name, as
    in filters.

    Parameters
    ----------
    weights : "balanced", mapping or str, optional
        With ``by``, ``"balanced"`` for the same number of rows of each class, which is the default; or a
        mapping from a class to the weight of each row of that class: ``{"cat": 3, "dog": 1}``. Without
        ``by``, the name of a column of numbers with the weight of each row. Weights are 0 or more, and only
        their ratio matters.
    by : str, optional
        Column of whole numbers, booleans or texts with the class of each row.
    others : float, optional
        The weight of classes that are not in the mapping. Default: such classes are an error.
    replacement : bool, default True
        Whether a row may be drawn several times in an epoch. If not, a row whose expected number is more than
        1 is drawn once, and the draws beyond that go to the other rows.
    rows : int, optional
        Number of rows in an epoch. Default with replacement: the number of rows with a weight over 0. Default
        without replacement: the largest number for which no row has an expected number above 1; for balanced
        classes, each class then has as many rows as the rarest class.
    seed : int, optional
        Seed of the draw. Default: the seed of the shuffle, or 0 without a shuffle.

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
    """Column with the class of each row."""
    others: float | None = field(default=None, kw_only=True)
    """The weight of classes that are not in the mapping."""
    replacement: bool = field(default=True, kw_only=True)
    """Whether a row may be drawn several times in an epoch."""
    rows: int | None = field(default=None, kw_only=True)
    """Number of rows in an epoch."""
    seed: int | None = field(default=None, kw_only=True)
    """Seed of the draw."""

    def __post_init__(self) -> None:
        if self.by is not None and not isinstance(self.by, str):
            raise InvalidError(f"by must be the name of a column, got {self.by!r}")
        if self.by is None:
            if self.weights in (None, "balanced"):
                raise InvalidError("a sample needs a column (pass by=... for a column of classes)")
            if not isinstance(self.weights, str):
                raise InvalidError(
                    f"weights of classes were given without their column (pass by=...): {self.weights!r}"
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
                raise InvalidError("others is the weight of classes that are not listed (pass weights as a mapping)")
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
        """This object as JSON values, for the spec that the compiled library reads."""
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
    """Converts the value of a class to the form that the compiled library reads: booleans become numbers."""
    if isinstance(value, str):
        return str(value)
    # numpy's booleans are not an Integral.
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
        raise InvalidError(f"the weight of {of!r} must be a finite number of at least 0, got {weight!r}")
    return number
