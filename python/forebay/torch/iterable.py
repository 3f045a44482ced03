"""The class of :func:`forebay.torch.dataset`, which makes an ``IterableDataset`` of a loader for code that
insists on a ``DataLoader``.

A ``DataLoader`` with a worker iterates over a copy of the data set in another process, and makes a new copy
for each epoch. A loader does not survive a fork, so the copy builds a loader from the same arguments. Through
a few bytes of shared memory, each copy learns which epoch comes next.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import torch
from torch.utils.data import IterableDataset, get_worker_info
from torch.utils.data._utils.collate import default_collate_fn_map

from ..adapters import Batches, check_loader
from ..dataset import Dataset
from ..errors import InvalidError

if TYPE_CHECKING:
    from ..epoch import Epoch
    from ..loader import Loader

__all__ = ["LoaderDataset"]

#: The value in shared memory while no worker has begun an epoch.
NONE = -1


class Whole(dict[str, Any]):
    """A batch that PyTorch must not put into another batch."""


def _refuse_to_collate(*_: Any, **__: Any) -> NoReturn:
    raise InvalidError(
        "the elements of forebay.torch.dataset are whole batches, and this DataLoader makes batches of batches "
        "(pass batch_size=None to the DataLoader, and the size of a batch to forebay.Loader)"
    )


default_collate_fn_map[Whole] = _refuse_to_collate


class Recipe(NamedTuple):
    """The arguments to build a copy of a loader in another process. Unlike the loader, they survive a
    fork."""

    build_of: Callable[..., Loader]
    arguments: Any

    @classmethod
    def of(cls, loader: Loader) -> Recipe:
        build, arguments = loader.__reduce__()
        return cls(build, _each(arguments, Dataset, lambda dataset: Reduced(*dataset.__reduce__())))

    def build(self) -> Loader:
        return self.build_of(*_each(self.arguments, Reduced, lambda reduced: reduced.build_of(*reduced.arguments)))


class Reduced(NamedTuple):
    """The arguments to open a data set again in another process."""

    build_of: Callable[..., Dataset]
    arguments: tuple[Any, ...]


def _each(value: Any, kind: type, change: Callable[[Any], Any]) -> Any:
    """Copies nested arguments, and replaces each value of the class ``kind`` by the result of ``change``."""
    if isinstance(value, kind):
        return change(value)
    if type(value) is dict:
        return {key: _each(member, kind, change) for key, member in value.items()}
    if type(value) in (list, tuple):
        return type(value)(_each(member, kind, change) for member in value)
    return value


class LoaderDataset(IterableDataset[dict[str, Any]]):  # type: ignore[misc]
    """A loader as an ``IterableDataset`` of whole batches, with a state. Made by
    :func:`forebay.torch.dataset`.

    Parameters
    ----------
    loader : Loader
        The loader of the batches.
    convert : callable
        Takes a :class:`forebay.Batch` and returns a dict of tensors.
    """

    loader: Loader
    """The loader of these batches. In a worker it is another loader, built from the same arguments."""

    def __init__(self, loader: Loader, convert: Callable[[Any], dict[str, Any]]) -> None:
        self.loader = check_loader(loader)
        self._convert = convert
        self._recipe = Recipe.of(loader)
        self._length = len(loader)
        self._process = os.getpid()
        # The position, set in the original process, from which a copy in a worker process continues.
        self._origin = loader._origin
        # Shared with all copies: the number of the epoch after the last one that a worker began, and the
        # number of the origin from which that worker continued.
        self._shared = torch.tensor([NONE, 0]).share_memory_()

    def __len__(self) -> int:
        """Number of batches in a whole epoch of this rank."""
        return len(self.loader) if self._process == os.getpid() else self._length

    def __iter__(self) -> Iterator[dict[str, Any]]:
        """The batches of the loader's next epoch, which begins when the first batch is requested."""
        worker = get_worker_info()
        if worker is not None and worker.num_workers > 1:
            raise InvalidError(
                f"a DataLoader with {worker.num_workers} workers would deliver each row {worker.num_workers} times, "
                "and one is enough: the loader has threads of its own (pass num_workers=0 or 1, and threads= to "
                "forebay.Loader)"
            )
        _refuse_accelerate(self)
        return _Walk(self)

    def set_epoch(self, epoch: int) -> None:
        """Has no effect, because the loader counts its epochs. Loops of Accelerate call this method before
        each epoch.

        Parameters
        ----------
        epoch : int
            The epoch that a loop begins.

        Raises
        ------
        InvalidError
            The loop belongs to Accelerate, and would divide the batches again.
        """
        _refuse_accelerate(self)

    def state_dict(self) -> dict[str, Any]:
        """The position of the training loop, which is the state of the loader; see
        :meth:`forebay.Loader.state_dict`.

        Returns
        -------
        dict
            A few JSON values, the same on every rank.

        Raises
        ------
        InvalidError
            A worker of a ``DataLoader`` reads this data set, and only that ``DataLoader`` knows the position.
        """
        self._settle()
        if get_worker_info() is None and self._worker_was_here():
            raise InvalidError(
                "a worker of a DataLoader reads this data set, so only the DataLoader knows the position (call "
                "state_dict() of a torchdata.stateful_dataloader.StatefulDataLoader, or pass num_workers=0)"
            )
        state = dict(self.loader.state_dict())
        if get_worker_info() is not None and not self._begun and not self._loaded:
            upcoming = self._upcoming()
            if upcoming is not None:
                state.update(epoch=upcoming, row=0)
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes a saved state: the next iteration continues at the position in the state.

        Parameters
        ----------
        state : mapping
            A state that :meth:`state_dict` or :meth:`forebay.Loader.state_dict` returned.

        Raises
        ------
        StateMismatchError
            The state belongs to another data set, seed, filter or order, or is not a state.
        """
        self._settle()
        self.loader.load_state_dict(state)
        if get_worker_info() is not None:
            # The state decides the next epoch, whichever epochs earlier workers have begun.
            self._agree(self.loader.state_dict()["epoch"])
            self._loaded = True

    # The attributes and methods below are for the copy in a worker.

    #: ``_loaded`` says whether this worker loaded a state and has not begun an epoch since, and ``_begun``
    #: whether it ever began one.
    _loaded = _begun = False

    def _settle(self) -> None:
        """Builds a new loader if the present one was made by another process."""
        if self._process == os.getpid():
            return
        # A fork also copied the loader, whose origin may be newer than `self._origin`.
        self._origin = self.loader._origin
        self.loader = self._recipe.build()
        self._process = os.getpid()
        if self._origin.state is not None:
            self.loader.load_state_dict(self._origin.state)

    def _worker_was_here(self) -> bool:
        return int(self._shared[0]) != NONE and int(self._shared[1]) == self.loader._origin.number

    def _agree(self, upcoming: int) -> None:
        self._shared[1] = self._origin.number
        self._shared[0] = upcoming

    def _begin(self) -> Epoch:
        """Begins the next epoch, after all epochs that this process and workers have begun."""
        self._settle()
        if get_worker_info() is None:
            return self.loader.epoch(int(self._shared[0])) if self._worker_was_here() else iter(self.loader)
        upcoming = None if self._loaded else self._upcoming()
        epoch = iter(self.loader) if upcoming is None else self.loader.epoch(upcoming)
        self._loaded, self._begun = False, True
        self._agree(epoch.number + 1)
        return epoch

    def _upcoming(self) -> int | None:
        """The number of the epoch that a worker begins next; ``None`` if it continues at the position of its
        loader."""
        upcoming, known = (int(value) for value in self._shared)
        return upcoming if upcoming != NONE and known == self._origin.number else self._origin.upcoming

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state["_origin"] = self.loader._origin if self._process == os.getpid() else self._origin
        # The loader is not pickled, because the copy builds its own one.
        del state["loader"], state["_process"]
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._process = os.getpid()
        self.loader = self._recipe.build()
        if self._origin.state is not None:
            self.loader.load_state_dict(self._origin.state)

    def __repr__(self) -> str:
        return f"<forebay.torch dataset of {self.loader!r}>"


class _Walk(Iterator[dict[str, Any]]):
    """One pass over the data set. It has a state, because ``StatefulDataLoader`` may save a pass that has
    ended. Restoring that state must give a pass that delivers no batches."""

    def __init__(self, dataset: LoaderDataset) -> None:
        self._dataset = dataset
        self._epoch: Epoch | None = None
        self._batches: Iterator[dict[str, Any]] = iter(())
        self._ended = False

    def __next__(self) -> dict[str, Any]:
        if self._ended:
            raise StopIteration
        if self._epoch is None:
            dataset = self._dataset
            self._epoch = dataset._begin()
            self._batches = Batches(dataset.loader, dataset._convert).over(self._epoch)
        return Whole(next(self._batches))

    def state_dict(self) -> dict[str, Any]:
        return {"ended": self._ended or (self._epoch is not None and self._epoch._complete)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._ended = bool(state["ended"])


def _refuse_accelerate(dataset: LoaderDataset) -> None:
    """Raises an error if a loop of Accelerate iterates over ``dataset`` in a way that would lose rows."""
    accelerate = sys.modules.get("accelerate.state")
    if accelerate is None:
        return
    active = accelerate.GradientState().active_dataloader
    held = getattr(active, "dataset", None)
    kind = type(active).__name__
    if type(held).__name__ == "IterableDatasetShard" and getattr(held, "dataset", None) is dataset:
        raise InvalidError(
            "Accelerate would leave each rank a part of its batches, which are those of its shard already "
            "(use forebay.accelerate.batches, or forebay.hf.Trainer)"
        )
    if held is not dataset:
        return
    # The second advice holds for one process only: with several, Accelerate would divide the batches among
    # the ranks if it did not send them from rank 0.
    move = "use forebay.accelerate.batches"
    if accelerate.PartialState().num_processes == 1:
        move += ", or pass DataLoaderConfiguration(dispatch_batches=False, use_stateful_dataloader=True)"
    if kind == "DataLoaderDispatcher":
        raise InvalidError(
            "Accelerate would read the batches of rank 0 alone and send them to the other ranks, so that the rows of "
            f"those are never read ({move})"
        )
    if kind == "DataLoaderShard" and not active.use_stateful_dataloader:
        raise InvalidError(
            "Accelerate draws one batch ahead of the step, so that a saved state would count a batch that was not "
            f"trained ({move})"
        )
