"""Buffers that mix the rows of a reader: of rows one by one, and of tensors."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

__all__: list[str] = []


class Rows:
    """Rows in random order, drawn from a buffer, or in the order in which they came."""

    def __init__(self, capacity: int) -> None:
        self._least = capacity
        self._rows: list[Any] = []
        self._next = 0
        self._is_over = False

    def add_many(self, rows: list[Any]) -> None:
        """Adds rows."""
        if self._next:
            del self._rows[: self._next]
            self._next = 0
        self._rows += rows

    def finish(self) -> None:
        """No more rows come."""
        self._is_over = True

    def can_retrieve(self) -> bool:
        """Whether a row can be drawn: there are enough to mix, or no more come."""
        left = len(self._rows) - self._next
        return left > 0 and (self._is_over or left >= self._least)

    def retrieve(self) -> Any:
        """A row, which leaves the buffer."""
        if not self._least:
            self._next += 1
            return self._rows[self._next - 1]
        at = np.random.randint(len(self._rows))
        self._rows[at], self._rows[-1] = self._rows[-1], self._rows[at]
        return self._rows.pop()


class Tensors:
    """Batches of tensors, drawn from a buffer of rows, or in the order in which they came.

    A batch is a view of the rows that were added together, or of the mixed buffer; only a batch over the end of one
    addition is copied.
    """

    def __init__(self, capacity: int, batch_size: int) -> None:
        self._least = capacity
        self._batch_size = batch_size
        self._parts: list[list[torch.Tensor]] = []
        self._rows = 0
        # Rows of the first part that were drawn.
        self._next = 0
        self._is_mixed = False
        self._is_over = False

    def add_many(self, columns: Any) -> None:
        """Adds the same number of rows of each column."""
        added = list(columns)
        if len(added[0]):
            self._parts.append(added)
            self._rows += len(added[0])
            self._is_mixed = False

    def finish(self) -> None:
        """No more rows come."""
        self._is_over = True

    def can_retrieve(self) -> bool:
        """Whether a batch can be drawn: there are enough rows to mix, or no more come."""
        return self._rows > 0 and (self._is_over or self._rows >= self._least + self._batch_size)

    def retrieve(self) -> list[torch.Tensor]:
        """A batch, whose rows leave the buffer."""
        if self._least and not self._is_mixed:
            self._mix()
        count = min(self._batch_size, self._rows)
        self._rows -= count
        pieces = []
        while count:
            part = self._parts[0]
            taken = min(count, len(part[0]) - self._next)
            pieces.append([column[self._next : self._next + taken] for column in part])
            count -= taken
            self._next += taken
            if self._next == len(part[0]):
                del self._parts[0]
                self._next = 0
        return pieces[0] if len(pieces) == 1 else _joined(pieces)

    def _mix(self) -> None:
        first, *others = self._parts
        columns = _joined([[column[self._next :] for column in first], *others])
        order = torch.randperm(self._rows, device=columns[0].device)
        self._parts, self._next, self._is_mixed = [[column[order] for column in columns]], 0, True


def _joined(parts: list[list[torch.Tensor]]) -> list[torch.Tensor]:
    return [column[0] if len(column) == 1 else torch.cat(column) for column in zip(*parts, strict=True)]
