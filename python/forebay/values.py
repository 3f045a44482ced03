"""Small frozen values that say how to load: they compare, hash, pickle, and exist only if they are right."""

from __future__ import annotations

import operator
import os
from dataclasses import dataclass, field
from typing import Any, Literal

from .errors import InvalidError
from .sizes import parse_bytes

__all__ = ["DiskCache", "Shuffle", "Skip"]


def whole(value: Any, name: str, least: int) -> int:
    """``value`` as an int, or the error that says which argument is none."""
    try:
        number = operator.index(value)
    except TypeError:
        raise InvalidError(f"{name}={value!r} is no whole number") from None
    if number < least or isinstance(value, bool):
        raise InvalidError(f"{name}={value!r} is out of range ({name} is {least} or more)")
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
    mixing: Literal["window", "exact", "stored"] = field(default="window", init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", whole(self.seed, "seed", 0))
        if self.seed >= 1 << 64:
            raise InvalidError(f"seed={self.seed} is out of range (seed has 64 bits)")
        for name in ("window_rows", "lanes"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(getattr(self, name), name, 1))

    @classmethod
    def exact(cls, seed: int, *, lanes: int | None = None) -> Shuffle:
        """A uniform permutation of all rows."""
        return cls(seed=seed, lanes=lanes)._mixed("exact")

    @classmethod
    def stored(cls, *, lanes: int | None = None) -> Shuffle:
        """The stored order: the same as ``shuffle=None``, but for ``lanes``."""
        return cls(seed=0, lanes=lanes)._mixed("stored")

    def _mixed(self, mixing: str) -> Shuffle:
        object.__setattr__(self, "mixing", mixing)
        return self

    def __repr__(self) -> str:
        given = [f"{name}={getattr(self, name)}" for name in ("window_rows", "lanes") if getattr(self, name)]
        if self.mixing == "stored":
            return f"forebay.Shuffle.stored({', '.join(given)})"
        if self.mixing == "exact":
            return f"forebay.Shuffle.exact({', '.join([str(self.seed), *given])})"
        return f"forebay.Shuffle({', '.join([f'seed={self.seed}', *given])})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Skip:
    """Rows that cannot be delivered are counted and replaced, up to a limit, instead of raising.

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
        object.__setattr__(self, "path", os.fspath(self.path))
        object.__setattr__(self, "max_bytes", parse_bytes(self.max_bytes, "max_bytes"))
        if self.tier not in ("auto", "rows", "resized", "pixels"):
            raise InvalidError(f"tier={self.tier!r} is no tier (pass 'auto', 'rows', 'resized' or 'pixels')")

    def __repr__(self) -> str:
        tier = "" if self.tier == "auto" else f", tier={self.tier!r}"
        return f"forebay.DiskCache({self.path!r}, max_bytes={self.max_bytes}{tier})"
