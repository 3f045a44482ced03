"""The axes: along each axis, one property of the files or the window changes and all others stay."""

from __future__ import annotations

from dataclasses import dataclass, replace

from data import DATA, SMALL_BATCH


@dataclass(frozen=True)
class Point:
    """One point of an axis: a data set, and how a contestant reads it."""

    name: str
    data: str
    batch: int = 8_192
    window: int | None = None  # rows; None leaves that to forebay
    below: int | None = None  # the rows are read whose key is below; None: all
    task: str = "rows"  # what becomes of the rows
    tier: str | None = None  # the form of the rows in forebay's cache on disk, which has all of them
    workers: str | None = None  # where a function of a row runs

    def small(self, share):
        """Returns the same point for a small data set with that share of the rows, in whole batches."""
        batch = 1 if self.task in SAMPLES else SMALL_BATCH
        return replace(self, batch=batch, window=self.window and max(1, round(self.window * share)))


@dataclass(frozen=True)
class Axis:
    """Points whose speed should differ little from neighbour to neighbour: in rows a second, or in bytes a
    second where the size of a row changes along the axis."""

    title: str
    points: tuple[Point, ...]
    per_byte: bool = False
    options: bool = False  # whether points are options that cost differently, so that neighbours are not compared


ROW_GROUPS = {"10": "10", "100": "100", "1k": "1k", "10k": "10k", "100k": "100k", "1M": "1m"}
WINDOWS = {"1k": 1_024, "8k": 8_192, "64k": 65_536, "400k": 400_000, "default": None, "all": DATA["clicks-100k"].rows}
# The rows of a batch, by the number of columns. From 100 columns on, the row groups that are mixed together
# make whole batches, so that no rows are carried over into the next ones.
COLUMNS = {"1": 8_192, "10": 8_192, "100": 4_000, "1k": 1_000, "10k": 250}
# The rows of a batch, by the data set; each is named after the type of its cells, and most also after their bytes.
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
SAMPLES = ("windows", "windows apart", "packs", "buckets")  # tasks whose batches count samples, not rows


def mixed(data):
    return POOL * DATA[data].group


def at(name, data, batch=8_192, **how):
    """Returns a point where the rows of four row groups are mixed."""
    return Point(name, data, batch, mixed(data), **how)


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
        tuple(at(name, f"columns-{name}", batch) for name, batch in COLUMNS.items()),
        per_byte=True,
    ),
    "widths": Axis(
        "kinds and bytes of a cell, in one column, from 1 to 2.2 million",
        tuple(at(data, data, batch) for data, batch in WIDTHS.items()),
        per_byte=True,
    ),
    "nulls": Axis(
        "nulls, in percent, of 10 columns of float32 and 10 of int64",
        tuple(at(str(share), f"nulls-{share}") for share in (0, 1, 10, 50)),
    ),
    "encodings": Axis(
        "encoding, then codec of plain, of 20 columns of int32",
        tuple(at(name, name) for name in ("plain", "dictionary", "delta", "split", "snappy", "zstd", "lz4")),
    ),
    "categories": Axis(
        "12 columns of text as codes: of dictionaries, of plain pages, of dictionaries in a cache; hashed",
        (
            at("dictionary", "texts"),
            at("plain", "plain-texts"),
            at("cached", "texts", tier="rows"),
            at("hash", "texts", task="hash"),
        ),
        options=True,
    ),
    "filters": Axis(
        "rows that a filter leaves, in percent of a table of 10 columns of float32: scattered, then together",
        (
            *(at(str(share), "keys", 1_024, below=share) for share in (1, 10, 50, 100)),
            *(at(f"{share} together", "sorted-keys", 1_024, below=share) for share in (1, 10, 50)),
        ),
    ),
    "nested": Axis(
        "structures of 20 numbers, whole and as columns; boxes with labels; five captions a row, in Arrow and as texts",
        (
            at("structures", "structures", task="structures"),
            at("flat", "structures", task="flat"),
            at("objects", "objects", 256, task="objects"),
            at("captions", "captions", 256, task="captions"),
            at("texts", "captions", 256, task="texts"),
        ),
        options=True,
    ),
    "forms": Axis(
        "20 columns: as they are, cast to half the size, as one matrix, and 784 as one; with masks of nulls; lists padded",
        (
            at("none", "table"),
            at("cast", "doubles", task="cast"),
            at("matrix", "table", task="matrix"),
            at("wide matrix", "wide-table", 1_024, task="matrix"),
            at("masks", "nulls-10", task="masks"),
            at("pad", "documents", 256, task="pad"),
            at("pad to longest", "documents", 256, task="pad to longest"),
        ),
        options=True,
    ),
    "samples": Axis(
        "windows of 16 rows that overlap and that do not, packs of 2,048 tokens, buckets of 16,384, a mix of 3 tables",
        (
            at("windows", "table", 256, task="windows"),
            at("windows apart", "table", 256, task="windows apart"),
            at("packs", "documents", 8, task="packs"),
            at("buckets", "documents", 1, task="buckets"),
            at("mix", "three-tables", task="mix"),
        ),
        options=True,
    ),
    "files": Axis(
        "files: row groups of 200 rows in 2 files and in 5,000, and 2,000 files of 100 rows in folders with a key",
        (
            Point("2", "few-files", 256, 8_000),
            Point("5000", "many-files", 256, 8_000),
            Point("folders", "many-folders", 256, 8_000, task="folders"),
        ),
    ),
    "caches": Axis(
        "a cache on disk: a table without and with one; photographs without, with coefficients, with pixels",
        (
            at("table", "table"),
            at("rows", "table", tier="rows"),
            at("photographs", "photographs", 64, task="photographs"),
            at("coefficients", "photographs", 64, task="photographs", tier="coefficients"),
            at("pixels", "photographs", 64, task="photographs", tier="pixels"),
        ),
        options=True,
    ),
    "functions": Axis(
        "a function of a row: of a table, on one thread and in processes, seeded and not; of photographs, on threads too",
        (
            at("table", "short-table", 1_024, task="function", workers="own"),
            at("table processes", "short-table", 1_024, task="function", workers="processes"),
            at("table unseeded", "short-table", 1_024, task="function", workers="unseeded"),
            at("photographs", "photographs", 64, task="photographs", workers="own"),
            at("photographs threads", "photographs", 64, task="photographs", workers="threads"),
            at("photographs processes", "photographs", 64, task="photographs", workers="processes"),
        ),
        options=True,
    ),
}
