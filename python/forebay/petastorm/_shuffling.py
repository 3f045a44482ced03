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
    """Batches of tensors, drawn from a buffer of rows, or in the order in which they came."""

    def __init__(self, capacity: int, batch_size: int) -> None:
        self._least = capacity
        self._batch_size = batch_size
        self._parts: list[list[torch.Tensor]] = []
        self._rows = 0
        self._mixed: list[torch.Tensor] | None = None
        self._next = 0
        self._is_over = False

    def add_many(self, columns: Any) -> None:
        """Adds the same number of rows of each column."""
        if self._mixed is not None:
            left = [column[self._next :] for column in self._mixed]
            self._parts, self._mixed, self._next = ([left] if len(left[0]) else []), None, 0
        added = list(columns)
        self._parts.append(added)
        self._rows += len(added[0])

    def finish(self) -> None:
        """No more rows come."""
        self._is_over = True

    def can_retrieve(self) -> bool:
        """Whether a batch can be drawn: there are enough rows to mix, or no more come."""
        return self._rows > 0 and (self._is_over or self._rows >= self._least + self._batch_size)

    def retrieve(self) -> list[torch.Tensor]:
        """A batch, whose rows leave the buffer."""
        if self._mixed is None:
            joined = [part[0] if len(part) == 1 else torch.cat(part) for part in zip(*self._parts, strict=True)]
            if self._least:
                order = torch.randperm(self._rows, device=joined[0].device)
                joined = [column[order] for column in joined]
            self._parts, self._mixed, self._next = [], joined, 0
        count = min(self._batch_size, self._rows)
        batch = [column[self._next : self._next + count] for column in self._mixed]
        self._next += count
        self._rows -= count
        return batch
