"""Sizes as people write them, read by the library."""

from __future__ import annotations

import operator
from typing import Any

from . import _forebay
from .errors import InvalidError


def parse_bytes(size: Any, name: str) -> int:
    """Bytes of ``"12GB"`` or ``"12g"`` (powers of 1000), ``"4GiB"`` (powers of 1024) or a plain number.

    >>> parse_bytes("4GiB", "memory")
    4294967296
    """
    try:
        number = _forebay.parse_size(size) if isinstance(size, str) else operator.index(size)
    except (InvalidError, TypeError):
        number = None
    if number is None or isinstance(size, bool):
        raise InvalidError(f"{name}={size!r} is no size (write '12GB', '4GiB' or a number of bytes)")
    if not 0 < number < 1 << 64:
        raise InvalidError(f"{name}={size!r} is no size (a size is 1 byte or more, in 64 bits)")
    return number
