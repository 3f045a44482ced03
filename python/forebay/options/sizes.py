"""Parses sizes in bytes, such as ``"12GB"``."""

from __future__ import annotations

import operator
from typing import Any

from .. import _forebay
from ..errors import InvalidError
from .checks import given

__all__: list[str] = []

_ACCEPTED = "write '12GB' or '12g' for powers of 1000, '4GiB' or '4Gi' for powers of 1024, or a number of bytes"


def parse_bytes(size: Any, name: str) -> int:
    """Converts ``"12GB"``, ``"12g"``, ``"4GiB"``, ``"4Gi"`` or a plain number to bytes. The command line
    program accepts the same forms.

    Parameters
    ----------
    size : str or int
        The size.
    name : str
        Name of the argument, for the message of the error.

    Returns
    -------
    int
        Bytes, at least 1.

    Raises
    ------
    InvalidError
        ``size`` is not a size, is 0, or does not fit 64 bits.

    Examples
    --------
    >>> from forebay.options.sizes import parse_bytes
    >>> parse_bytes("4GiB", "memory")
    4294967296
    """
    try:
        number = _forebay.parse_size(size) if isinstance(size, str) else operator.index(size)
    except (InvalidError, TypeError):
        number = None
    if number is None or isinstance(size, bool):
        raise InvalidError(f"{name} must be a size, got {size!r} ({_ACCEPTED})")
    if not 0 < number < 1 << 64:
        raise InvalidError(f"{name} must be at least 1 byte and fit 64 bits, got {given(size)} ({_ACCEPTED})")
    return number
