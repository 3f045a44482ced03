"""The worker processes that run the user's functions. They exchange batches with this process through shared
memory, and end when this process ends."""

from __future__ import annotations

import contextlib
import itertools
import multiprocessing
import multiprocessing.process
import os
import pickle
import socket
import sys
import threading
import weakref
from collections import deque
from multiprocessing.connection import Connection
from multiprocessing.reduction import send_handle
from typing import Any, TypeVar

from ..errors import InvalidError, WorkerError
from ..options.workers import Workers
from .functions import Functions
from .rejected import Outcome
from .slots import Slot
from .worker import Made, NewSlot, Raised, Ready, Task, run

__all__: list[str] = []

T = TypeVar("T")

#: Number of results of one worker that the training loop may keep in shared memory. More results are copied,
#: because each piece of shared memory needs an open file.
KEPT = 6

#: The name of each worker process.
NAME = "forebay-worker"

#: Seconds after which a process that was told to end, but still runs, is killed.
PATIENCE = 0.15

#: Seconds to wait for the end of a killed process.
KILL_SECONDS = 5.0


def pickled(functions: Any, option: str = Functions.option) -> bytes:
    """Pickles the functions. If a function cannot be sent to worker processes, the error says what to do instead;
    ``option`` is the name of the option that says where the functions run."""
    advice = (
        "define them at the top level of a module, with functools.partial for arguments, or pass "
        f"{option}=forebay.Workers(..., threads=True) or 0"
    )
    try:
        content = pickle.dumps(functions)
    except Exception as error:
        raise InvalidError(f"the transform cannot be sent to worker processes: {error} ({advice})") from None
    main = sys.modules.get("__main__")
    file = getattr(main, "__file__", None)
    if file is not None and getattr(main, "__spec__", None) is None:
        folder = getattr(multiprocessing.process, "ORIGINAL_DIR", None) or ""
        if not os.path.isfile(os.path.join(folder, file)):
            raise InvalidError(
                f"the transform cannot be sent to worker processes: they import the program, and {file!r} is not a "
                "file, as where Python reads it from its standard input (save the program as a file, or pass "
                f"{option}=forebay.Workers(..., threads=True) or 0)"
            )
    if b"__main__" in content and getattr(main, "__file__", None) is None and getattr(main, "__spec__", None) is None:
        raise InvalidError(
            "the transform cannot be sent to worker processes: it was defined in an interactive session, which they "
            f"cannot import ({advice})"
        )
    return content


def processes(functions: Functions | None, workers: Workers) -> Processes | None:
    """Makes the processes for a loader; ``None`` if its functions do not run in processes."""
    if functions is None or workers.count == 0 or workers.in_threads:
        return None
    pickled(functions, functions.option)
    return Processes(functions, workers.count, workers.seeded)


class Processes:
    """The worker processes of a loader. They are kept for the next epoch, unless an epoch is left early."""

    def __init__(self, functions: Functions, count: int, seeded: bool) -> None:
        self._functions = functions
        self._count = count
        self._seeded = seeded
        # A deque is used because one thread may give workers back while another takes them out to end them.
        self._workers: deque[Process] = deque()
        self._shut = False
        self._process = os.getpid()

    def take(self) -> list[Process]:
        """Takes the workers for one epoch. Workers that have ended are replaced."""
        workers = drained(self._workers)
        end([worker for worker in workers if not worker.is_idle()])
        workers = [worker for worker in workers if worker.is_idle()]
        content = pickled(self._functions, self._functions.option) if len(workers) < self._count else b""
        try:
            while len(workers) < self._count:
                workers.append(Process(content, self._seeded))
        except BaseException:
            end(workers)
            raise
        return workers

    def give_back(self, workers: list[Process]) -> None:
        """Keeps the workers of an epoch that has ended for the next one, or ends them after :meth:`shut`."""
        self._workers.extend(workers)
        if self._shut:
            self.close()

    def close(self) -> None:
        """Ends the workers that no epoch is using."""
        workers = drained(self._workers)
        if self._process == os.getpid():
            end(workers)

    def shut(self) -> None:
        """Ends the workers that no epoch is using now, and those of a running epoch when it gives them
        back."""
        self._shut = True
        self.close()

    def __del__(self) -> None:
        # When the interpreter exits, modules may have been replaced by None.
        if os is not None:
            self.close()


class Process:
    """One worker process. One thread of this process sends batches to it, and another receives the
    results."""

    def __init__(self, content: bytes, seeded: bool) -> None:
        context: Any = multiprocessing.get_context("forkserver" if _has_fork_server() else "spawn")
        here, there = context.Pipe()
        self._connection: Connection = here
        # No data goes through this pipe. The worker ends when the pipe is closed, which the system also does
        # when this process ends.
        its_life, self._life = context.Pipe(duplex=False)
        # If this copy of the connection's socket is shut down, a thread that reads from the connection wakes
        # up.
        self._socket = socket.socket(fileno=os.dup(here.fileno()))
        self._process = context.Process(target=run, args=(there, its_life, os.getpid(), seeded), name=NAME, daemon=True)
        self._content = content
        self._is_greeted = self._is_ready = False
        self._ending = threading.Lock()
        self._closing = threading.Lock()
        self._ended = self._released = False
        self._numbers = iter(range(1 << 62))
        # The free slots (pieces of shared memory): those for batches to send, and those for results. The
        # thread that drops the last array of a result gives its slot back.
        self._sources: deque[Slot] = deque()
        self._targets: deque[Slot] = deque()
        self._kept: set[Slot] = set()
        # The slots of batches that were sent and whose results were not received yet, in order.
        self._under_way: deque[tuple[Slot, Slot]] = deque()
        try:
            self._process.start()
        except AssertionError as error:
            self._close()
            raise WorkerError(
                f"a worker process for the transform cannot be started here: {error} (pass transform_workers=0, or "
                "forebay.Workers(..., threads=True))"
            ) from None
        except BaseException:
            self._close()
            raise
        finally:
            there.close()
            its_life.close()

    def is_idle(self) -> bool:
        """Whether the process is alive and has no batch to work on."""
        try:
            # If the process has ended, `poll` returns True as well, because the end of the data can be read.
            return not self._under_way and not self._connection.poll(0)
        except OSError:
            return False

    def send(self, arrays: dict[str, Any], count: int, keys: Any) -> None:
        """Sends a batch to the process. The arrays are copied to shared memory."""
        if not self._is_greeted:
            self._connection.send_bytes(self._content)
            self._is_greeted, self._content = True, b""
        source = self._slot(self._sources)
        try:
            source.clear()
            packed = source.pack((arrays, keys))
            target = self._slot(self._targets)
        except BaseException:
            self._give_back(source, self._sources)
            raise
        self._under_way.append((source, target))
        self._close_if_released()
        self._connection.send_bytes(pickle.dumps(Task(packed, count, source.number, target.number)))

    def receive(self) -> tuple[Any, int, Outcome] | Raised:
        """Waits for the next result, and returns it with its size in bytes and the rejected rows."""
        if not self._is_ready:
            ready: Ready | Raised = pickle.loads(self._connection.recv_bytes())
            if isinstance(ready, Raised):
                return ready
            self._is_ready = True
        result: Made | Raised = pickle.loads(self._connection.recv_bytes())
        source, target = self._under_way.popleft()
        if result.kept:
            source.close()
        else:
            self._sources.append(source)
        if isinstance(result, Raised):
            self._targets.append(target)
            return result
        try:
            value, held = target.unpack(result.packed)
        except BaseException:
            self._give_back(target, self._targets)
            raise
        lease = held()
        if lease is None:
            self._targets.append(target)
        elif len(self._kept) < KEPT:
            self._kept.add(target)
            weakref.finalize(lease, self._dropped, target).atexit = False
        else:
            value = pickle.loads(pickle.dumps(value, protocol=5))
            self._targets.append(target)
        return value, result.nbytes, result.outcome

    def exit_code(self) -> int | None:
        """Waits for the end of the process, and returns its exit code: the negative number of the signal that
        killed it, or ``None`` if it has not ended in time."""
        with self._ending:
            self._process.join(KILL_SECONDS)
        code: int | None = self._process.exitcode
        return code

    @property
    def began(self) -> bool:
        """Whether the process has unpickled the functions."""
        return self._is_ready

    @property
    def process_id(self) -> int | None:
        """The process id."""
        number: int | None = self._process.pid
        return number

    def hang_up(self) -> None:
        """Tells the process to end, and ends all waits for it."""
        with self._closing, contextlib.suppress(OSError):
            self._life.close()
            self._socket.shutdown(socket.SHUT_RDWR)

    def end(self) -> None:
        """Waits until the process has ended, and kills it if this takes long."""
        with self._ending:
            if self._ended:
                return
            self._ended = True
            self.hang_up()
            self._process.join(PATIENCE)
            if self._process.exitcode is None:
                self._process.kill()
                self._process.join(KILL_SECONDS)

    def release(self) -> None:
        """Frees the memory and connections that this process holds for the worker. No thread may be
        reading."""
        self._close()
        self._released = True
        self._close_if_released()

    def _close(self) -> None:
        with self._closing:
            self._connection.close()
            self._life.close()
            self._socket.close()

    def _slot(self, free: deque[Slot]) -> Slot:
        if free:
            return free.popleft()
        slot = Slot.new(next(self._numbers))
        try:
            self._connection.send_bytes(pickle.dumps(NewSlot(slot.number)))
            send_handle(self._connection, slot.descriptor, self._process.pid)
        except BaseException:
            slot.close()
            raise
        return slot

    def _dropped(self, slot: Slot) -> None:
        self._kept.discard(slot)
        self._give_back(slot, self._targets)

    def _give_back(self, slot: Slot, free: deque[Slot]) -> None:
        free.append(slot)
        self._close_if_released()

    def _close_if_released(self) -> None:
        """Closes all slots if the worker was released. It is called each time after a slot was added, because
        another thread may have released the worker just before that."""
        if self._released:
            pairs = drained(self._under_way)
            for slot in [*drained(self._sources), *drained(self._targets), *itertools.chain.from_iterable(pairs)]:
                slot.close()


def drained(values: deque[T]) -> list[T]:
    """Takes all values out of a deque, to which other threads may be adding values."""
    taken = []
    with contextlib.suppress(IndexError):
        while True:
            taken.append(values.popleft())
    return taken


def end(workers: list[Process]) -> None:
    """Ends processes and frees their resources. No thread may be reading from the processes."""
    for worker in workers:
        worker.hang_up()
    for worker in workers:
        worker.end()
        worker.release()


def _forget() -> None:
    """In a forked child, removes the workers from the list of children that ``multiprocessing`` ends at the
    child's exit, because they belong to the parent."""
    children = getattr(multiprocessing.process, "_children", None)
    if isinstance(children, set):
        children -= {child for child in children if child.name == NAME}


os.register_at_fork(after_in_child=_forget)


def _has_fork_server() -> bool:
    return "forkserver" in multiprocessing.get_all_start_methods()
