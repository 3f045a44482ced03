"""Runs Petastorm's own examples, unedited, over forebay.petastorm; tools/petastorm-suite starts it."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import pytest
from PIL import Image
from pyspark.sql import SparkSession

import forebay as fb
from forebay.petastorm.spark.spark_dataset_converter import register_delete_dir_handler

SIDE = 28


def digit(number: int) -> Any:
    """Draws a picture of 28 x 28 pixels with one of ten bars."""
    pixels = np.random.default_rng(number).integers(0, 60, (SIDE, SIDE), dtype=np.uint8)
    pixels[:, 2 * (number % 10) + 4] = 250
    return pixels


@pytest.fixture(autouse=True)
def sessions() -> Any:
    """Lets each example make its own Spark session and remove its files, independently of earlier tests."""
    register_delete_dir_handler(None)
    yield
    found = SparkSession.getActiveSession()
    if found is not None:
        found.stop()


def test_hello_world_of_a_petastorm_data_set(tmp_path: Any, capsys: Any) -> None:
    from examples.hello_world.petastorm_dataset.generate_petastorm_dataset import generate_petastorm_dataset
    from examples.hello_world.petastorm_dataset.pyspark_hello_world import pyspark_hello_world
    from examples.hello_world.petastorm_dataset.python_hello_world import python_hello_world
    from examples.hello_world.petastorm_dataset.pytorch_hello_world import pytorch_hello_world
    from examples.hello_world.petastorm_dataset.tensorflow_hello_world import tensorflow_hello_world

    url = f"file://{tmp_path}/hello"
    generate_petastorm_dataset(url)
    python_hello_world(url)
    pytorch_hello_world(url)
    pyspark_hello_world(url)
    assert "Number of rows in the dataset: 10" in capsys.readouterr().out
    # The first half of the example needs TensorFlow 1.
    with pytest.raises(fb.UnsupportedError, match="make_petastorm_dataset"):
        tensorflow_hello_world(url)


def test_hello_world_of_any_parquet(tmp_path: Any, capsys: Any) -> None:
    from examples.hello_world.external_dataset.generate_external_dataset import generate_external_dataset
    from examples.hello_world.external_dataset.python_hello_world import python_hello_world
    from examples.hello_world.external_dataset.pytorch_hello_world import pytorch_hello_world

    url = f"file://{tmp_path}/external"
    generate_external_dataset(url)
    python_hello_world(url)
    pytorch_hello_world(url)
    assert "Batched read:" in capsys.readouterr().out


def test_mnist_trains_with_torch(tmp_path: Any, capsys: Any, monkeypatch: Any) -> None:
    from examples.mnist.generate_petastorm_mnist import mnist_data_to_petastorm_dataset
    from examples.mnist.pytorch_example import main

    url = f"file://{tmp_path}/mnist"
    drawn = [(Image.fromarray(digit(number)), number % 10) for number in range(500)]
    mnist_data_to_petastorm_dataset(
        str(tmp_path), url, spark_master="local[2]", mnist_data={"train": drawn, "test": drawn[:100]}
    )
    monkeypatch.setattr(sys, "argv", ["mnist", "--dataset-url", url, "--epochs", "1", "--batch-size", "32"])
    main()
    assert "Test set: Average loss" in capsys.readouterr().out


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow"])
def test_the_converter_trains_here_and_in_spark(tmp_path: Any, framework: str, monkeypatch: Any) -> None:
    import importlib

    example = importlib.import_module(f"examples.spark_dataset_converter.{framework}_converter_example")
    lines = []
    for number in range(400):
        cells = enumerate(digit(number).ravel(), 1)
        lines.append(f"{number % 10} " + " ".join(f"{at}:{value / 255:.3f}" for at, value in cells))
    (tmp_path / "mnist.txt").write_text("\n".join(lines) + "\n")
    example.run(str(tmp_path))
