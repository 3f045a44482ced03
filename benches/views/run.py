"""Runs one contestant for some seconds, and prints images/s and the processor milliseconds for an image."""

import json
import sys
import time

from turns import usage

# Photographs in a batch.
BATCH = 32
FRAMES = 16
SEED = 17
# Batches before the clock starts: all threads and worker processes run by then.
BEFORE = 8
LARGE, SMALL = 224, 96
GLOBAL, LOCAL = (0.25, 1.0), (0.05, 0.25)


def forebay(task):
    """Yields the number of photographs of each batch of forebay."""
    import forebay as fb

    crop = fb.Image.random_resized_crop
    simclr = crop(LARGE).flip().color_jitter(0.8, 0.8, 0.8, 0.2, p=0.8).random_grayscale(0.2).gaussian_blur(23, p=0.5)
    decode = {
        "crop": crop(LARGE).flip(),
        "dino": fb.Views(large=(crop(LARGE, scale=GLOBAL).flip(), 2), small=(crop(SMALL, scale=LOCAL).flip(), 8)),
        "simclr": fb.Views(both=(simclr, 2)),
        "clip": fb.Clip(crop(LARGE).flip(), frames=FRAMES),
    }[task["view"]]
    images = FRAMES if task["view"] == "clip" else 1
    loader = fb.Loader(
        task["data"],
        decode={"image": decode},
        batch_size=BATCH // images,
        shuffle=fb.Shuffle(seed=SEED),
        threads=task["threads"],
    )
    while True:
        for batch in loader:
            yield len(next(iter(batch.values()))) * images


def torch(task):
    """Yields the number of photographs of each batch of a DataLoader."""
    import pyarrow.parquet as pq
    import torch
    from torch.utils.data import DataLoader
    from torchvision.io import ImageReadMode, decode_jpeg
    from torchvision.transforms import v2

    def crop(side, **options):
        return v2.Compose([v2.RandomResizedCrop(side, antialias=True, **options), v2.RandomHorizontalFlip()])

    def simclr():
        jitter = v2.RandomApply([v2.ColorJitter(0.8, 0.8, 0.8, 0.2)], p=0.8)
        blur = v2.RandomApply([v2.GaussianBlur(23, sigma=(0.1, 2.0))], p=0.5)
        return v2.Compose([crop(LARGE), jitter, v2.RandomGrayscale(0.2), blur])

    views = {
        "dino": [(crop(LARGE, scale=GLOBAL), 2), (crop(SMALL, scale=LOCAL), 8)],
        "simclr": [(simclr(), 2)],
    }[task["view"]]
    cells = pq.read_table(task["data"])["image"].to_pylist()

    class Photographs(torch.utils.data.Dataset):
        def __len__(self):
            return len(cells)

        def __getitem__(self, at):
            pixels = decode_jpeg(torch.frombuffer(bytearray(cells[at]), dtype=torch.uint8), mode=ImageReadMode.RGB)
            return [torch.stack([view(pixels) for _ in range(count)]) for view, count in views]

    torch.manual_seed(SEED)
    loader = DataLoader(
        Photographs(), batch_size=BATCH, shuffle=True, num_workers=task["threads"], persistent_workers=True
    )
    while True:
        for batch in loader:
            yield len(batch[0])


def main():
    task = json.loads(sys.argv[1])
    batches = {"forebay": forebay, "torch": torch}[task["loader"]](task)
    for _ in range(BEFORE):
        next(batches)
    began, (before, _) = time.monotonic(), usage.processors()
    images = 0
    while time.monotonic() - began < task["seconds"]:
        images += next(batches)
    seconds, work = time.monotonic() - began, usage.processors()[0] - before
    print(json.dumps({"rate": images / seconds, "work": work / images * 1e3}))


if __name__ == "__main__":
    main()
