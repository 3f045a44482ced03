"""MosaicML Streaming, from a local folder of MDS shards with its own DataLoader."""

import pixels

from loaders import PHOTOGRAPHS, TINY

NEEDS = ["streaming", "torch", "cv2", "pyarrow"]
PACKAGES = ["mosaicml-streaming", "torch", "opencv-python-headless"]
ENVIRONMENT = "mds"
WORKLOADS = (*PHOTOGRAPHS, "w3", *TINY)
READS = "MDS"
PIXELS = pixels.SENTENCE


def convert(work, converted):
    import pyarrow.parquet as pq
    from streaming import MDSWriter

    lists = work.kind == "lists"
    columns = {"tokens": f"ndarray:int32:{work.cell[0]}"} if lists else {"image": "bytes", "label": "int"}
    with MDSWriter(out=f"{converted}/rows", columns=columns) as written:
        for file in work.files:
            for rows in pq.ParquetFile(file).iter_batches(1_000):
                if lists:
                    for cell in rows.column(0).flatten().to_numpy().reshape(-1, *work.cell):
                        written.write({"tokens": cell})
                else:
                    for blob, label in zip(rows["image"].to_pylist(), rows["label"].to_pylist(), strict=True):
                        written.write({"image": blob, "label": label})


class Decoded:
    """Decodes the rows that a worker fetched."""

    def __init__(self, work):
        self.decode = pixels.Pixels(work)

    def __call__(self, rows):
        from torch.utils.data import default_collate

        return default_collate([{"image": self.decode(row["image"]), "label": row["label"]} for row in rows])


def mixed(work):
    """Returns the rows of a shuffle block, within which MosaicML mixes rows."""
    return work.mixed


def epochs(work, threads, converted):
    from streaming import StreamingDataLoader, StreamingDataset

    order = {"shuffle": True, "shuffle_block_size": work.mixed}
    rows = StreamingDataset(local=f"{converted}/rows", batch_size=work.batch, **order)
    how = {"collate_fn": Decoded(work)} if work.kind == "images" else {}
    loader = StreamingDataLoader(rows, batch_size=work.batch, num_workers=threads, persistent_workers=True, **how)
    return lambda number: iter(loader)
