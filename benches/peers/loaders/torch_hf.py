"""torch's DataLoader over a local Hugging Face data set (memory-mapped Arrow), with torchvision."""

import pixels

from loaders import PHOTOGRAPHS, TINY

NEEDS = ["torch", "torchvision", "datasets"]
PACKAGES = ["torch", "torchvision", "datasets", "pyarrow"]
ENVIRONMENT = "main"
# The table workload is left out: gathering thousands of rows one by one takes seconds a batch. `hf_stream`
# reads it in the intended way.
WORKLOADS = (*PHOTOGRAPHS, "w3", *TINY, "w4-raw")
READS = "Arrow files"
PIXELS = "torchvision on tensors: the whole frame decoded, bilinear with antialiasing"


def opened(work, **how):
    import datasets

    return datasets.load_dataset("parquet", data_files=work.files, split="train", **how)


def convert(work, converted):
    opened(work, cache_dir=str(converted))


class Decoded:
    """The transform of one image; it is an object so that it can be sent to workers."""

    def __init__(self, work):
        import torch
        from torchvision.transforms import v2

        steps = [v2.RandomResizedCrop(work.cell[:2], antialias=True), v2.RandomHorizontalFlip()] if work.crops else []
        if work.dtype:
            dtype = getattr(torch, work.dtype)
            steps += [v2.ToDtype(dtype, scale=True), v2.Normalize(pixels.MEAN, pixels.STD)]
        self.steps = steps

    def __call__(self, blob):
        import torch
        from torchvision.io import ImageReadMode, decode_image

        image = decode_image(torch.frombuffer(bytearray(blob), dtype=torch.uint8), mode=ImageReadMode.RGB)
        for step in self.steps:
            image = step(image)
        return image


class Images:
    """The rows of the data set, decoded when they are requested."""

    def __init__(self, rows, decode):
        self.rows, self.decode = rows, decode

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, at):
        row = self.rows[at]
        return {"image": self.decode(row["image"]), "label": row["label"]}


def mixed(work):
    return work.rows


def epochs(work, threads, converted):
    from torch.utils.data import BatchSampler, DataLoader, RandomSampler

    rows = opened(work, cache_dir=str(converted))
    how = {"num_workers": threads, "persistent_workers": True}
    if work.kind == "images":
        loader = DataLoader(Images(rows, Decoded(work)), batch_size=work.batch, shuffle=True, **how)
    else:
        # The sampler returns whole batches, which arrive as arrays.
        sampler = BatchSampler(RandomSampler(rows), work.batch, drop_last=False)
        loader = DataLoader(rows.with_format("numpy"), sampler=sampler, batch_size=None, **how)
    return lambda number: iter(loader)
