"""Ray Data, with `read_parquet`, `map_batches` and a local shuffle buffer."""

import logging

import pixels

from loaders import PHOTOGRAPHS, TINY

NEEDS = ["ray", "cv2", "pyarrow", "pandas"]
PACKAGES = ["ray", "pyarrow", "opencv-python-headless"]
ENVIRONMENT = "ray"
WORKLOADS = (*PHOTOGRAPHS, "w2", "w3", *TINY)
READS = "Parquet"
PIXELS = pixels.SENTENCE
MAPPED = 128  # images that a task decodes
OBJECTS = 4 << 30  # bytes of its object store


def close():
    import ray

    ray.shutdown()


def mixed(work):
    return work.mixed


def epochs(work, threads):
    import numpy as np
    import ray

    logging.getLogger("ray.data").setLevel(logging.ERROR)
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": logging.ERROR}
    ray.init(num_cpus=threads, object_store_memory=OBJECTS, **quiet)
    ray.data.DataContext.get_current().enable_progress_bars = False
    rows = ray.data.read_parquet(work.files, shuffle="files")
    decode = pixels.Pixels(work) if work.kind == "images" else None

    def decoded(batch):
        return {"image": np.stack([decode(blob) for blob in batch["image"]]), "label": batch["label"]}

    if decode:
        rows = rows.map_batches(decoded, batch_size=MAPPED)

    def arrays(batch):
        if work.kind == "lists" and batch[work.column].dtype == object:
            batch[work.column] = np.stack(batch[work.column])
        return batch

    def epoch(number):
        batches = rows.iter_batches(batch_size=work.batch, batch_format="numpy", local_shuffle_buffer_size=work.mixed)
        return map(arrays, batches)

    return epoch
