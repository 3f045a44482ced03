"""WebDataset: tar files through a shuffle buffer, with torch's DataLoader."""

import pixels

from loaders import PHOTOGRAPHS, TINY

NEEDS = ["webdataset", "torch", "cv2", "pyarrow"]
PACKAGES = ["webdataset", "torch", "opencv-python-headless"]
ENVIRONMENT = "main"
WORKLOADS = (*PHOTOGRAPHS, *TINY)
READS = "tar files"
PIXELS = pixels.SENTENCE
ROWS_PER_TAR = {"w1": 1_000, "w4": 5_000, "w4m": 5_000}


def convert(work, converted):
    import pyarrow.parquet as pq
    from webdataset import ShardWriter

    with ShardWriter(f"{converted}/%03d.tar", maxcount=ROWS_PER_TAR[work.data], verbose=0) as written:
        at = 0
        for file in work.files:
            for rows in pq.ParquetFile(file).iter_batches(1_000):
                for blob, label in zip(rows["image"].to_pylist(), rows["label"].to_pylist(), strict=True):
                    written.write({"__key__": f"{at:08}", "image": blob, "cls": str(label)})
                    at += 1


class Row:
    """Turns a row into one with a decoded image."""

    def __init__(self, work):
        self.decode = pixels.Pixels(work)

    def __call__(self, row):
        return self.decode(row[0]), int(row[1])


def mixed(work):
    """Returns the size of a shuffle buffer; each worker has a buffer of its own."""
    return work.mixed


def epochs(work, threads, converted):
    import webdataset

    tars = sorted(str(file) for file in converted.glob("*.tar"))
    rows = webdataset.WebDataset(tars, shardshuffle=len(tars), workersplitter=webdataset.split_by_worker)
    rows = rows.shuffle(work.mixed).to_tuple("image", "cls").map(Row(work)).batched(work.batch)
    loader = webdataset.WebLoader(rows, batch_size=None, num_workers=threads, persistent_workers=True)
    return lambda number: ({"image": images, "label": labels} for images, labels in loader)
