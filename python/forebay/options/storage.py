"""Checks the arguments that say how the files at a location are opened: storage options, the types of the
keys in folder names such as ``day=3``, and versions of tables."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Any

from ..errors import InvalidError
from .checks import mapping, whole

__all__: list[str] = []


def options(storage_options: Any) -> dict[str, Any] | None:
    """Checks that ``storage_options=`` has texts as keys, and returns it as a dict with its values
    unchanged."""
    return None if storage_options is None else mapping(storage_options, "storage_options", "...")


def store_options(storage_options: dict[str, Any] | None) -> dict[str, str]:
    """The storage options with all values as text, which the compiled library requires."""
    return {str(name): str(value) for name, value in (storage_options or {}).items()}


def key_types(given: Mapping[str, Any] | None) -> dict[str, str]:
    """Returns ``partition_types=``, the types of the keys in folder names such as ``day=3``, as names of
    types."""
    if given is None:
        return {}
    if not isinstance(given, Mapping) or not all(isinstance(name, str) for name in given):
        raise InvalidError(f"partition_types must be a dict such as {{'day': 'date'}}, got {given!r}")
    return {name: kind.__name__ if isinstance(kind, type) else str(kind) for name, kind in given.items()}


def hub_part(split: Any, config: Any) -> tuple[str | None, str | None]:
    """Checks ``split=`` and ``config=``, which choose a part of a folder that is laid out as on the Hugging Face
    hub."""
    for name, given, example in (("split", split, "train"), ("config", config, "default")):
        if given is not None and (not isinstance(given, str) or not given):
            raise InvalidError(f"{name} must be a name such as {example!r}, got {given!r}")
    if split is not None and set(split) & set("+[]:%"):
        raise InvalidError(
            f"split must be the name of one split, got {split!r} (open several splits by their files; for a part of "
            "the rows, filter by forebay.row_fraction)"
        )
    return split, config


def table_version(version: Any, timestamp: Any) -> tuple[str | None, str | None]:
    """Checks ``version=`` and ``timestamp=``, which select the version of a table, and returns both as
    text."""
    if version is not None and timestamp is not None:
        raise InvalidError("version and timestamp were both given (pass one of them)")
    if timestamp is not None and not isinstance(timestamp, (str, date)):
        raise InvalidError(f"timestamp must be a text or a datetime, got {timestamp!r}")
    text = timestamp.isoformat() if isinstance(timestamp, date) else timestamp
    if version is None or (isinstance(version, str) and version):
        return version, text
    return str(whole(version, "version", 0)), text
