"""What a loader says about itself: readable when printed, a dict for programs."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["Plan", "Stats"]


class _Report:
    """Text for people, JSON for programs."""

    __slots__ = ("_json", "_text")

    def __init__(self, text: str, as_json: str) -> None:
        self._text = text
        self._json = as_json

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON types."""
        result: dict[str, Any] = json.loads(self._json)
        return result

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._json == self._json

    def __hash__(self) -> int:
        return hash(self._json)


class Plan(_Report):
    """What this rank reads in an epoch, and in how many steps: known before any data is read."""

    __slots__ = ()


class Stats(_Report):
    """What was read, decoded and waited for so far."""

    __slots__ = ()
