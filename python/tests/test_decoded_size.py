"""Row groups that take few bytes in their file and many after decoding: their size is known before they are
read."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS, LENGTH = 50_000, 500

UNITS = {"KiB": 2**10, "MiB": 2**20, "GiB": 2**30}


def vectors() -> pa.Array:
    """Returns a column of vectors, all null except every fiftieth."""
    there = pa.array(np.ones(ROWS // 50 * LENGTH, np.float32))
    kept = pa.FixedSizeListArray.from_arrays(there, LENGTH)
    return kept.take(pa.array([row // 50 if row % 50 == 0 else None for row in range(ROWS)], pa.int64()))


def lists_of_vectors() -> pa.Array:
    """Returns lists of five vectors, which are all null."""
    offsets = pa.array(np.arange(ROWS // 5 + 1, dtype=np.int32) * 5)
    return pa.ListArray.from_arrays(offsets, pa.nulls(ROWS, pa.list_(pa.float32(), LENGTH)))


SHAPES: dict[str, Callable[[], pa.Array]] = {
    "vectors": vectors,
    "in a structure": lambda: pa.StructArray.from_arrays([vectors()], ["v"]),
    "in lists": lists_of_vectors,
    "of texts": lambda: pa.nulls(ROWS // 4, pa.list_(pa.string(), LENGTH)),
    "of lists": lambda: pa.nulls(ROWS // 2, pa.list_(pa.list_(pa.int8()), LENGTH)),
    "of vectors": lambda: pa.nulls(ROWS, pa.list_(pa.list_(pa.float32(), LENGTH // 5), 5)),
}


def stored(path: Path, array: pa.Array) -> Path:
    pq.write_table(pa.table({"v": array}), path, row_group_size=len(array), compression="zstd")
    return path


def enough(error: fb.ForebayError) -> int:
    """Returns the memory that an error says is enough."""
    found = re.search(r"raise memory to ([\d.]+) (\w+)", str(error))
    assert found, str(error)
    return int(float(found[1]) * UNITS[found[2]])


@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_null_in_a_list_of_a_fixed_length_is_counted(shape: str, tmp_path: Path) -> None:
    path = stored(tmp_path / "a.parquet", SHAPES[shape]())
    with fb.Loader(path, batch_size=1, memory="2GB") as loader:
        batch = next(iter(loader))
        whole = batch.to_arrow().get_total_buffer_size() * loader.num_rows
        assert whole <= loader.plan().to_dict()["peak_row_group_bytes"] < 4 * whole, "few of its rows are longer than others"
    with pytest.raises(fb.TooLargeError, match="the row group takes .* to fetch and to decode") as refused:
        fb.Loader(path, batch_size=1, memory="10MB")
    with fb.Loader(path, batch_size=1, memory=enough(refused.value)) as loader:
        next(iter(loader))


def test_lists_without_nulls_count_what_is_stored(tmp_path: Path) -> None:
    values = pa.array(np.arange(2_000 * LENGTH, dtype=np.float32))
    dense = stored(tmp_path / "dense.parquet", pa.FixedSizeListArray.from_arrays(values, LENGTH))
    lists = stored(tmp_path / "lists.parquet", pa.ListArray.from_arrays(np.arange(0, 2_000 * LENGTH + 1, LENGTH, np.int32), values))
    peaks = [fb.Loader(path, batch_size=1).plan().to_dict()["peak_row_group_bytes"] for path in (dense, lists)]
    assert peaks[0] == pytest.approx(peaks[1], rel=0.01)
    # The boxes of an image are fixed-size lists within lists, none of which is null.
    boxes = pa.FixedSizeListArray.from_arrays(values, 4)
    offsets = np.arange(0, len(boxes) + 1, 125, np.int32)
    boxed = stored(tmp_path / "boxes.parquet", pa.ListArray.from_arrays(offsets, boxes))
    nested = pa.ListArray.from_arrays(np.arange(0, len(values) + 1, 4, np.int32), values)
    nested = stored(tmp_path / "nested.parquet", pa.ListArray.from_arrays(offsets, nested))
    peaks = [fb.Loader(path, batch_size=1).plan().to_dict()["peak_row_group_bytes"] for path in (boxed, nested)]
    assert peaks[0] <= 1.5 * peaks[1]


@pytest.mark.parametrize("values", ["zeros", "nulls", "false", "texts"])
@pytest.mark.parametrize("window", [False, True])
def test_the_memory_that_a_refusal_names_is_enough(values: str, window: bool, tmp_path: Path) -> None:
    rows, length = 3_000, 2_000 if values == "texts" else 8_000
    items: Any = {
        "zeros": lambda: pa.array(np.zeros(rows * length, np.int64)),
        "nulls": lambda: pa.nulls(rows * length, pa.int8()),
        "false": lambda: pa.array(np.zeros(rows * length, bool)),
        "texts": lambda: pa.DictionaryArray.from_arrays(np.zeros(rows * length, np.int32), ["ab"]),
    }[values]()
    offsets = np.arange(rows + 1, dtype=np.int64) * length
    path = stored(tmp_path / "a.parquet", pa.LargeListArray.from_arrays(offsets, items))
    options: dict[str, Any] = {"batch_size": 8, **({"samples": fb.Window(2)} if window else {})}
    with pytest.raises(fb.TooLargeError) as refused:
        fb.Loader(path, memory="40MB", **options)
    memory = enough(refused.value)
    with fb.Loader(path, memory=memory, **options) as loader:
        next(iter(loader))


def test_the_levels_of_a_structure_are_counted(tmp_path: Path) -> None:
    rows = 4_000_000
    nulls = pa.StructArray.from_arrays([pa.nulls(rows, pa.int64()), pa.nulls(rows, pa.string())], ["a", "b"])
    path = stored(tmp_path / "a.parquet", nulls)
    with pytest.raises(fb.TooLargeError) as refused:
        fb.Loader(path, memory="20MB", batch_size=100, samples=fb.Window(4))
    with fb.Loader(path, memory=enough(refused.value), batch_size=100, samples=fb.Window(4)) as loader:
        next(iter(loader))


def test_a_piece_counts_the_rows_that_are_decoded_of_its_pages(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    table = pa.table({"v": pa.nulls(400, pa.binary(1_000_000)), "i": pa.array(range(400))})
    pq.write_table(table, path, compression="zstd")
    with pytest.raises(fb.TooLargeError, match=r"piece_rows=\d+") as refused:
        fb.Loader(path, memory="100MB", batch_size=4, shuffle=fb.Shuffle(seed=1))
    found = re.search(r"piece_rows=(\d+)", str(refused.value))
    assert found
    shuffle = fb.Shuffle(seed=1, piece_rows=int(found[1]), window_rows=int(found[1]))
    with fb.Loader(path, memory="100MB", batch_size=4, shuffle=shuffle, epochs=1) as loader:
        assert sorted(row for batch in loader for row in batch["i"].tolist()) == list(range(400))


def test_the_expected_memory_is_that_of_average_lengths_and_below_its_limit(tmp_path: Path) -> None:
    rows = 20_000
    texts = pa.table({"text": [f"one of the few texts, number {row % 50}" for row in range(rows)]})
    numbers = pa.table({"x": pa.array(range(rows), pa.float64())})
    for name, table in [("texts", texts), ("numbers", numbers)]:
        pq.write_table(table, tmp_path / f"{name}.parquet", row_group_size=2_000)
        for options in ({}, {"shuffle": fb.Shuffle(seed=1)}):
            plan = fb.Loader(tmp_path / f"{name}.parquet", batch_size=64, memory="2GB", **options).plan()
            numbers_of = plan.to_dict()
            expected, most = numbers_of["expected_memory"], numbers_of["most_memory"]
            assert numbers_of["peak_row_group_bytes"] < expected < 64e6
            assert expected <= most <= 2e9
            assert "peak memory about" in str(plan) and "at most" in str(plan)
    # The limit for texts includes half of the budget, because their lengths are unknown; numbers need no reserve.
    assert fb.Loader(tmp_path / "numbers.parquet", memory="2GB").plan().to_dict()["most_memory"] < 100e6
