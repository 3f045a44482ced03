"""Batches of PyTorch tensors from a reader."""

from __future__ import annotations

import decimal
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..adapters.missing import missing

try:
    import torch
    from torch.utils.data import default_collate
except ImportError as error:
    raise missing("petastorm.pytorch", "PyTorch", "torch", error) from error

from ._shuffling import Rows, Tensors
from .reader import Reader

__all__ = ["BatchedDataLoader", "DataLoader", "InMemBatchedDataLoader", "LoaderBase", "decimal_friendly_collate"]

_LOG = logging.getLogger("forebay")

#: The types to which numpy types are converted, because torch lacked the same types when Petastorm was
#: written.
_PROMOTED = {np.dtype(kind): larger for kind, larger in (("u2", np.int32), ("u4", np.int64), ("?", np.uint8))}


class LoaderBase:
    """The common base of the loaders. It allows one pass over the reader at a time, and resets the reader for
    the next pass.

    A class of yours may override ``_iter_impl``, which yields the batches of a pass.
    """

    reader: Reader

    def __init__(self) -> None:
        self._in_iter: bool | None = None
        self._error: BaseException | None = None

    def __iter__(self) -> Iterator[Any]:
        if self._error is not None:
            raise RuntimeError(f"the last pass failed with {self._error!r} (make another reader and loader)")
        if self._in_iter:
            raise RuntimeError(
                "You must finish a full pass of Petastorm DataLoader before making another pass from the beginning: "
                "one is under way (finish it, or make another reader and loader)"
            )
        if self._in_iter is not None:
            self.reader.reset()
            _LOG.warning("the reader is reset for another pass (num_epochs= of the reader costs less)")
        self._in_iter = True
        try:
            yield from self._iter_impl()
        except Exception as error:
            self._error = error
            raise
        finally:
            self._in_iter = False

    def _iter_impl(self) -> Iterator[Any]:
        raise NotImplementedError

    def __enter__(self) -> Any:
        return self

    def __exit__(self, *exception: object) -> None:
        self.reader.stop()
        self.reader.join()


def decimal_friendly_collate(batch: Sequence[Any]) -> Any:
    """Collates rows to a batch as torch's ``default_collate`` does, but leaves decimals and text in lists."""
    first = batch[0]
    if isinstance(first, (decimal.Decimal, str, bytes)):
        return batch
    if isinstance(first, Mapping):
        return {name: decimal_friendly_collate([row[name] for row in batch]) for name in first}
    if isinstance(first, Sequence):
        return [decimal_friendly_collate(items) for items in zip(*batch, strict=False)]
    if _are_alike(first, batch):
        # np.stack copies on this thread alone, while torch.stack uses more threads, which would compete with
        # the threads that decode.
        return torch.from_numpy(np.stack(batch))
    return default_collate(list(batch))


def _are_alike(first: Any, values: Sequence[Any]) -> bool:
    """Whether all values are arrays of numbers with the same type and shape."""
    if not isinstance(first, np.ndarray) or not first.ndim or first.dtype.kind not in "biuf":
        return False
    kind = first.dtype, first.shape
    return all(isinstance(value, np.ndarray) and (value.dtype, value.shape) == kind for value in values)


def _checked_batch_size(batch_size: Any) -> int:
    if isinstance(batch_size, bool) or not isinstance(batch_size, (int, np.integer)) or batch_size < 1:
        raise ValueError(f"batch_size must be an int of at least 1, got {batch_size!r}")
    return int(batch_size)


class DataLoader(LoaderBase):
    """Delivers batches of a reader's rows, which are collated from single rows.

    Parameters
    ----------
    reader : Reader
        The reader. The loader stops it at the end of a ``with`` statement.
    batch_size : int, default 1
        Rows of a batch. The last batch may have fewer.
    collate_fn : callable, default decimal_friendly_collate
        A function from a list of rows, each a dict, to a batch.
    shuffling_queue_capacity : int, default 0
        Rows in the buffer from which rows are drawn at random, by numpy's generator; 0 keeps the reader's
        order.
    """

    def __init__(
        self,
        reader: Reader,
        batch_size: int = 1,
        collate_fn: Callable[[list[Any]], Any] = decimal_friendly_collate,
        shuffling_queue_capacity: int = 0,
    ) -> None:
        super().__init__()
        self.reader = reader
        self.batch_size = _checked_batch_size(batch_size)
        self.collate_fn = collate_fn
        self.shuffling_queue_capacity = shuffling_queue_capacity
        self._batch_acc: list[Any] = []

    def _iter_impl(self) -> Iterator[Any]:
        self._shuffling_buffer = Rows(self.shuffling_queue_capacity)
        self._batch_acc = []
        keys: Any = None
        for item in self.reader:
            row = item._asdict()
            keys = row.keys()
            _sanitize_pytorch_types(row)
            if self.reader.batched_output:
                self._shuffling_buffer.add_many(list(zip(*row.values(), strict=True)))
            else:
                self._shuffling_buffer.add_many([row])
            yield from self._yield_batches(keys)
        self._shuffling_buffer.finish()
        yield from self._yield_batches(keys)
        if self._batch_acc:
            yield self.collate_fn(self._batch_acc)

    def _yield_batches(self, keys: Any) -> Iterator[Any]:
        while self._shuffling_buffer.can_retrieve():
            row = self._shuffling_buffer.retrieve()
            self._batch_acc.append(row if isinstance(row, dict) else dict(zip(keys, row, strict=True)))
            if len(self._batch_acc) == self.batch_size:
                batch, self._batch_acc = self._batch_acc, []
                yield self.collate_fn(batch)


class BatchedDataLoader(LoaderBase):
    """Delivers batches of tensors, cut from the columns of a reader's batches without handling single rows.

    Parameters
    ----------
    reader : Reader
        The reader. The loader stops it at the end of a ``with`` statement.
    batch_size : int, default 1
        Rows of a batch. The last batch may have fewer.
    transform_fn : callable, default torch.as_tensor
        A function from an array to a tensor.
    shuffling_queue_capacity : int, default 0
        Rows in the buffer from which rows are drawn at random, by torch's generator; 0 keeps the reader's
        order.
    """

    def __init__(
        self,
        reader: Reader,
        batch_size: int = 1,
        transform_fn: Callable[[Any], Any] | None = None,
        shuffling_queue_capacity: int = 0,
    ) -> None:
        super().__init__()
        self.reader = reader
        self.batch_size = _checked_batch_size(batch_size)
        self.transform_fn = transform_fn or torch.as_tensor
        self.shuffling_queue_capacity = shuffling_queue_capacity

    def _iter_impl(self) -> Iterator[Any]:
        self._shuffling_buffer = Tensors(self.shuffling_queue_capacity, self.batch_size)
        keys: Any = None
        for item in self.reader:
            columns = _columns(item, self.reader.batched_output)
            keys = list(columns)
            self._shuffling_buffer.add_many(self.transform_fn(column) for column in columns.values())
            yield from self._yield_batches(keys)
        self._shuffling_buffer.finish()
        yield from self._yield_batches(keys)

    def _yield_batches(self, keys: Any) -> Iterator[Any]:
        while self._shuffling_buffer.can_retrieve():
            yield dict(zip(keys, self._shuffling_buffer.retrieve(), strict=True))


class InMemBatchedDataLoader:
    """Delivers batches of tensors from rows that are kept in memory: they are read once, and may be shuffled
    anew for each epoch.

    It can be iterated over once. The reader is stopped as soon as the rows are in memory.

    Parameters
    ----------
    reader : Reader
        The reader.
    batch_size : int, default 1
        Rows of a batch. The last batch of an epoch may have fewer.
    transform_fn : callable, default torch.as_tensor
        A function from an array to a tensor.
    num_epochs : int, default 1
        How often the rows are delivered.
    seed : int, default 0
        The seed of the shuffle; the order of an epoch depends on the seed and the number of the epoch.
    rows_capacity : int, default 1024
        The largest number of rows that are kept. If the reader has more, the rest is left out with a warning.
    shuffle : bool, default False
        Whether the rows of an epoch come in random order.
    """

    def __init__(
        self,
        reader: Reader,
        batch_size: int = 1,
        transform_fn: Callable[[Any], Any] | None = None,
        num_epochs: int = 1,
        seed: int = 0,
        rows_capacity: int = 1024,
        shuffle: bool = False,
    ) -> None:
        self.batch_size = _checked_batch_size(batch_size)
        self.num_epochs = num_epochs
        self.seed = seed
        self.shuffle = shuffle
        self._is_used = False
        with reader:
            self._columns = _kept(reader, transform_fn or torch.as_tensor, rows_capacity)

    def __iter__(self) -> Iterator[Any]:
        if self._is_used:
            raise RuntimeError("InMemBatchedDataLoader couldn't be used multiple times (pass it num_epochs=)")
        self._is_used = True
        rows = len(next(iter(self._columns.values()), ()))
        for epoch in range(self.num_epochs):
            columns = self._columns
            if self.shuffle:
                order = torch.randperm(rows, generator=torch.Generator().manual_seed(self.seed + epoch))
                columns = {name: column[order.to(column.device)] for name, column in columns.items()}
            for start in range(0, rows, self.batch_size):
                yield {name: column[start : start + self.batch_size] for name, column in columns.items()}

    def __enter__(self) -> InMemBatchedDataLoader:
        return self

    def __exit__(self, *exception: object) -> None:
        """Does nothing, because the reader is stopped as soon as its rows are in memory."""


def _kept(reader: Reader, transform_fn: Callable[[Any], Any], capacity: int) -> dict[str, Any]:
    """Reads up to ``capacity`` rows of a reader, and returns a tensor for each field."""
    parts: list[dict[str, Any]] = []
    left = capacity
    for item in reader:
        columns = _columns(item, reader.batched_output)
        rows = len(next(iter(columns.values())))
        if left > 0:
            parts.append({name: transform_fn(column[:left]) for name, column in columns.items()})
        left -= rows
        if left < 0:
            _LOG.warning("only the first %s rows are kept, and the reader has more (raise rows_capacity=)", capacity)
            break
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]} if parts else {}


def _columns(item: Any, is_batch: bool) -> dict[str, Any]:
    """Returns the columns of a batch by name, in types that torch has. A single row becomes a batch of one
    row."""
    columns: dict[str, Any] = item._asdict()
    _sanitize_pytorch_types(columns)
    return columns if is_batch else {name: np.asarray(value)[None] for name, value in columns.items()}


def _sanitize_pytorch_types(row_as_dict: dict[str, Any]) -> None:
    """Converts the values of a row or a batch to types that torch has, in place.

    Raises
    ------
    TypeError
        A value is None, or an array of text or objects.
    """
    for name, value in row_as_dict.items():
        if value is None:
            raise TypeError(f"Pytorch does not support nullable fields. Found None in {name}")
        if isinstance(value, np.bool_):
            row_as_dict[name] = np.uint8(value)
        elif isinstance(value, np.ndarray):
            if value.dtype.kind in "SUO":
                raise TypeError(
                    f"Pytorch does not support arrays of string or object classes. Found in field {name}. (leave it "
                    "out with schema_fields=, or remove it with a TransformSpec)"
                )
            promoted = _PROMOTED.get(value.dtype)
            if promoted is not None:
                row_as_dict[name] = value.astype(promoted)
            elif not value.flags.writeable or any(step < 0 for step in value.strides):
                row_as_dict[name] = value.copy()
