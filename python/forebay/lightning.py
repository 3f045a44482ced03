"""A data module for Lightning that resumes at the next row.

Lightning restores the position of a loader only if a checkpoint was saved in the middle of an epoch, and
builds its loaders before it restores anything. :class:`DataModule` builds a loader in each process when the
rank is known, and puts the position of the loader into every checkpoint.

Examples
--------
>>> import forebay as fb
>>> data = fb.lightning.DataModule(
...     train=lambda shard: fb.Loader("data/train/", shuffle=fb.Shuffle(seed=17), shard=shard),
...     val=lambda shard: fb.Loader("data/val/", shard=shard),
... )
>>> data.setup("fit")
>>> len(data.train_dataloader())
8
>>> data.state_dict()["train"]["row"]
0
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .adapters import Batches, check_loader, check_shard
from .adapters.missing import missing
from .errors import InvalidError, StateMismatchError
from .loader import Loader
from .sharding.shard import Shard

try:
    import lightning
except ImportError as error:
    raise missing("lightning", "Lightning", "lightning", error) from error

from .torch import tensors

if TYPE_CHECKING:
    from .types import StateDict

__all__ = ["DataModule"]

#: The loaders that each stage of a trainer needs.
STAGES = {"fit": ("train", "val"), "validate": ("val",), "test": ("test",), "predict": ("predict",)}

#: The type of the results of ``train``, ``val``, ``test`` and ``predict``, the functions that a user passes.
Loaders = Loader | dict[str, Loader]


class DataModule(lightning.LightningDataModule):  # type: ignore[misc]
    """Loaders for ``Trainer.fit``, ``validate``, ``test`` and ``predict``, with the position of training.

    Each argument is a function from the :class:`forebay.Shard` of a process to its loader, or to a dict of
    loaders whose batches Lightning combines. It is called once in each process. A checkpoint holds the
    position of the ``train`` loader, which counts the batches that were handed to the training step. The
    position is the same on every rank, and can be resumed on another number of ranks. The other loaders
    deliver a whole epoch each time.

    Parameters
    ----------
    train : callable, optional
        Takes a :class:`forebay.Shard` and returns the loader of ``fit``.
    val : callable, optional
        Takes a :class:`forebay.Shard` and returns the loader of ``validate`` and of the validation in
        ``fit``.
    test : callable, optional
        Takes a :class:`forebay.Shard` and returns the loader of ``test``.
    predict : callable, optional
        Takes a :class:`forebay.Shard` and returns the loader of ``predict``.

    Raises
    ------
    InvalidError
        An argument is not a function of a shard. ``setup`` raises this error if the result of a function is
        not a loader, or has no shard although there are several processes.
    """

    loaders: dict[str, Loaders]
    """The loaders that were built so far, by the names of the arguments."""

    def __init__(
        self,
        train: Callable[[Shard], Loaders] | None = None,
        *,
        val: Callable[[Shard], Loaders] | None = None,
        test: Callable[[Shard], Loaders] | None = None,
        predict: Callable[[Shard], Loaders] | None = None,
    ) -> None:
        super().__init__()
        self._build = {"train": train, "val": val, "test": test, "predict": predict}
        for name, build in self._build.items():
            if build is not None:
                _check_build(name, build)
        self.loaders = {}
        # Positions from a checkpoint, by argument, for loaders that are built later.
        self._loaded: dict[str, Any] = {}

    def setup(self, stage: str | None = None) -> None:
        """Builds the loaders of a stage; Lightning calls it in each process.

        Parameters
        ----------
        stage : str, optional
            ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``. Default: all of them.
        """
        for name in self._build if stage is None else STAGES[stage]:
            build = self._build[name]
            if build is None or name in self.loaders:
                continue
            trainer = self.trainer
            shard = Shard(rank=trainer.global_rank, world=trainer.world_size) if trainer else Shard(rank=0, world=1)
            built = build(shard)
            for loader in built.values() if isinstance(built, dict) else [built]:
                check_shard(check_loader(loader), name, shard)
            self.loaders[name] = built
            if name in self._loaded:
                _restore(built, self._loaded.pop(name))

    def train_dataloader(self) -> Any:
        """The batches of ``train``.

        Returns
        -------
        Batches or dict of Batches
            Dicts of tensors; see :func:`forebay.torch.batches`.
        """
        return self._batches("train")

    def val_dataloader(self) -> Any:
        """The batches of ``val``.

        Returns
        -------
        Batches
            Dicts of tensors; without ``val``, an empty list.
        """
        return self._batches("val") if self._build["val"] else []

    def test_dataloader(self) -> Any:
        """The batches of ``test``.

        Returns
        -------
        Batches
            Dicts of tensors.
        """
        return self._batches("test")

    def predict_dataloader(self) -> Any:
        """The batches of ``predict``.

        Returns
        -------
        Batches
            Dicts of tensors.
        """
        return self._batches("predict")

    def _batches(self, name: str) -> Any:
        loaders = self.loaders.get(name)
        if loaders is None:
            raise InvalidError(
                f"this data module has no {name} loader (pass {name}=lambda shard: forebay.Loader(..., shard=shard))"
            )
        if isinstance(loaders, dict):
            return {key: _Batches(loader, self) for key, loader in loaders.items()}
        return _Batches(loaders, self)

    def state_dict(self) -> dict[str, Any]:
        """The part of a checkpoint that belongs to this module.

        Returns
        -------
        dict
            The position of ``train``; see :meth:`forebay.Loader.state_dict`.
        """
        loaders = self.loaders.get("train")
        if loaders is None:
            return dict(self._loaded)
        if isinstance(loaders, dict):
            return {"train": {key: self._position(loader) for key, loader in loaders.items()}}
        return {"train": self._position(loaders)}

    def _position(self, loader: Loader) -> StateDict:
        position = loader.state_dict()
        # With limit_train_batches, or when a shorter loader is combined with a longer one, an epoch of
        # Lightning ends within an epoch of the loader. Lightning's next epoch still begins the loader's next
        # epoch.
        if position["row"] and self.trainer and self.trainer.fit_loop.epoch_loop.batch_progress.is_last_batch:
            position["epoch"], position["row"] = position["epoch"] + 1, 0
        return position

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes from a checkpoint.

        Parameters
        ----------
        state : mapping
            The state that :meth:`state_dict` returned.

        Raises
        ------
        StateMismatchError
            The position belongs to another data set, seed, filter or order.
        """
        for name, position in state.items():
            if name in self.loaders:
                _restore(self.loaders[name], position)
            else:
                self._loaded[name] = position

    def teardown(self, stage: str | None = None) -> None:
        """Closes the loaders of a stage, and keeps the position of ``train`` for a later ``fit``.

        Parameters
        ----------
        stage : str, optional
            The stage, as in :meth:`setup`.
        """
        for name in self._build if stage is None else STAGES[stage]:
            if name == "train":
                self._loaded = self.state_dict()
            loaders = self.loaders.pop(name, {})
            for loader in loaders.values() if isinstance(loaders, dict) else [loaders]:
                loader.close()


class _Batches(Batches[dict[str, Any]]):
    """Batches whose ``state_dict`` returns the same position as the data module. Lightning saves the state of
    the batches too, and the two must agree."""

    def __init__(self, loader: Loader, module: DataModule) -> None:
        super().__init__(loader, tensors)
        self._module = module

    def state_dict(self) -> StateDict:
        return self._module._position(self.loader)


def _check_build(name: str, build: Any) -> None:
    example = "pass lambda shard: forebay.Loader(..., shard=shard)"
    if not callable(build):
        raise InvalidError(
            f"{name} must be a function from a shard to a loader, got {type(build).__qualname__} ({example})"
        )
    try:
        signature = inspect.signature(build)
    except ValueError:
        # Python does not know the signatures of some functions written in C, so these are not checked.
        return
    try:
        signature.bind(None)
    except TypeError:
        raise InvalidError(f"{name} must take a shard, and nothing else that has no default ({example})") from None


def _restore(loaders: Loaders, state: Any) -> None:
    if not isinstance(loaders, dict):
        loaders.load_state_dict(state)
        return
    if set(state) != set(loaders):
        raise StateMismatchError(
            f"the checkpoint has positions of {', '.join(sorted(state))}, but the loaders are "
            f"{', '.join(sorted(loaders))} (return the same loaders as in the run that was saved)"
        )
    for key, loader in loaders.items():
        loader.load_state_dict(state[key])
