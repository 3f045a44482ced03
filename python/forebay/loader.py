"""The loader: arguments in, epochs out."""

from __future__ import annotations

import json
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, NoReturn

from . import _forebay
from .at_exit import close_at_exit
from .columns.options import by_column
from .dataset import Dataset, opened, refuse_options
from .epoch import Epoch, SkippedRow
from .errors import InvalidError, StateMismatchError
from .filters.expressions import Expression
from .filters.terms import settled
from .options.cache import DiskCache
from .options.checks import names, whole
from .options.locations import local, locations, shown
from .options.other_loaders import explained
from .options.shuffle import Shuffle
from .options.skip import Skip
from .options.storage import options
from .options.workers import Workers
from .reports import notebook
from .reports.reports import Plan, Stats, numbers
from .rows.deny import Denied
from .rows.listing import add_to_list
from .rows.row_id import RowPlace
from .rows.skip_steps import steps
from .sharding.shard import Shard
from .spec import checked, flattened, functions, renames, workers
from .transforms.libraries import Watch
from .transforms.processes import processes

if TYPE_CHECKING:
    import numpy as np

    from .categories import Hash, Vocabulary
    from .choices import TensorType
    from .columns.boxes_and_masks import Boxes, Keypoints, Mask
    from .columns.pad import Pad
    from .columns.tensor import Tensor
    from .columns.text import Json, Text
    from .samples.pack import Bucket, Pack
    from .samples.weighted import Sample
    from .samples.window import Window
    from .types import Collate, Filter, Location, RowTransform, SpecDict, StateDict, Transform

__all__ = ["Loader"]


class Origin(NamedTuple):
    """Where a copy of a loader in another process begins. Unlike the loader, it may be carried over a fork."""

    number: int
    """Rises when a state is loaded or an epoch is begun."""
    state: StateDict | None
    """The state that was loaded last, if no epoch was begun since."""
    upcoming: int | None
    """The epoch after the one that was begun last, if no state was loaded since."""


_Source = tuple[_forebay.Dataset, dict[str, Any], "str | None", float]
"""A data set, the options and the filter of its loader, and its weight."""


class Loader:
    """Batches for one training process, straight from Parquet.

    Iterating yields the batches of one epoch, and iterating again those of the next. One epoch is under way at a time:
    beginning another ends it.

    A loader takes the place of a ``torch.utils.data.DataLoader``, and cannot be wrapped in one: iterate over
    ``forebay.torch.batches(loader)``, and pass ``forebay.keras.batches(loader)`` to Keras' ``fit``.

    Parameters
    ----------
    urls : str, os.PathLike, iterable of them, or Dataset
        A path, URL or glob, a list of them, or a :class:`Dataset` that is open already.
    columns : iterable of str, optional
        Names of the columns to read, in the order of delivery. ``*``, ``?`` and ``[0-9]`` match several:
        ``"feature_*"``; a column that is also named is where it is named. They do so in ``decode``, ``encode``,
        ``pad``, ``fill_null``, ``null_mask`` and ``cast`` as well, where a name decides before a pattern.
        ``"meta.author"`` is that field of a structure, which is delivered with the fields that are named alone; the
        others are not fetched. Vectors of Spark ML, dense and sparse ones, are lists of all their values, and the other
        arguments see these lists. Default: all columns.
    decode : mapping from str to Image, Boxes, Keypoints, Mask, Tensor, Text, Json or None, optional
        How to decode columns: ``{"image": forebay.Image.random_resized_crop(224).flip()}`` for encoded images,
        ``{"boxes": forebay.Boxes(of="image")}`` for what is cropped and mirrored with them, and ``{"x":
        forebay.Tensor("float32", (3, 32, 32))}`` for arrays of one shape; ``forebay.Text()`` for numpy's strings, and
        ``forebay.Json()`` for what JSON says. Default: columns are delivered as they are stored, images as ``bytes``. Of
        a data set that Petastorm wrote, columns are decoded as its schema says; None for a column, or for ``"*"``,
        delivers it as it is stored.
    encode : mapping from str to Vocabulary or Hash, optional
        Columns that are delivered as integer codes: ``{"city": forebay.Vocabulary(["Berlin", "Paris"])}``, or
        ``{"user": forebay.Hash(1000)}``. A null has the code of its ``fill_null``, or is a bad row. Default: none.
    pad : mapping from str to Pad, optional
        Columns of lists that are delivered as rows of one length: ``{"tokens": forebay.Pad(2048)}``. Default: lists are
        :class:`Ragged`.
    batch_size : int, default 32
        Rows in a batch of this process, not of all ranks together. Of ``samples`` that are not rows, so many of them;
        of buckets 1 by default.
    global_batch_size : int, optional
        Rows in a step of all ranks together, instead of ``batch_size``. Any number of ranks shares them, so that their
        batches differ by a row at most, and a run that resumes on another number of ranks has the same rows in each
        step.
    drop_last : bool, default False
        Leave out the rows that do not fill a batch on every rank.
    epochs : int, optional
        How many epochs there will be; nothing is prefetched after the last one. Default: unknown, so toward the end of
        an epoch, the beginning of the next one is prefetched.
    filter : Expression, list of tuple or list of list of tuple, optional
        Which rows to read: ``fb.col("label") < 100``, see :func:`col` and :func:`row_fraction`. Or as in pyarrow:
        ``[("label", "<", 100), ("split", "in", ["a", "b"])]`` selects rows for which all terms hold, and a list of such
        lists those for which one list does. Operators: ``=``, ``==``, ``!=``, ``<``, ``<=``, ``>``, ``>=``, ``in`` and
        ``not in``. Expressions of ``pyarrow.compute`` and Polars are taken where they mean the same. Default: all rows.
    deny : str, os.PathLike, iterable of int or mapping, optional
        Rows to leave out of every epoch, as if they were not stored. A list of row ids, or a file of one: text with a
        row id in each line, remarks after ``#``, or Parquet with a column ``row_id``. Values of a column: ``{"url":
        ["https://..."]}``, or ``{"url": "urls.txt"}`` for a file, of text with a value in each line or of Parquet with
        a column of that name: numbers, booleans, dates, times and text. Or what :meth:`which` and :meth:`skipped`
        return, or a list of several of these. Files are read once, here. A state that was saved with other rows left
        out is taken between two epochs only. Default: none.
    skip_steps : iterable of (int, int), optional
        Steps to pass over, each range its first step and the one after its last: ``[(4000, 4010)]``. They are counted
        through all epochs from the first step of epoch 0, as if none were passed over. A state brings its own where
        none are given. Default: none.
    row_id : bool, default False
        Deliver which row each one is as a column ``row_id`` of int64: see :class:`RowId`.
    row_mask : bool, default False
        Deliver a column ``row_mask`` of booleans, in which each row of an epoch is True once over all ranks: a row is
        repeated, and False, where a rank would be without a batch. For exact evaluation.
    samples : Window, Pack, Bucket or Sample, optional
        What one sample is, if it is not a row: ``forebay.Window(16, by="time", within="episode")`` for windows of
        consecutive rows, ``forebay.Pack("tokens", 2048)`` for lists in rows of one length, ``forebay.Bucket("tokens",
        tokens=16384)`` for batches of rows of similar length; or which rows an epoch has,
        ``forebay.Sample(by="label")`` for classes that come alike. ``batch_size``, plans and states then count samples.
        Default: a row.
    shuffle : Shuffle, optional
        ``forebay.Shuffle(seed=17)``, or ``forebay.Shuffle.exact(17)``. Default: the stored order.
    shard : Shard, optional
        The share of this process: ``forebay.Shard.from_env()``, or ``forebay.Shard(rank=3, world=8)``. Default: all
        rows.
    cache : DiskCache, optional
        ``forebay.DiskCache("/nvme/forebay", max_bytes="200GB")`` keeps decoded rows on local disk. Default: no cache.
    memory : int or str, optional
        Budget in bytes for all rows in flight: a number, ``"12GB"``, ``"4g"``, ``"4GiB"`` or ``"4Gi"``. Default: 4 GiB,
        or half of the memory of the machine or container if that is less.
    transform : callable, optional
        A function from a dict of numpy arrays to a dict of arrays with as many rows. Values that are not arrays, such
        as a number for the whole batch, are passed on. It runs a few batches ahead, on one thread of its own or where
        ``transform_workers`` says, and its results arrive in order. Default: no transform.
    transform_rows : callable, optional
        A function from one row to the row that is delivered: a :class:`Row`, which is a dict of the columns' values,
        in, a dict out. The values of a column, which are numpy arrays or tensors of one shape, or numbers, become one
        array; text and other objects become an array of objects. :func:`rng` has the random numbers of a row. It runs
        where ``transform`` does, before it. Default: none.
    collate : callable, optional
        A function from a list of rows, each a dict, to a dict of columns, instead of making one array of each column.
        Default: none.
    transform_workers : int or Workers, default 0
        How many batches these functions work on at a time. With 0 they run on one thread of this process; with ``N`` in
        ``N`` processes, which share the batches' memory and end with the loader, and when an epoch is left early. The
        functions are then pickled, so a lambda is refused. ``forebay.Workers(4, threads=True)`` has threads instead,
        for functions that release the GIL. Batches, their order and :func:`rng` do not depend on it.
    threads : int, optional
        Threads that decode. Default: one for each processor that the process may use.
    storage_options : mapping of str, optional
        Credentials and settings of the store, by the names that pandas and fsspec use. Not with a :class:`Dataset`,
        which has its own.
    merge_schema : bool, default False
        Read files whose columns differ, as :class:`Dataset`. Not with one.
    partition_types : mapping from str to str, optional
        Types of the keys of folders, as :class:`Dataset`. Not with one.
    on_bad_row : {"raise"} or Skip, default "raise"
        ``forebay.Skip(at_most=...)`` leaves bad rows out and counts them; ``"raise"`` ends the epoch at the first one.
    fill_null : mapping from str to int, float, str or bytes, optional
        Values in place of nulls: ``{"x": 0.0, "text": "", "blob": b""}``. A number for numbers, booleans (0 or 1),
        times (in the column's own unit) and each byte of binary of fixed length, which takes as many bytes as well; an
        int is exact in columns of integers and times. For a column of lists it replaces each null inside; a list that
        is null becomes empty or, where all have as many numbers, a list of that value. All numbers of an image, mask or
        tensor that is null have it, as they are delivered: of an image after normalisation. An image in its own size is
        empty. A pattern, ``{"*": 0}``, means those of its columns that can have the value.
    null_mask : iterable of str, optional
        Columns, or patterns of their names as in ``columns``, beside which ``<name>.mask`` says which values are there:
        False where one is null. The array has the value of ``fill_null`` there, or else 0, ``""`` or ``b""``. For
        numbers, booleans, times, text, binary, lists of so many numbers, images, masks and tensors; and for boxes and
        points, of which a null has none. What follows an image that is null is empty or 0. A pattern means those of its
        columns that can have a mask. Default: none.
    flatten : bool or iterable of str, default False
        Deliver the fields of structures as columns of their own, ``meta.author``, at any depth: of all structures, or
        of the columns that are named. What is null in a structure that is null is null. The other arguments name such a
        column as it is delivered, but for ``filter``, which names stored ones; structures that ``decode`` or ``encode``
        names stay whole, and so do vectors of Spark ML.
    cast : mapping from str to dtype, optional
        Types that the values of columns are cast to: ``{"price": "float32", "feature_*": "float16"}``. For numbers,
        booleans, decimals, text that is a number, times (to integers, in their own unit), and lists of these, by their
        values. A value that the type does not have is a bad row; floats are rounded to the nearest. The other arguments
        see the type that a column is cast to, ``filter`` sees what is stored. Default: none.
    rename : mapping from str to str, optional
        Columns that are delivered under another name: ``{"img": "image", "meta.label": "label"}``. The other arguments
        name such a column as it is delivered; ``columns``, ``flatten`` and ``filter`` have stored names. Default: none.
    trace : str or os.PathLike, optional
        File for a timeline of the loader, written when it is closed; open it in Perfetto or ``chrome://tracing``. Of a
        long run it holds the end. Default: no timeline.

    Notes
    -----
    A loader pickles by its arguments, with absolute paths, and opens its files anew where it is unpickled. That raises
    :class:`StateMismatchError` if they have changed.

    Raises
    ------
    InvalidError
        An argument can never work.
    UnknownColumnError
        ``columns``, ``decode``, ``encode``, ``filter``, ``fill_null``, ``null_mask``, ``cast`` or ``rename`` names a
        column that does not exist.
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
        decode: Mapping[str, _forebay.Image | Boxes | Keypoints | Mask | Tensor | Text | Json | None] | None = None,
        encode: Mapping[str, Vocabulary | Hash] | None = None,
        pad: Mapping[str, Pad] | None = None,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        drop_last: bool = False,
        epochs: int | None = None,
        filter: Filter | None = None,
        samples: Window | Pack | Bucket | Sample | None = None,
        shuffle: Shuffle | None = None,
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
        on_bad_row: Literal["raise"] | Skip = "raise",
        fill_null: Mapping[str, float | str | bytes] | None = None,
        null_mask: Iterable[str] | None = None,
        flatten: bool | Iterable[str] = False,
        cast: Mapping[str, TensorType | type | np.dtype[Any]] | None = None,
        rename: Mapping[str, str] | None = None,
        deny: Any = None,
        skip_steps: Iterable[tuple[int, int]] | None = None,
        row_id: bool = False,
        row_mask: bool = False,
        trace: str | os.PathLike[str] | None = None,
    ) -> None:
        self._arguments: dict[str, Any] = {
            "urls": urls if isinstance(urls, (str, os.PathLike, Dataset)) else locations(urls),
            "columns": None if columns is None else names(columns),
            "decode": by_column(decode, "decode"),
            "encode": by_column(encode, "encode"),
            "pad": by_column(pad, "pad"),
            "batch_size": batch_size,
            "global_batch_size": global_batch_size,
            "drop_last": drop_last,
            "epochs": epochs,
            # A loader is copied by its arguments.
            "filter": settled(filter),
            "samples": samples,
            "shuffle": shuffle,
            "shard": shard,
            "cache": cache,
            "memory": memory,
            "transform": transform,
            "transform_rows": transform_rows,
            "collate": collate,
            "transform_workers": transform_workers,
            "threads": threads,
            "storage_options": options(storage_options),
            "merge_schema": merge_schema,
            "partition_types": partition_types,
            "on_bad_row": on_bad_row,
            "fill_null": by_column(fill_null, "fill_null"),
            "null_mask": None if null_mask is None else names(null_mask, "null_mask"),
            "flatten": flattened(flatten),
            "cast": by_column(cast, "cast"),
            "rename": None if rename is None else renames(rename),
            # What a file lists now, also in a copy of the loader.
            "deny": None if deny is None else Denied.of(deny),
            "skip_steps": None if skip_steps is None else steps(skip_steps),
            "row_id": row_id,
            "row_mask": row_mask,
            "trace": None if trace is None else local(trace, "trace"),
        }
        refuse_options(
            urls, storage_options=storage_options, merge_schema=merge_schema, partition_types=partition_types
        )
        self._build()

    def _build(self, fingerprint: str | None = None) -> None:
        """Builds what the arguments say, over a data set that may have to have a given fingerprint."""
        arguments = checked(self._arguments)
        self._settle()
        dataset = opened_for(self._arguments, arguments[1], fingerprint)
        self._start([dataset], [(dataset._native, *arguments, 1.0)])

    def _start(self, datasets: list[Dataset], sources: list[_Source], mix: dict[str, Any] | None = None) -> None:
        """Starts a loader of one source, or of several with the options that belong to all of them, in ``mix``."""
        self._datasets = datasets
        # What a copy opens, and the fingerprint that it has to have. A data set sees to that by itself.
        self._carried: list[tuple[Any, str | None]] = [
            (of_source["urls"], None)
            if isinstance(of_source["urls"], Dataset)
            else (dataset._absolute(), dataset.fingerprint)
            for dataset, of_source in zip(datasets, self._of_sources(), strict=True)
        ]
        self._native = _forebay.Loader(sources, mix, numbered=self._numbered)
        close_at_exit(self)

    def _of_sources(self) -> list[dict[str, Any]]:
        """The arguments of each source."""
        return [self._arguments]

    def _settle(self) -> None:
        """Prepares what does not depend on the data set."""
        self._functions = functions(self._arguments)
        self._workers = workers(self._arguments, self._functions)
        self._processes = processes(self._functions, self._workers)
        self._watch = Watch([] if self._functions is None else self._functions.names)
        self._process = os.getpid()
        # Rises when a state is loaded: epochs that began before are outdated.
        self._generation = 0
        self._origin = Origin(0, None, None)
        self._epochs: weakref.WeakSet[Epoch] = weakref.WeakSet()
        self._skipped: _forebay.Skipped | None = None

    @property
    def _numbered(self) -> bool:
        """Whether functions need to know which rows a batch holds."""
        return self._functions is not None and self._functions.by_rows

    # Batches

    def __iter__(self) -> Epoch:
        """Begins the next epoch, or the rest of the one that a loaded state is in."""
        return self._begin(None)

    def epoch(self, number: int) -> Epoch:
        """Begins the epoch with this number, or the rest of it if a loaded state is in it.

        Parameters
        ----------
        number : int
            Which epoch, from 0. It decides the order and random image operations, together with the seed.

        Returns
        -------
        Epoch
            An iterator over its batches.

        Raises
        ------
        InvalidError
            ``number`` is not an int of at least 0.
        ClosedError
            This is a forked child. A loader that was closed raises it when the first batch is requested.

        Examples
        --------
        >>> import forebay as fb
        >>> loader = fb.Loader("data/train/", columns=["id"], shuffle=fb.Shuffle(seed=17))
        >>> first = [batch["id"].tolist() for batch in loader.epoch(0)]
        >>> first == [batch["id"].tolist() for batch in loader.epoch(0)]
        True
        """
        return self._begin(whole(number, "epoch", 0))

    def _begin(self, number: int | None) -> Epoch:
        self._check_process()
        # One epoch at a time: what an earlier one still prepares would only be in the way.
        for earlier in list(self._epochs):
            earlier._end(_forebay.Reason.Superseded)
        epoch = Epoch(self, self._native.epoch(number, self._functions is not None))
        warning = self._native.take_warning()
        if warning is not None:
            warnings.warn(warning, RuntimeWarning, stacklevel=3)
        self._epochs.add(epoch)
        self._origin = Origin(self._origin.number + 1, None, epoch.number + 1)
        self._skipped = epoch._native.skipped
        return epoch

    def skipped(self, save: str | os.PathLike[str] | None = None) -> list[SkippedRow]:
        """Rows that were left out of the epoch that was begun last, in its order.

        Rows of batches that are prepared ahead are among them. Empty without ``on_bad_row=forebay.Skip(...)``.

        Parameters
        ----------
        save : str or os.PathLike, optional
            A file of text to which these rows are added, for ``deny``: the row id of each, with its place and the cause
            as a remark. Those that it lists already stay. A :class:`Mix` refuses it: a row id belongs to the data set
            of one source, and a list of them would deny rows of another.

        Returns
        -------
        list of SkippedRow
            The place of each row, and why it was left out.

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
        """Where the rows of a step are stored, in the order of delivery: of any step, past or to come. Nothing is read.

        Rows that ``on_bad_row`` leaves out are among them, and a step that is passed over has its rows nevertheless.

        Parameters
        ----------
        step : int, optional
            Which step, counted from the first one of epoch 0, or of ``epoch``, with the batches of this loader.
            Default: the one that the training loop gets next; its list is empty where the epoch is over.
        epoch : int, optional
            The epoch in which ``step`` is counted.
        rank : int, optional
            Whose rows. Default: this process's.

        Returns
        -------
        list of RowPlace
            File, row group and row of each. Of a :class:`Mix` a list of :class:`SourcePlace`, which have the number of
            the source as well.

        Raises
        ------
        InvalidError
            There is no such step or rank; or the epoch is under way and began with other batches, so that its steps
            cannot be counted.

        Examples
        --------
        >>> import forebay as fb
        >>> loader = fb.Loader("data/train/", batch_size=64, shuffle=fb.Shuffle(seed=17))
        >>> rows = loader.which(2, epoch=5)
        >>> [place.row_id for place in rows] == [place.row_id for place in loader.which(5 * len(loader) + 2)]
        True
        """
        if epoch is not None and step is None:
            raise InvalidError(f"epoch={epoch!r}, but no step of it was given (pass which(0, epoch={epoch!r}))")
        bits = {"step": (step, 64), "epoch": (epoch, 64), "rank": (rank, 32)}
        asked = [None if value is None else whole(value, name, 0, size) for name, (value, size) in bits.items()]
        return [self._place(source, row) for source, row in self._native.which(*asked)]

    def _place(self, source: int, row: tuple[str, int, int, int]) -> RowPlace:
        """A row as the compiled half has it."""
        return RowPlace._of(row)

    def __getitem__(self, index: Any) -> NoReturn:
        # Code that takes it for a data set of rows (DataLoader, the Trainer of Hugging Face) ends here.
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

    # Reports

    @property
    def schema(self) -> _forebay.Schema:
        """Names and types of the columns that are delivered, before ``transform_rows`` and ``transform``.

        ``pyarrow.schema(loader.schema)`` converts it.
        """
        return self._native.schema()

    @property
    def spec(self) -> SpecDict:
        """The options that the loader was built with, in JSON types only, with the defaults filled in.

        Those are the columns, the memory in bytes, the threads, and the window and lanes of the order. Without the
        location and its storage options, so it holds no secret and can be logged with a run.
        """
        spec: SpecDict = json.loads(self._native.spec()[0])
        return spec

    @property
    def columns(self) -> list[str]:
        """Names of the columns that are delivered, in their order, before ``transform_rows`` and ``transform``."""
        return self._native.schema().names

    @property
    def batch_size(self) -> int:
        """Rows in a batch of this process; the last batch of an epoch may have fewer.

        With ``global_batch_size``, the most that a rank gets.
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
            Which epoch, from 0.

        Returns
        -------
        Plan
            Steps, rows, row groups, bytes and peak memory. Of a :class:`Mix` a :class:`MixPlan`: steps, rows, and for
            each source its rows, passes, and rows that are not read.

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
        """The work of each stage so far, the waits of the training loop, and the next move.

        Returns
        -------
        Stats
            Print it, or see its methods.
        """
        return Stats(*self._native.stats())

    def metrics(self, prefix: str = "forebay/") -> dict[str, float]:
        """Position and statistics as flat numbers, for MLflow, Weights & Biases, TensorBoard and their like.

        Parameters
        ----------
        prefix : str, default "forebay/"
            What each name begins with.

        Returns
        -------
        dict
            ``forebay/epoch`` and ``forebay/row`` of :meth:`state_dict`, and each number of :meth:`Stats.to_dict` under
            the keys that lead to it, such as ``forebay/waits/decode``. The share of its time that the training loop
            waited is ``forebay/verdict/waiting``. Of a :class:`Mix` also ``forebay/sources/0/rows``: the rows of source
            0 in the batches of this rank.

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
        state = self.state_dict()
        position = {f"{prefix}epoch": float(state["epoch"]), f"{prefix}row": float(state["row"])}
        stats = self.stats().to_dict()
        metrics = position | dict(numbers(stats, prefix))
        for number, source in enumerate(stats.get("sources", [])):
            metrics |= dict(numbers(source, f"{prefix}sources/{number}/"))
        return metrics

    def warm(self, *, share: bool = False, report: Callable[[int, int], object] | None = None) -> dict[str, Any]:
        """Fills the cache before it is needed. Ends the epoch that is under way.

        Row groups that are in the cache already are not fetched again, and those that do not fit are left out.

        Parameters
        ----------
        share : bool, default False
            Fill it with the row groups that this rank reads in the epoch that is under way or comes next, instead of
            all. With a window, a rank reads other row groups in each epoch.
        report : callable, optional
            Called with the number of row groups that are done and of all, when it changes. :func:`forebay.tqdm.warm`
            and :func:`forebay.rich.warm` show it.

        Returns
        -------
        dict
            What :meth:`stats` says of the cache: ``hits`` were there, ``misses`` were fetched, ``written`` were kept.

        Raises
        ------
        InvalidError
            The loader has no cache, ``share`` is not a bool, or ``report`` is not callable. Or it is a mix: the caches
            belong to its sources, whose loaders fill them before they are mixed.
        ForebayError
            A row group cannot be read.

        Examples
        --------
        >>> import forebay as fb
        >>> train = fb.Loader("data/train/", cache=fb.DiskCache("cache/", max_bytes="1GB"))
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

    # State

    def state_dict(self) -> StateDict:
        """How far the training loop got.

        It counts the batches that were handed over, not those that were prepared ahead.

        Returns
        -------
        dict
            A few JSON values, the same on every rank, but for ``skipped`` where this one left bad rows out of the
            epoch.

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

        The world size and the batch size may differ from those of the run that was saved.

        Parameters
        ----------
        state : mapping
            What :meth:`state_dict` returned.

        Raises
        ------
        StateMismatchError
            The state belongs to another data set, seed, filter or order, to a :class:`Mix`, or is not a state.
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
        # First, so that a state that is refused ends nothing.
        self._native.restore(position)
        for epoch in list(self._epochs):
            epoch._end(_forebay.Reason.Restored)
        self._generation += 1
        self._origin = Origin(self._origin.number + 1, json.loads(position), None)

    def _check_kind(self, state: Mapping[str, Any]) -> None:
        """Refuses a state of a mix in a loader of one data set, and the other way round."""
        if not self._is_mix and "mix" in state:
            raise StateMismatchError(
                "this is a state of a mix, and not a state of a loader (pass it to a forebay.Mix of the same sources)"
            )
        if self._is_mix and "mix" not in state and "version" in state:
            raise StateMismatchError(
                "this is a state of a loader, and not a state of a mix (pass it to a forebay.Loader of its data set)"
            )

    # Life

    def close(self) -> None:
        """Ends the epoch under way and the loader's threads, and closes its files.

        The threads end when what they are at is done. A :class:`Dataset` that was given keeps its own: the two that
        wait for storage.

        Iterating raises :class:`ClosedError` from then on. What is known without reading rows stays: the length,
        ``schema``, ``plan``, ``stats`` and ``state_dict``. A ``with`` statement closes the loader at its end. Nothing
        is written to the folder of its cache afterwards: for rows that are being written it waits for a second at most.
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
            warnings.warn(warning, RuntimeWarning, stacklevel=2)

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _release(self) -> None:
        """Lets go of the data sets, but for those that are the user's."""
        for dataset, of_source in zip(self._datasets, self._of_sources(), strict=True):
            if not isinstance(of_source["urls"], Dataset):
                dataset._native.release()

    def _check_process(self) -> None:
        self._native.check_process()

    def __reduce__(self) -> tuple[Any, ...]:
        ((urls, fingerprint),) = self._carried
        return _rebuild, ({**self._arguments, "urls": urls}, fingerprint)

    def _repr_html_(self) -> str:
        facts = {"batches in an epoch": len(self), "batch size": self.batch_size, "rows of all ranks": self.num_rows}
        return notebook.of_facts(f"forebay.{type(self).__name__}", facts, self.schema)

    def __repr__(self) -> str:
        arguments = dict(self._arguments)
        urls = arguments.pop("urls")
        # URLs may hold passwords and signatures.
        text = [repr(urls if isinstance(urls, Dataset) else shown(urls))]
        # Options may hold keys and tokens.
        if arguments["storage_options"]:
            arguments["storage_options"] = dict.fromkeys(arguments["storage_options"], "...")
        text += [f"{name}={value!r}" for name, value in arguments.items() if not _is_default(name, value)]
        return f"forebay.Loader({', '.join(text)})"


def _is_default(name: str, value: Any) -> bool:
    # An expression makes another one of a comparison.
    return value is _DEFAULTS[name] or (not isinstance(value, Expression) and value == _DEFAULTS[name])


_DEFAULTS: dict[str, Any] = dict(Loader.__init__.__kwdefaults__ or {})


def opened_for(arguments: dict[str, Any], filter: str | None, fingerprint: str | None = None) -> Dataset:
    """The data set of a loader with these arguments and this filter, which may have to have a given fingerprint."""
    urls = arguments["urls"]
    if isinstance(urls, Dataset):
        return urls
    options, merge, types = (arguments[name] for name in ("storage_options", "merge_schema", "partition_types"))
    return opened(urls, options, fingerprint, merge, types, filter)


def _rebuild(arguments: dict[str, Any], fingerprint: str | None) -> Loader:
    loader = Loader.__new__(Loader)
    loader._arguments = arguments
    loader._build(fingerprint)
    return loader
