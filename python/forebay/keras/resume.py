"""A callback that lets ``fit`` resume at the next row; see :class:`forebay.keras.Resume`.

A backup consists of these files in its folder::

    resume.json             name of the weights file, epoch, number of trained batches in it, and position
    step-3-1200.weights.h5  weights of the model and variables of its optimizer, after 1200 batches of epoch 3

The weights are written to a new file, and ``resume.json`` is replaced afterwards. A run that is killed at any
time therefore leaves a complete backup.
"""

from __future__ import annotations

import json
import os
import warnings
from collections import deque
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from weakref import WeakKeyDictionary

import keras

from ..adapters import check_loader
from ..errors import InvalidError, IoError, StateMismatchError
from ..options.checks import whole
from ..options.locations import local

if TYPE_CHECKING:
    from ..loader import Loader
    from ..types import StateDict

__all__ = ["Resume"]

#: The file that names the weights of the valid backup; it is replaced after the new weights are written.
BACKUP = "resume.json"


class Watch:
    """State that :class:`Resume`, the callback of one ``fit``, shares with the batches of its loader."""

    def __init__(self) -> None:
        #: For each batch that Keras drew but has not trained with yet, the loader's position after it.
        self.drawn: deque[StateDict] = deque()
        #: The numbers of batches in the next one or two epochs of Keras, if these only finish an interrupted
        #: epoch and an interrupted pass over the loader. Otherwise empty.
        self.rests: deque[int] = deque()


#: The shared state for each loader whose position a ``fit`` saves.
WATCHES: WeakKeyDictionary[Loader, Watch] = WeakKeyDictionary()


class Resume(keras.callbacks.Callback):  # type: ignore[misc]
    """Saves the model and the position of its training data, and restores both when ``fit`` begins.

    It takes the place of ``keras.callbacks.BackupAndRestore``, whose backups do not have the position. The
    position counts the batches that were trained, not those that Keras or its backend drew ahead. After an
    interruption, the same program resumes with the next batch when it is started again: the interrupted epoch
    then consists of its remaining batches, also with ``steps_per_epoch=``. When ``fit`` ends, the backup is
    removed.

    Parameters
    ----------
    train : Loader
        The loader whose batches ``fit`` trains with.
    path : str or os.PathLike
        Folder for the backup, on a local disk. It is created if it does not exist. Several processes share
        the folder, and rank 0 writes.
    every : "epoch" or int, default "epoch"
        Save after each epoch, or each time this number of batches was trained.

    Raises
    ------
    InvalidError
        ``train`` is not a :class:`forebay.Loader`, or ``every`` is neither ``"epoch"`` nor an int of at least
        1. When ``fit`` begins: the model is not built.
    StateMismatchError
        When ``fit`` begins: the position belongs to another data set, seed, filter or order.

    Examples
    --------
    >>> import forebay as fb
    >>> import keras, tempfile
    >>> train = fb.Loader("data/train/", columns=["id", "label"], batch_size=64, shuffle=fb.Shuffle(seed=17))
    >>> model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(4)])
    >>> model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    >>> batches = fb.keras.batches(train, x=lambda batch: batch["id"][:, None] / 256)
    >>> resume = fb.keras.Resume(train, tempfile.mkdtemp(), every=100)
    >>> history = model.fit(batches, epochs=2, verbose=0, callbacks=[resume])
    >>> train.state_dict()["epoch"]
    2
    """

    def __init__(self, train: Loader, path: str | os.PathLike[str], *, every: Literal["epoch"] | int = "epoch") -> None:
        super().__init__()
        self._loader = check_loader(train)
        self._folder = Path(local(path, "path")).expanduser()
        if every != "epoch" and (isinstance(every, bool) or not isinstance(every, int)):
            raise InvalidError(f'every must be "epoch" or a number of batches, got {every!r} (pass every=100)')
        self._every = None if every == "epoch" else whole(every, "every", 1)
        shard = train._arguments["shard"]
        self._writes = shard is None or shard.rank == 0
        self._watch = Watch()
        self._position: StateDict | None = None
        # Numbers of trained batches: `_before` and `_done` count batches of the current epoch, before this
        # `fit` began and by this `fit`; `_since` counts all batches since the last backup.
        self._before = self._done = self._since = 0
        # Number of trained batches in the current pass over all batches of the loader. With steps_per_epoch,
        # an epoch of Keras is shorter or longer than such a pass.
        self._passed = 0
        self._epoch = 0
        self._filter: Any = None

    def on_train_begin(self, logs: Any = None) -> None:
        """Restores the backup, if there is one.

        Parameters
        ----------
        logs : dict, optional
            Not used.
        """
        self._watch = WATCHES[self._loader] = Watch()
        self._position = None
        self._before = self._done = self._since = self._passed = 0
        file = self._folder / BACKUP
        if file.exists():
            self._restore(json.loads(file.read_text()))

    def _restore(self, saved: dict[str, Any]) -> None:
        model = self.model
        if not model.built:
            raise InvalidError("the model has to be built before fit, to restore its weights (call model.build(...))")
        if model.optimizer is not None and not model.optimizer.built:
            # An optimizer must be built before the variables of the backup can be loaded into it.
            model.optimizer.build(model.trainable_variables)
        model.load_weights(self._folder / saved["weights"])
        self._loader.load_state_dict(saved["position"])
        # keras.callbacks.BackupAndRestore sets this attribute too; fit reads it next.
        model._initial_epoch = saved["epoch"]
        self._before, self._passed = saved["done"], saved["passed"]
        if self._passed == 0:
            return
        steps = self.params.get("steps")
        if steps != saved["steps"]:
            raise StateMismatchError(
                f"the backup was saved with {saved['steps']} batches to an epoch, but there are {steps} now "
                "(keep the "
                "number of processes times batch_size, or use global_batch_size)"
            )
        self._watch.rests.extend(self._left(steps))
        # Keras would warn that the resumed epoch has fewer batches than a whole one.
        warnings.filterwarnings("ignore", message="Your input ran out of data", category=UserWarning)
        self._filter = warnings.filters[0]

    def _left(self, steps: int) -> list[int]:
        """The number of batches left in the interrupted epoch, and the number left after that in the same
        pass over the loader. A number of 0 is left out."""
        batches = len(self._loader)
        left = batches - self._passed
        epoch = min(steps - self._before, left) if self._before else 0
        # If a pass over the loader consists of whole epochs, the second number is not needed.
        rest = left - epoch if batches % steps else 0
        return [count for count in (epoch, rest) if count]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        """Stores the number of the epoch.

        Parameters
        ----------
        epoch : int
            Number of the epoch, from 0.
        logs : dict, optional
            Not used.
        """
        self._epoch, self._done = epoch, 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        """Stores the loader's position after this batch, and saves a backup if one is due.

        Parameters
        ----------
        batch : int
            Number of the batch in this epoch, from 0.
        logs : dict, optional
            Not used.
        """
        trained = batch + 1 - self._done
        self._done += trained
        self._since += trained
        self._passed = (self._passed + trained) % len(self._loader)
        drawn = self._watch.drawn
        for _ in range(min(trained, len(drawn))):
            self._position = drawn.popleft()
        if self._every is not None and self._since >= self._every:
            self._save()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        """Saves a backup if one is due.

        Parameters
        ----------
        epoch : int
            Number of the epoch, from 0.
        logs : dict, optional
            Not used.
        """
        self._epoch, self._before, self._done = epoch + 1, 0, 0
        self._hear_again()
        if self._every is None:
            self._save()

    def on_train_end(self, logs: Any = None) -> None:
        """Removes the backup.

        Parameters
        ----------
        logs : dict, optional
            Not used.
        """
        self._hear_again()
        WATCHES.pop(self._loader, None)
        if self._writes:
            (self._folder / BACKUP).unlink(missing_ok=True)
            self._remove_weights()

    def _save(self) -> None:
        self._since = 0
        if not self._writes or self._position is None:
            return
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise IoError(
                f"{self._folder}: the folder of backups could not be made: {error.strerror} "
                "(pass one that can be written to)"
            ) from None
        steps = self.params.get("steps")
        epoch, done = self._epoch, self._before + self._done
        # Keras ends an epoch after `steps` batches, and also at the end of a pass over the loader.
        if done and (self._passed == 0 or (steps is not None and done >= steps)):
            epoch, done = epoch + 1, 0
        name = f"step-{epoch}-{done}.weights.h5"
        self.model.save_weights(self._folder / name, overwrite=True)
        backup = {"weights": name, "epoch": epoch, "done": done, "passed": self._passed, "steps": steps}
        backup["position"] = self._position
        unfinished = self._folder / f"{BACKUP}.tmp"
        unfinished.write_text(json.dumps(backup))
        os.replace(unfinished, self._folder / BACKUP)
        self._remove_weights(name)

    def _remove_weights(self, but: str | None = None) -> None:
        for file in self._folder.glob("step-*.weights.h5"):
            if file.name != but:
                file.unlink(missing_ok=True)

    def _hear_again(self) -> None:
        """Removes the filter that hides Keras' warning about missing batches, once the resumed epoch is
        over."""
        if self._filter is not None and self._filter in warnings.filters:
            warnings.filters.remove(self._filter)  # type: ignore[attr-defined]
        self._filter = None
