"""The pixel work of contestants that leave it to their user, with OpenCV, the fastest library for it in
Python.

It decodes the whole frame and resizes it bilinearly without antialiasing, which is less work than forebay and
torchvision do.
"""

import math
import random

SENTENCE = "OpenCV: the whole frame decoded, bilinear without antialiasing"
# The mean and standard deviation of ImageNet, in [0, 1].
MEAN = (0.485, 0.456, 0.406)
STD = (0.229, 0.224, 0.225)


def box(width, height):
    """Draws the left, top, width and height of a random resized crop, as torchvision does."""
    for _ in range(10):
        area = random.uniform(0.08, 1) * width * height
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


class Pixels:
    """Turns the bytes of an image into an array; it is an object so that it can be sent to other processes."""

    def __init__(self, work):
        self.crops, self.side, self.dtype, self.cell = work.crops, work.cell[0], work.dtype, work.cell

    def __call__(self, blob):
        import cv2
        import numpy as np

        cv2.setNumThreads(1)
        image = cv2.imdecode(np.frombuffer(blob, np.uint8), cv2.IMREAD_COLOR)
        if self.crops:
            x, y, w, h = box(image.shape[1], image.shape[0])
            image = cv2.resize(image[y : y + h, x : x + w], (self.side, self.side), interpolation=cv2.INTER_LINEAR)
            if random.random() < 0.5:
                image = cv2.flip(image, 1)
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        return image if self.dtype is None else self.normalised(image)

    def normalised(self, image):
        import numpy as np

        scale = np.float32([1 / (255 * std) for std in STD])
        shift = np.float32([-mean / std for mean, std in zip(MEAN, STD, strict=True)])
        return np.ascontiguousarray((image * scale + shift).astype(self.dtype, copy=False).transpose(2, 0, 1))

    @property
    def shape(self):
        """The shape of the arrays that it returns."""
        return self.cell if self.dtype is None else (self.cell[2], *self.cell[:2])
