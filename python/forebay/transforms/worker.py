"""The program of a worker process: it receives batches, applies the user's functions, and sends the results.

It ends when its connection is closed, even in the middle of a function, and therefore also when its parent
process ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import gc
import os
import pickle
import secrets
import select
import signal
import sys
import threading
import traceback
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle
from typing import Any, NamedTuple

from ..errors import InvalidError
from .functions import At, Functions, nbytes
from .libraries import Seeds
from .rejected import Outcome
from .slots import Packed, Slot

__all__: list[str] = []


#: The longest text of an exception that is sent, in characters.
MAX_TEXT_CHARACTERS = 64 << 10

#: The largest pickled exception that is sent, in bytes.
MAX_PICKLED_BYTES = 1 << 20


class NewSlot(NamedTuple):
    """Tells the worker of a new slot, a block of shared memory. The next message has its file descriptor."""

    number: int


class Task(NamedTuple):
    """Asks the worker to apply the functions to a batch."""

    packed: Packed
    """The columns, and the keys from which random numbers of the rows and the batch are made."""
    rows: int
    source: int
    """The number of the slot with the batch."""
    target: int
    """The number of the slot for the result."""


class Ready(NamedTuple):
    """Tells the parent process that the worker has unpickled the functions and is ready for batches."""


class Made(NamedTuple):
    """Tells the parent process the result for a batch."""

    packed: Packed
    nbytes: int
    kept: bool
    """Whether the function keeps arrays of the batch. If so, the slot of the batch cannot be used again."""
    outcome: Outcome


class Raised(NamedTuple):
    """Tells the parent process of an exception that ended the work on a batch."""

    pickled: bytes | None
    """The exception; ``None`` if it cannot be pickled."""
    kind: str
    message: str
    traceback: str
    function: str
    row: int | None
    kept: bool


def run(connection: Connection, life: Connection, parent: int, seeded: bool) -> None:
    """Works until the other end of the connection, or of ``life``, is closed, or the process ``parent``
    ends. ``seeded`` says whether the generators of libraries are seeded before each row and batch."""
    # Ctrl-C reaches all processes of a terminal, but only the process of the training loop handles it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with(life)
    threading.Thread(target=_watch, args=(connection.fileno(), parent), daemon=True).start()
    # `_work` raises these errors when the other end of the connection is closed.
    with contextlib.suppress(EOFError, OSError):
        _work(connection, seeded)
    _leave()


def _work(connection: Connection, seeded: bool) -> None:
    functions = _functions(connection)
    if functions is None:
        return
    seeds = Seeds()
    # Processes that the fork server starts all inherit the same state of each generator, so each process
    # first gets a random seed.
    seeds(secrets.randbits(64))
    seed = seeds if seeded else None
    connection.send_bytes(pickle.dumps(Ready()))
    slots: dict[int, Slot] = {}
    while True:
        message = pickle.loads(connection.recv_bytes())
        if isinstance(message, NewSlot):
            slots[message.number] = Slot(message.number, recv_handle(connection))
            continue
        connection.send_bytes(pickle.dumps(_done(functions, message, slots, seed)))
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(AttributeError, OSError, ValueError):
                stream.flush()


def _functions(connection: Connection) -> Functions | None:
    """Receives and unpickles the functions; ``None`` if this fails, and the error was sent."""
    at = At()
    at.function = "functions"
    try:
        functions: Functions = pickle.loads(connection.recv_bytes())
    except (EOFError, OSError):
        raise
    except BaseException as error:
        connection.send_bytes(pickle.dumps(_raised(error, at, False)))
        return None
    return functions


def _done(functions: Functions, task: Task, slots: dict[int, Slot], seed: Seeds | None) -> Made | Raised:
    source, target = slots[task.source], slots[task.target]
    at = At()
    raised: Raised | None = None
    packed, size = Packed(b"", [], 0), 0
    given, held = source.unpack(task.packed)
    try:
        target.clear()
        arrays, keys = given
        made = functions.apply(arrays, task.rows, keys, at, target.empty, seed)
        size = nbytes(made)
        packed = _packed(made, target)
        # `held` shows below whether anything still refers to arrays of the batch. Only references that
        # the function keeps may count, so those of this frame are deleted.
        del made
    except BaseException as error:
        raised = _raised(error, at, False)
    given = arrays = keys = None
    kept = held() is not None
    if kept and raised is None:
        # The reference may be part of a cycle that the function left behind, such as that of a caught
        # exception. Collecting the cycle frees the arrays.
        gc.collect(0)
        kept = held() is not None
    if kept:
        slots.pop(task.source).close()
    return Made(packed, size, kept, at.outcome) if raised is None else raised._replace(kept=kept)


def _packed(made: object, target: Slot) -> Packed:
    try:
        return target.pack(made)
    except (pickle.PicklingError, AttributeError, TypeError) as error:
        raise InvalidError(
            f"what the transform made cannot be sent from a worker process: {error} (return arrays, numbers and text, "
            "or pass transform_workers=forebay.Workers(..., threads=True))"
        ) from None


def _raised(error: BaseException, at: At, kept: bool) -> Raised:
    pickled = _pickled(error)
    if pickled is None or len(pickled) > MAX_PICKLED_BYTES:
        # The exception cannot be pickled or is too large, perhaps because it contains a batch. An exception
        # of the same type with shortened arguments is sent instead.
        pickled = None
        with contextlib.suppress(BaseException):
            pickled = _pickled(type(error)(*map(_shortened, error.args)))
        if pickled is not None and len(pickled) > MAX_PICKLED_BYTES:
            pickled = None
    text = "".join(traceback.format_exception(type(error), error, error.__traceback__))
    message = _shortened(str(error))
    return Raised(pickled, type(error).__qualname__, message, _shortened(text), at.function, at.row, kept)


def _pickled(error: BaseException) -> bytes | None:
    try:
        pickled = pickle.dumps(error)
        # Some exceptions can be pickled but not unpickled.
        pickle.loads(pickled)
    except BaseException:
        return None
    return pickled


def _shortened(value: Any) -> Any:
    """Leaves out the middle of a text that is too long to be sent."""
    if not isinstance(value, (str, bytes)) or len(value) <= MAX_TEXT_CHARACTERS:
        return value
    left_out = f"\n... {len(value) - MAX_TEXT_CHARACTERS:,} more left out by forebay ...\n"
    half = MAX_TEXT_CHARACTERS // 2
    if isinstance(value, bytes):
        return value[:half] + left_out.encode() + value[-half:]
    return value[:half] + left_out + value[-half:]


def _end_with(life: Connection) -> None:
    """Makes the kernel end this process when the other end of ``life`` is closed, whichever thread has the
    GIL.

    The death signal of ``prctl`` would not work: the parent is the fork server, which lives as long as its
    children.
    """
    descriptor = life.fileno()
    fcntl.fcntl(descriptor, fcntl.F_SETOWN, os.getpid())
    if hasattr(fcntl, "F_SETSIG"):
        fcntl.fcntl(descriptor, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_ASYNC)
    # The other end may have been closed before the signal was set up.
    if life.poll(0):
        _leave()


def _watch(descriptor: int, parent: int) -> None:
    """Ends this process when the other end of the connection is closed, or when the parent process has
    ended."""
    poll = select.poll()
    poll.register(descriptor, 0)
    # Children that the parent has forked may keep the connection open after the parent has ended.
    with contextlib.suppress(OSError, AttributeError):
        poll.register(os.pidfd_open(parent), select.POLLIN)
    poll.poll()
    _leave()


def _leave() -> None:
    # A normal exit of the interpreter would wait for the function's threads.
    os._exit(0)
