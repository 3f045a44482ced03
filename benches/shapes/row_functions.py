"""Functions of one row, as users write them: the same code runs in both contestants."""

import numpy as np

GAMMA = np.uint8(np.round(255 * (np.arange(256) / 255) ** 0.8))


def brightened(row):
    """Returns a photograph with a curve applied to its pixels."""
    return {"image": GAMMA[row["image"]], "label": row["label"]}


def normalised(row):
    """Returns the numbers of a row as one vector of length 1, beside the target."""
    numbers = np.array([value for name, value in row.items() if name != "y"], np.float32)
    return {"x": numbers / np.sqrt(numbers @ numbers), "y": row["y"]}
