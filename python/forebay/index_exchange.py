"""Opens a data set in all processes of a run together, for ``Dataset.together``.

One process reads the footers, and the others take them from the key-value store of the launcher.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Protocol, TypeVar

from .errors import CorruptError, DatasetChangedError, InvalidError, IoError, StateMismatchError
from .launcher_store import Awaited, got, key_of, put, where
from .options.checks import whole

__all__: list[str] = []

#: Version of the format of the values in the store.
_VERSION = 1

#: The largest number of bytes that are stored as one value, because torch's store accepts at most 8 MiB. A
#: longer index is stored in several values.
_CHUNK = 4 << 20

#: The rank that reads the footers.
_READER = 0


class Opened(Protocol):
    """The part of an open data set that this module uses."""

    @property
    def fingerprint(self) -> str:
        """Identifies the content and order of the data set."""

    @property
    def num_files(self) -> int:
        """Number of files."""

    @property
    def num_rows(self) -> int:
        """Number of rows in all files."""

    def index(self) -> bytes:
        """The footers of the files as bytes."""


D = TypeVar("D", bound=Opened)


def opened_together(
    urls: Any,
    store: Any,
    rank: Any,
    timeout: Any,
    reads: Callable[[], D],
    takes: Callable[[bytes], D],
) -> D:
    """Opens the data set on this rank. Rank 0 calls ``reads`` and shares the index of the data set; every
    other rank calls ``takes`` with that index."""
    rank = whole(rank, "rank", 0)
    seconds = _seconds(timeout)
    for name in ("set", "get"):
        if not callable(getattr(store, name, None)):
            raise InvalidError(
                f"store must have set(key, value) and get(key), got {type(store).__qualname__} "
                "(pass a torch.distributed.TCPStore, or an object like it)"
            )
    key = key_of(urls, "index")
    return _hand_on(reads, store, key) if rank == _READER else _take(takes, urls, store, key, seconds)


def _hand_on(reads: Callable[[], D], store: Any, key: str) -> D:
    """Opens the data set, and puts its index into the store. If it cannot be opened, the store gets the
    reason."""
    try:
        dataset = reads()
        index = dataset.index()
        proof = hashlib.blake2b(index, digest_size=16).hexdigest()
        chunks = -(-len(index) // _CHUNK)
        for number in range(chunks):
            chunk = index[number * _CHUNK : (number + 1) * _CHUNK]
            put(store, f"{key}/{proof}/{number}", chunk)
    except BaseException as error:
        # The other ranks wait for a value of this key, so they get the error as that value.
        said = str(error) or type(error).__name__
        put(store, key, _header(error=said))
        raise
    # The header is stored last, so that all chunks are there when a rank finds it.
    about = {"fingerprint": dataset.fingerprint, "files": dataset.num_files, "rows": dataset.num_rows}
    put(store, key, _header(proof=proof, chunks=chunks, **about))
    return dataset


def _take(takes: Callable[[bytes], D], urls: Any, store: Any, key: str, seconds: float) -> D:
    """Opens the data set with the index from the store."""
    until = time.monotonic() + seconds
    name = where(urls)
    awaited = Awaited(
        what="index",
        rank=_READER,
        where=name,
        seconds=seconds,
        if_failed=f"check that rank {_READER} opened the data set, and that the store's server runs",
        if_late=f"check that rank {_READER} opens the same locations, or raise timeout",
    )
    header = _read_header(got(store, key, awaited, until), name)
    if "error" in header:
        raise IoError(
            f"{name}: rank {_READER}, which reads the footers, could not open it: {header['error']} "
            f"(see the error of rank {_READER})"
        )
    keys = (f"{key}/{header['proof']}/{number}" for number in range(header["chunks"]))
    chunks = [got(store, chunk, awaited, until) for chunk in keys]
    index = b"".join(chunks)
    if hashlib.blake2b(index, digest_size=16).hexdigest() != header["proof"]:
        raise CorruptError(f"{name}: the index in the store is damaged (use a store that only this run uses)")
    dataset = takes(index)
    if dataset.fingerprint != header["fingerprint"]:
        here, there = _counts(dataset.num_files, dataset.num_rows), _counts(header["files"], header["rows"])
        what = f"{there} there, {here} here" if here != there else f"{here}, with other content"
        raise DatasetChangedError(
            f"{name}: rank {_READER} found another data set than this rank: {what} "
            "(give all ranks the same files and options, and leave the files as they are while a run starts)"
        )
    return dataset


def _header(**content: Any) -> bytes:
    return json.dumps({"version": _VERSION, **content}).encode()


def _read_header(value: bytes, where: str) -> dict[str, Any]:
    try:
        header: dict[str, Any] = json.loads(value)
        version = header["version"]
    except (ValueError, TypeError, KeyError):
        raise CorruptError(
            f"{where}: the store holds something other than an index (use a store that only this run uses)"
        ) from None
    if version != _VERSION:
        raise StateMismatchError(
            f"{where}: another version of forebay put the index into the store (install one version on all ranks)"
        )
    return header


def _seconds(timeout: Any) -> float:
    seconds = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)) or not 0 < seconds < float("inf"):
        raise InvalidError(f"timeout must be a number of seconds above 0, got {timeout!r}")
    return float(seconds)


def _counts(files: int, rows: int) -> str:
    return f"{files:,} file{'' if files == 1 else 's'} with {rows:,} row{'' if rows == 1 else 's'}"
