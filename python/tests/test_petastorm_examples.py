"""Petastorm's examples with forebay.petastorm: hello world, digits in PyTorch, and the converter, on real
Spark.

``FOREBAY_SPARK4_PYTHON`` names an interpreter with PySpark 4, PyTorch, TensorFlow and pytest. These tests, the tests of
the notebook and the tests of Spark run there once more. Without it they run only here, if PySpark is installed.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from forebay.petastorm import TransformSpec, make_batch_reader, make_reader
from forebay.petastorm.codecs import CompressedImageCodec, NdarrayCodec, ScalarCodec
from forebay.petastorm.etl.dataset_metadata import materialize_dataset
from forebay.petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row

HERE = Path(__file__).parent
SPARK4 = os.environ.get("FOREBAY_SPARK4_PYTHON")
SIDE, CLASSES = 28, 4

Hello = Unischema(
    "Hello",
    [
        UnischemaField("id", np.int32, (), ScalarCodec("IntegerType"), False),
        UnischemaField("image", np.uint8, (16, 32, 3), CompressedImageCodec("png"), False),
        UnischemaField("any", np.uint8, (None, 5, None), NdarrayCodec(), False),
    ],
)

Digits = Unischema(
    "Digits",
    [
        UnischemaField("digit", np.int64, (), ScalarCodec("LongType"), False),
        UnischemaField("image", np.uint8, (SIDE, SIDE), NdarrayCodec(), False),
    ],
)


def materialized(spark, url, schema, rows):
    with materialize_dataset(spark, url, schema, 1):
        made = spark.sparkContext.parallelize(rows, 2).map(lambda row: dict_to_spark_row(schema, row))
        spark.createDataFrame(made, schema.as_spark_schema()).write.mode("overwrite").parquet(url)


def hello(number):
    return {
        "id": number,
        "image": np.full((16, 32, 3), number, np.uint8),
        "any": np.full((number % 3, 5, 2), number, np.uint8),
    }


def digit(number):
    """Draws a picture with a bar whose position is its class."""
    image = np.random.default_rng(number).integers(0, 60, (SIDE, SIDE), dtype=np.uint8)
    image[:, 6 * (number % CLASSES) + 4] = 250
    return image


def step(torch, model, inputs, labels, rate):
    """Makes a step of gradient descent, and returns its loss. It does without torch.optim, which imports
    Triton, and that crashes a process in which TensorFlow is loaded."""
    loss = torch.nn.functional.cross_entropy(model(inputs), labels)
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    with torch.no_grad():
        for parameter, gradient in zip(model.parameters(), gradients, strict=True):
            parameter -= rate * gradient
    return float(loss.detach())


def test_hello_world_is_written_by_spark_and_read_everywhere(spark, tmp_path):
    from forebay.petastorm.spark_utils import dataset_as_rdd

    url = f"file://{tmp_path}/hello"
    materialized(spark, url, Hello, [hello(number) for number in range(10)])
    with make_reader(url) as reader:
        rows = {int(row.id): row for row in reader}
    assert sorted(rows) == list(range(10))
    for number, row in rows.items():
        for name, value in hello(number).items():
            np.testing.assert_array_equal(getattr(row, name), value)
    found = dataset_as_rdd(url, spark, [Hello.id, Hello.image]).collect()
    assert sorted(int(row.id) for row in found) == list(range(10)) and found[0].image.shape == (16, 32, 3)
    assert spark.read.parquet(url).count() == 10


def test_hello_world_is_read_as_tensors(spark, tmp_path):
    pytest.importorskip("torch")
    pytest.importorskip("tensorflow")
    from forebay.petastorm import pytorch as torch_loaders
    from forebay.petastorm import tf_utils

    url = f"file://{tmp_path}/hello"
    materialized(spark, url, Hello, [hello(number) for number in range(10)])
    with torch_loaders.DataLoader(make_reader(url, schema_fields=["id", "image"]), batch_size=4) as loader:
        batches = list(loader)
    assert [len(batch["id"]) for batch in batches] == [4, 4, 2] and batches[0]["image"].shape == (4, 16, 32, 3)
    with make_reader(url) as reader:
        ids = [int(row.id) for row in tf_utils.make_petastorm_dataset(reader)]
    assert sorted(ids) == list(range(10))


def test_any_parquet_of_spark_is_read_in_batches(spark, tmp_path):
    url = f"file://{tmp_path}/external"
    spark.range(100).selectExpr("id", "cast(id * 2 as int) as twice", "cast(id as double) as real").write.parquet(url)
    with make_batch_reader(url) as reader:
        batches = list(reader)
    assert sorted(one for batch in batches for one in batch.id.tolist()) == list(range(100))
    assert all((batch.twice == 2 * batch.id).all() and (batch.real == batch.id).all() for batch in batches)


def test_digits_train_in_torch(spark, tmp_path):
    torch = pytest.importorskip("torch")
    from forebay.petastorm import pytorch as torch_loaders

    url = f"file://{tmp_path}/digits"
    materialized(spark, url, Digits, [{"digit": n % CLASSES, "image": digit(n)} for n in range(200)])

    def scaled(row):
        return {"digit": row["digit"], "image": (row["image"].astype(np.float32) / 255 - 0.13) / 0.31}

    spec = TransformSpec(scaled, edit_fields=[("image", np.float32, (SIDE, SIDE), False)])
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(SIDE * SIDE, CLASSES))
    reader = make_reader(url, num_epochs=4, transform_spec=spec, seed=1, shuffle_rows=True)
    with torch_loaders.DataLoader(reader, batch_size=32, shuffling_queue_capacity=64) as loader:
        for batch in loader:
            step(torch, model, batch["image"], batch["digit"], 0.05)
    with torch_loaders.DataLoader(make_reader(url, transform_spec=spec), batch_size=50) as loader:
        right = sum(int((model(batch["image"]).argmax(1) == batch["digit"]).sum()) for batch in loader)
    assert right > 190


@pytest.fixture
def converter(spark, tmp_path):
    """Makes a converter of a DataFrame with pictures of digits as arrays of floats, and deletes it afterwards."""
    made = pytest.importorskip("forebay.petastorm.spark")
    spark.conf.set(made.SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, f"file://{tmp_path}/converted")
    rows = [((digit(n).ravel() / 255).tolist(), n % CLASSES) for n in range(200)]
    frame = spark.createDataFrame(rows, "features array<double>, label long").coalesce(2)
    found = made.make_spark_converter(frame)
    yield found
    found.delete()


def test_the_converter_trains_in_torch(converter):
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    model = torch.nn.Linear(SIDE * SIDE, CLASSES)
    losses = []
    with converter.make_torch_dataloader(batch_size=20, num_epochs=5) as loader:
        for batch in loader:
            losses.append(step(torch, model, batch["features"], batch["label"], 0.2))
    assert len(converter) == 200 and len(losses) == 50 and np.mean(losses[-5:]) < losses[0] / 2


def test_the_converter_trains_in_keras(converter):
    pytest.importorskip("tensorflow")
    keras = pytest.importorskip("keras")
    keras.utils.set_random_seed(0)
    model = keras.Sequential([keras.layers.Input((SIDE * SIDE,)), keras.layers.Dense(CLASSES, activation="softmax")])
    model.compile("adam", "sparse_categorical_crossentropy", metrics=["accuracy"])
    with converter.make_tf_dataset(batch_size=20) as dataset:
        pairs = dataset.map(lambda rows: (rows.features, rows.label))
        history = model.fit(pairs, steps_per_epoch=10, epochs=4, verbose=0).history
    assert history["loss"][-1] < history["loss"][0]


@pytest.mark.skipif(SPARK4 is None, reason="FOREBAY_SPARK4_PYTHON names no interpreter with PySpark 4")
@pytest.mark.parametrize(
    "file", ["test_petastorm_examples.py", "test_petastorm_notebook.py", "test_petastorm_spark.py"]
)
def test_the_drop_in_runs_on_spark_4(file):
    environ = {name: value for name, value in os.environ.items() if name != "FOREBAY_SPARK4_PYTHON"}
    environ |= {"PYSPARK_PYTHON": SPARK4, "PYSPARK_DRIVER_PYTHON": SPARK4}
    version = [SPARK4, "-c", "import pyspark; print(pyspark.__version__)"]
    assert subprocess.run(version, capture_output=True, text=True, env=environ).stdout.startswith("4.")
    command = [SPARK4, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", str(HERE / file)]
    run = subprocess.run(command, capture_output=True, text=True, env=environ, cwd=HERE.parent)
    if run.returncode == pytest.ExitCode.NO_TESTS_COLLECTED:
        pytest.skip(f"{SPARK4} lacks what {file} needs")
    assert run.returncode == 0 and re.search(r"\d+ passed", run.stdout), run.stdout + run.stderr
    sys.stdout.write(run.stdout)
