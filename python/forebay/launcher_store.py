"""Passes values from one rank of a run to another through a launcher's key-value store, such as torch's
``TCPStore``."""

from __future__ import annotations

import hashlib
import threading
import time
import weakref
from collections import Counter
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

from .errors import ForebayError, InvalidError, IoError
from .options.locations import locations, shown

__all__: list[str] = []

#: The longest time in seconds of one call of ``wait``. Ctrl-C takes effect between two such calls.
_TURN_SECONDS = 1.0

#: Seconds between two attempts to get a value from a store whose ``wait`` is missing or is not used.
_PAUSE_SECONDS = 0.1

#: The numbers that were taken, by name, for the id of each store object.
_taken: dict[int, Counter[str]] = {}

#: Stores that cannot be referred to weakly. They are kept, so that no other store gets the id of one of them.
_kept: list[Any] = []

_lock = threading.Lock()


class KeyValueStore(Protocol):
    """The methods of a launcher's store, such as ``torch.distributed.TCPStore``."""

    def set(self, key: str, value: Any, /) -> Any:
        """Puts a value under a key."""

    def get(self, key: str, /) -> Any:
        """Returns the value of a key. Waits for the value, or returns ``None`` while the key is absent."""


@dataclass(frozen=True)
class Awaited:
    """A value that this rank awaits from another rank, and the texts of the errors if it does not come."""

    #: The name of the value in these errors, such as ``"index"``.
    what: str
    #: The rank that puts the value into the store.
    rank: int
    #: The locations of the data set, as the errors show them.
    where: str
    #: Seconds that this rank waits for the value in all.
    seconds: float
    #: The advice in the error if the store fails, and the advice if the value does not come in time.
    if_failed: str
    if_late: str


def key_of(urls: Any, what: str) -> str:
    """The key under which the store has the value ``what`` of the data set at ``urls``. The key contains a
    hash of the locations, which does not reveal them."""
    text = "\0".join(location.rstrip("/") for location in locations(urls))
    return f"forebay/{what}/{hashlib.blake2b(text.encode(), digest_size=16).hexdigest()}"


def next_number(store: Any, name: str) -> int:
    """Counts the calls in this process with this store object and name, from 0. Ranks that take their numbers in the
    same order have the same ones."""
    with _lock:
        if id(store) not in _taken:
            _taken[id(store)] = Counter()
            try:
                weakref.finalize(store, _taken.pop, id(store), None).atexit = False
            except TypeError:
                _kept.append(store)
        numbers = _taken[id(store)]
        numbers[name] += 1
        return numbers[name] - 1


def is_taken(store: Any, key: str) -> bool:
    """Whether the store has a value of a key; False for a store without ``check``, whose ``get`` may wait."""
    try:
        return callable(getattr(store, "check", None)) and bool(store.check([key]))
    except Exception as error:
        raise IoError(f"the store cannot be read: {said(error)} (check that its server runs)") from error


def put(store: Any, key: str, value: bytes) -> None:
    try:
        store.set(key, value)
    except Exception as error:
        raise IoError(f"the store cannot be written to: {said(error)} (check that its server runs)") from error


def got(store: Any, key: str, awaited: Awaited, until: float) -> bytes:
    """Returns the value of a key. Waits for the value until ``until``, a time of ``time.monotonic``."""
    # `check` is preferred to `wait`: torch's stores log a line whenever `wait` ends without the value.
    checks = callable(getattr(store, "check", None))
    waits = not checks and callable(getattr(store, "wait", None))
    while True:
        began = time.monotonic()
        try:
            if waits:
                store.wait([key], timedelta(seconds=max(min(_TURN_SECONDS, until - began), 0.001)))
            value = store.get(key) if not checks or store.check([key]) else None
        except KeyError:
            value = None
        except Exception as error:
            # `wait` also raises an error when its time is over, which does not mean that the store failed.
            if not waits or time.monotonic() - began < _TURN_SECONDS / 2 < until - began:
                raise IoError(
                    f"{awaited.where}: the store has no {awaited.what} of rank {awaited.rank}: {said(error)} "
                    f"({awaited.if_failed})"
                ) from error
            value = None
        if value is not None:
            if not isinstance(value, (bytes, bytearray, memoryview)):
                raise InvalidError(f"store.get must return bytes, got {type(value).__qualname__}")
            return bytes(value)
        if time.monotonic() >= until:
            raise IoError(
                f"{awaited.where}: rank {awaited.rank} has put no {awaited.what} into the store for "
                f"{awaited.seconds:g} s ({awaited.if_late})"
            )
        if not waits:
            time.sleep(_PAUSE_SECONDS)


def where(urls: Any) -> str:
    found = [str(one) for one in locations(shown(urls))]
    return found[0] + (f" and {len(found) - 1} more" if len(found) > 1 else "")


def said(error: BaseException) -> str:
    """The message of an error; if it is not an error of forebay, only the first line."""
    if isinstance(error, ForebayError):
        return str(error)
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
