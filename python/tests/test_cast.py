"""Columns of numbers in another type: they have the values of numpy's casts, and a row whose value a cast
would change silently is bad."""

from __future__ import annotations

import pickle
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 300
#: The types that each column is cast to.
CASTS = {
    "i64": "int8",
    "u8": "uint64",
    "large": "float32",
    "i32": "float16",
    "f64": "float32",
    "f32": "float16",
    "whole": "int16",
    "flag": "int32",
    "bit": "bool",
    "price": "float32",
    "units": "int64",
    "when": "int64",
    "number": "float64",
    "count": "int32",
    "pair": "float16",
    "tokens": "int16",
    "nested": "float32",
}


def columns() -> dict[str, pa.Array]:
    rng = np.random.default_rng(7)
    rows = range(ROWS)
    floats = rng.normal(size=ROWS) * 10.0 ** rng.integers(-4, 4, ROWS)
    return {
        "id": pa.array(rows, pa.int64()),
        "i64": pa.array([i % 256 - 128 for i in rows], pa.int64()),
        "u8": pa.array([i % 256 for i in rows], pa.uint8()),
        "large": pa.array(rng.integers(-(2**63), 2**63, ROWS)),
        "i32": pa.array(rng.integers(-65_519, 65_520, ROWS), pa.int32()),
        "f64": pa.array(floats),
        "f32": pa.array(floats.astype(np.float32)),
        "whole": pa.array([float(i - 100) for i in rows]),
        "flag": pa.array([i % 3 == 0 for i in rows]),
        "bit": pa.array([i % 2 for i in rows], pa.uint8()),
        "price": pa.array([Decimal(int(n)).scaleb(-2) for n in rng.integers(-(10**15), 10**15, ROWS)]),
        "units": pa.array([Decimal(i) * 1000 for i in rows], pa.decimal128(20, 3)),
        "when": pa.array(rows, pa.timestamp("ms")),
        "number": pa.array([repr(float(value)) for value in floats]),
        "count": pa.array([str(i - 50) for i in rows]),
        "pair": pa.array([[float(value), 1.0] for value in floats], pa.list_(pa.float64(), 2)),
        "tokens": pa.array([[i] * (i % 5) for i in rows], pa.list_(pa.int64())),
        "nested": pa.array([[[float(value)] * 2] * 3 for value in floats], pa.list_(pa.list_(pa.float64()))),
    }


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.table(columns())


@pytest.fixture(scope="module")
def numbers(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("numbers")
    for part in range(3):
        pq.write_table(table.slice(part * 100, 100), folder / f"{part}.parquet", row_group_size=37)
    return folder


def expected(table: pa.Table, name: str, ids: Any) -> list[Any]:
    """Returns the cells of some rows as numpy casts them."""
    cells = table[name].take(pa.array(ids)).to_pylist()
    if name == "when":
        cells = table[name].cast(pa.int64()).take(pa.array(ids)).to_pylist()
    if name == "price":
        # numpy casts these values through float64.
        cells = [float(cell) for cell in cells]
    return [np.asarray(cell).astype(np.float64 if name == "number" else CASTS[name]).tolist() for cell in cells]


@pytest.mark.parametrize("how", ["plain", "shuffled", "exact", "cached", "filtered", "one"])
def test_values_are_those_of_numpy(numbers: Path, table: pa.Table, tmp_path: Path, how: str) -> None:
    extra: dict[str, Any] = {
        "plain": {},
        "shuffled": {"shuffle": fb.Shuffle(seed=1, window_rows=150)},
        "exact": {"shuffle": fb.Shuffle.exact(1)},
        "cached": {"cache": fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows"), "shuffle": fb.Shuffle(seed=1)},
        "filtered": {"filter": fb.col("id") % 3 == 0},
        "one": {"batch_size": 1},
    }[how]
    with fb.Loader(numbers, **{"cast": CASTS, "batch_size": 32, **extra}) as loader:
        schema = pa.schema(loader.schema)
        for name in ("i64", "f32", "price", "number"):
            assert str(np.dtype(schema.field(name).type.to_pandas_dtype())) == CASTS[name]
        assert schema.field("pair").type.value_type == pa.float16()
        for _ in range(2):
            seen = []
            for batch in loader:
                ids = batch["id"].tolist()
                seen += ids
                for name, dtype in CASTS.items():
                    column = batch[name]
                    if name not in ("tokens", "nested"):
                        assert column.dtype == dtype and column.flags.writeable
                    assert column.tolist() == expected(table, name, ids), name
            assert len(seen) == (ROWS if how != "filtered" else len(range(0, ROWS, 3)))


def test_narrow_columns_alone_keep_their_order(numbers: Path, table: pa.Table) -> None:
    """Batches that contain only numbers are made column by column in groups; the rows stay in order, with or
    without a cast."""
    names = ["id", "i64", "f64", "flag", "u8"]
    arguments: dict[str, Any] = {"columns": names, "batch_size": 17, "shuffle": fb.Shuffle(seed=5, window_rows=200)}
    with fb.Loader(numbers, **arguments) as without:
        order = [row for batch in without for row in batch["id"].tolist()]
    with fb.Loader(numbers, cast={name: CASTS[name] for name in names[1:]}, **arguments) as loader:
        seen = []
        for batch in loader:
            seen += batch["id"].tolist()
            for name in names[1:]:
                assert batch[name].tolist() == expected(table, name, batch["id"])
    assert seen == order and sorted(seen) == list(range(ROWS))


@pytest.mark.parametrize(
    ("column", "dtype", "bad"),
    [
        (pa.array([1, 128, -128, -129]), "int8", [1, 3]),
        (pa.array([-1, 5]), "uint64", [0]),
        (pa.array([0.5, 3.0, float("nan"), 2.0**63, -(2.0**63)]), "int64", [0, 2, 3]),
        (pa.array([1e38, 1e39, float("inf"), float("nan")]), "float32", [1]),
        (pa.array([65_519, 65_520], pa.int32()), "float16", [1]),
        (pa.array([0, 1, 2]), "bool", [2]),
        (pa.array([Decimal("1.50"), Decimal("2.00")]), "int32", [0]),
        (pa.array(["1", "1.5", "", "x", " 2", "99999999999999999999999999999999999999999"]), "int64", [1, 2, 3, 4, 5]),
        (pa.array(["1e400", "nan", "-1e-3", "1,5"]), "float32", [0, 3]),
        (pa.array([[1.0], [1e39, 1e39], None, []], pa.list_(pa.float64())), "float32", [1]),
        (pa.array([[1, 2], [3, 300]], pa.list_(pa.int16(), 2)), "uint8", [1]),
        (pa.array([5, 2**40], pa.timestamp("us")), "int32", [1]),
    ],
)
def test_values_without_a_place_are_bad_rows(tmp_path: Path, column: pa.Array, dtype: str, bad: list[int]) -> None:
    rows = len(column)
    table = pa.table({"id": range(rows), "x": column})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=2)
    with fb.Loader(tmp_path, cast={"x": dtype}, on_bad_row=fb.Skip(at_most=rows)) as loader:
        kept = [row for batch in loader for row in batch["id"].tolist()]
        skipped = loader.skipped()
    nulls = [row for row in range(rows) if not column[row].is_valid]
    assert kept == [row for row in range(rows) if row not in bad + nulls]
    assert sorted(each.row_group * 2 + each.row for each in skipped) == sorted(bad + nulls)
    place = rf"t\.parquet, row group {bad[0] // 2}, row {bad[0] % 2}, column \"x\": .*no place in {dtype}"
    with fb.Loader(tmp_path, cast={"x": dtype}) as loader, pytest.raises(fb.BadRowError, match=f"(?s){place}"):
        list(loader)


def test_nulls_are_those_of_the_new_type(tmp_path: Path) -> None:
    table = {"x": [1.5, None, 2.5], "n": pa.nulls(3), "tokens": [[1, None], None, [3]]}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    cast = {"x": "float16", "n": "float32", "tokens": "int16"}
    with fb.Loader(tmp_path, cast=cast) as loader:
        batch = next(iter(loader))
        with pytest.raises(fb.NullError, match=r'null_mask=\["x"\]'):
            batch["x"]
        assert batch.to_arrow().column("x").to_pylist() == [1.5, None, 2.5]
        assert batch.to_arrow().column("tokens").to_pylist() == table["tokens"]
    pad = {"tokens": fb.Pad(2, value=-1, mask=True)}
    fills = {"x": 0.5, "tokens": 9}
    with fb.Loader(tmp_path, cast=cast, fill_null=fills, null_mask=["x", "n"], pad=pad) as loader:
        batch = next(iter(loader))
        assert batch["x"].tolist() == [1.5, 0.5, 2.5] and batch["x"].dtype == np.float16
        assert batch["x.mask"].tolist() == [True, False, True]
        assert batch["n"].tolist() == [0, 0, 0] and not batch["n.mask"].any()
        assert batch["tokens"].tolist() == [[1, 9], [-1, -1], [3, -1]] and batch["tokens"].dtype == np.int16
        assert batch["tokens.mask"].tolist() == [[True, True], [False, False], [True, False]]
    # The value that fills nulls must be a value of the new type; 0.5 is one of the stored type only.
    with pytest.raises(fb.InvalidError, match="not a value of type int8"):
        fb.Loader(tmp_path, cast={"x": "int8"}, fill_null={"x": 0.5})


def test_other_options_see_the_new_type(numbers: Path, table: pa.Table) -> None:
    decode = {"pair": fb.Tensor("float32", 2), "nested": fb.Tensor("float16", (3, 2))}
    cast = {"pair": "float32", "nested": "float16", "count": "int32", "f32": "float64", "whole": "int64"}
    encode = {"count": fb.Vocabulary(range(-50, 250)), "whole": fb.Hash(7)}
    with fb.Loader(numbers, decode=decode, cast=cast, encode=encode) as loader:
        for batch in loader:
            rows = table.take(pa.array(batch["id"]))
            pair = np.array(rows["pair"].to_pylist()).astype(np.float32)
            assert batch["pair"].dtype == np.float32 and np.array_equal(batch["pair"], pair)
            nested = np.array(rows["nested"].to_pylist()).astype(np.float16)
            assert batch["nested"].shape[1:] == (3, 2) and np.array_equal(batch["nested"], nested)
            assert batch["count"].tolist() == batch["id"].tolist()
    # Without the cast, the float16 tensor does not match the stored float64 values.
    with pytest.raises(fb.InvalidError, match=r"(?s)values are float64, not float16.*cast"):
        fb.Loader(numbers, decode=decode)


def test_a_filter_sees_what_is_stored(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [0.1, 0.2, 0.3]}), tmp_path / "t.parquet")
    with fb.Loader(tmp_path, cast={"x": "float16"}, filter=fb.col("x") == 0.1) as loader:
        assert [value for batch in loader for value in batch["x"].tolist()] == [float(np.float16(0.1))]


def test_a_cache_serves_loaders_with_any_cast(numbers: Path, table: pa.Table, tmp_path: Path) -> None:
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")
    for dtype in ("float32", None, "float16", "float64", "float32"):
        cast = None if dtype is None else {"f64": dtype}
        with fb.Loader(numbers, columns=["id", "f64"], cache=cache, cast=cast) as loader:
            for _ in range(2):
                for batch in loader:
                    values = table["f64"].take(pa.array(batch["id"])).to_numpy()
                    assert batch["f64"].dtype == (dtype or "float64")
                    assert np.array_equal(batch["f64"], values.astype(dtype or "float64"))


def test_patterns_and_types_as_numpy_has_them(numbers: Path) -> None:
    cast = {"f*": np.float16, "f64": np.dtype("float32"), "flag": bool, "i*": float, "id": "int64"}
    with fb.Loader(numbers, columns=["f64", "f32", "flag", "i64", "i32", "id"], cast=cast) as loader:
        batch = next(iter(loader))
        types = [str(batch[name].dtype) for name in loader.columns]
        assert types == ["float32", "float16", "bool", "float64", "float64", "int64"]


def test_fields_of_structures_are_cast_as_columns(tmp_path: Path) -> None:
    pq.write_table(pa.table({"meta": [{"x": 1.5}, {"x": 2.5}]}), tmp_path / "t.parquet")
    with fb.Loader(tmp_path, flatten=True, cast={"meta.x": "float32"}) as loader:
        assert next(iter(loader))["meta.x"].dtype == np.float32


def test_keys_of_folders_are_cast(tmp_path: Path) -> None:
    for year in (2024, 2025):
        (tmp_path / f"year={year}").mkdir()
        pq.write_table(pa.table({"id": [year]}), tmp_path / f"year={year}" / "t.parquet")
    with fb.Loader(tmp_path, cast={"year": "int16"}) as loader:
        batch = next(iter(loader))
        assert batch["year"].dtype == np.int16 and np.array_equal(batch["year"], batch["id"])


def test_resumes_where_it_was(numbers: Path) -> None:
    arguments: dict[str, Any] = {"columns": ["id", "f64"], "cast": {"f64": "float16"}, "shuffle": fb.Shuffle(seed=3)}
    with fb.Loader(numbers, **arguments) as loader:
        whole = [(batch["id"].tolist(), batch["f64"].tolist()) for batch in loader]
    with fb.Loader(numbers, **arguments) as loader, fb.Loader(numbers, **arguments) as other:
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        other.load_state_dict(loader.state_dict())
        assert [(batch["id"].tolist(), batch["f64"].tolist()) for batch in other] == whole[3:]


def test_loaders_are_copied_and_shown_with_it(numbers: Path) -> None:
    with fb.Loader(numbers, cast={"f64": np.float32, "i*": "float64"}) as loader:
        assert "cast={'f64': 'float32', 'i*': 'float64'}" in repr(loader)
        assert loader.spec["cast"] == {"f64": "float32", "i*": "float64"}
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert pa.schema(copy.schema) == pa.schema(loader.schema)
    with fb.Loader(numbers) as loader:
        assert "cast" not in repr(loader) and "cast" not in loader.spec


def test_what_can_never_work_is_refused(tmp_path: Path) -> None:
    columns = {
        "x": [1],
        "xy": [1],
        "blob": [b"1"],
        "text": ["1"],
        "meta": [{"a": 1}],
        "when": pa.array([0], pa.timestamp("s")),
        "image": [b""],
        "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"cast": {"x": "float33"}}, r"cast\['x'\] must be one of bool, int8.*'float33'"),
        ({"cast": {"x": None}}, r"cast\['x'\] must be one of"),
        ({"cast": {"x": "datetime64[s]"}}, r"cast\['x'\] must be one of"),
        ({"cast": "float32"}, "cast must be a dict"),
        ({"cast": {"blob": "int8"}}, "holds binary, which is not cast to int8"),
        ({"cast": {"text": "bool"}}, r"is not cast to bool \(numbers, .*, text to numbers"),
        ({"cast": {"meta": "int8"}}, "is not cast to int8"),
        ({"cast": {"map": "int8"}}, "is not cast to int8"),
        ({"cast": {"when": "float32"}}, "is not cast to float32"),
        ({"cast": {"x*": "int8", "*y": "int16"}}, r'"\*y" and "x\*" match it'),
        ({"cast": {"x": "int8"}, "columns": ["text"]}, "cast names column.*not among the columns"),
        (
            {"columns": ["text"], "cast": {"text": "int8"}, "decode": {"text": fb.Image.resize(8, 8)}},
            "another option says|cells|image",
        ),
        ({"columns": ["blob"], "cast": {"blob": "int8"}, "decode": {"blob": fb.Tensor("uint8", 1)}}, "not cast"),
        ({"columns": ["text"], "cast": {"text": "int8"}, "encode": {"text": fb.Vocabulary(["1"])}}, "holds int8"),
    ]
    for arguments, message in refused:
        with pytest.raises(fb.InvalidError, match=f"(?s){message}"):
            fb.Loader(tmp_path, **arguments)
    for name, message in (("y", "no column"), ("y*", "matches")):
        with pytest.raises(fb.UnknownColumnError, match=message):
            fb.Loader(tmp_path, cast={name: "int8"})
    with fb.Loader(tmp_path, columns=["x", "xy"], cast={"x*": "int8", "*y": "int8"}) as loader:
        assert [str(next(iter(loader))[name].dtype) for name in ("x", "xy")] == ["int8", "int8"]
