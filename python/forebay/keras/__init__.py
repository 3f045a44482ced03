"""Batches for Keras 3, on whichever backend it runs.

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

#: The columns that are taken unless others are named.
_X, _Y = "image", "label"


def batches(train: Loader, *, x: Any = _X, y: Any = _Y, sample_weight: Any = None) -> Batches:
    """The loader's batches as a ``keras.utils.PyDataset`` for ``fit``, ``evaluate`` and ``predict``.

    Keras knows its length, so neither ``steps_per_epoch`` nor ``validation_steps`` is needed. Each Keras epoch is the
    loader's next epoch, and the order is the loader's: the ``shuffle=`` of ``fit`` has no effect.

    Parameters
    ----------
    train : Loader
        The loader.
    x : str, list, dict or callable, default "image"
        Input columns: a name, a list or dict of names, or a function of the batch.
    y : str, list, dict, callable or None, default "label"
        Target columns, likewise; ``None`` for no target.
    sample_weight : str or callable, optional
        Weights of the rows, likewise. Default: no weights.

    Returns
    -------
    Batches
        A ``keras.utils.PyDataset``.

    Raises
    ------
    InvalidError
        ``train`` is not a :class:`forebay.Loader`, or has no shard although a ``keras.distribution.DataParallel`` has
        several processes.

    Examples
    --------
    >>> import forebay as fb
    >>> train = fb.Loader("data/train/", decode={"image": fb.Image.resize(32, 32)}, batch_size=64)
    >>> x, y = fb.keras.batches(train)[0]
    >>> x.shape, y.shape
    ((64, 32, 32, 3), (64,))
    """
    return Batches(train, x, y, sample_weight)


#: Most batches that Keras draws only to see what they look like: one to build a model, two for TensorFlow's types.
_LOOKED_AT = 2


class _Drawn(NamedTuple):
    """A batch that Keras asked for, the position after it, and how often a state was loaded before."""

    batch: Any
    position: StateDict | None
    generation: int


class Batches(keras.utils.PyDataset):  # type: ignore[misc]
    """A loader as Keras reads it: a stream of batches, ``len(train)`` of them to an epoch. Made by :func:`batches`.

    Keras asks for batches by number, in an order of its own, and before it trains it may draw some only to see what
    they look like. The numbers are ignored, and what was only looked at is given again.

    Each call of Keras reads through an adapter of its own. TensorFlow goes on to draw through that of a call that was
    cut short, in threads of its own: those get what nobody sees.
    """

    def __init__(self, loader: Loader, x: Any, y: Any, sample_weight: Any) -> None:
        super().__init__(workers=1, use_multiprocessing=False)
        self.loader = check_loader(loader)
        check_shard(loader, "keras", _process())
        self._columns = (x, y, sample_weight)
        self._converted: adapters.Batches[Any] = adapters.Batches(loader, self._convert)
        # The epoch under way, and its batches.
        self._epoch: Epoch | None = None
        self._stream: Iterator[Any] = iter(())
        # The first batches since Keras last began or ended an epoch, and how many there were in all.
        self._given: list[_Drawn] = []
        # Of each the callback that has its position, if there was one then.
        self._heard: list[Watch | None] = []
        self._count = 0
        # What was only looked at, to be given again.
        self._again: list[_Drawn] = []
        # Batches that are left of the epoch that Keras is in, if that is the rest of one.
        self._rest: int | None = None
        # Keras began no epoch yet since `fit` or `evaluate` was called; is in an epoch; is in one to build the model.
        self._fresh = self._within = self._building = False
        # What is left of the epoch under way is not wanted: Keras begins from the front.
        self._anew = False
        # Keras and the threads of its backend take turns.
        self._turn = threading.RLock()
        # The adapter of the present call, and what was drawn last.
        self._adapter: weakref.ref[Any] | None = None
        self._last: Any = None

    @property
    def num_batches(self) -> int:
        """Batches in an epoch; in the first one after :class:`Resume` has restored a backup, those that are left."""
        return len(self.loader) if self._rest is None else self._rest

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[Any]:
        """The batches of one epoch, for a training loop of one's own."""
        return iter(self._converted)

    def __contains__(self, value: object) -> NoReturn:
        self._converted.__contains__(value)

    @property
    def workers(self) -> int:
        """One, always. Keras asks for it at the beginning of each ``fit``, ``evaluate`` or ``predict``."""
        with self._turn:
            self._present(self._asking())
            # One that was interrupted ended no epoch.
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
        """The adapter of Keras that asks: it calls the method that calls this one."""
        asks = sys._getframe(2).f_locals.get("self")
        return asks if getattr(asks, "py_dataset", None) is self else None

    def _present(self, adapter: Any) -> None:
        self._adapter = None if adapter is None else weakref.ref(adapter)

    def _draw(self) -> Any:
        if self._again and self._again[0].generation != self.loader._generation:
            # A state was loaded since.
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
        """Keras begins to draw. What it drew outside of an epoch, it only looked at."""
        asks = self._asking()
        with self._turn:
            self._present(asks)
            if not self._within:
                self._give_again()
            # Before the first epoch that trains, Keras resets: it ends an epoch. If it begins one without, that is to
            # build the model.
            self._building, self._fresh, self._within = self._fresh, False, True
            watch = WATCHES.get(self.loader)
            if watch is not None:
                self._rest = watch.rests.popleft() if watch.rests else None

    def on_epoch_end(self) -> None:
        """Keras has drawn enough; or, if it is in no epoch, it resets."""
        with self._turn:
            self._end()

    def _end(self) -> None:
        self._rest = None
        if self._within and self._building:
            self._give_again()
        elif self._within:
            self._forget()
        elif not self._fresh:
            # As before each validation of a `fit`.
            self._anew, self._again = True, []
            self._forget()
        self._building = self._fresh = self._within = False

    def _give_again(self) -> None:
        if self._count <= _LOOKED_AT:
            self._again = self._given + self._again
            watch = WATCHES.get(self.loader)
            if watch is not None:
                # TensorFlow's types are looked at before the callback begins.
                for _ in range(sum(heard is watch for heard in self._heard)):
                    watch.drawn.pop()
        self._forget()

    def _forget(self) -> None:
        self._given, self._heard, self._count = [], [], 0

    def _next(self) -> Any:
        """The next batch of the stream, which goes from one epoch to the next."""
        epoch, batch = self._epoch, None
        goes_on, self._anew = not self._anew, False
        # Of a complete epoch nothing is missing if the user began another one since.
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
    """The share of this process where Keras divides each batch among several, which JAX knows."""
    if keras.backend.backend() != "jax" or not isinstance(
        keras.distribution.distribution(), keras.distribution.DataParallel
    ):
        return Shard(rank=0, world=1)
    import jax

    return Shard(rank=jax.process_index(), world=jax.process_count())


publish(__name__)
