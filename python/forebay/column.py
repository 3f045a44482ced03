"""One column of a batch, through every protocol."""

from __future__ import annotations

from typing import Any

from . import _forebay

__all__ = ["Column"]


class Column(_forebay.Column):
    """One column of a batch: ``batch.column("x")``.

    It speaks DLPack (``torch.from_dlpack``, ``jax.dlpack``), ``__array__`` (``numpy.asarray``), the Arrow PyCapsule
    protocol (``pyarrow.array``) and, from Python 3.12, the buffer protocol (``memoryview``), all over the batch's own
    memory. The stable ABI that the wheel is built for has no buffer protocol for extension types before 3.11, and
    Python's own hook for it came with 3.12; until then take ``memoryview(batch["x"])``.
    """

    __slots__ = ()

    def __buffer__(self, flags: int) -> memoryview:
        array: Any = self.__array__()
        return memoryview(array)
