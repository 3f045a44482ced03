"""A ``Trainer`` of Hugging Face's Transformers that takes loaders, and resumes at the next row.

Examples
--------
>>> import forebay as fb
>>> import torch
>>> class Model(torch.nn.Module):
...     def __init__(self):
...         super().__init__()
...         self.layer = torch.nn.Linear(1, 4)
...     def forward(self, id, label):
...         scores = self.layer(id[:, None].float())
...         return {"loss": torch.nn.functional.cross_entropy(scores, label), "logits": scores}
>>> import tempfile, transformers
>>> args = transformers.TrainingArguments(
...     tempfile.mkdtemp(), num_train_epochs=1, report_to=[], disable_tqdm=True, use_cpu=True, save_strategy="no"
... )
>>> train = fb.Loader("data/train/", columns=["id", "label"], batch_size=64)
>>> trainer = fb.hf.Trainer(Model(), args, train_dataset=train)
>>> len(trainer.get_train_dataloader()), trainer.num_examples(trainer.get_train_dataloader())
(4, 256)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from .adapters import check_shard
from .adapters.missing import missing
from .errors import StateMismatchError
from .loader import Loader
from .sharding.shard import Shard
from .torch import batches

try:
    import transformers
except ImportError as error:
    raise missing("hf", "Transformers", "transformers", error) from error

import torch

__all__ = ["LoaderMixin", "Trainer"]

#: The key of the loader's position in ``trainer_state.json``, where callbacks save their states.
NAME = "forebay"


class LoaderMixin:
    """Lets a ``Trainer`` take loaders as ``train_dataset``, ``eval_dataset`` and ``test_dataset``.

    :class:`Trainer` is ``transformers.Trainer`` with this class as a base. For another trainer, put this
    class first among the bases: ``class MyTrainer(forebay.hf.LoaderMixin, transformers.Seq2SeqTrainer)``.
    The other base handles data sets that are not loaders.

    Each checkpoint holds the position of the ``train_dataset``, which counts the batches that were trained.
    ``train(resume_from_checkpoint=...)`` continues at that position, without reading trained rows again.

    Parameters
    ----------
    *args, **kwargs
        Arguments of the other base.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._steps: _Steps | None = None
        self.add_callback(_Position(self))  # type: ignore[attr-defined]

    def get_train_dataloader(self) -> Any:
        """The batches of ``train_dataset``.

        Returns
        -------
        torch.utils.data.DataLoader
            Delivers the loader's batches.
        """
        train = self.train_dataset  # type: ignore[attr-defined]
        if not isinstance(train, Loader):
            self._steps = None
            return super().get_train_dataloader()  # type: ignore[misc]
        if self._steps is None or self._steps.loader is not train:
            self._steps = _Steps(self._checked(train, "train_dataset"))
        return _data_loader(self._steps)

    def get_eval_dataloader(self, eval_dataset: Any = None) -> Any:
        """The batches of ``eval_dataset``.

        Parameters
        ----------
        eval_dataset : Loader, str or data set, optional
            The argument of ``transformers.Trainer``. Default: the data set that the trainer was made with.

        Returns
        -------
        torch.utils.data.DataLoader
            Delivers the loader's batches, a whole epoch each time.
        """
        found = self.eval_dataset if eval_dataset is None else eval_dataset  # type: ignore[attr-defined]
        if isinstance(found, str):
            found = self.eval_dataset[found]  # type: ignore[attr-defined]
        if not isinstance(found, Loader):
            return super().get_eval_dataloader(eval_dataset)  # type: ignore[misc]
        return _data_loader(_Steps(self._checked(found, "eval_dataset")))

    def get_test_dataloader(self, test_dataset: Any) -> Any:
        """The batches of ``test_dataset``.

        Parameters
        ----------
        test_dataset : Loader or data set
            The argument of ``transformers.Trainer``.

        Returns
        -------
        torch.utils.data.DataLoader
            Delivers the loader's batches, a whole epoch each time.
        """
        if not isinstance(test_dataset, Loader):
            return super().get_test_dataloader(test_dataset)  # type: ignore[misc]
        return _data_loader(_Steps(self._checked(test_dataset, "test_dataset")))

    def num_examples(self, dataloader: Any) -> int:
        """Number of rows in an epoch, over all processes.

        Parameters
        ----------
        dataloader : torch.utils.data.DataLoader
            A data loader that one of the methods above returned.

        Returns
        -------
        int
            The number of rows.
        """
        steps = getattr(dataloader, "dataset", None)
        if isinstance(steps, _Steps):
            return steps.loader.num_rows
        return int(super().num_examples(dataloader))  # type: ignore[misc]

    def _checked(self, loader: Loader, name: str) -> Loader:
        args = self.args  # type: ignore[attr-defined]
        check_shard(loader, name, Shard(rank=args.process_index, world=args.world_size))
        return loader


class Trainer(LoaderMixin, transformers.Trainer):  # type: ignore[misc]
    """``transformers.Trainer`` that takes loaders as ``train_dataset``, ``eval_dataset`` and
    ``test_dataset``.

    See :class:`LoaderMixin`. Batches have the loader's ``batch_size``; ``per_device_train_batch_size`` is
    used for reports alone.

    Parameters
    ----------
    *args, **kwargs
        The arguments of ``transformers.Trainer``.
    """


class _Steps(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """A loader's batches, one epoch per iteration.

    A ``Trainer`` that resumes within an epoch requests and drops the batches that it has trained already, to
    count its steps. The loader starts after these batches, so ``None`` is delivered first in place of each of
    them.
    """

    def __init__(self, loader: Loader) -> None:
        self.loader = loader
        self.dropped = 0

    def __len__(self) -> int:
        return len(self.loader)

    def __iter__(self) -> Iterator[dict[str, Any] | None]:
        dropped, self.dropped = self.dropped, 0
        for _ in range(dropped):
            yield None
        yield from batches(self.loader)


class _Position(transformers.TrainerCallback):  # type: ignore[misc]
    """Notes the loader's position in the trainer's state after each step, and restores it from a
    checkpoint."""

    def __init__(self, trainer: LoaderMixin) -> None:
        self._trainer = trainer

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        steps = self._trainer._steps
        if steps is None:
            return
        if state.global_step > 0:
            _restore(steps, args, state.global_step, state.stateful_callbacks.get(NAME))
        self._note(state)

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        # The position is noted now, because the trainer may take the batches of the next step from the loader
        # before it saves a checkpoint.
        self._note(state)

    def _note(self, state: Any) -> None:
        steps = self._trainer._steps
        if steps is not None:
            position = {"train": steps.loader.state_dict(), "batches": len(steps)}
            state.stateful_callbacks[NAME] = {"args": {}, "attributes": position}


def _restore(steps: _Steps, args: Any, trained: int, saved: Mapping[str, Any] | None) -> None:
    if saved is None:
        raise StateMismatchError(
            "the checkpoint has no position of a forebay.Loader (resume with the train_dataset that was used, or load "
            "the model alone)"
        )
    position = saved["attributes"]
    steps.loader.load_state_dict(position["train"])
    if args.ignore_data_skip:
        return
    if position["batches"] != len(steps):
        raise StateMismatchError(
            f"the checkpoint was saved with {position['batches']} batches to an epoch, but there are "
            f"{len(steps)} now "
            "(keep the number of processes times batch_size, or use global_batch_size; or pass ignore_data_skip=True, "
            "which counts the rest of the epoch as a whole one)"
        )
    accumulated = args.gradient_accumulation_steps
    steps.dropped = trained % max(-(-len(steps) // accumulated), 1) * accumulated


def _data_loader(steps: _Steps) -> Any:
    # The DataLoader's own collate function would fail for columns whose type torch does not have.
    return torch.utils.data.DataLoader(steps, batch_size=None, collate_fn=_as_it_is)


def _as_it_is(batch: Any) -> Any:
    return batch
