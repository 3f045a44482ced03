"""The options of a loader: made from Python values, and returned by the loader."""

from __future__ import annotations

import inspect
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from forebay.columns.options import COLUMN_OPTIONS, ColumnsDict, columns_spec
from forebay.types import SpecDict


@pytest.fixture
def data(tmp_path: Path) -> Path:
    table = pa.table({"x": list(range(100)), "y": [None if row % 10 == 0 else float(row) for row in range(100)]})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=10)
    return tmp_path


def test_defaults_are_filled_in(data: Path) -> None:
    with fb.Loader(data) as loader:
        spec = loader.spec
    assert spec["columns"] == ["x", "y"]
    assert spec["batch_size"] == 32
    assert spec["shard"] == {"rank": 0, "world": 1}
    assert spec["shuffle"] == {"mixing": "stored", "seed": 0, "window_rows": None, "piece_rows": None, "lanes": 1}
    assert spec["memory"] > 0 and spec["threads"] > 0
    assert (spec["on_bad_row"], spec["cache"], spec["filter"]) == ("raise", None, None)
    assert spec == json.loads(json.dumps(spec))


def test_every_option_arrives(data: Path, tmp_path: Path) -> None:
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1g", tier="rows")
    with fb.Loader(
        data,
        columns=["y"],
        batch_size=10,
        drop_last=True,
        epochs=3,
        filter=[("x", "<", 50)],
        shuffle=fb.Shuffle(seed=(1 << 64) - 1, window_rows=20, lanes=2),
        shard=fb.Shard(rank=1, world=2),
        memory="4g",
        threads=1,
        on_bad_row=fb.Skip(at_most=3),
        fill_null={"y": 0.1},
        cache=cache,
        trace=tmp_path / "trace.json",
    ) as loader:
        spec = loader.spec
        rows = [value for batch in loader for value in batch["y"].tolist()]
    assert spec.pop("filter") == {"any_of": [[{"column": "x", "op": "<", "value": 50}]]}
    assert spec == {
        "columns": ["y"],
        "decode": {},
        "batch_size": 10,
        "drop_last": True,
        "epochs": 3,
        "shuffle": {"mixing": "window", "seed": (1 << 64) - 1, "window_rows": 20, "piece_rows": None, "lanes": 2},
        "shard": {"rank": 1, "world": 2},
        "memory": 4_000_000_000,
        "threads": 1,
        "on_bad_row": {"skip": {"at_most": 3}},
        "fill_null": {"y": 0.1},
        "cache": {"path": str(tmp_path / "cache"), "max_bytes": 1_000_000_000, "tier": "rows"},
        "trace": str(tmp_path / "trace.json"),
    }
    assert len(rows) == 20 and rows.count(0.1) <= 5


def test_values_that_json_lacks_are_passed_on(tmp_path: Path) -> None:
    table = pa.table({"x": [None, 1.0], "b": pa.array([None, b"a"], pa.binary()), "s": [None, "é"]})
    pq.write_table(table, tmp_path / "a.parquet")
    fills = {"x": float("-inf"), "b": b"\x00\xff", "s": "ü"}
    with fb.Loader(tmp_path, fill_null=fills) as loader:
        (batch,) = loader
        assert loader.spec["fill_null"] == {"x": {"number": "-inf"}, "b": {"bytes": [0, 255]}, "s": "ü"}
    assert batch["x"].tolist() == [float("-inf"), 1.0]
    assert batch["b"].tolist() == [b"\x00\xff", b"a"]
    assert batch["s"].tolist() == ["ü", "é"]


def test_an_image_is_passed_on_as_it_is(data: Path) -> None:
    image = fb.Image.random_resized_crop(64, scale=(0.1, 0.3)).flip().normalize((0.485, 0.456, 0.406), (0.1, 0.2, 0.3))
    pq.write_table(pa.table({"image": pa.array([b""], pa.binary())}), data / "a.parquet")
    with fb.Loader(data, decode={"image": image.dtype("float32")}) as loader:
        shown = loader.spec["decode"]["image"]
    assert fb.Image._from_canonical(json.dumps(shown)) == image.dtype("float32")


@pytest.mark.parametrize("option", COLUMN_OPTIONS)
def test_an_option_of_columns_is_a_keyword_that_names_what_it_refuses(data: Path, option: str) -> None:
    assert inspect.signature(fb.Loader).parameters[option].default is None
    with pytest.raises(fb.InvalidError, match=rf"^{option} must be a dict with str as keys, got int"):
        fb.Loader(data, **{option: 3})
    with pytest.raises(fb.InvalidError, match=rf"^{option}\['x'\] must be .*, got "):
        fb.Loader(data, **{option: {"x": object()}})


def test_the_types_of_a_spec_have_the_options_of_columns() -> None:
    fields = columns_spec(dict.fromkeys(COLUMN_OPTIONS))
    assert set(fields) == set(ColumnsDict.__annotations__) <= set(SpecDict.__annotations__)
