"""Reads the loader's ``deny=`` and ``deny_from=``: rows to leave out, by their ids or by values of
columns."""

from __future__ import annotations

import json
import operator
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .. import _forebay
from ..errors import InvalidError
from ..filters.literals import is_list, value_of
from ..options.checks import given, whole
from ..options.locations import locations

__all__: list[str] = []


@dataclass(frozen=True, repr=False)
class Denied:
    """The rows that ``deny=`` says to leave out, by row ids and by values of columns. Lists in files have
    already been read into it."""

    rows: tuple[int, ...]
    values: tuple[tuple[str, tuple[Any, ...]], ...]

    @classmethod
    def of(cls, deny: Any) -> Denied:
        """Reads the argument ``deny``: a list of row ids, a file with such a list, values by column, or
        several of these."""
        rows: set[int] = set()
        values: dict[str, list[Any]] = {}
        for part in _parts(deny):
            if isinstance(part, (str, os.PathLike)):
                rows.update(json.loads(_forebay.denied_rows(*locations(part))).get("rows", []))
            elif isinstance(part, Mapping):
                for column, listed in part.items():
                    values.setdefault(_column(column), []).extend(_values(column, listed))
            else:
                rows.update(_rows(part))
        return cls(tuple(sorted(rows)), tuple((column, tuple(values[column])) for column in sorted(values)))

    def _spec(self) -> dict[str, Any]:
        return {"rows": list(self.rows), "values": {column: list(values) for column, values in self.values}}

    def __repr__(self) -> str:
        parts = [f"{len(self.rows)} rows"] if self.rows else []
        parts += [f"{len(values)} values of {column!r}" for column, values in self.values]
        return f"<{', '.join(parts) or 'nothing'}>"


def denied_from(changes: Any) -> dict[int, Denied] | None:
    """Reads the argument ``deny_from``: for each step, the rows that are left out from this step on."""
    if changes is None:
        return None
    if not isinstance(changes, Mapping):
        raise InvalidError(f"deny_from must be a dict of rows by step, got {changes!r} (pass {{4000: [row_id]}})")
    found = {whole(step, "a step of deny_from", 0): Denied.of(deny) for step, deny in changes.items()}
    return dict(sorted(found.items()))


def _parts(deny: Any) -> list[Any]:
    if isinstance(deny, (str, os.PathLike, Mapping)) or _is_place(deny):
        return [deny]
    listed = _listed(deny)
    if isinstance(listed, bytes) or not isinstance(listed, Iterable):
        raise InvalidError(
            f"deny must be a list of row ids, the file of one, or a dict of values by column, got {deny!r} "
            '(pass [row_id], "rows.txt" or {"url": ["..."]})'
        )
    return list(listed)


def _listed(several: Any) -> Any:
    """Converts an array to a list. An array without dimensions, such as an item of a tensor, becomes a
    number."""
    return several.tolist() if hasattr(several, "tolist") else several


def _is_place(part: Any) -> bool:
    """Whether ``part`` is an item that ``which`` or ``skipped`` of a loader returns for a row."""
    return isinstance(part, tuple) and hasattr(part, "row_id")


def _rows(part: Any) -> list[int]:
    if _is_place(part):
        if part.row_id is None:
            raise InvalidError(f"deny has {part!r} in it, which has no row id (pass results of which() or skipped())")
        return [int(part.row_id)]
    listed = _listed(part)
    if not isinstance(listed, Iterable) or isinstance(listed, bytes):
        return [_row(listed)]
    return [row for item in listed for row in (_rows(item) if _is_place(item) else [_row(item)])]


def _row(part: Any) -> int:
    try:
        number = operator.index(part)
    except TypeError:
        raise InvalidError(f"deny must have row ids, files and dicts in it, got {part!r}") from None
    if isinstance(part, bool) or not -(1 << 63) <= number < 1 << 63:
        raise InvalidError(f"deny has {given(part)} in it, which is not a row id (row ids fit an int64)")
    return number


def _column(column: Any) -> str:
    if not isinstance(column, str):
        raise InvalidError(f'deny must have names of columns as keys, got {column!r} (pass {{"url": ["..."]}})')
    return column


def _values(column: str, listed: Any) -> list[Any]:
    if isinstance(listed, (str, os.PathLike)):
        read: list[Any] = json.loads(_forebay.denied_values(column, *locations(listed)))["values"][column]
        return read
    if isinstance(listed, Mapping) or not is_list(listed):
        raise InvalidError(f"deny[{column!r}] must be a list of values or the file of one, got {listed!r}")
    return [value_of(value, f"deny[{column!r}]") for value in listed]
