"""Under which name public things are shown and pickled: the one that users import, wherever they are written."""

from __future__ import annotations

import sys

__all__: list[str] = []


def publish(door: str) -> None:
    """Names a public module as the one of all that its ``__all__`` lists and this package has written."""
    module = sys.modules[door]
    for name in module.__all__:
        made = getattr(module, name)
        if str(getattr(made, "__module__", "")).startswith("forebay."):
            made.__module__ = door
