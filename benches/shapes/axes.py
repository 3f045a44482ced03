"""The axes: along each axis, one property of the files or the window changes and all others stay."""

from __future__ import annotations

from dataclasses import dataclass, replace

from data import DATA, SMALL_BATCH


@dataclass(frozen=True)
class Point:
    """One data set, and how it is read."""

    name: str
    data: str
    batch: int = 8_192
    window: int | None = None  # rows; None leaves that to forebay
    below: int | None = None  # the rows are read whose key is below; None: all
    cached: bool = False  # whether forebay has a cache on disk, with all rows in it

    def small(self, share):
        """Returns the same point for a small data set with that share of the rows."""
        return replace(self, batch=SMALL_BATCH, window=self.window and max(1, round(self.window * share)))


@dataclass(frozen=True)
class Axis:
    """Points whose speed should differ little from neighbour to neighbour: in rows a second, or in bytes a
    second where the size of a row changes along the axis."""

    title: str
    points: tuple[Point, ...]
    per_byte: bool = False


ROW_GROUPS = {"10": "10", "100": "100", "1k": "1k", "10k": "10k", "100k": "100k", "1M": "1m"}
WINDOWS = {"1k": 1_024, "8k": 8_192, "64k": 65_536, "400k": 400_000, "default": None, "all": DATA["clicks-100k"].rows}
# The rows of a batch. Where there are many columns, a pool holds whole batches, so that no rows remain to be
# carried over.
COLUMNS = {"1": 8_192, "10": 8_192, "100": 4_000, "1k": 1_000, "10k": 250}
# The rows of a batch, by bytes of a cell.
WIDTHS = {
    "uint8": 8_192,
    "int8": 8_192,
    "int64": 8_192,
    "binary-50": 8_192,
    "fixed-256": 1_024,
    "list-256": 1_024,
    "fixed-4k": 256,
    "list-4k": 256,
    "binary-5k": 256,
    "tokens": 32,
    "fixed-2m": 8,
    "list-2m": 8,
    "binary-2m": 8,
    "fixed-binary-2m": 8,
    "bytes-2m": 8,
}
POOL = 4  # row groups that are mixed where the window is not what changes


def mixed(data):
    return POOL * DATA[data].group


AXES = {
    "row-groups": Axis(
        "rows in a row group, of a table of 40 columns, window 65,536",
        tuple(Point(name, f"clicks-{data}", window=65_536) for name, data in ROW_GROUPS.items()),
    ),
    "windows": Axis(
        "rows of the window, on that table in row groups of 100,000",
        tuple(Point(name, "clicks-100k", window=window) for name, window in WINDOWS.items()),
    ),
    "columns": Axis(
        "columns of float32",
        tuple(Point(at, f"columns-{at}", batch, mixed(f"columns-{at}")) for at, batch in COLUMNS.items()),
        per_byte=True,
    ),
    "widths": Axis(
        "kinds and bytes of a cell, in one column, from 1 to 2.2 million",
        tuple(Point(data, data, batch, mixed(data)) for data, batch in WIDTHS.items()),
        per_byte=True,
    ),
    "nulls": Axis(
        "nulls, in percent, of 10 columns of float32 and 10 of int64",
        tuple(Point(str(share), f"nulls-{share}", window=mixed(f"nulls-{share}")) for share in (0, 1, 10, 50)),
    ),
    "encodings": Axis(
        "encoding, then codec of plain, of 20 columns of int32",
        tuple(
            Point(name, name, window=mixed(name))
            for name in ("plain", "dictionary", "delta", "split", "snappy", "zstd", "lz4")
        ),
    ),
    "categories": Axis(
        "12 columns of text as codes: of dictionaries, of plain pages, of dictionaries in a cache",
        (
            Point("dictionary", "texts", window=mixed("texts")),
            Point("plain", "plain-texts", window=mixed("plain-texts")),
            Point("cached", "texts", window=mixed("texts"), cached=True),
        ),
    ),
    "filters": Axis(
        "rows that a filter leaves, scattered, in percent of a table of 10 columns of float32",
        tuple(Point(str(share), "keys", batch=1_024, window=mixed("keys"), below=share) for share in (1, 10, 50, 100)),
    ),
}
