"""Row groups that are larger than memory are read in pieces, as long as rows are delivered as they are stored."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 6_000
MEMORY = "48MiB"


def table() -> pa.Table:
    random = np.random.default_rng(5)
    numbers = np.arange(ROWS)
    cells = [random.bytes(20_000) + int(row).to_bytes(4, "little") for row in numbers]
    texts = [None if row % 7 == 3 else f"word {row % 50}" for row in numbers]
    pair = [{"bytes": cell[-900:], "path": None if row % 5 == 0 else f"{row}.jpg"} for row, cell in enumerate(cells)]
    pair = [None if row % 11 == 0 else value for row, value in enumerate(pair)]
    deep = [{"a": row, "b": {"c": row / 2, "d": None if row % 3 == 0 else str(row)}} for row in range(ROWS)]
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "cell": pa.array(cells, pa.binary()),
            "text": pa.array(texts, pa.string()),
            "half": pa.array([None if row % 4 == 1 else row / 2 for row in range(ROWS)], pa.float32()),
            "vector": pa.FixedSizeListArray.from_arrays(pa.array(random.random(ROWS * 4), pa.float32()), 4),
            "words": pa.array([[str(row)] * (row % 3) for row in range(ROWS)]),
            "pair": pa.array(pair, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            "deep": pa.array(deep),
        }
    )


FORMS: dict[str, dict[str, Any]] = {
    "plain": {"use_dictionary": False, "compression": "none"},
    "dictionary": {"use_dictionary": ["text"], "compression": "snappy"},
    "index": {"write_page_index": True, "compression": "zstd"},
    "v2": {"data_page_version": "2.0", "compression": "lz4", "data_page_size": 100_000},
}


@pytest.fixture(scope="module")
def stored() -> pa.Table:
    return table()


@pytest.fixture(scope="module", params=FORMS)
def one(request: pytest.FixtureRequest, stored: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("large") / "one.parquet"
    pq.write_table(stored, path, row_group_size=ROWS, **FORMS[request.param])
    assert pq.ParquetFile(path).metadata.num_row_groups == 1
    return path


def rows(loader: fb.Loader) -> pa.Table:
    return pa.Table.from_batches([batch.to_arrow() for batch in loader])


def same(found: pa.Table, wanted: pa.Table) -> None:
    assert found.num_rows == wanted.num_rows
    for name in wanted.column_names:
        assert found[name].to_pylist() == wanted[name].to_pylist(), name


def test_every_row_once_and_in_order(one: Path, stored: pa.Table) -> None:
    with fb.Loader(one, batch_size=32, memory=MEMORY, threads=2) as loader:
        for _ in range(2):
            same(rows(loader), stored)
        assert loader.plan().to_dict()["row_groups"] >= 5
        assert loader.stats().to_dict()["memory"]["row_groups_peak"] <= 48 << 20


def test_the_same_rows_as_with_memory(one: Path, stored: pa.Table) -> None:
    """On any number of ranks, with a filter, from any point on."""
    keeps = (fb.col("id") % 3 == 1) & (fb.col("text") != "word 11")
    for world, chosen in [(1, None), (3, None), (2, keeps)]:
        for rank in range(world):
            given: dict[str, Any] = {"batch_size": 40, "shard": fb.Shard(rank=rank, world=world), "filter": chosen, "threads": 2}
            columns = ["id", "pair", "words", "deep", "half"]
            with fb.Loader(one, columns=columns, memory="4GiB", **given) as large:
                wanted = rows(large)
            # Columns of 20 kB a row make it too large.
            with fb.Loader(one, columns=["cell", *columns], memory=MEMORY, **given) as small:
                same(rows(small).drop(["cell"]), wanted)
                epoch = iter(small)
                first = [next(epoch) for _ in range(7)]
                saved = small.state_dict()
                done = sum(len(batch["id"]) for batch in first)
            with fb.Loader(one, columns=["cell", *columns], memory=MEMORY, **given) as again:
                again.load_state_dict(saved)
                same(rows(again).drop(["cell"]), wanted.slice(done))


def test_with_a_cache_it_is_read_as_without(one: Path, stored: pa.Table, tmp_path: Path) -> None:
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB")
    with fb.Loader(one, batch_size=100, memory=MEMORY, threads=2, cache=cache) as loader:
        for _ in range(2):
            same(rows(loader), stored)


def test_a_field_of_a_structure_alone(one: Path, stored: pa.Table) -> None:
    columns = ["cell", "pair.path", "deep.b.d", "deep.a"]
    with fb.Loader(one, columns=columns, flatten=True, batch_size=50, memory=MEMORY, threads=2) as loader:
        found = rows(loader)
    assert found.column_names == columns
    paths = [value and value["path"] for value in stored["pair"].to_pylist()]
    assert found["pair.path"].to_pylist() == paths
    assert found["deep.b.d"].to_pylist() == [value["b"]["d"] for value in stored["deep"].to_pylist()]


def test_what_does_not_fit_in_any_order_is_refused(one: Path) -> None:
    """A shuffle takes its rows from the whole row group."""
    with pytest.raises(fb.TooLargeError, match="the row group takes .* one may take by itself"):
        fb.Loader(one, batch_size=32, memory=MEMORY, shuffle=fb.Shuffle(seed=1))


def test_it_keeps_to_its_memory(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    cells = pa.array([np.random.default_rng(row).bytes(100_000) for row in range(5_000)], pa.binary())
    pq.write_table(pa.table({"id": np.arange(5_000), "cell": cells}), path, write_batch_size=64)
    script = f"""
import forebay as fb, resource
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with fb.Loader({str(path)!r}, batch_size=16, memory="64MiB", threads=2) as loader:
    assert sum(batch["id"].sum() for batch in loader) == 4_999 * 2_500
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(ran.stdout) << 10 <= (64 + 150) << 20
