"""Files of other writers (DuckDB, fastparquet, Polars and Spark) have the same rows for forebay as for
pyarrow."""

from __future__ import annotations

import datetime
import decimal
import math
import shutil
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import forebay as fb

ROWS = 500


def plain(value: Any) -> Any:
    """Returns a value in a form in which equal values compare as equal, whatever reader made them."""
    if isinstance(value, dict):
        return {name: plain(field) for name, field in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value
    if isinstance(value, uuid.UUID):
        return value.bytes
    if hasattr(value, "nanosecond"):  # of pandas
        return (value.to_pydatetime(warn=False), value.nanosecond)
    return value


def by_id(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [plain(row) for row in sorted(rows, key=lambda row: row["id"])]


def check(folder: Path, partitioning: str | None = "hive") -> list[dict[str, Any]]:
    """Compares the rows that forebay reads, in stored order and shuffled, with those of pyarrow, and returns these."""
    files = ds.dataset(folder, partitioning=partitioning, exclude_invalid_files=True).to_table()
    expected = by_id(files.to_pylist())
    assert len(expected) == ROWS
    for shuffle in (None, fb.Shuffle(seed=1)):
        with fb.Loader(folder, batch_size=64, shuffle=shuffle) as loader:
            assert set(loader.schema.names) == set(files.column_names)
            got = by_id([row for batch in loader for row in pa.record_batch(batch).to_pylist()])
        for found, wanted in zip(got, expected, strict=True):
            assert found == {name: wanted[name] for name in found}
    return expected


# ---- DuckDB ----

DUCKDB = {
    "boolean": "i % 3 = 0",
    "tiny": "(i % 256 - 128)::TINYINT",
    "small": "(i * 31 - 4000)::SMALLINT",
    "integer": "(i * 7919)::INTEGER",
    "bigint": "i * 1234567890123",
    "utiny": "(i % 256)::UTINYINT",
    "usmall": "(i % 65536)::USMALLINT",
    "uinteger": "(i + 4000000000)::UINTEGER",
    "ubigint": "(i + 18446744073709551000)::UBIGINT",
    "huge": "(i * 1000)::HUGEINT",
    "float": "(i / 7)::FLOAT",
    "double": "CASE WHEN i % 9 = 0 THEN 'NaN'::DOUBLE ELSE i / 7 END",
    "decimal4": "(i / 10)::DECIMAL(4, 1)",
    "decimal9": "(i * 1.25)::DECIMAL(9, 2)",
    "decimal18": "(i * 1.25)::DECIMAL(18, 4)",
    "decimal38": "(i * -1.25)::DECIMAL(38, 10)",
    "day": "DATE '1969-06-01' + i::INTEGER",
    "time": "TIME '00:00:01' + INTERVAL (i) SECOND",
    "stamp": "TIMESTAMP '1960-01-01 12:00:00.123456' + INTERVAL (i) HOUR",
    "stamp_ms": "(TIMESTAMP '2020-01-01' + INTERVAL (i) MINUTE)::TIMESTAMP_MS",
    "stamp_ns": "(TIMESTAMP '2020-01-01' + INTERVAL (i) MINUTE)::TIMESTAMP_NS",
    "zoned": "TIMESTAMPTZ '2020-01-01 00:00:00+02' + INTERVAL (i) DAY",
    "uuid": "md5(i::VARCHAR)::UUID",
    "text": "CASE WHEN i % 5 = 0 THEN NULL ELSE repeat('ä' || i, (i % 4)::INTEGER) END",
    "few": "['red', 'green', 'blue'][i % 3 + 1]",
    "enum": "['red', 'green', 'blue'][i % 3 + 1]::colour",
    "blob": "encode('b' || i)",
    "list": "range(i % 4)",
    "list_null": "CASE WHEN i % 4 = 0 THEN NULL ELSE [i, NULL, i + 1] END",
    "array": "[i, i + 1, i + 2]::FLOAT[3]",
    "texts": "['a' || i, NULL, '']",
    "lists": "[[i], [], NULL, [1, 2]]",
    "struct": "{'x': i, 'y': {'z': 'q' || i, 'w': [i::DOUBLE]}}",
    "map": "MAP {'k' || i: i, 'other': NULL}",
    "boxes": "[{'box': [1.0::FLOAT, i], 'label': i::INTEGER}, NULL]",
}


@pytest.mark.parametrize("version", ["V1", "V2"])
@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4_raw"])
def test_duckdb(tmp_path: Path, codec: str, version: str) -> None:
    duckdb = pytest.importorskip("duckdb")
    # pyarrow 26 fails at the difference encoding of this type: "Unexpected end of stream".
    left_out = {"uinteger"} if version == "V2" else set()
    columns = ", ".join(f'{what} AS "{name}"' for name, what in DUCKDB.items() if name not in left_out)
    with duckdb.connect() as connection:
        connection.execute("CREATE TYPE colour AS ENUM ('red', 'green', 'blue')")
        connection.execute(
            f"COPY (SELECT i AS id, {columns} FROM range({ROWS}) t(i)) TO '{tmp_path}/a.parquet' "
            f"(FORMAT parquet, COMPRESSION {codec}, ROW_GROUP_SIZE 200, PARQUET_VERSION {version})"
        )
        check(tmp_path)


def test_duckdb_partitions(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.execute(
            f"COPY (SELECT i AS id, i % 3 AS year, 'c ' || (i % 2) AS city, i / 2 AS x FROM range({ROWS}) t(i)) "
            f"TO '{tmp_path}/t' (FORMAT parquet, PARTITION_BY (year, city))"
        )
    rows = check(tmp_path / "t")
    assert [row["year"] for row in rows[:4]] == [0, 1, 2, 0]


# ---- fastparquet ----


def frame() -> Any:
    pandas = pytest.importorskip("pandas")
    at = np.arange(ROWS)
    columns = {
        "id": at,
        "boolean": at % 3 == 0,
        **{
            kind: at.astype(kind) for kind in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
        },
        **{kind: np.where(at % 7 == 0, np.nan, at / 4).astype(kind) for kind in ("float32", "float64")},
        "nullable": pandas.array([None if i % 5 == 0 else i for i in at.tolist()], dtype="Int32"),
        "flag": pandas.array([None if i % 5 == 0 else i % 2 == 0 for i in at.tolist()], dtype="boolean"),
        "stamp": pandas.Timestamp("2020-01-01") + pandas.to_timedelta(at, unit="min"),
        "text": [None if i % 6 == 0 else f"täxt {i}" for i in at.tolist()],
        "bytes": [b"\xff" + str(i).encode() for i in at.tolist()],
        "category": pandas.Categorical([("red", "green", "blue")[i % 3] for i in at.tolist()]),
    }
    return pandas.DataFrame(columns)


@pytest.mark.parametrize("times", ["int64", "int96"])
@pytest.mark.parametrize("codec", ["UNCOMPRESSED", "SNAPPY", "GZIP", "ZSTD", "BROTLI", "LZ4_RAW"])
def test_fastparquet(tmp_path: Path, codec: str, times: str) -> None:
    fastparquet = pytest.importorskip("fastparquet")
    encodings = {"text": "utf8", "bytes": "bytes"}
    fastparquet.write(
        str(tmp_path / "a.parquet"),
        frame(),
        compression=codec,
        times=times,
        row_group_offsets=130,
        object_encoding=encodings,
    )
    check(tmp_path)


def test_fastparquet_partitions(tmp_path: Path) -> None:
    fastparquet = pytest.importorskip("fastparquet")
    rows = frame()[["id", "int8", "text", "category"]].assign(key=lambda rows: rows["id"] % 4)
    fastparquet.write(str(tmp_path / "t"), rows, file_scheme="hive", partition_on=["key", "category"])
    # The writer also writes a summary of the files.
    assert (tmp_path / "t" / "_metadata").exists()
    rows = check(tmp_path / "t")
    assert [(row["key"], row["category"]) for row in rows[:2]] == [(0, "red"), (1, "green")]


# ---- Polars ----


def polars_frame(pl: Any) -> Any:
    at = list(range(ROWS))
    start = datetime.datetime(2020, 1, 1, 1, 2, 3, 456789)
    return pl.DataFrame(
        {
            "id": at,
            "boolean": [None if i % 7 == 0 else i % 2 == 0 for i in at],
            **{
                str(kind): pl.Series(at).cast(kind, strict=False)
                for kind in (pl.Int16, pl.UInt16, pl.UInt32, pl.UInt64)
            },
            "float32": pl.Series([i / 3 for i in at], dtype=pl.Float32),
            "float64": [float("nan") if i % 9 == 0 else i / 3 for i in at],
            "decimal": pl.Series([decimal.Decimal(i) / 4 for i in at], dtype=pl.Decimal(12, 2)),
            "day": [datetime.date(1969, 12, 1) + datetime.timedelta(i) for i in at],
            "time": [datetime.time(i % 24, i % 60, 1, i) for i in at],
            **{
                f"stamp_{unit}": pl.Series([start + datetime.timedelta(i) for i in at], dtype=pl.Datetime(unit))
                for unit in ("ms", "us", "ns")
            },
            "zoned": pl.Series([start] * ROWS, dtype=pl.Datetime("us", "UTC")),
            "text": [None if i % 6 == 0 else f"täxt {i}" for i in at],
            "bytes": [b"\xff" * (i % 5) for i in at],
            "category": pl.Series([f"c{i % 5}" for i in at], dtype=pl.Categorical),
            "enum": pl.Series([("a", "b")[i % 2] for i in at], dtype=pl.Enum(["a", "b"])),
            "list": [None if i % 8 == 0 else [i, None][: i % 3] for i in at],
            "array": pl.Series([[i, i + 1] for i in at], dtype=pl.Array(pl.Int32, 2)),
            "struct": [{"x": i, "y": [f"t{i}"]} for i in at],
            "structs": [[{"box": [1.5, i], "label": i}] * (i % 3) for i in at],
        },
        strict=False,
    )


@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd", "brotli", "lz4"])
def test_polars(tmp_path: Path, codec: Any) -> None:
    pl = pytest.importorskip("polars")
    polars_frame(pl).write_parquet(tmp_path / "a.parquet", compression=codec, row_group_size=130, data_page_size=2_000)
    check(tmp_path)


def test_polars_partitions(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    rows = polars_frame(pl).select("id", "text", "list", key=pl.col("id") % 4, name=pl.format("n {}", pl.col("id") % 2))
    rows.write_parquet(tmp_path / "t", partition_by=["key", "name"], mkdir=True)
    # Polars also stores the key columns in the files, so pyarrow must not read them from the folder names as well.
    check(tmp_path / "t", partitioning=None)


def test_integers_of_128_bits_are_refused_where_they_are_asked_for(tmp_path: Path) -> None:
    pl = pytest.importorskip("polars")
    wide = pl.Series([1, 2], dtype=pl.Int128)
    frame = pl.DataFrame({"a": [3, 4], "x": wide, "y": [[1], [2]], "z": pl.Series([wide, wide])})
    frame.write_parquet(tmp_path / "a.parquet")
    for name in ("x", "z"):
        says = f'column "{name}": integers of more than 64 bits are not read .*decimals'
        with pytest.raises(fb.UnsupportedError, match=says):
            fb.Loader(tmp_path, columns=["a", name])
    [batch] = fb.Loader(tmp_path, columns=["a", "y"])
    assert batch.to_arrow().to_pydict() == {"a": [3, 4], "y": [[1], [2]]}
    # This file has no column that can be read.
    pl.DataFrame({"x": wide}).write_parquet(tmp_path / "a.parquet")
    with pytest.raises(fb.UnsupportedError, match="not supported"):
        fb.Loader(tmp_path)


# ---- Spark ----


@pytest.fixture(scope="module")
def spark() -> Iterator[Any]:
    sql = pytest.importorskip("pyspark.sql")
    if shutil.which("java") is None:
        pytest.skip("no java for Spark")
    builder = sql.SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.sql.session.timeZone", "UTC").config("spark.driver.host", "127.0.0.1").getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


SPARK = [
    "id % 3 = 0 AS boolean", "CAST(id % 128 AS TINYINT) AS tiny", "CAST(id AS SMALLINT) AS small",
    "CAST(id * 7919 AS INT) AS integer", "id * 1234567890123 AS bigint", "CAST(id / 7 AS FLOAT) AS float",
    "IF(id % 9 = 0, double('NaN'), id / 7) AS double", "CAST(id / 4 AS DECIMAL(9, 2)) AS decimal9",
    "CAST(id / 4 AS DECIMAL(18, 3)) AS decimal18", "CAST(-id / 4 AS DECIMAL(38, 10)) AS decimal38",
    "IF(id % 5 = 0, NULL, concat('täxt ', id)) AS text", "CAST(concat('b', id) AS BINARY) AS bytes",
    "date_add(DATE '1969-06-01', CAST(id AS INT)) AS day",
    "timestamp_micros(id * 86400123456) AS stamp", "CAST('2020-01-01 00:00:00.5' AS TIMESTAMP_NTZ) AS local",
    "IF(id % 4 = 0, NULL, array(id, NULL, 1)) AS list", "array(array('a'), NULL, array()) AS lists",
    "named_struct('x', id, 'y', named_struct('z', array(id))) AS struct",
    "array(named_struct('box', array(1.5f, float(id)), 'label', int(id))) AS boxes",
    "map(concat('k', id), id, 'other', NULL) AS map",
]  # fmt: skip


@pytest.mark.parametrize("version", ["v1", "v2"])
@pytest.mark.parametrize("times", ["INT96", "TIMESTAMP_MICROS"])
@pytest.mark.parametrize("codec", ["uncompressed", "snappy", "gzip", "zstd", "lz4_raw"])
def test_spark(tmp_path: Path, spark: Any, codec: str, times: str, version: str) -> None:
    spark.conf.set("spark.sql.parquet.outputTimestampType", times)
    frame = spark.range(ROWS).selectExpr("id", *SPARK)
    writer = frame.coalesce(1).write.option("compression", codec).option("parquet.writer.version", version)
    writer.option("parquet.page.size", 2_000).parquet(str(tmp_path / "t"))
    assert (tmp_path / "t" / "_SUCCESS").exists()
    check(tmp_path / "t")


def test_spark_partitions(tmp_path: Path, spark: Any) -> None:
    day = "date_add(DATE '2020-02-28', CAST(id % 3 AS INT)) AS day"
    frame = spark.range(ROWS).selectExpr(
        "id", "id / 2 AS x", day, "IF(id % 4 = 0, NULL, concat('a/b ', id % 4)) AS name"
    )
    frame.write.partitionBy("day", "name").parquet(str(tmp_path / "t"))
    rows = check(tmp_path / "t")
    assert [row["name"] for row in rows[:3]] == [None, "a/b 1", "a/b 2"]
