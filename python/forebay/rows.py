"""Which row is which: numbers of rows, their places, and rows that are left out."""

from __future__ import annotations

import contextlib
import json
import operator
import os
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _forebay
from .errors import InvalidError, IoError
from .literals import is_list, value_of
from .locations import locations
from .sizes import given

if TYPE_CHECKING:
    from .dataset import Dataset

__all__ = ["RowId", "RowPlace"]


class RowId(int):
    """The number of a row: of the path of its file below what was opened, and its ordinal there.

    It is the same in every process, for each order, filter and set of columns, and in every copy of the data set, and stays
    the same when other files are added or removed. It does not say what the row holds: a file that is written again under
    its name has the same numbers. ``row_id=True`` of :class:`Loader` delivers them as a column.

    Examples
    --------
    >>> import forebay as fb
    >>> dataset = fb.Dataset("data/train/")
    >>> batch = next(iter(dataset.loader(columns=["label"], row_id=True)))
    >>> place = fb.RowId(batch["row_id"][3]).place(dataset)
    >>> place.row_group, place.row
    (0, 3)
    """

    def place(self, dataset: Dataset) -> RowPlace:
        """Where the row is stored.

        Parameters
        ----------
        dataset : Dataset
            The data set that it is a row of.

        Returns
        -------
        RowPlace
            File, row group and row.

        Raises
        ------
        InvalidError
            The data set has no such row.
        """
        found = dataset._native.row(int(self))
        if found is None:
            raise InvalidError(
                f"{dataset!r} has no row {int(self)} (a row id holds for one root folder and its copies)"
            )
        return RowPlace._of(found)

    def __repr__(self) -> str:
        return f"forebay.RowId({int(self)})"

    __str__ = int.__repr__


class RowPlace(NamedTuple):
    """Where a row is stored.

    Attributes
    ----------
    file : str
        Path or URL of the file.
    row_group : int
        Ordinal of the row group in the file, from 0.
    row : int
        Ordinal of the row in its row group, from 0.
    row_id : RowId
        Its number in the data set.
    """

    file: str
    row_group: int
    row: int
    row_id: RowId

    @classmethod
    def _of(cls, native: tuple[str, int, int, int]) -> RowPlace:
        """The place as the compiled half has it."""
        file, row_group, row, row_id = native
        return cls(file, row_group, row, RowId(row_id))


@dataclass(frozen=True, repr=False)
class Denied:
    """Rows that are left out: the value of ``deny``, once files were read."""

    rows: tuple[int, ...]
    values: tuple[tuple[str, tuple[Any, ...]], ...]

    @classmethod
    def of(cls, deny: Any) -> Denied:
        """What a user passed: a list of row ids, or the file of one; values by column; or several of these."""
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


def steps(ranges: Any) -> list[list[int]]:
    """Ranges of steps, each the first one and the one after the last."""
    wanted = "pass [(4000, 4010)] to pass over steps 4000 to 4009"
    if isinstance(ranges, (str, bytes, Mapping)) or not isinstance(ranges, Iterable):
        raise InvalidError(f"skip_steps must be a list of pairs, got {ranges!r} ({wanted})")
    found = []
    for pair in ranges:
        try:
            first, after = (operator.index(step) for step in pair)
        except (TypeError, ValueError):
            raise InvalidError(f"skip_steps must be a list of pairs of ints, got {pair!r} in it ({wanted})") from None
        if not 0 <= first < after < 1 << 64:
            raise InvalidError(f"skip_steps has a range from {given(first)} to {given(after)} ({wanted})")
        found.append([first, after])
    return found


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
    """An array as a list; one of no dimensions, as rows of a tensor are, as a number."""
    return several.tolist() if hasattr(several, "tolist") else several


def _is_place(part: Any) -> bool:
    """Whether it is what ``which`` or ``skipped`` of a loader returns for a row."""
    return isinstance(part, tuple) and hasattr(part, "row_id")


def _rows(part: Any) -> list[int]:
    if _is_place(part):
        if part.row_id is None:
            raise InvalidError(f"deny has {part!r} in it, which is not known by a row id")
        return [int(part.row_id)]
    listed = _listed(part)
    many = isinstance(listed, Iterable) and not isinstance(listed, bytes)
    return [row for item in listed for row in (_rows(item) if _is_place(item) else [_row(item)])] if many else [_row(listed)]


def _row(part: Any) -> int:
    try:
        number = operator.index(part)
    except TypeError:
        raise InvalidError(f"deny must have row ids, files and dicts in it, got {part!r}") from None
    if isinstance(part, bool) or not -(1 << 63) <= number < 1 << 63:
        raise InvalidError(f"deny has {given(part)} in it, which is no row id (they fit an int64)")
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


def add_to_list(path: str, rows: Iterable[tuple[int, str]]) -> None:
    """Adds rows, each with a remark, to a list in a file; those that it has already stay as they are."""
    if os.path.exists(path) and not os.path.isfile(path):
        raise InvalidError(f"{path} is not a file: rows cannot be added to it (name one, or one that does not exist yet)")
    if path.lower().endswith(".parquet"):
        raise InvalidError(
            f"{path}: a list of rows is text, and a file of this name would be read as Parquet (name it .txt)"
        )
    try:
        # What is no list is left as it is.
        listed = set(Denied.of(path).rows)
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except FileNotFoundError:
        listed, text = set(), '# Rows that a forebay.Loader leaves out: deny="<this file>"\n'
    if text and not text.endswith("\n"):
        text += "\n"
    for row_id, remark in rows:
        if row_id not in listed:
            text += f"{row_id}  # {' '.join(remark.split())}\n"
            listed.add(row_id)
    # A reader sees the list before or after, and never a part of it. A link is followed.
    target = os.path.realpath(path)
    beside = f"{target}.{os.getpid()}.new"
    try:
        with open(beside, "w", encoding="utf-8") as file:
            file.write(text)
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(target, beside)
        os.replace(beside, target)
    except OSError as error:
        with contextlib.suppress(OSError):
            os.remove(beside)
        raise IoError(
            f"{path}: the list could not be written: {error.strerror} (name a file in a folder that can be written to)"
        ) from None
