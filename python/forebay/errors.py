"""Exceptions of this package.

Every exception is a :class:`ForebayError` and also the built-in exception that fits it best, so existing code
such as ``except FileNotFoundError`` or ``except ValueError`` keeps working. All of them can be imported from
``forebay`` too.

Examples
--------
>>> import forebay as fb
>>> try:
...     fb.Loader("data/train/", columns=["image", "lable"])
... except fb.errors.UnknownColumnError as error:
...     print(error)
there is no column "lable" (did you mean "label"? the columns are image, label, id)
"""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

__all__ = [
    "BadRow",
    "BadRowError",
    "ClosedError",
    "CorruptError",
    "DatasetChangedError",
    "DeniedError",
    "ForebayError",
    "InternalError",
    "InvalidError",
    "IoError",
    "NotFoundError",
    "NullError",
    "StateMismatchError",
    "TooLargeError",
    "UnknownColumnError",
    "UnsupportedError",
    "WorkerError",
]


class ForebayError(Exception):
    """Base class of all exceptions of this package.

    The message reads ``place: cause (next move)``. Passwords and signatures in URLs are hidden.

    Attributes
    ----------
    message : str
        The whole message, the same as ``str(error)``.
    file : str or None
        Path or URL of the file, where known.
    row_group : int or None
        Ordinal of the row group in its file, from 0, where known.
    row : int or None
        Ordinal of the row in its row group, from 0, where known.
    column : str or None
        Name of the column, where known.
    """

    def __init__(
        self,
        message: str = "",
        *,
        file: str | None = None,
        row_group: int | None = None,
        row: int | None = None,
        column: str | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.file = file
        self.row_group = row_group
        self.row = row
        self.column = column

    def __str__(self) -> str:
        # KeyError would show the message in quotes.
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # The default of Exception passes only positional arguments when it unpickles, and OSError's own
        # method passes other arguments than this class takes.
        place = {"file": self.file, "row_group": self.row_group, "row": self.row, "column": self.column}
        return _rebuild, (type(self), self.message, place, getattr(self, "__notes__", None))


def _rebuild(kind: type[ForebayError], message: str, place: dict[str, Any], notes: list[str] | None) -> ForebayError:
    error = kind(message, **place)
    if notes:
        error.__notes__ = notes
    return error


class NotFoundError(ForebayError, FileNotFoundError):
    """A path, URL or glob matches no Parquet file.

    Check the spelling, and whether the process can see the disk or bucket. ``forebay inspect LOCATION`` shows
    which files are found.
    """


class InvalidError(ForebayError, ValueError):
    """An argument is invalid: a batch size of 0, a rank outside the world, a malformed URL.

    The message names the argument and what it accepts. Fix the call; trying again does not help.
    """


class UnknownColumnError(ForebayError, KeyError):
    """The data set has no column of this name.

    The message lists the columns and the nearest name. ``forebay.Dataset(...).columns`` has all of them.
    """


class UnsupportedError(ForebayError, NotImplementedError):
    """This version does not support a type, a table format or an option.

    Leave the column out with ``columns=``, or write the data in a form that the message names.
    """


class CorruptError(ForebayError, ValueError):
    """A file is not Parquet, or is damaged.

    ``file`` and ``row_group`` say where. Write or download the file again, or leave out unreadable row groups
    with ``on_bad_row=forebay.Skip(at_most=...)``.
    """


class BadRowError(ForebayError, ValueError):
    """A row cannot be delivered: its image is broken, or it has a null where a value is needed.

    ``file``, ``row_group``, ``row`` and ``column`` say which. Repair the row, give a value for nulls with
    ``fill_null=``, or leave bad rows out with ``on_bad_row=forebay.Skip(at_most=...)``.
    """


class BadRow(BadRowError):
    """A function of yours, in ``transform_rows`` or ``collate``, raises this error to say that a row is bad.

    With ``on_bad_row=forebay.Skip(at_most=...)`` the row is left out, listed and counted like any other bad
    row. Otherwise the epoch ends with a :class:`BadRowError` that says which row it is.

    Parameters
    ----------
    why : str, optional
        The reason, in words.
    at : mapping or int, optional
        In ``collate``, the bad row: one of the rows of the list, or its position in the list. ``collate`` is
        then called again without this row.

    Examples
    --------
    >>> import forebay as fb
    >>> def even(row):
    ...     if row["id"] % 2:
    ...         raise fb.BadRow("an odd id")
    ...     return {"id": row["id"]}
    >>> skip = fb.Skip(at_most=200)
    >>> loader = fb.Loader("data/train/", columns=["id"], batch_size=6, transform_rows=even, on_bad_row=skip)
    >>> next(iter(loader))["id"]
    array([0, 2, 4])
    >>> loader.skipped()[0].cause
    'an odd id'
    """

    def __init__(self, why: str = "", at: Any = None, **place: Any) -> None:
        super().__init__(why, **place)
        self.at = at


class NullError(BadRowError):
    """A column that was requested as an array has a null.

    Give a value with ``fill_null={"x": 0.0}``, or read the column through Arrow, which has nulls:
    ``pyarrow.record_batch(batch)``.
    """


class DatasetChangedError(ForebayError, RuntimeError):
    """A file changed after its footer was read.

    Make a new :class:`forebay.Dataset` or :class:`forebay.Loader`, and write new files beside the old ones
    instead of over them while a training runs.
    """


class StateMismatchError(ForebayError, ValueError):
    """A saved state does not fit this loader, or the files of a pickled data set or loader have changed.

    The message says what differs: data set, seed, shuffle, filter or version. Make the loader with the
    arguments that it had when the state was saved, or start without the state. If the files of a pickled
    object have changed, make the object anew.
    """


class TooLargeError(ForebayError, ValueError):
    """The batches, the rows or a decoded value do not fit the memory budget or a limit on decoded size.

    It is not a ``MemoryError``: nothing was allocated. Raise ``memory=``, or use a smaller ``batch_size=`` or
    ``window_rows=``; the message says which, and how much is needed.
    """


class DeniedError(ForebayError, PermissionError):
    """A store refuses the credentials, or they do not allow reading this object.

    Check the credentials in ``storage_options=`` or the environment, and that they have not expired.
    """


class IoError(ForebayError, OSError):
    """The operating system or a store failed, or cannot be reached.

    Requests were already retried where a retry can help. Check the network and the store, then resume from
    the last saved state.
    """


class ClosedError(ForebayError, RuntimeError):
    """A loader or an epoch was used after it was closed, or in a forked child.

    Make the loader in the process that uses it, or start workers with ``spawn`` or ``forkserver``. After
    ``load_state_dict``, iterate over the loader again.
    """


class WorkerError(ForebayError, RuntimeError):
    """A worker process of a transform ended, or cannot be started.

    If the process was killed, the machine or the container probably ran out of memory: use fewer workers or
    smaller batches. An exception of the transform itself is raised as it is, unless it cannot be pickled.
    """


class InternalError(ForebayError, RuntimeError):
    """A bug in this package.

    Please report it, with the whole message and the output of ``forebay --version``.
    """


def warn_caller(message: str) -> None:
    """Gives a ``RuntimeWarning`` at the line of the program that called this package."""
    package = os.path.dirname(__file__) + os.sep
    level, frame = 1, sys._getframe()
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        level, frame = level + 1, frame.f_back
    warnings.warn(message, RuntimeWarning, stacklevel=level)
