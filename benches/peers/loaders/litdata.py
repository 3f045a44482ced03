"""LitData, streaming from Parquet with its own DataLoader."""

import os

import pixels

from loaders import PHOTOGRAPHS, TINY

NEEDS = ["litdata", "polars", "torch", "cv2"]
PACKAGES = ["litdata", "polars", "torch", "opencv-python-headless"]
ENVIRONMENT = "main"
WORKLOADS = (*PHOTOGRAPHS, *TINY)
READS = "Parquet, with an index of its own"
PIXELS = pixels.SENTENCE


def convert(work, converted):
    """Links the Parquet files into the folder ``converted``, and writes LitData's index beside the links."""
    import litdata

    for file in work.files:
        os.symlink(os.path.realpath(file), converted / os.path.basename(file))
    litdata.index_parquet_dataset(str(converted))


class Row:
    """Turns a row into one with a decoded image."""

    def __init__(self, work):
        self.decode = pixels.Pixels(work)

    def __call__(self, row):
        return {"image": self.decode(row["image"]), "label": row["label"]}


def mixed(work):
    """LitData mixes rows within a chunk, which is a file."""
    return work.rows // len(work.files)


def epochs(work, threads, converted):
    import litdata
    from litdata.streaming.item_loader import ParquetLoader

    rows = litdata.StreamingDataset(
        str(converted), item_loader=ParquetLoader(), shuffle=True, drop_last=False, transform=Row(work)
    )
    # LitData's Parquet loader does not survive a fork.
    loader = litdata.StreamingDataLoader(
        rows, batch_size=work.batch, num_workers=threads, persistent_workers=True, multiprocessing_context="spawn"
    )
    return lambda number: iter(loader)
