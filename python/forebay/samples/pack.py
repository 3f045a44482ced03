"""Packs of tokens and buckets of rows as the samples of a loader."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from .._forebay import ACROSS
from ..errors import InvalidError
from ..options.checks import check_filler, named, whole

if TYPE_CHECKING:
    from ..choices import Across

__all__ = ["Bucket", "Pack"]


@dataclass(frozen=True, repr=False)
class Pack:
    """Samples of several lists of numbers in a row of one length, such as tokens: a frozen value for ``samples=``.

    The columns are delivered with shape ``(packs, length)``, and no others are read. Beside them are, as int32:

    - ``position_ids``, of this shape: the place of each number in its list, counted from where the list begins in the
      pack,
    - ``segment_ids``, of this shape: which list of the pack a number is of, counted from 1; 0 where the pack is filled
      up,
    - ``cu_seqlens``, a :class:`Ragged`: where the lists of a pack begin and end, from 0 to ``length``. What is filled
      up is a list of its own at the end. :meth:`flash` makes what flash attention takes of it.

    Lists are packed within their row group, so that each of them fills up one pack or a few, unless ``across`` says
    otherwise. Packs are the same in each epoch; batches, plans and states count them. How long the lists are is read
    before the first epoch, and kept on local disk if that took more than 4 MiB of local files or any request to a
    store.

    Parameters
    ----------
    columns : str or iterable of str
        Column of lists of numbers; or several that are packed alike, whose lists are equally long in each row. Fields
        of structures cannot be packed.
    length : int
        Numbers of a pack.
    split : bool, default True
        Put one list after the other, cut where a pack ends. With False lists stay whole: each, from the longest on, is
        put into the pack where it leaves the least room.
    truncate : bool, default False
        With ``split=False``, cut lists off that are longer than a pack. By default they are an error, or are left out
        with ``on_bad_row=forebay.Skip(...)``.
    value : float or mapping from str to float, default 0
        The number that fills up a pack, which the columns' types and a float64 must have: of all columns, or of each by
        its name, where a column that is not named has 0. Labels want -100, or whatever the loss leaves out:
        ``{"labels": -100}``.
    lengths : str, optional
        Column of whole numbers that says how long the lists of each row are, to plan without reading the lists. A list
        of another length is a bad row, and its pack is left out. Default: the lists of the first column are read for
        it.
    across : {"row_group", "file", "dataset"}, default "row_group"
        How far lists that are split run on: to the end of their row group, of their file, or through all files in the
        order of their paths, where the keys of their folders are the same. Lists are then read twice: with their own
        row group, and with that before, which runs on into it.

    Raises
    ------
    InvalidError
        There is no column, ``length`` is not an int of at least 1, or another argument is of the wrong type.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Pack("tokens", 2048, split=False)
    forebay.Pack(['tokens'], 2048, split=False)
    """

    columns: str | Iterable[str]
    """Columns of lists."""
    length: int
    """Numbers of a pack."""
    split: bool = field(default=True, kw_only=True)
    """Whether lists are cut where a pack ends."""
    truncate: bool = field(default=False, kw_only=True)
    """Whether lists that are longer than a pack are cut off."""
    value: float | Mapping[str, float] = field(default=0, kw_only=True)
    """The number that fills up a pack, or that of each column."""
    lengths: str | None = field(default=None, kw_only=True)
    """Column that says how long lists are."""
    across: Across = field(default="row_group", kw_only=True)
    """How far lists run on."""

    def __post_init__(self) -> None:
        columns = [self.columns] if isinstance(self.columns, str) else self.columns
        if isinstance(columns, (bytes, Mapping)) or not isinstance(columns, Iterable):
            raise InvalidError(f"columns must be a name or a list of names, got {columns!r}")
        columns = tuple(columns)
        for name in columns:
            if not isinstance(name, str):
                raise InvalidError(f"columns must be a list of names, got {name!r} in it")
        if not columns or len(set(columns)) < len(columns):
            raise InvalidError(f"columns must be different names, got {list(columns)!r}")
        object.__setattr__(self, "columns", columns)
        object.__setattr__(self, "length", whole(self.length, "length", 1, 31))
        for name in ("split", "truncate"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.split and self.truncate:
            raise InvalidError("truncate=True cuts whole lists off, and they are split (pass split=False)")
        if isinstance(self.value, Mapping):
            object.__setattr__(self, "value", _values(self.value, columns))
        else:
            check_filler(self.value)
        if self.lengths is not None and not isinstance(self.lengths, str):
            raise InvalidError(f"lengths must be the name of a column, got {self.lengths!r}")
        named(self.across, "across", ACROSS)
        if not self.split and self.across != "row_group":
            raise InvalidError(
                f"across={self.across!r} is for lists that are split: whole ones are packed within their row group "
                "(leave it out, or pass split=True)"
            )

    @staticmethod
    def flash(batch: Mapping[str, Any]) -> tuple[np.ndarray[Any, np.dtype[np.int32]], int]:
        """What flash attention takes for a batch whose packs follow each other: ``batch["tokens"].reshape(-1)``.

        Parameters
        ----------
        batch : mapping
            A batch of packs.

        Returns
        -------
        cu_seqlens : numpy.ndarray
            Of int32: where each list begins among all numbers, and where the last one ends.
        max_seqlen : int
            The longest of them.

        Examples
        --------
        >>> import forebay as fb
        >>> import numpy as np
        >>> packs = {"cu_seqlens": [np.array([0, 3, 8]), np.array([0, 8])]}
        >>> fb.Pack.flash(packs)
        (array([ 0,  3,  8, 16], dtype=int32), 8)
        """
        ends, begin = [np.zeros(1, np.int32)], 0
        for pack in batch["cu_seqlens"]:
            pack = np.asarray(pack)
            ends.append((pack[1:] + begin).astype(np.int32))
            begin += int(pack[-1])
        together = np.concatenate(ends)
        return together, int(np.diff(together).max(initial=0))

    def _spec(self) -> dict[str, Any]:
        """The value as the library reads it."""
        spec: dict[str, Any] = {"columns": list(self.columns), "length": self.length, "split": self.split}
        value = self.value
        value = {name: float(of) for name, of in value.items()} if isinstance(value, Mapping) else float(value)
        spec |= {"truncate": self.truncate, "value": value, "lengths": self.lengths, "across": self.across}
        return {"packs": spec}

    def __hash__(self) -> int:
        value = tuple(sorted(self.value.items())) if isinstance(self.value, Mapping) else self.value
        return hash((self.columns, self.length, self.split, self.truncate, value, self.lengths, self.across))

    def __repr__(self) -> str:
        options = [repr(list(self.columns)), repr(self.length)]
        options += [] if self.split else ["split=False"]
        options += ["truncate=True"] if self.truncate else []
        options += [f"value={self.value!r}"] if self.value else []
        options += [f"lengths={self.lengths!r}"] if self.lengths is not None else []
        options += [f"across={self.across!r}"] if self.across != "row_group" else []
        return f"forebay.Pack({', '.join(options)})"


def _values(values: Mapping[str, Any], columns: tuple[str, ...]) -> dict[str, float]:
    """The number of each column that is named."""
    for name, value in values.items():
        if name not in columns:
            raise InvalidError(
                f"value has a number for {name!r}, which is not packed (the columns are {list(columns)})"
            )
        check_filler(value)
    return dict(values)


@dataclass(frozen=True, repr=False)
class Bucket:
    """Samples of several rows of similar length, of one row group: a frozen value for ``samples=``.

    Each bucket is a batch, so that little is filled up where rows are padded to the longest of their batch. With
    ``batch_size=n`` a batch is n buckets and holds up to n times their rows and tokens. All ranks have as many batches,
    however many rows these have. The rows of a row group are sorted by length and cut into buckets, which are the same
    in each epoch; plans and states count buckets. How long rows are is read before the first epoch, and kept on local
    disk if that took more than 4 MiB of local files or any request to a store.

    Parameters
    ----------
    by : str
        Column of lists or texts, whose length is meant, or of whole numbers that say it; by its stored name, as in
        filters. The length of a text is that of its UTF-8, in bytes.
    rows : int, optional
        The most rows of a bucket.
    tokens : int, optional
        The most values of a bucket, each row counted as long as the longest of them. A row that is longer is an error
        when the loader is made, or is left out with ``on_bad_row=forebay.Skip(...)``. One of ``rows`` and ``tokens`` is
        needed.

    Raises
    ------
    InvalidError
        Neither ``rows`` nor ``tokens`` is given, or an argument is of the wrong type.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Bucket("tokens", tokens=16384)
    forebay.Bucket('tokens', tokens=16384)
    """

    by: str
    """Column that says how long rows are."""
    rows: int | None = field(default=None, kw_only=True)
    """The most rows of a bucket."""
    tokens: int | None = field(default=None, kw_only=True)
    """The most values of a bucket."""

    def __post_init__(self) -> None:
        if not isinstance(self.by, str):
            raise InvalidError(f"by must be the name of a column, got {self.by!r}")
        if self.rows is None and self.tokens is None:
            raise InvalidError("a bucket has no end (pass rows=... or tokens=...)")
        if self.rows is not None:
            object.__setattr__(self, "rows", whole(self.rows, "rows", 1, 20))
        if self.tokens is not None:
            object.__setattr__(self, "tokens", whole(self.tokens, "tokens", 1, 62))

    def _spec(self) -> dict[str, Any]:
        """The value as the library reads it."""
        return {"buckets": {"by": self.by, "rows": self.rows, "tokens": self.tokens}}

    def __repr__(self) -> str:
        given = [("rows", self.rows), ("tokens", self.tokens)]
        options = [f"{name}={value!r}" for name, value in given if value is not None]
        return f"forebay.Bucket({', '.join([repr(self.by), *options])})"
