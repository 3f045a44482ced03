"""The work that a contestant is given."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

CONTENT = "x"  # the column of a data set that has a single column, of cells
KEY = "key"  # the column that a filter is about
FOLDER_KEY = "day"  # the key of folders
MASK = ".mask"  # what the name of a mask adds to that of its column
WINDOW = 16  # rows of a window
PACK = 2_048  # tokens of a pack
PADDED = 512  # tokens to which lists are padded, or cut
BUCKET = 16_384  # tokens of a bucket, with its padding
BUCKETS = 100_000  # numbers that a hash of a text is reduced to
SHARES = (5, 3, 2)  # the weights of the sources of a mix, which are numbered folders
SIDE = 224  # pixels of a crop


@dataclass(frozen=True)
class Work:
    """The files, and the batches that are requested from them."""

    folder: Path
    batch: int  # rows, or samples
    window: int | None  # rows that forebay is to mix; None leaves that to it
    threads: int
    fills: dict = field(default_factory=dict)  # what is delivered for a null, by column
    cell: int | None = None  # values in each list, if all have as many
    held: int | None = None  # row groups that the loop by hand mixes
    vocabulary: tuple = ()  # the texts of all columns of text, which are delivered as their places in it
    below: int | None = None  # the rows are read whose key is below; None: all
    task: str = "rows"  # what becomes of the rows; the loaders have a function for each
    tier: str | None = None  # the form of the rows in forebay's cache on disk, which has all of them; None: no cache
    workers: str | None = None  # where a function of a row runs: a key in forebay.py; None: no function

    @property
    def files(self) -> list[Path]:
        """The paths of the Parquet files, sorted."""
        return sorted(self.folder.rglob("*.parquet"))

    @property
    def kept(self) -> Path:
        """The folder in which the loop by hand keeps decoded rows."""
        return self.folder.with_suffix(".kept")
