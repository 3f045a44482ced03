"""Filters as pyarrow, Petastorm and Hugging Face users already write them."""

from __future__ import annotations

import json
import math
from typing import Any

from .errors import InvalidError

__all__: list[str] = []

_OPERATORS = ("=", "==", "!=", "<", "<=", ">", ">=", "in", "not in")
_FORM = "a filter is [(column, op, value), ...], all of which hold, or a list of such lists, one of which holds"


def to_json(filter: Any) -> str | None:
    """The filter as the library reads it; ``None`` for none."""
    if filter is None:
        return None
    if isinstance(filter, (str, bytes)) or not hasattr(filter, "__iter__"):
        raise InvalidError(f"filter={filter!r} is no filter ({_FORM})")
    lists = list(filter)
    if not lists:
        raise InvalidError(f"filter=[] is empty (pass None to read all rows; {_FORM})")
    if _is_term(lists[0]):
        lists = [lists]
    return json.dumps({"any_of": [[_term(term) for term in terms] for terms in lists]})


def _is_term(candidate: Any) -> bool:
    return isinstance(candidate, (tuple, list)) and len(candidate) == 3 and isinstance(candidate[0], str)


def _term(term: Any) -> dict[str, Any]:
    if not _is_term(term):
        raise InvalidError(f"{term!r} is no term of a filter ({_FORM})")
    column, op, value = term
    if op not in _OPERATORS:
        raise InvalidError(f"a filter cannot compare with {op!r} (use one of {', '.join(_OPERATORS)})")
    if op in ("in", "not in"):
        if isinstance(value, (str, bytes)) or not hasattr(value, "__iter__"):
            raise InvalidError(f"({column!r}, {op!r}, {value!r}): {op} takes a list of values")
        values = [_value(column, item) for item in value]
        # A set has no order of its own, and the filter is part of what identifies an order.
        value = sorted(values, key=repr) if isinstance(value, (set, frozenset)) else values
    else:
        value = _value(column, value)
    return {"column": column, "op": "=" if op == "==" else op, "value": value}


def _value(column: str, value: Any) -> bool | int | float | str:
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a numpy scalar
        value = value.item()
    if isinstance(value, bytes):
        try:
            value = value.decode()
        except UnicodeDecodeError:
            raise InvalidError(f"column {column!r}: a filter compares with bytes only if they are UTF-8") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise InvalidError(f"column {column!r}: a filter cannot compare with {value}")
    if isinstance(value, int) and not isinstance(value, bool) and not -(1 << 63) <= value < 1 << 63:
        raise InvalidError(f"column {column!r}: {value} does not fit 64 bits")
    if not isinstance(value, (bool, int, float, str)):
        raise InvalidError(f"column {column!r}: a filter compares numbers, booleans and strings, not {value!r}")
    return value
