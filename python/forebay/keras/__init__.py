"""Batches for Keras 3, on every backend.

Examples
--------
>>> import forebay as fb
>>> import keras
>>> image = fb.Image.resize(32, 32).dtype("float32")
>>> train = fb.Loader("data/train/", decode={"image": image}, shuffle=fb.Shuffle(seed=17))
>>> val = fb.Loader("data/val/", decode={"image": image})
>>> model = keras.Sequential([keras.layers.Flatten(), keras.layers.Dense(4)])
>>> model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
>>> history = model.fit(fb.keras.batches(train), validation_data=fb.keras.batches(val), epochs=2, verbose=0)
>>> sorted(history.history)
['loss', 'val_loss']
"""

from __future__ import annotations

import sys
import threading
import weakref
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from .. import adapters
from ..adapters import check_loader, check_shard, pick
from ..adapters.missing import missing, too_old_keras
from ..errors import InternalError, UnknownColumnError

try:
    import keras
except ImportError as error:
    raise missing("keras", "Keras 3", "keras", error) from error
if not hasattr(keras.utils, "PyDataset"):
    raise too_old_keras(keras.__version__)

from ..public import publish
from ..sharding.shard import Shard
from .resume import WATCHES, Resume, Watch

if TYPE_CHECKING:
    from ..epoch import Epoch
    from ..loader import Loader
    from ..types import StateDict

__all__ = ["Batches", "Resume", "batches"]

#: The default columns of inputs and targets.
_X, _Y = "image", "label"


def batches(train: Loader, *, x: Any = _X, y: Any = _Y, sample_weight: Any = None) -> Batches:
    """The loader's batches as a ``keras.utils.PyDataset`` for ``fit``, ``evaluate`` and ``predict``.

    Keras knows its length, so neither ``steps_per_epoch`` nor ``validation_steps`` is needed. Each Keras
    epoch is the loader's next epoch. The loader decides the order: the ``shuffle=`` of ``fit`` has no effect.

    Parameters
    ----------
    train : Loader
        The loader.
    x : str, list, dict or callable, default "image"
        Input columns: a name, a list or dict of names, or a function of the batch.
    y : str, list, dict, callable or None, default "label"
        Target columns, in the same forms as ``x``; ``None`` for no target.
    sample_weight : str or callable, optional
        Weights of the rows: the name of a column, or a function of the batch. Default: no weights.

    Returns
    -------
    Batches
        A ``keras.utils.PyDataset``.

    Raises
    ------
    InvalidError
        ``train`` is not a :class:`forebay.Loader`, or has no shard although a
        ``keras.distribution.DataParallel`` has several processes.

    Examples
    --------
    >>> import forebay as fb
    >>> train = fb.Loader("data/train/", decode={"image": fb.Image.resize(32, 32)}, batch_size=64)
    >>> x, y = fb.keras.batches(train)[0]
    >>> x.shape, y.shape
    ((64, 32, 32, 3), (64,))
    """
    return Batches(train, x, y, sample_weight)


#: The largest number of batches that Keras draws only to inspect them: one to build a model, two for
#: TensorFlow's types.
_LOOKED_AT = 2


class _Drawn(NamedTuple):
    """A batch that Keras drew, and the loader's position after it. ``generation`` is the loader's
    ``_generation`` at that time: a number that increases when a state is loaded."""

    batch: Any
    position: StateDict | None
    generation: int


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    """A loader as a data set of Keras: a stream of batches, with ``len(train)`` batches in an epoch. Made by
    :func:`batches`.

    Keras asks for batches by number, in its own order, and before it trains it may draw some only to inspect
    them. The numbers are ignored, and batches that were only inspected are delivered again.

    In each call of ``fit``, ``evaluate`` or ``predict``, Keras draws the batches through a new adapter, its
    wrapper of a data set. If a call is interrupted, threads of TensorFlow may still draw through the old
    adapter. They only get the last batch again, so that no new batch is lost.
    """

    def __init__(self, loader: Loader, x: Any, y: Any, sample_weight: Any) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self.loader = check_loader(loader)
        check_shard(loader, "keras", _process())
        self._columns = (x, y, sample_weight)
        self._converted: adapters.Batches[Any] = adapters.Batches(loader, self._convert)
        # The loader's epoch that is being read, and the iterator over its converted batches.
        self._epoch: Epoch | None = None
        self._stream: Iterator[Any] = iter(())
        # The first `_LOOKED_AT` batches that Keras drew since it last began or ended an epoch. `_count`
        # counts all batches since then.
        self._given: list[_Drawn] = []
        # For each batch in `_given`, the `Watch` in which its position was stored for a `Resume` callback, or
        # None.
        self._heard: list[Watch | None] = []
        self._count = 0
        # Batches that Keras only inspected, to be delivered again.
        self._again: list[_Drawn] = []
        # The number of batches in Keras' current epoch if it finishes an interrupted epoch, otherwise None.
        self._rest: int | None = None
        # `_fresh`: `fit`, `evaluate` or `predict` was called, and Keras has begun no epoch yet. `_within`:
        # Keras is in an epoch. `_building`: this epoch is only for building the model.
        self._fresh = self._within = self._building = False
        # True if the next batch has to come from a new epoch of the loader, which drops the rest of this one.
        self._anew = False
        # This lock makes Keras and the threads of its backend draw batches one at a time.
        self._turn = threading.RLock()
        # Keras' adapter in the current `fit`, `evaluate` or `predict`, and the batch that was drawn last.
        self._adapter: weakref.ref[Any] | None = None
        self._last: Any = None

    @property
    def num_batches(self) -> int:
        """Number of batches in an epoch. In the first epoch after :class:`Resume` has restored a backup, the
        number of the remaining batches."""
        return len(self.loader) if self._rest is None else self._rest

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        """The batches of one epoch, for a training loop without ``fit``."""
        return iter(self._converted)

    def __contains__(self, value: object) -> NoReturn:
        self._converted.__contains__(value)

    @property
    def workers(self) -> int:
        """Always 1. Keras reads this property when ``fit``, ``evaluate`` or ``predict`` begins, so reading it
        also resets what this object knows about the previous call."""
        with self._turn:
            self._present(self._asking())
            # An interrupted call has not ended its epoch, so the next batch begins a new one.
            self._fresh = self._anew = True
            self._within = self._building = False
            self._forget()
            self._again = []
        return 1

    def __getitem__(self, index: int) -> Any:
        asks = self._asking()
        with self._turn:
            present = asks is None or self._adapter is None or self._adapter() is asks
            self._last = self._draw() if present else self._last
            return self._last

    def _asking(self) -> Any:
        """Keras' adapter that asks for a batch: the ``self`` of the function two frames up, because the
        adapter calls the method that calls this one. ``None`` if the caller is not an adapter of this data
        set."""
        asks = sys._getframe(2).f_locals.get("self")
        return asks if getattr(asks, "py_dataset", None) is self else None

    def _present(self, adapter: Any) -> None:
        self._adapter = None if adapter is None else weakref.ref(adapter)

    def _draw(self) -> Any:
        if self._again and self._again[0].generation != self.loader._generation:
            # A state was loaded since these batches were drawn, so they belong to the old position.
            self._again = []
        watch = WATCHES.get(self.loader)
        if self._again:
            drawn = self._again.pop(0)
        else:
            batch = self._next()
            looks = watch is not None or self._count < _LOOKED_AT
            position = self.loader.state_dict() if looks else None
            drawn = _Drawn(batch, position, self.loader._generation)
        self._count += 1
        if self._count <= _LOOKED_AT:
            self._given.append(drawn)
            self._heard.append(watch)
        if watch is not None and drawn.position is not None:
            watch.drawn.append(drawn.position)
        return drawn.batch

    def on_epoch_begin(self) -> None:
        """Keras calls this before it draws the batches of an epoch. It only inspected the batches that it
        drew outside of an epoch, so they are delivered again."""
        asks = self._asking()
        with self._turn:
            self._present(asks)
            if not self._within:
                self._give_again()
            # Before its first epoch of training, Keras calls `on_epoch_end` to reset the data. An epoch that
            # begins without this call is only for building the model.
            self._building, self._fresh, self._within = self._fresh, False, True
            watch = WATCHES.get(self.loader)
            if watch is not None:
                self._rest = watch.rests.popleft() if watch.rests else None

    def on_epoch_end(self) -> None:
        """Keras calls this when it has drawn the batches of an epoch, and also between epochs to reset the
        data."""
        with self._turn:
            self._end()

    def _end(self) -> None:
        self._rest = None
        if self._within and self._building:
            self._give_again()
        elif self._within:
            self._forget()
        elif not self._fresh:
            # This call is a reset, as before each validation in `fit`: the next batch begins a new epoch.
            self._anew, self._again = True, []
            self._forget()
        self._building = self._fresh = self._within = False

    def _give_again(self) -> None:
        if self._count <= _LOOKED_AT:
            self._again = self._given + self._again
            watch = WATCHES.get(self.loader)
            if watch is not None:
                # Only batches whose item in `_heard` is `watch` have a position in `watch.drawn`: TensorFlow
                # may have drawn others before the callback began.
                for _ in range(sum(heard is watch for heard in self._heard)):
                    watch.drawn.pop()
        self._forget()

    def _forget(self) -> None:
        self._given, self._heard, self._count = [], [], 0

    def _next(self) -> Any:
        """The next batch; after the last batch of an epoch, the first batch of the loader's next epoch."""
        epoch, batch = self._epoch, None
        goes_on, self._anew = not self._anew, False
        # A complete epoch is not asked for a batch: it would raise an error if the user began another epoch.
        if epoch is not None and goes_on and not epoch.outdated and not epoch._complete:
            batch = next(self._stream, None)
        if batch is None:
            self._stream = iter(())  # which ends the epoch before
            self._epoch = iter(self.loader)
            self._stream = self._converted.over(self._epoch)
            batch = next(self._stream, None)
        if batch is None:
            raise InternalError("an epoch without batches")
        return batch

    def _convert(self, batch: Any) -> tuple[Any, ...]:
        try:
            x, y, sample_weight = (None if what is None else pick(batch, what) for what in self._columns)
        except UnknownColumnError as error:
            missing_one = next((name for name in (_X, _Y) if name not in batch), None)
            if missing_one is None or self._columns[:2] != (_X, _Y):
                raise
            hint = f'forebay.keras.batches takes "{_X}" and "{_Y}" unless x= and y= name others'
            raise UnknownColumnError(f"{error}; {hint}", column=missing_one) from None
        if sample_weight is not None:
            return x, y, sample_weight
        return (x,) if y is None else (x, y)

    def __repr__(self) -> str:
        return f"<forebay.keras.Batches of {self.loader!r}>"


def _process() -> Shard:
    """The shard that Keras expects from the loader of this process: its own part of the rows with JAX and
    ``DataParallel``, otherwise all rows."""
    if keras.backend.backend() != "jax" or not isinstance(
        keras.distribution.distribution(), keras.distribution.DataParallel
    ):
        return Shard(rank=0, world=1)
    import jax

    return Shard(rank=jax.process_index(), world=jax.process_count())


publish(__name__)
