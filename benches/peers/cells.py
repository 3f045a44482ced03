"""Turns cells of one size into an array."""


def cells(column, work):
    """Returns the cells of a whole Arrow column, lists or binary of fixed size, without a copy."""
    import numpy as np
    import pyarrow as pa

    if pa.types.is_fixed_size_binary(column.type):
        bytes_of_all = np.frombuffer(column.buffers()[1], np.uint8)
        return bytes_of_all.reshape(-1, *work.cell)[column.offset :][: len(column)]
    return column.flatten().to_numpy().reshape(-1, *work.cell)
