"""Vectors of Spark ML: dense and sparse ones in a column, as lists of all their values; matrices are refused."""

from __future__ import annotations

import json
import math
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

#: The type as in Spark's files; in pyarrow's files, any field may be null.
VECTOR = pa.struct(
    [
        pa.field("type", pa.int8(), nullable=False),
        pa.field("size", pa.int32()),
        pa.field("indices", pa.list_(pa.field("element", pa.int32(), nullable=False))),
        pa.field("values", pa.list_(pa.field("element", pa.float64(), nullable=False))),
    ]
)
MATRIX = pa.struct(
    [
        ("type", pa.int8()),
        ("numRows", pa.int32()),
        ("numCols", pa.int32()),
        ("colPtrs", pa.list_(pa.int32())),
        ("rowIndices", pa.list_(pa.int32())),
        ("values", pa.list_(pa.float64())),
        ("isTransposed", pa.bool_()),
    ]
)


def dense(*values: float) -> dict[str, Any]:
    return {"type": 1, "size": None, "indices": None, "values": list(values)}


def sparse(size: int, indices: list[int], values: list[float]) -> dict[str, Any]:
    return {"type": 0, "size": size, "indices": indices, "values": values}


ROWS = [dense(1.0, 2.0, 3.0), sparse(3, [0, 2], [4.0, 5.0]), sparse(3, [], []), dense(0.0, -1.0, 0.5)]
EXPECTED = [[1.0, 2.0, 3.0], [4.0, 0.0, 5.0], [0.0, 0.0, 0.0], [0.0, -1.0, 0.5]]


def write(path: Path, rows: list[Any], kind: pa.DataType = VECTOR, **more: pa.Array) -> Path:
    path.parent.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": range(len(rows)), "features": pa.array(rows, kind), **more}), path, row_group_size=50)
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return write(tmp_path / "vectors" / "a.parquet", ROWS * 50)


def test_dense_and_sparse_vectors_are_lists_of_all_values(table: Path, tmp_path: Path) -> None:
    for columns in (None, ["features"], ["id", "feat*"]):
        with fb.Loader(table, columns=columns, batch_size=100) as loader:
            assert repr(loader.schema).splitlines()[-1].startswith("features: list<float64>")
            assert loader.schema.layout()[-1] == ("features", "ragged", "<f8", ())
            batches = list(loader)
            assert [batch["features"].tolist() for batch in batches] == [EXPECTED * 25] * 2
            assert batches[0]["features"].values.dtype == np.float64
    # In files of Polars and DuckDB, any field may be null, and offsets have 64 bits.
    large = pa.struct(
        [
            ("type", pa.int8()),
            ("size", pa.int32()),
            ("indices", pa.large_list(pa.int32())),
            ("values", pa.large_list(pa.float64())),
        ]
    )
    with fb.Loader(write(tmp_path / "large.parquet", ROWS, large)) as loader:
        assert next(iter(loader))["features"].tolist() == EXPECTED


def test_polars_keeps_what_makes_a_vector(table: Path, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    polars.read_parquet(table).write_parquet(tmp_path / "polars.parquet")
    with fb.Loader(tmp_path / "polars.parquet", batch_size=4) as loader:
        assert next(iter(loader))["features"].tolist() == EXPECTED


def test_the_options_of_lists_see_lists(table: Path) -> None:
    def first(column: str = "features", **options: Any) -> Any:
        with fb.Loader(table, batch_size=4, **options) as loader:
            return next(iter(loader))[column]

    shaped = first(decode={"features": fb.Tensor("float64", (3,))})
    assert shaped.shape == (4, 3) and shaped.tolist() == EXPECTED
    cast = first(cast={"features": "float32"}, decode={"features": fb.Tensor("float32", (3,))})
    assert cast.dtype == np.float32 and cast.tolist() == EXPECTED
    padded = first(pad={"features": fb.Pad(4, value=-1.0, mask=True)})
    assert padded.tolist() == [[*row, -1.0] for row in EXPECTED]
    mask = first("features.mask", pad={"features": fb.Pad(4, mask=True)})
    assert mask.tolist() == [[True, True, True, False]] * 4
    assert first(pad={"features": fb.Pad()}).tolist() == EXPECTED
    assert first("x", rename={"features": "x"}).tolist() == EXPECTED
    with pytest.raises(fb.BadRowError, match='row 3, column "features": 0.5 has no place in int8'):
        with fb.Loader(table, cast={"features": "int8"}, batch_size=4) as loader:
            list(loader)
    with pytest.raises(fb.BadRowError, match="a list of 3 values where .* takes 2"):
        first(decode={"features": fb.Tensor("float64", (2,))})
    with pytest.raises(fb.InvalidError, match="no mask of nulls can be delivered"):
        first(null_mask=["features"])


def test_a_null_is_that_of_a_list(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [*ROWS, None])
    with fb.Loader(path) as loader:
        batch = next(iter(loader))
        assert batch.to_arrow().column("features").to_pylist() == [*EXPECTED, None]
        with pytest.raises(fb.NullError, match='column "features": row 4 of this batch is null.*fill_null'):
            batch["features"]
    with fb.Loader(path, fill_null={"features": 0.0}) as loader:
        assert next(iter(loader))["features"].tolist() == [*EXPECTED, []]
    with fb.Loader(path, on_bad_row=fb.Skip(at_most=1)) as loader:
        assert next(iter(loader))["features"].tolist() == EXPECTED


@pytest.mark.parametrize(
    ("bad", "cause"),
    [
        (sparse(3, [0, 3], [1.0, 2.0]), "index 3 where its size is 3"),
        (sparse(3, [-1], [1.0]), "index -1 where its size is 3"),
        (sparse(3, [1, 1], [1.0, 2.0]), "index 1 after 1, and they ascend"),
        (sparse(3, [0], [1.0, 2.0]), "1 indices, and 2 values"),
        (sparse(2**31 - 1, [2**31 - 1], [1.0]), "index 2147483647 where its size is 2147483647"),
        (sparse(-1, [], []), "sparse, of size -1"),
        ({**sparse(3, [0], [1.0]), "size": None}, "sparse, without a size"),
        ({**sparse(3, [0], [1.0]), "indices": None}, "sparse, without indices"),
        ({**dense(1.0), "values": None}, "it has no values"),
        ({**dense(1.0), "type": 7}, r"its type is 7, neither 0 \(sparse\) nor 1 \(dense\)"),
    ],
)
def test_a_bad_vector_is_a_bad_row(tmp_path: Path, bad: dict[str, Any], cause: str) -> None:
    path = write(tmp_path / "a.parquet", [*ROWS * 13, bad, *ROWS[1:]])
    with fb.Loader(path, batch_size=4, shuffle=fb.Shuffle(seed=1), memory="512MiB") as loader:
        with pytest.raises(fb.BadRowError, match=f"{cause}.*on_bad_row") as caught:
            list(loader)
    place = caught.value
    assert (place.file, place.row_group, place.row, place.column) == (str(path), 1, 2, "features")
    with fb.Loader(path, batch_size=4, on_bad_row=fb.Skip(at_most=1), memory="512MiB") as loader:
        assert sum((batch["features"].tolist() for batch in loader), []) == EXPECTED * 13 + EXPECTED[1:]
        assert len(loader.skipped()) == 1
    buckets = fb.Bucket("features", rows=4)
    with fb.Loader(path, samples=buckets, batch_size=4) as loader:
        with pytest.raises(fb.BadRowError, match=f"{cause}.*on_bad_row"):
            list(loader)
    with fb.Loader(path, samples=buckets, batch_size=4, on_bad_row=fb.Skip(at_most=1)) as loader:
        assert sum(len(batch["features"]) for batch in loader) == 55 and len(loader.skipped()) == 1


def test_a_vector_too_large_for_a_batch_of_its_own_says_what_helps(tmp_path: Path) -> None:
    large = sparse(5_000_000, [4_999_999], [1.0])
    path = write(tmp_path / "a.parquet", [*ROWS, large, *ROWS])
    asked: dict[str, Any] = {"columns": ["features"], "threads": 1, "shuffle": None}
    with fb.Loader(path, batch_size=4, memory="64MiB", **asked) as loader:
        with pytest.raises(fb.TooLargeError, match="this row takes 38.2 MiB alone: raise memory to") as caught:
            list(loader)
    said = str(caught.value)
    assert (caught.value.row, caught.value.column) == (4, "features") and "may fit" not in said
    found = re.search(r"raise memory to ([\d.]+) MiB with batch_size=1, or leave row id (\d+) out with deny", said)
    assert found is not None
    memory, row = f"{math.ceil(float(found[1]))}MiB", int(found[2])
    with fb.Loader(path, batch_size=1, memory=memory, **asked) as loader:
        assert sum(batch["features"][0].sum() for batch in loader) == 2 * sum(map(sum, EXPECTED)) + 1
    with fb.Loader(path, batch_size=4, memory="64MiB", deny=[row], **asked) as loader:
        assert sum(len(batch["features"]) for batch in loader) == 8


def test_a_batch_of_large_sparse_vectors_is_counted_before_it_is_made(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [sparse(2**24, [5], [1.0])] * 60)
    for options in (
        {},
        {"pad": {"features": fb.Pad(8, truncate=True)}},
        {"pad": {"features": fb.Pad()}},
        {"decode": {"features": fb.Tensor("float64", (3,))}},
    ):
        with fb.Loader(path, batch_size=30, memory="1GiB", **options) as loader:  # type: ignore[arg-type]
            said = r'a batch of 30 rows takes 3\.\d GiB, over .*batch_size=1 may fit, or raise memory.*"indices" and "values"'
            with pytest.raises(fb.TooLargeError, match=said) as caught:
                list(loader)
            assert (caught.value.row_group, caught.value.row, caught.value.column) == (0, 0, "features")
    # If the indices and values are read as stored, they take only their stored memory.
    stored = ["features.indices", "features.values"]
    with fb.Loader(path, columns=stored, flatten=True, batch_size=30, memory="64MiB") as loader:
        assert next(iter(loader))["features.indices"].tolist() == [[5]] * 30


@pytest.mark.skipif(not Path("/proc/self/status").is_file(), reason="reads the memory from /proc")
def test_large_sparse_vectors_stay_within_the_budget(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet", [sparse(2**20, [5], [1.0])] * 120)
    script = f"""{PEAK}
import forebay as fb
before = peak()
loader = fb.Loader({str(path)!r}, batch_size=4, memory="256MiB", threads=2)
ones = sum(batch["features"].values.sum() for batch in loader)
print(int(ones), (peak() - before) >> 20)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    ones, mebibytes = map(int, done.stdout.split())
    # Beside the budget of 256 MiB, the bound allows twice the two batches of 32 MiB that the threads are making.
    assert ones == 120 and mebibytes < 256 + 2 * 2 * 32


def test_the_values_of_sparse_vectors_are_not_read_without_their_indices(table: Path) -> None:
    said = (
        r'column "features\.values": the stored values of a sparse vector of Spark ML are its non-zeros alone '
        r'\(read "features", .*or "features\.indices" beside it\)'
    )
    for options in ({"columns": ["features.values"]}, {"columns": ["features.size", "features.values"]}):
        for flatten in (False, True):
            with pytest.raises(fb.InvalidError, match=said):
                fb.Loader(table, flatten=flatten, **options)
    with fb.Loader(table, columns=["features.type", "features.values"], batch_size=4) as loader:
        features = next(iter(loader))["features"]
        assert features["type"].tolist() == [1, 0, 0, 1]
        assert features["values"].tolist() == [row["values"] for row in ROWS]
    with fb.Loader(table, columns=["features.indices", "features.values"], batch_size=4) as loader:
        said = 'row 0 of this batch holds a null in its field "features.indices"'
        with pytest.raises(fb.NullError, match=said):
            next(iter(loader))["features"]


def test_flatten_leaves_vectors_whole(table: Path, tmp_path: Path) -> None:
    with fb.Loader(table, flatten=True, batch_size=4) as loader:
        assert next(iter(loader))["features"].tolist() == EXPECTED
    with pytest.raises(fb.InvalidError, match="cannot be flattened: it is delivered as lists of all values"):
        fb.Loader(table, flatten=["features"])
    fields = ["features.type", "features.values"]
    with fb.Loader(table, columns=fields, flatten=["features"], batch_size=4) as loader:
        assert next(iter(loader))["features.type"].tolist() == [1, 0, 0, 1]
    user = pa.array([{"name": "a", "v": row, "all": [row, row]} for row in ROWS])
    user = user.cast(pa.struct([("name", pa.string()), ("v", VECTOR), ("all", pa.list_(VECTOR))]))
    nested = write(tmp_path / "nested.parquet", ROWS, user=user)
    with fb.Loader(nested, flatten=True) as loader:
        batch = next(iter(loader))
        assert batch["user.v"].tolist() == EXPECTED
        assert batch["user.all"].tolist() == [[row, row] for row in EXPECTED]
    with fb.Loader(nested, columns=["user"]) as loader:
        user = next(iter(loader))["user"]
        assert user["v"].tolist() == EXPECTED and user["name"].tolist() == ["a"] * 4
    with pytest.raises(fb.InvalidError, match=r'column "user\.v\.values": the stored values of a sparse vector'):
        fb.Loader(nested, columns=["user.v.values"])


def test_filters_refuse_vectors_and_buckets_take_them(table: Path, tmp_path: Path) -> None:
    with pytest.raises(fb.InvalidError, match="the column has type vector of Spark ML, which a filter cannot compare"):
        fb.Loader(table, filter=[("features", "==", 1.0)])
    rows = [dense(*[1.0] * (1 + row % 4)) if row % 2 else sparse(1 + row % 4, [0], [1.0]) for row in range(200)]
    path = write(tmp_path / "a.parquet", rows)
    samples = fb.Bucket("features", rows=4)
    with fb.Loader(path, samples=samples, batch_size=4, pad={"features": fb.Pad()}) as loader:
        assert sum(len(batch["id"]) for batch in loader) == 200
    with pytest.raises(fb.InvalidError, match="holds vector of Spark ML, which is not packed"):
        fb.Loader(table, samples=fb.Pack("features", length=8))


def test_mixes_states_and_caches_have_the_rows_of_the_file(table: Path, tmp_path: Path) -> None:
    lists = tmp_path / "lists.parquet"
    kind = pa.list_(pa.field("element", pa.float64(), nullable=False))
    pq.write_table(pa.table({"id": range(200, 400), "features": pa.array(EXPECTED * 50, kind)}), lists)
    with fb.Mix([(table, 1), (lists, 1)], batch_size=20, stop="last") as mix:
        rows = [row for batch in mix for row in zip(batch["id"].tolist(), batch["features"].tolist(), strict=True)]
    assert len(rows) == 400 and all(EXPECTED[number % 4] == features for number, features in rows)

    def run(state: Any = None, stop: int | None = None, **options: Any) -> tuple[list[Any], Any]:
        shuffle = fb.Shuffle(seed=3)
        with fb.Loader(table, batch_size=8, shuffle=shuffle, on_bad_row=fb.Skip(at_most=0), **options) as loader:
            if state is not None:
                loader.load_state_dict(state)
            taken: list[Any] = []
            for batch in loader:
                taken += zip(batch["id"].tolist(), batch["features"].tolist(), strict=True)
                if len(taken) == stop:
                    break
            return taken, loader.state_dict()

    whole, _ = run()
    assert sorted(whole) == [(number, EXPECTED[number % 4]) for number in range(200)]
    begun, state = run(stop=64)
    assert begun + run(state)[0] == whole
    cache = fb.DiskCache(tmp_path / "cache", max_bytes=64 << 20, tier="rows")
    assert [run(cache=cache)[0] for _ in range(2)] == [whole, whole]


def test_matrices_are_refused_by_name(tmp_path: Path) -> None:
    one = {"type": 1, "numRows": 1, "numCols": 2, "colPtrs": None, "rowIndices": None, "isTransposed": False}
    matrices = pa.array([{**one, "values": [1.0, 2.0]}] * 4, MATRIX)
    path = write(tmp_path / "a.parquet", ROWS, m=matrices)
    said = r'column "m": type matrix of Spark ML is not read \(leave it out .*"m\.type" and "m\.values"\)'
    for columns in (None, ["m"]):
        with pytest.raises(fb.UnsupportedError, match=said):
            fb.Loader(path, columns=columns)
    said = r'the stored values of a sparse matrix of Spark ML are its non-zeros alone \(read "m\.type" as well'
    with pytest.raises(fb.InvalidError, match=said):
        fb.Loader(path, columns=["m.values"])
    with fb.Loader(path, columns=["features", "m.type", "m.values"]) as loader:
        batch = next(iter(loader))
        assert batch["m"]["values"].padded().tolist() == [[1.0, 2.0]] * 4
        assert batch["features"].tolist() == EXPECTED


def test_the_type_has_its_name(table: Path) -> None:
    assert "features: vector of Spark ML" in repr(fb.Dataset(table).schema)
    inspected = subprocess.run(
        [sys.executable, "-m", "forebay", "inspect", str(table), "--json", "-"], capture_output=True, text=True, check=True
    )
    columns = json.loads(inspected.stdout)["columns"]
    assert [(column["name"], column["type"]) for column in columns] == [("id", "int64"), ("features", "vector of Spark ML")]
    metadata = pq.ParquetFile(table).metadata
    chunks = [metadata.row_group(group).column(leaf) for group in range(metadata.num_row_groups) for leaf in range(1, 5)]
    stored = sum(chunk.total_compressed_size for chunk in chunks)
    assert (columns[1]["values"], columns[1]["stored_bytes"]) == (len(ROWS) * 50, stored)
    other = pa.struct([("type", pa.int8()), ("size", pa.int64())])
    with fb.Loader(write(table.with_name("other") / "b.parquet", [{"type": 1, "size": 2}], other)) as loader:
        assert set(next(iter(loader))["features"]) == {"type", "size"}
