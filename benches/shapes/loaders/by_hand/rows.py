"""Delivers rows of numbers and cells. It reads row groups in random order, a pool of several at a time, and
permutes the rows of a pool.

Files stay open, and one call reads all columns that are wanted from a file. Meanwhile a thread reads the next
pool, even that of the next epoch. Numbers are gathered column by column, so that the column stays in the
processor's cache; wide cells are copied once, into their batch. Texts become codes through their dictionaries.
Rows that pass a filter are read once and kept in memory.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from work import CONTENT, KEY

# For cells wider than this, joining the row groups of a pool by a copy costs more than finding each cell in
# Python.
WIDE = 1 << 16  # bytes of a cell
ROWS_FOR_THREADS = 1_000


class Rows:
    """Delivers columns of numbers and of texts, which become codes, or a single column of cells."""

    columns_read = None  # the columns that are wanted; None: all

    def __init__(self, work):
        self.work = work
        texts = texts_of(work.files[0]) if work.vocabulary else []
        self.files = [pq.ParquetFile(file, memory_map=True, read_dictionary=texts) for file in work.files]
        self.groups = [(at, group) for at, file in enumerate(self.files) for group in range(file.num_row_groups)]
        self.begin(work)

    def begin(self, work):
        """Begins to read the first pool; with a filter, reads all rows that pass it instead."""
        self.vocabulary = pa.array(work.vocabulary, pa.string())
        self.chosen = None
        if work.below is not None:
            self.chosen = pq.read_table(work.files, filters=[(KEY, "<", work.below)], memory_map=True)
            return
        self.reader = ThreadPoolExecutor(1)
        self.coming = self.ask(self.pools(0)[0])

    def held(self):
        return self.work.held

    def pools(self, number):
        """Returns the row groups of an epoch in random order, cut into pools whose rows are permuted together."""
        order = np.random.default_rng(number).permutation(len(self.groups))
        return [order[at : at + self.work.held] for at in range(0, len(order), self.work.held)]

    def ask(self, pool):
        return self.reader.submit(self.read, pool)

    def read(self, pool):
        """Reads the rows of a pool in the order of the files, because they are permuted anyway."""
        chosen = {}
        for at in sorted(pool):
            file, group = self.groups[at]
            chosen.setdefault(file, []).append(group)
        return [self.read_file(file, groups) for file, groups in chosen.items()]

    def read_file(self, file, groups):
        """Reads with Arrow's threads, except for few rows, where waking the threads costs more than it saves."""
        file = self.files[file]
        rows = len(groups) * file.metadata.num_rows // file.num_row_groups
        return file.read_row_groups(groups, columns=self.columns_read, use_threads=rows >= ROWS_FOR_THREADS)

    def epoch(self, number):
        """Yields whole batches; the rows of a pool that do not fill a batch go into the next pool."""
        random = np.random.default_rng(number)
        if self.chosen is not None:
            rows = random.permutation(len(self.chosen))
            yield from self.batches(self.chosen, rows[: len(rows) // self.work.batch * self.work.batch])
            return
        rest = []
        following = [*self.pools(number)[1:], self.pools(number + 1)[0]]
        for pool in following:
            table = pa.concat_tables(rest + self.coming.result())
            self.coming = self.ask(pool)
            rows = random.permutation(len(table))
            whole = len(rows) // self.work.batch * self.work.batch
            yield from self.batches(table, rows[:whole])
            rest = [table.take(rows[whole:])] if whole < len(rows) else []

    def batches(self, table, rows):
        if table.column_names == [CONTENT] and not is_number(table.schema.field(CONTENT).type):
            gather = gathered(table[CONTENT], self.work.cell)
            return ({CONTENT: gather(chosen)} for chosen in self.steps(rows))
        return self.slices(self.columns(table), rows)

    def steps(self, rows):
        """Returns the rows of each batch."""
        return [rows[at : at + self.work.batch] for at in range(0, len(rows), self.work.batch)]

    def slices(self, columns, rows):
        """Gathers the rows of all batches, column by column."""
        gathered = {name: column.take(rows, axis=0) for name, column in columns}
        ends = range(0, len(rows) + 1, self.work.batch)
        return ({name: column[begin:end] for name, column in gathered.items()} for begin, end in pairwise(ends))

    def columns(self, table):
        """Yields the columns of a pool as arrays."""
        for name in table.column_names:
            yield name, self.numbers(name, table[name])

    def numbers(self, name, column):
        """Returns a column as an array; Arrow itself turns nulls into NaN."""
        if pa.types.is_dictionary(column.type):
            return np.concatenate([self.codes(chunk) for chunk in column.chunks])
        fill = self.work.fills.get(name)
        if column.null_count and not math.isnan(fill):
            column = pc.fill_null(column, fill)
        return column.to_numpy()

    def codes(self, chunk):
        """Returns the codes of texts that have a dictionary; each entry of the dictionary is looked up once."""
        return self.code_of(chunk.dictionary).take(chunk.indices.to_numpy())

    def code_of(self, texts):
        return pc.index_in(texts, self.vocabulary).to_numpy().astype(np.int32)


def texts_of(file):
    return [field.name for field in pq.read_schema(file) if pa.types.is_string(field.type)]


def is_number(kind):
    return pa.types.is_integer(kind) or pa.types.is_floating(kind)


def gathered(column, cell):
    """Returns a function that gathers the cells of rows, in the cheapest way for their width and type."""
    wide = column.nbytes > WIDE * len(column)
    if cell and not wide:
        cells = np.concatenate([fixed(chunk, cell) for chunk in column.chunks])
        return lambda rows: cells.take(rows, axis=0)
    if cell:
        cells = [row for chunk in column.chunks for row in fixed(chunk, cell)]
        return lambda rows: np.stack([cells[row] for row in rows])
    if wide:
        cells = [part for chunk in column.chunks for part in parts(chunk)]
        return lambda rows: joined([cells[row] for row in rows])
    joint = column.combine_chunks()
    return lambda rows: values_and_offsets(joint.take(pa.array(rows)))


def fixed(chunk, cell):
    """Returns the cells of a chunk, all of one size, without a copy."""
    if pa.types.is_fixed_size_binary(chunk.type):
        return np.frombuffer(chunk.buffers()[1], np.uint8).reshape(-1, cell)[chunk.offset :][: len(chunk)]
    return chunk.flatten().to_numpy().reshape(-1, cell)


def values_and_offsets(chunk):
    """Returns the arrays behind lists or binary, without a copy."""
    if isinstance(chunk, pa.ListArray):
        return chunk.values.to_numpy(), chunk.offsets.to_numpy()
    _, offsets, values = chunk.buffers()
    offsets = np.frombuffer(offsets, np.int32)[chunk.offset :][: len(chunk) + 1]
    return np.frombuffer(values, np.uint8), offsets


def parts(chunk):
    """Returns the cells of a chunk as views."""
    values, offsets = values_and_offsets(chunk)
    return [values[begin:end] for begin, end in pairwise(offsets)]


def joined(cells):
    return np.concatenate(cells), np.cumsum([0, *map(len, cells)])
