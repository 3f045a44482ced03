"""Batches for training loops that run under Accelerate.

Examples
--------
>>> import forebay as fb
>>> from accelerate import Accelerator
>>> accelerator = Accelerator(cpu=True)
>>> train = fb.Loader("data/train/", columns=["label"], batch_size=64)
>>> accelerator.register_for_checkpointing(train)
>>> for batch in fb.accelerate.batches(train, accelerator):
...     print(batch["label"].shape, accelerator.gradient_state.end_of_dataloader)
torch.Size([64]) False
torch.Size([64]) False
torch.Size([64]) False
torch.Size([64]) True
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from . import adapters
from .adapters import check_loader, check_shard
from .adapters.missing import missing
from .errors import InvalidError
from .sharding.shard import Shard
from .torch import batches as of_torch

try:
    import accelerate
    from accelerate.data_loader import DataLoaderStateMixin
except ImportError as error:
    raise missing("accelerate", "Accelerate", "accelerate", error) from error

if TYPE_CHECKING:
    from .epoch import Epoch
    from .loader import Loader

__all__ = ["batches"]


def batches(train: Loader, accelerator: accelerate.Accelerator) -> adapters.Batches[dict[str, Any]]:
    """The loader's batches on the accelerator's device, one epoch per iteration.

    The batches take the place of a prepared ``DataLoader``, and may be passed to ``accelerator.prepare``,
    which leaves them as they are. Accelerate learns which batch is the last of an epoch, so that
    ``accelerator.accumulate`` also makes an optimizer step with the gradients that are left over when the
    epoch ends. A saved state does not count batches that are prepared ahead:
    ``accelerator.register_for_checkpointing(train)`` saves the position after the last batch that was
    trained.

    Parameters
    ----------
    train : Loader
        The loader, with the shard of this process.
    accelerator : accelerate.Accelerator
        The accelerator, for its device.

    Returns
    -------
    Batches
        Iterable once per epoch, with ``len(train)`` batches; see :func:`forebay.torch.batches`.

    Raises
    ------
    InvalidError
        ``train`` is not a :class:`forebay.Loader`, or has no shard although there are several processes;
        ``accelerator`` is not an ``Accelerator``.

    Examples
    --------
    >>> import forebay as fb
    >>> from accelerate import Accelerator
    >>> train = fb.Loader("data/train/", columns=["label"], batch_size=64)
    >>> next(iter(fb.accelerate.batches(train, Accelerator(cpu=True))))["label"].device
    device(type='cpu')
    """
    if not isinstance(accelerator, accelerate.Accelerator):
        raise InvalidError(
            f"accelerator must be an accelerate.Accelerator, got {type(accelerator).__qualname__} "
            "(pass accelerate.Accelerator())"
        )
    shard = Shard(rank=accelerator.process_index, world=accelerator.num_processes)
    check_shard(check_loader(train), "train", shard)
    return _Batches(train, accelerator)


class _Batches(adapters.Batches[dict[str, Any]], DataLoaderStateMixin):  # type: ignore[misc]
    """Batches that say where an epoch ends, as Accelerate's own data loaders do."""

    def __init__(self, loader: Loader, accelerator: accelerate.Accelerator) -> None:
        of = of_torch(loader, device=accelerator.device)
        super().__init__(loader, of._convert, ahead=of._ahead, finish=of._finish, copied=of._copied)
        self.gradient_state = accelerator.gradient_state
        # `_drop_last` tells Accelerate that it has no padded rows to leave out when it gathers results.
        self._drop_last = True
        self.reset()

    def _over(self, epoch: Epoch) -> Iterator[dict[str, Any]]:
        self.begin()
        try:
            for batch in super()._over(epoch):
                # After the last batch of an epoch, the loader's state is at row 0 of the next epoch.
                self.end_of_dataloader = self.loader.state_dict()["row"] == 0
                self.remainder = 0
                yield batch
        finally:
            self.end()
