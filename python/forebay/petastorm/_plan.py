"""Turns the arguments of a Petastorm reader into a :class:`forebay.Loader`, and its batches into the reader's
rows."""

from __future__ import annotations

import importlib.util
import logging
import os
import pickle
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from ..errors import InvalidError
from ..loader import Loader
from ..options.cache import DiskCache
from ..options.workers import Workers
from ..transforms.processes import pickled
from ._batches import MADE, BatchMaker, kinds_of, reading_of
from ._columns import readings
from ._groups import ROW_ID, filled_up, groups, regular, taken
from ._order import Order
from ._rows import ROWS, RowMaker
from ._selection import Numbers, as_filter, left_out_by, outside
from ._stored import Stored
from .errors import NoDataAvailableError, refused
from .predicates import PredicateBase
from .transform import TransformSpec, transform_schema

__all__: list[str] = []

_LOG = logging.getLogger("forebay")

#: The largest number of rows in a batch of the loader behind a reader: ``_ROWS`` if rows become Python
#: objects, and ``_COLUMN_ROWS`` if columns stay arrays.
_ROWS = 256
_COLUMN_ROWS = 1 << 16


class Plan:
    """The checked arguments of a reader. A plan makes the loader of the reader, and the items that the reader
    yields."""

    def __init__(
        self,
        stored: Stored,
        is_batched: bool,
        *,
        schema_fields: Any,
        predicate: Any,
        filters: Any,
        transform_spec: Any,
        num_epochs: Any,
        order: Order,
        cache: DiskCache | None,
        pool: str,
        workers_count: int,
        row_groups: Iterable[int] | None = None,
    ) -> None:
        self.is_batched = is_batched
        self.order = order
        self.num_epochs = num_epochs
        self._predicate = _checked_predicate(predicate)
        self._filters = filters
        self._spec: TransformSpec | None = transform_spec
        self._cache = cache
        self._pool = pool
        self._workers_count = workers_count
        self._row_groups = None if row_groups is None else np.unique(np.fromiter(row_groups, np.int64))
        self._stored_schema = _view(stored, schema_fields)
        self.schema = self._stored_schema
        if transform_spec is not None:
            self.schema = transform_schema(self._stored_schema, transform_spec)
        self._row = self.schema._get_namedtuple()
        self._batches = BatchMaker(kinds_of(stored, self._stored_schema), self.schema, transform_spec)

    def is_decided_by_folders(self, stored: Stored) -> bool:
        """Whether the predicate needs only the keys in the names of folders, such as ``day`` in ``day=3``."""
        fields = set() if self._predicate is None else set(self._predicate.get_fields())
        return bool(fields) and fields <= set(stored.keys)

    def check_shards(self, stored: Stored) -> None:
        """Raises an error if there are more shards than rows or row groups, before anything is read."""
        world = 0 if self.order.shard is None else self.order.shard.world
        dataset = stored.dataset
        row_groups = dataset.num_row_groups if self._row_groups is None else len(self._row_groups)
        last = -1 if self._row_groups is None or not len(self._row_groups) else int(self._row_groups[-1])
        if last >= dataset.num_row_groups:
            raise InvalidError(
                f"row group {last} is selected, and {dataset!r} has {dataset.num_row_groups} (build the index again: "
                "the files have changed since)"
            )
        if self.order.by_row_groups and world > row_groups:
            raise _too_many_row_group_shards(world, row_groups)
        if world > dataset.num_rows:
            raise _too_many_shards(world, dataset.num_rows, dataset.num_row_groups)

    def loader(self, stored: Stored) -> Loader | None:
        """Returns the loader; None if no row is selected."""
        options, transform = self._columns(stored)
        rows = _row_group_rows(stored)
        selected = self._selected(stored)
        options.update(
            self.order.options(rows),
            batch_size=min(rows, _COLUMN_ROWS if self.is_batched else _ROWS),
            epochs=self.num_epochs,
            cache=self._cache,
            transform=transform,
            transform_workers=0 if transform is None else self._workers(transform),
            **selected,
        )
        try:
            loader = Loader(stored.dataset, **options)
        except InvalidError as error:
            if "no row is selected" in str(error):
                return None
            raise
        shard, rows = options["shard"], loader.num_rows
        if shard is not None and rows < shard.world:
            loader.close()
            raise _too_many_shards(shard.world, rows, stored.dataset.num_row_groups)
        return loader

    def items(self, batches: Iterable[Any], epoch: int, least: int, stored: Stored) -> Iterator[Any]:
        """Yields the rows or the batches of an epoch. If the epoch has one row fewer than ``least``, its
        first row is repeated at the end."""
        arrived = filled_up(map(self._arrived, map(regular, batches)), least)
        order = self.order.within(epoch)
        if not self.is_batched:
            parts = arrived if order is None else groups(arrived, stored.dataset, order)
            for part in parts:
                yield from map(self._row._make, part[ROWS])
            return
        # Arrays that the user's function returned are not changed in place, because the user may still hold
        # them.
        for part in groups(arrived, stored.dataset, order, in_place=self._spec is None):
            if len(part[ROW_ID]):
                made = self._batches.arrays(part) if self._spec is None else part
                yield self._row(**{name: made[name] for name in self._row._fields})

    def _arrived(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns a batch of the loader without the rows that the loader repeated to fill it up."""
        columns = dict(batch)
        mask = columns.pop("row_mask", None)
        if MADE in columns:
            made: dict[str, Any] = columns[MADE].columns
            length = len(next(iter(made.values()), ()))
            # The user's function may have changed the number of rows, so all rows of the batch get the row id
            # of its first row, and with it that row's row group.
            return {ROW_ID: np.full(length, columns[ROW_ID][0]), **made}
        if mask is None or mask.all():
            return columns
        return {name: taken(column, mask) for name, column in columns.items()}

    def _columns(self, stored: Stored) -> tuple[dict[str, Any], Any]:
        """Returns the arguments of the loader for the columns to read, and its ``transform``, if it needs
        one."""
        if self.is_batched:
            reading = reading_of(stored, self._stored_schema)
            return reading.options(), None if self._spec is None else self._batches
        reading, values = readings(stored, self._stored_schema)
        return reading.options(), RowMaker(values, self._row._fields, self._spec)

    def _selected(self, stored: Stored) -> dict[str, Any]:
        """Returns the arguments of the loader that select the rows to read, ``filter`` and ``deny``."""
        given: dict[str, Any] = {} if not self._filters else {"filter": self._filters}
        left_out: list[int] = []
        if self._predicate is not None:
            expression = None if given else as_filter(self._predicate, stored)
            if expression is not None:
                given["filter"] = expression
            else:
                left_out += left_out_by(self._predicate, stored, self.is_batched, given)
        if self._row_groups is not None or self.order.by_row_groups:
            others, count = outside(stored, self._is_kept)
            self._check_row_groups(stored, count)
            left_out += others
        return {**given, "deny": left_out} if left_out else given

    def _check_row_groups(self, stored: Stored, count: int) -> None:
        """Raises an error if row groups are selected by number but some have no rows, or if there are more
        shards than row groups with rows. ``count`` is the number of row groups with rows."""
        if self._row_groups is not None:
            if count < stored.dataset.num_row_groups:
                raise InvalidError(
                    f"{stored.dataset!r} has row groups without rows, and an index numbers none of those (use filters=)"
                )
        elif self.order.shard is not None and count < self.order.shard.world:
            raise _too_many_row_group_shards(self.order.shard.world, count)

    def _is_kept(self, numbers: Numbers) -> Numbers:
        """Returns for each row whether this process reads it; ``numbers`` has the number of its row group."""
        kept = np.ones(len(numbers), bool)
        if self._row_groups is not None:
            kept = np.isin(numbers, self._row_groups)
            # The selected row groups are numbered from 0, so that they are divided evenly among the shards.
            numbers = np.searchsorted(self._row_groups, numbers)
        if self.order.by_row_groups:
            assert self.order.shard is not None
            kept &= numbers % self.order.shard.world == self.order.shard.rank
        return kept

    def _workers(self, function: Any) -> int | Workers:
        """Returns the ``transform_workers`` of the loader: the threads or processes for the user's
        function."""
        if self._spec is None or self._spec.func is None or self._pool == "dummy":
            return 0
        count = max(1, min(int(self._workers_count), os.cpu_count() or 1))
        if self._pool == "process" and _can_be_sent(function, self._spec.func):
            return Workers(count, threads=False)
        return Workers(count, threads=True)


def _view(stored: Stored, schema_fields: Any) -> Any:
    """Returns the schema of the fields that are read."""
    if schema_fields is None:
        return stored.schema
    if type(schema_fields).__name__ == "NGram":
        raise refused("schema_fields=NGram", "use forebay.Loader with samples=forebay.Window(...)")
    if not isinstance(schema_fields, Iterable) or isinstance(schema_fields, str):
        raise ValueError("schema_fields must be None, or a list of UnischemaField and regular expressions")
    view = stored.schema.create_schema_view(schema_fields)
    if not view.fields:
        raise RuntimeError(
            f"No fields matching the criteria '{list(schema_fields)}' were found in the dataset {stored.dataset!r}."
        )
    return view


def _checked_predicate(predicate: Any) -> PredicateBase | None:
    if predicate is not None and not isinstance(predicate, PredicateBase):
        raise ValueError("predicate parameter is expected to be derived from PredicateBase")
    return predicate


def cache_of(kind: Any, location: Any, size_limit: Any) -> DiskCache | None:
    if kind in (None, "null"):
        return None
    if kind != "local-disk":
        raise ValueError(f"Unknown cache_type: {kind}")
    if size_limit is None:
        raise ValueError("cache_type='local-disk' needs cache_size_limit= in bytes")
    # The cache gets a folder of its own inside the given one, where other files may belong to the user.
    folder = os.path.join(location or tempfile.mkdtemp(prefix="forebay-"), "forebay")
    return DiskCache(folder, max_bytes=int(size_limit))


def _too_many_shards(world: int, rows: int, row_groups: int) -> NoDataAvailableError:
    return NoDataAvailableError(
        f"{world} shards need as many rows, and there are {rows} (Number of row-groups in the dataset: {row_groups})"
    )


def _too_many_row_group_shards(world: int, row_groups: int) -> NoDataAvailableError:
    return NoDataAvailableError(f"{world} shards need as many row groups, and there are {row_groups}")


def _row_group_rows(stored: Stored) -> int:
    """Returns the average number of rows in a row group."""
    return max(1, -(-stored.dataset.num_rows // max(1, stored.dataset.num_row_groups)))


def _can_be_sent(function: Any, of_user: Any) -> bool:
    """Whether worker processes can run ``function``, which calls the user's function ``of_user``."""
    obstacle = _obstacle(function, of_user)
    if obstacle is not None:
        _LOG.warning(
            "the function of the TransformSpec runs in threads and not in processes: %s (define it at the top level of "
            "a module that other processes can import)",
            obstacle,
        )
    return obstacle is None


def _obstacle(function: Any, of_user: Any) -> str | None:
    """Returns the reason why worker processes cannot run a function; None if they can."""
    try:
        pickle.dumps(function)
    except Exception as error:
        return f"it cannot be pickled: {error}"
    try:
        pickled(function)
    except InvalidError:
        return "they cannot import the program, which is not a file"
    module = getattr(getattr(of_user, "func", of_user), "__module__", None)
    if module in (None, "__main__"):
        return None
    try:
        is_found = importlib.util.find_spec(module) is not None
    except (ImportError, ValueError):
        is_found = False
    return None if is_found else f"they cannot import its module, {module}"
