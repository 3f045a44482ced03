"""What decoding alone costs: `forebay.decode_image` beside simplejpeg and torchvision, whole and cropped.

    make wheel
    pip install simplejpeg torchvision
    python benches/decode_alone.py PHOTOGRAPHS [--runs 5] [--threads 1]

PHOTOGRAPHS is a folder of JPEG files, or of PNG files, which are then encoded with quality 85. `whole` is all pixels as
RGB. `crop` is a random resized crop to 224, without a flip. The others decode the whole photograph, cut out a box of the
same distribution and resize it: simplejpeg with Pillow, torchvision with its own antialiased resize.

The sides take turns in each run. A figure is the median of the runs: processor milliseconds for a photograph, which other
programs disturb less than the time of a clock, and the clock's.
"""

import argparse
import io
import statistics
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import simplejpeg
import torch
from PIL import Image as Pillow
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms.v2.functional import resized_crop

import forebay as fb

SIDE = 224
SEED = 17
SECONDS = 1
QUALITY = 85


def photographs(folder):
    """Returns the JPEG files of a folder; if it has none, its PNG files encoded as JPEG."""
    files = [path.read_bytes() for path in sorted(folder.rglob("*.jp*g"))]
    for path in [] if files else sorted(folder.rglob("*.png")):
        file = io.BytesIO()
        Pillow.open(path).convert("RGB").save(file, "JPEG", quality=QUALITY)
        files.append(file.getvalue())
    return files


def boxes(files):
    """A random box of each photograph: top, left, height, width, with the scale and ratio of `random_resized_crop`."""
    random = np.random.default_rng(SEED)
    drawn = []
    for file in files:
        height, width, *_ = simplejpeg.decode_jpeg_header(file)
        share, ratio = random.uniform(0.08, 1), np.exp(random.uniform(np.log(3 / 4), np.log(4 / 3)))
        tall = min(height, round((height * width * share / ratio) ** 0.5))
        wide = min(width, round((height * width * share * ratio) ** 0.5))
        drawn.append((random.integers(height - tall + 1), random.integers(width - wide + 1), tall, wide))
    return [tuple(map(int, box)) for box in drawn]


def sides(files, pool):
    """Returns functions that decode all files, by task (whole or crop) and then by library."""
    crop = fb.Image.random_resized_crop(SIDE)
    tensors = [torch.frombuffer(bytearray(file), dtype=torch.uint8) for file in files]
    threads = pool._max_workers
    drawn = boxes(files)

    def each(decode, *inputs):
        return lambda: list(pool.map(decode, *inputs)) if threads > 1 else list(map(decode, *inputs))

    def simple_crop(file, box):
        top, left, height, width = box
        part = Pillow.fromarray(simplejpeg.decode_jpeg(file, fastdct=False, fastupsample=False))
        size, area = (SIDE, SIDE), (left, top, left + width, top + height)
        return np.asarray(part.resize(size, Pillow.Resampling.BILINEAR, box=area))

    def torch_crop(tensor, box):
        return resized_crop(decode_jpeg(tensor, mode=ImageReadMode.RGB), *box, [SIDE, SIDE], antialias=True)

    return {
        "whole": {
            "forebay": lambda: fb.decode_image(files, threads=threads),
            "simplejpeg": each(simplejpeg.decode_jpeg, files),
            "torchvision": each(lambda tensor: decode_jpeg(tensor, mode=ImageReadMode.RGB), tensors),
        },
        "crop": {
            "forebay": lambda: fb.decode_image(files, crop, seed=SEED, threads=threads),
            "simplejpeg": each(simple_crop, files, drawn),
            "torchvision": each(torch_crop, tensors, drawn),
        },
    }


def cost(decode, count):
    """Returns the milliseconds of processor time and of elapsed time for one photograph."""
    began, before, rounds = time.perf_counter(), time.process_time(), 0
    while time.perf_counter() - began < SECONDS:
        decode()
        rounds += 1
    spent = time.process_time() - before, time.perf_counter() - began
    return tuple(seconds * 1000 / rounds / count for seconds in spent)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("photographs", type=Path)
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(1)
    files = photographs(options.photographs)
    print(f"{len(files)} photographs of {sum(map(len, files)) / len(files) / 1000:.0f} kB")
    with ThreadPoolExecutor(options.threads) as pool:
        for what, decoders in sides(files, pool).items():
            runs = {name: [] for name in decoders}
            for decode in decoders.values():
                decode()
            for _ in range(options.runs):
                for name, decode in decoders.items():
                    runs[name].append(cost(decode, len(files)))
            medians = {name: [statistics.median(turn) for turn in zip(*costs)] for name, costs in runs.items()}
            processor, clock = medians["forebay"]
            for name, (its_processor, its_clock) in medians.items():
                ratios = f"{its_processor / processor:5.2f} and {its_clock / clock:5.2f} times forebay's"
                print(f"{what:6} {name:12} {its_processor:7.3f} ms  {its_clock:7.3f} ms  {ratios}")


if __name__ == "__main__":
    main()
