"""The argument ``skip_steps``: ranges of steps that a loader skips."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping
from typing import Any

from ..errors import InvalidError
from ..options.checks import given

__all__: list[str] = []


def steps(ranges: Any) -> list[list[int]]:
    """Checks ``skip_steps``, and returns each range as its first step and the step after its last one."""
    wanted = "pass [(4000, 4010)] to skip steps 4000 to 4009"
    if isinstance(ranges, (str, bytes, Mapping)) or not isinstance(ranges, Iterable):
        raise InvalidError(f"skip_steps must be a list of pairs, got {ranges!r} ({wanted})")
    found = []
    for pair in ranges:
        try:
            first, after = (operator.index(step) for step in pair)
        except (TypeError, ValueError):
            raise InvalidError(f"skip_steps must be a list of pairs of ints, got {pair!r} in it ({wanted})") from None
        if not 0 <= first < after < 1 << 64:
            raise InvalidError(f"skip_steps has a range from {given(first)} to {given(after)} ({wanted})")
        found.append([first, after])
    return found
