"""One pass over a rank's share, with or without a transform."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from . import _forebay
from .errors import InvalidError

if TYPE_CHECKING:
    from .loader import Loader

__all__ = ["BadRow", "Epoch"]

#: Batches that a transform works ahead: enough to even out its times, few enough to cost little memory.
AHEAD = 2

#: Seconds between two checks that the other side is still there.
LOOK = 0.05

#: Seconds that closing waits for the thread of a transform, which may be in the middle of a user's function.
PATIENCE = 0.15


class BadRow(NamedTuple):
    """A row that was left out: its place, as far as that is known, and the reason.

    Attributes
    ----------
    file : str or None
        Path or URL of the file.
    row_group : int or None
        Ordinal of the row group in the file, from 0.
    row : int or None
        Ordinal of the row in its row group, from 0.
    column : str or None
        The column that made it bad; ``None`` where its whole row group could not be read.
    cause : str
        What was wrong with it.
    """

    file: str | None
    row_group: int | None
    row: int | None
    column: str | None
    cause: str


class Pulled(NamedTuple):
    """A batch that was pulled, and the receipt by which it is counted; see :meth:`Epoch.pull`.

    Attributes
    ----------
    batch : Batch or mapping
        The batch, or what the loader's ``transform`` made of it.
    step : object
        The receipt.
    """

    batch: Any
    step: Receipt


class Receipt(NamedTuple):
    """By which a loader counts a batch of its own."""

    loader: Loader
    step: _forebay.Step


class Epoch(Iterator[Any]):
    """The batches of one epoch, in order; made by iterating over a :class:`Loader`.

    Each is a :class:`forebay.Batch`, or what the loader's ``transform`` made of it. It counts as handed over, for
    ``state_dict()``, when ``next`` returns it. After an exception the epoch is over; the next one works.

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

    def __init__(self, loader: Loader, native: _forebay.Epoch, transform: Callable[..., Any] | None) -> None:
        self._loader = loader
        self._native = native
        self._generation = loader._generation
        self._process = os.getpid()
        self._closed = False
        # Batches that were pulled so far, and whether that is all.
        self._pulled = 0
        self._complete = False
        self._transformed = None if transform is None else _Transformed(native, transform)

    @property
    def number(self) -> int:
        """Which epoch this is, from 0."""
        return self._native.number

    @property
    def outdated(self) -> bool:
        """Whether a state was loaded since this epoch began. Asking for a batch then raises :class:`ClosedError`."""
        return self._generation != self._loader._generation

    @property
    def skipped(self) -> list[BadRow]:
        """Rows that were left out so far, in the epoch's order; see :meth:`Loader.skipped`."""
        return [BadRow(*row) for row in self._native.skipped.rows()]

    def __iter__(self) -> Epoch:
        return self

    def __next__(self) -> Any:
        pulled = self.pull()
        if pulled is None:
            raise StopIteration
        self.hand_over(pulled)
        return pulled.batch

    def pull(self) -> Pulled | None:
        """Waits for the next batch, without counting it as handed over.

        This is the first step of an adapter that drives the loop itself; see :mod:`forebay.adapters`. ``next`` pulls
        and hands over at once.

        Returns
        -------
        Pulled or None
            The batch and its receipt; ``None`` after the last.

        Raises
        ------
        ForebayError
            The batch could not be made. The epoch is over then.
        ClosedError
            The epoch was ended: it or the loader was closed, another epoch was begun, or a state was loaded. Or this is
            a forked child.

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
        """Counts a batch, and all before it, as handed over to the training step.

        Parameters
        ----------
        pulled : Pulled
            What :meth:`pull` returned.

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
                f"the batch was pulled from {loader!r}, and this is an epoch of {self._loader!r} "
                "(hand it over to an epoch of the loader that it was pulled from)"
            )
        loader._native.handed_over(step)

    def _pull(self) -> Pulled | None:
        """As :meth:`pull`, where the caller may still have a batch for the training step after the last."""
        self._loader._check_process()
        self._native.check_open()
        if self._transformed is not None:
            self._native.asks()
            made = self._transformed.pull()
        else:
            step = self._native.pull(True)
            made = None if step is None else _Made(step.batch, step)
        if made is None:
            return None
        self._pulled += 1
        self._complete = made.step.is_last
        return Pulled(made.batch, Receipt(self._loader, made.step))

    def _gets_nothing(self) -> None:
        """Notes that the training step, which asked for a batch, no longer waits."""
        if self._process == os.getpid():
            self._native.gets_nothing()

    def close(self) -> None:
        """Ends the epoch and drops what is prepared for it.

        Asking for a batch raises :class:`ClosedError` from then on.
        """
        self._end(_forebay.Reason.Left)

    def _end(self, reason: _forebay.Reason) -> None:
        """As :meth:`close`, for a reason that the next pull names."""
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        self._native.close(reason)
        if self._transformed is not None:
            self._transformed.close()

    def __del__(self) -> None:
        # Not all attributes are there if the constructor raised, nor all modules when the interpreter exits.
        if getattr(self, "_transformed", None) is not None and os is not None:
            self.close()

    def __repr__(self) -> str:
        return f"<forebay.Epoch {self.number} of {self._loader!r}>"


class _Made(NamedTuple):
    """A batch, or what a transform made of it, and its step."""

    batch: Any
    step: _forebay.Step


class _Transformed:
    """A transform at work on its own thread, a few batches ahead."""

    def __init__(self, native: _forebay.Epoch, transform: Callable[..., Any]) -> None:
        self._native = native
        self._made: queue.Queue[_Made | BaseException | None] = queue.Queue(maxsize=AHEAD - 1)
        self._hung_up = threading.Event()
        # The thread knows the queue and not this object, so that dropping the iterator ends it.
        self._thread = threading.Thread(
            target=_work,
            args=(native, transform, self._made, self._hung_up),
            name="forebay-transform",
            daemon=True,
        )
        self._over = False
        self._thread.start()

    def pull(self) -> _Made | None:
        while not self._over:
            self._native.check_open()
            try:
                made = self._made.get(timeout=LOOK)
            except queue.Empty:
                continue
            if isinstance(made, _Made):
                return made
            self._over = True
            if made is not None:
                raise made
        return None

    def close(self) -> None:
        self._hung_up.set()
        if self._thread is not threading.current_thread():
            self._thread.join(PATIENCE)


def _work(
    native: _forebay.Epoch,
    transform: Callable[..., Any],
    made: queue.Queue[_Made | BaseException | None],
    hung_up: threading.Event,
) -> None:
    """Pulls, transforms and passes on until the epoch ends, something raises, or the epoch is closed."""
    number = 0
    more = True
    while more and not hung_up.is_set():
        result: _Made | BaseException | None
        try:
            step = native.pull()
            if step is None:
                result = None
            else:
                result = _Made(_apply(transform, native, step.batch, number), step)
                number += 1
        except BaseException as error:  # it belongs to this batch
            result = error
        more = isinstance(result, _Made)
        if made.full():
            native.is_full()
        while not hung_up.is_set():
            try:
                made.put(result, timeout=LOOK)
                break
            except queue.Full:
                continue


def _apply(transform: Callable[..., Any], native: _forebay.Epoch, batch: _forebay.Batch, number: int) -> dict[str, Any]:
    arrays = {name: batch[name] for name in batch}
    native.transforms()
    try:
        result = transform(arrays)
        if not isinstance(result, Mapping):
            raise TypeError(f"transform must return a dict of arrays, got {type(result).__name__}")
        if not result:
            raise InvalidError("transform must return at least one column, got an empty dict")
        for name, value in result.items():
            _check_rows(name, value, batch.num_rows)
        native.transformed(sum(getattr(value, "nbytes", 0) for value in result.values()))
        return dict(result)
    except BaseException as error:
        raise in_place(error, "transform", number, native)  # noqa: B904 - its cause is set already


def in_place(error: BaseException, function: str, number: int, native: _forebay.Epoch) -> BaseException:
    """The error of a user's function as an iterator may raise it, with a note on the batch that it belongs to."""
    if isinstance(error, StopIteration):
        # It would end the epoch as if all rows had come.
        stopped, error = error, RuntimeError(f"the {function} raised StopIteration")
        error.__cause__ = stopped
    if hasattr(error, "add_note"):  # from Python 3.11
        where = f"batch {number} (as counted in this run) of epoch {native.number}"
        error.add_note(f"forebay: in the {function} of {where}")
    return error


def _check_rows(name: Any, value: Any, rows: int) -> None:
    """Refuses a column with another number of rows than the batch. Other values belong to the whole batch."""
    if isinstance(value, Mapping):
        for inner in value:
            _check_rows(f"{name}.{inner}", value[inner], rows)
        return
    try:
        shape = getattr(value, "shape", None)
    except RuntimeError:  # torch's strided nested tensors have none
        return
    if shape is None and (isinstance(value, (str, bytes)) or not hasattr(value, "__len__")):
        return
    if shape is not None and len(shape) == 0:
        got = f"{type(value).__name__} without rows"
    else:
        found = len(value) if shape is None or shape[0] is None else int(shape[0])
        if found == rows:
            return
        got = str(found)
    raise InvalidError(
        f"transform must return {rows} rows of column {name!r}, as many as it was given, got {got}", column=str(name)
    )
