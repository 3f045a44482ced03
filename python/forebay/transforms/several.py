"""Runs the functions of a loader on several batches at a time, and delivers the results in order."""

from __future__ import annotations

import queue
import threading
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import _forebay
from .ahead import Made
from .functions import At, Functions, Keys, nbytes
from .libraries import OneThread, Watch
from .notes import in_place, row_place
from .processes import Process, Processes
from .rejected import Outcome

if TYPE_CHECKING:
    from collections.abc import Callable

__all__: list[str] = []

#: Number of batches for each worker: one that it works on, and one that waits for it or is done.
BATCHES_A_WORKER = 2

#: Seconds after which a waiting thread checks again that the epoch was not closed.
CHECK_SECONDS = 0.05

#: Seconds that closing waits for threads and processes, because they may be in the middle of a user's
#: function.
CLOSE_SECONDS = 0.5


class Pending:
    """A batch that workers have not finished, or whose result was not taken yet."""

    def __init__(self, number: int, step: _forebay.Step | None, numbers: list[int]) -> None:
        self.number = number
        self.step = step
        self.numbers = numbers
        self.done = threading.Event()
        self.made: dict[str, Any] = {}
        self.outcome = Outcome()
        self.error: BaseException | None = None

    def has(self, made: dict[str, Any], outcome: Outcome) -> None:
        """Sets the result of the batch."""
        self.made, self.outcome = made, outcome
        self.done.set()

    def fails(self, error: BaseException) -> None:
        """Sets the error of the batch."""
        self.error = error
        self.done.set()


class Flow:
    """The state that the threads of one epoch share. The threads do not refer to the iterator
    :class:`Several`, so that it can be deleted while they run. Its deletion ends the threads."""

    def __init__(
        self, loader: _forebay.Loader, native: _forebay.Epoch, functions: Functions, workers: int, watch: Watch
    ) -> None:
        self.loader = loader
        self.native = native
        self.functions = functions
        self.watch = watch
        self.hung_up = threading.Event()
        self.order: queue.SimpleQueue[Pending | None] = queue.SimpleQueue()
        self.workers: list[Process] = []
        # Whether all batches of the epoch were pulled from the loader.
        self.complete = False
        self._permits = threading.Semaphore(BATCHES_A_WORKER * workers)
        self._number = 0

    def taken(self) -> None:
        """Permits one more batch to be pulled, because the training loop took one."""
        self._permits.release()

    def next(self) -> tuple[Pending, dict[str, Any], int, Keys] | None:
        """Pulls the next batch, and returns it with its columns, its number of rows and the keys of its
        random numbers; ``None`` at the end, after closing, or after a failure."""
        if not self._permits.acquire(blocking=False):
            self.native.is_full()
            while not self._permits.acquire(timeout=CHECK_SECONDS):
                if self.hung_up.is_set():
                    return None
        if self.hung_up.is_set():
            return None
        step: _forebay.Step | None = None
        numbers: list[int] = []
        try:
            step = self.native.pull()
            if step is None:
                self.complete = True
                self.order.put(None)
                return None
            ordinals, of_rows = (np.frombuffer(part, np.uint64) for part in self.loader.row_keys(step))
            batch_key, step_key = self.loader.batch_key(step), self.loader.step_key(step)
            numbers, keys = ordinals.tolist(), Keys(of_rows, batch_key, step_key)
            arrays = self.functions.columns(step.batch)
            pending = Pending(self._number, step.without_batch(), numbers)
        except BaseException as error:  # it belongs to this batch
            pending = Pending(self._number, step, numbers)
            pending.fails(error)
            self.order.put(pending)
            return None
        self._number += 1
        self.order.put(pending)
        return pending, arrays, step.batch.num_rows, keys

    def placed(self, error: BaseException, pending: Pending, function: str, row: int | None) -> BaseException:
        """The error of a user's function, with a note that says which batch or row it was called with."""
        place = row_place(self.loader, pending.numbers, row)
        return in_place(error, function, pending.number, self.native, place)


class Several:
    """An iterator over the results of the workers, in the order in which their batches were pulled."""

    def __init__(
        self, flow: Flow, work: Callable[..., None], *arguments: Any, processes: Processes | None = None
    ) -> None:
        self._flow = flow
        self._processes = processes
        self._next: Pending | None = None
        self._over = self._complete = False
        self._thread = threading.Thread(target=work, args=(flow, *arguments), name="forebay-transform", daemon=True)
        self._thread.start()

    def pull(self) -> Made | None:
        """The next batch; ``None`` after the last."""
        with self._flow.watch.waits(self._next is not None and self._next.done.is_set()):
            return self._pull()

    def _pull(self) -> Made | None:
        native = self._flow.native
        while not self._over:
            native.check_open()
            if self._next is None:
                try:
                    self._next = self._flow.order.get(timeout=CHECK_SECONDS)
                except queue.Empty:
                    continue
                if self._next is None:
                    self._over = self._complete = True
                    # The loader's next epoch needs the worker processes, which the thread gives
                    # back when it ends.
                    self._thread.join(CLOSE_SECONDS)
                    return None
            pending = self._next
            self._wait(pending)
            self._next = None
            if pending.error is not None:
                self._over = True
                self.close()
                raise pending.error
            assert pending.step is not None
            self._flow.taken()
            return Made(pending.made, pending.step, pending.outcome)
        return None

    def _wait(self, pending: Pending) -> None:
        native = self._flow.native
        if pending.done.is_set():
            return
        native.awaits_transform(True)
        try:
            while not pending.done.wait(CHECK_SECONDS):
                native.check_open()
        finally:
            native.awaits_transform(False)

    def close(self) -> None:
        """Ends the threads, and also the worker processes if the epoch is not complete."""
        self._flow.hung_up.set()
        for worker in self._flow.workers:
            worker.hang_up()
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS)
        # If the epoch was left early or failed, processes are ended even if they were given back already.
        if self._processes is not None and not self._complete:
            self._processes.close()


def in_threads(flow: Flow, count: int, one_thread: OneThread) -> None:
    """Pulls batches, and has ``count`` threads apply the user's functions to them."""
    tasks: queue.SimpleQueue[Any] = queue.SimpleQueue()
    for number in range(count):
        name = f"forebay-transform-{number}"
        threading.Thread(target=_work, args=(flow, tasks, one_thread), name=name, daemon=True).start()
    try:
        while (found := flow.next()) is not None:
            tasks.put(found)
            del found
    finally:
        for _ in range(count):
            tasks.put(None)


def _work(flow: Flow, tasks: queue.SimpleQueue[Any], one_thread: OneThread) -> None:
    one_thread.take()
    while (found := tasks.get()) is not None:
        if flow.hung_up.is_set():
            continue
        pending, arrays, count, keys = found
        at = At()
        flow.native.transform_begins()
        try:
            with flow.watch.works():
                made = flow.functions.apply(arrays, count, keys, at)
            flow.native.transformed(nbytes(made))
            pending.has(made, at.outcome)
        except BaseException as error:
            pending.fails(flow.placed(error, pending, at.function, at.row))
        finally:
            flow.native.transform_ends()
        found = pending = arrays = made = None
