"""The base of the two ways to encode a column."""

from __future__ import annotations

from typing import Any

__all__: list[str] = []


class Encoding:
    """How the values of a column become integer codes: a value for ``encode=``."""

    __slots__ = ()

    def _spec(self) -> dict[str, Any]:
        """The value in the form that the library reads."""
        raise NotImplementedError
