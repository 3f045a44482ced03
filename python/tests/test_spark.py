"""DataFrames of Spark as data sets: written once, found again, and written anew when something else would be in them."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

sql = pytest.importorskip("pyspark.sql")
if shutil.which("java") is None:
    pytest.skip("no java for Spark", allow_module_level=True)

from pyspark.sql import functions as F  # noqa: E402


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.fixture
def table(tmp_path: Path) -> str:
    pq.write_table(pa.table({"id": range(100), "x": [row % 7 for row in range(100)]}), tmp_path / "table.parquet")
    return str(tmp_path / "table.parquet")


def folders(cache: Path) -> list[str]:
    """The data sets that were written to a cache."""
    return sorted(str(path.parent.relative_to(cache)) for path in cache.glob("*/*/_SUCCESS"))


def rows(dataset: fb.Dataset, *columns: str) -> list[Any]:
    with fb.Loader(dataset, columns=list(columns) or None, batch_size=1_000) as loader:
        (batch,) = list(loader)
        return sorted(zip(*(batch[name].tolist() for name in batch), strict=True))


def test_a_frame_is_written_once_and_found_again(spark: Any, table: str, tmp_path: Path) -> None:
    cache = tmp_path / "a cache"

    def frame(limit: int = 50) -> Any:
        return spark.read.parquet(table).where(F.col("id") < limit).select("id", (F.col("x") + 1).alias("y"))

    first = fb.spark.dataset(frame(), cache)
    assert rows(first) == [(row, row % 7 + 1) for row in range(50)]
    (folder,) = folders(cache)
    again = fb.spark.dataset(frame(), str(cache))
    assert repr(again) == repr(first)
    assert folders(cache) == [folder]
    assert fb.spark.dataset(frame(51), cache).num_rows == 51
    assert len(folders(cache)) == 2
    # What ranks get.
    assert rows(pickle.loads(pickle.dumps(first))) == rows(first)


def test_what_may_be_other_rows_has_another_name(spark: Any, table: str, tmp_path: Path) -> None:
    from forebay.spark_plan import name

    csv = tmp_path / "table.csv"
    csv.write_text("a;b,c\n1;2,3\n")
    read = spark.read.parquet(table)

    def applied(factor: int) -> Any:
        return read.select(F.udf(lambda x: x * factor, "long")("x").alias("y"))

    frames = [
        read,
        read.select("id"),
        read.select("x"),
        read.select(F.col("x").alias("id")),
        read.select("x", "id"),
        read.select(F.col("x").alias("id"), F.col("id").alias("x")),
        read.where("x < 3"),
        read.where("x < 4"),
        read.where(F.col("x").isin(*range(40))),
        read.where(F.col("x").isin(*range(39), 50)),
        read.where("x < (select max(id) from range(3))"),
        read.where("x < (select max(id) from range(4))"),
        read.select(F.lit("#1").alias("s")),
        read.select(F.lit("#2").alias("s")),
        read.select(F.expr("cast('x' as int)").alias("c")),
        read.select(F.expr("try_cast('x' as int)").alias("c")),
        read.sample(0.5, seed=1),
        read.sample(0.5, seed=2),
        applied(2),
        applied(3),
        spark.read.csv(str(csv), header=True),
        spark.read.csv(str(csv), header=True, sep=";"),
        spark.read.csv(str(csv)),
        spark.range(10),
        spark.range(11),
    ]
    names = [name(frame) for frame in frames]
    assert len(set(names)) == len(frames), [names.index(one) for one in names]
    assert names[:3] == [name(frame) for frame in frames[:3]]
    before = name(read)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Tokyo")
    try:
        assert name(read) != before
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert name(read) == before
    pq.write_table(pa.table({"id": range(100), "x": [row % 6 for row in range(100)]}), table)
    assert name(spark.read.parquet(table)) != before


def test_two_programs_give_one_name(table: str, tmp_path: Path) -> None:
    script = f"""if True:
        import forebay as fb
        from forebay.spark_plan import name
        from pyspark.sql import SparkSession, functions as F
        builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
        for padding in range(int(__import__("sys").argv[1])):
            spark.range(padding + 1).select("id").schema
        frame = spark.read.parquet({table!r})
        frame = frame.join(frame.groupBy("x").agg(F.max("id").alias("m")), "x").where("id < m")
        print("name", name(frame.select("id", F.udf(lambda x: x + 1, "long")("m").alias("n"))))
    """
    names = set()
    for padding in ("0", "3"):
        command = [sys.executable, "-c", script, padding]
        done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-2000:]
        names.add([line for line in done.stdout.splitlines() if line.startswith("name ")][0])
    assert len(names) == 1


def test_a_plan_that_does_not_say_its_rows_needs_a_name(spark: Any, tmp_path: Path) -> None:
    made = spark.createDataFrame([(1, "a"), (2, "b")], ["id", "text"])
    with pytest.raises(fb.UnsupportedError, match=r"cannot be named by its plan: it reads a .*\(pass name=\.\.\."):
        fb.spark.dataset(made, tmp_path)
    with pytest.raises(fb.UnsupportedError, match="has a CurrentTimestamp, which has another value each time"):
        fb.spark.dataset(spark.range(3).withColumn("at", F.current_timestamp()), tmp_path)
    assert fb.spark.dataset(made, tmp_path, name="train-1").num_rows == 2
    assert fb.spark.dataset(made.limit(1), tmp_path, name="train-1").num_rows == 2
    assert [Path(folder).parts[0] for folder in folders(tmp_path)] == ["train-1"]


def test_what_cannot_be_written_is_refused(spark: Any, tmp_path: Path) -> None:
    from pyspark.ml.linalg import Vectors

    vectors = spark.createDataFrame([(Vectors.dense(1.0, 2.0),)], ["features"])
    with pytest.raises(fb.UnsupportedError, match="column 'features' is a .* with pyspark.ml.functions.vector_to_array"):
        fb.spark.dataset(vectors, tmp_path, name="v")
    with pytest.raises(fb.InvalidError, match=r"frame must be a DataFrame of classic Spark, got builtins\.list"):
        fb.spark.dataset([], tmp_path)
    with pytest.raises(fb.InvalidError, match="name must be letters"):
        fb.spark.dataset(spark.range(3), tmp_path, name="../x")
    with pytest.raises(fb.InvalidError, match="cache_url must be a path or URL of a folder, got int"):
        fb.spark.dataset(spark.range(3), 3)  # type: ignore[arg-type]
    stream = spark.readStream.format("rate").load()
    with pytest.raises(fb.InvalidError, match="frame is a stream"):
        fb.spark.dataset(stream, tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(fb.IoError, match=r"file/cache/n: the folder cannot be made: .* Spark may write to") as caught:
        fb.spark.dataset(spark.range(3), tmp_path / "file" / "cache", name="n")
    assert caught.value.file == str(tmp_path / "file" / "cache" / "n")


def test_a_failed_write_leaves_nothing_and_a_half_one_is_never_read(spark: Any, tmp_path: Path) -> None:
    def fails(x: int) -> int:
        if x == 7:
            raise ArithmeticError("seven")
        return x

    frame = spark.range(10).select(F.udf(fails, "long")("id").alias("x"))
    with pytest.raises(Exception, match="seven"):
        fb.spark.dataset(frame, tmp_path, name="bad")
    assert list(tmp_path.rglob("*.parquet")) == []
    assert not (tmp_path / "bad").exists()
    # A driver that was killed while it wrote.
    half = tmp_path / "half" / "0123"
    half.mkdir(parents=True)
    pq.write_table(pa.table({"id": range(3)}), half / "part-0.parquet")
    assert fb.spark.dataset(spark.range(10), tmp_path, name="half").num_rows == 10
    assert fb.spark.dataset(spark.range(10), tmp_path, name="half").num_rows == 10
    assert len(folders(tmp_path)) == 1


def test_the_folder_that_was_completed_first_counts(spark: Any, tmp_path: Path) -> None:
    from forebay.spark import _Folder, _write

    frame = spark.range(10)
    folder = _Folder(spark, str(tmp_path), "both")
    first = _write(frame, folder, None)
    # Another driver looked before the first was done, and writes too.
    assert _write(frame, folder, None) == first
    assert len(folders(tmp_path)) == 1
    os.utime(Path(first) / "_SUCCESS", (0, 0))
    assert folder.complete() == first


def test_executors_with_another_disk_are_noticed(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    pq.write_table(pa.table({"id": range(3)}), elsewhere / "0.parquet")
    monkeypatch.setattr("forebay.spark._Folder.url", lambda self, folder: str(elsewhere))
    with pytest.raises(fb.IoError, match=r"Spark wrote 10 rows, and 3 are there \(cache_url must be a folder"):
        fb.spark.dataset(spark.range(10), tmp_path / "cache", name="x")
    assert list((tmp_path / "cache").rglob("*.parquet")) == []


def test_a_frame_without_rows_is_a_data_set_without_rows(spark: Any, tmp_path: Path) -> None:
    assert fb.spark.dataset(spark.range(10).where("id < 0"), tmp_path).num_rows == 0
