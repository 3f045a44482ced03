"""Columns of categories as integer codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ._forebay import CategoryCounts
from .columns.encoding import Encoding
from .columns.fill import filler
from .dataset import Dataset, opened, refuse_options
from .errors import InvalidError, TooLargeError
from .filters.terms import settled, to_json
from .one_pass import OnePass
from .options.checks import given, named, names, whole
from .options.sizes import parse_bytes
from .options.storage import options

if TYPE_CHECKING:
    from .types import FilterTerm, Location

__all__ = ["Hash", "Vocabulary", "vocabularies"]

_TREATMENTS = ("raise", "code")
#: Rows per batch while values are counted: the next size is tried if a batch exceeds the memory budget.
_BATCHES = (8192, 256, 16, 1)
_SHOWN = 4


@dataclass(frozen=True, repr=False)
class Vocabulary(Encoding):
    """Encodes each value as its position in a list of values: a frozen value for ``encode=``.

    The column is delivered as ``int32``; a column of lists as a :class:`Ragged` of ``int32``, or as an array
    with a row for each list if all lists have one length. The values are all ``str``, for a column of text,
    all ``bytes``, for binary, or all ``int``, for integers.

    Parameters
    ----------
    values : iterable of str, bytes or int
        The values, each once; the first one has code 0. With ``unknown="code"`` or ``null="code"`` there may be
        none.
    unknown : {"raise", "code"}, default "raise"
        How a value that is not in the list is treated: with ``"raise"`` its row is a bad row, with ``"code"``
        it has the code ``len(values)``.
    null : {"raise", "code"}, default "raise"
        How a null is treated, also inside a list: with ``"raise"`` its row is a bad row, unless ``fill_null``
        gives a value; with ``"code"`` it has the last code, ``size - 1``, and ``fill_null`` is refused. A null
        list becomes an empty list, or a list of this code if all lists have one length.

    Raises
    ------
    InvalidError
        ``values`` is empty and there is no other code, lists a value twice, or has values of several types or
        another type.

    Examples
    --------
    >>> import forebay as fb
    >>> cities = fb.Vocabulary(["Berlin", "Paris"], unknown="code")
    >>> cities.size
    3
    >>> cities.values[1]
    'Paris'
    """

    values: tuple[str, ...] | tuple[bytes, ...] | tuple[int, ...]
    """The values; the code of a value is its position."""
    unknown: Literal["raise", "code"] = field(default="raise", kw_only=True)
    """The treatment of values that are not in the list."""
    null: Literal["raise", "code"] = field(default="raise", kw_only=True)
    """The treatment of nulls."""

    def __post_init__(self) -> None:
        if isinstance(self.values, (str, bytes, Mapping, set, frozenset)) or not isinstance(self.values, Iterable):
            raise InvalidError(f"values must be a list of str, bytes or int, got {type(self.values).__qualname__}")
        named(self.unknown, "unknown", _TREATMENTS)
        named(self.null, "null", _TREATMENTS)
        values = tuple(_plain(value) for value in self.values)
        if not values and (self.unknown, self.null) == ("raise", "raise"):
            raise InvalidError("values must not be empty, unless unknown or null is 'code'")
        kinds = {type(value) for value in values}
        if len(kinds) > 1 or not kinds <= set(_KINDS):
            found = ", ".join(sorted(kind.__qualname__ for kind in kinds))
            raise InvalidError(f"values must be all str, all bytes or all int, got {found}")
        if len(set(values)) < len(values):
            twice = next(value for value, count in Counter(values).items() if count > 1)
            raise InvalidError(f"values must differ, got {twice!r} twice")
        for value in values:
            if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
                raise InvalidError(
                    f"values must be from -2**63 to 2**63 - 1, got {given(value)} "
                    '(for larger ones use forebay.Hash, or unknown="code")'
                )
        object.__setattr__(self, "values", values)

    @classmethod
    def of(
        cls,
        urls: Location | Iterable[Location] | Dataset,
        *,
        column: str,
        min_count: int = 1,
        max_size: int | None = None,
        unknown: Literal["raise", "code"] = "raise",
        null: Literal["raise", "code"] = "raise",
        filter: Iterable[FilterTerm] | Iterable[Iterable[FilterTerm]] | None = None,
        fill_null: str | bytes | int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        memory: str | int | None = None,
    ) -> Vocabulary:
        """Makes a vocabulary of the values in a column, the most frequent first; equally frequent values are
        in ascending order.

        The column is read once. In a column of lists the items are counted. All distinct values are held in
        memory.

        Parameters
        ----------
        urls : str, os.PathLike, iterable of them, or Dataset
            As in :class:`Loader`.
        column : str
            Name of the column: text, binary or integers, or lists of these. A field of a structure is
            ``"meta.city"``.
        min_count : int, default 1
            Values that are less frequent are left out.
        max_size : int, optional
            The largest number of values to keep. Default: all.
        unknown, null : {"raise", "code"}, default "raise"
            As in :class:`Vocabulary`.
        filter : list of tuple or list of list of tuple, optional
            The rows to count, as in :class:`Loader`.
        fill_null : str, bytes or int, optional
            The value that replaces nulls in the count. Default: nulls are not counted. Cannot be combined with
            ``null="code"``.
        storage_options : mapping of str, optional
            As in :class:`Loader`.
        memory : int or str, optional
            Budget for the rows that are read, as in :class:`Loader`.

        Returns
        -------
        Vocabulary
            The vocabulary of the values that are kept.

        Raises
        ------
        InvalidError
            A number is out of range, the column is of another type, or no value is left and neither unknown
            values nor nulls have a code.
        TooLargeError
            A row group or a value does not fit ``memory``.

        Examples
        --------
        >>> import forebay as fb
        >>> fb.Vocabulary.of("data/train/", column="label", max_size=3)
        forebay.Vocabulary((0, 1, 2))
        """
        made = vocabularies(
            urls,
            [column],
            min_count=min_count,
            max_size=max_size,
            unknown=unknown,
            null=null,
            filter=filter,
            fill_null=fill_null,
            storage_options=storage_options,
            memory=memory,
        )
        return next(iter(made.values()))

    @property
    def size(self) -> int:
        """The number of codes: an embedding needs this number of rows."""
        return len(self.values) + (self.unknown == "code") + (self.null == "code")

    def _spec(self) -> dict[str, Any]:
        """This object as JSON values, for the spec that the compiled library reads."""
        values = [list(value) if isinstance(value, bytes) else value for value in self.values]
        of_kind = {_KINDS[type(self.values[0])]: values} if values else "empty"
        return {"vocabulary": {"values": of_kind, "unknown": self.unknown, "null": self.null}}

    def __repr__(self) -> str:
        shown = repr(self.values)
        if len(self.values) > _SHOWN:
            shown = f"({', '.join(map(repr, self.values[:_SHOWN]))}, ... {len(self.values)} in all)"
        codes = {"unknown": self.unknown, "null": self.null}
        given = "".join(f", {name}={of!r}" for name, of in codes.items() if of != "raise")
        return f"forebay.Vocabulary({shown}{given})"


@dataclass(frozen=True, repr=False)
class Hash(Encoding):
    """Encodes each value as the number of a bucket, by a hash of the value: a frozen value for ``encode=``.

    The column is delivered as ``int64``; a column of lists as a :class:`Ragged` of ``int64``, or as an array
    with a row for each list if all lists have one length. No value is unknown, and different values may share
    a bucket.

    The bucket is xxHash64 of the value's bytes with the seed, modulo ``buckets``. The bytes are the UTF-8 of
    a text, a binary value as it is, or the eight bytes of an integer in little-endian order. This rule never
    changes: ``xxhash.xxh64_intdigest(value, seed) % buckets`` is the same number.

    Parameters
    ----------
    buckets : int
        Number of buckets, at least 1.
    seed : int, default 0
        From 0 to 2**64 - 1. Another seed distributes the values over the buckets in another way.
    null : {"raise", "code"}, default "raise"
        How a null is treated, as in :class:`Vocabulary`: with ``"code"`` it has the code ``buckets``, which no
        value has.

    Raises
    ------
    InvalidError
        A number is out of range.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Hash(1000)
    forebay.Hash(1000)
    """

    buckets: int
    """Number of buckets; the codes of values are smaller than this."""
    seed: int = field(default=0, kw_only=True)
    """Seed of the hash."""
    null: Literal["raise", "code"] = field(default="raise", kw_only=True)
    """The treatment of nulls."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "buckets", whole(self.buckets, "buckets", 1, 63))
        object.__setattr__(self, "seed", whole(self.seed, "seed", 0))
        named(self.null, "null", _TREATMENTS)

    @property
    def size(self) -> int:
        """The number of codes: an embedding needs this number of rows."""
        return self.buckets + (self.null == "code")

    def _spec(self) -> dict[str, Any]:
        """This object as JSON values, for the spec that the compiled library reads."""
        return {"hash": {"buckets": self.buckets, "seed": self.seed, "null": self.null}}

    def __repr__(self) -> str:
        seed = f", seed={self.seed}" if self.seed else ""
        null = "" if self.null == "raise" else f", null={self.null!r}"
        return f"forebay.Hash({self.buckets}{seed}{null})"


def vocabularies(
    urls: Location | Iterable[Location] | Dataset,
    columns: str | Iterable[str],
    *,
    min_count: int = 1,
    max_size: int | None = None,
    unknown: Literal["raise", "code"] = "raise",
    null: Literal["raise", "code"] = "raise",
    filter: Iterable[FilterTerm] | Iterable[Iterable[FilterTerm]] | None = None,
    fill_null: str | bytes | int | None = None,
    storage_options: Mapping[str, Any] | None = None,
    memory: str | int | None = None,
) -> dict[str, Vocabulary]:
    """Makes a vocabulary for each of several columns in one pass over the data.

    Each is the one that :meth:`Vocabulary.of` makes of the column. Pass the result as ``encode=``. All distinct
    values of all columns are held in memory together.

    Parameters
    ----------
    urls : str, os.PathLike, iterable of them, or Dataset
        As in :class:`Loader`.
    columns : str or iterable of str
        Names of the columns, or patterns such as ``"C*"``: text, binary or integers, or lists of these.
    min_count, max_size, unknown, null, filter, storage_options, memory
        As in :meth:`Vocabulary.of`, for each column. With ``null="code"`` a column of nulls gives a vocabulary
        without values.
    fill_null : str, bytes or int, optional
        The value that replaces nulls in the count of each column. Default: nulls are not counted. Cannot be
        combined with ``null="code"``.

    Returns
    -------
    dict
        The vocabularies by column, in the order of ``columns``.

    Raises
    ------
    InvalidError
        A number is out of range, a column is of another type, or no value of a column is left and neither
        unknown values nor nulls have a code. The error names all such columns.
    UnknownColumnError
        There is no such column.
    TooLargeError
        A row group or a value does not fit ``memory``.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.vocabularies("data/train/", ["label"], max_size=3)
    {'label': forebay.Vocabulary((0, 1, 2))}
    """
    listed = [columns] if isinstance(columns, str) else names(columns, "columns")
    least = whole(min_count, "min_count", 1)
    most = None if max_size is None else whole(max_size, "max_size", 1)
    named(unknown, "unknown", _TREATMENTS)
    named(null, "null", _TREATMENTS)
    if null == "code" and fill_null is not None:
        raise InvalidError("null='code' and fill_null were given, which both give nulls a code (leave out one of them)")
    fills = {} if fill_null is None else {name: filler(fill_null, f"fill_null[{name!r}]") for name in listed}
    spec = {
        "columns": listed,
        "flatten": True,
        "fill_null": fills,
        "memory": None if memory is None else parse_bytes(memory, "memory"),
    }
    rows = to_json(settled(filter))
    refuse_options(urls, storage_options=storage_options)
    dataset = urls if isinstance(urls, Dataset) else opened(urls, options(storage_options), None, filter=rows)
    try:
        counts = _counted(dataset, spec, rows)
    finally:
        if dataset is not urls:
            dataset._native.release()
    values = {column: of.values(least, most) for column, of in counts.items()}
    without = [column for column, of in values.items() if not of]
    if without and (unknown, null) == ("raise", "raise"):
        shown = ", ".join(map(repr, without[:_SHOWN])) + (
            f", ... {len(without)} in all" if len(without) > _SHOWN else ""
        )
        raise InvalidError(
            f"no value is counted {least} times or more in {'column' if len(without) == 1 else 'columns'} {shown} "
            '(leave it out of columns, lower min_count, or pass null="code" or unknown="code")'
        )
    return {column: Vocabulary(of, unknown=unknown, null=null) for column, of in values.items()}


_KINDS: dict[type, str] = {str: "texts", bytes: "bytes", int: "numbers"}


def _plain(value: Any) -> Any:
    """Converts a numpy scalar to a Python object, and returns other values unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def _counted(dataset: Dataset, spec: dict[str, Any], rows: str | None) -> dict[str, CategoryCounts]:
    """Counts how often each value occurs in each column that ``spec`` reads."""

    def of_batches(size: int) -> dict[str, CategoryCounts]:
        counts: dict[str, CategoryCounts] = {}
        with OnePass(dataset._native, {**spec, "batch_size": size}, rows) as batches:
            for batch in batches:
                for column in batch:
                    if column not in counts:
                        counts[column] = CategoryCounts(column)
                    counts[column].add(batch)
        return counts

    *larger, smallest = _BATCHES
    for size in larger:
        with suppress(TooLargeError):
            return of_batches(size)
    return of_batches(smallest)
