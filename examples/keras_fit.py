"""Trains a small convolutional network with Keras 3, on whichever backend is installed.

    forebay synth photos --rows 400
    forebay synth held-out --rows 100 --seed 1
    KERAS_BACKEND=jax python examples/keras_fit.py photos held-out
"""

from __future__ import annotations

import argparse

import keras

import forebay as fb
import forebay.keras


def main() -> None:
    arguments = parse()
    rows = {"columns": ["image", "label"], "batch_size": 32}
    size = arguments.size
    crop = {"image": fb.Image.random_resized_crop(size).flip()}
    whole = {"image": fb.Image.center_crop(size, resize=size * 8 // 7)}
    keras.utils.set_random_seed(0)
    with (
        fb.Loader(arguments.photos, decode=crop, shuffle=fb.Shuffle(seed=17), **rows) as train,
        fb.Loader(arguments.held_out, decode=whole, **rows) as held_out,
    ):
        model = network(size, arguments.classes)
        model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
        model.fit(
            forebay.keras.batches(train),
            validation_data=forebay.keras.batches(held_out),
            epochs=arguments.epochs,
            verbose=2,
        )
        print(train.stats())


def network(size: int, classes: int) -> keras.Model:
    layers = [keras.layers.Input((size, size, 3)), keras.layers.Rescaling(1 / 127.5, offset=-1)]
    for channels in (16, 32, 64):
        layers.append(keras.layers.Conv2D(channels, 3, strides=2, activation="relu"))
    layers += [keras.layers.GlobalAveragePooling2D(), keras.layers.Dense(classes, activation="softmax")]
    return keras.Sequential(layers)


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", help="folder to train on")
    parser.add_argument("held_out", help="folder to judge by")
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--size", type=int, default=112, help="side of an image in pixels")
    parser.add_argument("--classes", type=int, default=10)
    return parser.parse_args()


if __name__ == "__main__":
    main()
