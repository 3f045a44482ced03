"""One pass over the rows of a rank, with or without a transform."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple, Protocol

from . import _forebay
from .errors import InvalidError
from .options.workers import Workers
from .rows.row_id import RowId
from .transforms.ahead import Ahead, Made
from .transforms.dispatch import in_processes
from .transforms.functions import Functions
from .transforms.in_order import InOrder
from .transforms.libraries import OneThread, Watch
from .transforms.processes import Processes
from .transforms.rejected import Outcome
from .transforms.several import Flow, Several, in_threads

__all__ = ["Epoch", "SkippedRow"]


class _SkippedRow(NamedTuple):
    file: str | None
    row_group: int | None
    row: int | None
    column: str | None
    cause: str


class SkippedRow(_SkippedRow):
    """A row that was left out, with the reason, and its place in the files as far as it is known.

    Attributes
    ----------
    file : str or None
        Path or URL of the file.
    row_group : int or None
        Ordinal of the row group in the file, from 0.
    row : int or None
        Ordinal of the row in its row group, from 0.
    column : str or None
        The column that made the row bad; ``None`` if the whole row group could not be read, or if a function
        of yours rejected the row.
    cause : str
        The reason, in words.
    row_id : RowId or None
        The number of the row, by which ``deny`` of :class:`Loader` leaves it out. It is an attribute, not one
        of the five items of the tuple.
    """

    row_id: RowId | None = None

    def __new__(
        cls,
        file: str | None,
        row_group: int | None,
        row: int | None,
        column: str | None,
        cause: str,
        row_id: int | None = None,
    ) -> SkippedRow:
        made = super().__new__(cls, file, row_group, row, column, cause)
        made.row_id = None if row_id is None else RowId(row_id)
        return made

    def __getnewargs__(self) -> tuple[Any, ...]:
        return (*self, self.row_id)


class Pulled(NamedTuple):
    """A batch that was pulled, and the receipt by which the loader counts it; see :meth:`Epoch.pull`.

    Attributes
    ----------
    batch : Batch or mapping
        The batch, or the result of the loader's functions.
    step : object
        The receipt.
    """

    batch: Any
    step: Receipt


class Owner(Protocol):
    """The part of a loader that its epochs use."""

    _arguments: dict[str, Any]
    _native: _forebay.Loader
    _functions: Functions | None
    _workers: Workers
    _processes: Processes | None
    _watch: Watch
    _generation: int
    """A number that increases when a state is loaded, so that earlier epochs are known to be outdated."""

    def _check_process(self) -> None:
        """Raises an error in a forked child process."""


class Receipt(NamedTuple):
    """The receipt by which a loader counts one of its batches as handed over."""

    loader: Owner
    step: _forebay.Step


class Epoch(Iterator[Any]):
    """The batches of one epoch, in order; made by iterating over a :class:`Loader`.

    Each batch is a :class:`forebay.Batch`, or the result of the loader's functions. A batch counts as handed
    over, for ``state_dict()``, when ``next`` returns it. After an exception the epoch is over; the next epoch
    works.

    Examples
    --------
    >>> import forebay as fb
    >>> loader = fb.Loader("data/train/", columns=["id"], batch_size=100)
    >>> epoch = iter(loader)
    >>> epoch.number
    0
    >>> next(epoch)["id"].shape
    (100,)
    """

    def __init__(self, loader: Owner, native: _forebay.Epoch) -> None:
        self._loader = loader
        self._native = native
        self._generation = loader._generation
        self._process = os.getpid()
        self._closed = False
        # The number of batches that were pulled so far, and whether they are all batches of the epoch.
        self._pulled = 0
        self._complete = False
        self._transformed = _transformed(loader, native)

    @property
    def number(self) -> int:
        """Number of this epoch, from 0."""
        return self._native.number

    @property
    def outdated(self) -> bool:
        """Whether a state was loaded since this epoch began. Asking for a batch then raises
        :class:`ClosedError`."""
        return self._generation != self._loader._generation

    @property
    def skipped(self) -> list[SkippedRow]:
        """The rows that were left out so far, in the order of the epoch; see :meth:`Loader.skipped`."""
        return [SkippedRow(*row) for row in self._native.skipped.rows()]

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        if self._transformed is None:
            return self._next_untransformed()
        pulled = self.pull()
        if pulled is None:
            raise StopIteration
        self.hand_over(pulled)
        return pulled.batch

    def _next_untransformed(self) -> Any:
        """Pulls a batch and hands it over like ``pull`` and ``hand_over``, without a receipt."""
        step = None
        try:
            self._loader._check_process()
            step = self._native.pull(True)
        finally:
            if step is None:
                self._gets_nothing()
        if step is None:
            raise StopIteration
        self._pulled += 1
        self._complete = step.is_last
        self._loader._native.handed_over(step)
        return step.batch

    def pull(self) -> Pulled | None:
        """Waits for the next batch, without counting it as handed over.

        This is the first step of an adapter that drives the loop itself; see :mod:`forebay.adapters`.
        ``next`` pulls and hands over at once.

        Returns
        -------
        Pulled or None
            The batch and its receipt; ``None`` after the last.

        Raises
        ------
        ForebayError
            The batch could not be made. The epoch is over then.
        ClosedError
            The epoch has ended, because the epoch or the loader was closed, another epoch was started, or a
            state was loaded. Or this process is a forked child.

        Examples
        --------
        >>> import forebay as fb
        >>> loader = fb.Loader("data/train/", batch_size=64)
        >>> epoch = iter(loader)
        >>> pulled = epoch.pull()
        >>> loader.state_dict()["row"]
        0
        >>> epoch.hand_over(pulled)
        >>> loader.state_dict()["row"]
        64
        """
        pulled = None
        try:
            pulled = self._pull()
        finally:
            if pulled is None:
                self._gets_nothing()
        return pulled

    def hand_over(self, pulled: Pulled) -> None:
        """Counts a batch, and all earlier batches, as handed over to the training step.

        Parameters
        ----------
        pulled : Pulled
            A batch and its receipt, as :meth:`pull` returned them.

        Raises
        ------
        InvalidError
            ``pulled`` is not what :meth:`pull` returned, or was pulled from an epoch of another loader.
        ClosedError
            This is a forked child.
        """
        if not isinstance(pulled, Pulled):
            raise InvalidError(f"pulled must be what pull() returned, got {type(pulled).__qualname__}")
        loader, step = pulled.step
        if loader is not self._loader:
            raise InvalidError(
                f"the batch was pulled from {loader!r}, but this is an epoch of {self._loader!r} "
                "(hand it over to an epoch of the loader that it was pulled from)"
            )
        loader._native.handed_over(step)

    def _pull(self) -> Pulled | None:
        """Pulls a batch like :meth:`pull`, but does not call :meth:`_gets_nothing` if there is none, because
        the caller may still have an earlier batch for the training step."""
        self._loader._check_process()
        self._native.check_open()
        if self._transformed is not None:
            self._native.asks()
            made = self._transformed.pull()
        else:
            step = self._native.pull(True)
            made = None if step is None else Made(step.batch, step, Outcome())
        if made is None:
            return None
        self._pulled += 1
        self._complete = made.step.is_last
        return Pulled(made.batch, Receipt(self._loader, made.step))

    def _gets_nothing(self) -> None:
        """Notes that the training step no longer waits for the batch that it asked for."""
        if self._process == os.getpid():
            self._native.gets_nothing()

    def close(self) -> None:
        """Ends the epoch and drops the batches that are prepared for it.

        Asking for a batch raises :class:`ClosedError` from then on.
        """
        self._end(_forebay.Reason.Left)

    def _end(self, reason: _forebay.Reason) -> None:
        """Ends the epoch like :meth:`close`. The next pull raises an error with the given reason."""
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        self._native.close(reason)
        if self._transformed is not None:
            self._transformed.close()

    def __del__(self) -> None:
        # Attributes are missing if the constructor raised, and modules when the interpreter exits.
        if getattr(self, "_transformed", None) is not None and os is not None:
            self.close()

    def __repr__(self) -> str:
        return f"<forebay.Epoch {self.number} of {self._loader!r}>"


def _transformed(loader: Owner, native: _forebay.Epoch) -> InOrder | None:
    """The batches of an epoch, processed by the loader's functions; ``None`` if the loader has no
    functions."""
    functions = loader._functions
    if functions is None:
        return None

    def read_again() -> Ahead | Several:
        return _at_work(loader, loader._native.read_again(native.number), functions)

    return InOrder(native, _at_work(loader, native, functions), functions, read_again)


def _at_work(loader: Owner, native: _forebay.Epoch, functions: Functions) -> Ahead | Several:
    workers = loader._workers
    if workers.count == 0:
        return Ahead(loader._native, native, functions, loader._watch)
    flow = Flow(loader._native, native, functions, workers.count, loader._watch)
    if loader._processes is None:
        one_thread = OneThread(workers.count)
        several = Several(flow, in_threads, workers.count, one_thread)
        one_thread.begun()
        return several
    epochs = loader._arguments["epochs"]
    is_last = epochs is not None and native.number + 1 >= epochs
    return Several(flow, in_processes, loader._processes, is_last, processes=loader._processes)
