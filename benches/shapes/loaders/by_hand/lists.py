"""Rows with lists: the items of a batch are found by their offsets, and gathered together."""

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
    """Returns the places of the items of lists, and where each list begins and ends among them."""
    begins = offsets[rows].astype(np.int64)
    counts = offsets[rows + 1] - begins
    ends = np.concatenate([[0], np.cumsum(counts)])
    return np.arange(ends[-1]) + np.repeat(begins - ends[:-1], counts), ends


class Lists(Rows):
    """What all lists have in common: the columns of numbers beside them, and the rows of each batch."""

    lists = "tokens"

    def batches(self, table, rows):
        column = joined(table[self.lists])
        others = {name: table[name].to_numpy().take(rows) for name in table.column_names if name != self.lists}
        cells = self.cells(column)
        for begin, chosen in zip(range(0, len(rows), self.work.batch), self.steps(rows), strict=True):
            yield {name: other[begin : begin + len(chosen)] for name, other in others.items()} | cells(chosen)


class Objects(Rows):
    """Structures in lists: the items of a whole pool are gathered field by field."""

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
    """The texts as objects of Python."""

    def delivered(self, texts, ends):
        flat = texts.to_numpy(zero_copy_only=False).tolist()
        return [flat[begin:end] for begin, end in pairwise(ends.tolist())]


class Padded(Lists):
    """Lists of one length, cut or filled up, with a mask of the values."""

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
    """Returns a matrix of lists: to copy each is cheaper than to work out the place of each value."""
    found = np.zeros((len(begins), length), values.dtype)
    for row, begin, count in zip(found, begins.tolist(), counts.tolist(), strict=True):
        row[:count] = values[begin : begin + count]
    return found
