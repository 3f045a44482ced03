"""What a contestant is told."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

CONTENT = "x"  # the column of a data set that has a single column, of cells


@dataclass(frozen=True)
class Work:
    """Files, and the batches that are asked of them."""

    folder: Path
    batch: int  # rows
    window: int | None  # rows that forebay is to mix; None leaves that to it
    threads: int
    fills: dict = field(default_factory=dict)  # what is delivered for a null, by column
    cell: int | None = None  # values in each list, if all have as many
    held: int | None = None  # row groups that the loop by hand mixes

    @property
    def files(self) -> list[Path]:
        """The Parquet files, sorted."""
        return sorted(self.folder.glob("*.parquet"))
