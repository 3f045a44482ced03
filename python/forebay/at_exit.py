"""Loaders that are still alive when the interpreter exits: their threads have to end before Python does."""

from __future__ import annotations

import atexit
import multiprocessing.util  # noqa: F401  before the registration below, so that it ends worker processes after loaders
import weakref
from typing import Protocol

__all__: list[str] = []


class Closes(Protocol):
    """What has threads until it is closed."""

    def close(self) -> None:
        """Ends the threads. Does nothing in a forked child."""


_ALIVE: weakref.WeakSet[Closes] = weakref.WeakSet()


def close_at_exit(loader: Closes) -> None:
    """Closes it when the interpreter exits, if it is still alive then."""
    _ALIVE.add(loader)


@atexit.register
def _close_all() -> None:
    for loader in list(_ALIVE):
        loader.close()
