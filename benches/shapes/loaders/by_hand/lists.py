"""Loops over rows with lists. The offsets of the lists give the places of all items of a batch."""

from itertools import pairwise

import numpy as np
import pyarrow as pa
from work import MASK, PADDED

from loaders.by_hand.rows import Rows


def joined(column):
    """Returns a column of lists as one array."""
    column = column.combine_chunks()
    return pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) else column


def items(offsets, rows):
    """Returns the places of all items of the lists in ``rows``, and the offsets of the lists in that result."""
    begins = offsets[rows].astype(np.int64)
    counts = offsets[rows + 1] - begins
    ends = np.concatenate([[0], np.cumsum(counts)])
    return np.arange(ends[-1]) + np.repeat(begins - ends[:-1], counts), ends


class Lists(Rows):
    """Gathers the columns of numbers beside the lists, and lets a subclass gather the lists of each batch."""

    lists = "tokens"

    def batches(self, table, rows):
        column = joined(table[self.lists])
        others = {name: table[name].to_numpy().take(rows) for name in table.column_names if name != self.lists}
        cells = self.cells(column)
        for begin, chosen in zip(range(0, len(rows), self.work.batch), self.steps(rows), strict=True):
            yield {name: other[begin : begin + len(chosen)] for name, other in others.items()} | cells(chosen)


class Objects(Rows):
    """Delivers lists of structures: for all rows that are mixed together, it gathers the items field by field."""

    def batches(self, table, rows):
        column, ids = joined(table["objects"]), table["id"].to_numpy().take(rows)
        places, ends = items(column.offsets.to_numpy(), rows)
        boxes = column.values.field("box").flatten().to_numpy().reshape(-1, 4)
        fields = {"box": boxes} | {name: column.values.field(name).to_numpy() for name in ("label", "area")}
        gathered = {name: field.take(places, axis=0) for name, field in fields.items()}
        for begin in range(0, len(rows), self.work.batch):
            chosen = ends[begin : begin + self.work.batch + 1]
            cells = {name: (field[chosen[0] : chosen[-1]], chosen - chosen[0]) for name, field in gathered.items()}
            yield {"id": ids[begin : begin + self.work.batch]} | cells


class Captions(Lists):
    lists = "captions"

    def cells(self, column):
        offsets, texts = column.offsets.to_numpy(), column.values

        def gather(rows):
            places, ends = items(offsets, rows)
            return {self.lists: self.delivered(texts.take(pa.array(places)), ends)}

        return gather

    def delivered(self, texts, ends):
        _, offsets, values = texts.buffers()
        return np.frombuffer(values, np.uint8), np.frombuffer(offsets, np.int32)[: len(texts) + 1], ends


class Texts(Captions):
    """Delivers captions as Python strings."""

    def delivered(self, texts, ends):
        flat = texts.to_numpy(zero_copy_only=False).tolist()
        return [flat[begin:end] for begin, end in pairwise(ends.tolist())]


class Padded(Lists):
    """Delivers lists cut or padded to one length, with a mask that is True for values."""

    def cells(self, column):
        values, offsets = column.values.to_numpy(), column.offsets.to_numpy()
        places = np.arange(PADDED)

        def gather(rows):
            begins = offsets[rows]
            counts = np.minimum(offsets[rows + 1] - begins, PADDED)
            mask = places < counts[:, None]
            return {self.lists: padded(values, begins, counts, PADDED), self.lists + MASK: mask}

        return gather


class PaddedToLongest(Lists):
    def cells(self, column):
        values, offsets = column.values.to_numpy(), column.offsets.to_numpy()

        def gather(rows):
            begins = offsets[rows]
            counts = offsets[rows + 1] - begins
            return {self.lists: padded(values, begins, counts, counts.max())}

        return gather


def padded(values, begins, counts, length):
    """Copies lists one by one into a matrix, which is cheaper than computing the place of each value."""
    found = np.zeros((len(begins), length), values.dtype)
    for row, begin, count in zip(found, begins.tolist(), counts.tolist(), strict=True):
        row[:count] = values[begin : begin + count]
    return found
