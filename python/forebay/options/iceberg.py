"""Finds the metadata file and the storage options of a pyiceberg table that a user passes as ``urls``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _forebay
from .storage import options

__all__: list[str] = []


def located(urls: Any, storage_options: Any) -> tuple[Any, dict[str, Any] | None]:
    """Returns the location to open and its storage options. For a pyiceberg table these are its metadata file
    and its own options, with those of the user added; other locations are returned as they are."""
    location, io = getattr(urls, "metadata_location", None), getattr(urls, "io", None)
    settings = getattr(io, "properties", None)
    given = options(storage_options)
    if not isinstance(location, str) or not isinstance(settings, Mapping):
        return urls, given
    ours = _forebay.store_options(location, {str(name): str(value) for name, value in settings.items()})
    return location, {**ours, **(given or {})} or None
