"""Sums over the values of batches. They depend neither on the order of the rows nor on how the rows are cut into
batches, so they are equal for two contestants that deliver the same rows.
"""

import zlib

PRIME = 1_021  # values are taken modulo this, so that no large one hides the others
PLACES = 97  # weights of the places of a row
LOOKED = 4_096  # values at the beginning of a row that count
UNLIKE = {"image"}  # columns whose pixels may differ: contestants draw other crops and resize otherwise
TOGETHER = " together"  # the name of a sum over all columns; no column has a space at its beginning


def rows(batch):
    """Returns the number of rows, or samples, of a batch."""
    column = next(iter(batch.values()))
    return len(column[-1]) - 1 if isinstance(column, tuple) else len(column)


def sums(batch):
    """Returns a sum for each column, and one over all columns that changes if a value moves to another row."""
    import numpy as np

    alike = {name: of_rows(column) for name, column in batch.items() if name not in UNLIKE}
    found = {name: float(each.sum()) for name, each in alike.items()}
    together = sum((at + 1) * alike[name] for at, name in enumerate(sorted(alike)))
    return found | {TOGETHER: float(np.sum(np.square(together)))}


def of_rows(column):
    """Returns a number for each row, which depends on its values and on their places in the row."""
    if isinstance(column, tuple):
        return of_lists(*column)
    if isinstance(column, list):
        return of_texts(column)
    return weighed(column.reshape(len(column), -1)[:, :LOOKED])


def weighed(cells):
    """Returns a number for each row of a matrix: the sum of its values, weighted by their places."""
    import numpy as np

    values = np.mod(np.nan_to_num(np.asarray(cells, np.float64), nan=PRIME / 2), PRIME)
    return values @ (1.0 + np.arange(cells.shape[1]) % PLACES)


def of_lists(values, *offsets):
    """Returns a number for each list. If lists are nested, the offsets of the innermost ones come first."""
    import numpy as np

    bounds = offsets[-1]
    for inner in reversed(offsets[:-1]):
        bounds = inner[bounds]
    counts = np.minimum(np.diff(bounds), LOOKED)
    row = np.repeat(np.arange(len(counts)), counts)
    place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
    chosen = values[bounds[:-1][row] + place]
    numbers = weighed(chosen.reshape(len(chosen), -1)) * (1.0 + place % PLACES)
    found = np.bincount(row, numbers, len(counts))
    return found if len(offsets) == 1 else found + of_lists(np.diff(offsets[0]), *offsets[1:])


def of_texts(column):
    """Returns a number for each row, which is a Python string or a list of them."""
    import numpy as np

    cells = ([cell] if isinstance(cell, str) else cell for cell in column)
    marks = (sum((at + 1) * (zlib.crc32(text.encode()) % PRIME) for at, text in enumerate(cell)) for cell in cells)
    return np.fromiter(marks, np.float64)
