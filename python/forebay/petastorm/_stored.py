"""Opens a data set for a Petastorm reader: checks its location, and reads its columns and its Petastorm
schema, or infers a schema if none is stored."""

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

#: The ``decode`` of loaders in this package: columns are delivered as stored, and Petastorm's codecs decode
#: them.
AS_STORED = {"*": None}

_KEY = re.compile(r"([^=/]+)=[^/]*")


class Stored(NamedTuple):
    """An open data set with its Petastorm schema."""

    dataset: Dataset
    schema: Unischema
    """The stored schema, or an inferred one."""
    is_written: bool
    """Whether a Petastorm schema is stored."""
    types: dict[str, Any]
    """The pyarrow type of each stored column."""
    keys: tuple[str, ...]
    """The names of the columns whose values are in the names of folders, such as ``day`` in ``day=3``."""


def opened(urls: Any, storage_options: Mapping[str, Any] | None) -> Stored:
    """Opens a data set, and reads its schema."""
    locations = located(urls)
    written = written_schema(locations, storage_options)
    # A key in folder names, such as `day` in `day=3`, is read as text if the schema says that it is text.
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
    """Checks the locations that a user passed, as Petastorm does, and returns them in the loader's form."""
    if isinstance(urls, (list, tuple)):
        if not urls:
            raise ValueError("dataset url list must be non-empty.")
        parsed = [urllib.parse.urlparse(_text(url)) for url in urls]
        if len({(url.scheme, url.netloc) for url in parsed}) > 1:
            raise ValueError("The dataset url list must contain url with the same scheme and netloc.")
        return [_location(url) for url in urls]
    return _location(urls)


def url_of(dataset: Any) -> str:
    """Returns the URL of an open data set of forebay or pyarrow."""
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
    """Returns the Petastorm schema that is stored beside the Parquet files; None if there is none."""
    for location in locations if isinstance(locations, list) else [locations]:
        plain = _schema.stored(location, storage_options)
        if plain is not None:
            return schema_of(plain)
    return None


def needed_schema(urls: Any, storage_options: Mapping[str, Any] | None) -> Unischema:
    """Returns the Petastorm schema that is stored beside the Parquet files, or raises an error if there is
    none."""
    found = written_schema(located(urls), storage_options)
    if found is None:
        # Opening the data set raises a better error if there is no data set at all.
        Dataset(located(urls), storage_options=storage_options)
        raise PetastormMetadataError(
            f"{urls}: there is no schema of Petastorm (materialize_dataset and forebay.petastorm.write write one; "
            "make_batch_reader reads any Parquet)"
        )
    return found


def inferred(columns: Any, keys: tuple[str, ...]) -> Unischema:
    """Infers a schema: first the columns whose values are in folder names, then the stored columns, without
    those whose types a reader cannot deliver."""
    of_folders = of_keys((key, columns.field(key).type) for key in keys)
    of_files = of_columns(column for column in columns if column.name not in keys)
    return Unischema("inferred_schema", [UnischemaField(*one) for one in (*of_folders, *of_files)])


def _columns(dataset: Dataset) -> Any:
    """Returns the stored columns as a schema of pyarrow. pyarrow before version 16 has no type for text
    views, so there the schema has the types that a loader delivers."""
    arrow = pyarrow()
    if hasattr(arrow, "string_view"):
        return arrow.schema(dataset.schema)
    with Loader(dataset, decode=AS_STORED, batch_size=1) as loader:
        return arrow.schema(loader.schema)


def _keys(dataset: Dataset) -> tuple[str, ...]:
    """Returns the keys in the names of the folders that contain the first file, such as ``day`` in
    ``day=3``."""
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
    """Returns a URL in the form that a loader takes. ``file:`` URLs become paths, because Spark and Java
    write them with one slash, such as ``file:/data``."""
    parsed = urllib.parse.urlparse(_text(url))
    if not parsed.scheme:
        raise ValueError(
            f"ERROR! A scheme-less dataset url ({url}) is no longer supported. "
            'Please prepend "file://" for local filesystem.'
        )
    return urllib.parse.unquote(parsed.path) if parsed.scheme == "file" else url.rstrip("/")
