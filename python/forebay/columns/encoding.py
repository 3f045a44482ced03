"""The base class of ``Vocabulary`` and ``Hash``, which encode the values of a column as integers."""

from __future__ import annotations

from typing import Any

__all__: list[str] = []


class Encoding:
    """Base class of the objects for ``encode=``, which turn the values of a column into integer codes."""

    __slots__ = ()

    def _spec(self) -> dict[str, Any]:
        """This object as JSON values, for the spec that the compiled library reads."""
        raise NotImplementedError
