"""SPDL, with a pipeline of threads over a folder of files."""

import pixels

from loaders import PHOTOGRAPHS

NEEDS = ["spdl.pipeline", "cv2", "pyarrow"]
PACKAGES = ["spdl", "opencv-python-headless", "numpy"]
ENVIRONMENT = "main"
WORKLOADS = PHOTOGRAPHS
READS = "a file for each image"
PIXELS = pixels.SENTENCE
PREFETCHED = 2  # batches


def convert(work, converted):
    """Writes each photograph to a file named after its row number and its label."""
    import pyarrow.parquet as pq

    at = 0
    for file in work.files:
        for rows in pq.ParquetFile(file).iter_batches(1_000):
            for blob, label in zip(rows["image"].to_pylist(), rows["label"].to_pylist(), strict=True):
                (converted / f"{at:08}-{label}.jpg").write_bytes(blob)
                at += 1


def mixed(work):
    return work.rows


def epochs(work, threads, converted):
    import numpy as np
    from spdl.pipeline import PipelineBuilder

    files = sorted(converted.glob("*.jpg"))
    labels = [int(file.stem.split("-")[1]) for file in files]
    decode = pixels.Pixels(work)

    def row(at):
        return decode(files[at].read_bytes()), labels[at]

    def batched(rows):
        return {"image": np.stack([image for image, _ in rows]), "label": np.array([label for _, label in rows])}

    def epoch(number):
        order = np.random.default_rng(number).permutation(len(files)).tolist()
        built = PipelineBuilder().add_source(order).pipe(row, concurrency=threads).aggregate(work.batch).pipe(batched)
        # One thread in addition to the decoding ones puts batches together.
        pipeline = built.add_sink(PREFETCHED).build(num_threads=threads + 1)
        with pipeline.auto_stop():
            yield from pipeline

    return epoch
