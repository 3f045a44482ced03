"""Costs of rows: the name of a column, or an expression of columns."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InvalidError
from ..options.checks import kind_of, ordered
from .expressions import ColumnExpression, Expression

__all__: list[str] = []

Cost = str | ColumnExpression
"""A column, which stands for its number or for the length of its list or text; or arithmetic on columns."""


def cost_of(value: Any, argument: str) -> Cost:
    """Checks a cost, which was given for an argument."""
    if isinstance(value, (str, ColumnExpression)):
        return value
    if isinstance(value, Expression):
        raise InvalidError(f"{argument} must be a number of each row, got the condition {value!r}")
    raise InvalidError(
        f"{argument} must be the name of a column or an expression of columns, got {value!r} "
        "(pass forebay.col('a') + forebay.col('b'))"
    )


def costs_of(value: Any, argument: str) -> list[Cost] | None:
    """Returns the costs of an argument as a list, because a user may also pass a single one."""
    if value is None:
        return None
    if isinstance(value, (str, ColumnExpression, Expression)):
        return [cost_of(value, argument)]
    ordered(value, argument)
    if not isinstance(value, Iterable) or isinstance(value, (bytes, Mapping)):
        raise InvalidError(
            f"{argument} must be a column, an expression of columns or a list of them, got {kind_of(value)}"
        )
    costs = [cost_of(one, argument) for one in value]
    if not costs:
        raise InvalidError(f"{argument} names no column (name one, or leave {argument} out)")
    return costs


def spec_of(cost: Cost) -> Any:
    """A cost as JSON values, for the spec that the compiled library reads."""
    return cost if isinstance(cost, str) else cost._node
