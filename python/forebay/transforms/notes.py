"""Adds the batch and the row to an exception of a user's function."""

from __future__ import annotations

from .. import _forebay

__all__: list[str] = []


def in_place(error: BaseException, function: str, number: int, native: _forebay.Epoch, row: str = "") -> BaseException:
    """An exception of a user's function, in a form that an iterator may raise, with a note on the batch and,
    if known, the row."""
    if isinstance(error, StopIteration):
        # A StopIteration would end the epoch as if all rows had been delivered.
        stopped, error = error, RuntimeError(f"the {function} raised StopIteration")
        error.__cause__ = stopped
    if hasattr(error, "add_note"):  # from Python 3.11
        where = f"batch {number} (as counted in this run) of epoch {native.number}"
        error.add_note(f"forebay: in the {function} of {row and row + 'of '}{where}")
    return error


def row_place(loader: _forebay.Loader, numbers: list[int], row: int | None) -> str:
    """The place of a row of a batch, as the beginning of a sentence; empty if it is unknown."""
    place = None if row is None or row >= len(numbers) else loader.row_place(numbers[row])
    if place is None:
        return ""
    file, row_group, in_group = place
    return f"{file}, row group {row_group}, row {in_group}, which is row {row} "
