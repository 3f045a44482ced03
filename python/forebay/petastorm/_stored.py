"""The data set as it is stored: its location, its columns, and the schema that is inferred where none is written."""

from __future__ import annotations

import os
import posixpath
import re
import urllib.parse
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..dataset import Dataset
from ..loader import Loader
from . import _schema
from ._inferred import of_columns, of_keys, pyarrow
from .errors import PetastormMetadataError
from .unischema import Unischema, UnischemaField, schema_of, type_name

__all__: list[str] = []

#: Columns as they are stored, where nothing else is said of them: cells are decoded as the values of rows need it.
AS_STORED = {"*": None}

_KEY = re.compile(r"([^=/]+)=[^/]*")


class Stored(NamedTuple):
    """A data set that is open."""

    dataset: Dataset
    schema: Unischema
    """The one that is written, or the inferred one."""
    is_written: bool
    """Whether a schema of Petastorm is written."""
    types: dict[str, Any]
    """The types of the stored columns, as pyarrow has them."""
    keys: tuple[str, ...]
    """Names of the columns that are folders."""


def opened(urls: Any, storage_options: Mapping[str, Any] | None) -> Stored:
    """Opens a data set, and reads its schema."""
    locations = located(urls)
    written = written_schema(locations, storage_options)
    # Folders whose names are whole numbers may well be text.
    texts = [] if written is None else [name for name, field in written.fields.items() if _is_text(field)]
    dataset = Dataset(locations, storage_options=storage_options)
    keys = _keys(dataset)
    as_text = {key: "string" for key in keys if key in texts}
    if as_text:
        dataset = Dataset(locations, storage_options=storage_options, partition_types=as_text)
    columns = _columns(dataset)
    schema = written if written is not None else inferred(columns, keys)
    return Stored(dataset, schema, written is not None, {one.name: one.type for one in columns}, keys)


def located(urls: Any) -> Any:
    """The locations that a user passed, checked as Petastorm does, and as the loader takes them."""
    if isinstance(urls, (list, tuple)):
        if not urls:
            raise ValueError("dataset url list must be non-empty.")
        parsed = [urllib.parse.urlparse(_text(url)) for url in urls]
        if len({(url.scheme, url.netloc) for url in parsed}) > 1:
            raise ValueError("The dataset url list must contain url with the same scheme and netloc.")
        return [_location(url) for url in urls]
    return _location(urls)


def url_of(dataset: Any) -> str:
    """Where a data set of forebay or of pyarrow lies."""
    if isinstance(dataset, str):
        return dataset
    urls = getattr(dataset, "_urls", None)
    if isinstance(urls, (str, os.PathLike)):
        urls = os.fspath(urls)
        return urls if "://" in urls else f"file://{posixpath.abspath(urls)}"
    files = getattr(dataset, "files", None)
    if not files:
        raise TypeError(f"dataset must be a URL or a data set of forebay or pyarrow, got {type(dataset).__name__}")
    folder = posixpath.commonpath([posixpath.dirname(file) for file in files])
    while _KEY.fullmatch(posixpath.basename(folder)):
        folder = posixpath.dirname(folder)
    return f"file://{posixpath.abspath(folder)}"


def written_schema(locations: Any, storage_options: Mapping[str, Any] | None) -> Unischema | None:
    """The schema that is written beside the files, if it is."""
    for location in locations if isinstance(locations, list) else [locations]:
        plain = _schema.stored(location, storage_options)
        if plain is not None:
            return schema_of(plain)
    return None


def needed_schema(urls: Any, storage_options: Mapping[str, Any] | None) -> Unischema:
    """The schema that is written beside the files, or the error that there is none."""
    found = written_schema(located(urls), storage_options)
    if found is None:
        # Says so if there is no data set at all.
        Dataset(located(urls), storage_options=storage_options)
        raise PetastormMetadataError(
            f"{urls}: there is no schema of Petastorm (materialize_dataset and forebay.petastorm.write write one; "
            "make_batch_reader reads any Parquet)"
        )
    return found


def inferred(columns: Any, keys: tuple[str, ...]) -> Unischema:
    """The schema of files that say none: folders first, then the columns whose types a batch may have."""
    of_folders = of_keys((key, columns.field(key).type) for key in keys)
    of_files = of_columns(column for column in columns if column.name not in keys)
    return Unischema("inferred_schema", [UnischemaField(*one) for one in (*of_folders, *of_files)])


def _columns(dataset: Dataset) -> Any:
    """The stored columns in pyarrow, which has views of text since version 16: before, as they are delivered."""
    arrow = pyarrow()
    if hasattr(arrow, "string_view"):
        return arrow.schema(dataset.schema)
    with Loader(dataset, decode=AS_STORED, batch_size=1) as loader:
        return arrow.schema(loader.schema)


def _keys(dataset: Dataset) -> tuple[str, ...]:
    """The names of folders such as ``day=3`` on the way to the first file."""
    if not dataset.num_rows:
        return ()
    with Loader(dataset, columns=dataset.columns[:1], decode=AS_STORED, batch_size=1) as loader:
        file = loader.which(0)[0].file
    below = [_KEY.fullmatch(part) for part in file.split("/")[:-1]]
    names = [urllib.parse.unquote(found.group(1)) for found in below if found]
    return tuple(name for name in dict.fromkeys(names) if name in dataset.columns)


def _is_text(field: UnischemaField) -> bool:
    return field.shape == () and type_name(field.numpy_dtype) in ("str_", "bytes_")


def _text(url: Any) -> str:
    if not isinstance(url, str):
        raise ValueError(f"a dataset url must be a str, got {type(url).__name__}")
    return url


def _location(url: Any) -> str:
    """The location as the loader takes it: local ones as paths, without ``file:`` in the forms of Spark and Java."""
    parsed = urllib.parse.urlparse(_text(url))
    if not parsed.scheme:
        raise ValueError(
            f"ERROR! A scheme-less dataset url ({url}) is no longer supported. "
            'Please prepend "file://" for local filesystem.'
        )
    return urllib.parse.unquote(parsed.path) if parsed.scheme == "file" else url.rstrip("/")
