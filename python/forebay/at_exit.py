"""Closes the loaders that are alive when the interpreter exits: their threads must end before Python does."""

from __future__ import annotations

import atexit
import multiprocessing.util  # noqa: F401  before the registration below, so that it ends worker processes after loaders
import weakref
from typing import Protocol

__all__: list[str] = []


class Closes(Protocol):
    """An object whose threads run until it is closed."""

    def close(self) -> None:
        """Ends the threads. Does nothing in a forked child."""


_ALIVE: weakref.WeakSet[Closes] = weakref.WeakSet()


def close_at_exit(loader: Closes) -> None:
    """Closes ``loader`` when the interpreter exits, if the loader is still alive."""
    _ALIVE.add(loader)


@atexit.register
def _close_all() -> None:
    for loader in list(_ALIVE):
        loader.close()
