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

from .adapters import Batches, columns
from .errors import InvalidError
from .frameworks import missing

try:
    import jax
except ImportError as error:
    raise missing("jax", "JAX", "jax", error) from error

if TYPE_CHECKING:
    from .loader import Loader

__all__ = ["batches"]

#: Batches sent to the device before the training step asks for them.
AHEAD = 1


def batches(train: Loader, *, device: Any = None, sharding: Any = None) -> Batches[dict[str, Any]]:
    """The loader's batches as dicts of ``jax.Array``, one epoch per iteration.

    Copies to an accelerator begin one batch ahead of the training step; on the CPU, JAX shares the batch's memory where
    its alignment allows. As always in JAX, 64-bit numbers become 32-bit ones unless ``jax_enable_x64`` is set. Types
    that JAX does not have stay as they are: text and bytes are arrays of objects, times are numpy arrays, lists of
    differing lengths are :class:`forebay.Ragged`.

    Parameters
    ----------
    train : Loader
        The loader.
    device : jax.Device, optional
        Device to place the arrays on. Default: JAX's own choice.
    sharding : jax.sharding.Sharding, optional
        With several processes, the sharding of the global batch, of which each loader has its part. Not with
        ``device``.

    Returns
    -------
    Batches
        Iterable once per epoch, with ``len(train)`` batches.

    Raises
    ------
    InvalidError
        ``train`` is not a :class:`forebay.Loader`, ``device`` or ``sharding`` is something else than JAX's, or both are
        given.

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
    if not (sharding is None or isinstance(sharding, jax.sharding.Sharding)):
        raise InvalidError(f"sharding must be a jax.sharding.Sharding, got {sharding!r}")

    def convert(batch: Mapping[str, Any]) -> dict[str, Any]:
        return {name: _array(value, device, sharding) for name, value, _ in columns(batch)}

    on_host = sharding is None and (device or jax.devices()[0]).platform == "cpu"
    if on_host:
        return Batches(train, convert)
    return Batches(train, convert, ahead=AHEAD, copied=_bytes)


def _bytes(batch: Mapping[str, Any]) -> int:
    """Bytes of the arrays of a batch."""
    return sum(value.nbytes for value in batch.values() if isinstance(value, jax.Array))


def _array(value: Any, device: Any, sharding: Any) -> Any:
    if isinstance(value, jax.Array):  # made by a transform
        return value
    if isinstance(value, dict):  # the fields of a structure
        return {name: _array(field, device, sharding) for name, field in value.items()}
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind not in "biufc" and value.dtype.name != "bfloat16":
        return value
    if sharding is not None:
        return jax.make_array_from_process_local_data(sharding, value)
    return jax.device_put(value, device)
