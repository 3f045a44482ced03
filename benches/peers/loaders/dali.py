"""DALI without a GPU."""

import pixels

from loaders import PHOTOGRAPHS, spdl

NEEDS = ["nvidia.dali", "pyarrow"]
PACKAGES = ["nvidia-dali-cuda120", "numpy"]
ENVIRONMENT = "dali"
WORKLOADS = PHOTOGRAPHS
READS = spdl.READS
PIXELS = "image_random_crop, which decodes the crop; bilinear with antialiasing"
SHUFFLED = 1_000  # rows that its reader mixes

CONVERTED = "spdl"  # whose files it reads
convert = spdl.convert


def mixed(work):
    return SHUFFLED


def epochs(work, threads, converted):
    from nvidia.dali import fn, pipeline_def, types

    files = sorted(converted.glob("*.jpg"))
    labels = [int(file.stem.split("-")[1]) for file in files]

    @pipeline_def(batch_size=work.batch, num_threads=threads, device_id=None)
    def pipeline():
        blobs, numbers = fn.readers.file(
            files=[str(file) for file in files], labels=labels, random_shuffle=True, initial_fill=SHUFFLED, name="rows"
        )
        images = fn.decoders.image_random_crop(
            blobs, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
        )
        side = work.cell[0]
        images = fn.resize(images, resize_x=side, resize_y=side, interp_type=types.INTERP_LINEAR, antialias=True)
        flipped = fn.random.coin_flip(probability=0.5)
        if work.dtype is None:
            return fn.flip(images, horizontal=flipped), numbers
        mean, std = ([255 * value for value in values] for values in (pixels.MEAN, pixels.STD))
        return fn.crop_mirror_normalize(images, dtype=types.FLOAT, mean=mean, std=std, mirror=flipped), numbers

    built = pipeline()
    built.build()
    steps = -(-len(files) // work.batch)

    def epoch(number):
        for step in range(steps):
            images, numbers = built.run()
            # DALI fills the last batch up with rows of the next epoch.
            kept = min(work.batch, len(files) - step * work.batch)
            yield {"image": images.as_array()[:kept], "label": numbers.as_array()[:kept, 0]}

    return epoch
