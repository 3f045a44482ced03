"""Reads the features that Hugging Face's ``datasets`` keeps in the metadata of Parquet files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

__all__: list[str] = []


def class_names(metadata: str | None) -> dict[str, list[str]]:
    """The names of classes by column, from the metadata ``huggingface`` of a file. Metadata that cannot be read
    declare nothing."""
    try:
        features = json.loads(metadata or "{}")["info"]["features"]
        return dict(_of_fields("", features))
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        return {}


def _of_fields(before: str, fields: Mapping[str, Any]) -> Iterator[tuple[str, list[str]]]:
    """The names of the classes in each field, whose name begins with ``before``."""
    for name, feature in fields.items():
        yield from _of_feature(f"{before}{name}", feature)


def _of_feature(name: str, feature: Any) -> Iterator[tuple[str, list[str]]]:
    # Older files write a list of one feature for a column of lists.
    while isinstance(feature, list) and len(feature) == 1:
        feature = feature[0]
    if not isinstance(feature, dict):
        return
    kind = feature.get("_type")
    if kind == "ClassLabel" and isinstance(feature.get("names"), list):
        yield name, [str(one) for one in feature["names"]]
    elif isinstance(kind, str):
        yield from _of_feature(name, feature.get("feature"))
    else:
        yield from _of_fields(f"{name}.", feature)
