"""Apache Iceberg tables that other libraries wrote, read at each of their snapshots.

The writers are ``pyiceberg``, in this interpreter or in the one that FOREBAY_PYICEBERG_PYTHON names, and Spark, in the
interpreter that FOREBAY_ICEBERG_SPARK_PYTHON names, with the jar that FOREBAY_ICEBERG_SPARK_JAR names.
"""

from __future__ import annotations

import json
import os
import pickle
import random
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE

import forebay as fb

#: The tables that Spark writes: t1, t2 and t3 in versions 1, 2 and 3 of the format, and t4 with equality deletes.
BY_SPARK = ["t1", "t2", "t3", "t4"]

WRITES = """
import sys, time
from datetime import date
from decimal import Decimal
import pyarrow as pa, pyarrow.parquet as pq
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.expressions import EqualTo, GreaterThan
from pyiceberg.transforms import BucketTransform, IdentityTransform
from pyiceberg.types import IntegerType, LongType
root, out = sys.argv[1:]
catalog = SqlCatalog("c", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
catalog.create_namespace("db")
def rows(begin, end, **more):
    ids = range(begin, end)
    return pa.table({
        "id": pa.array(ids, pa.int64()),
        "count": pa.array(ids, pa.int32()),
        "name": [None if id % 7 == 0 else f"n{id}" for id in ids],
        "price": pa.array([Decimal(id) / 4 for id in ids], pa.decimal128(10, 2)),
        "day": pa.array([None if id % 5 == 0 else date(2024, 5, 1 + id % 3) for id in ids], pa.date32()),
        "place": [["a b", "c/d=e%", "u"][id % 3] for id in ids],
        "tags": [[f"t{id}"] * (id % 3) for id in ids],
        "inner": [{"x": id, "y": f"y{id}"} for id in ids],
        **{name: [of] * len(ids) for name, of in more.items()},
    })
table = catalog.create_table("db.t", schema=rows(1, 2).schema)
with table.update_spec() as spec:
    spec.add_identity("day")
    spec.add_identity("place")
table.append(rows(0, 60))
table.append(rows(60, 90))
# A test reads the snapshot at the time of this commit: no other commit may have the same millisecond.
time.sleep(0.1)
table.delete(EqualTo("id", 13))
with table.update_schema() as schema:
    schema.rename_column("name", "title")
    schema.rename_column("inner.y", "z")
    schema.delete_column("price")
    schema.add_column("extra", IntegerType())
    schema.update_column("count", LongType())
    schema.move_first("place")
with table.update_spec() as spec:
    spec.remove_field("place")
    spec.add_field("id", BucketTransform(4), "bucket")
late = rows(90, 120).rename_columns(["id", "count", "title", "price", "day", "place", "tags", "inner"])
late = late.drop_columns(["price"]).append_column("extra", pa.array([7] * 30, pa.int32()))
late = late.set_column(1, "count", late["count"].cast(pa.int64()))
inner = [{"x": row["x"], "z": row["y"]} for row in late["inner"].to_pylist()]
late = late.set_column(late.column_names.index("inner"), "inner", pa.array(inner, pa.struct({"x": pa.int64(), "z": pa.string()})))
table.append(late)
table.manage_snapshots().create_tag(table.snapshots()[1].snapshot_id, "early").commit()
table.delete(GreaterThan("id", 110))
for snapshot in table.snapshots():
    pq.write_table(table.scan(snapshot_id=snapshot.snapshot_id).to_arrow(), f"{out}/{snapshot.snapshot_id}.parquet")
pq.write_table(table.scan().to_arrow(), f"{out}/newest.parquet")
print(table.metadata_location)
"""


def interpreter() -> str:
    """Returns an interpreter that has pyiceberg. Skips the test if there is none."""
    named = os.environ.get("FOREBAY_PYICEBERG_PYTHON")
    if named is None and find_spec("pyiceberg") is None:
        pytest.skip("pyiceberg is not installed")
    return named or sys.executable


def run(python: str, code: str, *words: object) -> str:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [python, "-c", code, *map(str, words)], check=True, env=environ, timeout=PATIENCE, stdout=subprocess.PIPE
    )
    return ran.stdout.decode().strip()


def plain(value: Any) -> Any:
    """Returns a value in which structures are plain dicts, so that only the content is compared."""
    if isinstance(value, dict):
        return {name: plain(of) for name, of in value.items()}
    return [plain(of) for of in value] if isinstance(value, list) else value


def counted(table: pa.Table) -> Counter[str]:
    names = sorted(table.column_names)
    return Counter(
        repr([plain(value) for value in row]) for row in zip(*(table[name].to_pylist() for name in names), strict=True)
    )


def read(path: Any, **options: Any) -> tuple[Counter[str], list[str]]:
    loader = fb.Loader(path, batch_size=7, flatten=False, **options)
    batches = [pa.record_batch(batch) for batch in loader]
    assert sum(len(batch) for batch in batches) == loader.num_rows
    assert len(batches) == len(loader)
    table = pa.Table.from_batches(batches)
    return counted(table), table.column_names


def same(path: Any, expected: Path, **version: Any) -> None:
    want = pq.read_table(expected)
    if want.num_rows == 0:
        assert fb.Dataset(path, **version).num_rows == 0
        return
    rows, names = read(path, **version)
    assert names == want.column_names, version
    assert rows == counted(want), version


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """Paths of a table with several snapshots, of the rows that pyiceberg reads from each, and of its newest metadata."""
    root, expected = (tmp_path_factory.mktemp(name) for name in ("warehouse", "expected"))
    metadata = run(interpreter(), WRITES, root, expected)
    return root / "db" / "t", expected, Path(metadata.removeprefix("file://"))


def test_each_snapshot_has_the_rows_that_its_writer_reads(written: tuple[Path, Path, Path]) -> None:
    table, expected, metadata = written
    snapshots = [int(file.stem) for file in expected.iterdir() if file.stem != "newest"]
    assert len(snapshots) >= 5
    for snapshot in snapshots:
        same(table, expected / f"{snapshot}.parquet", version=snapshot)
        same(metadata, expected / f"{snapshot}.parquet", version=snapshot)
    same(table, expected / "newest.parquet")
    same(table, expected / "newest.parquet", version="main")
    same(metadata, expected / "newest.parquet")


BOUNDED = """
import sys
from datetime import date, datetime, timedelta, timezone
import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.types import DoubleType, LongType
root, = sys.argv[1:]
catalog = SqlCatalog("c", uri=f"sqlite:///{root}/catalog.db", warehouse=f"file://{root}")
catalog.create_namespace("db")
def rows(file, number, real):
    ids = range(file * 10, file * 10 + 10)
    missing = {4: range(10), 5: [3]}.get(file, [])
    def some(values, of):
        return pa.array([None if at in missing else value for at, value in enumerate(values)], of)
    reals = [[id / 4, -0.0, float("nan"), float("inf")][id % 4 if file in (1, 2) else 0] for id in ids]
    at = datetime(2024, 5, 1, tzinfo=timezone.utc)
    return pa.table({
        "id": pa.array(ids, pa.int64()),
        "number": some([7 - id for id in ids], number),
        "real": some(reals, real),
        "text": some([f"{'a long beginning' * (file % 3)}{id:03}\U0010ffff" for id in ids], pa.string()),
        "day": some([date(2024, 5, 1) + timedelta(id) for id in ids], pa.date32()),
        "at": some([at + timedelta(hours=id) for id in ids], pa.timestamp("us", "UTC")),
        "flag": some([file % 2 == 0] * 10, pa.bool_()),
    })
table = catalog.create_table("db.t", schema=rows(0, pa.int32(), pa.float32()).schema)
for file in range(4):
    table.append(rows(file, pa.int32(), pa.float32()))
with table.update_schema() as schema:
    schema.update_column("number", LongType())
    schema.update_column("real", DoubleType())
for file in range(4, 8):
    table.append(rows(file, pa.int64(), pa.float64()))
table.delete("id == 13 or id == 55")
print(table.metadata_location)
"""


def selected(data: Any, condition: Any) -> list[int]:
    """The ids of the rows that a condition selects."""
    try:
        loader = fb.Loader(data, filter=condition, columns=["id"], batch_size=7)
    except ValueError as error:
        assert "no row is selected" in str(error), error
        return []
    return sorted(int(id) for batch in loader for id in batch["id"])


def test_a_filter_selects_what_it_selects_without_the_bounds_of_manifests(tmp_path: Path) -> None:
    path = run(interpreter(), BOUNDED, tmp_path).removeprefix("file://")
    table = fb.Dataset(path)
    rows = [row for batch in fb.Loader(table, batch_size=7) for row in pa.record_batch(batch).to_pylist()]
    assert len(rows) == 78
    draw = random.Random(3)
    for _ in range(120):
        name, how = draw.choice(list(rows[0])), draw.choice(["==", "!=", "<", "<=", ">", ">="])
        value = draw.choice(rows)[name]
        if value is None or value != value:
            condition = fb.col(name).is_null()
        else:
            condition = [(name, "==" if name == "flag" else how, value)]
        assert selected(path, condition) == selected(table, condition), condition
    for file in tmp_path.rglob("data/**/*.parquet"):
        file.rename(file.with_suffix(".gone"))
    # The data files are gone, but their bounds show that none has such rows, so none is opened.
    for condition in [("id", ">", 79), ("text", "<", "0"), ("at", "<", datetime(2024, 5, 1, tzinfo=timezone.utc))]:
        assert selected(path, [condition]) == [], condition


def spark_with_iceberg() -> tuple[str, str]:
    """The interpreter that has Spark, and the jar of Iceberg."""
    python, jar = (os.environ.get(f"FOREBAY_ICEBERG_SPARK_{name}") for name in ("PYTHON", "JAR"))
    if python is None or jar is None or shutil.which("java") is None:
        pytest.skip("FOREBAY_ICEBERG_SPARK_PYTHON and FOREBAY_ICEBERG_SPARK_JAR name no Spark with Iceberg")
    return python, jar


FRAMES = """
import json, sys
import forebay as fb
from pyspark.sql import SparkSession, functions as F
warehouse, cache, jar = sys.argv[1:4]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
builder = builder.config("spark.jars", jar).config("spark.sql.shuffle.partitions", "2")
builder = builder.config("spark.sql.extensions", "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions")
builder = builder.config("spark.sql.catalog.c", "org.apache.iceberg.spark.SparkCatalog")
builder = builder.config("spark.sql.catalog.c.type", "hadoop").config("spark.sql.catalog.c.warehouse", warehouse)
spark = builder.getOrCreate()
spark.sql("CREATE TABLE c.db.t (id bigint, x bigint) USING iceberg TBLPROPERTIES "
          "('format-version' = '2', 'write.delete.mode' = 'merge-on-read')")
spark.range(100).withColumn("x", F.col("id") % 7).writeTo("c.db.t").append()
(first, at), = spark.sql("SELECT snapshot_id, committed_at FROM c.db.t.snapshots").collect()
spark.sql(f"ALTER TABLE c.db.t CREATE TAG early AS OF VERSION {first}")
spark.sql("DELETE FROM c.db.t WHERE id % 10 = 3")
spark.sql("ALTER TABLE c.db.t CREATE BRANCH side")
spark.range(100, 105).withColumn("x", F.lit(0).cast("long")).writeTo("c.db.t.branch_side").append()
snapshots = [row[0] for row in spark.sql("SELECT snapshot_id FROM c.db.t.snapshots ORDER BY committed_at").collect()]
read, path = (lambda **options: spark.read.options(**options)), warehouse + "/db/t"
milliseconds = str(int(at.timestamp() * 1000) + 1)
frames = {
    "newest": spark.table("c.db.t"),
    "loaded": read().format("iceberg").load(path),
    "selected": spark.sql("SELECT id, x FROM c.db.t"),
    "first": read(**{"snapshot-id": str(first)}).table("c.db.t"),
    "version": spark.sql(f"SELECT * FROM c.db.t VERSION AS OF {first}"),
    "tag": spark.sql("SELECT * FROM c.db.t VERSION AS OF 'early'"),
    "tagged": read(tag="early").table("c.db.t"),
    "time": read(**{"as-of-timestamp": milliseconds}).format("iceberg").load(path),
    "branch": read(branch="side").table("c.db.t"),
    "named": spark.table("c.db.t.branch_side"),
    "one": spark.table("c.db.t").select("id"),
    "other": spark.table("c.db.t").select("id", (F.col("x") + 1).alias("x")),
    "filtered": spark.table("c.db.t").where("id < 5"),
    "swapped": spark.table("c.db.t").select("x", "id"),
    "log": spark.table("c.db.t.history").select("snapshot_id"),
    "limited": spark.table("c.db.t").limit(7),
}
said = {}
for name, frame in frames.items():
    data = fb.spark.dataset(frame, cache + "/" + name)
    said[name] = [data.version, data.num_rows, frame.count()]
spark.conf.set("spark.wap.branch", "side")
said["checked"] = [fb.spark.dataset(spark.table("c.db.t"), cache + "/checked").version]
print(json.dumps({"snapshots": snapshots, "said": said}))
"""


def test_a_frame_of_spark_that_is_a_table_is_opened_as_the_table(tmp_path: Path) -> None:
    python, jar = spark_with_iceberg()
    environ = {**os.environ, "PYTHONPATH": str(Path(fb.__file__).parents[1]), "PYSPARK_PYTHON": python}
    words = [python, "-c", FRAMES, str(tmp_path / "t"), str(tmp_path / "cache"), jar]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-3_000:]
    found = json.loads(done.stdout.strip().splitlines()[-1])
    (first, second, side), said = found["snapshots"], found["said"]
    for name in ("newest", "loaded", "selected"):
        assert said[name] == [second, 90, 90], name
    for name in ("first", "version", "tag", "tagged", "time"):
        assert said[name] == [first, 100, 100], name
    for name in ("branch", "named"):
        assert said[name] == [side, 95, 95], name
    for name in ("one", "other", "filtered", "swapped", "log", "limited"):
        version, rows, counted = said[name]
        assert (version, rows) == (None, counted), name
    assert said["checked"] == [None]


@pytest.fixture(scope="module")
def by_spark(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Tables that Spark wrote, and what it reads of each snapshot."""
    python, jar = spark_with_iceberg()
    warehouse, expected = (tmp_path_factory.mktemp(name) for name in ("spark", "expected"))
    run(python, (Path(__file__).parent / "iceberg_spark.py").read_text(), warehouse, expected, jar)
    return warehouse / "db", expected


@pytest.mark.parametrize("name", BY_SPARK)
def test_each_snapshot_has_the_rows_that_spark_reads(name: str, by_spark: tuple[Path, Path]) -> None:
    tables, expected = by_spark
    versions = [folder.name for folder in (expected / name).iterdir()]
    assert len(versions) >= 6
    for version in versions:
        options = {} if version == "newest" else {"version": int(version) if version.isdigit() else version}
        same(tables / name, expected / name / version, **options)


def test_a_time_is_the_snapshot_that_was_current(written: tuple[Path, Path, Path]) -> None:
    table, _, metadata = written
    log = json.loads(metadata.read_text())["snapshot-log"]
    second = log[1]
    at = datetime.fromtimestamp(second["timestamp-ms"] / 1_000, timezone.utc)
    assert fb.Dataset(table, timestamp=at).version == second["snapshot-id"]
    assert fb.Dataset(table, timestamp="2100-01-01").version == fb.Dataset(table).version == log[-1]["snapshot-id"]
    with pytest.raises(fb.NotFoundError, match="no snapshot that was current at that time"):
        fb.Dataset(table, timestamp="1999-12-31")
    with pytest.raises(fb.NotFoundError, match="no snapshot 99: it has expired"):
        fb.Dataset(table, version=99)
    with pytest.raises(fb.NotFoundError, match=r"no branch or tag \"nothing\" \(it has early, main\)"):
        fb.Dataset(table, version="nothing")


def test_a_state_is_resumed_in_its_snapshot_and_schema_though_the_table_went_on(
    written: tuple[Path, Path, Path],
) -> None:
    table, _, metadata = written
    options: dict[str, Any] = {"columns": ["id"], "batch_size": 7, "shuffle": fb.Shuffle(seed=3)}
    copy = metadata.with_name("00098-x.metadata.json")
    now = json.loads(metadata.read_text())
    schema = json.loads(json.dumps(next(of for of in now["schemas"] if of["schema-id"] == now["current-schema-id"])))
    schema["schema-id"] = 50
    schema["fields"].append({"id": 99, "name": "added", "type": "int", "required": False})
    later = {**now, "schemas": [*now["schemas"], schema], "current-schema-id": 50}
    copy.write_text(json.dumps(later))
    try:
        first = fb.Loader(table, **options)
        assert "added" in fb.Dataset(table).columns
        assert pickle.loads(pickle.dumps(fb.Dataset(table))).columns == fb.Dataset(table).columns
        epoch = iter(first)
        for _ in range(4):
            next(epoch)
        state = json.loads(json.dumps(first.state_dict()))
        assert state["table"]["version"] == now["current-snapshot-id"]
        rest = [batch["id"].tolist() for batch in epoch]
        gone_on = {**now, "current-snapshot-id": now["snapshots"][0]["snapshot-id"], "schemas": later["schemas"]}
        metadata.with_name("00099-x.metadata.json").write_text(json.dumps(gone_on))
        resumed = fb.Loader(table, **options)
        assert resumed.num_rows != first.num_rows
        resumed.load_state_dict(state)
        assert [batch["id"].tolist() for batch in resumed] == rest
        by_number = fb.Loader(table, **options, version=state["table"]["version"])
        by_number.load_state_dict(state)
        assert [batch["id"].tolist() for batch in by_number] == rest
    finally:
        for added in metadata.parent.glob("0009*-x.metadata.json"):
            added.unlink()


def test_a_file_that_is_gone_is_named_with_the_snapshot_that_needs_it(
    written: tuple[Path, Path, Path], tmp_path: Path
) -> None:
    table, _, _ = written
    moved = tmp_path / "moved"
    shutil.copytree(table, moved)
    loader = fb.Loader(moved, columns=["id"])
    for file in (moved / "data").rglob("*.parquet"):
        file.unlink()
    with pytest.raises(
        fb.NotFoundError, match=r"moved.*\.parquet.*snapshot \d+ of the table has this file, and it is gone"
    ):
        list(loader)


class OfPyiceberg:
    """Imitates a pyiceberg table: it has only the attributes that forebay uses."""

    def __init__(self, location: str) -> None:
        self.metadata_location = location
        self.io = self
        self.properties = {"s3.region": "eu-central-1"}


def test_a_table_of_pyiceberg_is_opened_as_it_is(written: tuple[Path, Path, Path]) -> None:
    table, expected, metadata = written
    same(OfPyiceberg(f"file://{metadata}"), expected / "newest.parquet")
    assert fb.Dataset(OfPyiceberg(f"file://{metadata}")).fingerprint == fb.Dataset(table).fingerprint
    with pytest.raises(fb.ForebayError) as raised:
        fb.Loader(OfPyiceberg("s3://acme/t/metadata/v1.metadata.json"), storage_options={"endpoint": "http://x"})
    assert "eu-central-1" not in str(raised.value)


@pytest.fixture(scope="module")
def catalog(written: tuple[Path, Path, Path]) -> Iterator[str]:
    """The address of a REST catalogue with the table."""
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    server = Path(__file__).parent / "iceberg_rest.py"
    root = written[0].parent.parent
    with subprocess.Popen(
        [interpreter(), str(server), str(root)], stdout=subprocess.PIPE, env=environ, text=True
    ) as process:
        assert process.stdout is not None
        yield f"iceberg+rest://127.0.0.1:{int(process.stdout.readline())}/api"
        process.terminate()


def test_a_table_of_a_catalogue_is_opened_by_its_name(written: tuple[Path, Path, Path], catalog: str) -> None:
    _, expected, _ = written
    login = {"catalog_credential": "ann:s:1 %", "catalog_warehouse": "main"}
    same(f"{catalog}/db.t", expected / "newest.parquet", storage_options=login)
    token = {"catalog_token": "the-token", "catalog_warehouse": "main"}
    same(f"{catalog}/db.t", expected / "newest.parquet", storage_options=token, version="main")
    with pytest.raises(fb.NotFoundError, match=r"the catalogue does not have the table: .*db\.nothing"):
        fb.Dataset(f"{catalog}/db.nothing", storage_options=token)
    with pytest.raises(fb.DeniedError, match=r"refuses its settings: no token \(pass the storage option catalog_token"):
        fb.Dataset(f"{catalog}/db.t")
    with pytest.raises(fb.DeniedError, match="refuses a token: no such client"):
        fb.Dataset(f"{catalog}/db.t", storage_options={"catalog_credential": "ann:hunter2"})
    with pytest.raises(fb.InvalidError, match="a table of a catalogue is opened by itself"):
        fb.Dataset([f"{catalog}/db.t", "x.parquet"], storage_options=token)
