"""Spark DataFrames as data sets: written once, found again, and written anew if their rows would differ."""

from __future__ import annotations

import os
import pickle
import shutil
import subprocess
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE

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
    """Returns the data sets that were written to a cache."""
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
    # Ranks receive this pickled data set.
    assert rows(pickle.loads(pickle.dumps(first))) == rows(first)


def test_what_may_be_other_rows_has_another_name(spark: Any, table: str, tmp_path: Path) -> None:
    from forebay.spark.plan import name

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
        from forebay.spark.plan import name
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
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, cwd=tmp_path)
        assert done.returncode == 0, done.stderr[-2000:]
        names.add(next(line for line in done.stdout.splitlines() if line.startswith("name ")))
    assert len(names) == 1


def test_a_plan_that_does_not_say_its_rows_is_written_anew_unless_it_has_a_name(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    pandas = pytest.importorskip("pandas")
    frames = {
        "rows": spark.createDataFrame([(1, "a"), (2, "b")], ["id", "text"]),
        "pandas": spark.createDataFrame(pandas.DataFrame({"id": [1, 2], "text": ["a", "b"]})),
        "rdd": spark.sparkContext.parallelize([(1, "a"), (2, "b")]).toDF(["id", "text"]),
        "clock": spark.range(1, 3).selectExpr("id", "chr(96 + id) as text", "current_timestamp() as at"),
    }
    for case, frame in frames.items():
        caplog.clear()
        for calls in (1, 2):
            made = fb.spark.dataset(frame, tmp_path / case)
            assert rows(made, "id", "text") == [(1, "a"), (2, "b")]
            assert len(folders(tmp_path / case)) == calls, case
        assert "written anew by each call" in caplog.text, case
        assert "(pass name=" in caplog.text, case
    assert "its plan has a CurrentTimestamp, which has another value each time" in caplog.text
    made, cache = frames["rows"], tmp_path / "named"
    caplog.clear()
    assert fb.spark.dataset(made, cache, name="train-1").num_rows == 2
    assert fb.spark.dataset(made.limit(1), cache, name="train-1").num_rows == 2
    assert [Path(folder).parts[0] for folder in folders(cache)] == ["train-1"]
    assert not caplog.text
    # Other columns are another data set, whatever its name.
    assert fb.spark.dataset(made.select("id"), cache, name="train-1").columns == ["id"]
    assert fb.spark.dataset(made, cache, name="train-1").columns == ["id", "text"]


def test_floats_get_the_precision_that_is_asked_for(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(3).selectExpr(
        "id",
        "cast(id as double) / 4 as x",
        "cast(id as float) as `a.b`",
        "array(cast(id as double), null) as xs",
        "named_struct('y', cast(id as double), 'n', id) as s",
        "cast(id as decimal(5, 2)) as d",
    )

    def types(**options: Any) -> dict[str, str]:
        made = fb.spark.dataset(frame, tmp_path, **options)
        part = next(Path(str(made._urls)).glob("*.parquet"))
        return {field.name: str(field.type) for field in pq.read_schema(part)}

    assert types()["x"] == "double"
    narrow = types(dtype="float32")
    assert narrow["x"] == "float" and "float" in narrow["xs"] and "y: float" in narrow["s"] and "n: int64" in narrow["s"]
    assert "double" not in str(narrow)
    assert {name: narrow[name] for name in ("id", "a.b", "d")} == {"id": "int64", "a.b": "float", "d": "decimal128(5, 2)"}
    assert types(dtype="float64")["a.b"] == "double"
    assert len(folders(tmp_path)) == 3
    with fb.Loader(fb.spark.dataset(frame, tmp_path, dtype="float32"), columns=["x", "a.b"], batch_size=3) as loader:
        (batch,) = list(loader)
        assert batch["x"].dtype == "float32" and sorted(batch["x"].tolist()) == [0, 0.25, 0.5]
    for wrong in ("float16", "int32", "no type", 3.5):
        with pytest.raises(fb.InvalidError, match="dtype must be 'float32' or 'float64', got"):
            fb.spark.dataset(frame, tmp_path, dtype=wrong)


def test_row_groups_and_codecs_are_those_that_are_asked_for(spark: Any, tmp_path: Path) -> None:
    frame = spark.range(300_000, numPartitions=1).selectExpr("xxhash64(id) as h")

    def written(**options: Any) -> pq.FileMetaData:
        made = fb.spark.dataset(frame, tmp_path, **options)
        return pq.read_metadata(next(Path(str(made._urls)).glob("*.parquet")))

    assert written().num_row_groups == 1
    small = written(row_group_size="512KiB", compression="zstd")
    assert small.num_row_groups > 2
    assert small.row_group(0).column(0).compression == "ZSTD"
    assert written(compression="none").row_group(0).column(0).compression == "UNCOMPRESSED"
    # The same row group size as a number finds the data set that was written above.
    written(row_group_size=512 << 10, compression="zstd")
    assert len(folders(tmp_path)) == 3
    with pytest.raises(fb.InvalidError, match="compression must be one of 'gzip', .*, got 'brotli'"):
        fb.spark.dataset(frame, tmp_path, compression="brotli")
    with pytest.raises(fb.InvalidError, match="row_group_size must be less than 2 GiB, got '3GB'"):
        fb.spark.dataset(frame, tmp_path, row_group_size="3GB")


def test_what_was_written_can_be_deleted(spark: Any, tmp_path: Path) -> None:
    cache = tmp_path / "a cache"
    first = fb.spark.dataset(spark.range(10), cache)
    other = fb.spark.dataset(spark.range(11), cache)
    again = fb.spark.dataset(spark.range(10), cache)
    assert rows(again) == [(row,) for row in range(10)]
    first.delete()
    assert len(folders(cache)) == 1 and len(list(cache.iterdir())) == 1
    again.delete()
    assert other.num_rows == 11
    # A pickled data set works in a training process, which has no Spark.
    assert type(pickle.loads(pickle.dumps(other))) is fb.Dataset
    assert rows(fb.spark.dataset(spark.range(10), cache)) == [(row,) for row in range(10)]


def test_vectors_are_arrays(spark: Any, tmp_path: Path) -> None:
    from pyspark.ml.feature import VectorAssembler
    from pyspark.ml.linalg import Vectors

    frame = spark.createDataFrame(
        [(0, Vectors.dense(1.0, 2.0, 0.5)), (1, Vectors.sparse(3, [0, 2], [4.0, 5.0]))], ["id", "features"]
    )
    for dtype, options in (("float64", {}), ("float32", {"dtype": "float32"})):
        made = fb.spark.dataset(frame, tmp_path, name="v", **options)
        with fb.Loader(made, batch_size=2) as loader:
            (batch,) = list(loader)
            assert batch["features"].values.dtype == dtype
            features = [batch["features"][row].tolist() for row in batch["id"].argsort().tolist()]
            assert features == [[1.0, 2.0, 0.5], [4.0, 0.0, 5.0]]
    assembled = VectorAssembler(inputCols=["id", "id"], outputCol="pair").transform(spark.range(3))
    with fb.Loader(fb.spark.dataset(assembled, tmp_path), columns=["pair"], batch_size=3) as loader:
        assert sorted(next(iter(loader))["pair"].padded().tolist()) == [[0, 0], [1, 1], [2, 2]]
    # A null is an error with its place, as in any column.
    holes = spark.createDataFrame([(0, Vectors.dense(1.0)), (1, None)], frame.schema)
    with fb.Loader(fb.spark.dataset(holes, tmp_path, name="holes"), batch_size=2) as loader:
        with pytest.raises(fb.NullError, match="features"):
            next(iter(loader))["features"]


def test_vectors_that_spark_wrote_by_itself_are_the_same_arrays(spark: Any, tmp_path: Path) -> None:
    from pyspark.ml.linalg import Matrices, Vectors
    from pyspark.mllib.linalg import Vectors as Earlier

    frame = spark.createDataFrame(
        [
            (0, Vectors.dense(1.0, 2.0, 0.5), Earlier.sparse(3, {1: 7.0}), [Vectors.sparse(2, [1], [9.0])]),
            (1, Vectors.sparse(3, [0, 2], [4.0, 5.0]), Earlier.dense([1.0, 2.0, 3.0]), []),
            (2, None, None, None),
        ],
        ["id", "features", "earlier", "several"],
    )
    frame.coalesce(1).write.parquet(str(tmp_path / "written"))
    with fb.Loader(tmp_path / "written", on_bad_row=fb.Skip(at_most=1)) as loader:
        batch = next(iter(loader))
        assert batch["features"].tolist() == [[1.0, 2.0, 0.5], [4.0, 0.0, 5.0]]
        assert batch["earlier"].tolist() == [[0.0, 7.0, 0.0], [1.0, 2.0, 3.0]]
        assert batch["several"].tolist() == [[[0.0, 9.0]], []]
    both = ["id", "features", "earlier"]
    made = fb.spark.dataset(frame.select(*both), tmp_path, name="made")

    def arrow(dataset: Any) -> pa.Table:
        with fb.Loader(dataset, columns=both) as loader:
            return pa.Table.from_batches([batch.to_arrow() for batch in loader]).sort_by("id")

    written, converted = arrow(tmp_path / "written"), arrow(made)
    assert written.equals(converted) and written.schema.equals(converted.schema)
    spark.createDataFrame([(Matrices.dense(1, 2, [1.0, 2.0]),)], ["m"]).write.parquet(str(tmp_path / "matrices"))
    with pytest.raises(fb.UnsupportedError, match='column "m": type matrix of Spark ML is not read'):
        fb.Loader(tmp_path / "matrices")


def test_what_cannot_be_written_is_refused(spark: Any, tmp_path: Path) -> None:
    from pyspark.ml.linalg import Matrices

    matrices = spark.createDataFrame([(Matrices.dense(1, 2, [1.0, 2.0]),)], ["features"])
    with pytest.raises(fb.UnsupportedError, match="column 'features' is a .* of Spark, which Parquet does not have"):
        fb.spark.dataset(matrices, tmp_path, name="v")
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
    said = r"bad/.*: Spark cannot write the DataFrame: a function of the DataFrame raised ArithmeticError: seven at .*"
    with pytest.raises(fb.InvalidError, match=said) as caught:
        fb.spark.dataset(frame, tmp_path, name="bad")
    assert "\n" not in str(caught.value) and caught.value.__cause__ is None
    assert list(tmp_path.rglob("*.parquet")) == []
    assert not (tmp_path / "bad").exists()
    # A driver that was killed while it wrote leaves a folder like this one, without `_SUCCESS`.
    half = tmp_path / "half" / "0123"
    half.mkdir(parents=True)
    pq.write_table(pa.table({"id": range(3)}), half / "part-0.parquet")
    assert fb.spark.dataset(spark.range(10), tmp_path, name="half").num_rows == 10
    assert fb.spark.dataset(spark.range(10), tmp_path, name="half").num_rows == 10
    assert len(folders(tmp_path)) == 1


def test_the_folder_that_was_completed_first_counts(spark: Any, tmp_path: Path) -> None:
    from forebay.spark import _form, _Options, _write
    from forebay.spark.folder import Folder

    frame = spark.range(10)
    options = _Options.of("1MiB", None)
    folder = Folder(spark, str(tmp_path), "both", _form(frame, options))
    first = _write(frame, folder, options, None)
    # A second driver that saw no complete folder writes too, and must return the folder of the first.
    assert _write(frame, folder, options, None) == first
    assert len(folders(tmp_path)) == 1
    os.utime(Path(first) / "_SUCCESS", (0, 0))
    assert folder.complete() == first


def test_executors_with_another_disk_are_noticed(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    pq.write_table(pa.table({"id": range(3)}), elsewhere / "0.parquet")
    monkeypatch.setattr("forebay.spark.folder.Folder.url", lambda self, folder: str(elsewhere))
    with pytest.raises(fb.IoError, match=r"Spark wrote 10 rows, but 3 are in the files \(cache_url must be a folder"):
        fb.spark.dataset(spark.range(10), tmp_path / "cache", name="x")
    assert list((tmp_path / "cache").rglob("*.parquet")) == []


def test_a_frame_without_rows_is_a_data_set_without_rows(spark: Any, tmp_path: Path) -> None:
    assert fb.spark.dataset(spark.range(10).where("id < 0"), tmp_path).num_rows == 0


def test_no_trace_of_java_reaches_a_user(spark: Any, table: str, tmp_path: Path) -> None:
    def refused(frame: Any, cache: Any = tmp_path / "cache", **options: Any) -> Exception:
        with pytest.raises(fb.ForebayError) as caught:
            fb.spark.dataset(frame, cache, **options)
        said = "".join(traceback.format_exception(caught.value))
        assert "py4j" not in said and "\tat " not in said and "JVM" not in str(caught.value), said
        assert "\n" not in str(caught.value), caught.value
        return caught.value

    error = refused(spark.range(3), "no-such-scheme://bucket/cache")
    assert isinstance(error, fb.IoError | fb.InvalidError), error
    assert "no-such-scheme://bucket/cache: Spark cannot use the folder: UnsupportedFileSystemException: No FileSystem" in (
        str(error)
    )
    # Its files are gone when Spark reads them.
    gone = spark.read.parquet(table)
    os.remove(table)
    assert "cannot be" in str(refused(gone)) or "cannot write" in str(refused(gone))
    error = refused(spark.range(3).selectExpr("cast(raise_error('my own') as int) as x"), name="raises")
    assert "my own" in str(error) and isinstance(error, fb.IoError)
    error = refused(spark.range(3).selectExpr("id as `a`", "id as `a`"), name="twice")
    assert isinstance(error, fb.InvalidError), error
