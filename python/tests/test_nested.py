"""Lists, structures and maps of any depth are delivered as they are stored."""

from __future__ import annotations

import datetime
import decimal
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 600

LEAVES: list[pa.DataType] = [
    pa.bool_(), pa.int8(), pa.uint16(), pa.int32(), pa.uint64(), pa.float16(), pa.float32(), pa.float64(), pa.date32(),
    pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.time32("ms"), pa.time64("us"), pa.duration("s"), pa.string(),
    pa.large_string(), pa.binary(), pa.binary(3), pa.decimal128(9, 2), pa.decimal256(40, 3),
    pa.dictionary(pa.int32(), pa.string()),
]  # fmt: skip


def leaf(draw: random.Random, kind: pa.DataType) -> Any:
    """Returns a value of a type that is not nested."""
    number = draw.randrange(100)
    if pa.types.is_boolean(kind):
        return number % 2 == 0
    if pa.types.is_floating(kind):
        return np.float16(number / 4) if kind == pa.float16() else number / 4
    if pa.types.is_date(kind):
        return datetime.date(2020, 1, 1) + datetime.timedelta(days=number)
    if pa.types.is_timestamp(kind):
        return datetime.datetime(2020, 1, 1, tzinfo=None if kind.tz is None else datetime.timezone.utc)
    if pa.types.is_time(kind):
        return datetime.time(number % 24)
    if pa.types.is_duration(kind):
        return datetime.timedelta(seconds=number)
    if pa.types.is_decimal(kind):
        return decimal.Decimal(number) / 4
    if pa.types.is_integer(kind):
        return number
    if kind == pa.binary(3):
        return bytes([number] * 3)
    text = f"{number} " * (number % 7)
    return text.encode() if pa.types.is_binary(kind) else text


def value(draw: random.Random, kind: pa.DataType, nulls: float) -> Any:
    """Returns a value of any type, or None."""
    if draw.random() < nulls:
        return None
    if pa.types.is_struct(kind):
        return {kind.field(at).name: value(draw, kind.field(at).type, nulls) for at in range(kind.num_fields)}
    if pa.types.is_map(kind):
        return [(f"key {at}", value(draw, kind.item_type, nulls)) for at in range(draw.randrange(4))]
    if pa.types.is_fixed_size_list(kind):
        return [value(draw, kind.value_type, nulls) for _ in range(kind.list_size)]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [value(draw, kind.value_type, nulls) for _ in range(draw.randrange(5))]
    return leaf(draw, kind)


def kind(draw: random.Random, depth: int) -> pa.DataType:
    """Returns a random type of at most this depth."""
    if depth == 0:
        return draw.choice(LEAVES)
    inner = kind(draw, draw.randrange(depth))
    return draw.choice([
        lambda: pa.list_(inner),
        lambda: pa.large_list(inner),
        lambda: pa.list_(inner, 2) if inner in LEAVES[:8] else pa.list_(inner),
        lambda: pa.struct([(f"f{at}", kind(draw, draw.randrange(depth))) for at in range(draw.randrange(1, 4))]),
        lambda: pa.map_(pa.string(), inner),
    ])()  # fmt: skip


def table(seed: int, nulls: float, rows: int = ROWS) -> pa.Table:
    """Returns a table with a column of every named shape, and some of random shapes."""
    draw = random.Random(seed)
    box = pa.struct([("box", pa.list_(pa.float32(), 4)), ("label", pa.int32())])
    kinds = {
        "captions": pa.list_(pa.string()),
        "objects": pa.list_(box),
        "meta": pa.struct([("url", pa.string()), ("size", pa.struct([("w", pa.int32()), ("h", pa.int32())]))]),
        "matrix": pa.list_(pa.list_(pa.float32())),
        "tags": pa.map_(pa.string(), pa.list_(pa.int64())),
        **{f"random{at}": kind(draw, 1 + at % 4) for at in range(8)},
    }
    columns = {name: pa.array([value(draw, kind, nulls) for _ in range(rows)], kind) for name, kind in kinds.items()}
    return pa.table({"id": pa.array(range(rows), pa.int64()), **columns})


def by_id(batches: Iterator[fb.Batch]) -> list[dict[str, Any]]:
    rows = [row for batch in batches for row in pa.record_batch(batch).to_pylist()]
    return sorted(rows, key=lambda row: row["id"])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_what_is_stored_is_what_arrives(tmp_path: Path, seed: int, compression: str) -> None:
    stored = table(seed, nulls=0.15 * (seed % 3))
    sizes = [7, 50, ROWS]
    pq.write_table(
        stored,
        tmp_path / "a.parquet",
        row_group_size=sizes[seed % 3],
        compression=compression,
        data_page_size=[1 << 20, 300][seed % 2],
        use_dictionary=seed % 2 == 0,
        data_page_version=["1.0", "2.0"][seed // 3 % 2],
    )
    want = pq.read_table(tmp_path / "a.parquet").to_pylist()
    for shuffle in (None, fb.Shuffle(seed=seed), fb.Shuffle.exact(seed)):
        with fb.Loader(tmp_path, batch_size=64, drop_last=False, shuffle=shuffle, threads=2) as loader:
            assert by_id(iter(loader)) == want, shuffle


@pytest.mark.skipif(not hasattr(pa, "list_view"), reason="no list_view in this pyarrow")
def test_views_of_lists_are_read_as_lists(tmp_path: Path) -> None:
    values = [[1, 2], None, [], [3]]
    views = {"a": pa.list_view(pa.int32()), "b": pa.large_list_view(pa.int32()), "c": pa.list_(pa.list_view(pa.int32()))}
    given = {"a": values, "b": values, "c": [[value] for value in values]}
    stored = pa.table({name: pa.array(given[name], kind) for name, kind in views.items()})
    pq.write_table(stored, tmp_path / "a.parquet")
    with fb.Loader(tmp_path, batch_size=4, shuffle=fb.Shuffle(seed=1)) as loader:
        batch = pa.record_batch(next(iter(loader)))
    found = {str(kind) for kind in batch.schema.types}
    assert found == {"large_list<element: int32>", "large_list<element: large_list<element: int32>>"}
    assert sorted(map(str, batch["a"].to_pylist())) == sorted(map(str, values))
    assert batch["b"].to_pylist() == batch["a"].to_pylist() == [inner for [inner] in batch["c"].to_pylist()]


def test_rows_come_again_from_a_cache_and_after_a_resume(tmp_path: Path) -> None:
    stored = table(3, nulls=0.2)
    (tmp_path / "data").mkdir()
    pq.write_table(stored, tmp_path / "data" / "a.parquet", row_group_size=40)
    want = pq.read_table(tmp_path / "data" / "a.parquet").to_pylist()

    def loader(**options: Any) -> fb.Loader:
        shuffle = fb.Shuffle(seed=5, window_rows=100)
        return fb.Loader(tmp_path / "data", batch_size=33, drop_last=False, shuffle=shuffle, **options)

    with loader(cache=fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")) as cached:
        for _ in range(3):
            assert by_id(iter(cached)) == want
        assert cached.stats().to_dict()["cache"]["hits"] > 0
    with loader() as first:
        epoch = iter(first)
        begun = [pa.record_batch(next(epoch)) for _ in range(7)]
        state = json.loads(json.dumps(first.state_dict()))
    with loader() as second:
        second.load_state_dict(state)
        rest = [pa.record_batch(batch) for batch in second]
    rows = [row for batch in begun + rest for row in batch.to_pylist()]
    assert sorted(rows, key=lambda row: row["id"]) == want


def test_arrays_are_of_the_whole_batch(tmp_path: Path) -> None:
    stored = table(1, nulls=0.0)
    pq.write_table(stored, tmp_path / "a.parquet", row_group_size=50)
    with fb.Loader(tmp_path, batch_size=ROWS, threads=1) as loader:
        batch = next(iter(loader))
        layout = {name: (kind, element) for name, kind, element, _ in loader.schema.layout()}
    want = pq.read_table(tmp_path / "a.parquet").to_pydict()
    assert layout["meta"] == ("struct", None)
    assert layout["objects"] == layout["captions"] == ("ragged", None)

    captions = batch["captions"]
    assert captions.tolist() == want["captions"]
    assert captions[3].tolist() == want["captions"][3]
    assert captions.padded(fill="")[3, : len(want["captions"][3])].tolist() == want["captions"][3]

    objects = batch["objects"]
    boxes = objects.values["box"]
    assert not hasattr(objects, "dtype")
    assert (boxes.dtype, boxes.shape) == (np.float32, (len(objects.values["label"]), 4))
    assert not boxes.flags.owndata
    assert boxes.tolist() == [one["box"] for row in want["objects"] for one in row]
    assert objects.tolist() == want["objects"]
    assert objects[-1]["label"].tolist() == [one["label"] for one in want["objects"][-1]]
    padded = objects.padded(fill=-1, length=2)
    assert padded["box"].shape == (ROWS, 2, 4)
    assert "structures of box, label" in repr(objects)
    with pytest.raises(fb.InvalidError, match="take a field"):
        np.asarray(objects)

    with pytest.raises(TypeError, match="take a field of batch"):
        np.asarray(batch.column("meta"))
    assert batch["meta"]["url"].tolist() == [row["url"] for row in want["meta"]]
    assert batch["meta"]["size"]["w"].tolist() == [row["size"]["w"] for row in want["meta"]]
    assert batch["matrix"].tolist() == want["matrix"]
    assert batch["matrix"][5].tolist() == want["matrix"][5]
    longest = max(len(row) for row in want["matrix"])
    widest = max(len(inner) for row in want["matrix"] for inner in row)
    assert batch["matrix"].padded(fill=0).shape == (ROWS, longest, widest)
    assert batch["tags"].tolist() == [[{"key": key, "value": value} for key, value in row] for row in want["tags"]]


def test_rows_that_are_cut_out_are_ragged_again() -> None:
    inner = fb.Ragged(np.arange(6), np.array([0, 2, 3, 3, 6]))
    rows = fb.Ragged(inner, np.array([0, 1, 3, 4]))
    assert rows.tolist() == [[[0, 1]], [[2], []], [[3, 4, 5]]]
    assert rows[1].tolist() == [[2], []]
    assert rows[1].padded(fill=-1).tolist() == [[2], [-1]]
    assert np.asarray(rows[2]).tolist() == [[3, 4, 5]]
    assert rows[1:].tolist() == rows.tolist()[1:]
    assert rows[1:].padded(fill=-1).tolist() == [[[2, -1, -1], [-1, -1, -1]], [[3, 4, 5], [-1, -1, -1]]]
    assert rows[5:].tolist() == rows[2:1].tolist() == []
    assert len(rows[:-1]) == 2
    with pytest.raises(fb.InvalidError, match="in steps of -1"):
        rows[::-1]
    with pytest.raises(fb.InvalidError, match="length must be at least 0"):
        inner.padded(length=-1)


@pytest.mark.parametrize("around", [pa.list_, lambda kind: pa.map_(pa.string(), kind)])
def test_a_required_field_is_missing_where_what_is_around_it_is(tmp_path: Path, around: Any) -> None:
    inner = pa.struct([pa.field("f1", pa.int64(), False)])
    outer = pa.struct([pa.field("f0", inner, False), pa.field("text", pa.string())])
    one = {"f0": {"f1": 1}, "text": "a"}
    rows = [[one, None], [], [None, one, one]]
    if pa.types.is_map(around(outer)):
        rows = [[(f"k{at}", value) for at, value in enumerate(row)] for row in rows]
    stored = pa.table({"id": [0, 1, 2], "c": pa.array(rows, around(outer))})
    pq.write_table(stored, tmp_path / "a.parquet")
    want = pq.read_table(tmp_path / "a.parquet").to_pylist()
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")
    for options in ({}, {"cache": cache}, {"shuffle": fb.Shuffle.exact(1)}):
        with fb.Loader(tmp_path / "a.parquet", batch_size=2, drop_last=False, **options) as loader:
            assert by_id(iter(loader)) == by_id(iter(loader)) == want


def test_fields_of_one_name_are_not_lost(tmp_path: Path) -> None:
    twice = pa.StructArray.from_arrays([pa.array([1, 2]), pa.array([3, 4])], names=["a", "a"])
    pq.write_table(pa.table({"c": twice}), tmp_path / "a.parquet")
    with fb.Loader(tmp_path, batch_size=2) as loader:
        batch = next(iter(loader))
        assert pa.record_batch(batch)["c"].field(1).to_pylist() == [3, 4]
        with pytest.raises(fb.UnsupportedError, match='two fields "a"'):
            batch["c"]


def test_a_null_that_an_array_cannot_hold_is_named(tmp_path: Path) -> None:
    number = pa.struct([("x", pa.int64()), ("name", pa.string())])
    columns = {
        "texts": pa.array([["a"], ["b", None], None, []], pa.list_(pa.string())),
        "numbers": pa.array([{"x": 1, "name": "a"}, {"x": None, "name": None}, None, {"x": 4}], number),
        "names": pa.array([{"name": "a"}, {"name": None}, None, {"name": "d"}], pa.struct([("name", pa.string())])),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    with fb.Loader(tmp_path, batch_size=4) as loader:
        batch = next(iter(loader))
        with pytest.raises(fb.NullError, match='column "texts": row 2 of this batch is null.*fill_null={"texts": ""}'):
            batch["texts"]
        said = r'column "numbers": row 1 of this batch holds a null in its field "numbers\.x"'
        with pytest.raises(fb.NullError, match=said) as caught:
            batch["numbers"]
        assert 'pass flatten=["numbers"] and fill_null={"numbers.x": 0.0}' in str(caught.value)
        # A null structure has null fields.
        assert batch["names"]["name"].tolist() == ["a", None, None, "d"]
    with fb.Loader(tmp_path, batch_size=4, columns=["texts"], fill_null={"texts": ""}) as loader:
        assert next(iter(loader))["texts"].tolist() == [["a"], ["b", ""], [], []]
    skip = fb.Skip(at_most=8)
    with fb.Loader(tmp_path, batch_size=4, columns=["numbers"], on_bad_row=skip, drop_last=False) as loader:
        assert next(iter(loader))["numbers"]["x"].tolist() == [1, 4]
        assert [row.row for row in loader.skipped()] == [1, 2]
    with pytest.raises(fb.InvalidError, match="fill_null value 0 is not a value of type struct"):
        fb.Loader(tmp_path, batch_size=4, columns=["numbers"], fill_null={"numbers": 0.0})


def test_files_may_name_the_parts_of_a_list_as_they_like(tmp_path: Path) -> None:
    rows = [[{"a": ["x"]}], [], [{"a": []}, {"a": ["y", "z"]}]]
    kind = pa.list_(pa.struct([("a", pa.list_(pa.string()))]))
    pq.write_table(pa.table({"c": pa.array(rows, kind)}), tmp_path / "0.parquet")
    strict = pa.list_(pa.field("of", pa.struct([pa.field("a", pa.list_(pa.field("it", pa.string(), False)))]), False))
    strange = pa.table({"c": pa.array(rows, strict)})
    pq.write_table(strange, tmp_path / "1.parquet", use_compliant_nested_type=False)
    with fb.Loader(tmp_path, batch_size=6) as loader:
        assert next(iter(loader))["c"].tolist() == rows + rows


def test_old_times_inside_of_lists_are_exact_or_refused(tmp_path: Path) -> None:
    """Spark and Impala wrote such times in 96 bits. They are delivered as 64-bit nanoseconds, which cover only the
    years 1677 to 2262."""
    times = [[datetime.datetime(2020, 5, 17, 1, 2, 3)], [], [None, datetime.datetime(1970, 1, 1)]]
    kind = pa.list_(pa.timestamp("us"))

    def write() -> None:
        stored = pa.table({"t": pa.array(times, kind)})
        pq.write_table(stored, tmp_path / "a.parquet", use_deprecated_int96_timestamps=True, store_schema=False)

    write()
    with fb.Loader(tmp_path, batch_size=3) as loader:
        rows = pa.record_batch(next(iter(loader))).column("t").cast(pa.large_list(pa.timestamp("us"))).to_pylist()
        assert rows == times
    required = pa.struct([pa.field("t", pa.timestamp("ns"), False)])
    structs = pa.table({"t": pa.array([{"t": datetime.datetime(2000, 1, 1)}, None], required)})
    pq.write_table(structs, tmp_path / "b.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    with fb.Loader(tmp_path / "b.parquet", batch_size=2) as loader:
        assert [row["t"] is None for row in pa.record_batch(next(iter(loader))).to_pylist()] == [False, True]
    (tmp_path / "b.parquet").unlink()

    times[2][0] = datetime.datetime(3020, 5, 17)
    write()
    with fb.Loader(tmp_path, batch_size=3) as loader, pytest.raises(fb.UnsupportedError, match="row 2.*1677"):
        next(iter(loader))


def test_frameworks_get_the_fields_of_structures(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    stored = table(1, nulls=0.0).select(["id", "captions", "objects", "meta", "matrix"])
    pq.write_table(stored, tmp_path / "a.parquet")
    with fb.Loader(tmp_path, batch_size=32) as loader:
        batch = next(iter(fb.torch.batches(loader)))
    assert isinstance(batch["meta"]["size"]["w"], torch.Tensor)
    assert batch["meta"]["size"]["w"].tolist() == [row["size"]["w"] for row in stored["meta"].to_pylist()[:32]]
    assert isinstance(batch["objects"], fb.Ragged)
    assert batch["captions"].tolist() == stored["captions"].to_pylist()[:32]


def test_types_that_are_not_read_are_named(tmp_path: Path) -> None:
    stored = pa.table({"id": [1, 2], "span": pa.array([None, None], pa.null())})
    pq.write_table(stored, tmp_path / "a.parquet")
    with fb.Loader(tmp_path, batch_size=2) as loader:
        assert next(iter(loader))["span"].tolist() == [None, None]


def test_intervals_are_refused_by_name_with_the_reason(tmp_path: Path) -> None:
    duckdb = pytest.importorskip("duckdb")
    path = tmp_path / "a.parquet"
    duckdb.sql(f"COPY (SELECT i, INTERVAL (i) MONTH AS span FROM range(5) t(i)) TO '{path}' (FORMAT parquet)")
    with pytest.raises(fb.UnsupportedError, match='"span": type .* is not read: the months of intervals would be lost .*columns=') as caught:
        fb.Loader(path)
    assert caught.value.column == "span"
    with fb.Loader(path, columns=["i"], batch_size=5) as loader:
        assert sorted(next(iter(loader))["i"].tolist()) == list(range(5))


def test_a_sound_file_that_nests_too_deep_is_not_called_corrupt(tmp_path: Path) -> None:
    for depth in (31, 32):
        kind, value = pa.int32(), 1
        for _ in range(depth):
            kind, value = pa.list_(kind), [value]
        pq.write_table(pa.table({"x": pa.array([value], kind)}), tmp_path / f"{depth}.parquet")
    with fb.Loader(tmp_path / "31.parquet", batch_size=1) as loader:
        assert next(iter(loader)).to_arrow().equals(next(iter(loader)).to_arrow())
    with pytest.raises(fb.UnsupportedError, match="32.parquet: a column nests more than 64 levels deep.*lists are read up to 31"):
        fb.Loader(tmp_path / "32.parquet")


@pytest.mark.parametrize(
    "item", [pa.float32(), pa.int32(), pa.string(), pa.bool_(), pa.binary(3), pa.struct([pa.field("a", pa.int32(), False)])]
)
def test_lists_that_are_always_there_are_missing_with_what_they_are_in(item: pa.DataType, tmp_path: Path) -> None:
    numbers = range(12)
    values: list[Any] = list(numbers)
    if pa.types.is_string(item) or pa.types.is_binary(item) or pa.types.is_fixed_size_binary(item):
        values = [f"{number:03}" if pa.types.is_string(item) else b"%03d" % number for number in numbers]
    elif pa.types.is_struct(item):
        values = [{"a": number} for number in numbers]
    elif pa.types.is_boolean(item):
        values = [number % 3 == 0 for number in numbers]
    pairs = pa.FixedSizeListArray.from_arrays(pa.array(values, item), type=pa.list_(pa.field("item", item, False), 2))
    mask = pa.array([False, True, False, False, True, False])
    box = pa.StructArray.from_arrays([pairs], fields=[pa.field("box", pairs.type, False)], mask=mask)
    boxes = pa.ListArray.from_arrays([0, 2, 2, 6], box)
    for array in (box, boxes):
        path = tmp_path / f"{len(array)}.parquet"
        pq.write_table(pa.table({"o": array}), path)
        with fb.Loader(path, batch_size=4) as loader:
            rows = [row for batch in loader for row in batch.to_arrow().column("o").to_pylist()]
        assert rows == array.to_pylist()


def test_a_schema_of_arrow_that_is_not_of_the_columns_is_not_used(tmp_path: Path) -> None:
    table = pa.table({"a": [1, 2], "b": [3, 4]})
    pq.write_table(table, tmp_path / "whole.parquet")
    schema = pq.ParquetFile(tmp_path / "whole.parquet").metadata.metadata[b"ARROW:schema"]
    for names in (["a"], ["a", "c"]):
        left = table.rename_columns(["a", "c"]).select(names)
        path = tmp_path / f"{len(names)}.parquet"
        with pq.ParquetWriter(path, left.schema, store_schema=False) as writer:
            writer.write_table(left)
            writer.add_key_value_metadata({"ARROW:schema": schema})
        with fb.Loader(path) as loader:
            assert [batch.to_arrow().to_pydict() for batch in loader] == [left.to_pydict()]
    deep = pa.array([1, 2], pa.int32())
    for _ in range(62):
        deep = pa.StructArray.from_arrays([deep], names=["f"])
    pq.write_table(pa.table({"x": deep}), tmp_path / "deep.parquet")
    with fb.Loader(tmp_path / "deep.parquet") as loader:
        assert [batch.num_rows for batch in loader] == [2]


def test_a_null_in_a_structure_is_named_with_its_way_out(tmp_path: Path) -> None:
    inner = pa.array([{"w": 3, "h": None}, {"w": 4, "h": 2}])
    meta = pa.StructArray.from_arrays([pa.array(["a", "b"]), inner], ["name", "size"])
    path = tmp_path / "a.parquet"
    pq.write_table(pa.table({"meta": meta, "boxes": pa.array([[{"w": 1}], [{"w": None}]])}), path)
    with fb.Loader(path) as loader:
        batch = next(iter(loader))
        said = (
            r'column "meta": row 0 of this batch holds a null in its field "meta\.size\.h".*'
            r'\(pass flatten=\["meta"\] and fill_null=\{"meta\.size\.h": 0\.0\}, leave such rows out'
        )
        with pytest.raises(fb.NullError, match=said):
            batch["meta"]
        said = r'column "boxes": row 1 of this batch holds a null in its field "boxes\.w".*\(leave such rows out'
        with pytest.raises(fb.NullError, match=said):
            batch["boxes"]
    with fb.Loader(path, flatten=["meta"], fill_null={"meta.size.h": 0.0}) as loader:
        assert next(iter(loader))["meta.size.h"].tolist() == [0, 2]
    with fb.Loader(path, columns=["meta"], on_bad_row=fb.Skip(at_most=0)) as loader:
        with pytest.raises(fb.BadRowError, match=r'row 0, column "meta".*null where a value is needed, in "meta\.size\.h"'):
            list(loader)
