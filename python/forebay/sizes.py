"""Sizes as people write them."""

from __future__ import annotations

import re

from .errors import InvalidError

_UNITS = {"": 1}
for _power, _letter in enumerate("KMGT", start=1):
    _UNITS[f"{_letter}B"] = 1000**_power
    _UNITS[f"{_letter}IB"] = 1024**_power
_UNITS["B"] = 1

_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]+)?)\s*([A-Za-z]*)\s*")


def parse_bytes(size: str | int, name: str) -> int:
    """Bytes of ``"12GB"`` (powers of 1000), ``"4GiB"`` (powers of 1024) or a plain number.

    >>> parse_bytes("4GiB", "memory")
    4294967296
    """
    if isinstance(size, int) and not isinstance(size, bool):
        value, unit = float(size), ""
        number = size
    else:
        match = _SIZE.fullmatch(size) if isinstance(size, str) else None
        unit = match[2].upper() if match else "?"
        if match is None or unit not in _UNITS:
            raise InvalidError(f"{name}={size!r} is no size (write '12GB', '4GiB' or a number of bytes)")
        value = float(match[1])
        number = int(value * _UNITS[unit])
    if number <= 0:
        raise InvalidError(f"{name}={size!r} is no size (a size is 1 byte or more)")
    return number
