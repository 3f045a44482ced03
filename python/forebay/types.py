"""Types of arguments and results, for annotations and type checkers.

Examples
--------
>>> from forebay.types import StateDict
>>> def save(state: StateDict) -> int:
...     return state["epoch"]
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Union

from .choices import (
    Across,
    BoxFormat,
    CacheTier,
    ColumnKind,
    FilterOperator,
    Frames,
    Interpolation,
    MaskType,
    Mixing,
    PixelLayout,
    PixelType,
    Resampling,
    TensorFormat,
    TensorType,
)
from .columns.options import ColumnsDict, TensorDict

if TYPE_CHECKING:
    from .filters.expressions import Expression
    from .transforms.rows import Row

__all__ = [
    "Across",
    "BetterMixingDict",
    "BoxFormat",
    "CacheDict",
    "CacheTier",
    "Collate",
    "ColumnKind",
    "FilesDict",
    "Filter",
    "FilterOperator",
    "FilterTerm",
    "Frames",
    "Interpolation",
    "Location",
    "MaskType",
    "MemoryDict",
    "MixPlanDict",
    "MixStateDict",
    "Mixing",
    "NextDict",
    "OrderDict",
    "PixelLayout",
    "PixelType",
    "PlanDict",
    "PoolDict",
    "QueuesDict",
    "Resampling",
    "RowTransform",
    "ShardDict",
    "ShuffleDict",
    "SourcePlanDict",
    "SourceStateDict",
    "SourceStatsDict",
    "SpecDict",
    "SplitDict",
    "StageDict",
    "StateDict",
    "StatsDict",
    "TensorDict",
    "TensorFormat",
    "TensorType",
    "TrafficDict",
    "Transform",
    "VerdictDict",
]


Location = str | os.PathLike[str]
"""A path, URL or glob."""

Transform = Callable[[dict[str, Any]], Mapping[str, Any]]
"""From a dict of numpy arrays to a dict of arrays with as many rows."""

RowTransform = Callable[["Row"], Mapping[str, Any]]
"""From one row to the row that is delivered, each a dict from column name to value."""

Collate = Callable[[list[Any]], Mapping[str, Any]]
"""From a list of rows, each a dict, to a dict of columns."""


FilterTerm = tuple[str, FilterOperator, Any]
"""A column, an operator, and a number, bool, str, bytes, date or datetime, or a list of them for ``in``, ``not in``."""

Filter = Union["Expression", Iterable[FilterTerm], Iterable[Iterable[FilterTerm]], Any]
"""An expression, terms, lists of terms, or an expression of ``pyarrow.compute`` or Polars."""


class _OrderDict(TypedDict):
    shuffle: Mixing
    seed: int
    pool: int
    """Row groups that a lane mixes."""
    lanes: int
    rows: int
    """Rows that the filter selects."""
    filter: str | None
    """The filter in canonical form."""


class OrderDict(_OrderDict, total=False):
    """The order that a state counts in."""

    denied: str
    """A hash of the rows that are denied, where some are."""
    samples: str
    """What a sample is, as JSON, where it is not a row; all numbers of rows count samples then."""
    skipped: list[list[int]]
    """Rows that are passed over, where some are: an epoch, the first row, and the row after the last."""


class SplitDict(TypedDict):
    """The batches of a loader."""

    global_batch_size: int
    """Rows of a full step, over all ranks."""
    world: int
    drop_last: bool


class FilesDict(TypedDict):
    """The files of a data set in a :class:`StateDict`: a few hundred bytes that tell a loader what changed since."""

    files: int
    """How many there are."""
    rows: int
    """Rows in them."""
    sums: str
    """Sums of their names and contents, in hexadecimal digits."""


class _StateDict(TypedDict):
    version: int
    """Version of the format."""
    fingerprint: str
    """Fingerprint of the data set."""
    order: OrderDict
    epoch: int
    """The epoch under way, or about to begin."""
    row: int
    """Rows of it that were handed over, all ranks together."""


class StateDict(_StateDict, total=False):
    """The result of :meth:`forebay.Loader.state_dict`."""

    cache_tier: str
    """Form in which the cache keeps images, where there is a cache."""
    split: SplitDict
    """The batches of the loader."""
    files: FilesDict
    """The files of its data set."""
    skipped: int
    """Bad rows that the rank that saved it had left out of the epoch, if there were any."""


class _SourceStateDict(TypedDict):
    fingerprint: str
    """Of its data set."""
    order: OrderDict
    first_pass: int
    """The number of its first pass in the epoch."""
    rows: int
    """Rows of it that the epoch has given, over all ranks."""


class SourceStateDict(_SourceStateDict, total=False):
    """One source in a :class:`MixStateDict`."""

    skipped: int
    """Bad rows that the rank that saved it had left out of the pass that is under way, if there were any."""
    files: FilesDict
    """The files of its data set."""


class _MixStateDict(TypedDict):
    mix: int
    """Format of the state."""
    epoch: int
    row: int
    """Rows of the epoch that were handed over, of all sources and ranks."""
    step: int
    """The number of the next step, counted through all epochs."""
    sources: list[SourceStateDict]
    stop: Literal["first", "last"]
    repeat: bool
    schedule: list[tuple[int, list[int]]]
    """The weights, as parts, by the step from which they hold."""
    split: SplitDict


class MixStateDict(_MixStateDict, total=False):
    """The result of :meth:`forebay.Mix.state_dict`."""

    origin: dict[str, Any]
    """The step from which steps have been as they are, if they were others before."""
    random_shares: int
    """The seed by which the source of each row is drawn, if it is by chance."""


class ShuffleDict(TypedDict):
    """A :class:`forebay.Shuffle` as JSON."""

    mixing: Mixing
    seed: int
    window_rows: int | None
    piece_rows: int | None
    lanes: int | None


class ShardDict(TypedDict):
    """A :class:`forebay.Shard` as JSON."""

    rank: int
    world: int


class CacheDict(TypedDict):
    """A :class:`forebay.DiskCache` as JSON."""

    path: str
    max_bytes: int
    tier: CacheTier


class _SpecDict(TypedDict, total=False):
    flatten: bool | list[str]
    """The structures whose fields are columns, where there are any."""
    null_mask: list[str]
    """The columns with a mask for their nulls, where there are any."""
    rename: dict[str, str]
    """The columns that are delivered under another name, where there are any."""
    global_batch_size: int
    """Rows of a step over all ranks, where it was asked for."""
    row_id: bool
    """Whether batches have row ids, if they do."""
    row_mask: bool
    """Whether batches say which rows to count, if they do."""
    deny: dict[str, Any]
    """The rows that are left out, where there are any."""
    skip_steps: list[list[int]]
    """The steps that are passed over, where there are any."""


class SpecDict(_SpecDict, ColumnsDict):
    """The value of :attr:`forebay.Loader.spec`: the options of a loader, by the names of its arguments."""

    columns: list[str]
    batch_size: int
    drop_last: bool
    epochs: int | None
    filter: dict[str, Any] | None
    shuffle: ShuffleDict
    shard: ShardDict
    memory: int
    """Bytes."""
    threads: int
    on_bad_row: Literal["raise"] | dict[str, Any]
    cache: CacheDict | None
    trace: str | None


class BetterMixingDict(TypedDict):
    """An option of :class:`forebay.Shuffle` in a :class:`PlanDict`."""

    option: Literal["piece_rows", "window_rows"]
    rows: int
    """Its value."""
    row_groups_of_a_batch: float
    """Row groups of which the rows of a batch would be, about."""


class PlanDict(TypedDict):
    """The result of :meth:`forebay.Plan.to_dict`. Sizes are in bytes."""

    epoch: int
    rank: int
    world: int
    steps: int
    """Batches, the same on every rank."""
    rows: int
    """Rows of this rank, repeated ones included."""
    padded: int
    """Rows that are repeated so that no rank is without a batch."""
    dropped: int
    """Rows that no rank gets, because they do not fill a batch on every rank."""
    lanes: int
    pool: int
    """Row groups that each lane holds to mix."""
    row_groups: int
    """Row groups that this rank reads; one that two lanes share counts twice."""
    stored_bytes: int
    peak_row_group_bytes: int
    peak_step: int
    """The step at which these are at hand."""
    row_groups_of_a_batch: float
    """Row groups of which the rows of a batch are, on average: the more, the better they are mixed."""
    row_groups_if_uniform: float
    """The same for a batch drawn uniformly from all rows."""
    row_groups_of_first_batch: int
    """The same for the first batch: fewer in epoch 0, in which the window deals rows while it fills."""
    full_window_step: int
    """The step at which the window holds as many row groups as at any later one, counted from 0."""
    better_mixing: list[BetterMixingDict]
    """Where that is far less, because few row groups fit the window: what would mix better."""
    batch_bytes: int
    memory: int


class SourcePlanDict(TypedDict):
    """One source in a :class:`MixPlanDict`."""

    size: int
    """Rows of the source."""
    rows: int
    """Rows of it in the epoch, over all ranks."""
    passes: int
    """Passes over it that the epoch begins."""
    unread: int
    """Rows of its last pass that are not read."""


class MixPlanDict(TypedDict):
    """The result of :meth:`forebay.MixPlan.to_dict`."""

    epoch: int
    rank: int
    world: int
    steps: int
    """Batches, the same on every rank."""
    first_step: int
    """The number of its first step, counted through all epochs."""
    rows: int
    """Rows over all ranks."""
    lanes: int
    memory: int
    """The budget, in bytes."""
    sources: list[SourcePlanDict]


class SourceStatsDict(TypedDict):
    """One source in the statistics of a mix."""

    rows: int
    """Rows of it in the batches that this rank took."""


class StageDict(TypedDict):
    """The work of one stage. Times are in seconds."""

    items: int
    """Files, row groups, rows, images or batches that it produced."""
    bytes: int
    working: float
    starved: float | None
    """Time with nothing to work on; ``None`` for the stages that share the pool of threads."""
    blocked: float | None
    """Time without space for results; ``None`` for the stages that share the pool of threads."""


class PoolDict(TypedDict):
    """The work of the decoding threads, summed over them. Times are in seconds."""

    threads: int
    working: float
    starved: float
    blocked: float


class NextDict(TypedDict):
    """How long ``next`` took, in seconds. Percentiles are off by at most 0.8 %."""

    count: int
    sum: float
    p50: float
    p95: float
    p99: float
    p999: float
    max: float
    first: float
    """The first batch of the first epoch, which is in none of the others."""


class QueuesDict(TypedDict):
    """Batches and row groups in flight now, and on average while epochs are under way."""

    batches_ready: int
    batches_ready_mean: float
    row_groups: int
    row_groups_mean: float


class MemoryDict(TypedDict):
    """Bytes in flight, and their limits."""

    budget: int
    batches: int
    row_groups: int
    row_groups_peak: int


class TrafficDict(TypedDict):
    """Requests to the stores since the data set was opened."""

    requests: int
    bytes_read: int
    bytes_needed: int
    retries: int
    hedges: int
    hedges_won: int
    throttled: int
    stalls: int
    concurrency: int
    """Requests that may be under way at once; 0 for local files."""
    first_byte_us: int
    """Median time to the first byte of the latest requests, in microseconds; 0 for local files."""
    request_us: int
    """Mean time of the latest requests, in microseconds; 0 for local files."""


class VerdictDict(TypedDict):
    """The bottleneck."""

    stage: str
    """The stage that held the training loop up, or ``"consumer"`` for the loop itself."""
    share: float
    """Share of the waiting that this stage held up, 0 to 1; for the consumer its share of all time."""
    waiting: float
    """Share of the training loop's time that it waited, 0 to 1."""
    sentence: str
    """The bottleneck and the next move."""


class _StatsDict(TypedDict):
    stages: dict[str, StageDict]
    """The work of each stage, by its name."""
    pool: PoolDict
    """The work of the decoding threads."""
    waits: dict[str, float]
    """Time that the training loop waited, by the stage that held it up."""
    waits_first: dict[str, float]
    """The part of it that was the wait for the first batch."""
    consumer: float
    """The training loop's own time, between a batch and the next request."""
    next: NextDict
    queues: QueuesDict
    skipped_rows: int
    padded_rows: int
    unknown_values: int
    """Values of the batches made so far that are not in the vocabulary of their column."""
    memory: MemoryDict
    traffic: TrafficDict
    cache: dict[str, Any] | None
    """The work of the cache; ``None`` without one."""
    verdict: VerdictDict


class StatsDict(_StatsDict, total=False):
    """The result of :meth:`forebay.Stats.to_dict`. Times are in seconds, sizes in bytes."""

    sources: list[SourceStatsDict]
    """Of a mix, its sources."""
