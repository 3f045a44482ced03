"""Columns with nulls as dense arrays, beside a mask that says which values are present."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 400
ZEROS: dict[str, Any] = {
    "i64": np.int64(0),
    "u8": np.uint8(0),
    "f16": np.float16(0),
    "f32": np.float32(0),
    "flag": np.bool_(False),
    "when": np.datetime64(0, "us"),
    "day": np.datetime64(0, "D"),
    "span": np.timedelta64(0, "ms"),
    "clock": np.timedelta64(0, "us"),
    "text": "",
    "blob": b"",
    "cell": np.zeros(2, np.uint8),
    "pair": np.zeros(2, np.int32),
    "flags": np.zeros(2, bool),
}


def columns() -> dict[str, pa.Array]:
    """Returns one column of every kind that can have a mask: about every third row is null, with different
    rows in each column."""
    rows = range(1, ROWS + 1)
    kinds: dict[str, tuple[Any, pa.DataType]] = {
        "i64": (lambda i: -i, pa.int64()),
        "u8": (lambda i: i % 255 + 1, pa.uint8()),
        "f16": (lambda i: np.float16(i), pa.float16()),
        "f32": (lambda i: i / 3, pa.float32()),
        "flag": (lambda i: True, pa.bool_()),
        "when": (lambda i: i, pa.timestamp("us")),
        "day": (lambda i: i, pa.date32()),
        "span": (lambda i: i, pa.duration("ms")),
        "clock": (lambda i: i, pa.time64("us")),
        "text": (lambda i: f"row {i} " * (i % 5), pa.string()),
        "blob": (lambda i: bytes([i % 256]) * (i % 20), pa.binary()),
        "cell": (lambda i: bytes([i % 255 + 1, 7]), pa.binary(2)),
        "pair": (lambda i: [i, -i], pa.list_(pa.int32(), 2)),
        "flags": (lambda i: [True, i % 2 == 0], pa.list_(pa.bool_(), 2)),
    }
    made = {"id": pa.array(range(ROWS), pa.int64())}
    for at, (name, (value, kind)) in enumerate(kinds.items()):
        cells = [None if (i * 7 + at) % 11 < 3 else value(i) for i in rows]
        made[name] = pa.array(cells, kind)
    made["full"] = pa.array(rows, pa.int16())
    return made


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.table(columns())


@pytest.fixture(scope="module")
def nulls(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nulls")
    for part in range(2):
        pq.write_table(table.slice(part * 200, 200), folder / f"{part}.parquet", row_group_size=70)
    return folder


def check(batch: Any, table: pa.Table, name: str, filler: Any) -> None:
    """Checks that the column and its mask equal what pyarrow reads."""
    column = table[name].take(pa.array(batch["id"])).combine_chunks()
    mask = np.array(column.is_valid())
    assert batch[f"{name}.mask"].dtype == bool and batch[f"{name}.mask"].shape == (batch.num_rows,)
    assert np.array_equal(batch[f"{name}.mask"], mask)
    values = batch[name]
    for row, present in enumerate(mask):
        if not present:
            assert np.array_equal(values[row], filler), (name, row)
    if name in ("text", "blob"):
        assert values[mask].tolist() == column.drop_null().to_pylist()
    elif name == "cell":
        assert [bytes(cell) for cell in values[mask]] == column.drop_null().to_pylist()
    elif name in ("pair", "flags"):
        assert values[mask].tolist() == column.drop_null().to_pylist()
    else:
        want = column.drop_null().to_numpy(zero_copy_only=False)
        assert np.array_equal(values[mask], want.astype(values.dtype) if name != "clock" else clocks(column))
    assert values.flags.writeable


def clocks(column: pa.Array) -> Any:
    return column.drop_null().cast(pa.int64()).to_numpy().astype("timedelta64[us]")


@pytest.mark.parametrize("how", ["plain", "shuffled", "exact", "cached", "filtered", "one"])
def test_masks_and_values_are_those_of_pyarrow(nulls: Path, table: pa.Table, tmp_path: Path, how: str) -> None:
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")
    extra: dict[str, Any] = {
        "plain": {},
        "shuffled": {"shuffle": fb.Shuffle(seed=1, window_rows=150)},
        "exact": {"shuffle": fb.Shuffle.exact(1)},
        "cached": {"cache": cache, "shuffle": fb.Shuffle(seed=1)},
        "filtered": {"filter": fb.col("id") % 3 == 0},
        "one": {"batch_size": 1},
    }[how]
    arguments = {"null_mask": list(ZEROS), "batch_size": 32, **extra}
    with fb.Loader(nulls, **arguments) as loader:
        assert loader.schema.names == [*table.column_names, *(f"{name}.mask" for name in ZEROS)]
        for _ in range(2):
            seen = []
            for batch in loader:
                seen += batch["id"].tolist()
                for name, zero in ZEROS.items():
                    check(batch, table, name, zero)
            assert len(seen) == (ROWS if how != "filtered" else len(range(0, ROWS, 3)))


def test_narrow_columns_alone(nulls: Path, table: pa.Table) -> None:
    """If all columns are narrow numbers, a batch gathers several of them at once, here from rows in shuffled order."""
    names = ["id", "i64", "u8", "f32", "flag", "day"]
    shuffle = fb.Shuffle(seed=5, window_rows=300)
    with fb.Loader(nulls, columns=names, null_mask=names[1:], batch_size=17, shuffle=shuffle) as loader:
        orders = []
        for _ in range(2):
            order = []
            for batch in loader:
                order += batch["id"].tolist()
                for name in names[1:]:
                    check(batch, table, name, ZEROS[name])
            orders.append(order)
    assert sorted(orders[0]) == list(range(ROWS)) and orders[0] != orders[1]
    with fb.Loader(nulls, columns=["id"], batch_size=17, shuffle=shuffle) as without:
        assert [row for batch in without for row in batch["id"].tolist()] == orders[0]


def test_fill_null_gives_the_values(nulls: Path, table: pa.Table) -> None:
    fills = {"i64": -1, "f32": float("inf"), "flag": 1, "text": "none", "blob": b"x", "cell": 9, "pair": -3, "day": 5}
    fillers = {
        **fills,
        "flag": np.bool_(True),
        "cell": np.full(2, 9, np.uint8),
        "pair": np.full(2, -3, np.int32),
        "day": np.datetime64(5, "D"),
    }
    for shuffle in (None, fb.Shuffle(seed=2)):
        with fb.Loader(nulls, null_mask=list(fills), fill_null=fills, shuffle=shuffle) as loader:
            for batch in loader:
                for name, filler in fillers.items():
                    check(batch, table, name, filler)


def test_patterns_name_columns_that_are_read(nulls: Path) -> None:
    def masks(columns: list[str] | None, null_mask: list[str]) -> list[str]:
        with fb.Loader(nulls, columns=columns, null_mask=null_mask) as loader:
            return [name for name in loader.schema.names if name.endswith(".mask")]

    assert masks(["text", "f32", "f16", "id"], ["f*"]) == ["f32.mask", "f16.mask"]
    assert masks(["text", "f32", "f16", "id"], ["text", "f*", "f32"]) == ["text.mask", "f32.mask", "f16.mask"]
    assert masks(["full"], ["full"]) == ["full.mask"]
    assert masks(None, ["*"]) == [f"{name}.mask" for name in ["id", *ZEROS, "full"]]
    assert masks(None, []) == []


def test_a_column_without_nulls_is_all_there(nulls: Path) -> None:
    with fb.Loader(nulls, columns=["full"], null_mask=["full"]) as loader:
        assert all(batch["full.mask"].all() for batch in loader)


def test_arrow_and_skipped_rows(nulls: Path, table: pa.Table) -> None:
    """A null is not a bad row in a column with a null mask, but it is one in other columns."""
    with fb.Loader(nulls, columns=["id", "i64"], null_mask=["i64"], on_bad_row=fb.Skip(at_most=0)) as loader:
        record = next(iter(loader)).to_arrow()
        assert record.column("i64").null_count == 0 and record.schema.field("i64.mask").type == pa.bool_()
        assert not record.schema.field("i64").nullable and not record.schema.field("i64.mask").nullable
        assert sum(batch.num_rows for batch in loader) == ROWS and loader.skipped() == []
    skip = fb.Skip(at_most=ROWS)
    with fb.Loader(nulls, columns=["id", "i64", "f32"], null_mask=["i64"], on_bad_row=skip) as loader:
        rows = 0
        for batch in loader:
            check(batch, table, "i64", 0)
            rows += batch.num_rows
        assert rows == ROWS - table["f32"].null_count


def test_resumes_where_it_was(nulls: Path) -> None:
    arguments: dict[str, Any] = {"columns": ["id", "i64"], "null_mask": ["i64"], "shuffle": fb.Shuffle(seed=3)}
    with fb.Loader(nulls, **arguments) as loader:
        whole = [(batch["id"].tolist(), batch["i64.mask"].tolist()) for batch in loader]
    with fb.Loader(nulls, **arguments) as loader, fb.Loader(nulls, **arguments) as other:
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        other.load_state_dict(loader.state_dict())
        assert [(batch["id"].tolist(), batch["i64.mask"].tolist()) for batch in other] == whole[3:]


def test_nulls_in_a_list_that_is_there_are_bad_rows(tmp_path: Path) -> None:
    pairs = [[1, 2], [3, None], None, [None, None]]
    pq.write_table(pa.table({"pair": pa.array(pairs, pa.list_(pa.int32(), 2))}), tmp_path / "t.parquet")
    with fb.Loader(tmp_path, null_mask=["pair"]) as loader:
        with pytest.raises(fb.BadRowError, match=r"row 1.*null inside a list.*fill_null"):
            list(loader)
    with fb.Loader(tmp_path, batch_size=2) as loader:
        with pytest.raises(fb.NullError, match=r'row 1 .*holds a null.*\(pass fill_null=\{"pair": 0.0\}, ') as caught:
            next(iter(loader))["pair"]
    assert "null_mask" not in str(caught.value)
    with fb.Loader(tmp_path, null_mask=["pair"], on_bad_row=fb.Skip(at_most=2)) as loader:
        (batch,) = loader
        assert batch["pair"].tolist() == [[1, 2], [0, 0]] and batch["pair.mask"].tolist() == [True, False]
        assert [bad.row for bad in loader.skipped()] == [1, 3]
    with fb.Loader(tmp_path, null_mask=["pair"], fill_null={"pair": 8}) as loader:
        (batch,) = loader
        assert batch["pair"].tolist() == [[1, 2], [3, 8], [8, 8], [8, 8]]
        assert batch["pair.mask"].tolist() == [True, True, False, True]


def test_the_array_without_a_mask_names_the_option(nulls: Path) -> None:
    with fb.Loader(nulls, columns=["i64"]) as loader, pytest.raises(fb.NullError, match=r'null_mask=\["i64"\]'):
        next(iter(loader))["i64"]


def test_loaders_are_copied_and_shown_with_it(nulls: Path) -> None:
    with fb.Loader(nulls, null_mask=("i64", "f*")) as loader:
        assert "null_mask=['i64', 'f*']" in repr(loader)
        assert loader.spec["null_mask"] == ["i64", "f*"]
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert copy.schema.names == loader.schema.names
    with fb.Loader(nulls) as loader:
        assert "null_mask" not in repr(loader) and "null_mask" not in loader.spec


def test_a_pattern_means_the_columns_that_it_can_apply_to(tmp_path: Path) -> None:
    columns = {
        "n": [1, None],
        "f": [0.5, None],
        "city": ["a", None],
        "kind": ["a", None],
        "tokens": [[1], None],
        "padded": [[1], [2]],
        "meta": [{"a": 1}, {"a": 2}],
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    options: dict[str, Any] = {
        "encode": {"kind": fb.Vocabulary(["a", "b"])},
        "pad": {"padded": fb.Pad(1)},
        "on_bad_row": fb.Skip(at_most=2),
        "batch_size": 2,
        "shuffle": None,
    }
    names = [*columns]
    with fb.Loader(tmp_path, columns=names[:4], null_mask=["*"], fill_null={"*": 7, "kind": "b"}, **_without(options)) as loader:
        batch = next(iter(loader))
        assert [name for name in batch if name.endswith(".mask")] == ["n.mask", "f.mask", "city.mask"]
        assert (batch["n"].tolist(), batch["f"].tolist(), batch["city"].tolist()) == ([1, 7], [0.5, 7], ["a", ""])
        assert batch["kind"].tolist() == [0, 1]
    with fb.Loader(tmp_path, null_mask=["*"], **options) as loader:
        masks = [name for name in loader.schema.names if name.endswith(".mask")]
        assert masks == ["n.mask", "f.mask", "city.mask"]
        assert "null_mask=['*']" in repr(loader)
    # Where the option applies to no column, the error says why.
    for arguments, said in (
        ({"columns": ["tokens"], "null_mask": ["*"]}, "no mask of nulls can be delivered.*pad"),
        ({"columns": ["city"], "fill_null": {"*": 7}}, 'column "city".*give a text'),
    ):
        with pytest.raises(fb.InvalidError, match=said):
            fb.Loader(tmp_path, **arguments)  # type: ignore[arg-type]


def _without(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name != "pad"}


def test_what_can_never_work_is_refused(tmp_path: Path) -> None:
    columns = {
        "id": [1, 2],
        "x": [1, None],
        "x.mask": [1, 2],
        "tokens": [[1], None],
        "meta": [{"a": 1}, None],
        "price": pa.array([None, 1], pa.decimal128(9, 2)),
        "city": ["a", None],
    }
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    refused: list[tuple[dict[str, Any], str]] = [
        ({"null_mask": ["x"]}, "name of a stored column"),
        ({"null_mask": ["x", "x"]}, "twice"),
        ({"null_mask": ["tokens"]}, "no mask of nulls can be delivered.*pad"),
        ({"null_mask": ["meta"]}, "no mask of nulls can be delivered"),
        ({"null_mask": ["price"]}, "no mask of nulls can be delivered.*Arrow"),
        ({"null_mask": ["tokens"], "pad": {"tokens": fb.Pad(2, mask=True)}}, "another option delivers"),
        ({"null_mask": ["tokens"], "pad": {"tokens": fb.Pad(2)}}, "another option delivers"),
        ({"null_mask": ["city"], "encode": {"city": fb.Hash(10)}}, "another option delivers"),
        ({"null_mask": ["id"], "columns": ["x"]}, "not among the columns to read"),
        ({"null_mask": ["city"], "fill_null": {"city": 5}}, "give a text"),
        ({"null_mask": ["x"], "columns": ["x"], "fill_null": {"x": 0.5}}, "not a value of type"),
        ({"null_mask": "x"}, "must be a list of names"),
        ({"null_mask": {"x"}}, "must have an order"),
        ({"null_mask": [7]}, "must be a list of names"),
    ]
    for arguments, message in refused:
        with pytest.raises(fb.InvalidError, match=f"(?s){message}"):
            fb.Loader(tmp_path, **arguments)
    for names, message in ((["y"], "no column 'y'|no column \"y\""), (["y*"], "matches")):
        with pytest.raises(fb.UnknownColumnError, match=message):
            fb.Loader(tmp_path, null_mask=names)
    with fb.Loader(tmp_path, columns=["id", "x"], null_mask=["x"]) as loader:
        assert next(iter(loader))["x.mask"].tolist() == [True, False]
