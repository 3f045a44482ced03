"""What ``Loader(urls)`` takes: where files are, and nothing that only iterates like it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .errors import InvalidError, UnsupportedError

__all__ = ["local", "locations"]

#: What tables in memory have and lists of paths have not: those of pandas, Polars, pyarrow, Dask, DuckDB and datasets.
_OF_TABLES = ("columns", "column_names", "__dataframe__")

#: How a URL begins, also one that lost a slash as a path.
_URL = re.compile(r"\s*[a-z][a-z0-9+.-]*:/", re.IGNORECASE)

_WANTED = "pass a path, URL or glob, or a list of them"


def locations(urls: Any) -> list[str]:
    """The locations as text.

    Raises:
        InvalidError: It is something else, such as a table in memory or an open file.
        UnsupportedError: It is a dict of weights.
    """
    if isinstance(urls, (str, os.PathLike)):
        return [_text(urls, "")]
    # A class that was made by hand may have no module.
    kind = f"{getattr(type(urls), '__module__', 'builtins')}.{type(urls).__qualname__}".removeprefix("builtins.")
    if isinstance(urls, Mapping) and not _is_table(urls):
        raise UnsupportedError(
            f"a {kind} of data sets is not read: there is no mixing by weight (pass a list of locations to read them "
            "as one data set, each row once)"
        )
    if _is_table(urls):
        raise InvalidError(
            f"a {kind} is a table in memory, and a loader reads Parquet files (write the table to a file, as with "
            "to_parquet or pyarrow.parquet.write_table, and pass its path)"
        )
    if hasattr(urls, "read"):
        raise InvalidError(f"a {kind} is an open file or a stream (pass its path or URL)")
    if isinstance(urls, (bytes, bytearray, memoryview)):
        raise InvalidError(f"a {kind} is neither a path nor a URL ({_WANTED}, as text)")
    if isinstance(urls, (set, frozenset)):
        raise InvalidError(f"a {kind} has no order, which the order of rows depends on (pass a sorted list)")
    if not isinstance(urls, Iterable):
        raise InvalidError(f"a {kind} is no location ({_WANTED})")
    return [_text(url, f"of the list, at place {place}, ") for place, url in enumerate(urls, start=1)]


def local(path: Any, name: str) -> str:
    """A path on this machine, as text, for what is written there. The compiled half puts the home for a ``~``."""
    text = os.fspath(path) if isinstance(path, (str, os.PathLike)) else path
    if not isinstance(text, str):
        raise InvalidError(f"{name} is a {type(path).__qualname__}, and no path")
    if not text.strip():
        raise InvalidError(f"{name} is empty (give a path on this machine)")
    if _URL.match(text):
        # Not repeated: a URL may hold a password.
        raise InvalidError(f"{name} is a URL, and no path on this machine (give the path of a local disk)")
    return text


def _is_table(urls: Any) -> bool:
    """Whether it is a table. A class itself is none, and neither is what has such a name for something else."""
    return not isinstance(urls, type) and any(hasattr(urls, name) for name in _OF_TABLES)


def _text(url: Any, where: str) -> str:
    path = os.fspath(url) if isinstance(url, (str, os.PathLike)) else url
    if not isinstance(path, str):
        raise InvalidError(f"{where}a {type(url).__qualname__} is no location ({_WANTED})")
    return str(path)
