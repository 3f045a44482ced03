"""Writes rows to Parquet files, either in one folder or in a folder such as ``day=3`` for each value of some
columns."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from ..errors import InvalidError
from ._cells import fault, unfit
from ._inferred import pyarrow
from ._sheet import stored_type
from .unischema import Unischema

__all__: list[str] = []

#: All folders together hold at most as many bytes in memory as this number of full row groups. Beyond this
#: limit, the folder that holds the most bytes writes its rows.
_ROW_GROUPS = 16

#: The value in the name of the folder for nulls, as Hive and Spark write it.
_NULL = "__HIVE_DEFAULT_PARTITION__"

#: Characters that are escaped in the name of a folder.
_ESCAPED = {ord(one): f"%{ord(one):02X}" for one in "\"#%'*/:=?\\\x7f{[]^"} | {one: f"%{one:02X}" for one in range(32)}

_OF_FOLDERS = ("ByteType", "ShortType", "IntegerType", "LongType", "StringType", "DateType")


@dataclass(frozen=True)
class Keys:
    """The columns whose values become the names of folders."""

    columns: tuple[Any, ...]
    """The pyarrow field of each of these columns."""

    @classmethod
    def of(cls, names: Sequence[str], schema: Unischema, sheet: Any) -> Keys:
        """Checks ``names``, the user's ``partition_columns=``. ``sheet`` is the pyarrow schema of all
        columns."""
        if isinstance(names, str) or len(set(names)) < len(names):
            raise InvalidError(f"partition_columns must be a list of differing names, got {names!r}")
        for name in names:
            if name not in schema.fields:
                raise InvalidError(
                    f"partition_columns has {name!r}, which is not a field (the fields are {', '.join(schema.fields)})"
                )
            kind = stored_type(schema.fields[name])
            if kind.name not in _OF_FOLDERS or schema.fields[name].shape != ():
                raise InvalidError(
                    f"field {name!r} is {kind}, which cannot name folders (whole numbers, text and days can)"
                )
        if len(names) == len(schema.fields):
            raise InvalidError("partition_columns has all fields (leave out at least one, which the files store)")
        return cls(tuple(sheet.field(name) for name in names))

    @property
    def names(self) -> list[str]:
        return [column.name for column in self.columns]

    def without(self, sheet: Any) -> Any:
        """Returns a pyarrow schema without these columns, because the files do not store them."""
        return pyarrow().schema([column for column in sheet if column.name not in self.names])

    def taken_from(self, cells: dict[str, Any], number: int) -> tuple[str, dict[str, Any]]:
        """Returns the name of the folder for a row, and the other cells, which the file in this folder
        stores. ``number`` is the row's number among all rows, for errors."""
        stored = dict(cells)
        parts = []
        for column in self.columns:
            cell = stored.pop(column.name)
            why = fault(cell, column)
            if why is not None:
                raise unfit(number, column.name, why)
            parts.append(f"{column.name}={_folder(cell)}")
        return "/".join(parts), stored


@dataclass(frozen=True)
class Form:
    """The options with which files are written."""

    sheet: Any
    """The pyarrow schema of the files."""
    compression: str
    row_group_size: int
    row_group_rows: int | None
    file_rows: int | None


class Folders:
    """The folders below a path. Their files are removed if the ``with`` statement ends with an error."""

    def __init__(self, files: Any, path: str, form: Form) -> None:
        self.rows = 0
        self._files = files
        self._path = path
        self._form = form
        self._folders: dict[str, _Folder] = {}
        self._held = 0

    @property
    def row_groups(self) -> dict[str, int]:
        """The number of row groups in each file, by the path of the file relative to ``_path``."""
        return {file: count for folder in self._folders.values() for file, count in folder.row_groups.items()}

    def add(self, name: str, cells: dict[str, Any], number: int) -> None:
        """Adds a row to the folder ``name``. ``number`` is the row's number among all rows, for errors."""
        folder = self._folders.get(name)
        if folder is None:
            if name:
                self._files.create_dir(posixpath.join(self._path, name), recursive=True)
            folder = self._folders[name] = _Folder(self._files, self._path, name, self._form)
        self._held -= folder.held
        folder.add(cells, number)
        self._held += folder.held
        self.rows += 1
        if self._held > _ROW_GROUPS * self._form.row_group_size:
            largest = max(self._folders.values(), key=lambda one: one.held)
            self._held -= largest.held
            largest.write_row_group()

    def finish(self) -> None:
        """Writes the rows that are still in memory, and closes the files."""
        for folder in self._folders.values():
            folder.finish()

    def __enter__(self) -> Folders:
        return self

    def __exit__(self, kind: Any, *error: object) -> None:
        if kind is not None:
            for folder in self._folders.values():
                folder.close()
            for file in self.row_groups:
                self._files.delete_file(posixpath.join(self._path, file))


class _Folder:
    """The files of one folder. The last file is open, and the rows of one row group are in memory."""

    def __init__(self, files: Any, path: str, name: str, form: Form) -> None:
        self.row_groups: dict[str, int] = {}
        self.held = 0
        self._files = files
        self._path = path
        self._name = name
        self._form = form
        self._group: list[dict[str, Any]] = []
        # For each row in `_group`, its number among all rows, for errors.
        self._numbers: list[int] = []
        self._rows_of_file = 0
        self._open = ExitStack()
        self._writer: Any = None

    def add(self, cells: dict[str, Any], number: int) -> None:
        self._group.append(cells)
        self._numbers.append(number)
        self._rows_of_file += 1
        self.held += sum(len(cell) if isinstance(cell, (bytes, str)) else 8 for cell in cells.values())
        if self.held >= self._form.row_group_size or len(self._group) == self._form.row_group_rows:
            self.write_row_group()
        if self._rows_of_file == self._form.file_rows:
            self.finish()

    def write_row_group(self) -> None:
        if not self._group:
            return
        if self._writer is None:
            self._begin()
        try:
            table = pyarrow().Table.from_pylist(self._group, self._form.sheet)
        except Exception as error:
            raise self._unfit() or error from error
        self._writer.write_table(table, row_group_size=len(self._group))
        self.row_groups[next(reversed(self.row_groups))] += 1
        self._group, self._numbers, self.held = [], [], 0

    def finish(self) -> None:
        """Writes the rows that are still in memory, and closes the open file."""
        self.write_row_group()
        self.close()
        self._rows_of_file = 0

    def close(self) -> None:
        self._writer = None
        self._open.close()

    def _unfit(self) -> InvalidError | None:
        """Returns the error for the first cell that does not fit its column."""
        for number, cells in zip(self._numbers, self._group, strict=True):
            for column in self._form.sheet:
                why = fault(cells[column.name], column)
                if why is not None:
                    return unfit(number, column.name, why)
        return None

    def _begin(self) -> None:
        """Opens a new file."""
        file = posixpath.join(self._name, f"part-{len(self.row_groups):05}.parquet")
        self.row_groups[file] = 0
        stream = self._open.enter_context(self._files.open_output_stream(posixpath.join(self._path, file)))
        parquet = pyarrow().parquet
        self._writer = self._open.enter_context(
            parquet.ParquetWriter(stream, self._form.sheet, compression=self._form.compression)
        )


def _folder(value: Any) -> str:
    """Returns a value as it is written in the name of its folder."""
    return _NULL if value is None or value == "" else str(value).translate(_ESCAPED)
