"""Adds a note to an exception of a user's function that names the batch and the row."""

from __future__ import annotations

from .. import _forebay

__all__: list[str] = []


def in_place(error: BaseException, function: str, number: int, native: _forebay.Epoch, row: str = "") -> BaseException:
    """Returns an exception of a user's function, with a note that names the batch and, if known, the row. A
    StopIteration is replaced, because an iterator must not raise it for an error."""
    if isinstance(error, StopIteration):
        # If the iterator raised StopIteration, the epoch would end as if all rows had been delivered.
        stopped, error = error, RuntimeError(f"the {function} raised StopIteration")
        error.__cause__ = stopped
    if hasattr(error, "add_note"):  # from Python 3.11
        where = f"batch {number} (as counted in this run) of epoch {native.number}"
        error.add_note(f"forebay: in the {function} of {row and row + 'of '}{where}")
    return error


def row_place(loader: _forebay.Loader, numbers: list[int], row: int | None) -> str:
    """The file, row group and row of a row of a batch, as the beginning of an error's text; empty if
    unknown."""
    place = None if row is None or row >= len(numbers) else loader.row_place(numbers[row])
    if place is None:
        return ""
    file, row_group, in_group = place
    return f"{file}, row group {row_group}, row {in_group}, which is row {row} "
