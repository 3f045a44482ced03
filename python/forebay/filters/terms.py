"""Filters in every form that users write: lists of terms, and expressions of forebay, pyarrow and Polars."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from .._forebay import FILTER_OPERATORS
from ..errors import InvalidError
from . import foreign
from .expressions import ColumnExpression, Expression
from .literals import is_list, value_of

__all__: list[str] = []

_FORM = (
    "pass [(column, op, value), ...], all of which must hold, a list of such lists, one of which must hold, or an "
    "expression such as fb.col('label') < 100"
)


def settled(filter: Any) -> Any:
    """Makes a filter that can be read several times: iterators become lists, and expressions of other
    packages become expressions of forebay."""
    translated = foreign.translated(filter)
    if translated is not None:
        return translated
    if isinstance(filter, Iterator):
        filter = list(filter)
    if isinstance(filter, list):
        return [settled(part) for part in filter]
    return tuple(settled(part) for part in filter) if isinstance(filter, tuple) else filter


def to_json(filter: Any) -> str | None:
    """The filter as JSON for the compiled library; ``None`` without a filter."""
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
            "filter is a function, but rows are selected before they are read (pass an expression such as "
            "fb.col('label') < 100, or list the row ids to leave out in deny=, if only Python can select "
            "them)"
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
            raise InvalidError(f"({column!r}, {op!r}, {value!r}): {op} needs a list of values (pass [{value!r}])")
        values = [value_of(item, f"column {column!r}") for item in value]
        # Sets are sorted, so that equal filters give equal text, which is compared when a state is loaded.
        value = sorted(values, key=repr) if isinstance(value, (set, frozenset)) else values
    else:
        value = value_of(value, f"column {column!r}")
    return {"column": column, "op": op, "value": value}


def _listed(terms: Any) -> Any:
    if isinstance(terms, (Expression, ColumnExpression)):
        raise InvalidError(f"a list of terms holds {terms!r} (combine expressions with & and |, without lists)")
    return terms
