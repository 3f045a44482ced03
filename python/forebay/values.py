"""Small frozen values for the options of a loader: they compare, hash, pickle, and exist only if they are valid."""

from __future__ import annotations

import operator
import os
import sys
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any

from ._forebay import ACROSS, CACHE_TIERS, MIXINGS
from .errors import InvalidError
from .locations import local
from .sizes import given, parse_bytes

if TYPE_CHECKING:
    from .types import CacheTier, Mixing

__all__ = ["DiskCache", "Shuffle", "Skip", "Workers"]


def whole(value: Any, name: str, least: int, bits: int = 64) -> int:
    """``value`` as an int from ``least`` that fits so many bits, or the error that names the argument."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidError(f"{name} must be an int, got {value!r}") from None
    if isinstance(value, bool):
        raise InvalidError(f"{name} must be an int, got {value!r}")
    if number < least:
        raise InvalidError(f"{name} must be at least {least}, got {given(value)}")
    if number >= 1 << bits:
        raise InvalidError(f"{name} must fit {bits} bits, got {given(value)}")
    return number


def check_filler(value: Any) -> None:
    """Refuses a ``value`` for places without one that is not a number, or that a float64 does not hold."""
    if isinstance(value, bool) or not isinstance(value, Real):
        raise InvalidError(f"value must be a number, got {value!r}")
    # An integer of numpy is compared as a float, and would be equal to the one that it is rounded to.
    exact = int(value) if isinstance(value, Integral) else value
    try:
        is_held = exact != exact or float(exact) == exact
    except OverflowError:
        is_held = False
    if not is_held:
        raise InvalidError(f"value has more digits than a float64 holds, got {given(value)}")


def check_across(value: Any) -> None:
    """Refuses what does not say how far samples run on."""
    named(value, "across", ACROSS)


def named(value: Any, name: str, names: tuple[str, ...]) -> None:
    """Refuses what is not one of the names that an argument may have."""
    if not isinstance(value, str) or value not in names:
        *others, last = map(repr, names)
        raise InvalidError(f"{name} must be {', '.join(others)} or {last}, got {value!r}")


@dataclass(frozen=True, kw_only=True, repr=False)
class Shuffle:
    """How rows are shuffled: row groups in random order, their rows drawn from a rolling window.

    :meth:`exact` is a uniform permutation of all rows instead, and :meth:`stored` does not shuffle.

    Parameters
    ----------
    seed : int
        Decides the order of rows and random image operations, together with the epoch and the data set. 0 to 2**64 - 1.
    window_rows : int, optional
        Rows of the shuffle buffer. Default: as many as 1 GiB of decoded Parquet holds. In epoch 0 rows are dealt while
        the window fills, so its first batches come from few row groups.
    piece_rows : int, optional
        Row groups of more rows are shuffled in pieces of at most so many, each of which is read by itself: for row groups
        that take too much memory as a whole. Default: row groups are not cut. It is a part of the order, and of a position.
    lanes : int, optional
        Interleaved parts that make up the order, so that it does not depend on the world size. Default: the world size
        of the first start. Set it to the largest world that you may resume on.
    mixing : {"window", "exact", "stored"}, default "window"
        Set by :meth:`exact` and :meth:`stored`.

    Raises
    ------
    InvalidError
        A number is out of range, or ``window_rows``, ``piece_rows`` or ``seed`` is given to an order that has none.

    Examples
    --------
    >>> import dataclasses
    >>> import forebay as fb
    >>> shuffle = fb.Shuffle(seed=17, window_rows=100_000)
    >>> dataclasses.replace(shuffle, seed=18)
    forebay.Shuffle(seed=18, window_rows=100000)
    """

    seed: int
    """Decides the order of rows and random image operations."""
    window_rows: int | None = None
    """Rows of the shuffle buffer; ``None`` for as many as 1 GiB holds."""
    piece_rows: int | None = None
    """Rows of a piece of a row group; ``None`` where row groups are not cut."""
    lanes: int | None = None
    """Interleaved parts that make up the order; ``None`` for the world size of the first start."""
    mixing: Mixing = "window"
    """``"window"``, ``"exact"`` or ``"stored"``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", whole(self.seed, "seed", 0))
        for name, bits in (("window_rows", 64), ("piece_rows", 64), ("lanes", 32)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(getattr(self, name), name, 1, bits))
        named(self.mixing, "mixing", MIXINGS)
        for name in ("window_rows", "piece_rows"):
            if self.mixing != "window" and getattr(self, name) is not None:
                raise InvalidError(f"{name}={getattr(self, name)}, but mixing={self.mixing!r} has no window")
        if self.mixing == "stored" and self.seed != 0:
            raise InvalidError(f"seed={self.seed}, but the stored order has no seed")

    @classmethod
    def exact(cls, seed: int, *, lanes: int | None = None) -> Shuffle:
        """A uniform permutation of all rows.

        Each batch draws from all row groups, so it needs a :class:`DiskCache` or enough ``memory=`` for the whole data
        set.

        Parameters
        ----------
        seed : int
            As in :class:`Shuffle`.
        lanes : int, optional
            As in :class:`Shuffle`.

        Returns
        -------
        Shuffle
            The value.

        Examples
        --------
        >>> import forebay as fb
        >>> fb.Shuffle.exact(17)
        forebay.Shuffle.exact(17)
        """
        return cls(seed=seed, lanes=lanes, mixing="exact")

    @classmethod
    def stored(cls, *, lanes: int | None = None) -> Shuffle:
        """The stored order: the same as ``shuffle=None``, but with ``lanes``.

        Parameters
        ----------
        lanes : int, optional
            As in :class:`Shuffle`.

        Returns
        -------
        Shuffle
            The value.

        Examples
        --------
        >>> import forebay as fb
        >>> fb.Shuffle.stored(lanes=8)
        forebay.Shuffle.stored(lanes=8)
        """
        return cls(seed=0, lanes=lanes, mixing="stored")

    def __repr__(self) -> str:
        given = [f"{name}={getattr(self, name)}" for name in ("window_rows", "piece_rows", "lanes") if getattr(self, name)]
        if self.mixing == "stored":
            return f"forebay.Shuffle.stored({', '.join(given)})"
        if self.mixing == "exact":
            return f"forebay.Shuffle.exact({', '.join([str(self.seed), *given])})"
        return f"forebay.Shuffle({', '.join([f'seed={self.seed}', *given])})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Skip:
    """Leaves bad rows out of the batches and counts them, instead of raising.

    A batch is shorter by the rows that are left out of it, so that every rank has the same number of steps;
    :meth:`Loader.skipped` lists them. No batch is empty: one without a row that can be delivered has the next row of its rank's
    that can be. Bad rows are those whose image cannot be decoded, whose tensor has another shape,
    or whose value is not in a vocabulary; those with a null in a column that needs values (numbers, booleans, times,
    binary of fixed length, lists, structures of these) and has no ``fill_null``, and those of row groups that cannot be
    read. Of an image only the part that is wanted is decoded:
    damage outside that part, such as below a crop, is not seen.

    Parameters
    ----------
    at_most : int
        Bad rows to tolerate in one epoch of one rank; one more raises after all. 0 or more. A state has the count, so a run
        that resumes goes on from there.
    refill : bool, default False
        Have batches keep their shape, for models that are compiled: the nearest row of the batch that is good stands in for a
        bad one. It comes twice then, and with ``row_mask=True`` the column ``row_mask`` is True for one of the two.

    Raises
    ------
    InvalidError
        ``at_most`` is not an int of at least 0, or ``refill`` is not a bool.

    Examples
    --------
    >>> import forebay as fb
    >>> loader = fb.Loader("data/train/", on_bad_row=fb.Skip(at_most=10))
    """

    at_most: int
    """Bad rows to tolerate in one epoch of one rank."""
    refill: bool = field(default=False, kw_only=True)
    """Whether batches keep their shape."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "at_most", whole(self.at_most, "at_most", 0))
        if not isinstance(self.refill, bool):
            raise InvalidError(f"refill must be True or False, got {self.refill!r}")

    def _spec(self) -> dict[str, Any]:
        """The value as the library reads it."""
        return {"skip": {"at_most": self.at_most, "refill": self.refill}}

    def __repr__(self) -> str:
        return f"forebay.Skip(at_most={self.at_most}{', refill=True' if self.refill else ''})"


@dataclass(frozen=True, repr=False)
class DiskCache:
    """Decoded rows kept on local disk, shared by the processes of a machine.

    From the second epoch on, rows come from there: without requests to a store and without decoding Parquet. A cache
    that is damaged, full or gone costs time and nothing else; ``loader.stats()`` reports what it did.

    Parameters
    ----------
    path : str or os.PathLike
        A directory on a local disk that only this user writes to. It is created if missing. A relative path becomes
        absolute at once.
    max_bytes : int or str
        Most bytes that it may hold: a number, ``"200GB"``, ``"200g"``, ``"200GiB"`` or ``"200Gi"``. What does not fit
        is read from the store again each epoch; what fits stays. If it holds more when a loader opens it, what was
        not used for longest is removed.
    tier : {"auto", "rows", "coefficients", "resized", "pixels"}, default "auto"
        Form in which images are kept.

        ``"rows"``
            The encoded files as they are: good for every size and augmentation.
        ``"pixels"``
            8-bit pixels, up to the first random operation: not decoded again from the second epoch on, for several
            times the disk space.
        ``"coefficients"``
            The coefficients of JPEGs, without loss: as good for every size and augmentation as the files, with the same
            pixels, for a quarter to a half more disk space. Half or less of the decoding is left.
        ``"resized"``
            JPEGs of the largest size that is needed: for images much larger than that.
        ``"auto"``
            Begins with rows and changes if the loop waits for image decoding and the disk has the space and the speed
            for another form; ``state_dict()`` records which one is used.

    Raises
    ------
    InvalidError
        ``path`` is not a path on this machine, ``max_bytes`` is not a size, or there is no such tier.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.DiskCache("/nvme/forebay", max_bytes="200g")
    forebay.DiskCache('/nvme/forebay', max_bytes=200000000000)
    """

    path: str | os.PathLike[str]
    """The directory."""
    max_bytes: str | int = field(kw_only=True)
    """Most bytes that it may hold."""
    tier: CacheTier = field(default="auto", kw_only=True)
    """Form in which images are kept."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", local(self.path, "path"))
        object.__setattr__(self, "max_bytes", parse_bytes(self.max_bytes, "max_bytes"))
        named(self.tier, "tier", CACHE_TIERS)

    def __repr__(self) -> str:
        tier = "" if self.tier == "auto" else f", tier={self.tier!r}"
        return f"forebay.DiskCache({self.path!r}, max_bytes={self.max_bytes}{tier})"


@dataclass(frozen=True, repr=False)
class Workers:
    """How many batches a transform works on at a time, and where; see ``transform_workers`` of :class:`Loader`.

    Parameters
    ----------
    count : int
        How many; 0 is one thread that works on one batch after the other.
    threads : bool, optional
        True for threads of this process, which help if the function releases the GIL for most of its time; False for
        processes. Default: threads if Python runs without the GIL, else processes.

    Raises
    ------
    InvalidError
        ``count`` is not an int of at least 0, or ``threads`` is not a bool.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Workers(4, threads=True)
    forebay.Workers(4, threads=True)
    """

    count: int
    """How many batches are worked on at a time."""
    threads: bool | None = None
    """Whether in threads; ``None`` for threads if Python runs without the GIL."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", whole(self.count, "transform_workers", 0, 16))
        if self.threads is not None and not isinstance(self.threads, bool):
            raise InvalidError(f"threads must be True or False, got {self.threads!r}")

    @property
    def in_threads(self) -> bool:
        """Whether they are threads."""
        if self.threads is not None:
            return self.threads
        return not getattr(sys, "_is_gil_enabled", lambda: True)()

    def __repr__(self) -> str:
        threads = "" if self.threads is None else f", threads={self.threads}"
        return f"forebay.Workers({self.count}{threads})"
