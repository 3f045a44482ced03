"""Adapters: a loader's batches in a framework's own type.

``forebay.torch``, ``forebay.jax``, ``forebay.keras`` and ``forebay.tf`` are built on this module, and an
adapter for another framework can be too. Each batch takes three steps:

1. **pull**: take the next batch from the epoch. It does not count as handed over yet.
2. **convert**: make the framework's arrays from the batch, and begin to copy them to a device.
3. **hand over**: give the arrays to the training step. Only now ``loader.state_dict()`` counts the batch, so
   a state that is saved while batches wait on a device still resumes at the right row.

:class:`Batches` takes these steps in order for an adapter, which passes its ``convert`` function. The error
of a batch is raised when that batch is due, after all earlier batches. For a framework that drives the loop
itself, :meth:`forebay.Epoch.pull` and :meth:`forebay.Epoch.hand_over` are the first and the last step.

Examples
--------
An adapter that delivers plain dicts of numpy arrays which the training step may keep. Lists of differing
lengths become matrices, filled up with zeros:

>>> import forebay as fb
>>> import numpy as np
>>> from forebay.adapters import Batches, columns
>>> def batches(loader):
...     def convert(batch):
...         return {name: array(value) for name, value, _ in columns(batch)}
...     def array(value):
...         return value.padded(fill=0) if isinstance(value, fb.Ragged) else np.array(value)
...     return Batches(loader, convert)
>>> train = fb.Loader("data/train/", columns=["label", "id"], batch_size=128)
>>> for batch in batches(train):
...     print(type(batch).__name__, batch["label"].shape, batch["id"][:3])
dict (128,) [0 1 2]
dict (128,) [128 129 130]
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, NoReturn, TypeVar

from ..batch.column import Column
from ..epoch import Epoch, Pulled
from ..errors import InvalidError, UnknownColumnError
from ..loader import Loader
from ..options.checks import whole
from ..public import publish
from ..transforms.notes import in_place

if TYPE_CHECKING:
    from ..sharding.shard import Shard
    from ..types import StateDict

__all__ = ["Batches", "Pulled", "check_loader", "check_shard", "columns", "pick"]

T = TypeVar("T")


class Batches(Generic[T]):
    """A loader's batches in a framework's own type: iterable once per epoch, with a length.

    Parameters
    ----------
    loader : Loader
        The loader of the batches.
    convert : callable
        Takes a :class:`forebay.Batch`, or the result of the loader's ``transform``, and returns what
        ``finish`` takes. It may begin a copy to a device and return before the copy is done.
    ahead : int, default 0
        Batches to convert before the training step asks for them, so that copies overlap with its work.
    finish : callable, optional
        Takes the result of ``convert`` and returns what the training step gets. It is called when the
        training step asks for the batch, for instance to wait for a copy. Default: the training step gets the
        result of ``convert``.
    copied : callable, optional
        Takes the result of ``convert`` and returns the number of bytes that were copied to a device, for
        ``loader.stats()``. Default: nothing is copied to a device.

    Raises
    ------
    InvalidError
        ``loader`` is not a :class:`forebay.Loader`, ``ahead`` is not an int of at least 0, or ``convert``,
        ``finish`` or ``copied`` is not callable.

    Examples
    --------
    >>> import forebay as fb
    >>> train = fb.Loader("data/train/", columns=["label"], batch_size=128)
    >>> labels = fb.adapters.Batches(train, lambda batch: batch["label"].tolist())
    >>> len(labels)
    2
    >>> [len(batch) for batch in labels]
    [128, 128]
    """

    loader: Loader
    """The loader of these batches."""

    def __init__(
        self,
        loader: Loader,
        convert: Callable[[Any], Any],
        *,
        ahead: int = 0,
        finish: Callable[[Any], T] | None = None,
        copied: Callable[[Any], int] | None = None,
    ) -> None:
        self.loader = check_loader(loader)
        for name, value in (("convert", convert), ("finish", finish), ("copied", copied)):
            if not callable(value) and (name == "convert" or value is not None):
                raise InvalidError(f"{name} must be callable, got {type(value).__qualname__}")
        self._convert = convert
        self._finish = finish
        self._ahead = whole(ahead, "ahead", 0)
        self._copied = copied

    def __len__(self) -> int:
        """Number of batches that this rank gets in a whole epoch."""
        return len(self.loader)

    def __iter__(self) -> Iterator[T]:
        """The loader's next epoch, which begins when the first batch is requested."""
        return self._walk(None)

    def epoch(self, number: int) -> Iterator[T]:
        """The epoch with this number, which begins when the first batch is requested.

        Parameters
        ----------
        number : int
            Number of the epoch, from 0.

        Returns
        -------
        iterator
            The converted batches of the epoch.
        """
        return self._walk(number)

    def state_dict(self) -> StateDict:
        """The position of the training loop; see :meth:`forebay.Loader.state_dict`.

        Returns
        -------
        dict
            A few JSON values, the same on every rank.
        """
        return self.loader.state_dict()

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes a saved state; see :meth:`forebay.Loader.load_state_dict`.

        Parameters
        ----------
        state : mapping
            A state that :meth:`state_dict` returned.
        """
        self.loader.load_state_dict(state)

    def __getitem__(self, index: Any) -> NoReturn:
        # A DataLoader would index this object like a data set of rows; the error says how to use it instead.
        raise TypeError(
            "batches of a loader are whole and cannot be asked for by number (iterate over them without a DataLoader, "
            "or pass forebay.torch.dataset(loader) and batch_size=None to it)"
        )

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(
            "batches of a loader cannot be searched with `in`, which would read an epoch (iterate, and look into "
            "each batch)"
        )

    def _walk(self, number: int | None) -> Iterator[T]:
        yield from self.over(iter(self.loader) if number is None else self.loader.epoch(number))

    def over(self, epoch: Epoch) -> Iterator[T]:
        """The converted batches of an epoch that has begun.

        Parameters
        ----------
        epoch : Epoch
            An epoch of this loader. It is closed at the end.

        Returns
        -------
        iterator
            The result of ``finish`` for each batch.

        Raises
        ------
        InvalidError
            ``epoch`` is not an epoch of this loader.
        ForebayError
            The epoch raised it. An error that belongs to a batch is raised when the training step asks for
            that batch, after all earlier batches.
        """
        if not isinstance(epoch, Epoch):
            raise InvalidError(f"epoch must be a forebay.Epoch, got {type(epoch).__qualname__} (pass iter(loader))")
        if epoch._loader is not self.loader:
            raise InvalidError(
                f"the epoch is of {epoch._loader!r}, but these are batches of {self.loader!r} "
                "(pass an epoch of that loader)"
            )
        return self._over(epoch)

    def _over(self, epoch: Epoch) -> Iterator[T]:
        native = epoch._native
        waiting: deque[tuple[Pulled, int, Any]] = deque()
        failure: Exception | None = None
        more = True
        try:
            while more or waiting:
                native.asks()
                while more and len(waiting) <= self._ahead:
                    try:
                        pulled = epoch._pull()
                        more = pulled is not None
                        if pulled is not None:
                            number = epoch._pulled - 1
                            waiting.append((pulled, number, self._converted(epoch, number, pulled.batch)))
                    except Exception as error:
                        # The error belongs to one batch: earlier batches are handed over first.
                        failure, more = error, False
                if waiting:
                    native.check_open()
                    pulled, number, converted = waiting.popleft()
                    try:
                        finished = converted if self._finish is None else self._finish(converted)
                    except Exception as error:
                        raise in_place(error, "conversion", number, native)  # noqa: B904 - its cause is set already
                    epoch.hand_over(pulled)
                    yield finished
            if failure is not None:
                raise failure
        finally:
            epoch._gets_nothing()
            epoch.close()

    def _converted(self, epoch: Epoch, number: int, batch: Any) -> Any:
        native = epoch._native
        native.converts(self._copied is not None)
        copied = None
        try:
            converted = self._convert(batch)
            if self._copied is not None:
                copied = whole(self._copied(converted), "what copied returns", 0)
            return converted
        except Exception as error:
            raise in_place(error, "conversion", number, native)  # noqa: B904 - its cause is set already
        finally:
            native.converted(copied)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} of {self.loader!r}>"


def check_loader(loader: Any) -> Loader:
    """Raises an error if an argument is not a loader.

    Parameters
    ----------
    loader : object
        The object that the user passed to an adapter.

    Returns
    -------
    Loader
        The argument itself.

    Raises
    ------
    InvalidError
        The argument is not a loader. The message does not repeat it, because a URL may contain a password.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.adapters.check_loader("data/train/")
    Traceback (most recent call last):
    forebay.InvalidError: expected a forebay.Loader, got str (pass forebay.Loader(...))
    """
    if not isinstance(loader, Loader):
        raise InvalidError(f"expected a forebay.Loader, got {type(loader).__qualname__} (pass forebay.Loader(...))")
    return loader


def check_shard(loader: Loader, name: str, shard: Shard) -> None:
    """Raises an error for a loader without a shard if there are several processes: each would read all rows.

    Parameters
    ----------
    loader : Loader
        A loader of this process.
    name : str
        The user's name of the loader, for the message.
    shard : Shard
        The shard of this process, for the message.

    Raises
    ------
    InvalidError
        The loader has no shard. A loader with another shard than this process's is accepted: processes that
        share one replica of a model read the same rows.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.adapters.check_shard(fb.Loader("data/train/"), "train", fb.Shard(rank=1, world=2))
    Traceback (most recent call last):
    forebay.InvalidError: the train loader has no shard, so each of 2 processes ... (pass ...Shard(rank=1, world=2))
    """
    if shard.world > 1 and loader._arguments["shard"] is None:
        raise InvalidError(
            f"the {name} loader has no shard, so each of {shard.world} processes would read all rows (pass "
            f"shard={shard!r})"
        )


def columns(batch: Mapping[str, Any]) -> Iterator[tuple[str, Any, Column | None]]:
    """The columns of a batch, in order.

    Parameters
    ----------
    batch : Batch or mapping
        A batch as ``convert`` gets it.

    Yields
    ------
    name : str
        Name of the column.
    value : numpy.ndarray, Ragged or object
        The column. The result of a transform is passed on unchanged.
    column : Column or None
        The same column as an object that supports DLPack and Arrow, for types that numpy does not have;
        ``None`` for the result of a transform.

    Examples
    --------
    >>> import forebay as fb
    >>> batch = fb.Dataset("data/train/").sample(2)
    >>> [(name, column.null_count) for name, value, column in fb.adapters.columns(batch)]
    [('image', 0), ('label', 0), ('id', 0)]
    """
    column = getattr(batch, "column", None)
    for name in batch:
        yield name, batch[name], None if column is None else column(name)


def pick(batch: Mapping[str, Any], what: Any) -> Any:
    """The columns of a batch that the user selected, in the structure of the selection.

    Parameters
    ----------
    batch : Batch or mapping
        A batch as ``convert`` gets it.
    what : str, callable, mapping, list or tuple
        A name, a function of the batch, or a list, tuple or dict of them.

    Returns
    -------
    object
        A column, what the function returned, or a list, tuple or dict of them.

    Raises
    ------
    UnknownColumnError
        There is no such column.
    InvalidError
        ``what`` has another type.

    Examples
    --------
    >>> import forebay as fb
    >>> batch = fb.Dataset("data/train/").sample(2)
    >>> fb.adapters.pick(batch, {"x": "id", "y": lambda batch: batch["label"] + 1})
    {'x': array([0, 1]), 'y': array([1, 2])}
    """
    if isinstance(what, str):
        try:
            return batch[what]
        except KeyError as error:
            if isinstance(error, UnknownColumnError) or what in batch:
                raise
        names = ", ".join(map(str, batch))
        raise UnknownColumnError(f'there is no column "{what}" (the columns are {names})', column=what)
    if callable(what):
        try:
            return what(batch)
        except StopIteration as error:
            # A StopIteration would end the epoch as if all rows had been delivered.
            raise RuntimeError("the function that picks columns raised StopIteration") from error
    if isinstance(what, Mapping):
        return {key: pick(batch, one) for key, one in what.items()}
    if not isinstance(what, (list, tuple)):
        raise InvalidError(f"columns are picked by a name, a function, or a list, tuple or dict of them, got {what!r}")
    return type(what)(pick(batch, one) for one in what)


publish(__name__)
