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
    KeptEnd,
    MaskType,
    Mixing,
    PaddingMode,
    PadSide,
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
    "KeptEnd",
    "Location",
    "MaskType",
    "MemoryDict",
    "MixPlanDict",
    "MixStateDict",
    "Mixing",
    "NextDict",
    "OrderDict",
    "PadSide",
    "PaddingMode",
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
    "TableDict",
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
"""A function from a dict of numpy arrays to a dict of arrays with the same number of rows."""

RowTransform = Callable[["Row"], Mapping[str, Any]]
"""A function from one row to the row that is delivered, each a dict from column name to value."""

Collate = Callable[[list[Any]], Mapping[str, Any]]
"""A function from a list of rows, each a dict, to a dict of columns."""


FilterTerm = tuple[str, FilterOperator, Any]
"""A condition: a column, an operator, and a number, bool, str, bytes, date or datetime, or for ``in`` and
``not in`` a list of them."""

Filter = Union["Expression", Iterable[FilterTerm], Iterable[Iterable[FilterTerm]], Any]
"""A filter: an expression, a list of terms, a list of such lists, or an expression of ``pyarrow.compute`` or
Polars."""


class _OrderDict(TypedDict):
    shuffle: Mixing
    seed: int
    pool: int
    """Number of row groups that a lane, one of the interleaved parts of the order, mixes at a time."""
    lanes: int
    rows: int
    """Number of rows that the filter selects."""
    filter: str | None
    """The filter as text, in a form that is equal for equal filters."""


class OrderDict(_OrderDict, total=False):
    """The order of rows to which the position in a state refers."""

    denied: str
    """A hash of the denied rows. The key is absent if no rows are denied."""
    samples: str
    """The option ``samples`` as JSON. If the key is present, the state counts samples in place of rows."""
    balance: list[str]
    """The costs of the option ``balance``: names of columns, or arithmetic on them as text. The key is absent
    without this option."""
    skipped: list[list[int]]
    """Skipped ranges of rows, each a list of three numbers: the epoch, the first row, and the row after the
    last. The key is absent if no rows are skipped."""


class SplitDict(TypedDict):
    """The division of an epoch's rows into steps and ranks."""

    global_batch_size: int
    """Number of rows in a full step, over all ranks."""
    world: int
    drop_last: bool


class FilesDict(TypedDict):
    """The files of a data set in a :class:`StateDict`: a few hundred bytes with which a loader finds out
    which files have changed."""

    files: int
    """Number of files."""
    rows: int
    """Number of rows in the files."""
    sums: str
    """Checksums of the names and contents of the files, in hexadecimal digits."""


class _StateDict(TypedDict):
    version: int
    """Version of the format of this state."""
    fingerprint: str
    """Fingerprint of the data set."""
    order: OrderDict
    epoch: int
    """Number of the current epoch. Between two epochs it is the number of the next one."""
    row: int
    """Number of rows of the epoch that all ranks together gave to their training loops."""


class TableDict(TypedDict):
    """A table, such as a Delta table, at one version."""

    id: str
    """Identity of the table, which is the same for all of its versions."""
    version: int


class StateDict(_StateDict, total=False):
    """The result of :meth:`forebay.Loader.state_dict`."""

    table: TableDict
    """The table that was opened as the data set. The key is absent for plain files."""
    tables: list[TableDict]
    """The tables that were opened as the data set, if there are several, in the order of the locations."""

    cache_tier: str
    """Form in which the cache stores images. The key is absent without a cache, or if the cache keeps no
    rows."""
    split: SplitDict
    """The division of an epoch's rows into steps and ranks."""
    files: FilesDict
    """The files of the data set."""
    skipped: int
    """Number of bad rows that the rank which saved the state had left out of the epoch. The key is absent for
    0."""


class _SourceStateDict(TypedDict):
    fingerprint: str
    """Fingerprint of the data set of the source."""
    order: OrderDict
    first_pass: int
    """The number of the pass over the source with which this epoch began. Passes are numbered on from epoch
    to epoch."""
    rows: int
    """Number of rows of the source that the epoch has delivered, over all ranks."""


class SourceStateDict(_SourceStateDict, total=False):
    """One source in a :class:`MixStateDict`."""

    skipped: int
    """Number of bad rows that the rank which saved the state had left out of the present pass. The key is
    absent for 0."""
    files: FilesDict
    """The files of the data set."""
    table: TableDict
    """The table that was opened as the data set. The key is absent for plain files."""
    tables: list[TableDict]
    """The tables that were opened as the data set, if there are several."""


class _MixStateDict(TypedDict):
    mix: int
    """Version of the format of this state."""
    epoch: int
    row: int
    """Number of rows of all sources that all ranks together gave to their training loops in this epoch."""
    step: int
    """The number of the next step. Steps are numbered on from epoch to epoch."""
    sources: list[SourceStateDict]
    stop: Literal["first", "last"]
    repeat: bool
    schedule: list[tuple[int, list[int]]]
    """Pairs of a step and the weights of the sources from this step on. Weights are integers, and only their
    ratio matters."""
    split: SplitDict


class MixStateDict(_MixStateDict, total=False):
    """The result of :meth:`forebay.Mix.state_dict`."""

    origin: dict[str, Any]
    """The step from which the present division of the rows into steps applies, with the progress up to this
    step. The key is absent if the division has never changed."""
    random_shares: int
    """The seed with which the source of each row is drawn. The key is absent if shares are exact."""
    set_from: int
    """The first step whose weights in ``schedule`` were set by :meth:`forebay.Mix.set_weights`. The key is
    absent if none were."""
    max_passes: list[int | None]
    """The largest number of passes over each source in an epoch. The key is absent if there is no limit."""
    skipped: list[list[int]]
    """The ranges of steps that are skipped. The key is absent if there are none."""


class ShuffleDict(TypedDict):
    """A :class:`forebay.Shuffle` in JSON types."""

    mixing: Mixing
    seed: int
    window_rows: int | None
    piece_rows: int | None
    lanes: int | None


class ShardDict(TypedDict):
    """A :class:`forebay.Shard` in JSON types."""

    rank: int
    world: int


class CacheDict(TypedDict):
    """A :class:`forebay.DiskCache` in JSON types."""

    path: str
    max_bytes: int
    tier: CacheTier


class _SpecDict(TypedDict, total=False):
    balance: list[Any]
    """What a row costs, so that ranks get about the same cost in each step: names of columns, or arithmetic on
    columns as nested lists."""
    flatten: bool | list[str]
    """The structures whose fields are delivered as columns."""
    stack: dict[str, dict[str, Any]]
    """The matrices that are made of several columns, by name."""
    null_mask: list[str]
    """The columns that have a mask for their nulls."""
    rename: dict[str, str]
    """The new names of columns that are delivered under another name."""
    global_batch_size: int
    """Number of rows in a step over all ranks, if the option was given."""
    row_id: bool
    """True if batches have row ids."""
    row_mask: bool
    """True if batches have a column ``row_mask``, which is False for repeated rows."""
    deny: dict[str, Any]
    """The rows that are left out of every epoch."""
    deny_from: list[tuple[int, dict[str, Any]]]
    """Pairs of a step and the rows that are left out from this step on."""
    skip_steps: list[list[int]]
    """The steps that are skipped."""


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
    """Memory budget in bytes."""
    threads: int
    on_bad_row: Literal["raise"] | dict[str, Any]
    cache: CacheDict | None
    trace: str | None


class BetterMixingDict(TypedDict):
    """A proposed option of :class:`forebay.Shuffle` with which rows would be mixed better."""

    option: Literal["piece_rows", "window_rows"]
    rows: int
    """The proposed value of the option, in rows."""
    row_groups_of_a_batch: float
    """Approximate number of row groups from which the rows of a batch would come."""


class _PlanDict(TypedDict, total=False):
    read_again: str
    """The reason why the cache keeps no rows. The key is absent if it keeps rows, and without a cache."""


class PlanDict(_PlanDict):
    """The result of :meth:`forebay.Plan.to_dict`. Sizes are in bytes."""

    epoch: int
    rank: int
    world: int
    steps: int
    """Number of batches, the same on every rank."""
    rows: int
    """Number of rows of this rank, including repeated rows."""
    padded: int
    """Number of rows that are repeated so that every rank has each batch."""
    dropped: int
    """Number of rows that no rank gets, because they do not fill a batch on every rank."""
    lanes: int
    pool: int
    """Number of row groups that a lane, one of the interleaved parts of the order, mixes at a time."""
    row_groups: int
    """Number of row groups that this rank reads. A row group counts twice if two lanes each read a part of
    it."""
    stored_bytes: int
    peak_row_group_bytes: int
    peak_step: int
    """The step at which the row groups in memory take ``peak_row_group_bytes``."""
    row_groups_of_a_batch: float
    """The average number of row groups from which the rows of a batch come. A higher number means better
    mixing."""
    row_groups_if_uniform: float
    """``row_groups_of_a_batch`` for a batch that is drawn uniformly from all rows."""
    row_groups_of_first_batch: int
    """``row_groups_of_a_batch`` for the first batch. It is lower in epoch 0, in which the window delivers
    rows while it fills."""
    full_window_step: int
    """The first step, counted from 0, at which the window holds its largest number of row groups."""
    better_mixing: list[BetterMixingDict]
    """An option that would mix better, if batches are mixed badly because few row groups fit the window."""
    batch_bytes: int
    """Bytes of the memory budget that are reserved for batches."""
    expected_memory: int
    """Bytes that row groups and batches are expected to take at their peak, which is reached while the next
    epoch is being read as well. They are computed from the average lengths in the footers."""
    most_memory: int
    """The largest number of bytes that row groups and batches take; ``memory`` or less."""
    staying_bytes: int
    """Bytes of the memory budget that hold all selected rows after the first epoch, so that later epochs do
    not read them again; 0 if the rows do not fit, or if a cache keeps them."""
    memory: int
    """The memory budget."""


class SourcePlanDict(TypedDict):
    """One source in a :class:`MixPlanDict`."""

    size: int
    """Number of rows of the source."""
    rows: int
    """Number of rows of the source in the epoch, over all ranks."""
    passes: int
    """Number of passes over the source that the epoch begins."""
    unread: int
    """Number of rows that these passes leave unread: the rows left at the end of the last pass, and the rows
    of skipped steps."""


class MixPlanDict(TypedDict):
    """The result of :meth:`forebay.MixPlan.to_dict`."""

    epoch: int
    rank: int
    world: int
    steps: int
    """Number of batches, the same on every rank."""
    first_step: int
    """The number of the first step of the epoch. Steps are numbered on from epoch to epoch."""
    rows: int
    """Number of rows over all ranks."""
    lanes: int
    memory: int
    """The memory budget, in bytes."""
    expected_memory: int
    """Bytes that row groups and batches of all sources are expected to take if all sources reach their peaks
    at the same time."""
    most_memory: int
    """The largest number of bytes that row groups and batches take; ``memory`` or less."""
    sources: list[SourcePlanDict]


class SourceStatsDict(TypedDict):
    """One source in the statistics of a mix."""

    rows: int
    """Number of rows of the source in the batches that this rank took."""


class StageDict(TypedDict):
    """The work of one stage. Times are in seconds."""

    items: int
    """Number of files, row groups, rows, images or batches that the stage produced."""
    bytes: int
    working: float
    starved: float | None
    """Time with nothing to work on; ``None`` for the stages that share the pool of decoding threads."""
    blocked: float | None
    """Time without space for results; ``None`` for the stages that share the pool of decoding threads."""


class PoolDict(TypedDict):
    """The work of the decoding threads, summed over them. Times are in seconds."""

    threads: int
    working: float
    starved: float
    blocked: float


class NextDict(TypedDict):
    """The time that ``next`` took, in seconds. Percentiles have an error of at most 0.8 %."""

    count: int
    sum: float
    p50: float
    p95: float
    p99: float
    p999: float
    max: float
    first: float
    """The time of the first batch of the first epoch, which the other numbers leave out."""


class NextBinDict(TypedDict):
    """One bin of a histogram: the number of calls of ``next`` that took about the same time."""

    up_to: float
    """The longest duration in this bin, in seconds."""
    calls: int


class BucketDict(TypedDict):
    """The waits and the work of the training loop in one bucket, a time interval of a timeline. The time
    between epochs is not included."""

    waits: dict[str, float]
    """Seconds that the loop waited, by the stage that caused the wait."""
    consumer: float
    """Seconds of the loop's own work."""
    rows: int
    batches: int


class TimelineDict(TypedDict):
    """The waits and the work of the training loop during the run, in buckets: time intervals of one
    length."""

    bucket_seconds: float
    """Length of each bucket in seconds. It doubles whenever there are 600 buckets."""
    buckets: list[BucketDict]
    """The buckets, from the first request for a batch on."""


class QueuesDict(TypedDict):
    """Numbers of batches and row groups in flight, now and on average during epochs."""

    batches_ready: int
    batches_ready_mean: float
    row_groups: int
    row_groups_mean: float


class MemoryDict(TypedDict):
    """Bytes that batches and row groups take in memory, and the limits of these numbers."""

    budget: int
    batches: int
    row_groups: int
    row_groups_peak: int
    staying: int
    """Bytes of rows that are kept in memory from one epoch to the next."""
    staying_rows: int
    """Number of rows that epochs took from memory instead of reading them."""


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
    """The current limit on concurrent requests; 0 for local files."""
    first_byte_us: int
    """Median time to the first byte of the latest requests, in microseconds; 0 for local files."""
    request_us: int
    """Mean time of the latest requests, in microseconds; 0 for local files."""


class VerdictDict(TypedDict):
    """The bottleneck of a loader."""

    stage: str
    """The stage for which the training loop waited longest, or ``"consumer"`` for the loop itself."""
    share: float
    """The stage's share of the waiting, 0 to 1; for the consumer, its share of all time."""
    waiting: float
    """Share of the time that the training loop waited, 0 to 1."""
    sentence: str
    """A sentence that names the bottleneck and says what to change."""


class _StatsDict(TypedDict):
    stages: dict[str, StageDict]
    """The work of each stage, by its name."""
    pool: PoolDict
    """The work of the decoding threads."""
    waits: dict[str, float]
    """Time that the training loop waited, by the stage that caused the wait."""
    waits_first: dict[str, float]
    """The part of ``waits`` that the training loop spent on the first batch."""
    consumer: float
    """The training loop's own time, between a batch and the next request."""
    next: NextDict
    next_histogram: list[NextBinDict]
    """The calls of ``next`` by duration, ten bins to each power of ten."""
    timeline: TimelineDict
    """``waits`` and ``consumer`` for each time interval of the run."""
    queues: QueuesDict
    skipped_rows: int
    padded_rows: int
    unknown_values: int
    """Number of values in the batches so far that are not in the vocabulary of their column."""
    memory: MemoryDict
    traffic: TrafficDict
    cache: dict[str, Any] | None
    """The statistics of the cache; ``None`` if the loader has no cache."""
    verdict: VerdictDict


class StatsDict(_StatsDict, total=False):
    """The result of :meth:`forebay.Stats.to_dict`. Times are in seconds, sizes in bytes."""

    sources: list[SourceStatsDict]
    """The sources of a mix. The key is absent for a loader."""
