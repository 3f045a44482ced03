"""Decodes, crops and resizes photographs with OpenCV, on several Python threads at the same time."""

import math
from concurrent.futures import ThreadPoolExecutor
from random import Random

import cv2
import numpy as np
import row_functions
from work import SIDE

from loaders.by_hand.kept import Kept, kept
from loaders.by_hand.lists import joined
from loaders.by_hand.rows import Rows

AHEAD = 2  # batches that are begun while one is used
SLICE = 8  # photographs that a thread takes at a time
SCALE, RATIO = (0.08, 1.0), (3 / 4, 4 / 3)  # of a random crop, as torchvision has them
TRIES = 10


class Crops(Rows):
    """Makes batches of crops and labels from whole photographs."""

    def begin(self, work):
        cv2.setNumThreads(1)
        self.threads = ThreadPoolExecutor(work.threads)
        super().begin(work)

    def cropped(self, frame, labels, rows):
        """Yields the batches of ``rows``; ``frame`` returns the whole photograph of a row."""
        steps = self.steps(rows)
        begun = [self.ahead(frame, chosen) for chosen in steps[:AHEAD]]
        for at, chosen in enumerate(steps):
            out, parts = begun.pop(0)
            if at + AHEAD < len(steps):
                begun.append(self.ahead(frame, steps[at + AHEAD]))
            for part in parts:
                part.result()
            yield {"image": out, "label": labels[chosen]}

    def ahead(self, frame, chosen):
        """Starts to fill a batch on the threads, and returns its array and the futures to wait for."""
        out = np.empty((len(chosen), SIDE, SIDE, 3), np.uint8)

        def fill(at):
            random = Random(int(chosen[at]))
            for place, row in enumerate(chosen[at : at + SLICE].tolist(), at):
                crop(frame(row), random, out[place])
                if self.work.workers:
                    out[place] = row_functions.brightened({"image": out[place], "label": 0})["image"]

        return out, [self.threads.submit(fill, at) for at in range(0, len(chosen), SLICE)]


class Photographs(Crops):
    """Decodes photographs from the Parquet files."""

    def batches(self, table, rows):
        cells = joined(table["image"])
        return self.cropped(lambda row: decoded(cells[row]), table["label"].to_numpy(), rows)


class Pixels(Crops, Kept):
    """Keeps the pixels of photographs of one size on disk, so that an epoch only crops and resizes them."""

    def begin(self, work):
        super().begin(work)
        self.labels = np.concatenate([file.read(columns=["label"])["label"].to_numpy() for file in self.files])
        cells = (cell for file in self.files for cell in file.read(columns=["image"])["image"])
        shape = decoded(self.files[0].read_row_group(0)["image"][0]).shape
        self.frames = kept(work.kept / "pixels.bin", map(decoded, cells)).reshape(-1, *shape)

    def batches(self, table, rows):
        return self.cropped(self.frames.__getitem__, self.labels, rows)


def decoded(cell):
    return cv2.imdecode(np.frombuffer(cell.as_buffer(), np.uint8), cv2.IMREAD_COLOR)


def crop(frame, random, out):
    """Writes a random crop, resized and perhaps flipped, in RGB."""
    x, y, width, height = box(frame.shape[1], frame.shape[0], random)
    image = cv2.resize(frame[y : y + height, x : x + width], (SIDE, SIDE), interpolation=cv2.INTER_LINEAR)
    if random.random() < 0.5:
        image = cv2.flip(image, 1)
    cv2.cvtColor(image, cv2.COLOR_BGR2RGB, dst=out)


def box(width, height, random):
    """Draws the left, top, width and height of a crop."""
    for _ in range(TRIES):
        area = random.uniform(*SCALE) * width * height
        ratio = math.exp(random.uniform(*map(math.log, RATIO)))
        across, down = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < across <= width and 0 < down <= height:
            return random.randint(0, width - across), random.randint(0, height - down), across, down
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side
