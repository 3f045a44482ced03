"""The data sets: rows drawn from a seed, which pyarrow writes in two files each, or in as many as a point needs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import pairwise

import draw
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from work import FOLDER_KEY, SHARES

FILES = 2
# The rows of a batch of a small data set. A small data set has some hundred rows, in whole batches, and only
# shows that everything works.
SMALL_BATCH = 8
SMALL_SHARE = 500
SMALL_GROUPS = 4
# Random numbers do not compress. A dictionary of them would double the work, and so hide what an axis shows.
PLAIN = {"compression": "snappy", "use_dictionary": False}
BARE = {"compression": "none", "use_dictionary": False}


@dataclass(frozen=True)
class Data:
    """One data set: the number of rows, how they are drawn and written, and what the contestants are told of them."""

    rows: int
    group: int  # rows in a row group
    draw: Callable[[np.random.Generator, int], pa.Table]
    written: dict = field(default_factory=lambda: {"compression": "snappy"})
    fills: dict = field(default_factory=dict)  # what is delivered for a null, by column
    cell: int | None = None  # values in each list, if all have as many
    vocabulary: tuple = ()  # the texts of all columns of text, which are delivered as their places in it
    files: int = FILES
    folders: str | None = None  # how a folder is named, if each file, or each source of a mix, has its own
    shares: tuple = ()  # the share of each source, if there are several

    def small(self):
        """Returns a data set of a few whole batches."""
        rows = max(2, self.rows // SMALL_SHARE // SMALL_BATCH) * SMALL_BATCH
        return replace(self, rows=rows, group=-(-rows // SMALL_GROUPS))

    def write(self, folder):
        """Writes the data set into a folder, which appears once it is complete."""
        making = folder.with_name(f"{folder.name}.part")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        table = self.draw(np.random.default_rng(1), self.rows)
        for number, part in enumerate(self.parts(table)):
            place = making / self.folders.format(number) if self.folders else making
            place.mkdir(exist_ok=True)
            pq.write_table(part, place / f"{number}.parquet", row_group_size=self.group, **self.written)
        making.rename(folder)

    def parts(self, table):
        """Yields the rows of each file: one source of a mix, or otherwise whole row groups."""
        if self.shares:
            ends = [self.rows * sum(self.shares[:at]) // sum(self.shares) for at in range(len(self.shares) + 1)]
            yield from (table.slice(first, end - first) for first, end in pairwise(ends))
            return
        in_file = -(-self.rows // self.group // self.files) * self.group
        yield from (table.slice(first, in_file) for first in range(0, self.rows, in_file))


def nulls(share):
    numbers = range(draw.COLUMNS_WITH_NULLS)
    fills = {f"f{at}": float("nan") for at in numbers} | {f"i{at}": 0 for at in numbers}
    return Data(500_000, 50_000, draw.with_nulls(share), PLAIN, fills)


def encoded(encoding, compression="none"):
    """Returns a data set that is written in the encoding of that name, or without a name with dictionaries."""
    how = {"use_dictionary": False, "column_encoding": encoding} if encoding else {"use_dictionary": True}
    return Data(1_000_000, 50_000, draw.categories, {"compression": compression, **how})


def of_clicks(rows, group):
    fills = {f"I{at}": float("nan") for at in range(1, len(draw.CLICK_NULLS) + 1)}
    return Data(rows, group, draw.clicks, fills=fills)


DATA = {
    "clicks-10": of_clicks(100_000, 10),
    "clicks-100": of_clicks(400_000, 100),
    "clicks-1k": of_clicks(1_000_000, 1_000),
    "clicks-10k": of_clicks(2_000_000, 10_000),
    "clicks-100k": of_clicks(2_000_000, 100_000),
    "clicks-1m": of_clicks(2_000_000, 1_000_000),
    "columns-1": Data(8_000_000, 100_000, draw.floats(1), PLAIN),
    "columns-10": Data(2_000_000, 100_000, draw.floats(10), PLAIN),
    "columns-100": Data(400_000, 20_000, draw.floats(100), PLAIN),
    "columns-1k": Data(40_000, 5_000, draw.floats(1_000), PLAIN),
    "columns-10k": Data(8_000, 1_000, draw.floats(10_000), PLAIN),
    "uint8": Data(8_000_000, 100_000, draw.integers(np.uint8)),
    "int8": Data(8_000_000, 100_000, draw.integers(np.int8)),
    "int64": Data(4_000_000, 100_000, draw.integers(np.int64)),
    "binary-50": Data(1_000_000, 50_000, draw.binary(50)),
    "binary-5k": Data(20_000, 2_000, draw.binary(5_000)),
    "binary-2m": Data(80, 10, draw.binary(2_200_000), BARE),
    "fixed-256": Data(400_000, 40_000, draw.fixed_lists(64), BARE, cell=64),
    "fixed-4k": Data(25_000, 2_500, draw.fixed_lists(1_024), BARE, cell=1_024),
    "fixed-2m": Data(80, 10, draw.fixed_lists(550_000), BARE, cell=550_000),
    "list-256": Data(400_000, 40_000, draw.lists(64), BARE),
    "list-4k": Data(25_000, 2_500, draw.lists(1_024), BARE),
    "list-2m": Data(80, 10, draw.lists(550_000), BARE),
    "bytes-2m": Data(80, 10, draw.lists(2_200_000, draw.random_bytes), {"compression": "none"}),
    "fixed-binary-2m": Data(80, 10, draw.fixed_binary(2_200_000), BARE, cell=2_200_000),
    "tokens": Data(20_000, 1_000, draw.tokens(2_048), cell=2_048),
    "nulls-0": nulls(0),
    "nulls-1": nulls(0.01),
    "nulls-10": nulls(0.1),
    "nulls-50": nulls(0.5),
    "plain": encoded("PLAIN"),
    "dictionary": encoded(None),
    "delta": encoded("DELTA_BINARY_PACKED"),
    "split": encoded("BYTE_STREAM_SPLIT"),
    "snappy": encoded("PLAIN", "snappy"),
    "zstd": encoded("PLAIN", "zstd"),
    "lz4": encoded("PLAIN", "lz4"),
    "texts": Data(1_000_000, 50_000, draw.texts, vocabulary=draw.TEXTS),
    "plain-texts": Data(1_000_000, 50_000, draw.texts, PLAIN, vocabulary=draw.TEXTS),
    "keys": Data(2_000_000, 100_000, draw.keys, PLAIN),
    "sorted-keys": Data(2_000_000, 100_000, draw.sorted_keys, PLAIN),
    "structures": Data(1_000_000, 50_000, draw.structures, PLAIN),
    "objects": Data(200_000, 10_000, draw.objects),
    "captions": Data(200_000, 10_000, draw.captions),
    "doubles": Data(1_000_000, 50_000, draw.doubles, PLAIN),
    "table": Data(1_000_000, 50_000, draw.numbers_and_target(20), PLAIN),
    "wide-table": Data(60_000, 10_000, draw.numbers_and_target(784), PLAIN),
    "short-table": Data(100_000, 5_000, draw.numbers_and_target(20), PLAIN),
    "three-tables": Data(2_000_000, 50_000, draw.numbers_and_target(20), PLAIN, folders="{}", shares=SHARES),
    "documents": Data(40_000, 2_000, draw.documents, {"compression": "zstd"}),
    "few-files": Data(1_000_000, 200, draw.numbers_and_target(10)),
    "many-files": Data(1_000_000, 200, draw.numbers_and_target(10), files=5_000),
    "many-folders": Data(200_000, 100, draw.numbers_and_target(10), files=2_000, folders=FOLDER_KEY + "={}"),
    "photographs": Data(1_500, 100, draw.photographs, {"compression": "none"}),
}
