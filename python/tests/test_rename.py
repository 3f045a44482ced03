"""Columns under other names: the same values in the same order; options use the delivered names."""

from __future__ import annotations

import io
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import forebay as fb

ROWS = 200
NAMES = {"id": "row", "x": "feature", "img": "image", "tokens": "input_ids", "y": "x"}


def picture(value: int) -> bytes:
    file = io.BytesIO()
    Image.fromarray(np.full((8, 8, 3), value, np.uint8)).save(file, "png")
    return file.getvalue()


@pytest.fixture(scope="module")
def table() -> pa.Table:
    rows = range(ROWS)
    return pa.table(
        {
            "id": pa.array(rows),
            "x": pa.array([None if i % 5 == 0 else i / 2 for i in rows]),
            "img": pa.array([picture(i) for i in rows]),
            "tokens": pa.array([[i] * (i % 4) for i in rows]),
            "y": pa.array([i % 10 for i in rows], pa.int8()),
            "meta": pa.array([{"author": f"a{i}", "size": {"w": i}} for i in rows]),
        }
    )


@pytest.fixture(scope="module")
def stored(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stored")
    for part in range(2):
        pq.write_table(table.slice(part * 100, 100), folder / f"{part}.parquet", row_group_size=30)
    return folder


def test_columns_have_their_new_names_and_their_values(stored: Path, table: pa.Table) -> None:
    arguments: dict[str, Any] = {"shuffle": fb.Shuffle(seed=4), "batch_size": 24}
    with fb.Loader(stored, **arguments) as plain, fb.Loader(stored, rename=NAMES, **arguments) as renamed:
        assert renamed.columns == ["row", "feature", "image", "input_ids", "x", "meta"]
        # The order depends on positions, not on names.
        assert renamed.state_dict() == plain.state_dict()
        for one, other in zip(plain, renamed, strict=True):
            record = one.to_arrow().rename_columns([NAMES.get(name, name) for name in one.to_arrow().schema.names])
            assert other.to_arrow().equals(record)
            assert other["x"].tolist() == one["y"].tolist()


def test_other_options_have_the_new_names(stored: Path, table: pa.Table) -> None:
    with fb.Loader(
        stored,
        columns=["img", "tokens", "x", "y", "id"],
        rename=NAMES,
        decode={"image": fb.Image.resize(8, 8)},
        pad={"input_ids": fb.Pad(4, value=-1, mask=True)},
        null_mask=["feat*"],
        fill_null={"feature": -1.0},
        encode={"x": fb.Vocabulary(range(9, -1, -1))},
        cast={"feature": "float32", "row": "int32"},
        filter=(fb.col("y") > 2) & (fb.col("id") < 150),
    ) as loader:
        assert loader.columns == ["image", "input_ids", "feature", "x", "row", "input_ids.mask", "feature.mask"]
        seen = []
        for batch in loader:
            ids = batch["row"]
            seen += ids.tolist()
            assert batch["image"][:, 0, 0, 0].tolist() == ids.tolist() and ids.dtype == np.int32
            assert batch["x"].tolist() == [9 - i % 10 for i in ids]
            assert batch["input_ids"].tolist() == [[i] * (i % 4) + [-1] * (4 - i % 4) for i in ids]
            assert batch["feature.mask"].tolist() == [i % 5 != 0 for i in ids]
            assert batch["feature"].tolist() == [-1.0 if i % 5 == 0 else i / 2 for i in ids]
        assert seen == [i for i in range(150) if i % 10 > 2]


def test_names_are_swapped_and_fields_are_renamed(stored: Path) -> None:
    with fb.Loader(stored, columns=["x", "y"], rename={"x": "y", "y": "x"}, fill_null={"y": 0.0}) as loader:
        batch = next(iter(loader))
        assert loader.columns == ["y", "x"] and batch["y"].dtype == np.float64 and batch["x"].dtype == np.int8
    rename = {"meta.author": "author", "meta.size.w": "width"}
    with fb.Loader(stored, flatten=["meta"], columns=["id", "meta"], rename=rename, cast={"width": "int16"}) as loader:
        assert loader.columns == ["id", "author", "width"]
        for batch in loader:
            assert batch["author"].tolist() == [f"a{i}" for i in batch["id"]]
            assert batch["width"].tolist() == batch["id"].tolist() and batch["width"].dtype == np.int16
    with fb.Loader(stored, columns=["meta.size.w"], rename={"meta": "about"}) as loader:
        assert next(iter(loader))["about"]["size"]["w"].tolist() == list(range(32))


def test_structures_that_are_decoded_under_a_new_name_stay_whole(tmp_path: Path) -> None:
    cell = {"bytes": picture(7), "path": "a.png"}
    pq.write_table(pa.table({"img": [cell], "meta": [{"a": 1}]}), tmp_path / "t.parquet")
    decode = {"image": fb.Image.resize(8, 8)}
    with fb.Loader(tmp_path, flatten=True, rename={"img": "image", "meta.a": "a"}, decode=decode) as loader:
        batch = next(iter(loader))
        assert batch["image"].shape == (1, 8, 8, 3) and batch["a"].tolist() == [1]


def test_declared_shapes_follow_their_column(tmp_path: Path) -> None:
    features = {"m": {"_type": "Array2D", "shape": [2, 3], "dtype": "float32"}}
    rows = pa.array([[[1.0, 2.0, 3.0]] * 2] * 2, pa.list_(pa.list_(pa.float32())))
    schema = pa.schema([("m", rows.type), ("other", rows.type)])
    schema = schema.with_metadata({"huggingface": json.dumps({"info": {"features": features}})})
    pq.write_table(pa.Table.from_arrays([rows, rows], schema=schema), tmp_path / "t.parquet")
    with fb.Loader(tmp_path, rename={"m": "matrix", "other": "m"}) as loader:
        batch = next(iter(loader))
        assert batch["matrix"].shape == (2, 2, 3)
        assert isinstance(batch["m"], fb.Ragged)


@pytest.mark.parametrize("how", ["shuffled", "exact", "cached"])
def test_orders_and_caches(stored: Path, table: pa.Table, tmp_path: Path, how: str) -> None:
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")
    extra: dict[str, Any] = {
        "shuffled": {"shuffle": fb.Shuffle(seed=1, window_rows=70)},
        "exact": {"shuffle": fb.Shuffle.exact(1)},
        "cached": {"cache": cache, "shuffle": fb.Shuffle(seed=1)},
    }[how]
    orders = []
    for rename in (None, {"id": "y", "y": "id"}, {"y": "id", "id": "row"}, None):
        names = {"id": "id", "y": "y", **(rename or {})}
        with fb.Loader(stored, columns=["id", "y"], rename=rename, **extra) as loader:
            for _ in range(2):
                order = []
                for batch in loader:
                    order += batch[names["id"]].tolist()
                    assert batch[names["y"]].tolist() == [i % 10 for i in batch[names["id"]].tolist()]
                orders.append(order)
    assert orders[0] == orders[2] == orders[4] == orders[6] and sorted(orders[1]) == list(range(ROWS))


def test_bad_rows_name_the_column_as_it_is_delivered(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 300]}), tmp_path / "t.parquet")
    named = pytest.raises(fb.BadRowError, match=r'row 1, column "y"')
    with fb.Loader(tmp_path, rename={"x": "y"}, cast={"y": "uint8"}) as loader, named:
        list(loader)


def test_patterns_rename_the_columns_that_they_match(stored: Path, tmp_path: Path) -> None:
    with fb.Loader(stored, rename={"*": "old_*", "x": "feature"}, columns=["id", "x", "m*"]) as loader:
        assert loader.columns == ["old_id", "feature", "old_meta"]
        assert loader.spec["rename"] == {"id": "old_id", "x": "feature", "meta": "old_meta"}
        with fb.Loader(stored, rename=loader.spec["rename"], columns=["id", "x", "m*"]) as same:
            assert next(iter(same)).to_arrow().equals(next(iter(loader)).to_arrow())
    fields = {"meta.*": "*", "meta.size.*": "size_*"}
    with pytest.raises(fb.InvalidError, match='both "meta.\\*" and "meta.size.\\*" match it, and they differ'):
        fb.Loader(stored, rename=fields, flatten=True)
    with fb.Loader(stored, rename={**fields, "meta.size.w": "width"}, flatten=True, columns=["meta"]) as loader:
        assert loader.columns == ["author", "width"]
    # Samples that choose their own columns rename only these.
    window = fb.Window({0: ["new_id"], 1: ["new_id", "new_y"]})
    with fb.Loader(stored, rename={"*": "new_*"}, samples=window) as loader:
        assert loader.columns == ["new_id", "new_y"]
    pq.write_table(pa.table({"a*": [1], "ab": [2]}), tmp_path / "star.parquet")
    with fb.Loader(tmp_path / "star.parquet", rename={"a*": "star"}) as loader:
        assert loader.columns == ["star", "ab"], "a name is not a pattern"


def test_loaders_are_copied_and_shown_with_it(stored: Path) -> None:
    with fb.Loader(stored, columns=["id", "x"], rename={"x": "feature"}) as loader:
        assert "rename={'x': 'feature'}" in repr(loader)
        assert loader.spec["rename"] == {"x": "feature"} and loader.spec["columns"] == ["id", "x"]
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert copy.columns == ["id", "feature"]
    with fb.Loader(stored) as loader:
        assert "rename" not in repr(loader) and "rename" not in loader.spec


def test_what_can_never_work_is_refused(stored: Path) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"rename": {"x": "y"}}, r'rename gives "x" the name "y", which another column has'),
        ({"rename": {"y": "x"}}, r'rename gives "y" the name "x", which another column has'),
        ({"rename": {"x": "a", "y": "a"}}, r'rename gives both "x" and "y" the name "a"'),
        ({"rename": {"x": "a"}, "columns": ["y"]}, "not among the columns to read"),
        ({"rename": {"x": ""}}, "empty name"),
        ({"rename": {"meta.author": "a"}}, r'as a part of "meta".*flatten'),
        ({"rename": {"meta": "a"}, "flatten": True}, r"fields are columns of their own.*meta\.author"),
        ({"rename": {"x": "a"}, "fill_null": {"x": 0.0}}, r'"x", which is delivered as "a"'),
        ({"rename": {"x": "a"}, "null_mask": ["x"]}, r'"x", which is delivered as "a"'),
        ({"rename": {"x": "x.mask", "y": "x"}, "null_mask": ["x"]}, "the name of a stored column"),
        ({"rename": {"*": "a"}}, r"the new name for a pattern in `rename` must have one `\*`"),
        ({"rename": {"[xy]": "a*"}}, r"a pattern in `rename` must have one `\*` and no other wildcard"),
        ({"rename": {"*e*": "a*"}}, r"a pattern in `rename` must have one `\*`"),
        ({"rename": {"x": 5}}, r"rename\['x'\] must be a str, got 5"),
        ({"rename": ["x"]}, "rename must be a dict"),
        (
            {"rename": {"tokens": "input_ids"}, "samples": fb.Pack("tokens", 8)},
            r'"tokens": is packed, but `rename` .*as "input_ids"',
        ),
        (
            {"rename": {"id": "row"}, "samples": fb.Window({0: ["id"]})},
            r'"id": an offset .*, but `rename` delivers it as "row"',
        ),
        ({"rename": NAMES, "samples": fb.Bucket("input_ids", rows=2)}, r'"input_ids": .* to "tokens" .*write "tokens"'),
        ({"rename": NAMES, "samples": fb.Window(2, by="row")}, r'"row": .* gives to "id" .*write "id"'),
        ({"rename": NAMES, "samples": fb.Window(2, within="row")}, r'"row": .* gives to "id" .*write "id"'),
        ({"rename": NAMES, "samples": fb.Sample(by="row")}, r'"row": .* gives to "id" .*write "id"'),
        (
            {"rename": {"meta.size.w": "w"}, "flatten": True, "samples": fb.Window(2, by="meta.size.w")},
            r'"meta.size.w": decides about samples, but it is a field .*column of its own',
        ),
        (
            {
                "rename": {"meta.author": "name"},
                "samples": fb.Pack("tokens", 8, lengths="name"),
                "columns": ["tokens", "meta"],
                "flatten": True,
            },
            r'"name": decides about samples, but it is "meta.author", a field',
        ),
        ({"flatten": True, "samples": fb.Window({0: ["meta"]})}, r'"meta": .*`flatten` delivers .*"meta.author"'),
    ]
    for arguments, message in refused:
        with pytest.raises(fb.InvalidError, match=f"(?s){message}"):
            fb.Loader(stored, **arguments)
    unknown: list[tuple[dict[str, Any], str]] = [
        ({"rename": {"tokns": "a"}}, 'did you mean "tokens"'),
        ({"rename": {"nothing": "a"}}, "no column"),
        ({"rename": {"nothing_*": "a*"}}, r'rename: no column that is read matches "nothing_\*"'),
        ({"rename": {"tokens": "input_ids"}, "fill_null": {"input_id": 0}}, 'did you mean "input_ids"'),
        ({"rename": {"tokens": "input_ids"}, "filter": [("input_ids", "=", 0)]}, "no column"),
        ({"rename": {"tokens": "input_ids"}, "columns": ["input_ids"]}, "no column"),
    ]
    for arguments, message in unknown:
        with pytest.raises(fb.UnknownColumnError, match=message):
            fb.Loader(stored, **arguments)
