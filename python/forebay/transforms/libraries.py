"""Random numbers and threads of the libraries that the user's functions use: numpy, torch, and Python's ``random``.

Their global generators belong to the process. A worker process has them to itself and seeds them for each row and each
batch. On a thread they are the training loop's as well: there a function that changes them is reported, and nothing is
seeded.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import importlib.util
import pickle
import random
import sys
import threading
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

__all__: list[str] = []

#: The most that numpy's global generator takes as a seed.
MOST_SEED = (1 << 32) - 1

#: Batches that are judged before the functions of a loader are trusted. Each costs about 0.1 ms.
LOOKS = 16

#: Seconds that the training loop waits for threads to begin: one that cannot be started never does.
PATIENCE = 1.0


class Seeds:
    """Seeds the global generators of a process that only works for this, and has its libraries take one thread."""

    def __init__(self) -> None:
        self._key = 0
        for name in ("torch", "cv2"):
            module = sys.modules.get(name)
            if module is None:
                # A function may import it when it is first called.
                sys.meta_path.insert(0, _OnImport(name, self._met))
            else:
                self._met(module)

    def __call__(self, key: int) -> None:
        """Seeds them from the key of a row or a batch."""
        self._key = key
        random.seed(key)
        np.random.seed(key & MOST_SEED)
        _seed_torch(sys.modules.get("torch"), key)

    def _met(self, module: types.ModuleType) -> None:
        with contextlib.suppress(Exception):
            if module.__name__ == "torch":
                module.set_num_threads(1)
                _seed_torch(module, self._key)
            else:
                module.setNumThreads(0)


class OneThread:
    """Has torch take one thread on threads of this package, and leaves the number of all others as it is.

    It is made, and :meth:`begun` is called, on the thread of the training loop. Each of the ``count`` threads calls
    :meth:`take` before all else.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken = threading.Semaphore(0)
        self._set = getattr(sys.modules.get("torch"), "set_num_threads", None)
        # To ask for it fixes the number of the thread that asks.
        self._number: int = 1 if self._set is None else sys.modules["torch"].get_num_threads()

    def take(self) -> None:
        """Has torch take one thread on this one."""
        try:
            if self._set is not None:
                # The first question has torch give the thread the number of the process.
                sys.modules["torch"].get_num_threads()
                self._set(1)
        finally:
            self._taken.release()

    def begun(self) -> None:
        """Waits until all of them did, and gives the number back to threads that begin later."""
        if self._set is None:
            return
        for _ in range(self._count):
            self._taken.acquire(timeout=PATIENCE)
        self._set(self._number)


class Watch:
    """Whether functions on threads of this process change generators that the training loop draws from.

    What changes while the training loop waits for a batch was not changed by the loop. A wait counts only if this
    loader's functions are at work in it, and no other loader's.
    """

    def __init__(self, functions: Sequence[str]) -> None:
        self._functions = functions
        self._looks = LOOKS
        self._found: list[str] = []
        # How often the functions were begun.
        self._begun = 0

    @contextlib.contextmanager
    def works(self) -> Iterator[None]:
        """Around the functions' work on a batch."""
        with _LOCK:
            self._begun += 1
            _AT_WORK.all_begun += 1
            _AT_WORK.watches.append(self)
        try:
            yield
        finally:
            with _LOCK:
                _AT_WORK.watches.remove(self)

    @contextlib.contextmanager
    def waits(self, is_ready: bool) -> Iterator[None]:
        """Around a wait of the training loop, which is short where a batch is ready."""
        # A loop on another thread may prepare batches for the main one, which draws meanwhile.
        is_main = threading.current_thread() is threading.main_thread()
        if is_ready or self._looks == 0 or self._found or not is_main:
            yield
            return
        with _LOCK:
            others, own = _AT_WORK.all_begun - self._begun, self._begun
            is_at_work = self in _AT_WORK.watches
            is_alone = all(watch is self for watch in _AT_WORK.watches)
        before = _states()
        yield
        after = _states()
        with _LOCK:
            is_alone = is_alone and others == _AT_WORK.all_begun - self._begun
            is_at_work = is_at_work or own != self._begun
        if is_alone and is_at_work:
            self._looks -= 1
            # A library that was imported in the meantime had no state before.
            self._found = [name for name, state in before.items() if state is not None and after[name] != state]
        if self._found:
            self._warn()

    def _warn(self) -> None:
        names = " and ".join(self._found)
        warnings.warn(
            f"{' or '.join(self._functions)} draws from the global generator of {names}, or seeds it, on a thread of "
            "this process. The training loop draws from the same one, so both differ from run to run (draw from "
            "fb.rng(row), or from a generator that is seeded from it; or pass transform_workers=1 or more: a worker "
            f"process seeds {names} from each row)",
            RuntimeWarning,
            stacklevel=8,
        )


class _AtWork:
    """The functions that are at work on threads of this process, of all loaders."""

    def __init__(self) -> None:
        self.watches: list[Watch] = []
        # How often any were begun.
        self.all_begun = 0


_LOCK = threading.Lock()
_AT_WORK = _AtWork()


class _OnImport(importlib.abc.MetaPathFinder):
    """Calls a function with a module when that has been imported, once."""

    def __init__(self, name: str, then: Callable[[types.ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """That of the other finders, for this one module."""
        if name != self._name:
            return None
        sys.meta_path.remove(self)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None:
            return None
        loader, execute = spec.loader, spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            self._then(module)

        loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


def _seed_torch(torch: Any, key: int) -> None:
    # torch.manual_seed takes a hundred times as long, for devices that a worker does not use.
    generator = getattr(torch, "default_generator", None)
    if generator is not None:
        generator.manual_seed(key)


def _states() -> dict[str, Any]:
    """The states of the global generators, by library."""
    of_numpy = pickle.dumps(np.random.get_state(legacy=False))
    states: dict[str, Any] = {"random": random.getstate(), "numpy.random": of_numpy}
    generator = getattr(sys.modules.get("torch"), "default_generator", None)
    states["torch"] = None if generator is None else generator.get_state().numpy().tobytes()
    return states
