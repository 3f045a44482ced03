"""tf.data over TFRecord; it decodes only the rows of pixels that a crop needs."""

import pixels

from loaders import PHOTOGRAPHS, TINY

NEEDS = ["tensorflow", "pyarrow"]
PACKAGES = ["tensorflow-cpu", "numpy"]
ENVIRONMENT = "tf"
WORKLOADS = (*PHOTOGRAPHS, "w3", *TINY)
READS = "TFRecord"
PIXELS = "decode_and_crop_jpeg, which decodes the crop; bilinear without antialiasing"
PREFETCHED = 2  # batches


def convert(work, converted):
    import pyarrow.parquet as pq
    import tensorflow as tf

    for at, file in enumerate(work.files):
        with tf.io.TFRecordWriter(str(converted / f"{at:03}.tfrecord")) as written:
            for rows in pq.ParquetFile(file).iter_batches(1_000):
                if work.kind == "lists":
                    for cell in rows.column(0).flatten().to_numpy().reshape(-1, *work.cell):
                        written.write(cell.tobytes())
                    continue
                for blob, label in zip(rows["image"].to_pylist(), rows["label"].to_pylist(), strict=True):
                    feature = {
                        "image": tf.train.Feature(bytes_list=tf.train.BytesList(value=[blob])),
                        "label": tf.train.Feature(int64_list=tf.train.Int64List(value=[label])),
                    }
                    example = tf.train.Example(features=tf.train.Features(feature=feature))
                    written.write(example.SerializeToString())


def mixed(work):
    return work.mixed


def epochs(work, threads, converted):
    import tensorflow as tf

    fields = {"image": tf.io.FixedLenFeature([], tf.string), "label": tf.io.FixedLenFeature([], tf.int64)}
    mean, std = (tf.constant(values) * 255 for values in (pixels.MEAN, pixels.STD))

    def cropped(blob):
        begin, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(blob),
            tf.zeros([1, 0, 4]),
            min_object_covered=0.0,
            aspect_ratio_range=[3 / 4, 4 / 3],
            area_range=[0.08, 1.0],
            use_image_if_no_bounding_boxes=True,
        )
        window = tf.concat([begin[:2], size[:2]], 0)
        image = tf.image.resize(tf.image.decode_and_crop_jpeg(blob, window, channels=3), work.cell[:2])
        image = tf.image.random_flip_left_right(image)
        if work.dtype:
            return tf.transpose((image - mean) / std, [2, 0, 1])
        return tf.cast(image, tf.uint8)

    def parsed(record):
        if work.kind == "lists":
            return {work.column: tf.io.decode_raw(record, tf.int32)}
        row = tf.io.parse_single_example(record, fields)
        image = cropped(row["image"]) if work.crops else tf.io.decode_png(row["image"], channels=3)
        return {"image": image, "label": row["label"]}

    options = tf.data.Options()
    options.threading.private_threadpool_size = threads
    options.deterministic = False
    files = sorted(str(file) for file in converted.glob("*.tfrecord"))
    records = tf.data.TFRecordDataset(tf.data.Dataset.from_tensor_slices(files).shuffle(len(files)))
    rows = records.shuffle(work.mixed).map(parsed, num_parallel_calls=threads)
    batches = rows.batch(work.batch).prefetch(PREFETCHED).with_options(options)
    return lambda number: batches.as_numpy_iterator()
