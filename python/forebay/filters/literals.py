"""Converts the values that filters and ``deny=`` compare with, such as numbers, texts and times."""

from __future__ import annotations

import datetime
import math
from typing import Any

from ..errors import InvalidError
from ..options.checks import given

__all__: list[str] = []

#: The range of integers in a filter: all values of int64 and uint64.
SMALLEST, LARGEST = -(1 << 63), (1 << 64) - 1


def value_of(value: Any, beside: str) -> bool | int | float | str:
    """Converts a value of a filter to the form that the compiled library reads; ``beside`` names its column
    in errors."""
    if (type(value) is int and SMALLEST <= value <= LARGEST) or (type(value) is str and value.isascii()):
        # Most values of long lists are returned here, without the slower checks below.
        return value
    if _is_masked(value):
        raise InvalidError(f"{beside}: a value in a filter is masked (leave it out, as with .compressed())")
    if hasattr(value, "dtype") and getattr(value, "shape", None) == ():  # a scalar of numpy or torch
        # item() of a numpy time in nanoseconds is an int without its unit, so times become text.
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
    """Whether a value is the placeholder of a masked value in a masked array of numpy."""
    mask = getattr(value, "mask", None)
    return getattr(value, "shape", None) == () and getattr(mask, "shape", None) == () and bool(mask)


def is_list(values: Any) -> bool:
    """Whether an object can be a list of values: it is iterable, and is not a ``str``, ``bytes`` or an array
    without dimensions."""
    return not isinstance(values, (str, bytes)) and hasattr(values, "__iter__") and getattr(values, "shape", None) != ()
