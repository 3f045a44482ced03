"""Loops that convert the columns they read before they gather rows."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from work import MASK

from loaders.by_hand.rows import Rows


class Flat(Rows):
    """Delivers each number of a structure, at any depth, as a column."""

    def columns(self, table):
        while any(pa.types.is_struct(kind) for kind in table.schema.types):
            table = table.flatten()
        for name, column in zip(table.column_names, table.columns, strict=True):
            yield name.rsplit(".", 1)[-1], column.to_numpy()


class Cast(Rows):
    """Casts numbers to half their size (float32 or int32) before it gathers them."""

    def columns(self, table):
        for name, column in super().columns(table):
            yield name, column.astype(np.float32 if column.dtype.kind == "f" else np.int32)


class Matrix(Rows):
    """Copies the columns of float32 into one matrix, and gathers the rows of the matrix."""

    def columns(self, table):
        names = [name for name in table.column_names if name.startswith("f")]
        matrix = np.empty((len(table), len(names)), np.float32)
        for at, name in enumerate(names):
            matrix[:, at] = table[name].to_numpy()
        yield "y", table["y"].to_numpy()
        yield "x", matrix


class Masks(Rows):
    """Delivers numbers with 0 in place of nulls, and masks that are False where a null was."""

    def columns(self, table):
        for name in table.column_names:
            column = table[name]
            yield name, pc.fill_null(column, 0).to_numpy()
            yield name + MASK, column.is_valid().to_numpy()
