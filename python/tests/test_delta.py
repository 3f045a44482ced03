"""Tables of Delta Lake: what another writer wrote, read at each of its versions.

The writer is ``deltalake``, in this interpreter or in the one that FOREBAY_DELTALAKE_PYTHON names.
"""

from __future__ import annotations

import json
import os
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

import forebay as fb

#: The tables that others wrote, and how many versions each has.
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
import sys
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
DeltaTable(path).update(updates={"name": "'changed'"}, predicate="id > 80")
write_deltalake(path, rows(90, 120, extra=7), mode="append", schema_mode="merge")
DeltaTable(path).create_checkpoint()
DeltaTable(path).optimize.compact()
DeltaTable(path).restore(1)
write_deltalake(path, rows(200, 220), mode="overwrite")
"""


def interpreter() -> str:
    """One that has deltalake."""
    named = os.environ.get("FOREBAY_DELTALAKE_PYTHON")
    if named is None and find_spec("deltalake") is None:
        pytest.skip("deltalake is not installed")
    return named or sys.executable


def run(code: str, *words: object) -> None:
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    subprocess.run([interpreter(), "-c", code, *map(str, words)], check=True, env=environ, timeout=300)


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
    """A table with a history, and what its writer reads of each version."""
    table, expected = (tmp_path_factory.mktemp(name) for name in ("table", "expected"))
    run(WRITES, table)
    run(EXPECTED, table, expected)
    return table, expected


@pytest.mark.parametrize("name", FOREIGN)
def test_a_foreign_table_has_the_rows_that_deltalake_reads(name: str, foreign: Path, tmp_path: Path) -> None:
    table = foreign / "delta-tables" / name
    if not table.is_dir():
        pytest.skip("the tables are not there")
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


def test_versions_are_of_tables_alone(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1]}), tmp_path / "a.parquet")
    with pytest.raises(fb.InvalidError, match="is not a table, and has no versions"):
        fb.Dataset(tmp_path, version=1)
    assert fb.Dataset(tmp_path).version is None
