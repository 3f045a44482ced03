"""Keeps decoded rows on disk as plain arrays, and gathers batches straight from the mapped files. Row groups that
are mixed together need not be joined by a copy.
"""

from itertools import pairwise

import numpy as np
import pyarrow as pa

from loaders.by_hand.rows import Rows


def kept(file, parts):
    """Returns the mapped bytes of a file; if the file is absent, writes the arrays ``parts`` into it first."""
    if not file.exists():
        file.parent.mkdir(exist_ok=True)
        making = file.with_suffix(".part")
        with open(making, "wb") as out:
            for array in parts:
                array.tofile(out)
        making.rename(file)
    return np.memmap(file, mode="r")


class Kept(Rows):
    """Shuffles row numbers of the whole data set, instead of tables that were read."""

    def begin(self, work):
        self.vocabulary = pa.array(work.vocabulary, pa.string())
        sizes = [self.files[file].metadata.row_group(group).num_rows for file, group in self.groups]
        self.places = [np.arange(begin, end) for begin, end in pairwise(np.cumsum([0, *sizes]))]

    def epoch(self, number):
        random = np.random.default_rng(number)
        rest = np.array([], np.int64)
        for pool in self.pools(number):
            rows = random.permutation(np.concatenate([rest, *(self.places[at] for at in pool)]))
            whole = len(rows) // self.work.batch * self.work.batch
            yield from self.batches(None, rows[:whole])
            rest = rows[whole:]


class Arrays(Kept):
    """Keeps columns of numbers, and columns of texts as codes."""

    def begin(self, work):
        super().begin(work)
        self.arrays = {}
        for name in self.files[0].schema_arrow.names:
            one = self.numbers(name, self.files[0].read_row_group(0, columns=[name])[name])
            self.arrays[name] = kept(work.kept / f"{name}.bin", self.parts(name)).view(one.dtype)

    def parts(self, name):
        """Returns an iterator over a column, with one array for each Parquet file."""
        return (self.numbers(name, file.read(columns=[name])[name]) for file in self.files)

    def batches(self, table, rows):
        return self.slices(self.arrays.items(), rows)
