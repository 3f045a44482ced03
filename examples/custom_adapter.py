"""Delivers batches in a type of your own: plain dicts of numpy arrays, which the training loop may keep and change.

    forebay synth photos --rows 400
    python examples/custom_adapter.py photos

An adapter for another framework has the same form: `convert` makes the framework's arrays, and may start
copying them to a device. With `ahead=1` it starts while the previous training step still runs, and `finish`
waits for the copy.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import forebay as fb
from forebay.adapters import Batches, columns


def batches(loader: fb.Loader) -> Batches[dict[str, np.ndarray[Any, Any]]]:
    """Returns the loader's batches as plain dicts, one epoch per iteration."""

    def convert(batch: fb.Batch) -> dict[str, np.ndarray[Any, Any]]:
        return {name: array(value) for name, value, _ in columns(batch)}

    def array(value: Any) -> np.ndarray[Any, Any]:
        # NumPy has no array for lists of differing lengths.
        return value.padded(fill=0) if isinstance(value, fb.Ragged) else np.array(value)

    return Batches(loader, convert)


def main() -> None:
    arguments = parse()
    decode = {"image": fb.Image.center_crop(224)}
    with fb.Loader(arguments.photos, columns=["image", "label"], decode=decode, batch_size=64, epochs=1) as train:
        for step, batch in enumerate(batches(train)):
            # The position counts the batches that the loop has received, not those that are prepared ahead.
            print(f"step {step}: {type(batch).__name__} of {len(batch['label'])} rows, {position(train)} delivered")

    # A framework that drives the loop itself takes the same steps one by one.
    with fb.Loader(arguments.photos, columns=["label"], batch_size=64, epochs=1) as train:
        epoch = iter(train)
        while (pulled := epoch.pull()) is not None:
            labels = np.array(pulled.batch["label"])
            before = position(train)
            epoch.hand_over(pulled)
            print(f"{len(labels)} labels: {before} rows delivered before, {position(train)} after")


def position(train: fb.Loader) -> int:
    """Returns the number of rows of all epochs that were delivered."""
    state = train.state_dict()
    return state["epoch"] * train.num_rows + state["row"]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", help="a path, URL or glob")
    return parser.parse_args()


if __name__ == "__main__":
    main()
