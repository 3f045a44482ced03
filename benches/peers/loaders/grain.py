"""Grain over ArrayRecord, with reading threads."""

import pixels

from loaders import PHOTOGRAPHS, TINY

NEEDS = ["grain", "array_record", "cv2", "pyarrow"]
PACKAGES = ["grain", "array_record", "opencv-python-headless", "numpy"]
ENVIRONMENT = "main"
WORKLOADS = (*PHOTOGRAPHS, "w3", *TINY)
READS = "ArrayRecord"
PIXELS = pixels.SENTENCE
LABEL_BYTES = 8  # before the image
PREFETCHED = 512  # rows


def convert(work, converted):
    import pyarrow.parquet as pq
    from array_record.python.array_record_module import ArrayRecordWriter

    written = ArrayRecordWriter(str(converted / "rows.arrayrecord"), "group_size:1")
    for file in work.files:
        for rows in pq.ParquetFile(file).iter_batches(1_000):
            if work.kind == "lists":
                for cell in rows.column(0).flatten().to_numpy().reshape(-1, *work.cell):
                    written.write(cell.tobytes())
            else:
                for blob, label in zip(rows["image"].to_pylist(), rows["label"].to_pylist(), strict=True):
                    written.write(label.to_bytes(LABEL_BYTES, "little") + blob)
    written.close()


def mixed(work):
    return work.rows


def epochs(work, threads, converted):
    import grain
    import numpy as np

    source = grain.sources.ArrayRecordDataSource([str(converted / "rows.arrayrecord")])
    decode = pixels.Pixels(work) if work.kind == "images" else None

    def parsed(record):
        if decode is None:
            return {work.column: np.frombuffer(record, np.int32)}
        label = np.int64(int.from_bytes(record[:LABEL_BYTES], "little"))
        return {"image": decode(record[LABEL_BYTES:]), "label": label}

    reading = grain.ReadOptions(num_threads=threads, prefetch_buffer_size=PREFETCHED)

    def epoch(number):
        rows = grain.MapDataset.source(source).shuffle(seed=number).map(parsed)
        return iter(rows.to_iter_dataset(reading).batch(work.batch, drop_remainder=False))

    return epoch
