"""Filters as pyarrow, Petastorm and Hugging Face users already write them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

from ._forebay import FILTER_OPERATORS
from .errors import InvalidError
from .sizes import given

__all__: list[str] = []

_FORM = "pass [(column, op, value), ...], all of which must hold, or a list of such lists, one of which must hold"


def settled(filter: Any) -> Any:
    """The same filter with lists for iterators, which are used up once they were read."""
    if isinstance(filter, Iterator):
        filter = list(filter)
    if isinstance(filter, list):
        return [settled(part) for part in filter]
    return tuple(settled(part) for part in filter) if isinstance(filter, tuple) else filter


def to_json(filter: Any) -> str | None:
    """The filter as the library reads it; ``None`` for none."""
    if filter is None:
        return None
    if isinstance(filter, (str, bytes)) or not hasattr(filter, "__iter__"):
        raise InvalidError(f"filter must be a list, got {filter!r} ({_FORM})")
    if _is_term(filter):
        raise InvalidError(f"filter must be a list of terms, got one term (pass [{filter!r}])")
    lists = list(filter)
    if not lists:
        raise InvalidError("filter is empty (pass None to read all rows)")
    if _is_term(lists[0]):
        lists = [lists]
    return json.dumps({"any_of": [[_term(term) for term in terms] for terms in lists]})


def _is_term(candidate: Any) -> bool:
    return isinstance(candidate, (tuple, list)) and len(candidate) == 3 and isinstance(candidate[0], str)


def _term(term: Any) -> dict[str, Any]:
    if not _is_term(term):
        raise InvalidError(f"a term of a filter must be (column, op, value), got {term!r} ({_FORM})")
    column, op, value = term
    if not isinstance(op, str) or op not in FILTER_OPERATORS:
        raise InvalidError(f"the operator of a filter must be one of {', '.join(FILTER_OPERATORS)}, got {op!r}")
    if op in ("in", "not in"):
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise InvalidError(f"({column!r}, {op!r}, {value!r}): {op} needs a list of values")
        values = [_value(column, item) for item in value]
        # A set has no order of its own, and the filter is part of what identifies an order.
        value = sorted(values, key=repr) if isinstance(value, (set, frozenset)) else values
    else:
        value = _value(column, value)
    return {"column": column, "op": op, "value": value}


def _value(column: str, value: Any) -> bool | int | float | str:
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a numpy scalar
        value = value.item()
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise InvalidError(f"column {column!r}: bytes in a filter must be UTF-8") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidError(f"column {column!r}: a number in a filter must be finite, got {value}")
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 63:
        raise InvalidError(f"column {column!r}: an int in a filter must be from -2**63 to 2**63 - 1, got {given(value)}")
    if not isinstance(value, (bool, int, float, str)):
        raise InvalidError(
            f"column {column!r}: a value in a filter must be a number, bool, str or bytes, got {value!r}"
        )
    return value
