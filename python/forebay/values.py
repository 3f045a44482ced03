"""Small frozen values that say how to load: they compare, hash, pickle, and exist only if they are right."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import InvalidError
from .locations import local
from .sizes import parse_bytes

__all__ = ["DiskCache", "Shuffle", "Skip"]


def whole(value: Any, name: str, least: int, bits: int = 64) -> int:
    """``value`` as an int of so many bits, or the error that says which argument is none."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidError(f"{name}={value!r} is no whole number") from None
    if number < least or isinstance(value, bool):
        raise InvalidError(f"{name}={value!r} is out of range ({name} is {least} or more)")
    if number >= 1 << bits:
        raise InvalidError(f"{name}={value!r} is out of range ({name} has {bits} bits)")
    return number


@dataclass(frozen=True, kw_only=True, repr=False)
class Shuffle:
    """How rows are mixed: row groups in random order, their rows drawn from a rolling window.

    Args:
        seed: Decides order and augmentation, together with the epoch and the data set.
        window_rows: Rows held to draw from. Default: as many as 1 GiB of decoded Parquet holds. In epoch 0 rows are dealt
            while the window fills, so its first batches come from few row groups.
        lanes: Interleaved parts that make up the order, so that it does not depend on the world size. Default: the
            world size of the first start.

    ``Shuffle.exact(seed)`` is a uniform permutation of all rows, ``Shuffle.stored()`` no mixing at all.
    """

    seed: int
    window_rows: int | None = None
    lanes: int | None = None
    #: ``"window"``, or what :meth:`exact` and :meth:`stored` make it.
    mixing: Literal["window", "exact", "stored"] = "window"

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", whole(self.seed, "seed", 0))
        for name, bits in (("window_rows", 64), ("lanes", 32)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(getattr(self, name), name, 1, bits))
        if self.mixing not in ("window", "exact", "stored"):
            raise InvalidError(f"mixing={self.mixing!r} is no mixing (use 'window', 'exact' or 'stored')")
        if self.mixing != "window" and self.window_rows is not None:
            raise InvalidError(f"window_rows={self.window_rows}, but mixing={self.mixing!r} has no window")
        if self.mixing == "stored" and self.seed != 0:
            raise InvalidError(f"seed={self.seed}, but the stored order has no seed")

    @classmethod
    def exact(cls, seed: int, *, lanes: int | None = None) -> Shuffle:
        """A uniform permutation of all rows."""
        return cls(seed=seed, lanes=lanes, mixing="exact")

    @classmethod
    def stored(cls, *, lanes: int | None = None) -> Shuffle:
        """The stored order: the same as ``shuffle=None``, but for ``lanes``."""
        return cls(seed=0, lanes=lanes, mixing="stored")

    def __repr__(self) -> str:
        given = [f"{name}={getattr(self, name)}" for name in ("window_rows", "lanes") if getattr(self, name)]
        if self.mixing == "stored":
            return f"forebay.Shuffle.stored({', '.join(given)})"
        if self.mixing == "exact":
            return f"forebay.Shuffle.exact({', '.join([str(self.seed), *given])})"
        return f"forebay.Shuffle({', '.join([f'seed={self.seed}', *given])})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Skip:
    """Rows that cannot be delivered are left out and counted, up to a limit, instead of raising.

    A batch is shorter by the rows that were left out of it, so that all ranks have equally many steps;
    ``loader.skipped()`` lists them. Bad rows are those without a whole image where one is decoded, those with a null
    where an array has no room for one (numbers, booleans, times, binary of fixed length, lists) and ``fill_null``
    gives no value, and those of row groups that cannot be read.

    Args:
        at_most: How many bad rows to tolerate in one epoch of one rank before raising after all.
    """

    at_most: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "at_most", whole(self.at_most, "at_most", 0))

    def __repr__(self) -> str:
        return f"forebay.Skip(at_most={self.at_most})"


@dataclass(frozen=True, repr=False)
class DiskCache:
    """Rows kept on local disk after Parquet decoding, shared by the processes of a machine.

    From the second epoch on, rows come from there: without a request to a store and without decoding Parquet. A cache
    that is damaged, full or gone costs time and nothing else; ``loader.stats()`` says what it did and why not more.

    Args:
        path: A directory on a local disk, of this user alone. It is created if it is not there.
        max_bytes: What it may hold, as a number or as ``"200GB"``. More than that is read from the store again each
            epoch, but what fits stays.
        tier: What is kept of images. ``"rows"``: the files as they are, good for every size and augmentation.
            ``"pixels"``: 8-bit pixels as far as no random step comes before, not decoded again from the second epoch
            on, for several times the disk. ``"resized"``: JPEGs of the largest size that is needed, for images much
            larger than that. ``"auto"`` begins with rows and changes when the loop waits for images to be decoded and
            the disk has the room and the speed for another form; ``state_dict()`` says which is used.
    """

    path: str | os.PathLike[str]
    max_bytes: str | int = field(kw_only=True)
    tier: Literal["auto", "rows", "resized", "pixels"] = field(default="auto", kw_only=True)

    def __post_init__(self) -> None:
        path = os.fspath(self.path) if isinstance(self.path, (str, os.PathLike)) else self.path
        if not isinstance(path, str):
            raise InvalidError(f"path={self.path!r} is no path of a folder")
        local(path, "path")
        object.__setattr__(self, "path", path)
        object.__setattr__(self, "max_bytes", parse_bytes(self.max_bytes, "max_bytes"))
        if self.tier not in ("auto", "rows", "resized", "pixels"):
            raise InvalidError(f"tier={self.tier!r} is no tier (pass 'auto', 'rows', 'resized' or 'pixels')")

    def __repr__(self) -> str:
        tier = "" if self.tier == "auto" else f", tier={self.tier!r}"
        return f"forebay.DiskCache({self.path!r}, max_bytes={self.max_bytes}{tier})"
