"""Tables of pyiceberg, opened by the file of their metadata."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _forebay
from .storage import options

__all__: list[str] = []


def located(urls: Any, storage_options: Any) -> tuple[Any, dict[str, Any] | None]:
    """A location with the options of its store: those of a table of pyiceberg, or what was given."""
    location, io = getattr(urls, "metadata_location", None), getattr(urls, "io", None)
    settings = getattr(io, "properties", None)
    given = options(storage_options)
    if not isinstance(location, str) or not isinstance(settings, Mapping):
        return urls, given
    ours = _forebay.store_options(location, {str(name): str(value) for name, value in settings.items()})
    return location, {**ours, **(given or {})} or None
