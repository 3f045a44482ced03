"""Cuts prepared rows into row groups and files, which do not depend on when a preparation was interrupted.

A row group ends where a row group of the source ends, or earlier if it is large.
"""

from __future__ import annotations

import json
import os
from typing import Any
from urllib.parse import unquote

import numpy as np

from .. import _forebay
from ..errors import InvalidError
from .folder import FACTS, Folder
from .function import Made, check_names
from .values import Type, agreed, conformed, from_json, settled

__all__: list[str] = []

#: A row group ends with the row that brings its values to about this number of bytes. The number is small,
#: because readers hold several row groups in memory.
ROW_GROUP_BYTES = 32 << 20

#: The end of the names of data files, by which readers of a folder find them.
_SUFFIX = ".parquet"


def names_of(layout: list[tuple[str, list[int]]]) -> list[str]:
    """The names of the prepared files, one for each file of the source: the same path, relative to the folder."""
    names = [path if path.endswith(_SUFFIX) else path + _SUFFIX for path, _ in layout]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InvalidError(
            f"two files of the source have the path {twice!r} in their locations, and would be prepared as one (open "
            "a folder that has both, or prepare each location and mix them)"
        )
    for name in names:
        for part in name.split("/"):
            if part.startswith(".") or (part.startswith("_") and "=" not in part):
                raise InvalidError(
                    f"the file {name!r} of the source has a name that readers of folders pass over, so it cannot be "
                    "prepared (rename it)"
                )
    if names != sorted(names, key=os.fsencode):
        raise InvalidError(
            f"the files of the source would have another order with names that end in {_SUFFIX} (rename them)"
        )
    return names


def keys_of(files: list[str]) -> set[str]:
    """The keys in the names of the files' folders."""
    folders = {part for file in files for part in file.split("/")[:-1]}
    return {unquote(folder.partition("=")[0]) for folder in folders if "=" in folder}


class Parts:
    """Writes prepared rows as row groups: knows the finished ones, and holds the rows of the next one."""

    def __init__(self, folder: Folder, record: dict[str, Any], layout: list[tuple[str, list[int]]]) -> None:
        self.files = names_of(layout)
        self._groups = [groups for _, groups in layout]
        self._folder = folder
        self._record = record
        self._types: dict[str, Type] = {name: from_json(of) for name, of in (record["types"] or {}).items()}
        facts = {name: record[name] for name in FACTS}
        self._about = [("forebay.prepared", json.dumps(facts))]
        # The place of the next row: its file, the row group of the source, and the rows of this group before it.
        self._file = self._group = self._row = 0
        # The paths of the finished row groups of the file with the number `self._file`.
        self._paths: list[str] = []
        self._held: list[tuple[Made, int, int]] = []
        self._held_bytes = 0
        #: The number of rows that are in finished row groups.
        self.rows = 0

    def resume(self) -> None:
        """Goes to the first row that is in no finished row group."""
        while self._file < len(self.files):
            file = self.files[self._file]
            if self._folder.is_complete(file):
                self.rows += sum(self._groups[self._file])
                self._file += 1
                continue
            parts = self._folder.parts(file)
            self._paths = [path for path, _ in parts]
            done = sum(rows for _, rows in parts)
            self.rows += done
            self._go_to(done)
            if self._group < len(self._groups[self._file]):
                return
            self._end_file()

    def add(self, made: Made) -> None:
        """Adds rows, and writes the row groups that they complete."""
        self._agree(made)
        at = 0
        while at < len(made.sizes):
            left = self._groups[self._file][self._group] - self._row
            stop = min(at + left, len(made.sizes))
            summed = self._held_bytes + np.cumsum(made.sizes[at:stop], dtype=np.int64)
            # The row group ends with the first row that brings it to `ROW_GROUP_BYTES`.
            full = int(np.searchsorted(summed, ROW_GROUP_BYTES))
            is_full = full < len(summed)
            stop = at + full + 1 if is_full else stop
            self._held.append((made, at, stop))
            self._held_bytes = int(summed[stop - at - 1])
            self._row += stop - at
            at = stop
            if is_full or self._row == self._groups[self._file][self._group]:
                self._flush()

    def finish(self) -> None:
        """Moves the complete files out of the hidden folder, and then the record with the number of rows."""
        shown = {**self._record, "rows": self.rows}
        self._folder.finish(shown, self.files)

    def _agree(self, made: Made) -> None:
        """Raises an error if rows have other columns or types than the rows before. Types that were unknown
        until now are filled in."""
        if not self._types:
            both = sorted(keys_of(self.files) & made.types.keys())
            if both:
                raise InvalidError(
                    f"prepare returned a column {both[0]!r}, which is a key of the source's folders and stays a column "
                    "(leave it out of the returned dict, or return it under another name)"
                )
            self._types = dict(made.types)
            return
        check_names(self._types, made.types)
        self._types = {name: agreed(name, of, made.types[name]) for name, of in self._types.items()}

    def _flush(self) -> None:
        """Writes the rows that are held as a row group."""
        self._types = {name: settled(name, of) for name, of in self._types.items()}
        if self._record["types"] is None:
            self._record["types"] = self._types
            self._folder.keep(self._record)
        file, rows = self.files[self._file], sum(stop - start for _, start, stop in self._held)
        cut = []
        for made, start, stop in self._held:
            columns = [(name, conformed(made.nodes[name], of)) for name, of in self._types.items()]
            cut.append(_forebay.MadeRows(columns).slice(start, stop))
        _forebay.write_row_group(self._folder.unfinished(file), cut, self._about)
        self._paths.append(self._folder.finish_part(file, len(self._paths), rows))
        self._held, self._held_bytes = [], 0
        self.rows += rows
        if self._row == self._groups[self._file][self._group]:
            self._group, self._row = self._group + 1, 0
        if self._group == len(self._groups[self._file]):
            self._end_file()

    def _end_file(self) -> None:
        """Joins the row groups of the present file to one file, and goes to the next file."""
        file = self.files[self._file]
        _forebay.join_row_groups(self._paths, self._folder.unfinished(file))
        self._folder.finish_file(file)
        self._file, self._group, self._row, self._paths = self._file + 1, 0, 0, []

    def _go_to(self, row: int) -> None:
        """Makes ``row`` of the present file the next row."""
        self._group, self._row = 0, row
        for rows in self._groups[self._file]:
            if self._row < rows:
                return
            self._group, self._row = self._group + 1, self._row - rows
