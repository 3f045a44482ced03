"""The shuffle buffers of the PyTorch loaders for a Petastorm reader: one of single rows, and one of
tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

__all__: list[str] = []


class Rows:
    """A buffer of rows, from which rows are drawn at random, or in the order of arrival if its capacity is
    0."""

    def __init__(self, capacity: int) -> None:
        self._least = capacity
        self._rows: list[Any] = []
        self._next = 0
        self._is_over = False

    def add_many(self, rows: list[Any]) -> None:
        """Adds rows to the buffer."""
        if self._next:
            del self._rows[: self._next]
            self._next = 0
        self._rows += rows

    def finish(self) -> None:
        """Says that no more rows will be added."""
        self._is_over = True

    def can_retrieve(self) -> bool:
        """Whether a row can be drawn: the buffer has enough to mix, or no more will be added."""
        left = len(self._rows) - self._next
        return left > 0 and (self._is_over or left >= self._least)

    def retrieve(self) -> Any:
        """Removes a row from the buffer and returns it."""
        if not self._least:
            self._next += 1
            return self._rows[self._next - 1]
        at = np.random.randint(len(self._rows))
        self._rows[at], self._rows[-1] = self._rows[-1], self._rows[at]
        return self._rows.pop()


class Tensors:
    """A buffer of rows in tensors, from which batches of rows are drawn at random, or in the order of arrival
    if its capacity is 0.

    A batch is a view of the rows of one call of ``add_many``, or of the mixed buffer. Only a batch with rows
    of two calls is copied.
    """

    def __init__(self, capacity: int, batch_size: int) -> None:
        self._least = capacity
        self._batch_size = batch_size
        self._parts: list[_Part] = []
        self._rows = 0
        self._is_mixed = False
        self._is_over = False

    def add_many(self, columns: Any) -> None:
        """Adds rows: a tensor for each column, all of the same length."""
        part = _Part(list(columns), self._batch_size)
        if part.rows:
            self._parts.append(part)
            self._rows += part.rows
            self._is_mixed = False

    def finish(self) -> None:
        """Says that no more rows will be added."""
        self._is_over = True

    def can_retrieve(self) -> bool:
        """Whether a batch can be drawn: the buffer has enough rows to mix, or no more will be added."""
        return self._rows > 0 and (self._is_over or self._rows >= self._least + self._batch_size)

    def retrieve(self) -> Sequence[torch.Tensor]:
        """Removes the rows of a batch from the buffer and returns them."""
        if self._least and not self._is_mixed:
            self._mix()
        count = min(self._batch_size, self._rows)
        self._rows -= count
        pieces = []
        while count:
            part = self._parts[0]
            taken = min(count, part.rows)
            pieces.append(part.take(taken))
            count -= taken
            if not part.rows:
                del self._parts[0]
        return pieces[0] if len(pieces) == 1 else _joined(pieces)

    def _mix(self) -> None:
        columns = _joined([part.left() for part in self._parts])
        order = torch.randperm(self._rows, device=columns[0].device)
        self._parts = [_Part([column[order] for column in columns], self._batch_size)]
        self._is_mixed = True


class _Part:
    """The rows of one call of ``add_many``, which are removed from the front."""

    def __init__(self, columns: list[torch.Tensor], batch_size: int) -> None:
        self.rows = len(columns[0])
        """The number of remaining rows."""
        self._columns = columns
        self._batch_size = batch_size
        self._next = 0
        # The remaining whole batches, the last one first. They are cut all at once, which takes half the time
        # of cutting them one by one.
        self._batches: list[tuple[torch.Tensor, ...]] = []

    def take(self, count: int) -> Sequence[torch.Tensor]:
        """Removes and returns the next ``count`` rows, at most a batch."""
        piece: Sequence[torch.Tensor]
        if count == self._batch_size:
            if not self._batches:
                self._batches = list(zip(*(column.split(count) for column in self.left()), strict=True))[::-1]
            piece = self._batches.pop()
        else:
            piece = [column[self._next : self._next + count] for column in self._columns]
        self._next += count
        self.rows -= count
        return piece

    def left(self) -> list[torch.Tensor]:
        """Returns the remaining rows."""
        return [column[self._next :] for column in self._columns] if self._next else self._columns


def _joined(parts: list[Sequence[torch.Tensor]]) -> list[torch.Tensor]:
    return [column[0] if len(column) == 1 else torch.cat(column) for column in zip(*parts, strict=True)]
