"""Arguments on stored files besides their location: options of the store, types of the keys of folders, and
versions of tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from ..errors import InvalidError
from .checks import mapping, whole

__all__: list[str] = []


def options(storage_options: Any) -> dict[str, Any] | None:
    """The options of a store with their values unchanged."""
    return None if storage_options is None else mapping(storage_options, "storage_options", "...")


def store_options(storage_options: dict[str, Any] | None) -> dict[str, str]:
    """The options of a store with their values as text."""
    return {str(name): str(value) for name, value in (storage_options or {}).items()}


def key_types(given: Mapping[str, Any] | None) -> dict[str, str]:
    """The types of the keys of folders, by the names that numpy and pyarrow use."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidError(f"partition_types must be a dict such as {{'day': 'date'}}, got {given!r}")
    return {name: kind.__name__ if isinstance(kind, type) else str(kind) for name, kind in given.items()}


def table_version(version: Any, timestamp: Any) -> tuple[str | None, str | None]:
    """Which version of a table is opened, as text: its number or name, or a time."""
    if version is not None and timestamp is not None:
        raise InvalidError("version and timestamp were both given (pass one of them)")
    if timestamp is not None and not isinstance(timestamp, (str, date)):
        raise InvalidError(f"timestamp must be a text or a datetime, got {timestamp!r}")
    text = timestamp.isoformat() if isinstance(timestamp, date) else timestamp
    if version is None or (isinstance(version, str) and version):
        return version, text
    return str(whole(version, "version", 0)), text
