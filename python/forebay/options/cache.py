"""Where and in which form rows are kept on a local disk."""

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
