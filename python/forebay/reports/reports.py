"""The classes of a loader's reports, its plan and its statistics: printed they are text for people, and
``to_dict()`` is for programs."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from . import notebook

if TYPE_CHECKING:
    from ..types import MixPlanDict, PlanDict, StatsDict

__all__ = ["MixPlan", "Plan", "Stats"]


class _Report:
    """Base class of reports, which have a text for people and a JSON form for programs."""

    __slots__ = ("_json", "_text")

    def __init__(self, text: str, as_json: str) -> None:
        self._text = text
        self._json = as_json

    def __repr__(self) -> str:
        return self._text

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and other._json == self._json

    def __hash__(self) -> int:
        return hash(self._json)

    def _repr_html_(self) -> str:
        facts = {name: value for name, value in json.loads(self._json).items() if not isinstance(value, list)}
        return notebook.of_facts(type(self).__name__, facts)


class Plan(_Report):
    """Summary of what one rank reads in an epoch, known before any data is read; made by :meth:`Loader.plan`.

    Examples
    --------
    >>> import forebay as fb
    >>> plan = fb.Loader("data/train/", batch_size=64, memory="1GB").plan()
    >>> print(plan)  # doctest: +ELLIPSIS
    epoch 0, rank 0 of 1: 4 steps, 256 rows (0 repeated, 0 dropped), 8 row groups of ...
    """

    __slots__ = ()

    def to_dict(self) -> PlanDict:
        """The plan as numbers.

        Returns
        -------
        dict
            The keys of :class:`forebay.types.PlanDict`; sizes in bytes.
        """
        result: PlanDict = json.loads(self._json)
        return result


class MixPlan(Plan):
    """Summary of the rows that an epoch of a mix reads from each source, known before any data is read; made
    by ``plan()`` of a :class:`Mix`.

    Examples
    --------
    >>> import forebay as fb
    >>> plan = fb.Mix([("data/train/", 3), ("data/val/", 1)], batch_size=8, memory="1GB").plan()
    >>> print(plan)  # doctest: +ELLIPSIS
    epoch 0, rank 0 of 1: ... steps of ... rows over all ranks, 1 lanes, memory ...
    source 0: ... rows (75.00 %) in 1 pass over its 256 rows, ... not read
    source 1: ... rows (25.00 %) in 1 pass over its ... rows, ... not read
    """

    __slots__ = ()

    def to_dict(self) -> MixPlanDict:  # type: ignore[override]
        """The plan as numbers.

        Returns
        -------
        dict
            The keys of :class:`forebay.types.MixPlanDict`.
        """
        result: MixPlanDict = json.loads(self._json)
        return result


class Stats(_Report):
    """The work of each stage, and the waits of the training loop; made by :meth:`Loader.stats`.

    As text it is a table that ends with the bottleneck; a notebook shows it with bars. Counts begin when the
    loader is created.

    Examples
    --------
    >>> import forebay as fb
    >>> loader = fb.Loader("data/train/", batch_size=64, memory="1GB")
    >>> batches = list(loader)
    >>> loader.stats().to_dict()["memory"]["budget"]
    1000000000
    """

    __slots__ = ("_metrics",)

    def __init__(self, text: str, as_json: str, metrics: str) -> None:
        super().__init__(text, as_json)
        self._metrics = metrics

    def to_dict(self) -> StatsDict:
        """The report as numbers.

        Returns
        -------
        dict
            The keys of :class:`forebay.types.StatsDict`; times in seconds, sizes in bytes.

            ``stages``
                For each stage ``items``, ``bytes`` and the seconds ``working``, ``starved`` (nothing to work
                on) and ``blocked`` (no space for results). The last two are ``None`` for stages that share
                the pool of threads.
            ``pool``
                The seconds ``working``, ``starved`` and ``blocked`` of the pool of threads, summed over its
                threads.
            ``waits``, ``waits_first``
                Seconds that the training loop waited in ``next`` or for the conversion of a column, by the
                stage that caused the wait. ``waits_first`` has only the waits for the first batch.
            ``consumer``
                Seconds of the training loop's own work, between a batch and the next request.
            ``next``
                Percentiles of the time in ``next``, with an error of at most 0.8 %, without the first batch.
            ``next_histogram``
                The calls of ``next`` by duration, without the first batch: the number of ``calls`` that took
                up to ``up_to`` seconds, with ten bins for each power of ten.
            ``timeline``
                ``waits``, ``consumer``, ``rows`` and ``batches`` over the course of the run, in at most 600
                ``buckets`` of ``bucket_seconds`` each.
            ``verdict``
                The bottleneck: ``stage``, its ``share`` of the waiting, ``waiting`` as a share of the loop's
                time, and a ``sentence``.
            ``queues``, ``memory``, ``traffic``, ``cache``, ``skipped_rows``, ``padded_rows``,
            ``unknown_values``
                Numbers of batches, row groups and bytes in flight, and counts of events.
            ``sources``
                Only for a mix: for each source, its ``rows`` in the batches that this rank took.
        """
        result: StatsDict = json.loads(self._json)
        return result

    @property
    def verdict(self) -> str:
        """The bottleneck, and what the user can do about it, as a sentence."""
        return self.to_dict()["verdict"]["sentence"]

    def to_prometheus(self) -> str:
        """The report in the text exposition format of Prometheus.

        Returns
        -------
        str
            Metrics in seconds and bytes.
        """
        return self._metrics

    def _repr_html_(self) -> str:
        return notebook.table(self.to_dict())


def numbers(report: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, float]]:
    """Yields each number of a report with a name, which is ``prefix`` and the keys that lead to the number,
    joined by slashes."""
    for key, value in report.items():
        if isinstance(value, Mapping):
            yield from numbers(value, f"{prefix}{key}/")
        elif isinstance(value, (int, float)):
            yield f"{prefix}{key}", float(value)
