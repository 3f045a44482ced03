"""Which row is which: numbers of rows, and where rows are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..errors import InvalidError

if TYPE_CHECKING:
    from ..dataset import Dataset

__all__ = ["RowId", "RowPlace", "SourcePlace"]


class RowId(int):
    """The number of a row: of the path of its file below what was opened, and its ordinal there.

    It is the same in every process, for each order, filter and set of columns, and in every copy of the data set, and
    stays the same when other files are added or removed. It does not say what the row holds: a file that is written
    again under its name has the same numbers. ``row_id=True`` of :class:`Loader` delivers them as a column.

    Examples
    --------
    >>> import forebay as fb
    >>> dataset = fb.Dataset("data/train/")
    >>> batch = next(iter(fb.Loader(dataset, columns=["label"], row_id=True)))
    >>> place = fb.RowId(batch["row_id"][3]).place(dataset)
    >>> place.row_group, place.row
    (0, 3)
    """

    def place(self, dataset: Dataset) -> RowPlace:
        """Where the row is stored.

        Parameters
        ----------
        dataset : Dataset
            The data set that it is a row of.

        Returns
        -------
        RowPlace
            File, row group and row.

        Raises
        ------
        InvalidError
            The data set has no such row.
        """
        found = dataset._native.row(int(self))
        if found is None:
            raise InvalidError(
                f"{dataset!r} has no row {int(self)} (a row id holds for one root folder and its copies)"
            )
        return RowPlace._of(found)

    def __repr__(self) -> str:
        return f"forebay.RowId({int(self)})"

    __str__ = int.__repr__


class RowPlace(NamedTuple):
    """Where a row is stored.

    Attributes
    ----------
    file : str
        Path or URL of the file.
    row_group : int
        Ordinal of the row group in the file, from 0.
    row : int
        Ordinal of the row in its row group, from 0.
    row_id : RowId
        Its number in the data set.
    """

    file: str
    row_group: int
    row: int
    row_id: RowId

    @classmethod
    def _of(cls, native: tuple[str, int, int, int]) -> RowPlace:
        """The place as the compiled half has it."""
        file, row_group, row, row_id = native
        return cls(file, row_group, row, RowId(row_id))


class SourcePlace(NamedTuple):
    """Where a row of a mix is stored.

    Attributes
    ----------
    source : int
        Which source, from 0.
    file : str
        Path or URL of the file.
    row_group : int
        Ordinal of the row group in the file, from 0.
    row : int
        Ordinal of the row in its row group, from 0.
    row_id : RowId
        Its number in the data set of the source.
    """

    source: int
    file: str
    row_group: int
    row: int
    row_id: RowId

    @classmethod
    def _of_source(cls, source: int, native: tuple[str, int, int, int]) -> SourcePlace:
        """The place as the compiled half has it."""
        return cls(source, *RowPlace._of(native))
