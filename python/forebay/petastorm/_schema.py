"""Reads the Petastorm schema that is stored in a data set, as plain values. The stored schema is a pickle,
but nothing in it is imported, called or unpickled.

Only this file knows the stored form.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from .._forebay import petastorm_schema
from ..options.storage import store_options

__all__: list[str] = []

#: The key of the schema in the metadata of a data set.
KEY = b"dataset-toolkit.unischema.v1"


class PlainField(NamedTuple):
    """One field of a stored Petastorm schema."""

    name: str
    dtype: str
    """The name of a type of numpy, such as ``"uint8"`` or ``"str_"``, or ``"Decimal"``."""
    shape: tuple[int | None, ...]
    codec: tuple[Any, ...] | None
    """The name of the codec and its arguments: ``("scalar", "IntegerType")``,
    ``("scalar", "DecimalType", 10, 9)``, ``("ndarray",)``, ``("compressed_ndarray",)``, or
    ``("image", "png", 80)``."""
    nullable: bool


class PlainSchema(NamedTuple):
    """A stored Petastorm schema."""

    name: str
    fields: tuple[PlainField, ...]


def stored(url: str, storage_options: Mapping[str, Any] | None) -> PlainSchema | None:
    """Returns the schema of a data set, or None if it has none."""
    found = petastorm_schema(url, store_options(dict(storage_options or {})))
    if found is None:
        return None
    name, fields = found
    return PlainSchema(name, tuple(PlainField(*field) for field in fields))
