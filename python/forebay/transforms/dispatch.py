"""Runs the user's functions in worker processes: sends batches to the processes, and receives the results."""

from __future__ import annotations

import contextlib
import pickle
import threading
from collections import deque
from typing import Any

from ..errors import WorkerError
from .processes import Process, Processes, end
from .several import Flow, Pending
from .worker import Raised

__all__: list[str] = []


def in_processes(flow: Flow, processes: Processes, is_last: bool) -> None:
    """Pulls the batches of an epoch, and lets processes work on them. The processes are kept for the next
    epoch, unless this epoch is the last one, was left early or failed."""
    channels: list[_Channel] = []
    try:
        flow.workers = processes.take()
        channels += [_Channel(flow, worker) for worker in flow.workers]
        while (found := flow.next()) is not None:
            # The batch goes to the process with the fewest pending batches.
            min(channels, key=lambda channel: len(channel.pending)).send(*found)
            del found
    except BaseException as error:
        failed = Pending(0, None, [])
        failed.fails(error)
        flow.order.put(failed)
    finally:
        for channel in channels:
            channel.finish()
        # If the epoch was left early, or a worker failed, the processes end.
        if flow.complete and not flow.hung_up.is_set() and all(channel.is_well for channel in channels) and not is_last:
            processes.give_back(flow.workers)
        else:
            end(flow.workers)
        flow.workers = []


class _Channel:
    """Sends batches to one process, and receives the results on a separate thread."""

    def __init__(self, flow: Flow, worker: Process) -> None:
        self.pending: deque[Pending] = deque()
        self.is_well = True
        self._flow = flow
        self._worker = worker
        self._change = threading.Condition()
        self._finished = False
        self._thread = threading.Thread(target=self._receive, name="forebay-transform-worker", daemon=True)
        self._thread.start()

    def send(self, pending: Pending, arrays: dict[str, Any], count: int, keys: Any) -> None:
        """Sends a batch to the process."""
        try:
            self._worker.send(arrays, count, keys)
        except OSError:
            # The process has ended. The receiving thread notices this too, and reports it.
            pass
        except BaseException as error:
            pending.fails(self._flow.placed(error, pending, "transform", None))
            return
        with self._change:
            if not self.is_well:
                pending.fails(_death(self._worker))
                return
            if not self.pending:
                self._flow.native.transform_begins()
            self.pending.append(pending)
            self._change.notify()

    def finish(self) -> None:
        """Waits until the results of all batches are received."""
        with self._change:
            self._finished = True
            self._change.notify()
        self._thread.join()

    def _receive(self) -> None:
        try:
            while self._has_pending():
                pending = self.pending[0]
                try:
                    result = self._worker.receive()
                    if isinstance(result, Raised):
                        pending.fails(self._flow.placed(_error(result), pending, result.function, result.row))
                        self.is_well = self.is_well and self._worker.began
                    else:
                        made, size, outcome = result
                        self._flow.native.transformed(size)
                        pending.has(made, outcome)
                        # Without this, the result would stay in memory during the wait for the next one.
                        del made
                    del result
                except (EOFError, OSError):
                    self._lost(pending)
                    return
                with self._change:
                    self.pending.popleft()
                    if not self.pending:
                        self._flow.native.transform_ends()
                del pending
        except BaseException as error:
            self._fail(error)

    def _has_pending(self) -> bool:
        with self._change:
            self._change.wait_for(lambda: self.pending or self._finished)
            return bool(self.pending)

    def _lost(self, pending: Pending) -> None:
        """Makes all pending batches fail, because the process has ended."""
        error: BaseException = WorkerError("the epoch was left")
        if not self._flow.hung_up.is_set():
            error = self._flow.placed(_death(self._worker), pending, "transform", None)
        self._fail(error)

    def _fail(self, error: BaseException) -> None:
        with self._change:
            self.is_well = False
            if self.pending:
                self._flow.native.transform_ends()
            for pending in self.pending:
                pending.fails(error)
            self.pending.clear()


class _WorkerTraceback(Exception):
    """The traceback in a worker process as text; it is shown as the cause of the exception."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"in a worker process:\n\n{self.text}"


def _error(raised: Raised) -> BaseException:
    """The exception that a worker process raised, or a WorkerError with its message if it cannot be
    unpickled."""
    error: BaseException
    if raised.function == "functions":
        error = WorkerError(
            f"a worker process cannot import the transform: {raised.kind}: {raised.message} (define it at the top "
            "level of a module that other processes can import)"
        )
    else:
        error = WorkerError(f"{raised.kind}: {raised.message}")
        if raised.pickled is not None:
            # Unpickling may fail, for instance because the class differs in this process.
            with contextlib.suppress(Exception):
                error = pickle.loads(raised.pickled)
    error.__cause__ = _WorkerTraceback(raised.traceback)
    return error


def _death(worker: Process) -> WorkerError:
    """An error that says why a process has ended."""
    code = worker.exit_code()
    if code is None:
        how = "does not answer"
    else:
        how = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    if code is not None and code >= 0 and not worker.began:
        return WorkerError(
            f"worker process {worker.process_id} of the transform {how} before it began (see its output above; a "
            'script that starts processes needs `if __name__ == "__main__":` around what it runs)'
        )
    return WorkerError(
        f"worker process {worker.process_id} of the transform {how} (if it was killed, memory may have run out: use "
        "fewer transform_workers or a smaller batch_size; a library that crashes shows with transform_workers=0)"
    )
