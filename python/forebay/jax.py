"""Batches as JAX arrays.

Examples
--------
>>> import forebay as fb
>>> train = fb.Loader("data/train/", decode={"image": fb.Image.resize(64, 64)}, batch_size=128)
>>> for batch in fb.jax.batches(train):
...     print(batch["image"].shape, batch["image"].dtype)
(128, 64, 64, 3) uint8
(128, 64, 64, 3) uint8
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from .adapters import Batches, check_loader, columns
from .adapters.missing import missing
from .errors import InvalidError
from .options.checks import whole
from .sharding.devices import place_of, rows_of_processes
from .sharding.shard import Shard

try:
    import jax
except ImportError as error:
    raise missing("jax", "JAX", "jax", error) from error

if TYPE_CHECKING:
    from .loader import Loader

__all__ = ["batches"]

def batches(
    train: Loader, *, device: Any = None, sharding: Any = None, ahead: int = 1
) -> Batches[dict[str, Any]]:
    """The loader's batches as dicts of ``jax.Array``, one epoch per iteration.

    Copies to an accelerator begin ahead of the training step; on the CPU, JAX shares the batch's memory if
    its alignment permits. As usual in JAX, 64-bit numbers become 32-bit ones unless ``jax_enable_x64`` is
    set. Types that JAX does not have are not converted: text and bytes are arrays of objects, times are numpy
    arrays, lists of differing lengths are :class:`forebay.Ragged`.

    Parameters
    ----------
    train : Loader
        The loader.
    device : jax.Device, optional
        Device to place the arrays on. Default: JAX's own choice.
    sharding : jax.sharding.Sharding, optional
        With several processes, the sharding of the global batch. Each loader delivers the part that
        :meth:`forebay.Shard.from_sharding` gives its process. Cannot be combined with ``device``.
    ahead : int, default 1
        Batches to copy to the device before the training step asks for them. Without effect on the CPU.

    Returns
    -------
    Batches
        Iterable once per epoch, with ``len(train)`` batches.

    Raises
    ------
    InvalidError
        ``train`` is not a :class:`forebay.Loader`, ``device`` or ``sharding`` is not an object of JAX, both
        are given, the shard of ``train`` is not one of ``sharding``, or ``ahead`` is not an int of at least
        0. While iterating: the shape of a column does not fit ``sharding``.

    Examples
    --------
    >>> import forebay as fb
    >>> train = fb.Loader("data/train/", columns=["label"], batch_size=64)
    >>> next(iter(fb.jax.batches(train)))["label"].shape
    (64,)
    """
    if device is not None and sharding is not None:
        raise InvalidError("device and sharding were both given (pass one of them)")
    if not (device is None or isinstance(device, jax.Device)):
        raise InvalidError(f"device must be a jax.Device, got {device!r} (pass one of jax.devices())")
    whole(ahead, "ahead", 0)
    if sharding is not None:
        _check_sharding(check_loader(train), sharding)

    def convert(batch: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _array(name, value, device, sharding) for name, value, _ in columns(batch)}

    on_host = sharding is None and (device or jax.devices()[0]).platform == "cpu"
    if on_host:
        return Batches(train, convert)
    return Batches(train, convert, ahead=ahead, copied=_bytes)


def _check_sharding(train: Loader, sharding: Any) -> None:
    """Raises an error if a loader's shard is not the part of the global batch that the sharding gives this
    process."""
    process, rows = rows_of_processes(sharding)
    wanted = Shard(**place_of(process, rows))
    given = train._arguments["shard"] or Shard(rank=0, world=1)
    # If all devices of the sharding belong to this process, any shard is accepted, because the sharding says
    # nothing about other processes. If no two processes have the same rows, any rank is accepted, and only
    # `world` must be right.
    if len(rows) > 1 and (given.world != wanted.world or (wanted.world < len(rows) and given.rank != wanted.rank)):
        raise InvalidError(
            f"the loader has {given!r}, but this sharding makes this process {wanted!r} (pass "
            "shard=forebay.Shard.from_sharding(sharding))"
        )


def _bytes(batch: Mapping[str, Any]) -> int:
    """Total size of the arrays of a batch, in bytes."""
    return sum(value.nbytes for value in batch.values() if isinstance(value, jax.Array))


def _array(name: str, value: Any, device: Any, sharding: Any) -> Any:
    if isinstance(value, jax.Array):  # made by a transform
        return value
    if isinstance(value, dict):  # the fields of a structure
        return {key: _array(f"{name}.{key}", field, device, sharding) for key, field in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind not in "biufc" and value.dtype.name != "bfloat16":
        return value
    if sharding is not None:
        try:
            return jax.make_array_from_process_local_data(sharding, value)
        except (ValueError, IndexError) as error:
            raise InvalidError(
                f"column {name!r}, of shape {value.shape}, cannot have {sharding}: {error} (pass a sharding of the "
                "rows, or leave the column out with columns=)"
            ) from error
    return jax.device_put(value, device)
