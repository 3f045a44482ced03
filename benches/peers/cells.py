"""Turns a column whose cells all have one size into an array."""


def cells(column, work):
    """Returns an Arrow column of fixed-size lists or fixed-size binary as one array, without a copy."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_fixed_size_binary(column.type):
        bytes_of_all = np.frombuffer(column.buffers()[1], np.uint8)
        return bytes_of_all.reshape(-1, *work.cell)[column.offset :][: len(column)]
    return column.flatten().to_numpy().reshape(-1, *work.cell)
