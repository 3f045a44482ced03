"""The notebook of docs/from-petastorm.md, with forebay.petastorm and with a loader, on Spark and Keras."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pyspark.sql")
tf = pytest.importorskip("tensorflow")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
keras = pytest.importorskip("keras")

PAGE = Path(__file__).resolve().parents[2] / "docs/from-petastorm.md"
SIDE = 299


def frame(spark, count):
    """Returns a DataFrame of raw images whose brightness is their class."""
    rows = [(bytearray(np.full((SIDE, SIDE, 3), 40 + 160 * (i % 2), np.uint8).tobytes()), i % 2) for i in range(count)]
    return spark.createDataFrame(rows, "image binary, label long").coalesce(2)


def blocks():
    """Returns two versions of the notebook's code: one with forebay.petastorm, and one with a loader."""
    section = PAGE.read_text().split("## Databricks' notebook")[1].split("\n## ")[0]
    return re.findall(r"```python\n(.*?)```", section, re.S)[:2]


def test_the_notebook_changes_in_its_imports_alone():
    dropped_in, _ = blocks()
    changed = [line for line in dropped_in.splitlines() if "forebay" in line]
    assert len(changed) == 2 and all(line.startswith("from forebay.petastorm") for line in changed)


@pytest.mark.parametrize("which", [0, 1], ids=["with the drop-in", "with a loader"])
@pytest.mark.parametrize("world", [1, 2])
def test_the_notebook_trains_on_spark_and_keras(spark, tmp_path, monkeypatch, which, world):
    if world > 1:
        # horovodrun starts its second process in this way.
        monkeypatch.setenv("HOROVOD_RANK", "1")
        monkeypatch.setenv("HOROVOD_SIZE", str(world))
    model = keras.Sequential(
        [
            keras.layers.Input((SIDE, SIDE, 3)),
            keras.layers.GlobalAveragePooling2D(),
            keras.layers.Dense(2, activation="softmax"),
        ]
    )
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    names = {
        "spark": spark,
        "model": model,
        "folder": tmp_path,
        "train_frame": frame(spark, 32),
        "val_frame": frame(spark, 8),
        "to_float": lambda image: tf.cast(image, tf.float32) / 255,
    }
    exec(compile(blocks()[which], str(PAGE), "exec"), names)
    history = names["history"].history
    assert len(history["loss"]) == 3 == len(history["val_loss"]) and history["loss"][2] < history["loss"][0]
    assert (tmp_path / "model.keras").exists()
    caches = ["train-cache", "val-cache"] if which == 0 else ["cache"]
    assert all(any((tmp_path / cache).iterdir()) for cache in caches)
