"""Runs one contestant: reads an epoch, and prints the rate after its first batches and the memory at its end."""

import json
import multiprocessing
import sys
import time
from pathlib import Path

import albumentations
import cv2
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from turns import usage

import forebay as fb

BATCH = 64

#: The side of a canvas into which all photographs fit; they are delivered in their own sizes.
CANVAS = 640

#: Seed of the order, and of the augmentation.
SEED = 17

#: Batches between two readings of memory and processors.
MEASURED = 10

#: Batches before the clock starts. By then all worker processes run, and the batches that were made ahead
# are used up.
BEFORE = 12


def pipeline():
    """Returns the transform that a training on photographs applies."""
    return albumentations.Compose([
        albumentations.RandomResizedCrop(size=(224, 224)),
        albumentations.ColorJitter(brightness=0.4, contrast=0.4, saturation=0.4, hue=0.1, p=1.0),
        albumentations.Normalize(),
    ])


AUGMENT = pipeline()


def augment(row):
    AUGMENT.set_random_seed(int(fb.rng(row).integers(1 << 32)))
    return {"image": AUGMENT(image=row["image"])["image"], "label": row["label"]}


def same(row):
    return row


class Photos:
    """The rows as a data set for a DataLoader: decoded by OpenCV, augmented by albumentations."""

    def __init__(self, folder):
        files = sorted(Path(folder).glob("*.parquet"))
        self.table = pa.concat_tables(pq.read_table(file, columns=["image", "label"]) for file in files)

    def __len__(self):
        return self.table.num_rows

    def __getitem__(self, at):
        cell = self.table["image"][at]
        cell = cell["bytes"] if pa.types.is_struct(cell.type) else cell
        pixels = cv2.imdecode(np.frombuffer(cell.as_buffer(), np.uint8), cv2.IMREAD_COLOR)
        image = AUGMENT(image=cv2.cvtColor(pixels, cv2.COLOR_BGR2RGB))["image"]
        return {"image": image, "label": self.table["label"][at].as_py()}


def forebay(task):
    """Yields the batches of forebay."""
    threads = task["loader"] == "threads"
    # With a function that does nothing, the decoder crops, so that the loader still has work to do.
    decode = fb.Image.fit(CANVAS).ragged() if task["function"] == "augment" else fb.Image.random_resized_crop(224)
    loader = fb.Loader(
        task["photos"],
        columns=["image", "label"],
        decode={"image": decode},
        batch_size=BATCH,
        shuffle=fb.Shuffle(seed=SEED),
        transform_rows={"augment": augment, "noop": same, "": None}[task["function"]],
        transform_workers=fb.Workers(task["workers"], threads=threads),
    )
    return iter(loader)


def torch(task):
    """Yields the batches of a DataLoader."""
    from torch.utils.data import DataLoader

    return iter(DataLoader(Photos(task["photos"]), batch_size=BATCH, shuffle=True, num_workers=task["workers"]))


def main():
    task = json.loads(sys.argv[1])
    cv2.setNumThreads(0)
    # The guide recommends this. The workers of a DataLoader share imports because they are forked; those of
    # forebay share the imports of the server that starts them.
    multiprocessing.set_forkserver_preload(["albumentations"])
    batches = torch(task) if task["loader"] == "torch" else forebay(task)
    for _ in range(BEFORE):
        next(batches)
    began, (worked, _) = time.monotonic(), usage.processors()
    rows = memory = work = 0
    for number, batch in enumerate(batches):
        rows += len(batch["label"])
        if number % MEASURED == 0:
            memory = max(memory, usage.memory()[1])
            # The times are read here, because they are gone when the worker processes end with the epoch.
            work = (usage.processors()[0] - worked) / rows
    print(json.dumps({"rate": rows / (time.monotonic() - began), "work": work, "memory": memory}))


if __name__ == "__main__":
    main()
