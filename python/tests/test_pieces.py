"""Row groups that are larger than memory are read in pieces, in stored order and in a shuffle that asks for
pieces."""

from __future__ import annotations

import dataclasses
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PEAK

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
    """The rows are the same on any number of ranks, with a filter, and from any position on."""
    keeps = (fb.col("id") % 3 == 1) & (fb.col("text") != "word 11")
    for world, chosen in [(1, None), (3, None), (2, keeps)]:
        for rank in range(world):
            given: dict[str, Any] = {"batch_size": 40, "shard": fb.Shard(rank=rank, world=world), "filter": chosen, "threads": 2}
            columns = ["id", "pair", "words", "deep", "half"]
            with fb.Loader(one, columns=columns, memory="4GiB", **given) as large:
                wanted = rows(large)
            # The column `cell` has 20 kB in each row, which makes the row group too large for the memory.
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
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")
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


SHUFFLE = fb.Shuffle(seed=3, window_rows=600, piece_rows=200)


@pytest.fixture(scope="module", params=FORMS)
def paged(request: pytest.FixtureRequest, stored: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set with one row group, in pages of several hundred kilobytes."""
    path = tmp_path_factory.mktemp("paged") / "one.parquet"
    given = {**FORMS[request.param], "data_page_size": 100_000}
    pq.write_table(stored, path, row_group_size=ROWS, write_batch_size=16, **given)
    return path


def delivered(loader: fb.Loader, epoch: int) -> pa.Table:
    return pa.Table.from_batches([batch.to_arrow() for batch in loader.epoch(epoch)])


def test_a_shuffle_that_is_too_large_says_which_pieces_fit(paged: Path, stored: pa.Table) -> None:
    with pytest.raises(fb.TooLargeError, match="the row group takes .* one of them may take") as refused:
        fb.Loader(paged, batch_size=32, memory=MEMORY, shuffle=fb.Shuffle(seed=1, window_rows=200))
    found = re.search(r"piece_rows=(\d+)", str(refused.value))
    assert found, refused.value
    shuffle = fb.Shuffle(seed=1, window_rows=200, piece_rows=int(found[1]))
    with fb.Loader(paged, batch_size=32, memory=MEMORY, shuffle=shuffle) as loader:
        same(rows(loader).sort_by("id"), stored)
    with pytest.raises(fb.TooLargeError, match="a piece of the row group takes"):
        fb.Loader(paged, batch_size=32, memory=MEMORY, shuffle=fb.Shuffle(seed=1, window_rows=1, piece_rows=5_900))


def test_pieces_are_shuffled_like_row_groups(paged: Path, stored: pa.Table) -> None:
    """Every row is delivered once, in another order in each epoch; neither the memory nor the number of ranks
    changes the order."""
    given: dict[str, Any] = {"shuffle": SHUFFLE, "threads": 2, "row_id": True}
    with fb.Loader(paged, batch_size=60, memory=MEMORY, **given) as small:
        epochs = [delivered(small, epoch) for epoch in range(3)]
        assert small.plan().to_dict()["pool"] == 3
        assert small.stats().to_dict()["memory"]["row_groups_peak"] <= 48 << 20
        places = [[place.row for place in small.which(step, epoch=1)] for step in (0, 17, 99)]
    for number, epoch in enumerate(epochs):
        same(epoch.drop(["row_id"]).sort_by("id"), stored)
        assert epoch["id"] != epochs[number - 1]["id"]
    ids = epochs[1]["id"].to_pylist()
    assert places == [ids[step * 60 :][:60] for step in (0, 17, 99)]
    # A batch draws from three pieces of two hundred rows.
    assert 3 <= len({row // 200 for row in ids[3_000:3_060]}) <= 4
    with fb.Loader(paged, batch_size=60, memory="4GiB", **given) as large:
        same(delivered(large, 1), epochs[1])
    lanes = dataclasses.replace(SHUFFLE, lanes=6)
    wanted: list[set[int]] = []
    for world in (1, 2, 3):
        ranks = []
        for rank in range(world):
            shard = fb.Shard(rank=rank, world=world)
            options: dict[str, Any] = {"global_batch_size": 60, "shard": shard, "shuffle": lanes, "columns": ["id"]}
            with fb.Loader(paged, memory="512MiB", threads=2, **options) as loader:
                ranks.append([batch["id"].tolist() for batch in loader.epoch(1)])
        steps = [set().union(*step) for step in zip(*ranks, strict=True)]
        wanted = wanted or steps
        assert steps == wanted and sum(map(len, steps)) == ROWS


def test_pieces_are_a_part_of_the_position(paged: Path) -> None:
    keeps = fb.col("id") % 3 == 1
    given: dict[str, Any] = {"batch_size": 40, "filter": keeps, "threads": 2, "memory": "128MiB"}
    with fb.Loader(paged, shuffle=SHUFFLE, **given) as loader:
        epoch = iter(loader)
        done = [next(epoch)["id"].tolist() for _ in range(21)]
        saved = loader.state_dict()
        wanted = [batch["id"].tolist() for batch in epoch]
        loader.load_state_dict(saved)
        assert [batch["id"].tolist() for batch in loader] == wanted
    with fb.Loader(paged, shuffle=SHUFFLE, **given) as again:
        again.load_state_dict(saved)
        assert [batch["id"].tolist() for batch in again] == wanted
    assert sorted(row for batch in done + wanted for row in batch) == list(range(1, ROWS, 3))
    assert saved["order"]["piece_rows"] == 200
    other = dataclasses.replace(SHUFFLE, piece_rows=201)
    with fb.Loader(paged, shuffle=other, **given) as refusing, pytest.raises(fb.StateMismatchError, match="piece_rows 200"):
        refusing.load_state_dict(saved)


def test_pieces_are_not_advised_where_there_are_none(tmp_path: Path) -> None:
    items = pa.array(np.random.default_rng(1).integers(0, 1 << 30, 8_000_000, dtype=np.int32))
    lists = pa.ListArray.from_arrays(pa.array(np.arange(0, 8_000_001, 40, dtype=np.int32)), items)
    pq.write_table(pa.table({"x": lists, "id": np.arange(200_000)}), tmp_path / "lists.parquet")
    # No piece of this row group can be read without reading all of its lists.
    for columns in (["x"], ["x", "id"]):
        with pytest.raises(fb.TooLargeError, match="raise memory to") as refused:
            fb.Loader(tmp_path, columns=columns, batch_size=64, memory="16MiB", shuffle=fb.Shuffle(seed=1))
        assert "piece_rows" not in str(refused.value)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"samples": fb.Pack("tokens", 2048)},
        {"samples": fb.Pack("tokens", 2048), "shuffle": fb.Shuffle(seed=1)},
        {"shuffle": fb.Shuffle(seed=1)},
        {"shuffle": fb.Shuffle.exact(1)},
        {"shuffle": fb.Shuffle(seed=1), "filter": fb.col("id") < 20_000},
        {"shuffle": fb.Shuffle(seed=1, lanes=2), "shard": fb.Shard(rank=1, world=2)},
    ],
    ids=["stored", "packs", "shuffled packs", "shuffled", "exact", "filtered", "two lanes"],
)
def test_the_memory_that_a_refusal_names_is_enough(tmp_path: Path, options: dict[str, Any]) -> None:
    random = np.random.default_rng(1)
    lengths = random.integers(10, 3_000, 30_000) + 15 * (np.arange(30_000) // 10_000)
    ends = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    tokens = pa.ListArray.from_arrays(pa.array(ends), pa.array(random.integers(0, 99, ends[-1], dtype=np.int32)))
    pq.write_table(pa.table({"id": np.arange(30_000), "tokens": tokens}), tmp_path / "a.parquet", row_group_size=10_000)
    columns = ["tokens"] if "samples" in options else None
    given = {"columns": columns, "batch_size": 16, "threads": 1, **options}
    with pytest.raises(fb.TooLargeError) as refused:
        fb.Loader(tmp_path, memory="24MiB", **given)
    enough = re.search(r"raise memory to ([\d.]+ [MG]iB)", str(refused.value))
    assert enough, refused.value
    fb.Loader(tmp_path, memory=enough[1], **given).close()


def test_the_guide_says_what_a_large_row_group_takes(tmp_path: Path) -> None:
    guide = (Path(__file__).parents[2] / "docs" / "guide" / "memory.md").read_text()
    rows, random = 50_000_000, np.random.default_rng(1)
    for name, column in {
        "booleans": random.random(rows, dtype=np.float32) < 0.5,
        "int8": random.integers(-50, 50, rows, dtype=np.int8),
    }.items():
        said = re.search(rf"50 million {name} \| (\d+) MiB", guide)
        assert said, name
        pq.write_table(pa.table({"x": column}), tmp_path / "a.parquet", row_group_size=rows)
        with pytest.raises(fb.TooLargeError) as refused:
            fb.Loader(tmp_path, batch_size=8_192, memory="32MiB", shuffle=fb.Shuffle(seed=1))
        asked = re.search(r"raise memory to ([\d.]+) MiB", str(refused.value))
        assert asked and int(said[1]) - 1 < float(asked[1]) <= int(said[1]), (name, refused.value)


def test_the_values_of_a_filter_are_a_part_of_the_memory(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": np.arange(100)}), tmp_path / "a.parquet")
    many = fb.col("id").is_in(np.arange(300_000) + 50)
    with pytest.raises(fb.TooLargeError, match="the values of the filter .* take") as refused:
        fb.Loader(tmp_path, filter=many, memory="8MiB")
    enough = re.search(r"raise memory to ([\d.]+ MiB)", str(refused.value))
    assert enough, refused.value
    with fb.Loader(tmp_path, filter=many, memory=enough[1]) as loader:
        assert loader.num_rows == 50


def test_pieces_of_what_has_none_are_refused(tmp_path: Path, paged: Path) -> None:
    pq.write_table(pa.table({"words": [["a"] * (row % 3) for row in range(100)]}), tmp_path / "lists.parquet")
    with pytest.raises(fb.UnsupportedError, match=r"lists\.parquet.*none of its columns has pages"):
        fb.Loader(tmp_path / "lists.parquet", shuffle=fb.Shuffle(seed=1, piece_rows=50))
    # Row groups that are not cut need no page index.
    with fb.Loader(tmp_path / "lists.parquet", shuffle=fb.Shuffle(seed=1, piece_rows=100)) as loader:
        assert loader.num_rows == 100
    with pytest.raises(fb.InvalidError, match="piece_rows=5, but mixing='exact'"):
        dataclasses.replace(fb.Shuffle.exact(1), piece_rows=5)
    with pytest.raises(fb.InvalidError, match="with samples that have several rows"):
        fb.Loader(paged, samples=fb.Window({0: ["id"], 1: ["id"]}, by="id"), shuffle=SHUFFLE)


def test_a_shuffle_in_pieces_with_a_cache(paged: Path, stored: pa.Table, tmp_path: Path) -> None:
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")
    with fb.Loader(paged, batch_size=100, memory=MEMORY, threads=2, cache=cache, shuffle=SHUFFLE) as loader:
        for epoch in range(2):
            same(delivered(loader, epoch).sort_by("id"), stored)


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="reads the memory from /proc")
def test_it_keeps_to_its_memory(tmp_path: Path) -> None:
    path = tmp_path / "wide.parquet"
    cells = pa.array([np.random.default_rng(row).bytes(100_000) for row in range(5_000)], pa.binary())
    pq.write_table(pa.table({"id": np.arange(5_000), "cell": cells}), path, write_batch_size=64)
    script = f"""{PEAK}
import forebay as fb
before = peak()
with fb.Loader({str(path)!r}, batch_size=16, memory="64MiB", threads=2) as loader:
    assert sum(batch["id"].sum() for batch in loader) == 4_999 * 2_500
print(peak() - before)
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert int(ran.stdout) <= (64 + 150) << 20


def test_a_plan_says_what_would_mix_better(tmp_path: Path) -> None:
    labels = np.repeat(np.arange(100), 250).astype(np.int32)
    pq.write_table(pa.table({"label": labels}), tmp_path / "sorted.parquet", row_group_size=500)

    def made(**options: Any) -> fb.Loader:
        shuffle = fb.Shuffle(seed=1, **{"window_rows": 4_000, **options})
        return fb.Loader(tmp_path, shuffle=shuffle, batch_size=64, epochs=2)

    def classes(loader: fb.Loader) -> float:
        return float(np.mean([len(set(batch["label"].tolist())) for batch in loader.epoch(1)]))

    with made() as loader:
        plan = loader.plan(1)
        said = plan.to_dict()["better_mixing"]
        few = classes(loader)
    assert [better["option"] for better in said] == ["piece_rows", "window_rows"]
    assert f"with piece_rows={said[0]['rows']}" in repr(plan)
    for better in said:
        with made(**{better["option"]: better["rows"]}) as loader:
            found = loader.plan(1).to_dict()
            assert found["row_groups_of_a_batch"] == pytest.approx(better["row_groups_of_a_batch"], rel=0.1)
            assert classes(loader) > 1.7 * few
    # The plan gives no such advice without a window, and no advice of pieces if rows cannot be cut into them.
    with fb.Loader(tmp_path, batch_size=64) as stored:
        assert stored.plan().to_dict()["better_mixing"] == []
    with fb.Loader(tmp_path, samples=fb.Window(2), batch_size=64, shuffle=fb.Shuffle(seed=1, window_rows=2_000)) as windows:
        assert {better["option"] for better in windows.plan(1).to_dict()["better_mixing"]} <= {"window_rows"}
