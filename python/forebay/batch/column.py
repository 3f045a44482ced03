"""One column of a batch, with every protocol by which other packages read it."""

from __future__ import annotations

from typing import Any

from .. import _forebay

__all__ = ["Column"]


class Column(_forebay.Column):
    """One column of a batch, made by :meth:`Batch.column`.

    It supports DLPack (``torch.from_dlpack``, ``jax.dlpack``), ``__array__`` (``numpy.asarray``), the Arrow
    PyCapsule protocol (``pyarrow.array``) and, from Python 3.12, the buffer protocol (``memoryview``). All
    share the batch's memory. Before Python 3.12 use ``memoryview(batch["x"])``.

    Parameters
    ----------
    batch : Batch
        The batch.
    name : str
        Name of the column.

    Raises
    ------
    UnknownColumnError
        The batch has no such column.

    Examples
    --------
    >>> import forebay as fb
    >>> import numpy as np
    >>> column = fb.Dataset("data/train/").sample(4).column("label")
    >>> column
    <forebay.Column "label": int64, 4 rows>
    >>> np.from_dlpack(column)
    array([0, 1, 2, 3])
    """

    __slots__ = ()

    def __buffer__(self, flags: int) -> memoryview:
        # The compiled class cannot have a buffer, since Python's stable ABI lacks the buffer protocol before
        # version 3.11. Python 3.12 and later call this method instead.
        array: Any = self.__array__()
        return memoryview(array)
