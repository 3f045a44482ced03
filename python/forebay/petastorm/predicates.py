"""The predicates of Petastorm, which select the rows to read by the values of some fields."""

from __future__ import annotations

import abc
import hashlib
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

__all__ = [
    "PredicateBase",
    "in_intersection",
    "in_lambda",
    "in_negate",
    "in_pseudorandom_split",
    "in_reduce",
    "in_set",
]


class PredicateBase(abc.ABC):
    """The interface of a predicate. With ``make_batch_reader``, a predicate of your own class gets a
    ``pandas.DataFrame``."""

    @abc.abstractmethod
    def get_fields(self) -> set[str]:
        """Returns the names of the fields that the predicate needs."""

    @abc.abstractmethod
    def do_include(self, values: Any) -> Any:
        """Returns whether to read a row. ``values`` has the row's values of the needed fields, by name."""


class in_set(PredicateBase):
    """Selects rows in which the value of a field is in a set."""

    def __init__(self, inclusion_values: Iterable[Any], predicate_field: str) -> None:
        self._inclusion_values = set(inclusion_values)
        self._predicate_field = predicate_field

    def get_fields(self) -> set[str]:
        return {self._predicate_field}

    def do_include(self, values: Mapping[str, Any]) -> bool:
        return values[self._predicate_field] in self._inclusion_values


class in_intersection(PredicateBase):
    """Selects rows in which the array or list of a field contains one of the given values."""

    def __init__(self, inclusion_values: Iterable[Any], _predicate_field: str) -> None:
        self._inclusion_values = list(inclusion_values)
        self._predicate_field = _predicate_field

    def get_fields(self) -> set[str]:
        return {self._predicate_field}

    def do_include(self, values: Mapping[str, Any]) -> bool:
        value = values[self._predicate_field]
        if not isinstance(value, Iterable):
            raise ValueError(f"field {self._predicate_field!r} has no items to look among, got {type(value).__name__}")
        return bool(np.isin(value, self._inclusion_values).any())  # type: ignore[arg-type, call-overload, unused-ignore]


class in_lambda(PredicateBase):
    """Selects rows for which a function of some values is true.

    Parameters
    ----------
    predicate_fields : list of str
        The fields whose values the function takes, in order.
    predicate_func : callable
        The function.
    state_arg : object, optional
        One more argument for the function, after the values.
    """

    def __init__(self, predicate_fields: list[str], predicate_func: Callable[..., Any], state_arg: Any = None) -> None:
        if not isinstance(predicate_fields, list):
            raise ValueError(f"predicate_fields must be a list, got {type(predicate_fields).__name__}")
        self._predicate_fields = predicate_fields
        self._predicate_func = predicate_func
        self._state_arg = state_arg

    def get_fields(self) -> set[str]:
        return set(self._predicate_fields)

    def do_include(self, values: Any) -> Any:
        arguments = [values[name] for name in self._predicate_fields]
        if self._state_arg is not None:
            arguments.append(self._state_arg)
        return self._predicate_func(*arguments)


class in_negate(PredicateBase):
    """Selects the rows that another predicate leaves out."""

    def __init__(self, predicate: PredicateBase) -> None:
        _check(predicate)
        self._predicate = predicate

    def get_fields(self) -> set[str]:
        return self._predicate.get_fields()

    def do_include(self, values: Any) -> bool:
        return not self._predicate.do_include(values)


class in_reduce(PredicateBase):
    """Combines the answers of several predicates by a function: ``all``, ``any`` or another one."""

    def __init__(self, predicate_list: Sequence[PredicateBase], reduce_func: Callable[[list[Any]], Any]) -> None:
        for predicate in predicate_list:
            _check(predicate)
        self._predicate_list = predicate_list
        self._reduce_func = reduce_func

    def get_fields(self) -> set[str]:
        return {name for predicate in self._predicate_list for name in predicate.get_fields()}

    def do_include(self, values: Any) -> Any:
        return self._reduce_func([predicate.do_include(values) for predicate in self._predicate_list])


class in_pseudorandom_split(PredicateBase):
    """Divides the rows into several parts by a hash of a value, and selects one part. A row is always in the
    same part, which is also its part in Petastorm.

    Parameters
    ----------
    fraction_list : list of float
        The share of each part.
    subset_index : int
        The number of the part to read, from 0.
    predicate_field : str
        The field whose value decides. Rows with equal values are in the same part.
    """

    def __init__(self, fraction_list: Sequence[float], subset_index: int, predicate_field: str) -> None:
        if subset_index >= len(fraction_list):
            raise ValueError(f"subset_index must be less than {len(fraction_list)}, got {subset_index}")
        self._predicate_field = predicate_field
        # The shares are added in the same order as in Petastorm, so that the floats that divide the parts are
        # equal.
        ends = [sum(fraction_list[: at + 1]) for at in range(len(fraction_list))]
        self._bucket_low = (ends[subset_index - 1] if subset_index else 0) * (sys.maxsize - 1)
        self._bucket_high = ends[subset_index] * (sys.maxsize - 1)

    def get_fields(self) -> set[str]:
        return {self._predicate_field}

    def do_include(self, values: Mapping[str, Any]) -> bool:
        if self._predicate_field not in values:
            raise ValueError(f"the values have no field {self._predicate_field!r}, which splits the rows")
        text = str(values[self._predicate_field])
        bucket = int(hashlib.md5(text.encode(), usedforsecurity=False).hexdigest(), 16) % sys.maxsize
        return self._bucket_low <= bucket < self._bucket_high


def _check(predicate: Any) -> None:
    if not isinstance(predicate, PredicateBase):
        raise ValueError(f"a predicate must be derived from PredicateBase, got {type(predicate).__name__}")
