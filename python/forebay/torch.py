"""Batches as torch tensors.

Examples
--------
>>> import forebay as fb
>>> train = fb.Loader("data/train/", decode={"image": fb.Image.resize(64, 64)}, batch_size=64)
>>> for batch in fb.torch.batches(train, device="cpu"):
...     print(batch["image"].shape, batch["label"].dtype)
torch.Size([64, 64, 64, 3]) torch.int64
torch.Size([64, 64, 64, 3]) torch.int64
torch.Size([64, 64, 64, 3]) torch.int64
torch.Size([64, 64, 64, 3]) torch.int64
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .adapters import Batches, columns
from .frameworks import missing
from .ragged import Ragged

try:
    import torch
except ImportError as error:
    raise missing("torch", "PyTorch", "torch", error) from error

if TYPE_CHECKING:
    from .loader import Loader

__all__ = ["batches", "tensors"]

Move = Callable[[torch.Tensor], torch.Tensor]

#: Batches copied to the device before the training step asks for them.
AHEAD = 1


def batches(train: Loader, *, device: str | torch.device | None = None) -> Batches[dict[str, Any]]:
    """The loader's batches as dicts of tensors, one epoch per iteration.

    On the CPU the tensors share the batch's memory. For a CUDA device each batch is copied through pinned memory on a
    stream of its own, one batch ahead of the training step.

    Dense columns have the shapes and types of the numpy arrays; bfloat16 images are ``torch.bfloat16``. Lists of
    differing lengths become nested tensors with the layout ``torch.jagged``. Types that torch does not have stay as
    they are: text and bytes are arrays of objects, times are numpy arrays.

    Parameters
    ----------
    train : Loader
        The loader.
    device : str or torch.device, optional
        Device to place the tensors on. Default: the CPU.

    Returns
    -------
    Batches
        Iterable once per epoch, with ``len(train)`` batches.

    Raises
    ------
    InvalidError
        ``train`` is not a :class:`forebay.Loader`.

    Examples
    --------
    >>> import forebay as fb
    >>> train = fb.Loader("data/train/", columns=["label"], batch_size=64)
    >>> next(iter(fb.torch.batches(train)))["label"].shape
    torch.Size([64])
    """
    target = torch.device("cpu" if device is None else device)
    if target.type == "cpu":
        return Batches(train, tensors)
    if target.type == "cuda":
        upload = _Upload(target)
        return Batches(train, upload.start, ahead=AHEAD, finish=upload.finish, copied=lambda upload: _bytes(upload[0]))
    return Batches(train, lambda batch: tensors(batch, lambda tensor: tensor.to(target)), copied=_bytes)


def tensors(batch: Mapping[str, Any], move: Move = lambda tensor: tensor) -> dict[str, Any]:
    """One batch as a dict of tensors.

    Parameters
    ----------
    batch : Batch or mapping
        A batch, or what a transform made of one.
    move : callable, optional
        From a tensor to the tensor that is delivered, for instance on another device. Default: the tensors share the
        batch's memory.

    Returns
    -------
    dict
        Names and tensors; columns of types that torch does not have stay as they are.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.torch.tensors(fb.Dataset("data/train/").sample(3))["label"]
    tensor([0, 1, 2])
    """
    return {name: _tensor(value, column, move) for name, value, column in columns(batch)}


def _tensor(value: Any, column: Any, move: Move) -> Any:
    if isinstance(value, torch.Tensor):  # made by a transform
        return move(value)
    if isinstance(value, dict):  # the fields of a structure
        return {name: _tensor(field, None, move) for name, field in value.items()}
    if isinstance(value, Ragged):
        if not isinstance(value.values, np.ndarray) or value.values.dtype.kind not in "biufc":
            return value
        values, offsets = torch.from_numpy(value.values), torch.from_numpy(value.offsets)
        return torch.nested.nested_tensor_from_jagged(move(values), move(offsets))
    if not isinstance(value, np.ndarray):
        return value
    if column is not None and column.element == "bfloat16":
        return move(torch.from_dlpack(column))
    if value.dtype.name == "bfloat16":  # of ml_dtypes, made by a transform
        return move(torch.from_numpy(value.view(np.uint16)).view(torch.bfloat16))
    if value.dtype.kind not in "biufc":
        return value
    return move(torch.from_numpy(value))


def _bytes(batch: Mapping[str, Any]) -> int:
    """Bytes of the tensors of a batch."""
    return sum(value.nbytes for value in batch.values() if isinstance(value, torch.Tensor) and not value.is_nested)


class _Upload:
    """Copies batches to a CUDA device beside the training step."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._stream = torch.cuda.Stream(device)

    def start(self, batch: Mapping[str, Any]) -> tuple[dict[str, Any], list[torch.Tensor], torch.cuda.Event]:
        """Begins to copy a batch."""
        moved: list[torch.Tensor] = []

        def move(tensor: torch.Tensor) -> torch.Tensor:
            # torch takes the pinned memory back when the copy from it is done.
            moved.append(tensor.pin_memory().to(self._device, non_blocking=True))
            return moved[-1]

        with torch.cuda.stream(self._stream):
            uploaded = tensors(batch, move)
            return uploaded, moved, self._stream.record_event()

    def finish(self, upload: tuple[dict[str, Any], list[torch.Tensor], torch.cuda.Event]) -> dict[str, Any]:
        """Makes the training step's stream wait for the copy, and keeps the memory until that stream is done."""
        uploaded, moved, done = upload
        consumer = torch.cuda.current_stream(self._device)
        consumer.wait_event(done)
        for tensor in moved:
            tensor.record_stream(consumer)
        return uploaded
