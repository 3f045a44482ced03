"""Delta Lake tables that another library wrote, read at each of their versions.

The writer is ``deltalake``, in this interpreter or in the one that FOREBAY_DELTALAKE_PYTHON names.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections import Counter
from datetime import datetime, timezone
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE

import forebay as fb
from forebay import data_versions

#: The tables that other writers made, with the number of their versions.
FOREIGN = {
    "COVID-19_NYT": 1,
    "delta-0.8-empty": 2,
    "delta-0.8.0": 2,
    "delta-0.8.0-partitioned": 1,
    "delta-0.8.0-special-partition": 1,
}

EXPECTED = """
import sys
import pyarrow as pa, pyarrow.parquet as pq
from deltalake import DeltaTable
table, out = sys.argv[1:]
for version in range(DeltaTable(table).version() + 1):
    pq.write_table(pa.table(DeltaTable(table, version=version).to_pyarrow_table()), f"{out}/{version}.parquet")
"""

WRITES = """
import sys, time
from datetime import date
from decimal import Decimal
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
path = sys.argv[1]
def rows(begin, end, **more):
    ids = range(begin, end)
    return pa.table({
        "id": pa.array(ids, pa.int64()),
        "name": [None if id % 7 == 0 else f"n{id}" for id in ids],
        "price": pa.array([Decimal(id) / 4 for id in ids], pa.decimal128(10, 2)),
        "day": pa.array([None if id % 5 == 0 else date(2024, 5, 1 + id % 3) for id in ids], pa.date32()),
        "where": [["a b", "c/d=e%", "ü"][id % 3] for id in ids],
        "tags": [[f"t{id}"] * (id % 3) for id in ids],
        **{name: [of] * len(ids) for name, of in more.items()},
    })
write_deltalake(path, rows(0, 60), partition_by=["day", "where"])
write_deltalake(path, rows(60, 90), mode="append")
DeltaTable(path).delete("id % 4 = 1")
# A test reads the version at the time of this commit: no other commit may have the same millisecond.
time.sleep(0.1)
DeltaTable(path).update(updates={"name": "'changed'"}, predicate="id > 80")
write_deltalake(path, rows(90, 120, extra=7), mode="append", schema_mode="merge")
DeltaTable(path).create_checkpoint()
DeltaTable(path).optimize.compact()
DeltaTable(path).restore(1)
write_deltalake(path, rows(200, 220), mode="overwrite")
"""


def interpreter() -> str:
    """Returns the path of a Python interpreter that has deltalake."""
    named = os.environ.get("FOREBAY_DELTALAKE_PYTHON")
    if named is None and find_spec("deltalake") is None:
        pytest.skip("deltalake is not installed")
    return named or sys.executable


def run(code: str, *words: object) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([interpreter(), "-c", code, *map(str, words)], check=True, env=environ, timeout=PATIENCE)


def counted(table: pa.Table) -> Counter[str]:
    names = sorted(table.column_names)
    return Counter(repr(row) for row in zip(*(table[name].to_pylist() for name in names), strict=True))


def read(path: Path, **options: Any) -> tuple[Counter[str], list[str]]:
    loader = fb.Loader(path, batch_size=7, flatten=False, **options)
    batches = [pa.record_batch(batch) for batch in loader]
    assert sum(len(batch) for batch in batches) == loader.num_rows
    assert len(batches) == len(loader)
    table = pa.Table.from_batches(batches)
    return counted(table), sorted(table.column_names)


def same(path: Path, expected: Path, version: int) -> None:
    want = pq.read_table(expected / f"{version}.parquet")
    if want.num_rows == 0:
        assert fb.Dataset(path, version=version).num_rows == 0
        return
    rows, names = read(path, version=version)
    assert names == sorted(want.column_names), version
    assert rows == counted(want), version


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A table with a history, and the rows that its writer reads from each version."""
    table, expected = (tmp_path_factory.mktemp(name) for name in ("table", "expected"))
    run(WRITES, table)
    run(EXPECTED, table, expected)
    return table, expected


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_table_has_the_rows_that_deltalake_reads(name: str, foreign: Path, tmp_path: Path) -> None:
    table = foreign / "delta-tables" / name
    if not table.is_dir():
        pytest.skip("FOREBAY_TEST_DATA has no delta-tables")
    run(EXPECTED, table, tmp_path)
    for version in range(FOREIGN[name]):
        same(table, tmp_path, version)


def test_each_version_has_the_rows_that_its_writer_reads(written: tuple[Path, Path]) -> None:
    table, expected = written
    versions = sorted(int(file.stem) for file in expected.iterdir())
    assert len(versions) == 8
    for version in versions:
        same(table, expected, version)
    assert fb.Dataset(table).version == versions[-1]


def test_a_time_is_the_newest_version_before_it(written: tuple[Path, Path]) -> None:
    table, _ = written
    commit = table / "_delta_log" / f"{2:020}.json"
    at = datetime.fromtimestamp(commit.stat().st_mtime_ns // 1_000_000 / 1_000, timezone.utc)
    assert fb.Dataset(table, timestamp=at).version == 2
    assert fb.Dataset(table, timestamp="2100-01-01").version == fb.Dataset(table).version
    with pytest.raises(fb.NotFoundError, match="no version of 1999"):
        fb.Dataset(table, timestamp="1999-12-31")
    with pytest.raises(fb.NotFoundError, match="no version 99"):
        fb.Dataset(table, version=99)
    with pytest.raises(fb.InvalidError, match="version and timestamp"):
        fb.Dataset(table, version=1, timestamp="2024-05-17")


def test_a_state_is_resumed_in_its_version_though_the_table_went_on(written: tuple[Path, Path]) -> None:
    table, _ = written
    options: dict[str, Any] = {"columns": ["id"], "batch_size": 7, "shuffle": fb.Shuffle(seed=3)}
    first = fb.Loader(table, version=3, **options)
    epoch = iter(first)
    for _ in range(4):
        next(epoch)
    state = json.loads(json.dumps(first.state_dict()))
    assert state["table"]["version"] == 3
    rest = [batch["id"].tolist() for batch in epoch]
    resumed = fb.Loader(table, **options)
    resumed.load_state_dict(state)
    assert [batch["id"].tolist() for batch in resumed] == rest
    over = fb.Loader(fb.Dataset(table), **options)
    with pytest.raises(fb.StateMismatchError, match=r"with version 3 of the table.*version=3"):
        over.load_state_dict(state)


def test_a_vacuumed_file_is_named_with_the_version_that_needs_it(tmp_path: Path) -> None:
    run(WRITES, tmp_path)
    loader = fb.Loader(tmp_path, version=0, columns=["id"])
    run(
        "import sys; from deltalake import DeltaTable; DeltaTable(sys.argv[1]).vacuum("
        "0, dry_run=False, enforce_retention_duration=False)",
        tmp_path,
    )
    with pytest.raises(fb.NotFoundError, match=r"\.parquet.*version 0 of the table has this file, and it is gone"):
        list(loader)


def append(table: Path, begin: int, end: int) -> None:
    """Writes a commit by hand."""
    log = table / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    version = len(list(log.glob("*.json")))
    pq.write_table(pa.table({"id": pa.array(range(begin, end), pa.int64())}), table / f"{version}.parquet")
    schema = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    first = [
        {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}},
        {
            "metaData": {
                "id": str(table),
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": {},
            }
        },
    ]
    size = (table / f"{version}.parquet").stat().st_size
    add = {"path": f"{version}.parquet", "partitionValues": {}, "size": size, "modificationTime": 1, "dataChange": True}
    actions = [*([] if version else first), {"add": {**add, "stats": json.dumps({"numRecords": end - begin})}}]
    (log / f"{version:020}.json").write_text("".join(json.dumps(action) + "\n" for action in actions))


def ids(epoch: Any) -> list[int]:
    return [value for batch in epoch for value in batch["id"].tolist()]


def test_each_epoch_of_a_loader_that_follows_begins_with_the_newest_version(tmp_path: Path) -> None:
    append(tmp_path, 0, 10)
    train = fb.Loader(tmp_path, follow=True, batch_size=4, shuffle=fb.Shuffle(seed=1))
    epoch = iter(train)
    first = next(epoch)["id"].tolist()
    append(tmp_path, 10, 20)
    state = json.loads(json.dumps(train.state_dict()))
    assert sorted(first + ids(epoch)) == list(range(10))
    assert (state["table"]["version"], len(train)) == (0, 3)
    assert train.metrics()["forebay/table_version"] == 0.0
    rest = train.epoch(0)
    assert sorted(ids(rest)) == list(range(20)), "an epoch that is begun again is a new one"
    assert (sorted(ids(train)), train.state_dict()["table"]["version"]) == (list(range(20)), 1)

    resumed = fb.Loader(tmp_path, follow=True, batch_size=4, shuffle=fb.Shuffle(seed=1))
    resumed.load_state_dict(state)
    assert sorted(first + ids(resumed)) == list(range(10)), "the rest of the epoch is of the version of the state"
    append(tmp_path, 20, 25)
    assert resumed.state_dict()["table"]["version"] == 0
    assert sorted(ids(resumed)) == list(range(25))
    assert [resumed.state_dict()[key] for key in ("epoch", "row")] == [2, 0]
    whole = fb.Loader(tmp_path, version=2, batch_size=4, shuffle=fb.Shuffle(seed=1))
    assert ids(whole.epoch(1)) == ids(resumed.epoch(1)), "the order is that of a loader over the version"


class Store(dict[str, bytes]):
    """A stand-in for the store of a launcher."""

    def set(self, key: str, value: bytes) -> None:
        self[key] = value


def test_all_ranks_that_follow_take_the_version_that_the_first_one_found(tmp_path: Path) -> None:
    append(tmp_path, 0, 10)
    store = Store()
    ranks = [fb.Loader(tmp_path, follow=store, shard=fb.Shard(rank=rank, world=2), batch_size=5) for rank in range(2)]
    ranks[0].epoch(0)
    append(tmp_path, 10, 20)
    assert sorted(ids(ranks[1].epoch(0)) + ids(ranks[0].epoch(0))) == list(range(10))
    found = [rank.epoch(1) for rank in ranks]
    assert sorted(ids(found[0]) + ids(found[1])) == list(range(20))
    with pytest.raises(fb.InvalidError, match="2 ranks, which may find different versions"):
        fb.Loader(tmp_path, follow=True, shard=fb.Shard(rank=0, world=2))
    (tmp_path / "_delta_log").rename(tmp_path / "_gone")
    with pytest.raises(fb.ForebayError) as raised:
        ranks[0].epoch(2)
    with pytest.raises(type(raised.value), match="rank 0 could not begin epoch 2: .*") as told:
        ranks[1].epoch(2)
    assert str(raised.value) in str(told.value)


def test_a_rank_that_waits_for_versions_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    append(tmp_path, 0, 10)
    alone = fb.Loader(tmp_path, follow=Store(), shard=fb.Shard(rank=1, world=2), batch_size=5)
    monkeypatch.setattr(data_versions, "_TIMEOUT_SECONDS", 0.0)
    late = r"rank 0 has put no versions into the store for 0 s \(check that rank 0 begins epoch 0 of the same"
    with pytest.raises(fb.IoError, match=late):
        alone.epoch(0)


def followed(folder: Path, rank: int = 0, world: int = 1, follow: Any = True, **options: Any) -> fb.Mix:
    """Returns a mix of a table that is followed and one that is not; each row comes once in an epoch."""
    sources = [
        (fb.Loader(folder / "grows", follow=follow, shuffle=fb.Shuffle(seed=1)), 1),
        (fb.Loader(folder / "stays", shuffle=fb.Shuffle(seed=2)), 1),
    ]
    shard = fb.Shard(rank=rank, world=world)
    given: dict[str, Any] = {"stop": "last", "repeat": False, "global_batch_size": 8, "source": True, "shard": shard}
    return fb.Mix(sources, **given | options)


def of_sources(*ranks: Any) -> list[list[tuple[int, int]]]:
    """Returns the rows of each step, of all ranks together, as pairs of the number of the source and the id."""
    steps = []
    for batches in zip(*ranks, strict=True):
        pairs = [pair for batch in batches for pair in zip(batch["source"].tolist(), batch["id"].tolist(), strict=True)]
        steps.append(sorted(pairs))
    return steps


def rows_of(grown: int) -> list[tuple[int, int]]:
    return [(0, id) for id in range(grown)] + [(1, id) for id in range(20)]


def test_each_epoch_of_a_mix_begins_with_the_newest_versions_that_it_follows(tmp_path: Path) -> None:
    append(tmp_path / "grows", 0, 20)
    append(tmp_path / "stays", 0, 20)
    mix = followed(tmp_path, schedule={7: [3, 1]})
    assert sorted(sum(of_sources(mix.epoch(0)), [])) == rows_of(20)
    assert len(mix) == 5
    append(tmp_path / "grows", 20, 44)
    append(tmp_path / "stays", 20, 40)
    second = iter(mix)
    steps = of_sources(next(second) for _ in range(1))
    state = json.loads(json.dumps(mix.state_dict()))
    assert [source["table"]["version"] for source in state["sources"]] == [1, 0]
    metrics = mix.metrics()
    assert (metrics["forebay/sources/0/table_version"], metrics["forebay/sources/1/table_version"]) == (1.0, 0.0)
    assert state["step"] == 6, "steps are counted through all epochs"
    rest = of_sources(second)
    assert sorted(sum(steps + rest, [])) == rows_of(44)
    counts = [sum(source == 0 for source, _ in step) for step in rest[:3]]
    assert counts == [4, 6, 6], "weights change at the step of the run"

    append(tmp_path / "grows", 44, 50)
    resumed = [followed(tmp_path, rank, 2, Store(), schedule={7: [3, 1]}) for rank in range(2)]
    for rank in resumed:
        rank.load_state_dict(state)
    assert of_sources(*resumed) == rest, "the rest of the epoch is of the versions of the state, on other ranks"
    assert resumed[0].state_dict()["sources"][0]["table"]["version"] == 1
    alone = followed(tmp_path, schedule={7: [3, 1]})
    alone.load_state_dict(state)
    list(alone)
    third = of_sources(mix)
    assert sorted(sum(third, [])) == rows_of(50)
    assert of_sources(alone) == third, "the epoch after it is that of the run that was not interrupted"


def test_ranks_of_a_mix_take_the_versions_that_the_first_one_found(tmp_path: Path) -> None:
    append(tmp_path / "grows", 0, 20)
    append(tmp_path / "stays", 0, 20)
    store = Store()
    ranks = [followed(tmp_path, rank, 2, store) for rank in range(2)]
    first = ranks[0].epoch(0)
    append(tmp_path / "grows", 20, 30)
    assert sorted(sum(of_sources(first, ranks[1].epoch(0)), [])) == rows_of(20)
    found = [rank.epoch(1) for rank in ranks]
    append(tmp_path / "grows", 30, 31)
    assert sorted(sum(of_sources(*found), [])) == rows_of(30)
    copies = [pickle.loads(pickle.dumps(followed(tmp_path)))]
    assert sorted(sum(of_sources(copies[0].epoch(0)), [])) == rows_of(31)
    with pytest.raises(fb.InvalidError, match="2 ranks, which may find different versions"):
        followed(tmp_path, 0, 2)
    with pytest.raises(fb.InvalidError, match="follow and skip_steps were given"):
        followed(tmp_path, skip_steps=[(0, 1)])


def test_a_mix_opens_the_versions_of_its_state(tmp_path: Path) -> None:
    append(tmp_path / "grows", 0, 20)
    append(tmp_path / "stays", 0, 20)
    mix = followed(tmp_path, follow=False)
    begun = iter(mix)
    next(begun)
    state = json.loads(json.dumps(mix.state_dict()))
    rest = of_sources(begun)
    append(tmp_path / "grows", 20, 30)
    append(tmp_path / "stays", 20, 30)
    resumed = followed(tmp_path, follow=False)
    resumed.load_state_dict(state)
    assert of_sources(resumed) == rest
    pinned = fb.Mix([(fb.Loader(tmp_path / "grows", version=1), 1), (tmp_path / "stays", 1)], stop="last", repeat=False)
    with pytest.raises(fb.StateMismatchError, match="the state was saved with version 0 of the table, and version=1"):
        pinned.load_state_dict(state)


def test_follow_is_of_no_version(tmp_path: Path) -> None:
    append(tmp_path / "table", 0, 10)
    for option in ({"version": 0}, {"timestamp": "2100-01-01"}, {"skip_steps": [(0, 1)]}):
        with pytest.raises(fb.InvalidError, match="follow and .* were given"):
            fb.Loader(tmp_path / "table", follow=True, **option)
    with pytest.raises(fb.InvalidError, match="follow must be True, False or the store"):
        fb.Loader(tmp_path / "table", follow="yes")  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="follow and a Dataset were given"):
        fb.Loader(fb.Dataset(tmp_path / "table"), follow=True)


def test_a_state_of_another_version_than_the_one_that_was_given_is_refused(tmp_path: Path) -> None:
    append(tmp_path, 0, 10)
    append(tmp_path, 10, 20)
    state = fb.Loader(tmp_path).state_dict()
    with pytest.raises(fb.StateMismatchError, match=r"version 1 of the table, and version=0 was given \(leave it out"):
        fb.Loader(tmp_path, version=0).load_state_dict(state)
    fb.Loader(tmp_path, version=1).load_state_dict(state)
    copied = pickle.loads(pickle.dumps(fb.Loader(tmp_path)))
    append(tmp_path, 20, 30)
    copied.load_state_dict(fb.Loader(tmp_path).state_dict())
    assert len(ids(copied)) == 30, "a copy was not told a version by the user"


def test_a_state_of_several_tables_resumes_each_at_its_version(tmp_path: Path) -> None:
    for name, first in (("a", 0), ("b", 100)):
        append(tmp_path / name, first, first + 10)
    tables = [tmp_path / "a", tmp_path / "b"]
    options: dict[str, Any] = {"batch_size": 4, "shuffle": fb.Shuffle(seed=2)}
    train = fb.Loader(tables, **options)
    epoch = iter(train)
    next(epoch)
    state = json.loads(json.dumps(train.state_dict()))
    assert [table["version"] for table in state["tables"]] == [0, 0]
    assert {name for name in train.metrics() if "version" in name} == {f"forebay/tables/{at}/version" for at in (0, 1)}
    mix = fb.Mix([(tables[0], 1.0)])
    assert mix.metrics()["forebay/sources/0/table_version"] == 0.0
    rest = ids(epoch)
    append(tmp_path / "b", 110, 120)
    resumed = fb.Loader(tables, **options)
    resumed.load_state_dict(state)
    assert ids(resumed) == rest
    copied = pickle.loads(pickle.dumps(resumed))
    assert copied.num_rows == 20
    over = fb.Loader(fb.Dataset(tables), **options)
    with pytest.raises(fb.StateMismatchError, match=r"version 0 of .*/b, this loader has version 1"):
        over.load_state_dict(state)


def program(*words: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "forebay", *map(str, words)], capture_output=True, text=True)


def test_the_program_reads_a_version_by_its_number_or_its_time(tmp_path: Path) -> None:
    table, state = tmp_path / "t", tmp_path / "state.json"
    append(table, 0, 10)
    append(table, 10, 20)
    for version, at in enumerate(("2001-01-01", "2002-01-01")):
        seconds = datetime.fromisoformat(at).replace(tzinfo=timezone.utc).timestamp()
        os.utime(table / "_delta_log" / f"{version:020}.json", (seconds, seconds))

    def inspected(*options: object) -> tuple[int, int, str]:
        said = json.loads(program("inspect", table, *options, "--json", "-").stdout)
        (of_table,) = said["tables"]
        return said["rows"], of_table["version"], of_table["time"][:10]

    assert inspected() == (20, 1, "2002-01-01")
    assert inspected("--version", 0) == inspected("--timestamp", "2001-06-01") == (10, 0, "2001-01-01")
    assert "Delta, version 0 of 2001-01-01" in program("inspect", table, "--version", 0).stdout
    assert json.loads(program("plan", table, "--version", 0, "--json", "-").stdout)["rows"] == 10
    assert "no version of 2000-01-01" in program("inspect", table, "--timestamp", "2000-01-01").stderr
    assert "the newest is 1" in program("inspect", table, "--version", 7).stderr
    assert program("inspect", table, "--version", 0, "--timestamp", "2001-06-01").returncode == 2

    state.write_text(json.dumps(fb.Loader(table, version=0, batch_size=4, shuffle=fb.Shuffle(seed=5)).state_dict()))
    found = program("which", table, "--version", 0, "--state", state, "--step", 1, "--columns", "id", "--json", "-")
    rows = [row["columns"]["id"] for row in json.loads(found.stdout)]
    loader = fb.Loader(table, version=0, batch_size=4, shuffle=fb.Shuffle(seed=5))
    assert sorted(rows) == sorted([batch["id"].tolist() for batch in loader][1])
    refused = program("which", table, "--state", state)
    assert "saved with version 0 of the table, this loader has version 1" in refused.stderr


def test_denied_rows_stay_denied_in_later_versions(tmp_path: Path) -> None:
    append(tmp_path, 0, 10)
    first = fb.Loader(tmp_path, batch_size=4)
    denied = first.which(0)
    append(tmp_path, 10, 20)
    later = fb.Loader(tmp_path, deny=denied)
    assert later.num_rows == 16
    assert sorted(ids(later)) == list(range(4, 20))
    assert [place.row_id for place in fb.Loader(tmp_path, batch_size=4).which(0)] == [place.row_id for place in denied]


def test_versions_are_of_tables_alone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(fb.InvalidError, match="is not a table, and has no versions"):
        fb.Dataset(tmp_path, version=1)
    assert fb.Dataset(tmp_path).version is None


DELTA_IN_SPARK = """
import json, sys
import forebay as fb
from pyspark.sql import SparkSession, functions as F
table, cache = sys.argv[1:3]
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").config("spark.driver.host", "127.0.0.1")
builder = builder.config("spark.databricks.delta.snapshotPartitions", "2").config("spark.sql.shuffle.partitions", "2")
builder = builder.config("spark.jars", sys.argv[3]).config("spark.sql.extensions", "io.delta.sql.DeltaSparkSessionExtension")
of_delta = "org.apache.spark.sql.delta.catalog.DeltaCatalog"
spark = builder.config("spark.sql.catalog.spark_catalog", of_delta).config("spark.sql.warehouse.dir", cache).getOrCreate()
spark.range(100).withColumn("x", F.col("id") % 7).write.format("delta").save(table)
spark.sql(f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')")
spark.sql(f"DELETE FROM delta.`{table}` WHERE id % 10 = 3")
read = lambda version=None: spark.read.format("delta").options(**({} if version is None else {"versionAsOf": version})).load(table)
said = {}
frames = {"newest": read(), "first": read(0), "named": spark.sql(f"SELECT * FROM delta.`{table}`"),
          "selected": read().select("id"), "filtered": read().where("id < 5")}
for name, frame in frames.items():
    data = fb.spark.dataset(frame, cache)
    said[name] = [data.version, data.num_rows, frame.count()]
data = fb.spark.dataset(frames["newest"], cache)
data.delete()
said["there"] = data.num_rows
print(json.dumps(said))
"""


def test_a_frame_of_spark_that_is_a_table_is_opened_as_the_table(tmp_path: Path) -> None:
    named, jars = os.environ.get("FOREBAY_SPARK_PYTHON"), os.environ.get("FOREBAY_DELTA_JARS")
    if named is None or jars is None:
        pytest.skip("FOREBAY_SPARK_PYTHON names no Python with pyspark, or FOREBAY_DELTA_JARS no jars of Delta")
    environ = {**os.environ, "PYTHONPATH": str(Path(fb.__file__).parents[1]), "PYSPARK_PYTHON": named}
    words = [named, "-c", DELTA_IN_SPARK, str(tmp_path / "t"), str(tmp_path / "cache"), jars]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-3_000:]
    said = json.loads(done.stdout.strip().splitlines()[-1])
    assert said["newest"] == said["named"] == [2, 90, 90]
    assert said["first"] == [0, 100, 100]
    assert said["selected"] == [None, 90, 90]
    assert said["filtered"][0] is None
    assert said["there"] == 90
