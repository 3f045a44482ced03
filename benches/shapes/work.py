"""The work that a contestant is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

CONTENT = "x"  # the column of a data set that has a single column, of cells
KEY = "key"  # the column that a filter is about


@dataclass(frozen=True)
class Work:
    """The files, and the batches that are requested from them."""

    folder: Path
    batch: int  # rows
    window: int | None  # rows that forebay is to mix; None leaves that to it
    threads: int
    fills: dict = field(default_factory=dict)  # what is delivered for a null, by column
    cell: int | None = None  # values in each list, if all have as many
    held: int | None = None  # row groups that the loop by hand mixes
    vocabulary: tuple = ()  # the texts of all columns of text, which are delivered as their places in it
    below: int | None = None  # the rows are read whose key is below; None: all
    cached: bool = False  # whether forebay has a cache on disk, with all rows in it

    @property
    def files(self) -> list[Path]:
        """The paths of the Parquet files, sorted."""
        return sorted(self.folder.glob("*.parquet"))
