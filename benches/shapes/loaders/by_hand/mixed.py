"""Mixes tables by weight. Each table is gathered a few row groups at a time, and a batch joins slices of all."""

from dataclasses import replace

import numpy as np
from work import SHARES

from loaders.by_hand.rows import Rows


class Source(Rows):
    """A table that returns any requested number of its next rows."""

    def begin(self, work):
        super().begin(work)
        self.rows = sum(file.metadata.num_rows for file in self.files)

    def slices(self, columns, rows):
        return [{name: column.take(rows) for name, column in columns}]

    def restart(self, number):
        self.pool, self.left, self.following = {}, 0, self.epoch(number)

    def next(self, rows):
        """Yields the columns of the next rows, in several parts if they come from several pools of row groups."""
        while rows:
            if not self.left:
                self.pool = next(self.following)
                self.left = self.size = len(next(iter(self.pool.values())))
            at, count = self.size - self.left, min(rows, self.left)
            yield {name: column[at : at + count] for name, column in self.pool.items()}
            self.left -= count
            rows -= count


class Mixed:
    def __init__(self, work):
        self.work = work
        # With batches of one row, the rows of a pool always fill whole batches, so none go into the next pool.
        parts = [replace(work, folder=work.folder / str(at), batch=1) for at in range(len(SHARES))]
        self.sources = list(map(Source, parts))

    def held(self):
        return self.work.held

    def epoch(self, number):
        """Yields batches until one source has too few rows left for another batch."""
        for source in self.sources:
            source.restart(number)
        batch, whole = self.work.batch, sum(SHARES)
        steps = min(source.rows * whole // (share * batch) for source, share in zip(self.sources, SHARES, strict=True))
        for step in range(steps):
            # The running totals are rounded, not the counts of a step, so that the counts add up to a batch.
            before, after = (np.diff(np.cumsum([0, *SHARES]) * batch * at // whole) for at in (step, step + 1))
            wanted = zip(self.sources, (after - before).tolist(), strict=True)
            parts = [part for source, rows in wanted for part in source.next(rows)]
            yield {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
