"""Lists the Parquet files of a folder, and reads and writes Petastorm's metadata in its ``_common_metadata``,
through file systems of pyarrow and fsspec."""

from __future__ import annotations

import json
import posixpath
import urllib.parse
from typing import Any

from ._inferred import pyarrow
from ._pickled import pickled
from ._schema import KEY
from .errors import PetastormMetadataError
from .unischema import Unischema

__all__: list[str] = []

SCHEMA_KEY = KEY
ROW_GROUPS_KEY = b"dataset-toolkit.num_row_groups_per_file.v1"

_METADATA = "_common_metadata"


def file_system(url: str, given: Any = None) -> tuple[Any, str]:
    """Returns the pyarrow file system of a URL, and the path in it. A file system that the user has ``given``
    is used instead of that of the URL."""
    fs = _fs()
    if given is not None:
        return _as_pyarrow(given), _path(url)
    parsed = urllib.parse.urlparse(url)
    if parsed.scheme in ("", "file"):
        return fs.LocalFileSystem(), urllib.parse.unquote(parsed.path)
    files, path = fs.FileSystem.from_uri(url)
    return files, path


def data_files(files: Any, path: str) -> list[str]:
    """Returns the Parquet files below a folder, sorted."""
    selector = _fs().FileSelector(path, recursive=True)
    found = [info.path for info in files.get_file_info(selector) if info.is_file]
    return sorted(one for one in found if not posixpath.basename(one).startswith((".", "_")))


def write_metadata(files: Any, path: str, schema: Unischema) -> dict[str, int]:
    """Writes a folder's ``_common_metadata``: the schema, and the number of row groups in each file of the
    folder, which is also returned."""
    parquet = pyarrow().parquet
    paths = data_files(files, path)
    if not paths:
        raise PetastormMetadataError(f"{path}: there are no Parquet files to describe")
    counts = {}
    for one in paths:
        with files.open_input_file(one) as file:
            counts[posixpath.relpath(one, path)] = parquet.ParquetFile(file).num_row_groups
    with files.open_input_file(paths[0]) as file:
        stored = parquet.read_schema(file)
    described(files, path, stored, schema, counts)
    return counts


def metadata_value(files: Any, path: str, key: bytes) -> bytes | None:
    """Returns the value of a key in a folder's ``_common_metadata``; None if it is absent."""
    found = _metadata(files, path)
    value: bytes | None = None if found is None else (found.metadata or {}).get(key)
    return value


def row_group_counts(files: Any, path: str) -> dict[str, int] | None:
    """Returns from a folder's ``_common_metadata`` the number of row groups in each file; None if it is
    absent.

    Raises
    ------
    ValueError
        The stored value is not a dict of a number for each file.
    """
    stored = metadata_value(files, path, ROW_GROUPS_KEY)
    counts = None if stored is None else json.loads(stored)
    if counts is not None and not (isinstance(counts, dict) and all(type(one) is int for one in counts.values())):
        raise ValueError("they are no numbers by file")
    return counts


def write_metadata_value(files: Any, path: str, key: bytes, value: bytes) -> None:
    """Sets the value of a key in a folder's ``_common_metadata``, and keeps the other values."""
    found = _metadata(files, path)
    if found is None:
        raise PetastormMetadataError(f"{path}: there is no {_METADATA} (materialize_dataset writes one)")
    _write(files, path, found.with_metadata({**(found.metadata or {}), key: value}))


def described(files: Any, path: str, stored: Any, schema: Unischema, row_groups: dict[str, int]) -> None:
    """Writes a folder's ``_common_metadata``: ``stored``, the pyarrow schema of its files, to which the
    Petastorm schema and the number of row groups in each file are added."""
    said = {
        **(stored.metadata or {}),
        SCHEMA_KEY: pickled(schema),
        ROW_GROUPS_KEY: json.dumps(row_groups).encode(),
    }
    _write(files, path, stored.with_metadata(said))


def _metadata(files: Any, path: str) -> Any:
    """Returns the pyarrow schema in a folder's ``_common_metadata``; None if there is no such file."""
    name = posixpath.join(path, _METADATA)
    if not files.get_file_info(name).is_file:
        return None
    with files.open_input_file(name) as file:
        return pyarrow().parquet.read_schema(file)


def _write(files: Any, path: str, schema: Any) -> None:
    with files.open_output_stream(posixpath.join(path, _METADATA)) as file:
        pyarrow().parquet.write_metadata(schema, file)
    # If Hadoop has written a checksum, it is that of the old file, and would not match the new one.
    checksum = posixpath.join(path, f".{_METADATA}.crc")
    if files.get_file_info(checksum).is_file:
        files.delete_file(checksum)


def _fs() -> Any:
    pyarrow()
    from pyarrow import fs

    return fs


def _as_pyarrow(given: Any) -> Any:
    fs = _fs()
    if isinstance(given, fs.FileSystem):
        return given
    return fs.PyFileSystem(fs.FSSpecHandler(given))


def _path(url: str) -> str:
    parsed = urllib.parse.urlparse(url)
    if parsed.scheme in ("", "file", "hdfs"):
        return urllib.parse.unquote(parsed.path)
    return f"{parsed.netloc}{parsed.path}"
