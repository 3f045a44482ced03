"""Filters as users already write them: lists of terms, and expressions of forebay, pyarrow and Polars."""

from __future__ import annotations

import datetime
import json
import math
from collections.abc import Iterator
from typing import Any

from . import foreign_expressions
from ._forebay import FILTER_OPERATORS
from .errors import InvalidError
from .expressions import ColumnExpression, Expression
from .sizes import given

__all__: list[str] = []

#: The integers that a filter compares with: those of int64 and uint64.
SMALLEST, LARGEST = -(1 << 63), (1 << 64) - 1

_FORM = (
    "pass [(column, op, value), ...], all of which must hold, a list of such lists, one of which must hold, or an "
    "expression such as fb.col('label') < 100"
)


def settled(filter: Any) -> Any:
    """The same filter with lists for iterators, which are used up once they were read, and in our own expressions."""
    translated = foreign_expressions.translated(filter)
    if translated is not None:
        return translated
    if isinstance(filter, Iterator):
        filter = list(filter)
    if isinstance(filter, list):
        return [settled(part) for part in filter]
    return tuple(settled(part) for part in filter) if isinstance(filter, tuple) else filter


def to_json(filter: Any) -> str | None:
    """The filter as the library reads it; ``None`` for none."""
    try:
        return _to_json(filter)
    except RecursionError:
        raise InvalidError("filter is nested too deep (join many conditions with is_in, or as a list)") from None


def _to_json(filter: Any) -> str | None:
    if filter is None:
        return None
    if isinstance(filter, Expression):
        return json.dumps({"expr": filter._node})
    if isinstance(filter, ColumnExpression):
        raise InvalidError(f"{filter!r} is a column and not a condition (compare it: {filter!r} == True)")
    if callable(filter) and not hasattr(filter, "__iter__"):
        raise InvalidError(
            "filter is a function, and rows are selected before they are read (pass an expression such as "
            "fb.col('label') < 100, or for what only Python can tell the numbers of the rows to leave out, as deny=)"
        )
    if isinstance(filter, (str, bytes)) or not hasattr(filter, "__iter__"):
        raise InvalidError(f"filter must be a list, got {filter!r} ({_FORM})")
    if _is_term(filter):
        raise InvalidError(f"filter must be a list of terms, got one term (pass [{filter!r}])")
    lists = list(filter)
    if not lists:
        raise InvalidError("filter is empty (pass None to read all rows)")
    if _is_term(lists[0]):
        lists = [lists]
    return json.dumps({"any_of": [[_term(term) for term in _listed(terms)] for terms in lists]})


def _is_term(candidate: Any) -> bool:
    return isinstance(candidate, (tuple, list)) and len(candidate) == 3 and isinstance(candidate[0], str)


def _term(term: Any) -> dict[str, Any]:
    if not _is_term(term):
        raise InvalidError(f"a term of a filter must be (column, op, value), got {term!r} ({_FORM})")
    column, op, value = term
    if not isinstance(op, str) or op not in FILTER_OPERATORS:
        raise InvalidError(f"the operator of a filter must be one of {', '.join(FILTER_OPERATORS)}, got {op!r}")
    if op in ("in", "not in"):
        if not is_list(value):
            raise InvalidError(f"({column!r}, {op!r}, {value!r}): {op} needs a list of values")
        values = [value_of(item, f"column {column!r}") for item in value]
        # A set has no order of its own, and the filter is part of what identifies an order.
        value = sorted(values, key=repr) if isinstance(value, (set, frozenset)) else values
    else:
        value = value_of(value, f"column {column!r}")
    return {"column": column, "op": op, "value": value}


def value_of(value: Any, beside: str) -> bool | int | float | str:
    """A value to compare with, as the library reads it; ``beside`` names what it is compared with."""
    if (type(value) is int and SMALLEST <= value <= LARGEST) or (type(value) is str and value.isascii()):
        # Most values of long lists.
        return value
    if _is_masked(value):
        raise InvalidError(f"{beside}: a value in a filter is masked (leave it out, as with .compressed())")
    if hasattr(value, "dtype") and getattr(value, "shape", None) == ():  # a scalar of numpy or torch
        # A time of numpy has no item of as fine a unit.
        value = str(value) if getattr(value.dtype, "kind", None) == "M" else value.item()
    elif hasattr(value, "as_py"):  # a scalar of pyarrow
        value = value.as_py()
    if isinstance(value, (datetime.date, datetime.datetime)):
        value = value.isoformat()
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise InvalidError(f"{beside}: bytes in a filter must be UTF-8") from None
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            raise InvalidError(f"{beside}: text in a filter must be valid Unicode, got {value!r}") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidError(f"{beside}: a number in a filter must be finite, got {value}")
    if isinstance(value, int) and not isinstance(value, bool) and not SMALLEST <= value <= LARGEST:
        raise InvalidError(f"{beside}: an int in a filter must be from -2**63 to 2**64 - 1, got {given(value)}")
    if not isinstance(value, (bool, int, float, str)):
        raise InvalidError(
            f"{beside}: a value in a filter must be a number, bool, str, bytes, date or datetime, got {value!r}"
        )
    return value


def _is_masked(value: Any) -> bool:
    """Whether it is what a masked array of numpy has in place of a value."""
    mask = getattr(value, "mask", None)
    return getattr(value, "shape", None) == () and getattr(mask, "shape", None) == () and bool(mask)


def is_list(values: Any) -> bool:
    """Whether it can be a list of values: neither a text nor an array without dimensions."""
    return not isinstance(values, (str, bytes)) and hasattr(values, "__iter__") and getattr(values, "shape", None) != ()


def _listed(terms: Any) -> Any:
    if isinstance(terms, (Expression, ColumnExpression)):
        raise InvalidError(f"a list of terms holds {terms!r} (combine expressions with & and |, without lists)")
    return terms
