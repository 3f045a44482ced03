""":class:`Loader`, which reads a Parquet data set and yields its rows in batches, epoch by epoch."""

from __future__ import annotations

import json
import os
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from . import _forebay
from .at_exit import close_at_exit
from .columns.options import by_column
from .columns.stack import stacks
from .data_versions import Follow, agreed, data_of_state, of_state, refuse_given
from .dataset import Dataset, opened, refuse_options
from .epoch import Epoch, SkippedRow
from .errors import InvalidError, StateMismatchError, warn_caller
from .filters.costs import Cost, costs_of
from .filters.expressions import Expression
from .filters.terms import settled
from .options.cache import DiskCache
from .options.checks import kind_of, names, whole
from .options.iceberg import located
from .options.locations import local, locations, shown
from .options.other_loaders import explained
from .options.prepare import Prepare
from .options.shuffle import Shuffle
from .options.skip import Skip
from .options.storage import hub_part, table_version
from .options.workers import Workers
from .prepare.opening import PreparedDataset, prepared
from .reports import notebook
from .reports.reports import Plan, Stats, numbers
from .rows.deny import Denied, denied_from
from .rows.listing import add_to_list
from .rows.row_id import RowPlace
from .rows.skip_steps import steps
from .samples.pack import Pack
from .samples.window import Window
from .sharding.shard import Shard
from .spec import checked, flattened, functions, renames, workers
from .transforms.libraries import Watch
from .transforms.processes import processes

if TYPE_CHECKING:
    from datetime import datetime

    import numpy as np

    from .categories import Hash, Vocabulary
    from .choices import TensorType
    from .columns.boxes_and_masks import Boxes, Keypoints, Mask, Masks
    from .columns.clip import Clip
    from .columns.pad import Pad
    from .columns.stack import Stack
    from .columns.tensor import Tensor
    from .columns.text import Json, Text
    from .columns.views import Views
    from .launcher_store import KeyValueStore
    from .samples.pack import Bucket
    from .samples.weighted import Sample
    from .types import Collate, Filter, Location, RowTransform, SpecDict, StateDict, Transform

__all__ = ["Loader"]


class _Reopened(NamedTuple):
    """The attributes of a loader that change when its tables are opened at other versions: the compiled
    loader, the data sets, and the arguments and fingerprints with which a copy of the loader opens these data
    sets."""

    native: _forebay.Loader
    datasets: list[Dataset]
    carried: list[tuple[dict[str, Any], str | None]]


class Origin(NamedTuple):
    """The position from which a copy of a loader in another process continues. A forked child can use this
    position, but not the loader itself."""

    number: int
    """Increases when a state is loaded or an epoch is begun."""
    state: StateDict | None
    """The state that was loaded last; ``None`` if an epoch was begun since."""
    upcoming: int | None
    """The number of the epoch after the one that was begun last; ``None`` if a state was loaded since."""


_Source = tuple[_forebay.Dataset, dict[str, Any], "str | None", float]
"""A source for the compiled loader: its data set, its options, its filter, and its weight in a mix."""


class Loader:
    """Batches for one training process, straight from Parquet.

    Iterating yields the batches of one epoch, and iterating again yields those of the next epoch. Only one epoch is
    under way at a time: beginning another one ends it.

    A loader takes the place of a ``torch.utils.data.DataLoader``, and cannot be wrapped in one: iterate over
    ``forebay.torch.batches(loader)``, and pass ``forebay.keras.batches(loader)`` to Keras' ``fit``.

    The parameters are listed by what they do, in this order, and these pages explain them:

    - Where the data is (``docs/stores/index.md``, ``docs/recipes/delta.md``, ``docs/recipes/iceberg.md``): ``urls``,
      ``storage_options``, ``merge_schema``, ``partition_types``, ``version``, ``timestamp``, ``split``,
      ``config``, ``follow``.
    - Which rows (``docs/guide/filters.md``, ``docs/guide/rows.md``): ``filter``, ``deny``, ``deny_from``,
      ``skip_steps``, ``row_id``, ``row_mask``.
    - Which columns, and their form (``docs/guide/batches.md``, ``docs/guide/images.md``): ``columns``, ``rename``,
      ``flatten``, ``cast``, ``decode``, ``encode``, ``pad``, ``stack``, ``fill_null``, ``null_mask``.
    - Batches and samples (``docs/guide/sharding.md``, ``docs/guide/samples.md``): ``batch_size``,
      ``global_batch_size``, ``drop_last``, ``samples``, ``prepare``.
    - Order and processes (``docs/guide/order.md``, ``docs/guide/sharding.md``): ``shuffle``, ``balance``, ``shard``,
      ``epochs``.
    - Your own functions (``docs/guide/transforms.md``): ``transform_rows``, ``collate``, ``transform``,
      ``transform_workers``.
    - Running (``docs/guide/memory.md``, ``docs/guide/cache.md``, ``docs/guide/bad-rows.md``,
      ``docs/guide/statistics.md``): ``memory``, ``cache``, ``threads``, ``on_bad_row``, ``trace``.

    In ``columns``, ``cast``, ``decode``, ``encode``, ``pad``, :class:`Stack`, ``fill_null`` and ``null_mask``, a name
    may be a pattern with ``*``, ``?`` and ``[0-9]``.

    Parameters
    ----------
    urls : str, os.PathLike, iterable of them, or Dataset
        A path, URL or glob, a list of them, or an open :class:`Dataset`. A ``Dataset`` brings its own
        ``storage_options``, ``merge_schema``, ``partition_types``, version and split, so these cannot be given with
        one.
    storage_options : mapping of str, optional
        Credentials and settings of the store, by the names that pandas and fsspec use.
    merge_schema : bool, default False
        Read files whose columns differ, as :class:`Dataset` does.
    partition_types : mapping from str to str, optional
        Types of the keys of folders, as for :class:`Dataset`.
    version : int or str, optional
        Version of the Delta table, or snapshot, branch or tag of the Iceberg table. Default: the newest. A loaded state
        opens the version that it was saved with.
    timestamp : str or datetime.datetime, optional
        Read the version that was the newest at this time. A time without a zone is UTC.
    split, config : str, optional
        The split, such as ``"train"``, and the configuration of a folder that is laid out like a data set of the
        Hugging Face hub, as for :class:`Dataset`. Default: all files.
    follow : bool or store, default False
        Begin each epoch with the newest version of the table, or with the files that a folder has then. With several
        ranks, pass the key-value store of the launcher, such as a ``torch.distributed.TCPStore``, so that all ranks
        read the same: a new store or prefix for each run, with its loaders made in the same order on all ranks.
        :attr:`new_files` names the files that were added.
    filter : Expression, list of tuple or list of list of tuple, optional
        Rows to read: ``fb.col("label") < 100`` (see :func:`col` and :func:`row_fraction`), or terms such as
        ``[("label", "<", 100)]``, which all must hold, or a list of such lists, of which one must hold. Expressions of
        ``pyarrow.compute`` and Polars are accepted too. Default: all rows.
    deny : str, os.PathLike, iterable of int or mapping, optional
        Rows to leave out of every epoch: row ids, a file of them, values of a column (``{"url": ["https://..."]}``) or
        a file of these, the result of :meth:`which` or :meth:`skipped`, or a list of several. Files are read once, when
        the loader is made. Default: none.
    deny_from : mapping from int to row ids, optional
        Rows to leave out from a step on, counted through all epochs: ``{4000: "bad.txt"}``. All other rows stay in
        their steps. Takes what ``deny`` takes, except for values of columns. Default: none.
    skip_steps : iterable of (int, int), optional
        Ranges of steps to skip, counted through all epochs: ``[(4000, 4010)]`` skips steps 4000 to 4009. Default: those
        of a loaded state, or none.
    row_id : bool, default False
        Add a column ``row_id`` of int64 that names each row: see :class:`RowId`.
    row_mask : bool, default False
        Add a column ``row_mask`` of bool, which is False for repeated rows: over all ranks, each row of an epoch is
        True once.
    columns : iterable of str, optional
        Columns to read, in the order of delivery. ``"meta.author"`` reads only that field of a structure. Default: all
        columns.
    rename : mapping from str to str, optional
        Columns to deliver under another name: ``{"img": "image"}``. A pattern with one ``*`` renames all columns
        that it matches, and the ``*`` of the new name stands for the same text: ``{"I*": "int_*"}``. Other
        parameters use the new name, except ``columns``, ``flatten`` and ``filter``, which use stored names. Default:
        none.
    flatten : bool or iterable of str, default False
        Deliver the fields of all structures, or of those with these names or patterns, as columns such as
        ``meta.author``, at any depth.
        A list of structures that is named becomes a list for each field, such as ``objects.bbox``.
    cast : mapping from str to dtype, optional
        Types to cast values to: ``{"price": "float32"}``. A value that the type cannot hold is a bad row. ``filter``
        sees the stored values, other parameters the new type. Default: none.
    decode : mapping from str to Image, Views, Clip, Boxes, Keypoints, Mask, Masks, Tensor, Text, Json or None, optional
        How to decode columns: ``{"image": forebay.Image.random_resized_crop(224).flip()}``. Columns of a data set that
        Petastorm wrote are decoded by its schema; None, for a column or for ``"*"``, turns that off. Default: as
        stored, so images are ``bytes``.
    encode : mapping from str to Vocabulary or Hash, optional
        Columns to deliver as integer codes: ``{"city": forebay.Vocabulary(["Berlin", "Paris"])}``. Default: none.
    pad : mapping from str to Pad, optional
        Columns of lists to deliver as rows of one length: ``{"tokens": forebay.Pad(2048)}``. Default: lists are
        :class:`Ragged`.
    stack : mapping from str to Stack, optional
        Matrices of many columns: ``{"x": forebay.Stack(["I*"], dtype="float32")}``, of shape ``(rows, columns)``. They
        come after all other columns, by name; their columns are not delivered themselves. Default: none.
    fill_null : mapping from str to int, float, str or bytes, optional
        Values in place of nulls: ``{"x": 0.0, "text": "", "blob": b""}``. In a column of lists the value replaces each
        null inside a list. Default: nulls stay.
    null_mask : iterable of str, optional
        Columns that get a column ``<name>.mask`` of bool, which is False where a value is null. Default: none.
    batch_size : int, default 32
        Rows in a batch of this process. With ``samples``, the number of samples; with buckets the default is 1.
    global_batch_size : int, optional
        Rows in a step of all ranks together, instead of ``batch_size``. A step then has the same rows on any number of
        ranks, whose batches differ by at most one row.
    drop_last : bool, default False
        Leave out the last rows that do not fill a batch on every rank.
    samples : Window, Pack, Bucket or Sample, optional
        What a sample is: ``forebay.Window(16)`` for windows of consecutive rows, ``forebay.Pack("tokens", 2048)`` for
        packed lists, ``forebay.Bucket("tokens", tokens=16384)`` for rows of similar length, or
        ``forebay.Sample(by="label")`` for rows drawn by weight. Default: a row.
    prepare : Prepare, optional
        A function that runs once for each row, before samples: ``forebay.Prepare(tokenise, into="prepared/tokens/",
        version="1")``. Then ``columns`` names the columns that the function gets, and the loader delivers the columns
        that it returns; all other options apply to those. Default: the stored rows.
    shuffle : Shuffle, optional
        ``forebay.Shuffle(seed=17)``, or ``forebay.Shuffle.exact(17)``. Default: the stored order.
    balance : str, ColumnExpression or iterable of them, optional
        What a row costs: a column, which stands for its number or for the length of its list or text, or
        arithmetic on columns, such as ``forebay.col("tokens") * forebay.col("tokens")``. Rows are ordered so
        that in each step all ranks get about the same cost, and steps cost about the same too. Up to four
        costs are balanced together. A pack that is balanced by the packed column costs the sum of the squares
        of its lengths. Any other sample costs as much as its rows together. Needs ``shuffle``. Default: costs
        do not matter.
    shard : Shard, optional
        The share of this process: ``forebay.Shard.from_env()``, or ``forebay.Shard(rank=3, world=8)``. Default: all
        rows.
    epochs : int, optional
        The number of epochs of the run; nothing is fetched ahead after the last one. Default: unknown.
    transform_rows : callable, optional
        Function from one row, a :class:`Row`, to the dict that is delivered. :func:`rng` has the random numbers of the
        row. Default: none.
    collate : callable, optional
        Function from a list of rows, each a dict, to a dict of columns. Default: the values of a column become one
        array.
    transform : callable, optional
        Function from a dict of numpy arrays to a dict of arrays with the same number of rows. It runs after
        ``transform_rows``. Default: none.
    transform_workers : int or Workers, default 0
        Where these functions run: 0 for one thread of this process, ``4`` for four processes,
        ``forebay.Workers(4, threads=True)`` for four threads. The order of batches does not depend on it.
    memory : int or str, optional
        Budget in bytes for all rows in flight: a number, ``"12GB"``, ``"4g"``, ``"4GiB"`` or ``"4Gi"``. Default: 4 GiB,
        or half of the memory of the machine or container if that is less.
    cache : DiskCache, optional
        ``forebay.DiskCache("/nvme/forebay", max_bytes="200GB")`` keeps decoded rows on local disk. Default: no cache.
    threads : int, optional
        Number of threads that decode. Default: one for each processor that the process may use.
    on_bad_row : {"raise"} or Skip, default "raise"
        ``"raise"`` ends the epoch at the first bad row; ``forebay.Skip(at_most=...)`` leaves bad rows out and counts
        them.
    trace : str or os.PathLike, optional
        File for a timeline of the loader, written when the loader is closed; open it in Perfetto or
        ``chrome://tracing``. Of a long run it contains only the last part. Default: no timeline.

    Notes
    -----
    A loader is pickled as its arguments, with absolute paths. Unpickling opens the files anew, and raises
    :class:`StateMismatchError` if they have changed.

    Raises
    ------
    InvalidError
        An argument is invalid.
    UnknownColumnError
        ``columns``, ``decode``, ``encode``, ``stack``, ``filter``, ``fill_null``, ``null_mask``, ``cast`` or ``rename``
        names a column that does not exist.
    UnsupportedError
        A column has a type that cannot be delivered.
    TooLargeError
        The batches, the shuffle window or a row group do not fit ``memory``.
    NotFoundError, CorruptError, DeniedError, IoError
        The data set cannot be opened; see :class:`Dataset`.

    Examples
    --------
    >>> import forebay as fb
    >>> train = fb.Loader(
    ...     "data/train/",
    ...     columns=["image", "label"],
    ...     decode={"image": fb.Image.random_resized_crop(224).flip()},
    ...     batch_size=64,
    ...     shuffle=fb.Shuffle(seed=17),
    ... )
    >>> len(train)
    4
    >>> for batch in train:
    ...     print(batch["image"].shape, batch["label"].dtype)
    (64, 224, 224, 3) int64
    (64, 224, 224, 3) int64
    (64, 224, 224, 3) int64
    (64, 224, 224, 3) int64
    """

    _is_mix = False
    _plan = Plan

    @explained
    def __init__(
        self,
        urls: Location | Iterable[Location] | Dataset,
        *,
        columns: Iterable[str] | None = None,
        decode: Mapping[
            str, _forebay.Image | Views | Clip | Boxes | Keypoints | Mask | Masks | Tensor | Text | Json | None
        ]
        | None = None,
        encode: Mapping[str, Vocabulary | Hash] | None = None,
        pad: Mapping[str, Pad] | None = None,
        stack: Mapping[str, Stack] | None = None,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        drop_last: bool = False,
        epochs: int | None = None,
        filter: Filter | None = None,
        samples: Window | Pack | Bucket | Sample | None = None,
        shuffle: Shuffle | None = None,
        balance: Cost | Iterable[Cost] | None = None,
        shard: Shard | None = None,
        cache: DiskCache | None = None,
        memory: str | int | None = None,
        transform: Transform | None = None,
        transform_rows: RowTransform | None = None,
        collate: Collate | None = None,
        transform_workers: int | Workers = 0,
        threads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        merge_schema: bool = False,
        partition_types: Mapping[str, Any] | None = None,
        version: int | str | None = None,
        timestamp: str | datetime | None = None,
        split: str | None = None,
        config: str | None = None,
        follow: bool | KeyValueStore = False,
        on_bad_row: Literal["raise"] | Skip = "raise",
        fill_null: Mapping[str, float | str | bytes] | None = None,
        null_mask: Iterable[str] | None = None,
        flatten: bool | Iterable[str] = False,
        cast: Mapping[str, TensorType | type | np.dtype[Any]] | None = None,
        rename: Mapping[str, str] | None = None,
        deny: Any = None,
        deny_from: Mapping[int, Any] | None = None,
        skip_steps: Iterable[tuple[int, int]] | None = None,
        row_id: bool = False,
        row_mask: bool = False,
        prepare: Prepare | None = None,
        trace: str | os.PathLike[str] | None = None,
    ) -> None:
        urls, storage_options = located(urls, storage_options)
        self._arguments: dict[str, Any] = {
            "urls": urls if isinstance(urls, (str, os.PathLike, Dataset)) else locations(urls),
            "columns": None if columns is None else names(columns),
            "decode": by_column(decode, "decode"),
            "encode": by_column(encode, "encode"),
            "pad": by_column(pad, "pad"),
            "stack": None if stack is None else stacks(stack),
            "batch_size": batch_size,
            "global_batch_size": global_batch_size,
            "drop_last": drop_last,
            "epochs": epochs,
            # An iterator in a filter is read here, because a copy of the loader needs its items again.
            "filter": settled(filter),
            "samples": samples,
            "shuffle": shuffle,
            "balance": costs_of(balance, "balance"),
            "shard": shard,
            "cache": cache,
            "memory": memory,
            "transform": transform,
            "transform_rows": transform_rows,
            "collate": collate,
            "transform_workers": transform_workers,
            "threads": threads,
            "storage_options": storage_options,
            "merge_schema": merge_schema,
            "partition_types": partition_types,
            "version": version,
            "timestamp": timestamp,
            "split": split,
            "config": config,
            "follow": follow,
            "on_bad_row": on_bad_row,
            "fill_null": by_column(fill_null, "fill_null"),
            "null_mask": None if null_mask is None else names(null_mask, "null_mask"),
            "flatten": flattened(flatten),
            "cast": by_column(cast, "cast"),
            "rename": None if rename is None else renames(rename),
            # Files of denied rows are read now, so that a copy of the loader leaves out the same rows.
            "deny": None if deny is None else Denied.of(deny),
            "deny_from": denied_from(deny_from),
            "skip_steps": None if skip_steps is None else steps(skip_steps),
            "row_id": row_id,
            "row_mask": row_mask,
            "prepare": prepare,
            "trace": None if trace is None else local(trace, "trace"),
        }
        refuse_options(
            urls,
            storage_options=storage_options,
            merge_schema=merge_schema,
            partition_types=partition_types,
            version=version,
            timestamp=timestamp,
            split=split,
            config=config,
        )
        if follow is not False and isinstance(urls, Dataset):
            raise InvalidError("follow and a Dataset were given, which stays at its version (pass its location)")
        if prepare is not None and not isinstance(prepare, Prepare):
            raise InvalidError(f"prepare must be a forebay.Prepare, got {kind_of(prepare)}")
        if follow is not False and prepare is not None:
            raise InvalidError(
                "follow and prepare were given, whose rows are those of one version (make a new loader for another "
                "version, with another folder)"
            )
        self._build()

    def _build(self, fingerprint: str | None = None, versions: Mapping[str, str] | None = None) -> None:
        """Opens the data set and starts the loader, both from ``_arguments``. If ``fingerprint`` is given,
        the data set must have it."""
        options = checked(self._arguments)
        self._settle()
        self._start([opened_for(self._arguments, options[1], fingerprint, versions)])

    def _start(self, datasets: list[Dataset]) -> None:
        """Starts the loader over open data sets: one, or for a mix one for each source."""
        self._follows = Follow.of_sources(self._of_sources(), datasets, self._arguments)
        self._added: list[list[str]] = []
        self._native, self._datasets, self._carried = self._over(datasets)
        for follow in self._follows:
            if follow is not None:
                follow.number()
        close_at_exit(self)

    def _over(self, datasets: list[Dataset], after: str | None = None) -> _Reopened:
        """The attributes of this loader that depend on its data sets, made anew for ``datasets``. The new
        loader continues at the position ``after``, the beginning of an epoch, if it is given."""
        native = _forebay.Loader(*self._checked(datasets), numbered=self._numbered, after=after)
        # A copy of the loader opens these locations again and checks that the fingerprint is the same. A
        # `Dataset` that the user passed checks this itself.
        carried: list[tuple[dict[str, Any], str | None]] = [
            ({"urls": of_source["urls"]}, None if dataset is of_source["urls"] else dataset.fingerprint)
            if isinstance(of_source["urls"], Dataset)
            # A folder that is followed may have grown when the copy opens it.
            else (dataset._place(), None if follows and not dataset._native.tables() else dataset.fingerprint)
            for dataset, of_source, follows in zip(datasets, self._of_sources(), self._follows, strict=True)
        ]
        return _Reopened(native, datasets, carried)

    def _checked(self, datasets: list[Dataset]) -> tuple[list[_Source], dict[str, Any] | None]:
        """The checked options of each source over its data set, and those of a mix."""
        return [(datasets[0]._native, *checked(delivered(self._arguments, datasets[0])), 1.0)], None

    def _of_sources(self) -> list[dict[str, Any]]:
        """The arguments of each source: of each loader in a mix, or of this loader alone."""
        return [self._arguments]

    def _settle(self) -> None:
        """Sets the attributes that do not depend on the data set."""
        self._functions = functions(self._arguments)
        self._workers = workers(self._arguments, self._functions)
        self._processes = processes(self._functions, self._workers)
        self._watch = Watch([] if self._functions is None else self._functions.names)
        self._process = os.getpid()
        # This number increases when a state is loaded: epochs that began before are outdated.
        self._generation = 0
        self._origin = Origin(0, None, None)
        self._epochs: weakref.WeakSet[Epoch] = weakref.WeakSet()
        self._skipped: _forebay.Skipped | None = None

    @property
    def _numbered(self) -> bool:
        """Whether the user's functions get single rows, so that each batch must say the numbers of its
        rows."""
        return self._functions is not None and self._functions.by_rows

    # Beginning an epoch

    def __iter__(self) -> Epoch:
        """Begins the next epoch, or after :meth:`load_state_dict` continues the epoch of the loaded state."""
        return self._begin(None)

    def epoch(self, number: int) -> Epoch:
        """Begins the epoch with this number, or continues it if a loaded state is in the middle of it.

        Parameters
        ----------
        number : int
            Number of the epoch, from 0. It decides the order and random image operations, together with the
            seed.

        Returns
        -------
        Epoch
            An iterator over its batches.

        Raises
        ------
        InvalidError
            ``number`` is not an int of at least 0.
        ClosedError
            This process is a forked child. A closed loader raises this error when the first batch is
            requested.

        Examples
        --------
        >>> import forebay as fb
        >>> loader = fb.Loader("data/train/", columns=["id"], shuffle=fb.Shuffle(seed=17))
        >>> first = [batch["id"].tolist() for batch in loader.epoch(0)]
        >>> first == [batch["id"].tolist() for batch in loader.epoch(0)]
        True
        """
        return self._begin(whole(number, "epoch", 0))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """The next epoch, or the rest of the epoch of a loaded state, as one stream of Arrow.

        DuckDB, Polars and pyarrow read a loader by it: ``pyarrow.RecordBatchReader.from_stream(loader)``,
        ``polars.DataFrame(loader)``, ``duckdb.sql("from loader")``. The epoch begins with the first batch that is asked
        for, and each batch counts as delivered when it is taken. A column ``<name>.mask`` is not delivered
        itself: where it is False, the column ``<name>`` is null.

        Raises
        ------
        InvalidError
            The loader has functions, whose results are not Arrow batches.
        """
        if self._functions is not None:
            raise InvalidError(
                f"a stream of Arrow has batches as they are read, but the loader has {self._functions.names[0]} (leave "
                "the functions out, or iterate over the loader)"
            )
        return _forebay.arrow_stream(self.schema, self.__iter__, self._masks())

    def __arrow_c_schema__(self) -> object:
        """The Arrow schema of the stream that :meth:`__arrow_c_stream__` returns."""
        return _forebay.arrow_schema(self.schema, self._masks())

    def _masks(self) -> list[tuple[str, str]]:
        """The delivered columns that have a mask, each with the name of the mask."""
        delivered = set(self.columns)
        stored = {name for dataset in self._datasets for name in dataset.schema.names}
        stored.update(new for source in self._of_sources() for new in (source.get("rename") or {}).values())
        masks = ((name, f"{name}.mask") for name in self.columns)
        return [(name, mask) for name, mask in masks if mask in delivered and mask not in stored]

    def _begin(self, number: int | None) -> Epoch:
        self._check_process()
        # Only one epoch is under way, because the batches that an earlier epoch still prepares would take
        # memory and time for nothing.
        for earlier in list(self._epochs):
            earlier._end(_forebay.Reason.Superseded)
        if any(self._follows):
            number = self._at_newest(number)
        epoch = Epoch(self, self._native.epoch(number, self._functions is not None))
        warning = self._native.take_warning()
        if warning is not None:
            warn_caller(warning)
        self._epochs.add(epoch)
        self._origin = Origin(self._origin.number + 1, None, epoch.number + 1)
        self._skipped = epoch._native.skipped
        return epoch

    def _at_newest(self, number: int | None) -> int:
        """Switches tables with ``follow=`` to their newest versions, unless the epoch ``number`` is continued
        from its middle. Returns the number of the epoch."""
        upcoming, row = self._native.upcoming()
        number = upcoming if number is None else number
        if row == 0 or number != upcoming:
            # After a state was loaded, an epoch with the same number is another one.
            name = f"{number}/{self._generation}"
            with agreed(self._follows, name):
                followed = zip(self._follows, self._datasets, self._of_sources(), strict=True)
                newest = [
                    None if follow is None else follow.newest(dataset, name, _reopener(of_source))
                    for follow, dataset, of_source in followed
                ]
                self._added = []
                if any(one is not None for one in newest):
                    before = self._paths()
                    self._take(self._at(newest, self._native.beginning(number)))
                    self._added = [sorted(now - then) for then, now in zip(before, self._paths(), strict=True)]
        return number

    def _paths(self) -> list[set[str]]:
        """The relative paths of the files of each source."""
        return [set(dataset._native.paths()) for dataset in self._datasets]

    @property
    def new_files(self) -> list[str]:
        """The files that the epoch begun last has, and the one before it had not, by their paths relative to the
        location; in a mix, those of all sources in their order. Empty without ``follow=``, and in the first epoch."""
        return [path for added in self._added for path in added]

    def skipped(self, save: str | os.PathLike[str] | None = None) -> list[SkippedRow]:
        """The rows that were left out of the epoch that was begun last, in the order of the epoch.

        They include rows of batches that are prepared ahead. The list is empty without
        ``on_bad_row=forebay.Skip(...)``.

        Parameters
        ----------
        save : str or os.PathLike, optional
            A text file for ``deny`` to which these rows are added: the row id of each, with its place and the
            cause as a remark. Rows that are already in the file stay. A :class:`Mix` refuses this argument: a
            row id belongs to the data set of one source, and would deny other rows of another source.

        Returns
        -------
        list of SkippedRow
            The place of each row, and the reason why it was left out.

        Raises
        ------
        InvalidError
            ``save`` is given to a mix.
        """
        if save is not None and self._is_mix:
            raise InvalidError(
                "save= is not for a mix: a row id belongs to one of its sources (take file, row group and row of each "
                "from mix.skipped(), and save them with a loader of that source)"
            )
        rows = [] if self._skipped is None else [SkippedRow(*row) for row in self._skipped.rows()]
        if save is not None:
            remark = "{0.file}, row group {0.row_group}, row {0.row}, column {0.column}: {0.cause}".format
            add_to_list(local(save, "save"), [(int(row.row_id or 0), remark(row)) for row in rows])
        return rows

    def which(self, step: int | None = None, *, epoch: int | None = None, rank: int | None = None) -> list[RowPlace]:
        """The places where the rows of a step are stored, in the order of delivery. The step may be in the
        past or in the future. Nothing is read.

        The list includes rows that ``on_bad_row`` leaves out, and the rows of steps that are skipped.

        Parameters
        ----------
        step : int, optional
            Number of the step, counted from the first step of epoch 0, or of ``epoch``, in steps of this
            loader's batch size. Default: the step that the training loop gets next; its list is empty at the
            end of an epoch.
        epoch : int, optional
            The epoch in which ``step`` is counted.
        rank : int, optional
            The rank whose rows are listed. Default: this process's rank.

        Returns
        -------
        list of RowPlace
            File, row group and row of each row. For a :class:`Mix` a list of :class:`SourcePlace`, which also
            have the number of the source.

        Raises
        ------
        InvalidError
            There is no such step or rank; or the epoch is under way and began with another batch size, so
            that its steps cannot be counted.

        Examples
        --------
        >>> import forebay as fb
        >>> loader = fb.Loader("data/train/", batch_size=64, shuffle=fb.Shuffle(seed=17))
        >>> rows = loader.which(2, epoch=5)
        >>> [place.row_id for place in rows] == [place.row_id for place in loader.which(5 * len(loader) + 2)]
        True
        """
        if epoch is not None and step is None:
            raise InvalidError(f"epoch={epoch!r} was given without a step (pass which(0, epoch={epoch!r}))")
        bits = {"step": (step, 64), "epoch": (epoch, 64), "rank": (rank, 32)}
        asked = [None if value is None else whole(value, name, 0, size) for name, (value, size) in bits.items()]
        return [self._place(source, row) for source, row in self._native.which(*asked)]

    def _place(self, source: int, row: tuple[str, int, int, int]) -> RowPlace:
        """Makes the :class:`RowPlace` of a row from the values that the compiled loader returns for it."""
        return RowPlace._of(row)

    def __getitem__(self, index: Any) -> NoReturn:
        # Code that expects a data set of rows (DataLoader, the Trainer of Hugging Face) fails here.
        raise TypeError(
            "a forebay.Loader has whole batches, not rows by number: it takes the place of a DataLoader (iterate "
            "over forebay.torch.batches(loader), pass forebay.keras.batches(loader) to fit, or loader to "
            "forebay.hf.Trainer)"
        )

    def __contains__(self, value: object) -> NoReturn:
        raise TypeError(
            "a forebay.Loader cannot be searched with `in`, which would read an epoch (select rows with filter=, or "
            "iterate and look into each batch)"
        )

    def __len__(self) -> int:
        """Batches in a whole epoch of this rank: exact, and the same on every rank."""
        return self._native.steps()

    # Length, schema, plan and statistics

    @property
    def schema(self) -> _forebay.Schema:
        """Names and types of the columns that are delivered, before ``transform_rows`` and ``transform``.

        ``pyarrow.schema(loader.schema)`` converts it.
        """
        return self._native.schema()

    @property
    def class_names(self) -> dict[str, list[str]]:
        """The names of classes by delivered column, as :attr:`Dataset.class_names` has them; in a mix, those of
        the first source that declares some for the column. Raises :class:`InvalidError` if files of a source have
        other names for a class of a delivered column."""
        own, sources = self._native.spec()
        columns = set(self.columns)
        found: dict[str, list[str]] = {}
        for dataset, spec in zip(self._datasets, map(json.loads, sources or [own]), strict=True):
            delivered_as = partial(_delivered_as, renamed=spec.get("rename", {}), columns=columns)
            for name, classes in dataset._class_names(delivered_as).items():
                found.setdefault(name, classes)
        return found

    @property
    def spec(self) -> SpecDict:
        """The options that the loader was built with, in JSON types only, with the defaults filled in.

        The filled-in values are the columns, the memory in bytes, the threads, and the window and lanes of
        the order. The location and its storage options are left out, so the result contains no secret and can
        be logged with a run.
        """
        spec: SpecDict = json.loads(self._native.spec()[0])
        return spec

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are delivered, in their order, before ``transform_rows`` and
        ``transform``."""
        return self._native.schema().names

    @property
    def batch_size(self) -> int:
        """Rows in a batch of this process; the last batch of an epoch may have fewer.

        With ``global_batch_size``, the largest number of rows that a rank gets.
        """
        return self.spec["batch_size"]

    @property
    def num_rows(self) -> int:
        """Rows that ``filter`` selects, over all ranks and sources.

        ``plan().to_dict()["rows"]`` is the share of this rank.
        """
        state: Any = self.state_dict()
        return sum(source["order"]["rows"] for source in state.get("sources", [state]))

    def plan(self, epoch: int = 0) -> Plan:
        """A summary of what this rank reads in an epoch, from the footers alone.

        Parameters
        ----------
        epoch : int, default 0
            Number of the epoch, from 0.

        Returns
        -------
        Plan
            Steps, rows, row groups, bytes and memory: ``expected_memory``, and ``most_memory`` as its limit.
            For a :class:`Mix` a :class:`MixPlan`: steps, rows, and for each source its rows, passes, and rows
            that are not read.

        Raises
        ------
        InvalidError
            ``epoch`` is not an int of at least 0.

        Examples
        --------
        >>> import forebay as fb
        >>> plan = fb.Loader("data/train/", batch_size=100).plan()
        >>> plan.to_dict()["steps"], plan.to_dict()["rows"]
        (3, 256)
        """
        return self._plan(*self._native.plan(whole(epoch, "epoch", 0)))

    def stats(self) -> Stats:
        """The work of each stage so far, the waits of the training loop, the bottleneck and a remedy.

        Returns
        -------
        Stats
            The statistics: print them, or see their methods.
        """
        return Stats(*self._native.stats())

    def metrics(self, prefix: str = "forebay/") -> dict[str, float]:
        """Position and statistics as flat numbers, for MLflow, Weights & Biases, TensorBoard and similar
        tools.

        Parameters
        ----------
        prefix : str, default "forebay/"
            The beginning of each name.

        Returns
        -------
        dict
            ``forebay/epoch`` and ``forebay/row`` of :meth:`state_dict`, and each number of
            :meth:`Stats.to_dict` under the keys that lead to it, such as ``forebay/waits/decode``. The share
            of time that the training loop waited is ``forebay/verdict/waiting``. For a :class:`Mix` there is
            also ``forebay/sources/0/rows``: the rows of source 0 in the batches of this rank. For a table
            ``forebay/table_version``, and for several ``forebay/tables/0/version``. The series ``timeline``
            and ``next_histogram`` are left out.

        Examples
        --------
        >>> import forebay as fb
        >>> loader = fb.Loader("data/train/", batch_size=32)
        >>> batch = next(iter(loader))
        >>> metrics = loader.metrics()
        >>> metrics["forebay/row"], metrics["forebay/skipped_rows"]
        (32.0, 0.0)
        """
        if not isinstance(prefix, str):
            raise InvalidError(f"prefix must be a str, got {type(prefix).__name__}")
        state: Any = self.state_dict()
        position = {f"{prefix}epoch": float(state["epoch"]), f"{prefix}row": float(state["row"])}
        # The parts that grow with the run are left out, because a training loop calls this in every step.
        stats: dict[str, Any] = self._totals()
        metrics = position | dict(numbers(stats, prefix)) | _versions(state, prefix)
        for number, source in enumerate(stats.get("sources", [])):
            metrics |= dict(numbers(source, f"{prefix}sources/{number}/"))
        for number, saved in enumerate(state.get("sources", [])):
            metrics |= _versions(saved, f"{prefix}sources/{number}/")
        return metrics

    def report(self, to: str | os.PathLike[str]) -> str:
        """Writes a page of HTML about the run so far: why the training loop waits, over time and by stage.

        Call it while the loop runs, for example after each epoch, or when the loop has ended. The page has no
        scripts and loads nothing. It shows the bottleneck, the loop's own work and its waits for each stage
        over time, the rate, the latency of ``next``, and all figures, also as JSON.

        Parameters
        ----------
        to : str or os.PathLike
            A path that ends in ``.html``: the page of this rank. Any other path: a folder for the reports of
            all ranks, which is made if it is missing. Each rank writes its ``rank-N.json`` to this folder,
            and then ``index.html`` anew from all reports of this run in the folder. The rank that writes last
            therefore includes all ranks. A file is replaced as a whole, so it can be opened at any time.

        Returns
        -------
        str
            The path of the page.

        Raises
        ------
        InvalidError
            ``to`` is not a path on this machine, or a file that is not a report would be replaced.
        IoError
            A file cannot be written.

        Examples
        --------
        >>> import forebay as fb
        >>> train = fb.Loader("data/train/", batch_size=64)
        >>> for batch in train:
        ...     pass
        >>> page = train.report("run.html")
        >>> page = train.report("runs/today/")  # from each rank
        """
        names = [shown(dataset._urls) for dataset in self._datasets]
        flat = [str(one) for name in names for one in (name if isinstance(name, list) else [name])]
        return self._native.report(local(to, "to"), flat)

    def _totals(self) -> Any:
        """The numbers of :meth:`stats`, without the series ``timeline`` and ``next_histogram``."""
        totals = json.loads(self._native.totals())
        del totals["timeline"], totals["next_histogram"]
        return totals

    def warm(self, *, share: bool = False, report: Callable[[int, int], object] | None = None) -> dict[str, Any]:
        """Fills the cache before it is needed. This ends the epoch that is under way.

        Row groups that are in the cache already are not fetched again, and row groups that do not fit are
        left out. If the tier ``"auto"`` decides to keep no rows of the data set, nothing is done.

        Parameters
        ----------
        share : bool, default False
            Fill the cache only with the row groups that this rank reads in the present or next epoch, instead
            of all row groups. With a window, a rank reads other row groups in each epoch.
        report : callable, optional
            Called when the number of finished row groups changes, with this number and the number of all row
            groups. :func:`forebay.tqdm.warm` and :func:`forebay.rich.warm` show it.

        Returns
        -------
        dict
            The numbers of the cache from :meth:`stats`: ``hits`` are row groups that were in the cache,
            ``misses`` were fetched, ``written`` were added to the cache.

        Raises
        ------
        InvalidError
            The loader has no cache, ``share`` is not a bool, or ``report`` is not callable. Or the loader is
            a mix: its caches belong to its sources, whose loaders fill them before they are mixed.
        ForebayError
            A row group cannot be read.

        Examples
        --------
        >>> import forebay as fb
        >>> cache = fb.DiskCache("cache/", max_bytes="1GB", tier="rows")
        >>> train = fb.Loader("data/train/", cache=cache)
        >>> train.warm()["misses"]
        8
        >>> train.warm()["hits"]
        8
        """
        if not isinstance(share, bool):
            raise InvalidError(f"share must be True or False, got {share!r}")
        if report is not None and not callable(report):
            raise InvalidError(f"report must be callable, got {type(report).__qualname__}")
        result: dict[str, Any] = json.loads(self._native.warm(share, report))
        return result

    # Saving and resuming a position

    def state_dict(self) -> StateDict:
        """The position of the training loop.

        The state counts the batches that were handed over, not batches that were prepared ahead.

        Returns
        -------
        dict
            A few JSON values, the same on every rank, except for ``skipped``, which a rank has if it left bad
            rows out of the epoch.

        Examples
        --------
        >>> import forebay as fb
        >>> loader = fb.Loader("data/train/", batch_size=32)
        >>> batch = next(iter(loader))
        >>> loader.state_dict()["row"]
        32
        """
        state: StateDict = json.loads(self._native.position())
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Resumes a saved state: the next epoch that is begun continues there.

        A loader of a table opens the version that the state was saved with. With ``follow``, a folder is opened with
        the files that the state was saved with; a state between two epochs resumes with any files. The world size and
        the batch size may differ from the run that saved the state.

        Parameters
        ----------
        state : mapping
            A state that :meth:`state_dict` returned.

        Raises
        ------
        StateMismatchError
            The state belongs to another data set, seed, filter or order, to a :class:`Mix`, or is not a
            state.
        ClosedError
            This is a forked child.

        Examples
        --------
        >>> import forebay as fb
        >>> loader = fb.Loader("data/train/", batch_size=32)
        >>> batch = next(iter(loader))
        >>> again = fb.Loader("data/train/", batch_size=32)
        >>> again.load_state_dict(loader.state_dict())
        >>> len(list(again))
        7
        """
        self._check_process()
        if not isinstance(state, Mapping):
            raise StateMismatchError(
                f"a state of a loader must be a dict, got {type(state).__qualname__} (pass what state_dict() returned)"
            )
        try:
            position = json.dumps(dict(state))
        except (TypeError, ValueError) as error:
            raise StateMismatchError(
                f"this is not a state of a loader: {error} (pass what state_dict() returned)"
            ) from None
        self._check_kind(state)
        # The position is restored before epochs are ended: if it is refused, the epoch under way continues.
        reopened = self._reopened(state, position)
        for epoch in list(self._epochs):
            epoch._end(_forebay.Reason.Restored)
        if reopened:
            self._take(reopened)
        self._generation += 1
        self._origin = Origin(self._origin.number + 1, json.loads(position), None)

    def _check_kind(self, state: Mapping[str, Any]) -> None:
        """Refuses a state of a mix for a loader of one data set, and the reverse."""
        if not self._is_mix and "mix" in state:
            raise StateMismatchError(
                "this is a state of a mix, not of a loader (pass it to a forebay.Mix of the same sources)"
            )
        if self._is_mix and "mix" not in state and "version" in state:
            raise StateMismatchError(
                "this is a state of a loader, not of a mix (pass it to a forebay.Loader of its data set)"
            )

    # Closing, and opening other versions of tables

    def close(self) -> None:
        """Ends the epoch under way and the loader's threads, and closes its files.

        The threads end after their present work. A :class:`Dataset` that was passed as ``urls`` stays open,
        with its two threads that wait for storage.

        Iterating raises :class:`ClosedError` from then on. The length, ``schema``, ``plan``, ``stats`` and
        ``state_dict`` can still be used, because they read no rows. A ``with`` statement closes the loader at
        its end. Nothing is written to the folder of the cache afterwards: closing waits at most one second
        for rows that are being written.
        """
        if self._process != os.getpid():
            return
        for epoch in list(self._epochs):
            epoch._end(_forebay.Reason.Closed)
        if self._processes is not None:
            self._processes.shut()
        self._native.close()
        self._release()
        warning = None if self._arguments["trace"] is None else self._native.take_warning()
        if warning is not None:
            warn_caller(warning)

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _release(self, keep: Iterable[Dataset] = ()) -> None:
        """Releases the data sets, except those that the user opened and those in ``keep``."""
        kept = [id(dataset) for dataset in keep]
        for dataset, of_source in zip(self._datasets, self._of_sources(), strict=True):
            if dataset is not of_source["urls"] and id(dataset) not in kept:
                dataset._native.release()

    def _check_process(self) -> None:
        self._native.check_process()

    def _reopened(self, state: Mapping[str, Any], position: str) -> _Reopened | None:
        """Opens the data that a state was saved with, moves to its ``position``, and returns the attributes that
        change with the data; ``None`` if the loader had this data already, and has moved."""
        saved = state.get("sources") if self._is_mix else [state]
        arguments = self._of_sources()
        if not isinstance(saved, list) or len(saved) != len(arguments):
            self._native.restore(position)
            return None
        is_between = state.get("row") == 0
        versions: list[dict[str, str] | Dataset | None] = []
        for one, dataset, of_source in zip(saved, self._datasets, arguments, strict=True):
            is_open = isinstance(of_source["urls"], Dataset) or not isinstance(one, Mapping)
            wanted = None if is_open else of_state(dataset, one)
            if wanted is not None:
                refuse_given(wanted, dataset, of_source["version"], of_source["timestamp"])
            is_folder = not is_open and of_source["follow"] is not False and not dataset._native.tables()
            versions.append(data_of_state(dataset, one, _reopener(of_source), is_between) if is_folder else wanted)
        if all(one is None for one in versions):
            self._native.restore(position)
            return None
        # Between two epochs, a followed folder without the files of the state goes on with the files that it has.
        went_on = [
            isinstance(opened, Dataset) and opened.fingerprint != one.get("fingerprint")
            for one, opened in zip(saved, versions, strict=True)
        ]
        if any(went_on):
            kept = [(source, one) for source, one in enumerate(saved) if not went_on[source]]
            self._check_kept(kept, versions)
            return self._at(versions, position)
        reopened = self._at(versions)
        reopened.native.restore(position)
        return reopened

    def _check_kept(
        self, kept: list[tuple[int, Mapping[str, Any]]], versions: Sequence[dict[str, str] | Dataset | None]
    ) -> None:
        """Refuses a state in which a source of the mix that does not go on with other data has changed."""
        for source, saved in kept:
            if versions[source] is None and saved.get("fingerprint") != self._datasets[source].fingerprint:
                raise StateMismatchError(
                    f"source {source} of the mix has other data than the state, and is not followed (bring back its "
                    "earlier files, pass follow= to it too, or start without the state)"
                )

    def _at(self, versions: Sequence[dict[str, str] | Dataset | None], after: str | None = None) -> _Reopened:
        """Opens other versions of the tables, and returns the attributes of this loader that change with
        them. ``versions`` has an item for each source: the versions of its tables by location, an open data set, or
        ``None`` if the source keeps its data."""
        datasets = []
        for wanted, dataset, of_source in zip(versions, self._datasets, self._of_sources(), strict=True):
            if isinstance(wanted, dict):
                datasets.append(opened_for(of_source, checked(of_source)[1], None, wanted))
            else:
                datasets.append(dataset if wanted is None else wanted)
        return self._over(datasets, after)

    def _take(self, reopened: _Reopened) -> None:
        """Switches this loader to other versions of its tables, which ``reopened`` has opened."""
        self._native.close()
        self._release(keep=reopened.datasets)
        self._native, self._datasets, self._carried = reopened

    def __reduce__(self) -> tuple[Any, ...]:
        ((place, fingerprint),) = self._carried
        place = dict(place)
        return _rebuild, ({**self._arguments, "urls": place.pop("urls")}, fingerprint, place.get("versions"))

    def _repr_html_(self) -> str:
        facts = {"batches in an epoch": len(self), "batch size": self.batch_size, "rows of all ranks": self.num_rows}
        return notebook.of_facts(f"forebay.{type(self).__name__}", facts, self.schema)

    def __repr__(self) -> str:
        arguments = dict(self._arguments)
        urls = arguments.pop("urls")
        # URLs may contain passwords and signatures, which `shown` removes.
        text = [repr(urls if isinstance(urls, Dataset) else shown(urls))]
        # Storage options may contain keys and tokens, so only their names are shown.
        if arguments["storage_options"]:
            arguments["storage_options"] = dict.fromkeys(arguments["storage_options"], "...")
        text += [f"{name}={value!r}" for name, value in arguments.items() if not _is_default(name, value)]
        return f"forebay.Loader({', '.join(text)})"


def _delivered_as(name: str, renamed: Mapping[str, str], columns: set[str]) -> str | None:
    """The name under which a column, or a field of a structure, is delivered; ``None`` if it is left out."""
    name = renamed.get(name, name)
    return name if name in columns or name.partition(".")[0] in columns else None


def _is_default(name: str, value: Any) -> bool:
    # Comparing an `Expression` with `==` returns another `Expression`, which is neither true nor false.
    return value is _DEFAULTS[name] or (not isinstance(value, Expression) and value == _DEFAULTS[name])


def _versions(saved: Mapping[str, Any], prefix: str) -> dict[str, float]:
    """Makes metrics from the table versions in a saved state, or in one source of it: one metric for one
    table, or a numbered metric for each of several tables."""
    of_one = {f"{prefix}table_version": float(saved["table"]["version"])} if "table" in saved else {}
    several = enumerate(saved.get("tables", []))
    return of_one | {f"{prefix}tables/{number}/version": float(table["version"]) for number, table in several}


_DEFAULTS: dict[str, Any] = dict(Loader.__init__.__kwdefaults__ or {})


def opened_for(
    arguments: dict[str, Any],
    filter: str | None,
    fingerprint: str | None = None,
    versions: Mapping[str, str] | None = None,
    only: list[str] | None = None,
) -> Dataset:
    """Opens the data set of a loader with these arguments and this filter. If ``fingerprint`` is given, the
    data set must have it. Tables are opened at their version in ``versions``, by location, and folders with ``only``
    the files at these paths."""
    urls, prepare = arguments["urls"], arguments["prepare"]
    if isinstance(urls, Dataset):
        return urls if prepare is None else _prepared(arguments, urls, fingerprint)
    options, merge, types = (arguments[name] for name in ("storage_options", "merge_schema", "partition_types"))
    table = (None, None) if versions else table_version(arguments["version"], arguments["timestamp"])
    part = hub_part(arguments["split"], arguments["config"])
    if prepare is None:
        return opened(urls, options, fingerprint, merge, types, table, filter, versions, part, only)
    # The source is opened without the filter, which applies to the prepared rows.
    source = opened(urls, options, None, merge, types, table, None, versions, part)
    try:
        return _prepared(arguments, source, fingerprint)
    finally:
        source._native.release()


def _reopener(arguments: dict[str, Any]) -> Callable[[list[str] | None], Dataset]:
    """Opens the folder of a source as it is now, or with only the files at some paths."""
    return lambda only: opened_for(arguments, checked(arguments)[1], only=only)


def _prepared(arguments: dict[str, Any], source: Dataset, fingerprint: str | None) -> Dataset:
    """Opens the prepared rows of a source. If they are not there yet, this process prepares them first."""
    spec, _ = checked(arguments)
    options = {name: spec[name] for name in ("columns", "memory", "threads")}
    return prepared(arguments["prepare"], source, options, fingerprint)


def delivered(arguments: dict[str, Any], dataset: Dataset) -> dict[str, Any]:
    """Returns a loader's arguments for reading ``dataset``. In ``arguments``, ``columns`` names columns of
    the source; if rows were prepared, it is replaced with the columns that the function returned. It becomes
    ``None`` for packs and windows, which choose their columns themselves."""
    if not isinstance(dataset, PreparedDataset):
        return arguments
    chooses = isinstance(arguments["samples"], (Pack, Window))
    return {**arguments, "columns": None if chooses else dataset.delivered}


def _rebuild(arguments: dict[str, Any], fingerprint: str | None, versions: Mapping[str, str] | None) -> Loader:
    loader = Loader.__new__(Loader)
    loader._arguments = arguments
    loader._build(fingerprint, versions)
    return loader
