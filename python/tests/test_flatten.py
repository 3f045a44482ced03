"""Fields of structures that are delivered as columns, also without the other fields of the structure."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 300


def meta(row: int) -> dict[str, Any] | None:
    if row % 7 == 3:
        return None
    size = None if row % 5 == 1 else {"w": row, "h": None if row % 3 == 0 else -row}
    return {
        "author": None if row % 4 == 0 else f"author {row}",
        "year": row,
        "size": size,
        "tags": [f"tag {item}" for item in range(row % 3)],
        "pair": [row, row + 1],
    }


SIZE = pa.struct([("w", pa.int32()), ("h", pa.int64())])
META = pa.struct(
    [
        ("author", pa.string()),
        ("year", pa.int16()),
        ("size", SIZE),
        ("tags", pa.list_(pa.string())),
        ("pair", pa.list_(pa.float32(), 2)),
    ]
)
FLAT = ["meta.author", "meta.year", "meta.size.w", "meta.size.h", "meta.tags", "meta.pair"]


@pytest.fixture(scope="module")
def table() -> pa.Table:
    return pa.table(
        {
            "id": range(ROWS),
            "meta": pa.array([meta(row) for row in range(ROWS)], META),
            "point": pa.array([{"x": row / 2, "y": -row} for row in range(ROWS)]),
            "label": pa.array([row % 9 for row in range(ROWS)], pa.int8()),
        }
    )


@pytest.fixture(scope="module")
def nested(table: pa.Table, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nested")
    for part in range(2):
        pq.write_table(table.slice(part * 150, 150), folder / f"{part}.parquet", row_group_size=60)
    return folder


def by_hand(row: int, name: str) -> Any:
    value: Any = meta(row)
    for field in name.split(".")[1:]:
        value = None if value is None else value[field]
    return value


@pytest.mark.parametrize("how", ["plain", "shuffled", "exact", "cached", "filtered", "one"])
def test_fields_are_those_of_the_structures(nested: Path, tmp_path: Path, how: str) -> None:
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")
    extra: dict[str, Any] = {
        "plain": {},
        "shuffled": {"shuffle": fb.Shuffle(seed=1, window_rows=100)},
        "exact": {"shuffle": fb.Shuffle.exact(1)},
        "cached": {"cache": cache, "shuffle": fb.Shuffle(seed=1)},
        "filtered": {"filter": fb.col("id") % 3 == 0},
        "one": {"batch_size": 1},
    }[how]
    with fb.Loader(nested, flatten=["meta"], **{"batch_size": 32, **extra}) as loader:
        assert loader.schema.names == ["id", *FLAT, "point", "label"]
        for _ in range(2):
            rows = 0
            for batch in loader:
                record = batch.to_arrow()
                ids = batch["id"].tolist()
                rows += len(ids)
                for name in FLAT:
                    assert record.column(name).to_pylist() == [by_hand(row, name) for row in ids], name
                assert batch["point"]["x"].tolist() == [row / 2 for row in ids]
            assert rows == (100 if how == "filtered" else ROWS)


def test_all_structures_or_some(nested: Path) -> None:
    def names(**arguments: Any) -> list[str]:
        with fb.Loader(nested, **arguments) as loader:
            return loader.schema.names

    assert names(flatten=True) == ["id", *FLAT, "point.x", "point.y", "label"]
    assert names(flatten=False) == names() == names(flatten=[]) == ["id", "meta", "point", "label"]
    assert names(flatten=["point"], columns=["point", "id"]) == ["point.x", "point.y", "id"]
    assert names(flatten=True, columns=["meta.size", "id"]) == ["meta.size.w", "meta.size.h", "id"]
    assert names(flatten=True, columns=["meta.size.h", "id", "meta.author"]) == ["meta.size.h", "id", "meta.author"]
    assert names(flatten=True, columns=["point*", "meta.s*", "id"]) == [
        "point.x",
        "point.y",
        "meta.size.w",
        "meta.size.h",
        "id",
    ]
    assert names(flatten=True, columns=["*", "meta.year"])[-1] == "meta.year"
    assert sorted(names(flatten=True, columns=["*", "meta.year"])) == sorted(names(flatten=True))


def test_other_options_name_columns_as_they_are_delivered(nested: Path) -> None:
    with fb.Loader(
        nested,
        columns=["id", "meta.author", "meta.year", "meta.size.h", "meta.pair"],
        flatten=True,
        fill_null={"meta.year": -1, "meta.author": "nobody"},
        encode={"meta.author": fb.Hash(1000)},
        null_mask=["meta.size.*", "meta.pair"],
        shuffle=fb.Shuffle(seed=4),
    ) as loader:
        assert loader.schema.names[-2:] == ["meta.size.h.mask", "meta.pair.mask"]
        for batch in loader:
            ids = batch["id"].tolist()
            years = [by_hand(row, "meta.year") for row in ids]
            assert batch["meta.year"].tolist() == [-1 if year is None else year for year in years]
            heights = [by_hand(row, "meta.size.h") for row in ids]
            assert batch["meta.size.h.mask"].tolist() == [height is not None for height in heights]
            assert batch["meta.size.h"].tolist() == [height or 0 for height in heights]
            pairs = [by_hand(row, "meta.pair") for row in ids]
            assert batch["meta.pair"].tolist() == [pair or [0, 0] for pair in pairs]
            assert batch["meta.author"].dtype == np.int64 or batch["meta.author"].dtype == np.int32


def test_a_field_alone_is_read_from_its_structure(nested: Path) -> None:
    with fb.Loader(nested, columns=["meta.size.h", "id", "meta.author"], shuffle=fb.Shuffle(seed=4)) as loader:
        assert loader.schema.names == ["meta", "id"]
        assert loader.spec["columns"] == ["meta.size.h", "meta.author", "id"]
        for batch in loader:
            found = batch.to_arrow().column("meta").to_pylist()
            for row, cell in zip(batch["id"].tolist(), found):
                whole = meta(row)
                size = whole and whole["size"] and {"h": whole["size"]["h"]}
                assert cell == (whole and {"author": whole["author"], "size": size}), row


def test_the_same_rows_in_the_same_order(nested: Path) -> None:
    shuffle = fb.Shuffle(seed=8, window_rows=80)
    with fb.Loader(nested, shuffle=shuffle) as loader:
        whole = [row for batch in loader for row in batch["id"].tolist()]
    for extra in ({"flatten": True}, {"columns": ["id", "meta.author"]}):
        with fb.Loader(nested, shuffle=shuffle, **extra) as loader:
            assert [row for batch in loader for row in batch["id"].tolist()] == whole
    with (
        fb.Loader(nested, shuffle=shuffle, flatten=True) as loader,
        fb.Loader(nested, shuffle=shuffle, flatten=True) as other,
    ):
        batches = iter(loader)
        for _ in range(3):
            next(batches)
        other.load_state_dict(loader.state_dict())
        assert [row for batch in other for row in batch["id"].tolist()] == whole[96:]


def test_merged_files_without_the_structure(tmp_path: Path, table: pa.Table) -> None:
    pq.write_table(table.slice(0, 50), tmp_path / "a.parquet")
    pq.write_table(table.slice(50, 50).drop_columns(["meta"]), tmp_path / "b.parquet")
    for arguments in ({"flatten": True}, {"columns": ["id", "meta.size.w"], "flatten": True}):
        with fb.Loader(tmp_path, merge_schema=True, batch_size=100, **arguments) as loader:
            (batch,) = loader
            widths = [by_hand(row, "meta.size.w") for row in range(50)] + [None] * 50
            assert batch.to_arrow().column("meta.size.w").to_pylist() == widths
    with fb.Loader(tmp_path, merge_schema=True, batch_size=100, columns=["meta.year"]) as loader:
        (batch,) = loader
        years = [None if meta(row) is None else {"year": row} for row in range(50)] + [None] * 50
        assert batch.to_arrow().column("meta").to_pylist() == years


def test_images_in_structures_stay_whole(tmp_path: Path) -> None:
    from PIL import Image

    cells = []
    for row in range(4):
        file = io.BytesIO()
        Image.new("RGB", (4, 4), (row * 9, 0, 0)).save(file, "png")
        cells.append({"bytes": file.getvalue(), "path": f"{row}.png"})
    table = {"image": cells, "meta": [{"picture": cell, "n": at} for at, cell in enumerate(cells)]}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    image = fb.Image.resize(4, 4)
    with fb.Loader(tmp_path, flatten=True, decode={"image": image, "meta.picture": image}) as loader:
        (batch,) = loader
        assert sorted(loader.schema.names) == ["image", "meta.n", "meta.picture"]
        assert batch["meta.picture"].shape == (4, 4, 4, 3) and np.array_equal(batch["image"], batch["meta.picture"])
    with fb.Loader(tmp_path, flatten=True) as loader:
        assert sorted(loader.schema.names) == [
            "image.bytes",
            "image.path",
            "meta.n",
            "meta.picture.bytes",
            "meta.picture.path",
        ]


def test_loaders_are_copied_and_shown_with_it(nested: Path) -> None:
    with fb.Loader(nested, flatten=("meta",), columns=["id", "meta.a*"]) as loader:
        assert "flatten=['meta']" in repr(loader)
        assert loader.spec["flatten"] == ["meta"] and loader.spec["columns"] == ["id", "meta.author"]
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert copy.schema.names == loader.schema.names == ["id", "meta.author"]
    with fb.Loader(nested) as loader:
        assert "flatten" not in repr(loader) and "flatten" not in loader.spec


def test_names_with_dots(tmp_path: Path) -> None:
    rows = [{"b.c": 1, "b": {"c": 2}, "d": {"e.f": 3}}]
    pq.write_table(pa.table({"a": rows, "a.x": [7], "g": [{"x": 8}]}), tmp_path / "t.parquet")
    with fb.Loader(tmp_path, columns=["a.d.e.f", "a.x"], flatten=True) as loader:
        (batch,) = loader
        assert batch["a.d.e.f"].tolist() == [3] and batch["a.x"].tolist() == [7]
    with pytest.raises(fb.InvalidError, match=r'"a" makes a column "a.b.c"'):
        fb.Loader(tmp_path, columns=["a"], flatten=True)
    pq.write_table(pa.table({"g": [{"x": 8, "y": 1}], "g.x": [9]}), tmp_path / "t.parquet")
    with pytest.raises(fb.InvalidError, match=r'"g" makes a column "g.x"'):
        fb.Loader(tmp_path, flatten=["g"])
    with pytest.raises(fb.InvalidError, match=r'"g" makes a column "g.x"'):
        fb.Loader(tmp_path, flatten=["g"], columns=["g"])
    with fb.Loader(tmp_path, columns=["g.x", "g.y"]) as loader:
        (batch,) = loader
        assert batch["g.x"].tolist() == [9] and batch["g"]["y"].tolist() == [1] and list(batch["g"]) == ["y"]


def test_a_name_of_several_fields_is_refused(tmp_path: Path) -> None:
    one = pa.array([{"b.c": 1}])
    for table in (
        pa.table({"a": one, "a.b": [{"c": 2}]}),
        pa.table({"a": [{"b": {"c": 1}, "b.c": 2}]}),
        pa.table({"a": pa.StructArray.from_arrays([pa.array([1]), pa.array([2])], ["b.c", "b.c"])}),
    ):
        pq.write_table(table, tmp_path / "t.parquet")
        with pytest.raises(fb.InvalidError, match='"a.b.c" may be one of several fields'):
            fb.Loader(tmp_path / "t.parquet", columns=["a.b.c"])


def test_a_vocabulary_of_a_field(nested: Path, table: pa.Table) -> None:
    authors = fb.Vocabulary.of(nested, column="meta.author")
    assert set(authors.values) == {row["author"] for row in table["meta"].to_pylist() if row and row["author"]}


def test_patterns_flatten_the_structures_that_they_match(nested: Path) -> None:
    for listed, flat in [
        (["*"], {"meta", "point"}),
        (["me*"], {"meta"}),
        (["[mp]*"], {"meta", "point"}),
        (["p*", "point"], {"point"}),
    ]:
        with fb.Loader(nested, flatten=listed) as loader, fb.Loader(nested, flatten=sorted(flat)) as named:
            assert loader.columns == named.columns
            assert next(iter(loader)).to_arrow().equals(next(iter(named)).to_arrow())


def test_what_can_never_work_is_refused(nested: Path) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"flatten": ["id"]}, "it holds int64"),
        ({"flatten": ["meta"], "columns": ["id"]}, "not among the columns to read"),
        ({"flatten": "meta"}, "must be True, False or a list"),
        ({"flatten": 1}, "must be True, False or a list"),
        ({"flatten": [1]}, "flatten must be a list of names"),
        ({"columns": ["meta", "meta.author"]}, "read twice"),
        ({"columns": ["meta.author", "meta"]}, "read twice"),
        ({"columns": ["meta.size", "meta.size.w"]}, "read twice"),
        ({"columns": ["meta", "meta.author"], "flatten": True}, "read twice"),
        ({"columns": ["meta.author", "meta.author"]}, "twice"),
        ({"flatten": True, "fill_null": {"meta.year": 0.5}}, "not a value of type"),
        ({"flatten": True, "columns": ["id"], "null_mask": ["id", "id"]}, "twice"),
    ]
    for arguments, message in refused:
        with pytest.raises(fb.InvalidError, match=message):
            fb.Loader(nested, **arguments)
    for arguments, message in (
        ({"flatten": ["mita"]}, 'did you mean "meta"'),
        ({"columns": ["meta.autor"]}, 'did you mean "meta.author"'),
        ({"columns": ["meta.tags.element"]}, "no column"),
        ({"columns": ["id.x"]}, "no column"),
        ({"columns": ["meta.x*"], "flatten": True}, "no column matches"),
        ({"flatten": ["nothing*"]}, r'flatten: no column that is read matches "nothing\*".*structures only'),
        ({"columns": ["meta.*"]}, "no column matches"),
        ({"fill_null": {"meta.year": 0}}, "no column"),
    ):
        with pytest.raises(fb.UnknownColumnError, match=message):
            fb.Loader(nested, **arguments)
