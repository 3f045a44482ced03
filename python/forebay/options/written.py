"""Makes the ``repr`` of an option: the Python call that creates it."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

__all__: list[str] = []


def written(value: Any, *positional: Any) -> str:
    """Returns a dataclass as the text of the call that makes it, with these positional arguments and with the
    keyword arguments that differ from their defaults."""
    named = ((of.name, getattr(value, of.name), of.default) for of in fields(value) if of.kw_only)
    options = [f"{name}={given!r}" for name, given, default in named if given != default]
    return f"forebay.{type(value).__name__}({', '.join([*map(repr, positional), *options])})"
