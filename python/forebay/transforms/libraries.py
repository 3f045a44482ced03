"""Random numbers and threads of the libraries that the user's functions use: numpy, torch, and Python's
``random``.

The global generators belong to a process. A worker process seeds its own generators for each row and each
batch. Threads share the generators with the training loop: nothing is seeded there, and a function that
changes them is reported.
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

#: The largest seed of numpy's global generator.
MAX_SEED = (1 << 32) - 1

#: Number of batches that are checked before the functions of a loader are trusted. Each check takes about 0.1
#: ms.
CHECKED_BATCHES = 16

#: Seconds that the training loop waits for threads to begin, because a thread may fail to start.
START_SECONDS = 1.0


class Seeds:
    """Seeds the global generators of a worker process, and limits its libraries to one thread."""

    def __init__(self) -> None:
        self._key = 0
        for name in ("torch", "cv2"):
            module = sys.modules.get(name)
            if module is None:
                # A function may import the library when it is first called.
                sys.meta_path.insert(0, _OnImport(name, self._met))
            else:
                self._met(module)

    def __call__(self, key: int) -> None:
        """Seeds the generators from the key of a row or a batch."""
        self._key = key
        random.seed(key)
        np.random.seed(key & MAX_SEED)
        _seed_torch(sys.modules.get("torch"), key)

    def _met(self, module: types.ModuleType) -> None:
        with contextlib.suppress(Exception):
            if module.__name__ == "torch":
                module.set_num_threads(1)
                _seed_torch(module, self._key)
            else:
                module.setNumThreads(0)


class OneThread:
    """Limits torch to one thread on the threads of this package, without a change for other threads.

    The object is made, and :meth:`begun` is called, on the thread of the training loop. Each of the ``count``
    threads first calls :meth:`take`.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken = threading.Semaphore(0)
        self._set = getattr(sys.modules.get("torch"), "set_num_threads", None)
        # Asking for the number of threads fixes it for the asking thread.
        self._number: int = 1 if self._set is None else sys.modules["torch"].get_num_threads()

    def take(self) -> None:
        """Limits torch to one thread on the calling thread."""
        try:
            if self._set is not None:
                # The first call makes torch copy the number of the process to this thread.
                sys.modules["torch"].get_num_threads()
                self._set(1)
        finally:
            self._taken.release()

    def begun(self) -> None:
        """Waits until all threads have called :meth:`take`, and restores the number for threads that begin
        later."""
        if self._set is None:
            return
        for _ in range(self._count):
            self._taken.acquire(timeout=START_SECONDS)
        self._set(self._number)


class Watch:
    """Checks whether functions on threads of this process change generators from which the training loop
    draws.

    A generator that changes while the training loop waits for a batch was not changed by the loop. A wait
    counts only if no functions but those of this loader run during it.
    """

    def __init__(self, functions: Sequence[str], option: str = "transform_workers") -> None:
        self._functions = functions
        # The option that says where the functions run.
        self._option = option
        self._looks = CHECKED_BATCHES
        self._found: list[str] = []
        # How often the functions of this loader were started.
        self._begun = 0

    @contextlib.contextmanager
    def works(self) -> Iterator[None]:
        """Surrounds the functions' work on a batch."""
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
        """Surrounds a wait of the training loop; it is not checked if a batch is ready."""
        # A loop on another thread may prepare batches while the main thread draws random numbers.
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
            # A library that was imported during the wait had no state before.
            self._found = [name for name, state in before.items() if state is not None and after[name] != state]
        if self._found:
            self._warn()

    def _warn(self) -> None:
        names = " and ".join(self._found)
        warnings.warn(
            f"{' or '.join(self._functions)} draws from the global generator of {names}, or seeds it, on a thread of "
            "this process. The training loop draws from the same one, so both differ from run to run (draw from "
            f"fb.rng(row), or from a generator that is seeded from it; or pass {self._option}=1 or more: a worker "
            f"process seeds {names} from each row)",
            RuntimeWarning,
            stacklevel=8,
        )


class _AtWork:
    """The functions of all loaders that run on threads of this process."""

    def __init__(self) -> None:
        self.watches: list[Watch] = []
        # How often functions of any loader were started.
        self.all_begun = 0


_LOCK = threading.Lock()
_AT_WORK = _AtWork()


class _OnImport(importlib.abc.MetaPathFinder):
    """Calls a function once with a module, after the module was imported."""

    def __init__(self, name: str, then: Callable[[types.ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Finds this module through the other finders, and hooks into its loading."""
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
    # torch.manual_seed takes a hundred times as long, because it also seeds devices that a worker does not
    # use.
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
