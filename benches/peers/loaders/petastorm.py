"""Petastorm, with `make_batch_reader`, its thread pool and BatchedDataLoader."""

import pixels

from loaders import PHOTOGRAPHS, TINY

NEEDS = ["petastorm", "torch", "cv2", "pyarrow"]
PACKAGES = ["petastorm", "pyarrow", "torch", "opencv-python-headless", "numpy"]
ENVIRONMENT = "petastorm"
WORKLOADS = (*PHOTOGRAPHS, "w2", "w3", *TINY, "w4-raw")
READS = "Parquet"
PIXELS = pixels.SENTENCE


def mixed(work):
    return work.mixed


def epochs(work, threads):
    import numpy as np
    from petastorm import TransformSpec, make_batch_reader
    from petastorm.pytorch import BatchedDataLoader

    spec = None
    if work.kind == "images":
        decode = pixels.Pixels(work)

        def transform(frame):
            frame["image"] = frame["image"].map(decode)
            return frame

        field = ("image", np.dtype(work.dtype or "uint8").type, decode.shape, False)
        spec = TransformSpec(transform, edit_fields=[field], selected_fields=["image", "label"])
    urls = [f"file://{file}" for file in work.files]
    how = {"workers_count": threads, "transform_spec": spec, "num_epochs": 1, "shuffle_row_groups": True}

    def epoch(number):
        with (
            make_batch_reader(urls, seed=number, **how) as reader,
            BatchedDataLoader(reader, batch_size=work.batch, shuffling_queue_capacity=work.mixed) as loader,
        ):
            yield from loader

    return epoch
