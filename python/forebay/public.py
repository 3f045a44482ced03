"""Sets the module of public objects to the one from which users import them, so that messages, help and
pickles name that module."""

from __future__ import annotations

import sys

__all__: list[str] = []


def publish(door: str) -> None:
    """Sets ``__module__`` to ``door``, the name of a public module, for the objects that the ``__all__`` of
    that module lists. Only objects that this package defines are changed."""
    module = sys.modules[door]
    for name in module.__all__:
        made = getattr(module, name)
        if str(getattr(made, "__module__", "")).startswith("forebay."):
            made.__module__ = door
