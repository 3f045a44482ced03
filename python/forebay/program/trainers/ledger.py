"""Counts how often the training steps of a test training delivered each row."""

from __future__ import annotations

import collections
import json
from collections.abc import Sequence
from dataclasses import dataclass

from .job import Job

__all__: list[str] = []


@dataclass(frozen=True)
class Count:
    """The result of a count: how many deliveries of rows are right, repeated or missing, over all epochs."""

    once: int
    #: Deliveries of a row beyond one for each epoch.
    twice: int
    never: int
    #: Whether the steps make up all epochs, and no epoch has a row twice.
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
    """Counts how often the steps in ``trained`` delivered each of ``rows``, which should be once in each
    epoch."""
    seen = collections.Counter(row for step in trained for row in step)
    once = sum(min(seen[row], epochs) for row in rows)
    twice = sum(seen.values()) - once
    each = [trained[at : at + per_epoch] for at in range(0, len(trained), per_epoch)]
    distinct = [len({row for step in of_epoch for row in step}) for of_epoch in each]
    is_each_epoch = distinct == [sum(map(len, of_epoch)) for of_epoch in each] and len(each) == epochs
    return Count(once, twice, len(rows) * epochs - once, is_each_epoch)
