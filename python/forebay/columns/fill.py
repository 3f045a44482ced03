"""Values in place of nulls."""

from __future__ import annotations

from numbers import Real
from typing import Any

from ..errors import InvalidError
from ..options.checks import given

__all__: list[str] = []


def filler(name: str, value: Any) -> int | float | str | bytes:
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a numpy scalar
        value = value.item()
    if isinstance(value, (str, bytes)):
        return value
    if not isinstance(value, Real):
        raise InvalidError(
            f"fill_null[{name!r}] must be a number, str or bytes, got {value!r} "
            "(for times, pass a number in the column's unit)"
        )
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise InvalidError(f"fill_null[{name!r}] must be from -2**63 to 2**64 - 1 as an int, got {given(value)}")
        # Exact, where a float would not be.
        return int(value)
    return float(value)
