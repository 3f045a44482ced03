"""Writes the pixels of one data set of tiny images, as lists of fixed size or as binary: `python raw.py FORM FROM TO`."""

import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pixels import Pixels
from workloads import WORKLOADS

ROWS_PER_GROUP = 5_000


def main():
    form, source, target = sys.argv[1], *map(Path, sys.argv[2:])
    decode = Pixels(WORKLOADS["w4"])
    target.mkdir(parents=True)
    for file in sorted(source.glob("*.parquet")):
        table = pq.read_table(file)
        pixels = np.stack([decode(cell.as_buffer()) for cell in table["image"]]).reshape(table.num_rows, -1)
        if form == "lists":
            cells = pa.FixedSizeListArray.from_arrays(pa.array(pixels.reshape(-1)), pixels.shape[1])
        else:
            cells = pa.array([row.tobytes() for row in pixels], pa.binary(pixels.shape[1]))
        written = pa.table({"image": cells, "label": table["label"]})
        pq.write_table(written, target / file.name, row_group_size=ROWS_PER_GROUP, compression="snappy")


if __name__ == "__main__":
    main()
