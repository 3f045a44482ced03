"""Where an exception of a user's function belongs: its batch and its row."""

from __future__ import annotations

from .. import _forebay

__all__: list[str] = []


def in_place(error: BaseException, function: str, number: int, native: _forebay.Epoch, row: str = "") -> BaseException:
    """The error of a user's function as an iterator may raise it, with a note on its batch, and on its row if known."""
    if isinstance(error, StopIteration):
        # It would end the epoch as if all rows had come.
        stopped, error = error, RuntimeError(f"the {function} raised StopIteration")
        error.__cause__ = stopped
    if hasattr(error, "add_note"):  # from Python 3.11
        where = f"batch {number} (as counted in this run) of epoch {native.number}"
        error.add_note(f"forebay: in the {function} of {row and row + 'of '}{where}")
    return error


def row_place(loader: _forebay.Loader, numbers: list[int], row: int | None) -> str:
    """The place of a row of a batch, in front of a sentence."""
    place = None if row is None or row >= len(numbers) else loader.row_place(numbers[row])
    if place is None:
        return ""
    file, row_group, in_group = place
    return f"{file}, row group {row_group}, row {in_group}, which is row {row} "
