"""Trains a softmax classifier on colour histograms, with numpy alone.

    forebay synth photos --rows 400
    forebay synth held-out --rows 100 --seed 1
    python examples/numpy_classifier.py photos held-out
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Iterator

import numpy as np

import forebay as fb

SHADES = 6  # of each of red, green and blue
LEARNING_RATE = 3.0
MOMENTUM = 0.9


def main() -> None:
    arguments = parse()
    rows = {"columns": ["image", "label"], "batch_size": arguments.batch_size}
    crop = {"image": fb.Image.random_resized_crop(224).flip()}
    whole = {"image": fb.Image.center_crop(224)}
    with (
        fb.Loader(arguments.photos, decode=crop, shuffle=fb.Shuffle(seed=17), **rows) as train,
        fb.Loader(arguments.held_out, decode=whole, **rows) as held_out,
    ):
        model = Softmax(SHADES**3, arguments.classes)
        print("epoch  images/s  waited    loss  held-out accuracy")
        for epoch in range(arguments.epochs):
            started, waited = time.perf_counter(), Stopwatch()
            losses, images = [], 0
            for batch in waited.on(train):
                losses.append(model.step(histograms(batch["image"]), batch["label"]))
                images += len(batch["label"])
            rate = images / (time.perf_counter() - started)
            accuracy = evaluate(model, held_out)
            print(f"{epoch:5} {rate:9.0f} {waited.seconds:6.2f} s {np.mean(losses):7.3f} {accuracy:12.0%}")
        print(f"a guess would be right {1 / arguments.classes:.0%} of the time")


class Softmax:
    """Multinomial logistic regression, by gradient descent with momentum."""

    def __init__(self, features: int, classes: int) -> None:
        self.weights = np.zeros((features, classes), np.float32)
        self.velocity = np.zeros_like(self.weights)

    def step(self, x: np.ndarray, label: np.ndarray) -> float:
        """Learns from a batch, and returns the loss before that."""
        scores = x @ self.weights
        scores -= scores.max(axis=1, keepdims=True)
        likely = np.exp(scores)
        likely /= likely.sum(axis=1, keepdims=True)
        right = np.arange(len(label)), label
        loss = float(-np.log(likely[right] + 1e-9).mean())
        likely[right] -= 1
        self.velocity = MOMENTUM * self.velocity + x.T @ likely / len(label)
        self.weights -= LEARNING_RATE * self.velocity
        return loss

    def classify(self, x: np.ndarray) -> np.ndarray:
        return (x @ self.weights).argmax(axis=1)


def histograms(images: np.ndarray) -> np.ndarray:
    """Counts how often each colour occurs: (N, H, W, 3) uint8 to (N, SHADES**3) float32. Every fourth pixel
    is enough."""
    shades = images[:, ::4, ::4].astype(np.int64) * SHADES // 256
    colours = (shades[..., 0] * SHADES + shades[..., 1]) * SHADES + shades[..., 2]
    count, kinds = len(images), SHADES**3
    own = colours.reshape(count, -1) + kinds * np.arange(count)[:, None]
    pixels = own.shape[1]
    shares = np.bincount(own.ravel(), minlength=count * kinds).reshape(count, kinds) / pixels
    return np.sqrt(shares).astype(np.float32)


def evaluate(model: Softmax, held_out: fb.Loader) -> float:
    right = [model.classify(histograms(batch["image"])) == batch["label"] for batch in held_out]
    return float(np.concatenate(right).mean())


class Stopwatch:
    """Measures how long a loop waits for its next item."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def on(self, items: Iterable[fb.Batch]) -> Iterator[fb.Batch]:
        asked = time.perf_counter()
        for item in items:
            self.seconds += time.perf_counter() - asked
            yield item
            asked = time.perf_counter()


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", help="folder to train on")
    parser.add_argument("held_out", help="folder to judge by")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--classes", type=int, default=10)
    return parser.parse_args()


if __name__ == "__main__":
    main()
