""":class:`Workers`, the option of a loader for the threads or processes that run a user's functions."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field

from ..errors import InvalidError
from .checks import whole

__all__ = ["Workers"]


@dataclass(frozen=True, repr=False)
class Workers:
    """The number and kind of a transform's workers; see ``transform_workers`` of :class:`Loader`.

    Parameters
    ----------
    count : int
        Number of batches that are transformed at the same time; 0 is one thread for one batch at a time.
    threads : bool, optional
        True for threads of this process, which help if the function releases the GIL for most of its time;
        False for processes. Default: threads if Python runs without the GIL, else processes.
    seeded : bool, default True
        Whether a worker process seeds ``random``, ``numpy.random`` and torch before each row or batch, so that
        functions draw the same numbers from them in every run. This takes about 6 us for a row. False is for functions
        that draw from :func:`rng` alone, or do not draw. Threads never seed them.

    Raises
    ------
    InvalidError
        ``count`` is not an int of at least 0, or ``threads`` or ``seeded`` is not a bool.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Workers(4, threads=True)
    forebay.Workers(4, threads=True)
    """

    count: int
    """Number of batches that are transformed at the same time."""
    threads: bool | None = None
    """Whether the workers are threads; ``None`` for threads if Python runs without the GIL."""
    seeded: bool = field(default=True, kw_only=True)
    """Whether a worker process seeds the generators of libraries before each row or batch."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "count", whole(self.count, "transform_workers", 0, 16))
        if self.threads is not None and not isinstance(self.threads, bool):
            raise InvalidError(f"threads must be True or False, got {self.threads!r}")
        if not isinstance(self.seeded, bool):
            raise InvalidError(f"seeded must be True or False, got {self.seeded!r}")

    @property
    def in_threads(self) -> bool:
        """Whether the workers are threads."""
        if self.threads is not None:
            return self.threads
        return not getattr(sys, "_is_gil_enabled", lambda: True)()

    def __repr__(self) -> str:
        threads = "" if self.threads is None else f", threads={self.threads}"
        seeded = "" if self.seeded else ", seeded=False"
        return f"forebay.Workers({self.count}{threads}{seeded})"
