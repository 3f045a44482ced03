"""The converter of DataFrames, schemas that are written around a Spark job, and rows in Spark."""

from __future__ import annotations

import json
import os
import pickle
import re
import subprocess
from pathlib import Path

import numpy as np
import pyarrow.fs as pa_fs
import pytest

import forebay as fb
from forebay.petastorm import make_batch_reader, make_reader

pytest.importorskip("pyspark.sql")
types = pytest.importorskip("pyspark.sql.types")

from forebay.petastorm.codecs import CompressedImageCodec, NdarrayCodec, ScalarCodec  # noqa: E402
from forebay.petastorm.etl.dataset_metadata import materialize_dataset  # noqa: E402
from forebay.petastorm.spark import SparkDatasetConverter, _horovod, _written, make_spark_converter  # noqa: E402
from forebay.petastorm.spark import spark_dataset_converter as converter_module  # noqa: E402
from forebay.petastorm.spark_utils import dataset_as_rdd  # noqa: E402
from forebay.petastorm.unischema import Unischema, UnischemaField, dict_to_spark_row  # noqa: E402

Things = Unischema(
    "Things",
    [
        UnischemaField("id", np.int32, (), ScalarCodec(types.IntegerType()), False),
        UnischemaField("matrix", np.float32, (2, None), NdarrayCodec(), True),
        UnischemaField("image", np.uint8, (4, 5, 3), CompressedImageCodec("png"), False),
        UnischemaField("bare", np.str_, (), None, True),
    ],
)


@pytest.fixture
def parent(spark, tmp_path):
    url = f"file://{tmp_path}/cache"
    spark.conf.set(SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF, url)
    return Path(f"{tmp_path}/cache")


def row(number):
    return {
        "id": np.int32(number),
        "matrix": np.full((2, number % 3), number, np.float32) if number % 4 else None,
        "image": np.full((4, 5, 3), number, np.uint8),
        "bare": f"row {number}",
    }


def test_spark_writes_what_a_reader_reads(spark, tmp_path):
    url = f"file://{tmp_path}/data"
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    before = hadoop.get("parquet.block.size")
    with materialize_dataset(spark, url, Things, row_group_size_mb=1):
        assert hadoop.get("parquet.block.size") == str(1 << 20)
        rows = [dict_to_spark_row(Things, row(number)) for number in range(20)]
        spark.createDataFrame(rows, Things.as_spark_schema()).coalesce(2).write.parquet(url)
    assert hadoop.get("parquet.block.size") == before
    with make_reader(url, shuffle_row_groups=False) as reader:
        found = sorted(reader, key=lambda one: one.id)
    assert [one.id for one in found] == list(range(20)) and type(found[0].id) is np.int32
    for one in found:
        expected = row(int(one.id))
        assert one.bare == expected["bare"] and (one.image == expected["image"]).all()
        assert (one.matrix is None) == (expected["matrix"] is None)
        assert one.matrix is None or one.matrix.shape == expected["matrix"].shape
    read = dataset_as_rdd(url, spark, [Things.id, Things.matrix]).collect()
    assert sorted(one.id for one in read) == list(range(20)) and read[0]._fields == ("id", "matrix")


def test_spark_writes_folders_that_a_reader_and_petastorm_read(spark, tmp_path):
    url = f"file://{tmp_path}/data"
    with materialize_dataset(spark, url, Things, row_group_size_mb=1):
        rows = [dict_to_spark_row(Things, row(number)) for number in range(20)]
        frame = spark.createDataFrame(rows, Things.as_spark_schema())
        frame.coalesce(1).write.partitionBy("bare").parquet(url)
    with make_reader(url) as reader:
        found = {int(one.id): one for one in reader}
    assert sorted(found) == list(range(20)) and found[7].bare == "row 7" and found[7].image.shape == (4, 5, 3)
    python = os.environ.get("FOREBAY_PETASTORM_PYTHON")
    if python is None:
        return
    calls = json.dumps([["rows", {"url": url}]])
    script, out = Path(__file__).parent / "petastorm_original.py", tmp_path / "out.pickle"
    subprocess.run([python, script, out], input=calls, text=True, check=True)
    ((rows, _),) = pickle.loads(out.read_bytes())
    assert {int(one["id"]): str(one["bare"]) for one in rows} == {number: f"row {number}" for number in range(20)}


def test_a_training_set_of_hopsworks_is_read(spark, tmp_path):
    # Hopsworks writes a version of a training set in this way: into a folder with a suffix, over an older
    # one.
    url = f"file://{tmp_path}/Projects/demo/demo_Training_Datasets/things_1/things.petastorm"
    frame = spark.createDataFrame(
        [dict_to_spark_row(Things, row(number)) for number in range(20)], Things.as_spark_schema()
    )
    for _ in range(2):
        with materialize_dataset(spark, url, Things, filesystem_factory=lambda: pa_fs.LocalFileSystem()):
            frame.coalesce(2).write.mode("overwrite").parquet(url)
    with make_reader(url, hdfs_driver="libhdfs", num_epochs=2) as reader:
        assert sorted(int(one.id) for one in reader) == sorted([*range(20)] * 2)
    loader = fb.Loader(url.removeprefix("file://"), columns=["id"], batch_size=20)
    assert sorted(next(iter(loader))["id"].tolist()) == list(range(20))


def test_a_csv_of_pixels_becomes_bytes(spark, tmp_path):
    page = (Path(__file__).resolve().parents[2] / "docs/recipes/small-images.md").read_text()
    block = next(block for block in re.findall(r"```python\n(.*?)```", page, re.S) if "F.unhex" in block)
    pixels = np.random.default_rng(0).integers(0, 256, (30, 4))
    np.savetxt(tmp_path / "small.csv", np.column_stack([np.arange(30), pixels]), "%d", delimiter=",")
    names = ["label", *(f"pixel{at}" for at in range(4))]
    urls = {"csv_url": f"file://{tmp_path}/small.csv", "parquet_url": f"file://{tmp_path}/images"}
    exec(block, {"spark": spark, "names": names, **urls})
    loader = fb.Loader(f"{tmp_path}/images", decode={"image": fb.Tensor("uint8", (2, 2))}, batch_size=30)
    batch = next(iter(loader))
    assert (batch["image"] == pixels[batch["label"]].reshape(30, 2, 2)).all()


def test_a_job_that_wrote_nothing_is_an_error(spark, tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(fb.petastorm.errors.PetastormMetadataGenerationError, match="no Parquet files"):
        with materialize_dataset(spark, f"file://{tmp_path}/data", Things):
            pass


def test_a_frame_is_written_once_and_removed_on_request(spark, parent):
    frame = spark.range(100).selectExpr("id", "id / 7.0D AS x")
    converter = make_spark_converter(frame)
    assert len(converter) == 100 and len(list(parent.iterdir())) == 1
    assert (
        make_spark_converter(spark.range(100).selectExpr("id", "id / 7.0D AS x")).cache_dir_url
        == converter.cache_dir_url
    )
    other = make_spark_converter(frame, dtype=None)
    assert other.cache_dir_url != converter.cache_dir_url
    with make_batch_reader(converter.file_urls) as reader, make_batch_reader(other.file_urls) as wide:
        assert next(reader).x.dtype == np.float32 and next(wide).x.dtype == np.float64
    again = pickle.loads(pickle.dumps(converter))
    assert (again.file_urls, len(again)) == (converter.file_urls, 100)
    (parent / "mine.txt").write_text("mine")
    converter.delete()
    other.delete()
    assert [one.name for one in parent.iterdir()] == ["mine.txt"]
    assert make_spark_converter(frame).cache_dir_url != converter.cache_dir_url


def test_what_was_written_is_removed_when_the_process_ends(spark, parent):
    converter = make_spark_converter(spark.range(10))
    assert len(list(parent.iterdir())) == 1
    _written._delete_at_exit(converter.cache_dir_url)
    assert list(parent.iterdir()) == []


def test_vectors_become_arrays(spark, parent):
    from pyspark.ml.linalg import Vectors

    rows = [(1, Vectors.dense([1.0, 2.0])), (2, Vectors.sparse(2, {1: 3.0}))]
    converter = make_spark_converter(spark.createDataFrame(rows, ["id", "features"]).coalesce(1))
    with make_batch_reader(converter.file_urls) as reader:
        batch = next(reader)
    assert batch.features.dtype == np.float32 and batch.features.tolist() == [[1, 2], [0, 3]]


def test_parquet_that_is_there_is_read_by_its_url(spark, parent, tmp_path):
    url = f"file://{tmp_path}/there"
    spark.range(30).write.parquet(url)
    converter = make_spark_converter(url)
    assert len(converter) == 30 and converter.cache_dir_url == url and not parent.exists()


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"compression_codec": "mars"}, RuntimeError, "compression_codec"),
        ({"dtype": "float16"}, ValueError, "dtype float16"),
    ],
)
def test_arguments_are_checked_by_name(spark, parent, options, error, message):
    with pytest.raises(error, match=message):
        make_spark_converter(spark.range(1), **options)


def test_the_folder_is_a_setting_of_spark(spark):
    setting = SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF
    spark.conf.unset(setting)
    with pytest.raises(ValueError, match=f"Please set the spark config {setting}"):
        make_spark_converter(spark.range(1))
    spark.conf.set(setting, "/tmp/x")
    with pytest.raises(ValueError, match="scheme-less"):
        make_spark_converter(spark.range(1))


def test_loaders_of_torch_have_the_rows(spark, parent):
    torch = pytest.importorskip("torch")
    from forebay.petastorm.pytorch import BatchedDataLoader

    converter = make_spark_converter(spark.range(50).coalesce(2))
    for made in (None, BatchedDataLoader):
        with converter.make_torch_dataloader(batch_size=8, num_epochs=1, data_loader_fn=made) as loader:
            assert sorted(torch.cat([batch["id"] for batch in loader]).tolist()) == list(range(50))
    with converter.make_torch_dataloader(shuffling_queue_capacity=20) as loader:
        batches = iter(loader)
        assert sum(len(next(batches)["id"]) for _ in range(10)) == 320


def test_data_sets_of_tensorflow_have_the_rows(spark, parent):
    pytest.importorskip("tensorflow")
    converter = make_spark_converter(spark.range(50).coalesce(2))
    for capacity in (None, 10):
        with converter.make_tf_dataset(8, num_epochs=1, shuffling_queue_capacity=capacity) as dataset:
            batches = [batch.id.numpy().tolist() for batch in dataset]
        assert sorted(sum(batches, [])) == list(range(50)) and set(map(len, batches[:-1])) == {8}


def test_a_share_that_is_not_horovods_is_a_warning(monkeypatch, caplog):
    check = _horovod.check_rank
    for name in list(os.environ):
        if name.startswith(("HOROVOD_", "OMPI_", "PMI_")):
            monkeypatch.delenv(name)
    assert check({"cur_shard": 1, "shard_count": 3}) and check({})
    monkeypatch.setenv("HOROVOD_RANK", "1")
    monkeypatch.setenv("HOROVOD_SIZE", "3")
    assert check({"cur_shard": 1, "shard_count": 3}) and not caplog.text
    assert not check({"cur_shard": 2, "shard_count": 3}) and "Horovod says rank 1 of 3" in caplog.text
    assert not check({})


def test_urls_on_databricks_are_those_of_both(monkeypatch):
    on = converter_module._on_databricks
    assert on("s3://a/b") == "s3://a/b"
    monkeypatch.setenv("DATABRICKS_RUNTIME_VERSION", "14")
    assert on("dbfs:/a/b") == on("dbfs:///a/b") == "file:/dbfs/a/b" and on("file:///dbfs/a") == "file:///dbfs/a"
    with pytest.raises(ValueError, match="On databricks runtime"):
        on("s3://a/b")
