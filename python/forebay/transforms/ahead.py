"""Runs the user's functions of a loader on one thread, one batch after the other, ahead of the training
loop."""

from __future__ import annotations

import queue
import threading
from typing import Any, NamedTuple

import numpy as np

from .. import _forebay
from .functions import At, Functions, Keys, nbytes
from .libraries import OneThread, Watch
from .notes import in_place, row_place
from .rejected import Outcome

__all__: list[str] = []

#: Number of batches that are transformed ahead of the training loop: enough if the functions take longer for
#: some batches, and few enough to take little memory.
AHEAD = 2

#: Seconds between two checks whether the epoch has ended, while one thread waits for the other.
CHECK_SECONDS = 0.05

#: The most seconds that closing waits for the thread, which may be in the middle of a long function of the
#: user.
CLOSE_SECONDS = 0.15


class Made(NamedTuple):
    """A batch that the functions made, its step (the loader's record of the batch), and the rejected rows."""

    batch: Any
    step: _forebay.Step
    outcome: Outcome


class Ahead:
    """Runs the functions on a thread, and gives the training loop the batches that they make."""

    def __init__(
        self, loader: _forebay.Loader, native: _forebay.Epoch, functions: Functions, watch: Watch
    ) -> None:
        self._native = native
        self._watch = watch
        self._made: queue.Queue[Made | BaseException | None] = queue.Queue(maxsize=AHEAD - 1)
        self._hung_up = threading.Event()
        one_thread = OneThread(1)
        # The thread has no reference to this object, so that dropping the object ends the thread.
        self._thread = threading.Thread(
            target=_work,
            args=(loader, native, functions, watch, one_thread, self._made, self._hung_up),
            name="forebay-transform",
            daemon=True,
        )
        self._over = False
        self._thread.start()
        one_thread.begun()

    def pull(self) -> Made | None:
        """Waits for the next batch, and returns it; ``None`` after the last batch."""
        with self._watch.waits(not self._made.empty()):
            return self._pull()

    def _pull(self) -> Made | None:
        while not self._over:
            self._native.check_open()
            try:
                made = self._made.get(timeout=CHECK_SECONDS)
            except queue.Empty:
                continue
            if isinstance(made, Made):
                return made
            self._over = True
            if made is not None:
                raise made
        return None

    def close(self) -> None:
        """Ends the thread, after the function that it is running."""
        self._hung_up.set()
        if self._thread is not threading.current_thread():
            self._thread.join(CLOSE_SECONDS)


def _work(
    loader: _forebay.Loader,
    native: _forebay.Epoch,
    functions: Functions,
    watch: Watch,
    one_thread: OneThread,
    made: queue.Queue[Made | BaseException | None],
    hung_up: threading.Event,
) -> None:
    """The thread's work: pulls batches from the epoch, transforms them and puts them into the queue ``made``,
    until the epoch ends or is closed, or an exception is raised."""
    one_thread.take()
    number = 0
    more = True
    while more and not hung_up.is_set():
        result: Made | BaseException | None
        try:
            step = native.pull()
            if step is None:
                result = None
            else:
                result = _apply(functions, watch, loader, native, step, number)
                number += 1
        except BaseException as error:  # it belongs to this batch
            result = error
        more = isinstance(result, Made)
        if made.full():
            native.is_full()
        while not hung_up.is_set():
            try:
                made.put(result, timeout=CHECK_SECONDS)
                break
            except queue.Full:
                continue


def _apply(
    functions: Functions,
    watch: Watch,
    loader: _forebay.Loader,
    native: _forebay.Epoch,
    step: _forebay.Step,
    number: int,
) -> Made:
    batch = step.batch
    arrays = functions.columns(batch)
    numbers, of_rows = (np.frombuffer(part, np.uint64) for part in loader.row_keys(step))
    keys = Keys(of_rows, loader.batch_key(step), loader.step_key(step))
    at = At()
    native.transforms()
    try:
        with watch.works():
            made: dict[str, Any] = functions.apply(arrays, batch.num_rows, keys, at)
        native.transformed(nbytes(made))
        return Made(made, step, at.outcome)
    except BaseException as error:
        place = row_place(loader, numbers.tolist(), at.row)
        raise in_place(error, at.function, number, native, place)  # noqa: B904 - its cause is set already
