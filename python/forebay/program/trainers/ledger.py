"""Counts how often the training steps delivered each row."""

from __future__ import annotations

import collections
import json
from collections.abc import Sequence
from dataclasses import dataclass

from .job import Job

__all__: list[str] = []


@dataclass(frozen=True)
class Count:
    """Numbers of deliveries of rows, over all epochs."""

    once: int
    #: Deliveries beyond the first of a row in an epoch.
    twice: int
    never: int
    #: Whether no epoch has a row twice.
    is_each_epoch: bool

    def __str__(self) -> str:
        if self.never == self.twice == 0:
            return (
                "each exactly once in an epoch" if self.is_each_epoch else "each once over all epochs, but not in each"
            )
        return f"{self.never} lost, {self.twice} repeated"


def steps(job: Job) -> list[list[int]]:
    """The rows of each step that a run took, over all ranks."""
    logs = [job.ledger(rank).read_text().splitlines() for rank in range(job.world)]
    return [[row for line in lines for row in json.loads(line)] for lines in zip(*logs, strict=False)]


def count(trained: Sequence[Sequence[int]], rows: Sequence[int], epochs: int, per_epoch: int) -> Count:
    """Counts the deliveries of ``rows`` in the steps. Each row is to be delivered once in each epoch."""
    seen = collections.Counter(row for step in trained for row in step)
    once = sum(min(seen[row], epochs) for row in rows)
    twice = sum(seen.values()) - once
    each = [trained[at : at + per_epoch] for at in range(0, len(trained), per_epoch)]
    distinct = [len({row for step in of_epoch for row in step}) for of_epoch in each]
    is_each_epoch = distinct == [sum(map(len, of_epoch)) for of_epoch in each] and len(each) == epochs
    return Count(once, twice, len(rows) * epochs - once, is_each_epoch)
