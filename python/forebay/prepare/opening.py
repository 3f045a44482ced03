"""Opens the prepared rows of a data set, and prepares them if they are not there."""

from __future__ import annotations

import os
from pathlib import PurePath
from typing import Any

from ..dataset import Dataset
from ..errors import CorruptError, InvalidError, StateMismatchError
from ..options.prepare import Prepare
from .folder import Folder
from .making import make
from .parts import names_of

__all__: list[str] = []


class PreparedDataset(Dataset):
    """The prepared rows as a data set. It keeps the locations of the source, which a copy of the loader opens
    again."""

    def __init__(self, source: Dataset, prepare: Prepare, made: list[str], given: list[str] | None) -> None:
        self._source_place = source._place()
        self._open(prepare.into, None, False, source._partition_types, (None, None), None)
        keys = [name for name in self.columns if name not in made and (given is None or name in given)]
        #: The columns that a loader delivers; ``None`` for all. They include the keys in folder names,
        #: unless the columns to read, ``given``, leave them out.
        self.delivered = None if len(made) + len(keys) == len(self.columns) else made + keys

    def _place(self) -> dict[str, Any]:
        return self._source_place


def prepared(
    prepare: Prepare, source: Dataset, options: dict[str, Any], fingerprint: str | None = None
) -> PreparedDataset:
    """The prepared rows of a source, as a data set. ``options`` are those of the loader that reads the source. A
    data set that was pickled must still have its ``fingerprint``."""
    folder = Folder(str(prepare.into))
    names = names_of(source._native.layout())
    _check_outside(source, folder.path, names)
    wanted = {
        "source": source.fingerprint,
        "columns": options["columns"] or source.columns,
        "version": prepare.version,
        "function": prepare._name,
    }
    record = folder.record()
    if record is None:
        with folder.locked():
            record = folder.record()
            if record is None:
                make(folder, wanted, source, options, prepare)
                record = folder.record() or {}
    folder.check(record, wanted)
    folder.clear()
    found = PreparedDataset(source, prepare, list(record.get("types") or {}), options["columns"])
    if (found.num_rows, found.num_files) != (record.get("rows"), len(names)):
        raise CorruptError(
            f"{folder.path}: the folder has {found.num_rows:,} rows, but {record.get('rows')} were prepared (put its "
            "files back, or remove it to prepare it again)"
        )
    if fingerprint not in (None, found.fingerprint):
        raise StateMismatchError(
            f"the prepared rows of {found!r} have changed since it was pickled (make a new forebay.Loader)"
        )
    return found


def _check_outside(source: Dataset, path: str, names: list[str]) -> None:
    """Refuses a folder inside the source, which would then contain the prepared rows. ``names`` are those of the
    prepared files."""
    into = os.path.realpath(path)
    for location in source._native.locations():
        if os.path.isdir(location):
            above = os.path.realpath(location)
            is_inside = os.path.commonpath([above, into]) == above
        else:
            is_inside = any(_is_matched(os.path.abspath(location), os.path.join(into, name)) for name in names)
        if is_inside:
            raise InvalidError(
                f"{path}: the folder is inside {location}, which would then have the prepared rows too (name a "
                "folder beside it with into=)"
            )


def _is_matched(pattern: str, file: str) -> bool:
    """Whether a glob matches a file, or a folder in which it lies."""
    path = PurePath(file)
    return any(above.match(pattern) for above in (path, *path.parents))
