""":class:`DiskCache`, the option of a loader that keeps decoded rows on a local disk."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .._forebay import CACHE_TIERS
from .checks import named
from .locations import local
from .sizes import parse_bytes

if TYPE_CHECKING:
    from ..choices import CacheTier

__all__ = ["DiskCache"]


@dataclass(frozen=True, repr=False)
class DiskCache:
    """A cache of decoded rows on local disk, shared by the processes of a machine.

    From the second epoch on, rows are read from the cache, without requests to a store and without decoding
    Parquet. A cache that is damaged, full or lost costs only time; ``loader.stats()`` reports its hits and
    misses. See ``docs/guide/cache.md``.

    Parameters
    ----------
    path : str or os.PathLike
        A directory on a local disk that only this user writes to. It is created if missing. A relative path
        becomes absolute at once.
    max_bytes : int or str
        The largest size of the cache in bytes: a number, ``"200GB"``, ``"200g"``, ``"200GiB"`` or
        ``"200Gi"``. Row groups that do not fit are read from the store in each epoch. If a cache is larger
        than this when a loader opens it, its least recently used row groups are removed.
    tier : {"auto", "rows", "coefficients", "resized", "pixels"}, default "auto"
        Form in which images are stored in the cache.

        ``"rows"``
            The encoded files, unchanged. They suit every size and augmentation.
        ``"pixels"``
            Pixels before the first random operation. From the second epoch on nothing is decoded, but the
            cache takes several times the disk space of the files.
        ``"coefficients"``
            The coefficients of JPEGs, without loss. They suit every size and augmentation, give the same
            pixels as the files, and take a quarter to a half more disk space. From the second epoch on, half
            to two thirds of the decoding work is left.
        ``"resized"``
            JPEGs of the largest size that is needed, for stored images that are much larger.
        ``"auto"``
            ``"rows"`` at first, and another form if the loop waits for decoding and the disk has the space
            and the speed for it. ``state_dict()`` records the form. If the files are local and the cache
            would not make reading faster, no rows are kept; ``stats()`` and ``plan()`` say why.

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
    """The directory of the cache."""
    max_bytes: str | int = field(kw_only=True)
    """The largest size of the cache in bytes."""
    tier: CacheTier = field(default="auto", kw_only=True)
    """Form in which images are stored in the cache."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "path", local(self.path, "path"))
        object.__setattr__(self, "max_bytes", parse_bytes(self.max_bytes, "max_bytes"))
        named(self.tier, "tier", CACHE_TIERS)

    def __repr__(self) -> str:
        tier = "" if self.tier == "auto" else f", tier={self.tier!r}"
        return f"forebay.DiskCache({self.path!r}, max_bytes={self.max_bytes}{tier})"
