"""Lance: the workers of torch's DataLoader take random rows, one batch at a time."""

import pixels

from loaders import PHOTOGRAPHS, TINY

NEEDS = ["lance", "torch", "cv2", "pyarrow"]
PACKAGES = ["pylance", "torch", "pyarrow", "opencv-python-headless"]
ENVIRONMENT = "main"
WORKLOADS = (*PHOTOGRAPHS, "w2", "w3", *TINY, "w4-raw")
READS = "Lance"
PIXELS = pixels.SENTENCE


def convert(work, converted):
    import lance
    import pyarrow.dataset as ds

    rows = ds.dataset(work.files)
    lance.write_dataset(rows.to_batches(), f"{converted}/rows.lance", schema=rows.schema)


class Taken:
    """Returns rows by their numbers, a batch at a time; each worker opens the data set itself."""

    def __init__(self, folder, work):
        self.folder, self.work, self.rows = folder, work, None

    def __len__(self):
        return self.work.rows

    def __getitem__(self, chosen):
        import lance
        import numpy as np

        if self.rows is None:
            self.rows = lance.dataset(self.folder)
            self.decode = pixels.Pixels(self.work) if self.work.kind == "images" else None
        table = self.rows.take(chosen).combine_chunks()
        name = self.work.column
        columns = {other: table[other].to_numpy() for other in table.column_names if other != name}
        if self.work.kind == "images":
            cells = np.stack([self.decode(cell.as_buffer()) for cell in table[name]])
        elif self.work.kind == "lists":
            cells = table[name].chunk(0).flatten().to_numpy().reshape(-1, *self.work.cell)
        else:
            cells = table[name].to_numpy()
        return {name: cells, **columns}


def mixed(work):
    return work.rows


def epochs(work, threads, converted):
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler

    rows = Taken(f"{converted}/rows.lance", work)
    sampler = BatchSampler(RandomSampler(range(work.rows)), work.batch, drop_last=False)
    # Lance's runtime does not survive a fork.
    how = {"num_workers": threads, "persistent_workers": True, "multiprocessing_context": "spawn"}
    loader = DataLoader(rows, sampler=sampler, batch_size=None, **how)
    return lambda number: iter(loader)
