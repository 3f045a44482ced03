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
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .._forebay import Image
from ..adapters import Batches, check_loader, columns
from ..adapters.missing import missing
from ..batch.ragged import Ragged
from ..columns.views import Views
from ..errors import InvalidError
from ..options.checks import whole
from ..public import publish
from .dataloader_options import without_those_of_a_data_loader

try:
    import torch
except ImportError as error:
    raise missing("torch", "PyTorch", "torch", error) from error

from .iterable import LoaderDataset
from .jagged import KeyedJagged, keyed_jagged
from .upload import CudaLane, CudaRegistrar, Upload

if TYPE_CHECKING:
    from ..loader import Loader

__all__ = ["KeyedJagged", "batches", "dataset", "keyed_jagged", "tensors"]

Move = Callable[[torch.Tensor], torch.Tensor]


@without_those_of_a_data_loader
def batches(
    train: Loader,
    *,
    device: str | torch.device | None = None,
    dtype: torch.dtype | None = None,
    channels_last: bool = False,
    ahead: int = 1,
) -> Batches[dict[str, Any]]:
    """The loader's batches as dicts of tensors, one epoch per iteration.

    On the CPU the tensors share the batch's memory. For a CUDA device, each batch is copied on a separate
    stream, ahead of the training step. Images and tensors are copied directly from the memory into which they
    were decoded. That memory is used for many batches, and registered with the CUDA runtime only once; other
    columns are copied through pinned memory.

    Dense columns have the shapes and types of the numpy arrays; bfloat16 images are ``torch.bfloat16``. Lists
    of differing lengths become nested tensors with the layout ``torch.jagged``. Types that torch does not
    have are not converted: text and bytes are arrays of objects, times are numpy arrays.

    Parameters
    ----------
    train : Loader
        The loader.
    device : str or torch.device, optional
        Device to place the tensors on. Default: the CPU.
    dtype : torch.dtype, optional
        A floating-point type. Tensors of another floating-point type are converted to it, on the device;
        tensors of integers are not. Default: the types of the columns.
    channels_last : bool, default False
        Deliver images in the memory format ``torch.channels_last``, of shape ``(rows, channels, height,
        width)``. Images with the layout "NHWC", the default of :class:`forebay.Image`, need no copy; images
        with "NCHW" are copied.
    ahead : int, default 1
        Batches to copy to the device before the training step asks for them. Without effect on the CPU.

    Returns
    -------
    Batches
        Iterable once per epoch, with ``len(train)`` batches.

    Raises
    ------
    InvalidError
        ``train`` is not a :class:`forebay.Loader`, ``dtype`` is not a floating-point type, ``channels_last``
        is not a bool, or ``ahead`` is not an int of at least 0.

    Examples
    --------
    >>> import forebay as fb
    >>> train = fb.Loader("data/train/", columns=["label"], batch_size=64)
    >>> next(iter(fb.torch.batches(train)))["label"].shape
    torch.Size([64])
    """
    form = _Form.of(train, dtype, channels_last)
    whole(ahead, "ahead", 0)
    target = torch.device("cpu" if device is None else device)
    if target.type == "cpu":
        return Batches(train, form)
    if target.type == "cuda":
        if not torch.cuda.is_available():
            raise InvalidError(
                f"device={str(target)!r}: torch finds no CUDA device "
                "(leave device out where torch.cuda.is_available() is false)"
            )
        upload = Upload(train, form, CudaLane(target), CudaRegistrar(target))
        return Batches(train, upload.start, ahead=ahead, finish=upload.finish, copied=lambda begun: _bytes(begun.batch))
    return Batches(train, lambda batch: form(batch, lambda tensor: tensor.to(target)), copied=_bytes)


def dataset(train: Loader, *, dtype: torch.dtype | None = None, channels_last: bool = False) -> LoaderDataset:
    """The loader's batches as a ``torch.utils.data.IterableDataset``, for code that insists on a
    ``DataLoader``.

    Pass it to a ``DataLoader``, or to torchdata's ``StatefulDataLoader``, with ``batch_size=None``: its
    elements are whole batches, the dicts of tensors that :func:`batches` gives, on the CPU. Each iteration is
    one epoch. If nothing insists on a ``DataLoader``, :func:`batches` is shorter.

    The loader has its own threads, so ``num_workers=0`` does not make it slower. With ``num_workers=1`` a
    loader is built in the worker process, under any start method, and only a ``StatefulDataLoader`` knows the
    position of the training loop. More workers raise an error.

    Parameters
    ----------
    train : Loader
        The loader.
    dtype, channels_last
        The arguments of :func:`batches`.

    Returns
    -------
    LoaderDataset
        An ``IterableDataset`` with ``len(train)`` elements, ``state_dict()`` and ``load_state_dict()``.

    Raises
    ------
    InvalidError
        An argument is invalid, as in :func:`batches`. Iterating raises this error if the ``DataLoader`` has
        several workers or makes batches of batches.

    Examples
    --------
    >>> import forebay as fb
    >>> import torch
    >>> train = fb.Loader("data/train/", columns=["label"], batch_size=64)
    >>> loader = torch.utils.data.DataLoader(fb.torch.dataset(train), batch_size=None)
    >>> [batch["label"].shape for batch in loader]
    [torch.Size([64]), torch.Size([64]), torch.Size([64]), torch.Size([64])]
    """
    return LoaderDataset(train, _Form.of(train, dtype, channels_last))


def tensors(batch: Mapping[str, Any], move: Move = lambda tensor: tensor) -> dict[str, Any]:
    """Converts one batch to a dict of tensors.

    Parameters
    ----------
    batch : Batch or mapping
        A batch, or the result of a transform.
    move : callable, optional
        Takes a tensor and returns the tensor to deliver, for instance on another device. Default: the tensors
        share the batch's memory.

    Returns
    -------
    dict
        Names and tensors; columns of types that torch does not have are not converted.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.torch.tensors(fb.Dataset("data/train/").sample(3))["label"]
    tensor([0, 1, 2])
    """
    return {name: _tensor(value, column, move) for name, value, column in columns(batch)}


@dataclass(frozen=True)
class _Form:
    """The type and memory format in which tensors are delivered. It can be pickled for a ``DataLoader``'s
    worker."""

    dtype: torch.dtype | None
    #: The images that become ``channels_last``, by column: whether their layout is "NHWC", and the shape of
    #: an image.
    images: dict[str, tuple[bool, tuple[int, ...]]]

    @classmethod
    def of(cls, train: Loader, dtype: torch.dtype | None, channels_last: bool) -> _Form:
        check_loader(train)
        if dtype is not None and not (isinstance(dtype, torch.dtype) and dtype.is_floating_point):
            raise InvalidError(f"dtype must be a floating-point type of torch, got {dtype!r}")
        if not isinstance(channels_last, bool):
            raise InvalidError(f"channels_last must be True or False, got {channels_last!r}")
        decode = (train._arguments["decode"] or {}) if channels_last else {}
        counts: tuple[int, ...] = ()
        images = {name: (value, counts) for name, value in decode.items() if isinstance(value, Image)}
        for column, views in decode.items():
            if isinstance(views, Views):
                for name, (image, count) in views.views.items():
                    images[f"{column}.{name}"] = (image, (count,) if count else ())
        shapes = {
            name: (image == image.layout("NHWC"), (*counts, *image.shape)) for name, (image, counts) in images.items()
        }
        return cls(dtype, shapes)

    def __call__(self, batch: Mapping[str, Any], move: Move = lambda tensor: tensor) -> dict[str, Any]:
        """Converts a batch to tensors in this form; ``move`` takes each tensor to its device."""
        return {name: self._formed(name, value) for name, value in tensors(batch, move).items()}

    def _formed(self, name: str, value: Any) -> Any:
        if isinstance(value, dict):  # the fields of a structure
            return {field: self._formed("", member) for field, member in value.items()}
        if not isinstance(value, torch.Tensor):
            return value
        if self.dtype is not None and value.is_floating_point():
            value = value.to(self.dtype)
        is_last, shape = self.images.get(name, (False, None))
        # If a transform changed the shape of the column, it is delivered unchanged.
        if value.is_nested or value.shape[1:] != shape:
            return value
        if is_last:
            return value.movedim(-1, -3)
        each = value.flatten(0, -4).contiguous(memory_format=torch.channels_last)
        return each.unflatten(0, value.shape[:-3])


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
    """Total size of the tensors of a batch, in bytes."""
    return sum(value.nbytes for value in batch.values() if isinstance(value, torch.Tensor) and not value.is_nested)


publish(__name__)
