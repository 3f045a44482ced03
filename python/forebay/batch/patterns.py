"""Finds the columns of a batch that names and patterns mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from .._forebay import matching_names

__all__: list[str] = []


def columns_meant(listed: Iterable[str], batch: Mapping[str, Any]) -> list[str]:
    """Returns the columns that a list of names and patterns means, each once: the columns that a pattern matches
    come in the order of the batch, without those that are listed by name. A name or pattern that matches no column
    of the batch is returned as it is."""
    names, columns = list(listed), list(batch)
    meant: list[str] = []
    for name in names:
        matching = matching_names(name, columns) or [name]
        meant += [one for one in matching if one not in meant and (one == name or one not in names)]
    return meant
