"""Checks the values that replace nulls, as a user passes them to ``fill_null=``."""

from __future__ import annotations

from numbers import Real
from typing import Any

from ..errors import InvalidError
from ..options.checks import given

__all__: list[str] = []


def filler(value: Any, argument: str) -> int | float | str | bytes:
    """Checks a value that replaces nulls; an error names the argument."""
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a numpy scalar
        value = value.item()
    if isinstance(value, (str, bytes)):
        return value
    if not isinstance(value, Real):
        raise InvalidError(
            f"{argument} must be a number, str or bytes, got {value!r} (for times, pass a number in the column's unit)"
        )
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise InvalidError(f"{argument} must be from -2**63 to 2**64 - 1 as an int, got {given(value)}")
        # A float would round large ints.
        return int(value)
    return float(value)
