"""Finds the file system of a URL, for scripts that use one. Readers do not need it, because they open URLs
themselves."""

from __future__ import annotations

import functools
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, NoReturn

from ._files import file_system
from ._stored import located

__all__ = ["FilesystemResolver", "get_dataset_path", "get_filesystem_and_path_or_paths", "normalize_dir_url"]


class FilesystemResolver:
    """Finds the file system of a URL: fsspec's if it is installed, else that of ``pyarrow.fs``.

    Parameters
    ----------
    dataset_url : str or urllib.parse.ParseResult
        The URL.
    storage_options : mapping, optional
        Credentials and settings of the store, for fsspec.
    hadoop_configuration, connector, hdfs_driver, user
        Accepted, so that scripts for Petastorm run, but not used: fsspec and pyarrow find an HDFS themselves.
    """

    def __init__(
        self,
        dataset_url: Any,
        hadoop_configuration: Any = None,
        connector: Any = None,
        hdfs_driver: str = "libhdfs3",
        user: str | None = None,
        storage_options: Mapping[str, Any] | None = None,
    ) -> None:
        self._url = dataset_url if isinstance(dataset_url, str) else dataset_url.geturl()
        self._options = dict(storage_options or {})
        located(self._url)

    def parsed_dataset_url(self) -> urllib.parse.ParseResult:
        """Returns the URL, parsed into its parts."""
        return urllib.parse.urlparse(self._url)

    def get_dataset_path(self) -> str:
        """Returns the path of the URL in its file system."""
        return get_dataset_path(self.parsed_dataset_url())

    def filesystem(self) -> Any:
        """Returns the file system."""
        return _made(self._url, self._options)

    def filesystem_factory(self) -> Callable[[], Any]:
        """Returns a function that makes the file system and can be pickled."""
        return functools.partial(_made, self._url, self._options)

    def __getstate__(self) -> NoReturn:
        raise RuntimeError("a FilesystemResolver is not pickled (pass its URL, or filesystem_factory())")


def get_dataset_path(parsed_url: urllib.parse.ParseResult) -> str:
    """Returns the path of a URL in its file system."""
    if parsed_url.scheme.lower() in ("file", "hdfs"):
        return parsed_url.path
    return f"{parsed_url.netloc}{parsed_url.path}"


def get_filesystem_and_path_or_paths(
    url_or_urls: str | list[str],
    hdfs_driver: str = "libhdfs3",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> tuple[Any, Any]:
    """Returns the file system of one or several URLs, and the path of each URL in that file system."""
    located(url_or_urls)
    urls = url_or_urls if isinstance(url_or_urls, list) else [url_or_urls]
    files = filesystem if filesystem is not None else _made(urls[0], dict(storage_options or {}))
    paths = [get_dataset_path(urllib.parse.urlparse(url)) for url in urls]
    return files, paths if isinstance(url_or_urls, list) else paths[0]


def normalize_dir_url(dataset_url: Any) -> str:
    """Returns a URL without the slash at its end."""
    if not isinstance(dataset_url, str):
        raise ValueError("directory url must be a string")
    return dataset_url.removesuffix("/")


def _made(url: str, options: dict[str, Any]) -> Any:
    try:
        from fsspec.core import url_to_fs
    except ImportError:
        return file_system(url)[0]
    return url_to_fs(url, **options)[0]
