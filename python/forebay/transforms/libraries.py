"""Controls the global random generators of numpy, torch and Python's ``random``, and the threads of torch and
OpenCV, for the user's functions.

Each process has its own global generators. A worker process seeds its generators for each row and each batch.
Threads share the generators with the training loop, so they are not seeded there, and a warning names a
function that changes them.
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

#: Number of batches for which it is checked that the user's functions do not change the generators. Each
#: check takes about 0.1 ms.
CHECKED_BATCHES = 16

#: The most seconds that the training loop waits until a thread has begun, because a thread may fail to start.
START_SECONDS = 1.0


class Seeds:
    """Seeds the global generators of a worker process, and limits its libraries to one thread."""

    def __init__(self) -> None:
        self._key = 0
        for name in ("torch", "cv2"):
            module = sys.modules.get(name)
            if module is None:
                # A function may import the library later, when it is first called.
                sys.meta_path.insert(0, _OnImport(name, self._met))
            else:
                self._met(module)

    def __call__(self, key: int) -> None:
        """Seeds the generators with the key of a row or a batch."""
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
    """Limits torch to one thread for the calls on this package's threads, and leaves other threads unchanged.

    The thread of the training loop makes the object and calls :meth:`begun`. Each of the ``count`` threads of
    this package first calls :meth:`take`.
    """

    def __init__(self, count: int) -> None:
        self._count = count
        self._taken = threading.Semaphore(0)
        self._set = getattr(sys.modules.get("torch"), "set_num_threads", None)
        # `get_num_threads` fixes the number for the calling thread, even if other threads set it to 1 later.
        self._number: int = 1 if self._set is None else sys.modules["torch"].get_num_threads()

    def take(self) -> None:
        """Limits torch to one thread on the calling thread."""
        try:
            if self._set is not None:
                # The first call on a thread makes torch copy the process's number of threads to this thread.
                # That must happen before the number is set, because it would overwrite the number.
                sys.modules["torch"].get_num_threads()
                self._set(1)
        finally:
            self._taken.release()

    def begun(self) -> None:
        """Waits until all threads have called :meth:`take`, and restores torch's number of threads for
        threads that begin later."""
        if self._set is None:
            return
        for _ in range(self._count):
            self._taken.acquire(timeout=START_SECONDS)
        self._set(self._number)


class Watch:
    """Checks whether the user's functions, on threads of this process, change the global random generators
    from which the training loop draws.

    If a generator changes while the training loop waits for a batch, the loop itself cannot have changed it.
    A wait is checked only if no functions except those of this loader run during the wait.
    """

    def __init__(self, functions: Sequence[str], option: str = "transform_workers") -> None:
        self._functions = functions
        # The option that says where the functions run.
        self._option = option
        self._looks = CHECKED_BATCHES
        self._found: list[str] = []
        # The number of batches on which the functions of this loader were started.
        self._begun = 0

    @contextlib.contextmanager
    def works(self) -> Iterator[None]:
        """A context for the functions' work on a batch, which notes that they run."""
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
        """A context for a wait of the training loop, which compares the generators before and after the wait.
        It does nothing if a batch is ready."""
        # If another thread waits, the main thread may draw random numbers meanwhile, so nothing is checked.
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
            # The state before is None for torch if it was imported only during the wait.
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
    """The watches of all loaders whose functions run on threads of this process at the moment."""

    def __init__(self) -> None:
        self.watches: list[Watch] = []
        # The number of batches on which functions of any loader were started.
        self.all_begun = 0


_LOCK = threading.Lock()
_AT_WORK = _AtWork()


class _OnImport(importlib.abc.MetaPathFinder):
    """Calls a function with the module ``name`` as soon as that module has been imported."""

    def __init__(self, name: str, then: Callable[[types.ModuleType], None]) -> None:
        self._name = name
        self._then = then

    def find_spec(self, name: str, path: Any, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """Finds the module through the other finders, and makes its loader call the function afterwards."""
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
    # Only the CPU's generator is seeded: torch.manual_seed takes a hundred times as long, because it also
    # seeds devices, which a worker does not use.
    generator = getattr(torch, "default_generator", None)
    if generator is not None:
        generator.manual_seed(key)


def _states() -> dict[str, Any]:
    """The states of the global random generators, by library."""
    of_numpy = pickle.dumps(np.random.get_state(legacy=False))
    states: dict[str, Any] = {"random": random.getstate(), "numpy.random": of_numpy}
    generator = getattr(sys.modules.get("torch"), "default_generator", None)
    states["torch"] = None if generator is None else generator.get_state().numpy().tobytes()
    return states
