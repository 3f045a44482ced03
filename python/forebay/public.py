"""Shows and pickles public objects under the module from which users import them, not the one that defines
them."""

from __future__ import annotations

import sys

__all__: list[str] = []


def publish(door: str) -> None:
    """Sets ``__module__`` of all objects of this package in a public module's ``__all__`` to that module."""
    module = sys.modules[door]
    for name in module.__all__:
        made = getattr(module, name)
        if str(getattr(made, "__module__", "")).startswith("forebay."):
            made.__module__ = door
