"""Row ids, which are numbers of rows, and the places in the files where rows are stored."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from ..errors import InvalidError

if TYPE_CHECKING:
    from ..dataset import Dataset

__all__ = ["RowId", "RowPlace", "SourcePlace"]


class RowId(int):
    """The number of a row. It is made from the path of the row's file, relative to the opened location, and
    the row's ordinal in the file.

    The number is the same in every process, for each order, filter and set of columns, and in every copy of
    the data set. It stays the same when other files are added or removed. It does not depend on the content
    of the row: a file that is replaced under the same name has the same numbers. In a table that tracks row
    ids, the number is the id that the table gives the row, which it keeps when the table is compacted.
    ``row_id=True`` of :class:`Loader` delivers the numbers as a column.

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
        """The place where the row is stored.

        Parameters
        ----------
        dataset : Dataset
            The data set of the row.

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
    """The place where a row is stored.

    Attributes
    ----------
    file : str
        Path or URL of the file.
    row_group : int
        Ordinal of the row group in the file, from 0. It is 0 in a table whose files each count as one row
        group.
    row : int
        Ordinal of the row in its row group, from 0, or in its file, if the file counts as one row group.
    row_id : RowId
        The number of the row in the data set.
    """

    file: str
    row_group: int
    row: int
    row_id: RowId

    @classmethod
    def _of(cls, native: tuple[str, int, int, int]) -> RowPlace:
        """Makes a place from the tuple that the compiled library returns."""
        file, row_group, row, row_id = native
        return cls(file, row_group, row, RowId(row_id))


class SourcePlace(NamedTuple):
    """The place where a row of a mix is stored.

    Attributes
    ----------
    source : int
        Number of the source, from 0.
    file : str
        Path or URL of the file.
    row_group : int
        Ordinal of the row group in the file, from 0.
    row : int
        Ordinal of the row in its row group, from 0.
    row_id : RowId
        The number of the row in the data set of the source.
    """

    source: int
    file: str
    row_group: int
    row: int
    row_id: RowId

    @classmethod
    def _of_source(cls, source: int, native: tuple[str, int, int, int]) -> SourcePlace:
        """Makes a place from the number of a source and the tuple that the compiled library returns."""
        return cls(source, *RowPlace._of(native))
