"""What can go wrong, as exceptions that people already catch.

Every exception here is a :class:`ForebayError`, and also the built-in exception that fits it best, so that existing
``except FileNotFoundError`` and ``except ValueError`` keep working. Each knows its place as far as it is known.
"""

from __future__ import annotations

from typing import Any

__all__ = [
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
]


class ForebayError(Exception):
    """What all exceptions of this package have in common: a sentence, and a place.

    The sentence reads ``place: cause (next move)``. The attributes ``file``, ``row_group``, ``row`` and ``column`` are
    the parts of the place, ``None`` where they are not known.
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
        # KeyError would show the sentence in quotes.
        return self.message

    def __reduce__(self) -> tuple[Any, ...]:
        # The default calls the class with positional arguments only, and OSError has its own ideas.
        place = {"file": self.file, "row_group": self.row_group, "row": self.row, "column": self.column}
        return _rebuild, (type(self), self.message, place, getattr(self, "__notes__", None))


def _rebuild(kind: type[ForebayError], message: str, place: dict[str, Any], notes: list[str] | None) -> ForebayError:
    error = kind(message, **place)
    if notes:
        error.__notes__ = notes
    return error


class NotFoundError(ForebayError, FileNotFoundError):
    """A path, URL or glob matches nothing."""


class InvalidError(ForebayError, ValueError):
    """An argument that can never work: a batch size of 0, a rank outside the world, a malformed URL."""


class UnknownColumnError(ForebayError, KeyError):
    """A column that the data set does not have."""


class UnsupportedError(ForebayError, NotImplementedError):
    """A type, a table format or an option that this version does not support."""


class CorruptError(ForebayError, ValueError):
    """Damaged or malformed Parquet."""


class BadRowError(ForebayError, ValueError):
    """One row that cannot be delivered: a broken image, a null where a value is needed."""


class NullError(BadRowError):
    """A null in a column that was asked for as an array."""


class DatasetChangedError(ForebayError, RuntimeError):
    """A file is no longer the one that was catalogued."""


class StateMismatchError(ForebayError, ValueError):
    """A saved state that does not belong to this loader."""


class TooLargeError(ForebayError, ValueError):
    """Something does not fit the memory budget or a limit on decoded size.

    Not a ``MemoryError``: nothing was allocated, and a larger ``memory=`` is the remedy, not freeing some.
    """


class DeniedError(ForebayError, PermissionError):
    """A store refuses the credentials, or what they may read."""


class IoError(ForebayError, OSError):
    """The operating system or the store failed, or is out of reach."""


class ClosedError(ForebayError, RuntimeError):
    """The loader was closed, or is used from a forked child."""


class InternalError(ForebayError, RuntimeError):
    """A bug in this package."""


# Shown, documented and pickled under the name that users write.
for _name in __all__:
    globals()[_name].__module__ = "forebay"
