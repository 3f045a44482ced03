"""What a loader says about itself: readable when printed, a dict for programs."""

from __future__ import annotations

import json
from typing import Any

from . import notebook

__all__ = ["Plan", "Stats"]


class _Report:
    """Text for people, JSON for programs."""

    __slots__ = ("_json", "_text")

    def __init__(self, text: str, as_json: str) -> None:
        self._text = text
        self._json = as_json

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON types."""
        result: dict[str, Any] = json.loads(self._json)
        return result

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._json == self._json

    def __hash__(self) -> int:
        return hash(self._json)


class Plan(_Report):
    """What this rank reads in an epoch, and in how many steps: known before any data is read."""

    __slots__ = ()


class Stats(_Report):
    """Why the training loop waits: what each stage did, and what was waited for, in seconds and bytes.

    Printed it is a table that ends with the verdict; a notebook draws it with bars. ``to_dict()`` has the keys

    * ``stages``: of each stage ``items``, ``bytes``, and seconds ``working``, ``starved`` (nothing to work on) and
      ``blocked`` (no room for results); the last two are ``None`` for the stages that share the pool of threads,
    * ``pool``: the same for those threads as a whole, summed over them,
    * ``waits``: seconds that the training loop waited in ``next`` or for the conversion of a column, by the stage that
      held it up; ``waits_first``: of them, those for the first batch,
    * ``consumer``: seconds of its own, between a batch and the next request,
    * ``next``: percentiles of ``next`` in seconds, off by at most 0.8 %; the first batch of all apart,
    * ``verdict``: ``stage``, ``share`` of the waiting, ``waiting`` as a share of the loop's time, and a ``sentence``,
    * ``queues``, ``memory``, ``traffic``, ``cache``, ``skipped_rows`` and ``padded_rows``.
    """

    __slots__ = ("_metrics",)

    def __init__(self, text: str, as_json: str, metrics: str) -> None:
        super().__init__(text, as_json)
        self._metrics = metrics

    @property
    def verdict(self) -> str:
        """The bottleneck and the next move, in a sentence."""
        sentence: str = self.to_dict()["verdict"]["sentence"]
        return sentence

    def to_prometheus(self) -> str:
        """The same in the text exposition format of Prometheus, in seconds and bytes."""
        return self._metrics

    def _repr_html_(self) -> str:
        return notebook.table(self.to_dict())
