"""Petastorm's readers, and the functions ``make_reader`` and ``make_batch_reader`` that make them."""

from __future__ import annotations

import logging
import os
import threading
import warnings
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from ..loader import Loader
from ._order import Order
from ._plan import Plan, cache_of
from ._stored import Stored, opened
from .etl.rowgroup_indexing import check_files, get_row_group_indexes
from .predicates import PredicateBase
from .selectors import RowGroupSelectorBase
from .transform import TransformSpec

__all__ = ["Reader", "make_batch_reader", "make_reader"]

_LOG = logging.getLogger("forebay")

_POOLS = ("thread", "process", "dummy")


class Reader:
    """An iterator over the rows or batches of a data set, and a context manager. It is made by
    :func:`make_reader` or :func:`make_batch_reader`.

    Attributes
    ----------
    schema : Unischema
        The fields that are delivered.
    last_row_consumed : bool
        Whether all epochs are over: the iterator has ended.
    num_epochs : int or None
        Number of epochs; None for endless reading.
    batched_output : bool
        Whether an item is a batch and not a row.
    """

    #: Always None, because readers do not deliver Petastorm's NGrams, which are windows of rows. For windows,
    #: a Loader takes ``samples=forebay.Window(...)``.
    ngram = None

    def __init__(self, stored: Stored, plan: Plan) -> None:
        self.schema = plan.schema
        self.num_epochs = plan.num_epochs
        self.batched_output = plan.is_batched
        self.is_batched_reader = plan.is_batched
        self.last_row_consumed = False
        self.stopped = False
        self._taken = 0
        self._stored = stored
        self._plan = plan
        self._loader: Loader | None = None
        self._is_ready = False
        self._items: Iterator[Any] | None = None
        # Several threads of the user's program may share a reader.
        self._lock = threading.Lock()
        plan.check_shards(stored)
        if plan.is_decided_by_folders(stored):
            # A predicate on folder names is evaluated now: it costs little, and a warning that no row is
            # selected comes at once.
            self._get_ready()

    def __iter__(self) -> Reader:
        return self

    def __next__(self) -> Any:
        if self.stopped:
            raise RuntimeError(
                "Trying to read a sample after a reader created by make_reader/make_batch_reader has stopped. "
                "This may happen if its with statement has ended."
            )
        with self._lock:
            if self._items is None:
                self._items = self._all()
            try:
                item = next(self._items)
            except StopIteration:
                self.last_row_consumed = True
                raise
            self._taken += 1
            return item

    def next(self) -> Any:
        """Returns the next row or batch."""
        return next(self)

    def reset(self) -> None:
        """Begins all epochs again after the last of them was read. Shuffled epochs get new orders.

        Raises
        ------
        NotImplementedError
            Not all epochs were read.
        """
        if self.stopped:
            raise NotImplementedError("a reader that was stopped cannot be reset (make another reader)")
        if not self.last_row_consumed:
            raise NotImplementedError("a reader can be reset after its last row only (make another reader)")
        self.last_row_consumed = False
        self._items = None

    def stop(self) -> None:
        """Ends reading."""
        self.stopped = True
        self._items = None
        if self._loader is not None:
            self._loader.close()

    def join(self) -> None:
        """Does nothing, because :meth:`stop` has waited already for all work that it ends."""

    def cleanup_cache(self) -> None:
        """Does nothing, because the folder of a cache is never removed."""

    def __reduce__(self) -> Any:
        raise TypeError("a reader cannot be pickled or copied (make one in each process)")

    @property
    def diagnostics(self) -> dict[str, Any]:
        """The number of batches that are ready, and the measurements of ``stats()`` of
        :class:`forebay.Loader`."""
        measured: dict[str, Any] = {} if self._loader is None else {**self._loader.stats().to_dict()}
        ready = measured["queues"]["batches_ready"] if measured else 0
        # These keys describe Petastorm's process pool. forebay has no such pool, so no item is in transit
        # between processes.
        items = {"items_consumed": self._taken, "items_produced": self._taken, "items_inprocess": 0}
        return {"output_queue_size": ready, **items, "zmq_copy_buffers": False, **measured}

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.stop()
        self.join()

    def _all(self) -> Iterator[Any]:
        """Yields the items of all epochs."""
        self._get_ready()
        if self._loader is None:
            return
        begun = 0
        while self.num_epochs is None or begun < self.num_epochs:
            begun += 1
            epoch = iter(self._loader)
            least = self._plan.order.least(self._loader.num_rows)
            before = self._taken
            yield from self._plan.items(epoch, epoch.number, least, self._stored)
            if self.num_epochs is None and self._taken == before:
                warnings.warn(
                    "No data is delivered: the function of the TransformSpec left no row of a whole epoch.",
                    stacklevel=4,
                )
                return

    def _get_ready(self) -> None:
        """Decides which rows to read and makes the loader, on the first call only."""
        if self._is_ready:
            return
        self._loader = self._plan.loader(self._stored)
        self._is_ready = True
        if self._loader is None:
            warnings.warn("No matching data is available for loading: no row is selected.", stacklevel=4)


def make_reader(
    dataset_url: str | list[str],
    schema_fields: Any = None,
    reader_pool_type: str = "thread",
    workers_count: int = 10,
    pyarrow_serialize: bool = False,
    results_queue_size: int = 50,
    seed: int | None = None,
    shuffle_rows: bool = False,
    shuffle_row_groups: bool = True,
    shuffle_row_drop_partitions: int = 1,
    predicate: PredicateBase | None = None,
    rowgroup_selector: Any = None,
    num_epochs: int | None = 1,
    cur_shard: int | None = None,
    shard_count: int | None = None,
    shard_seed: int | None = None,
    cache_type: str | None = "null",
    cache_location: str | os.PathLike[str] | None = None,
    cache_size_limit: int | None = None,
    cache_row_size_estimate: int | None = None,
    cache_extra_settings: Mapping[str, Any] | None = None,
    hdfs_driver: str = "libhdfs3",
    transform_spec: TransformSpec | None = None,
    filters: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    zmq_copy_buffers: bool = True,
    filesystem: Any = None,
    convert_early_to_numpy: bool = False,
    *,
    shards: str = "rows",
) -> Reader:
    """Makes a reader of a Petastorm data set. It delivers each row as a named tuple of decoded values.

    Parameters
    ----------
    dataset_url : str or list of str
        A URL such as ``"file:///data/train"``, or several URLs in the same store.
    schema_fields : list of UnischemaField or str, optional
        Fields, or regular expressions of whole names. Default: all.
    reader_pool_type : {"thread", "process", "dummy"}, default "thread"
        Where the function of ``transform_spec`` runs. Reading and decoding have threads of their own, without Python.
    workers_count : int, default 10
        How many threads or processes run that function; at most one for each processor.
    seed : int, optional
        The seed of the order. Default: a random seed, but 0 if several processes share the rows, because all
        of them need the same seed.
    shuffle_rows, shuffle_row_groups : bool
        Whether the rows of a row group, and the row groups, come in random order.
    shuffle_row_drop_partitions : int, default 1
        The number of pieces into which each row group is cut; the pieces are shuffled like row groups.
    predicate : PredicateBase, optional
        Selects the rows to read. Predicates of sets become a filter of the loader; other predicates are
        called once for each row, when the first row is read.
    num_epochs : int, optional
        How often all rows are read; None for endless reading.
    cur_shard, shard_count : int, optional
        The number of this process, from 0, and the number of processes that share the rows.
    cache_type : {"null", "local-disk"}, optional
        ``"local-disk"`` caches rows in a folder in ``cache_location``, in at most ``cache_size_limit`` bytes.
        Other files in ``cache_location`` are not removed.
    transform_spec : TransformSpec, optional
        A function from a row to a changed row.
    filters : list of tuple, optional
        A condition on the rows to read, in pyarrow's form. Only matching rows are delivered, not whole row
        groups.
    storage_options : mapping, optional
        Credentials and settings of the store.
    shards : {"rows", "equal", "row_groups"}, default "rows"
        How the processes share the data. ``"rows"``: each row goes to one process, and their numbers of rows
        differ by one at most. ``"equal"``: all processes get the same number of rows, some of them repeated.
        ``"row_groups"``: whole row groups, as in Petastorm; the numbers of rows may differ widely.
    rowgroup_selector : RowGroupSelectorBase, optional
        Selects the row groups to read, by an index that is stored in the data set. ``filters`` need no index.
    pyarrow_serialize, results_queue_size, shard_seed, cache_row_size_estimate, cache_extra_settings, hdfs_driver, \
zmq_copy_buffers, filesystem, convert_early_to_numpy
        Accepted, so that scripts for Petastorm run, but not used. The loader has no queue of results, no
        serializer and no driver; it opens stores by URL and ``storage_options``.

    Returns
    -------
    Reader
        The reader.

    Raises
    ------
    ValueError
        An argument is malformed.
    ForebayError
        The data set cannot be opened.
    """
    stored = opened(dataset_url, storage_options)
    if not stored.is_written:
        warnings.warn(
            "make_reader reads data sets of Petastorm, and this one has no schema (use make_batch_reader)", stacklevel=2
        )
    return _reader(dataset_url, stored, False, {**locals()})


def make_batch_reader(
    dataset_url_or_urls: str | list[str],
    schema_fields: Any = None,
    reader_pool_type: str = "thread",
    workers_count: int = 10,
    results_queue_size: int = 50,
    seed: int | None = None,
    shuffle_rows: bool = False,
    shuffle_row_groups: bool = True,
    shuffle_row_drop_partitions: int = 1,
    predicate: PredicateBase | None = None,
    rowgroup_selector: Any = None,
    num_epochs: int | None = 1,
    cur_shard: int | None = None,
    shard_count: int | None = None,
    shard_seed: int | None = None,
    cache_type: str | None = "null",
    cache_location: str | os.PathLike[str] | None = None,
    cache_size_limit: int | None = None,
    cache_row_size_estimate: int | None = None,
    cache_extra_settings: Mapping[str, Any] | None = None,
    hdfs_driver: str = "libhdfs3",
    transform_spec: TransformSpec | None = None,
    filters: Any = None,
    storage_options: Mapping[str, Any] | None = None,
    zmq_copy_buffers: bool = True,
    filesystem: Any = None,
    convert_early_to_numpy: bool = False,
    *,
    shards: str = "rows",
) -> Reader:
    """Makes a reader of any Parquet files. Each item has the rows of a row group, as a named tuple of arrays.

    The arrays are those that pandas makes: whole numbers with nulls become floats with NaN, dates are
    objects, times have their stored unit, and lists of one length become the rows of an array. Text is an
    array of numpy's text, in which a null is ``"None"``. Codecs of Petastorm are not applied: see
    :func:`make_reader`.

    Parameters
    ----------
    dataset_url_or_urls : str or list of str
        The URL of a folder, or the URLs of several files.
    schema_fields, reader_pool_type, workers_count, seed, shuffle_rows, shuffle_row_groups, \
shuffle_row_drop_partitions, rowgroup_selector, num_epochs, cur_shard, shard_count, cache_type, cache_location, \
cache_size_limit, filters, storage_options, shards
        As for :func:`make_reader`.
    predicate : PredicateBase, optional
        Selects the rows to read. ``in_lambda`` and a predicate of your own class get columns of pandas.
    transform_spec : TransformSpec, optional
        A function from a ``pandas.DataFrame`` to a changed one.
    results_queue_size, shard_seed, cache_row_size_estimate, cache_extra_settings, hdfs_driver, \
zmq_copy_buffers, filesystem, convert_early_to_numpy
        As for :func:`make_reader`.

    Returns
    -------
    Reader
        The reader.

    Raises
    ------
    ValueError
        An argument is malformed.
    ForebayError
        The data set cannot be opened.
    """
    stored = opened(dataset_url_or_urls, storage_options)
    if stored.is_written:
        warnings.warn(
            "make_batch_reader gives the cells of a data set of Petastorm as they are stored (use make_reader for "
            "decoded values)",
            stacklevel=2,
        )
    return _reader(dataset_url_or_urls, stored, True, {**locals()})


def _reader(urls: Any, stored: Stored, is_batched: bool, given: dict[str, Any]) -> Reader:
    if given["reader_pool_type"] not in _POOLS:
        raise ValueError(f"Unknown reader_pool_type: {given['reader_pool_type']}")
    workers = given["workers_count"]
    if isinstance(workers, bool) or not isinstance(workers, (int, np.integer)) or workers < 0:
        raise ValueError(f"workers_count must be an int of at least 0, got {workers!r}")
    if given["shard_seed"]:
        said = "shard_seed was deprecated and will be removed in future versions. It decides nothing (pass seed=)"
        warnings.warn(said, stacklevel=3)
    if given["filesystem"] is not None:
        _LOG.info("filesystem= is not needed: stores are opened by URL and storage_options=")
    epochs = given["num_epochs"]
    if epochs is not None and (isinstance(epochs, bool) or not isinstance(epochs, (int, np.integer)) or epochs < 1):
        raise ValueError(f"num_epochs must be an int of at least 1, or None for ever, got {epochs!r}")
    plan = Plan(
        stored,
        is_batched,
        schema_fields=given["schema_fields"],
        predicate=given["predicate"],
        filters=given["filters"],
        transform_spec=given["transform_spec"],
        num_epochs=epochs,
        order=Order.of(
            shuffle_row_groups=given["shuffle_row_groups"],
            shuffle_rows=given["shuffle_rows"],
            drop_partitions=given["shuffle_row_drop_partitions"],
            seed=given["seed"],
            cur_shard=given["cur_shard"],
            shard_count=given["shard_count"],
            shards=given["shards"],
        ),
        cache=cache_of(given["cache_type"], given["cache_location"], given["cache_size_limit"]),
        pool=given["reader_pool_type"],
        workers_count=given["workers_count"],
        row_groups=_row_groups(urls, stored, given["rowgroup_selector"]),
    )
    return Reader(stored, plan)


def _row_groups(urls: Any, stored: Stored, selector: Any) -> set[int] | None:
    """Returns the numbers of the row groups that a selector selects; None without a selector."""
    if selector is None:
        return None
    if not isinstance(selector, RowGroupSelectorBase):
        raise ValueError("rowgroup_selector parameter is expected to be derived from RowGroupSelectorBase")
    if not isinstance(urls, str):
        if len(urls) != 1:
            raise ValueError(f"a rowgroup_selector needs the URL of one data set, got {len(urls)}")
        (urls,) = urls
    indexes = get_row_group_indexes(urls)
    unknown = sorted(set(selector.get_index_names()) - set(indexes))
    if unknown:
        raise ValueError(f"{urls}: there is no index {', '.join(unknown)} (there are {', '.join(sorted(indexes))})")
    check_files(urls, stored.dataset)
    return set(selector.select_row_groups(indexes))
