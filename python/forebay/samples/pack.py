"""The options for samples of several lists or rows: packs of tokens, and buckets of rows of similar
length."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from .._forebay import ACROSS
from ..errors import InvalidError
from ..filters.costs import Cost, cost_of, spec_of
from ..options.checks import check_number, named, whole
from ..options.written import written

if TYPE_CHECKING:
    from ..choices import Across

__all__ = ["Bucket", "Pack"]


@dataclass(frozen=True, repr=False)
class Pack:
    """Samples of a fixed length that contain several lists of numbers, such as tokens: a frozen value for
    ``samples=``.

    The packed columns are delivered with shape ``(packs, length)``. By default no other columns are read.
    Other columns that ``columns=[...]`` of the loader lists, and the row ids of ``row_id=True``, are
    delivered as a :class:`Ragged` with a value for each list of a pack, in the order of ``segment_ids``.
    These int32 columns are added:

    - ``position_ids``, of the same shape: the position of each number in its list, counted from the beginning
      of the list in the pack,
    - ``segment_ids``, of the same shape: for each number, the number of its list in the pack, counted from 1;
      0 for the padding at the end,
    - ``cu_seqlens``, a :class:`Ragged`: the borders of the lists in a pack, from 0 to ``length``. The padding
      counts as a list of its own at the end. :meth:`flash` makes the arguments of flash attention from it.

    Lists are packed within their row group, so each row group has one or a few packs that are not full,
    unless ``across`` is given. Packs are the same in each epoch without ``reshuffle``; batches, plans and
    states count packs. The lengths of the lists are read before the first epoch. They are kept on local disk
    if reading them took more than 4 MiB of local files or any request to a store. See
    ``docs/guide/samples.md``.

    Parameters
    ----------
    columns : str or iterable of str
        A column of lists of numbers, or several columns that are packed in the same way. In each row, the
        lists of all columns must have the same length. Fields of structures cannot be packed.
    length : int
        Number of numbers in a pack.
    split : bool or "long", default True
        Join the lists, and cut a list where a pack ends. With False, lists stay whole: each list, the longest
        first, is put into the pack in which it leaves the least room. With ``"long"`` only lists that are longer
        than a pack are split: such a list fills packs of its own, and its remainder is packed like a whole
        list.
    truncate : bool, default False
        With ``split=False``, cut off lists that are longer than a pack. By default such lists are an error,
        or are left out with ``on_bad_row=forebay.Skip(...)``.
    value : float or mapping from str to float, default 0
        The number that fills up a pack, for all columns, or for each column by its name; a column that is not
        named is filled with 0. The type of the column and a float64 must be able to hold the number. Labels
        need -100, or another number that the loss ignores: ``{"labels": -100}``.
    bos, eos : float or mapping from str to float, optional
        Put this number, such as that of the token BOS or EOS, before or after each list: one for all columns, or one
        for each column. It counts in the length of a pack, and in the columns that are added. A list that is
        cut where a pack ends has ``bos`` only where it begins, and ``eos`` only where it ends. A list that is
        cut off by ``truncate`` has no ``eos``. An empty list has neither of them.
    lengths : str, optional
        Column of whole numbers with the length of the lists in each row, without ``bos`` and ``eos``. Packs are then
        planned without reading the lists. A list of another length makes its row bad, and its pack is left out.
        Default: the lists of the first column are read.
    across : {"row_group", "file", "dataset"}, default "row_group"
        How far split lists continue: to the end of their row group, to the end of their file, or through all
        files whose folders have the same keys, in the order of their paths. With ``"file"`` and
        ``"dataset"``, the lists of a pack that crosses a border are read twice: with their own row group, and
        with the row group before it.
    reshuffle : bool, default False
        Make other packs in each epoch: join the lists of a row group in random order or, with
        ``split=False``, pack lists together with other lists. Every epoch has the same number of packs. Their
        content depends only on the data, the seed of the shuffle and the number of the epoch. Needs
        ``across="row_group"``.

    Raises
    ------
    InvalidError
        ``columns`` is empty, ``length`` is not an int of at least 1, or another argument is of the wrong
        type.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Pack("tokens", 2048, split=False)
    forebay.Pack(['tokens'], 2048, split=False)
    >>> fb.Pack(["input_ids", "labels"], 2048, value={"labels": -100}, eos=2)
    forebay.Pack(['input_ids', 'labels'], 2048, value={'labels': -100}, eos=2)
    """

    columns: str | Iterable[str]
    """The columns of lists that are packed."""
    length: int
    """How many numbers a pack has."""
    split: bool | Literal["long"] = field(default=True, kw_only=True)
    """The lists that are cut where a pack ends: all, none, or with ``"long"`` those longer than a pack."""
    truncate: bool = field(default=False, kw_only=True)
    """Whether lists that are longer than a pack are cut off."""
    value: float | Mapping[str, float] = field(default=0, kw_only=True)
    """The number that fills up a pack, for all columns or by column."""
    bos: float | Mapping[str, float] | None = field(default=None, kw_only=True)
    """The number that is put before each list, for all columns or by column."""
    eos: float | Mapping[str, float] | None = field(default=None, kw_only=True)
    """The number that is put after each list, for all columns or by column."""
    lengths: str | None = field(default=None, kw_only=True)
    """Column with the lengths of the lists."""
    across: Across = field(default="row_group", kw_only=True)
    """How far split lists continue: within a row group, within a file, or through all files."""
    reshuffle: bool = field(default=False, kw_only=True)
    """Whether each epoch makes other packs."""

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
        if not isinstance(self.split, bool) and self.split != "long":
            raise InvalidError(f"split must be True, False or 'long', got {self.split!r}")
        for name in ("truncate", "reshuffle"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.split and self.truncate:
            raise InvalidError("truncate=True cuts whole lists off, but long lists are split (pass split=False)")
        for name in ("value", "bos", "eos"):
            number = getattr(self, name)
            if isinstance(number, Mapping):
                object.__setattr__(self, name, _numbers(number, name, columns))
            elif number is not None or name == "value":
                check_number(number, name)
        if self.lengths is not None and not isinstance(self.lengths, str):
            raise InvalidError(f"lengths must be the name of a column, got {self.lengths!r}")
        named(self.across, "across", ACROSS)
        if self.split is not True and self.across != "row_group":
            raise InvalidError(
                f"across={self.across!r} is for lists that are split: whole ones are packed within their row group "
                "(leave it out, or pass split=True)"
            )
        if self.reshuffle and self.across != "row_group":
            raise InvalidError(
                f"reshuffle=True makes packs of one row group each, and across={self.across!r} continues in the next "
                "(leave out one of them)"
            )

    @staticmethod
    def flash(batch: Mapping[str, Any]) -> tuple[np.ndarray[Any, np.dtype[np.int32]], int]:
        """The arguments of flash attention for a batch whose packs are joined to one sequence, as in
        ``batch["tokens"].reshape(-1)``.

        Parameters
        ----------
        batch : mapping
            A batch of packs.

        Returns
        -------
        cu_seqlens : numpy.ndarray
            Where each list begins among all numbers, and where the last one ends, as int32.
        max_seqlen : int
            Length of the longest list.

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
        """This object as JSON values, for the spec that the compiled library reads."""
        spec: dict[str, Any] = {"columns": list(self.columns), "length": self.length, "split": self.split is True}
        spec["split_long"] = self.split == "long"
        for name in ("value", "bos", "eos"):
            number = getattr(self, name)
            if isinstance(number, Mapping):
                spec[name] = {column: float(of) for column, of in number.items()}
            elif number is not None:
                spec[name] = float(number)
        spec |= {"truncate": self.truncate, "lengths": self.lengths, "across": self.across}
        return {"packs": spec | {"reshuffle": self.reshuffle}}

    def __hash__(self) -> int:
        values = (getattr(self, of.name) for of in fields(self))
        return hash(tuple(tuple(sorted(it.items())) if isinstance(it, Mapping) else it for it in values))

    def __repr__(self) -> str:
        return written(self, list(self.columns), self.length)


def _numbers(numbers: Mapping[str, Any], argument: str, columns: tuple[str, ...]) -> dict[str, float]:
    """Checks the argument ``value``, ``bos`` or ``eos`` if it is a dict from columns to numbers. Only
    ``value`` may leave out columns, which are then filled up with 0."""
    for name, number in numbers.items():
        if name not in columns:
            raise InvalidError(
                f"{argument} has a number for {name!r}, which is not packed (the columns are {list(columns)})"
            )
        check_number(number, argument)
    missing = [name for name in columns if name not in numbers]
    if missing and argument != "value":
        raise InvalidError(
            f"{argument} has no number for {missing[0]!r}, but for other columns (lists are packed alike: give each "
            "column a number)"
        )
    return dict(numbers)


@dataclass(frozen=True, repr=False, eq=False)
class Bucket:
    """Samples that consist of several rows of similar length, all from one row group: a frozen value for
    ``samples=``.

    Each bucket is a batch, so rows need little padding to the length of the longest row of their batch. With
    ``batch_size=n`` a batch is n buckets, with up to n times the rows and tokens. All ranks have the same
    number of batches, although their numbers of rows differ. The rows of a row group are sorted by cost and
    cut into buckets, which are the same in each epoch without ``reshuffle``; plans and states count buckets.
    The lengths of the rows are read before the first epoch. They are kept on local disk if reading them took
    more than 4 MiB of local files or any request to a store. See ``docs/guide/samples.md``.

    Parameters
    ----------
    cost : str or ColumnExpression
        What a row costs, such as its number of tokens: the stored name of a column, or arithmetic on columns
        such as ``forebay.col("prompt") + forebay.col("answer")``. A column of lists or texts stands for the
        length of the list or text, and a column of whole numbers for its number. The length of a text is its
        number of UTF-8 bytes.
    rows : int, optional
        The largest number of rows in a bucket.
    tokens : int, optional
        The largest cost of a bucket after all its rows are padded to the longest one: the number of rows,
        times the cost of the most expensive row. If the cost is a sum or product of several columns, each
        column counts with its longest value in the bucket, because each column is padded by itself. A row
        that costs more is an error when the loader is made, or is left out with
        ``on_bad_row=forebay.Skip(...)``. One of ``rows`` and ``tokens`` is needed.
    multiple : int, default 1
        Each length counts as the next multiple of this number. With ``pad={...: forebay.Pad(multiple=64)}``
        and ``multiple=64``, shapes are few and the padded bucket stays within ``tokens``. In a cost of several
        columns, columns of numbers count as they are.
    reshuffle : bool, default False
        Make other buckets in each epoch: a row is sorted as if it were longer by a random amount, of up to an
        eighth of its length. There is then a little more padding, and a ninth of ``tokens`` is left free.
        Every epoch has the same number of buckets, and their rows depend only on the seed of the shuffle and
        the number of the epoch. Not with ``tokens`` and a sum or product of several columns.

    Raises
    ------
    InvalidError
        Neither ``rows`` nor ``tokens`` is given, or an argument is of the wrong type.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Bucket("tokens", tokens=16384)
    forebay.Bucket('tokens', tokens=16384)
    >>> fb.Bucket(fb.col("prompt") + fb.col("answer"), tokens=16384, multiple=64)
    forebay.Bucket(fb.col('prompt') + fb.col('answer'), tokens=16384, multiple=64)
    """

    cost: Cost
    """What a row costs: a column, which stands for its number or the length of its list or text, or arithmetic
    on columns."""
    rows: int | None = field(default=None, kw_only=True)
    """The largest number of rows in a bucket."""
    tokens: int | None = field(default=None, kw_only=True)
    """The largest cost of a bucket, after its rows are padded to the longest one."""
    multiple: int = field(default=1, kw_only=True)
    """Lengths count as multiples of this number."""
    reshuffle: bool = field(default=False, kw_only=True)
    """Whether each epoch makes other buckets."""

    def __post_init__(self) -> None:
        cost_of(self.cost, "cost")
        if self.rows is None and self.tokens is None:
            raise InvalidError("a bucket needs a limit (pass rows=... or tokens=...)")
        if self.rows is not None:
            object.__setattr__(self, "rows", whole(self.rows, "rows", 1, 20))
        if self.tokens is not None:
            object.__setattr__(self, "tokens", whole(self.tokens, "tokens", 1, 62))
        object.__setattr__(self, "multiple", whole(self.multiple, "multiple", 1, 31))
        if not isinstance(self.reshuffle, bool):
            raise InvalidError(f"reshuffle must be True or False, got {self.reshuffle!r}")

    def _spec(self) -> dict[str, Any]:
        """This object as JSON values, for the spec that the compiled library reads."""
        spec = {
            "cost": spec_of(self.cost),
            "rows": self.rows,
            "tokens": self.tokens,
            "multiple": None if self.multiple == 1 else self.multiple,
            "reshuffle": self.reshuffle,
        }
        return {"buckets": spec}

    # Expressions cannot be compared with ==, which makes a condition of them.
    def __eq__(self, other: object) -> bool:
        return self._spec() == other._spec() if isinstance(other, Bucket) else NotImplemented

    def __hash__(self) -> int:
        return hash(repr(self))

    def __repr__(self) -> str:
        return written(self, self.cost)
