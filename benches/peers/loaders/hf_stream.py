"""Hugging Face data sets, streamed from Parquet through a shuffle buffer, with torch's DataLoader and
torchvision."""

from loaders import PHOTOGRAPHS, TINY, torch_hf

NEEDS = torch_hf.NEEDS
PACKAGES = torch_hf.PACKAGES
ENVIRONMENT = "main"
WORKLOADS = (*PHOTOGRAPHS, "w2", "w3", *TINY, "w4-raw")
READS = "Parquet"
PIXELS = torch_hf.PIXELS


class Row:
    """Turns a row into one with a decoded image."""

    def __init__(self, work):
        self.decode = torch_hf.Decoded(work)

    def __call__(self, row):
        return {"image": self.decode(row["image"]), "label": row["label"]}


def mixed(work):
    """Returns the size of a shuffle buffer; each worker has a buffer of its own."""
    return work.mixed


def epochs(work, threads):
    from torch.utils.data import DataLoader

    rows = torch_hf.opened(work, streaming=True).shuffle(seed=0, buffer_size=work.mixed)
    batch = work.batch
    if work.kind == "images":
        rows = rows.map(Row(work))
    else:
        rows = rows.with_format("numpy").batch(work.batch)
        batch = None
    workers = min(threads, rows.num_shards)
    loader = DataLoader(rows, batch_size=batch, num_workers=workers, persistent_workers=True)

    def epoch(number):
        rows.set_epoch(number)
        return iter(loader)

    return epoch
