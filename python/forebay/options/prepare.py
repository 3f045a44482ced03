"""A function that runs once for each row of a data set, before samples are made."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidError
from .checks import kind_of
from .locations import local
from .workers import Workers

__all__ = ["Prepare"]


@dataclass(frozen=True, repr=False)
class Prepare:
    """A function that makes the rows of a data set once, before samples: see ``prepare`` of :class:`Loader`.

    The function takes one row, a :class:`Row`, and returns a dict, as ``transform_rows`` does. It runs once for each
    row of the data set, in stored order, over the columns that ``columns`` of the loader names. Its results are kept
    in a local folder as a Parquet data set with the same files and rows, which the loader then reads: row ids are
    those of the source, and all other options of the loader apply to the prepared columns. An interrupted preparation
    continues after the last row group that it has written. Of several processes that open the folder at once, one
    prepares, and the others wait for it.

    Parameters
    ----------
    function : callable
        From one row to the dict that is kept. It returns one row for each row.
    into : str or os.PathLike
        The local folder for the prepared rows: empty, not there yet, or prepared before. A relative path becomes
        absolute at once.
    version : str
        A name for what the function does. Change it whenever the function or its data changes: a folder of
        another version is refused.
    workers : int or Workers, default 0
        Where the function runs, as for ``transform_workers`` of :class:`Loader`: 0 for one thread of this process,
        ``4`` for four processes, ``Workers(4, threads=True)`` for four threads.
    report : callable, optional
        Called with the number of prepared rows and the number of all rows, whenever rows are finished. Not called if
        the folder is complete. Default: none.

    Raises
    ------
    InvalidError
        ``function`` or ``report`` is not callable, ``into`` is not a folder on this machine, or ``version`` is not a
        text.

    Examples
    --------
    >>> import forebay as fb
    >>> def halved(row):
    ...     return {"half": row["id"] / 2}
    >>> prepare = fb.Prepare(halved, into="prepared/halves/", version="1")
    >>> loader = fb.Loader("data/train/", columns=["id"], prepare=prepare, batch_size=4)
    >>> next(iter(loader))["half"]
    array([0. , 0.5, 1. , 1.5])
    """

    function: Callable[[Any], Any]
    """The function from one row to the dict that is kept."""
    into: str | os.PathLike[str] = field(kw_only=True)
    """The local folder for the prepared rows."""
    version: str = field(kw_only=True)
    """A name for what the function does."""
    workers: int | Workers = field(default=0, kw_only=True)
    """Where the function runs."""
    report: Callable[[int, int], object] | None = field(default=None, kw_only=True, compare=False)
    """Called with the number of prepared rows and of all rows."""

    def __post_init__(self) -> None:
        for name, given in (("function", self.function), ("report", self.report)):
            if not callable(given) and not (name == "report" and given is None):
                raise InvalidError(f"{name} must be callable, got {kind_of(given)}")
        if not isinstance(self.version, str) or not self.version:
            raise InvalidError(f"version must be a text that names what the function does, got {self.version!r}")
        into = os.path.expanduser(local(self.into, "into"))
        if any(sign in into for sign in "*?["):
            raise InvalidError(f"into must be a folder, got the glob {into!r} (pass a path without *, ? and [)")
        object.__setattr__(self, "into", os.path.normpath(into))
        if not isinstance(self.workers, Workers):
            object.__setattr__(self, "workers", Workers(self.workers))

    @property
    def _name(self) -> str:
        """The name of the function, without its module, which differs between a program and an import."""
        function: Any = self.function
        while isinstance(function, functools.partial):
            function = function.func
        name = getattr(function, "__qualname__", None)
        return name if isinstance(name, str) else type(function).__qualname__

    def __repr__(self) -> str:
        workers = "" if self.workers == Workers(0) else f", workers={self.workers!r}"
        return f"forebay.Prepare({self._name}, into={self.into!r}, version={self.version!r}{workers})"
