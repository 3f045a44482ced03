"""Checks of locations: the argument ``urls``, and paths on this machine."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from typing import Any

from .. import _forebay
from ..errors import InvalidError, UnsupportedError

__all__: list[str] = []

#: Attributes that only tables in memory have: tables of pandas, Polars, pyarrow, Dask, DuckDB and datasets.
_OF_TABLES = ("columns", "column_names", "__dataframe__")

#: Matches the beginning of a URL, also ``s3:/``, which ``pathlib.Path`` makes of ``s3://``.
_URL = re.compile(r"\s*[a-z][a-z0-9+.-]*:/", re.IGNORECASE)

_WANTED = "pass a path, URL or glob, or a list of them"

#: Classes of this package that users pass as a location by mistake, and what to do instead.
_OURS = {
    "forebay.Dataset": "it is open already: use it as it is, or pass it to forebay.Loader",
    "forebay.Loader": "iterate over it, or pass the location that it reads",
    "forebay.Batch": "it is in memory already; pass the location that it was read from",
}

# The messages below never show a location, because it may contain a password.


def locations(urls: Any) -> list[str]:
    """Returns the locations of ``urls=`` as a list of texts.

    Raises
    ------
    InvalidError
        ``urls`` is neither a location nor a list of locations, but a table in memory or an open file, say.
    UnsupportedError
        ``urls`` is a dict of weights.
    """
    if isinstance(urls, (str, os.PathLike)):
        return [_text(urls, "urls")]
    # A class that was created by calling type() may have no `__module__`.
    kind = f"{getattr(type(urls), '__module__', 'builtins')}.{type(urls).__qualname__}".removeprefix("builtins.")
    if kind in _OURS:
        raise InvalidError(f"urls must be locations of Parquet files, got a {kind} ({_OURS[kind]})")
    if isinstance(urls, Mapping) and not _is_table(urls):
        raise UnsupportedError(
            f"a loader reads one data set, got a {kind} (to mix several by weight pass forebay.Mix([(location, "
            "weight), ...]); to read them as one, each row once, pass a list of locations)"
        )
    if _is_table(urls):
        raise InvalidError(
            f"urls must be locations of Parquet files, got a table in memory, a {kind} (write it to a file, as with "
            "to_parquet or pyarrow.parquet.write_table, and pass the path)"
        )
    if hasattr(urls, "read"):
        raise InvalidError(f"urls must be locations, got an open file, a {kind} (pass its path or URL)")
    if isinstance(urls, (bytes, bytearray, memoryview)):
        raise InvalidError(f"urls must be text, got {kind} ({_WANTED})")
    if isinstance(urls, (set, frozenset)):
        raise InvalidError(f"urls must be a path or a list of paths, got a {kind} (pass a list)")
    if not isinstance(urls, Iterable):
        raise InvalidError(f"urls must be locations, got {kind} ({_WANTED})")
    return [_text(url, f"urls[{place}]") for place, url in enumerate(urls)]


def local(path: Any, name: str) -> str:
    """Returns the path of a local file or folder as an absolute path. A leading ``~`` is left as it is,
    because the compiled library expands it."""
    text = _text(path, name, "pass a path on this machine")
    if not text.strip():
        raise InvalidError(f"{name} is empty (pass a path on this machine)")
    if _URL.match(text):
        raise InvalidError(f"{name} must be a path on this machine, got a URL (pass a path of a local disk)")
    # A relative path is made absolute now: this process may change its working directory before it writes,
    # and a process that unpickles a loader may have another one.
    return text if text.startswith(("/", "~")) else os.path.join(os.getcwd(), text)


def shown(url: Any) -> Any:
    """A location, or a list of locations, without passwords and signatures."""
    if not isinstance(url, (str, os.PathLike)):
        return [shown(one) for one in url]
    text = os.fspath(url)
    safe = _forebay.shown(text)
    return url if safe == text else safe


def _is_table(urls: Any) -> bool:
    """Whether an object is a table in memory. A class, such as ``pandas.DataFrame``, is not a table
    itself."""
    return not isinstance(urls, type) and any(hasattr(urls, name) for name in _OF_TABLES)


def _text(url: Any, name: str, wanted: str = _WANTED) -> str:
    path = os.fspath(url) if isinstance(url, (str, os.PathLike)) else url
    if not isinstance(path, str):
        if type(path).__module__ == "forebay":
            wanted = "to read several data sets as one, pass a list of their locations"
        raise InvalidError(f"{name} must be a str or a path, got {type(url).__qualname__} ({wanted})")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise InvalidError(f"{name} is not valid UTF-8 (rename the file or folder)") from None
    return str(path)
