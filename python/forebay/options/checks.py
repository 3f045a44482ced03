"""Functions that check the value of one argument, and raise an error that names the argument if it is
invalid."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from numbers import Integral, Real
from typing import Any

import numpy as np

from ..errors import InvalidError

__all__: list[str] = []

#: The longest int, in bits, that a message shows in full.
_MAX_SHOWN_BITS = 256


def whole(value: Any, name: str, least: int, bits: int = 64) -> int:
    """``value`` as an int of at least ``least`` that fits the given number of bits, or an error that names
    the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidError(f"{name} must be an int, got {value!r}") from None
    if isinstance(value, bool):
        raise InvalidError(f"{name} must be an int, got {value!r}")
    if number < least:
        raise InvalidError(f"{name} must be at least {least}, got {given(value)}")
    if number >= 1 << bits:
        raise InvalidError(f"{name} must fit {bits} bits, got {given(value)}")
    return number


def named(value: Any, name: str, names: tuple[str, ...]) -> None:
    """Refuses a value of the argument ``name`` that is not one of the texts in ``names``."""
    if not isinstance(value, str) or value not in names:
        *others, last = map(repr, names)
        raise InvalidError(f"{name} must be {', '.join(others)} or {last}, got {value!r}")


def flag(value: Any, name: str) -> bool:
    """``value`` as a bool, or an error that names the argument."""
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def ordered(value: Any, argument: str) -> None:
    """Refuses a set, because the order of its items may differ from process to process."""
    if isinstance(value, (set, frozenset)):
        raise InvalidError(f"{argument} must have an order, got a set (pass a list)")


def names(columns: Any, argument: str = "columns") -> list[str]:
    """Returns column names as a list, or raises an error that names the argument."""
    if isinstance(columns, str):
        raise InvalidError(f"{argument} must be a list of names, got one string (pass [{columns!r}])")
    ordered(columns, argument)
    if not isinstance(columns, Iterable) or isinstance(columns, (bytes, Mapping)):
        got = given(columns) if isinstance(columns, bool) else type(columns).__qualname__
        raise InvalidError(f'{argument} must be a list of names, got {got} (pass ["name"], with those of the columns)')
    found = list(columns)
    for name in found:
        if not isinstance(name, str):
            raise InvalidError(f"{argument} must be a list of names, got {name!r} in it")
    return found


def mapping(value: Any, name: str, example: str) -> dict[str, Any]:
    """``value`` as a dict with text as keys, or an error that names the argument."""
    try:
        found = dict(value)
    except (TypeError, ValueError):
        found = {0: 0}
    for key in found:
        if not isinstance(key, str):
            # The message does not show the value, because storage options may be secrets.
            raise InvalidError(
                f'{name} must be a dict with str as keys, got {kind_of(value)} (pass {{"...": {example}}})'
            )
    return found


def check_number(value: Any, name: str = "value") -> None:
    """Refuses a ``value`` that is not a number, or that a float64 cannot hold exactly."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidError(f"{name} must be a number, got {value!r}")
    # An int of numpy becomes one of Python, because numpy would round it to a float before it compares the
    # two.
    exact = int(value) if isinstance(value, Integral) else value
    try:
        is_held = exact != exact or float(exact) == exact
    except OverflowError:
        is_held = False
    if not is_held:
        raise InvalidError(f"{name} has more digits than a float64 holds, got {given(value)}")


def kind_of(value: Any) -> str:
    """The name of a value's type, for a message."""
    return "None" if value is None else type(value).__qualname__


def given(value: Any) -> str:
    """A value as text for a message. Python refuses to print an int of thousands of digits."""
    if isinstance(value, int) and value.bit_length() > _MAX_SHOWN_BITS:
        return f"an int of {value.bit_length()} bits"
    return repr(value)
