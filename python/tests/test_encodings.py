"""Columns of categories are delivered as the codes that a dict, or xxHash64, gives them."""

from __future__ import annotations

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 211
#: The hashes of some values with seed 0, from the specification.
PINNED = {b"": 0xEF46DB3751D8E999, b"a": 0xD24EC4F1A98C6E5B, b"abc": 0x44BC2CF5AD770999}


def xxh64(data: bytes, seed: int) -> int:
    """xxHash64 as it is specified, one step at a time."""
    mask = (1 << 64) - 1
    p1, p2, p3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
    p4, p5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5

    def rotated(value: int, by: int) -> int:
        return (value << by | value >> (64 - by)) & mask

    def mixed(lane: int, word: int) -> int:
        return rotated((lane + word * p2) & mask, 31) * p1 & mask

    at = 0
    digest = (seed + p5) & mask
    if len(data) >= 32:
        lanes = [(seed + p1 + p2) & mask, (seed + p2) & mask, seed, (seed - p1) & mask]
        while at + 32 <= len(data):
            for lane in range(4):
                lanes[lane] = mixed(lanes[lane], int.from_bytes(data[at : at + 8], "little"))
                at += 8
        digest = sum(rotated(lane, by) for lane, by in zip(lanes, (1, 7, 12, 18), strict=True)) & mask
        for lane in lanes:
            digest = ((digest ^ mixed(0, lane)) * p1 + p4) & mask
    digest = (digest + len(data)) & mask
    while at + 8 <= len(data):
        word = mixed(0, int.from_bytes(data[at : at + 8], "little"))
        digest = (rotated(digest ^ word, 27) * p1 + p4) & mask
        at += 8
    if at + 4 <= len(data):
        word = int.from_bytes(data[at : at + 4], "little") * p1 & mask
        digest = (rotated(digest ^ word, 23) * p2 + p3) & mask
        at += 4
    for byte in data[at:]:
        digest = rotated(digest ^ byte * p5 & mask, 11) * p1 & mask
    digest = (digest ^ digest >> 33) * p2 & mask
    digest = (digest ^ digest >> 29) * p3 & mask
    return digest ^ digest >> 32


def words(count: int = ROWS) -> list[str]:
    """Returns frequent and rare words. Some are too long to be stored inside an Arrow view."""
    rng = np.random.default_rng(5)
    known = ["Berlin", "Paris", "", "Zürich", "San Francisco, California", "x" * 40]
    return [known[place] for place in rng.zipf(1.5, count) % len(known)]


def stored(values: list[str]) -> dict[str, pa.Array]:
    """Returns the same categories in each type that can be encoded."""
    kinds = sorted(set(values))
    numbers = [kinds.index(value) * 1_000 - 2 for value in values]
    lists = [values[: row % 3] for row in range(len(values))]
    return {
        "text": pa.array(values),
        "large": pa.array(values, pa.large_string()),
        "bytes": pa.array([value.encode() for value in values]),
        "dictionary": pa.array(values).dictionary_encode(),
        "i16": pa.array(numbers, pa.int16()),
        "i64": pa.array(numbers, pa.int64()),
        "u32": pa.array([number + 2 for number in numbers], pa.uint32()),
        "fixed": pa.array([f"{number:6}".encode() for number in numbers], pa.binary(6)),
        "texts": pa.array(lists),
        "numbers": pa.array([numbers[: row % 4] for row in range(len(values))], pa.list_(pa.int32())),
    }


@pytest.fixture(scope="module")
def columns() -> dict[str, pa.Array]:
    return stored(words())


@pytest.fixture(scope="module")
def data(columns: dict[str, pa.Array], tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("categories")
    table = pa.table({"id": range(ROWS), **columns})
    pq.write_table(table, folder / "a.parquet", row_group_size=25)
    return folder


def flat(values: list[Any]) -> list[Any]:
    return [item for value in values for item in value] if isinstance(values[0], list) else values


def check(data: Path, column: str, encoding: Any, code: Any, want: list[Any], **options: Any) -> None:
    """Checks that a column has the codes of its values, however its rows are shuffled."""
    width = np.int32 if isinstance(encoding, fb.Vocabulary) else np.int64
    for shuffle in (None, fb.Shuffle(seed=3, window_rows=60)):
        with fb.Loader(
            data, columns=["id", column], encode={column: encoding}, batch_size=16, shuffle=shuffle, **options
        ) as loader:
            for _ in range(2):
                seen = 0
                for batch in loader:
                    codes = batch[column]
                    assert codes.dtype == width
                    expected = [
                        [code(item) for item in want[row]] if isinstance(want[row], list) else code(want[row])
                        for row in batch["id"]
                    ]
                    assert codes.tolist() == expected
                    seen += batch.num_rows
                assert seen == ROWS


def test_each_value_has_the_code_of_its_place(data: Path, columns: dict[str, pa.Array], tmp_path: Path) -> None:
    cache = fb.DiskCache(tmp_path, max_bytes="1g", tier="rows")
    for name, column in columns.items():
        want = column.to_pylist()
        values = sorted(set(flat(want)), reverse=True)
        for options in ({}, {"cache": cache}):
            check(data, name, fb.Vocabulary(values), values.index, want, **options)
        known = values[1:]
        codes = {value: place for place, value in enumerate(known)}
        some = fb.Vocabulary(known, unknown="code")
        assert some.size == len(values)
        for options in ({}, {"cache": cache}):
            check(data, name, some, lambda value, codes=codes: codes.get(value, len(codes)), want, **options)


def test_buckets_are_those_of_xxhash(data: Path, columns: dict[str, pa.Array]) -> None:
    def hashed(value: Any, seed: int) -> int:
        raw = value.encode() if isinstance(value, str) else value
        raw = raw.to_bytes(8, "little", signed=raw < 0) if isinstance(raw, int) else raw
        return xxh64(raw, seed)

    for name, column in columns.items():
        for encoding in (fb.Hash(1000), fb.Hash((1 << 63) - 1, seed=(1 << 64) - 1)):
            check(
                data,
                name,
                encoding,
                lambda value, hash=encoding: hashed(value, hash.seed) % hash.buckets,
                column.to_pylist(),
            )


def test_buckets_never_change(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array(list(PINNED))}), tmp_path / "a.parquet")
    with fb.Loader(tmp_path, encode={"x": fb.Hash(10**9 + 7)}) as loader:
        (batch,) = loader
    assert all(xxh64(value, 0) == digest for value, digest in PINNED.items())
    assert batch["x"].tolist() == [digest % (10**9 + 7) for digest in PINNED.values()]


def test_an_unknown_value_is_a_bad_row_with_its_place(tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    texts: list[str | None] = [f"word {row % 5}" for row in range(60)]
    numbers: list[int | None] = [row % 5 for row in range(60)]
    texts[23], texts[31] = "Ünknown " * 20, None
    numbers[23], numbers[31] = -77, None
    lists = [[text] for text in texts]
    table = pa.table({"id": range(60), "text": texts, "number": numbers, "list": lists})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=20)
    known = fb.Vocabulary([f"word {word}" for word in range(5)])
    cache = fb.DiskCache(tmp_path_factory.mktemp("cache"), max_bytes="1g", tier="rows")
    for name, vocabulary, shown in (
        ("text", known, '"Ünknown Ünknown'),
        ("number", fb.Vocabulary(range(5)), "-77 is not"),
        ("list", known, '"Ünknown Ünknown'),
    ):
        for shuffle in (None, fb.Shuffle(seed=2)):
            with (
                fb.Loader(
                    tmp_path, columns=[name], encode={name: vocabulary}, shuffle=shuffle, batch_size=25
                ) as loader,
                pytest.raises(fb.BadRowError) as raised,
            ):
                list(loader)
            unknown = (raised.value.row_group, raised.value.row) == (1, 3)
            assert unknown or (raised.value.row_group, raised.value.row) == (1, 11)
            assert raised.value.column == name
            assert (shown if unknown else "fill_null") in str(raised.value)
            options: dict[str, Any] = {"encode": {name: vocabulary}, "shuffle": shuffle, "batch_size": 9}
            for kept in ({}, {"cache": cache}):
                skip = fb.Skip(at_most=4)
                with fb.Loader(tmp_path, columns=["id", name], on_bad_row=skip, **options, **kept) as loader:
                    for _ in range(2):
                        for batch in loader:
                            codes = batch[name].values if name == "list" else batch[name]
                            assert codes.tolist() == (batch["id"] % 5).tolist()
                    assert sorted({row.row for row in loader.skipped()}) == [3, 11]


def test_lists_of_one_length_are_rows_of_codes(tmp_path: Path) -> None:
    lists = [[1, 5], [5, 5], None, [7, 1]]
    table = pa.table({"x": pa.array(lists, pa.list_(pa.int32(), 2))})
    pq.write_table(table, tmp_path / "x.parquet")
    known = fb.Vocabulary([1, 5, 7])
    with fb.Loader(tmp_path, encode={"x": known}, fill_null={"x": 7}, batch_size=4) as train:
        assert next(iter(train))["x"].tolist() == [[0, 1], [1, 1], [2, 2], [2, 0]]
    with fb.Loader(tmp_path, encode={"x": fb.Vocabulary([1, 5])}, batch_size=4, on_bad_row=fb.Skip(at_most=2)) as train:
        assert next(iter(train))["x"].tolist() == [[0, 1], [1, 1]]
    with fb.Loader(tmp_path, encode={"x": fb.Hash(8)}, fill_null={"x": 7}, batch_size=4) as train:
        assert next(iter(train))["x"].shape == (4, 2)


def test_a_null_has_the_code_of_its_fill(tmp_path: Path) -> None:
    table = pa.table(
        {
            "text": ["a", None, "b"],
            "number": [7, None, 9],
            "list": pa.array([["a", None], None, ["b"]], pa.list_(pa.string())),
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    words = fb.Vocabulary(["b", "a"])
    encode = {"text": words, "number": fb.Vocabulary([7, 9]), "list": words}
    with fb.Loader(tmp_path, encode=encode, fill_null={"text": "a", "number": 9, "list": "b"}) as loader:
        (batch,) = loader
    assert batch["text"].tolist() == [1, 1, 0]
    assert batch["number"].tolist() == [0, 1, 1]
    assert batch["list"].tolist() == [[1, 0], [], [0]]
    with pytest.raises(fb.InvalidError, match='no "c", which replaces nulls'):
        fb.Loader(tmp_path, encode=encode, fill_null={"text": "c"})


def test_a_null_has_a_code_of_its_own_beside_that_of_unknown_values(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    rows = 600
    known = ["a", "a city with a name that no view has room for"]
    stored = [None if at % 5 == 0 else [*known, "x"][rng.integers(3)] for at in range(rows)]
    lists = [None if at % 7 == 0 else [stored[at], stored[at - 1]][: at % 3] for at in range(rows)]
    pairs = [None if at % 7 == 0 else [stored[at], stored[at - 1]] for at in range(rows)]
    numbers = [None if value is None else [*known, "x"].index(value) for value in stored]
    table = pa.table(
        {
            "id": range(rows),
            "text": stored,
            "bytes": [value and value.encode() for value in stored],
            "number": pa.array(numbers, pa.int16()),
            "list": pa.array(lists, pa.list_(pa.string())),
            "pair": pa.array(pairs, pa.list_(pa.string(), 2)),
        }
    )
    for use_dictionary in (True, False):
        name = tmp_path / f"{use_dictionary}.parquet"
        pq.write_table(table, name, row_group_size=100, use_dictionary=use_dictionary)
    words = fb.Vocabulary(known, unknown="code", null="code")
    assert words.size == 4
    codes = {known[0]: 0, known[1]: 1, "x": 2, None: 3}
    encode = dict.fromkeys(("text", "list", "pair"), words)
    encode["bytes"] = fb.Vocabulary([value.encode() for value in known], unknown="code", null="code")
    encode["number"] = fb.Vocabulary([0, 1, 2], null="code")
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1g", tier="rows")
    for options in ({}, {"cache": cache}, {"cache": cache}):
        for use_dictionary in (True, False):
            path = tmp_path / f"{use_dictionary}.parquet"
            shuffle = fb.Shuffle(seed=3, window_rows=250)
            with fb.Loader(path, encode=encode, batch_size=64, shuffle=shuffle, **options) as train:
                seen = 0
                for batch in (batch for epoch in range(2) for batch in train.epoch(epoch)):
                    ids = batch["id"].tolist()
                    want = [codes[stored[row]] for row in ids]
                    assert all(batch[name].tolist() == want for name in ("text", "bytes", "number"))
                    assert batch["list"].tolist() == [[codes[item] for item in lists[row] or []] for row in ids]
                    of_pairs = [[codes[item] for item in pairs[row] or [None, None]] for row in ids]
                    assert batch["pair"].tolist() == of_pairs
                    seen += len(ids)
                assert seen == 2 * rows
                assert train.stats().to_dict()["unknown_values"] > 0


def test_a_null_has_the_bucket_after_those_of_values(tmp_path: Path) -> None:
    table = pa.table({"x": ["a", None], "y": [[1, None], None], "z": ["c", None]})
    pq.write_table(table, tmp_path / "a.parquet")
    buckets = fb.Hash(3, null="code")
    assert buckets.size == 4 and repr(buckets) == "forebay.Hash(3, null='code')"
    with fb.Loader(tmp_path, encode={"x": buckets, "y": fb.Hash(1, null="code")}) as train:
        (batch,) = train
    assert batch["x"].tolist() == [PINNED[b"a"] % 3, 3] and batch["y"].tolist() == [[0, 1], []]
    with pytest.raises(fb.InvalidError, match="nulls have a code of their own, and `fill_null`"):
        fb.Loader(tmp_path, encode={"x": buckets}, fill_null={"x": "b"})
    # A pattern leaves out columns whose nulls have a code.
    with fb.Loader(tmp_path, columns=["x", "z"], encode={"x": buckets}, fill_null={"*": "b"}) as train:
        (batch,) = train
    assert batch["x"][1] == 3 and batch["z"].tolist() == ["c", "b"]


def test_filters_see_what_is_stored(data: Path, columns: dict[str, pa.Array]) -> None:
    want = columns["text"].to_pylist()
    encode = {"text": fb.Vocabulary(["Paris"])}
    with fb.Loader(data, columns=["id", "text"], encode=encode, filter=[("text", "=", "Paris")]) as loader:
        rows = [row for batch in loader for row in batch["id"].tolist()]
    assert rows == [row for row, value in enumerate(want) if value == "Paris"] != []


def test_long_texts_are_counted_a_few_at_a_time(tmp_path: Path) -> None:
    texts = pa.DictionaryArray.from_arrays(np.arange(3_000, dtype=np.int32) % 2, ["a" * 100_000, "b" * 100_000])
    pq.write_table(pa.table({"t": texts}), tmp_path / "a.parquet")
    options: dict[str, Any] = {"column": "t", "memory": "64MB"}
    assert [value[0] for value in fb.Vocabulary.of(tmp_path / "a.parquet", **options).values] == ["a", "b"]
    # A single value is too long: the error offers an option.
    pq.write_table(pa.table({"t": ["q" * 90_000_000]}), tmp_path / "b.parquet")
    with pytest.raises(fb.TooLargeError, match="raise memory to"):
        fb.Vocabulary.of(tmp_path / "b.parquet", **options)


def test_a_vocabulary_of_a_column_is_sorted_by_count(data: Path, columns: dict[str, pa.Array]) -> None:
    for name, column in columns.items():
        items = flat(column.to_pylist())
        counts = {value: items.count(value) for value in set(items)}
        want = sorted(counts, key=lambda value: (-counts[value], value))
        vocabulary = fb.Vocabulary.of(data, column=name)
        assert list(vocabulary.values) == want and vocabulary.unknown == "raise"
        assert fb.Vocabulary.of(fb.Dataset(data), column=name, max_size=2).values == tuple(want[:2])
        frequent = fb.Vocabulary.of(data, column=name, min_count=counts[want[1]], unknown="code")
        assert set(frequent.values) == {value for value in counts if counts[value] >= counts[want[1]]}
    few = fb.Vocabulary.of(data, column="text", filter=[("text", "in", ["Paris", "Berlin"])])
    assert sorted(few.values) == ["Berlin", "Paris"]
    with pytest.raises(fb.InvalidError, match="counted 1000 times or more"):
        fb.Vocabulary.of(data, column="text", min_count=1000)
    with pytest.raises(fb.InvalidError, match=r"storage_options and a Dataset were given \(pass storage_options to"):
        fb.Vocabulary.of(fb.Dataset(data), column="text", storage_options={"index": "off"})
    with pytest.raises(fb.InvalidError, match=r"fill_null\['text'\] must be a number, str or bytes"):
        fb.Vocabulary.of(data, column="text", fill_null=[])


def test_a_vocabulary_leaves_out_nulls_or_counts_them_as_a_value(tmp_path: Path) -> None:
    table = pa.table({"text": ["a", None, "b", "b"], "number": [1, None, 2, 2], "float": [0.5] * 4})
    pq.write_table(table, tmp_path / "a.parquet")
    assert fb.Vocabulary.of(tmp_path / "a.parquet", column="text").values == ("b", "a")
    assert fb.Vocabulary.of(tmp_path / "a.parquet", column="number", fill_null=-1).values == (2, -1, 1)
    assert fb.Vocabulary.of(tmp_path / "a.parquet", column="number").values == (2, 1)
    lists = pa.table(
        {"tags": pa.array([["a", None], None, [], ["b", "b"]]), "ids": pa.array([[3], None, [None, 1, 3], []])}
    )
    pq.write_table(lists, tmp_path / "lists.parquet")
    assert fb.Vocabulary.of(tmp_path / "lists.parquet", column="tags").values == ("b", "a")
    assert fb.Vocabulary.of(tmp_path / "lists.parquet", column="ids").values == (3, 1)
    with pytest.raises(fb.InvalidError, match='"float": holds float64, which has no categories'):
        fb.Vocabulary.of(tmp_path / "a.parquet", column="float")
    with pytest.raises(fb.UnknownColumnError):
        fb.Vocabulary.of(tmp_path / "a.parquet", column="txt")


def test_vocabularies_of_many_columns_are_those_of_each(data: Path, columns: dict[str, pa.Array]) -> None:
    found = fb.vocabularies(data, list(columns), unknown="code", max_size=3)
    assert list(found) == list(columns)
    for name, column in columns.items():
        counts = Counter(flat(column.to_pylist()))
        want = sorted(counts, key=lambda value: (-counts[value], value))[:3]
        assert found[name] == fb.Vocabulary(want, unknown="code")
    assert fb.vocabularies(data, "*t*", unknown="code") == {
        name: fb.Vocabulary.of(data, column=name, unknown="code") for name in columns if "t" in name
    }
    some = fb.vocabularies(fb.Dataset(data), ["text", "i64"], min_count=2, filter=[("id", "<", 40)])
    for name, vocabulary in some.items():
        assert vocabulary == fb.Vocabulary.of(data, column=name, min_count=2, filter=[("id", "<", 40)])
    with pytest.raises(fb.UnknownColumnError, match='no column matches "nothing'):
        fb.vocabularies(data, ["text", "nothing*"])
    with pytest.raises(fb.InvalidError, match="columns must be a list of names"):
        fb.vocabularies(data, 3)  # type: ignore[arg-type]


def test_nulls_of_many_columns_have_a_code_of_their_own(tmp_path: Path) -> None:
    table = pa.table({"C1": ["a", None, "a"], "C2": [None, "b", "c"], "n": [1, 2, 3]})
    pq.write_table(table, tmp_path / "a.parquet")
    found = fb.vocabularies(tmp_path, "C*", fill_null="<null>")
    assert {name: of.values for name, of in found.items()} == {"C1": ("a", "<null>"), "C2": ("<null>", "b", "c")}
    with fb.Loader(tmp_path, encode=found, fill_null={"C*": "<null>"}, columns=["C*"]) as loader:
        (batch,) = loader
    assert batch["C1"].tolist() == [0, 1, 0] and batch["C2"].tolist() == [0, 1, 2]


def test_a_column_of_nulls_has_a_vocabulary_without_values(tmp_path: Path) -> None:
    table = pa.table({"C1": ["a", None, "a"], "C2": pa.array([None] * 3, pa.string()), "C3": [["b"], None, [None]]})
    pq.write_table(table, tmp_path / "a.parquet")
    found = fb.vocabularies(tmp_path, "C*", null="code")
    assert found == {name: fb.Vocabulary(of, null="code") for name, of in (("C1", ["a"]), ("C2", []), ("C3", ["b"]))}
    assert [of.size for of in found.values()] == [2, 1, 2]
    with fb.Loader(tmp_path, encode=found) as train:
        (batch,) = train
    assert batch["C1"].tolist() == [0, 1, 0] and batch["C2"].tolist() == [0, 0, 0]
    assert batch["C3"].tolist() == [[0], [], [1]]
    assert fb.vocabularies(tmp_path, ["C2"], unknown="code")["C2"].size == 1
    with pytest.raises(fb.InvalidError, match=r"1 times or more in column 'C2' \(leave .*null=.code"):
        fb.vocabularies(tmp_path, "C*")
    with pytest.raises(fb.InvalidError, match="2 times or more in columns 'C2', 'C3' "):
        fb.vocabularies(tmp_path, "C*", min_count=2)
    with pytest.raises(fb.InvalidError, match="null='code' and fill_null were given"):
        fb.vocabularies(tmp_path, "C*", null="code", fill_null="x")


@pytest.mark.parametrize(
    "options",
    [{"unknown": "drop"}, {"null": "drop"}, {"min_count": 0}, {"max_size": 0}, {"null": "code", "fill_null": "x"}],
    ids=str,
)
def test_what_is_wrong_is_said_before_any_row_is_counted(options: dict[str, Any]) -> None:
    with pytest.raises(fb.InvalidError, match=next(iter(options))):
        fb.vocabularies("no/such/folder", ["text"], **options)


def test_encodings_are_small_frozen_values() -> None:
    cities = fb.Vocabulary(["Berlin", "Paris"], unknown="code")
    assert cities == fb.Vocabulary(("Berlin", "Paris"), unknown="code") != fb.Vocabulary(["Berlin", "Paris"])
    assert pickle.loads(pickle.dumps(cities)) == cities and hash(cities)
    assert repr(cities) == "forebay.Vocabulary(('Berlin', 'Paris'), unknown='code')"
    assert repr(fb.Vocabulary(range(9))) == "forebay.Vocabulary((0, 1, 2, 3, ... 9 in all))"
    assert fb.Vocabulary(np.array([3, 1])).values == (3, 1)  # type: ignore[arg-type]
    assert repr(fb.Hash(7, seed=3)) == "forebay.Hash(7, seed=3)" and fb.Hash(7).size == 7
    assert pickle.loads(pickle.dumps(fb.Hash(7))) == fb.Hash(7)
    for values, said in (
        ("Berlin", "must be a list"),
        ({"a", "b"}, "must be a list"),
        (None, "must be a list"),
        ([], "must not be empty, unless unknown or null"),
        (["a", 1], "got int, str"),
        ([True], "got bool"),
        ([0.5], "got float"),
        (["a", "b", "a"], "'a' twice"),
        ([1 << 63], "from -2\\*\\*63"),
    ):
        with pytest.raises(fb.InvalidError, match=said):
            fb.Vocabulary(values)  # type: ignore[arg-type]
    for option in ("unknown", "null"):
        with pytest.raises(fb.InvalidError, match=f"{option} must be 'raise' or 'code'"):
            fb.Vocabulary(["a"], **{option: "last"})  # type: ignore[arg-type]
    both = fb.Vocabulary([], unknown="code", null="code")
    assert repr(both) == "forebay.Vocabulary((), unknown='code', null='code')" and both.size == 2
    assert pickle.loads(pickle.dumps(both)) == both != fb.Vocabulary([], unknown="code")
    for arguments in ({"buckets": 0}, {"buckets": 1 << 63}, {"buckets": 2.0}, {"buckets": 2, "seed": -1}):
        with pytest.raises(fb.InvalidError):
            fb.Hash(**arguments)  # type: ignore[arg-type]


def test_a_loader_keeps_its_encodings(data: Path) -> None:
    encode = {
        "text": fb.Vocabulary(["Paris", "Zürich"], unknown="code"),
        "bytes": fb.Vocabulary([b"\x00\xff"], unknown="code"),
        "i64": fb.Hash(10, seed=2),
    }
    with fb.Loader(data, columns=list(encode), encode=encode) as loader:
        assert loader.spec["encode"] == {
            "text": {"vocabulary": {"values": {"texts": ["Paris", "Zürich"]}, "unknown": "code", "null": "raise"}},
            "bytes": {"vocabulary": {"values": {"bytes": [[0, 255]]}, "unknown": "code", "null": "raise"}},
            "i64": {"hash": {"buckets": 10, "seed": 2, "null": "raise"}},
        }
        assert "encode={'text': forebay.Vocabulary(('Paris', 'Zürich'), unknown='code')" in repr(loader)
        assert loader.schema.layout() == [
            ("text", "dense", "<i4", ()),
            ("bytes", "dense", "<i4", ()),
            ("i64", "dense", "<i8", ()),
        ]
        again = pickle.loads(pickle.dumps(loader))
        (first, *_), (second, *_) = loader, again
        assert all((first[name] == second[name]).all() for name in encode)
        again.close()
    for wrong, said in (
        ({"text": ["Paris"]}, "must be a forebay.Vocabulary or a forebay.Hash, got list"),
        ({"i64": fb.Vocabulary(["a"])}, "holds int64, and the vocabulary has texts"),
        ({"id": fb.Hash(3)}, "not among the columns to read"),
    ):
        with pytest.raises(fb.InvalidError, match=said):
            fb.Loader(data, columns=["text", "i64"], encode=wrong)  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="two options say how"):
        fb.Loader(data, decode={"bytes": fb.Tensor("int8", 3)}, encode={"bytes": fb.Hash(3)})


def test_unknown_values_are_counted(tmp_path: Path) -> None:
    cities = ["Paris", "Rome", None, "Oslo", "Paris", "Rome"]
    pq.write_table(
        pa.table({"city": cities, "tags": [["Oslo", "Paris"], [], ["x"], None, [], []]}), tmp_path / "v.parquet"
    )
    known = fb.Vocabulary(["Paris"], unknown="code")
    given: dict[str, Any] = {"encode": {"city": known, "tags": known}, "fill_null": {"city": "nowhere", "tags": "x"}}
    with fb.Loader(tmp_path / "v.parquet", batch_size=4, epochs=1, **given) as loader:
        assert loader.stats().to_dict()["unknown_values"] == 0
        codes = np.concatenate([batch["city"] for batch in loader])
        assert codes.tolist() == [0, 1, 1, 1, 0, 1]
        # Nulls are not counted, although the values that fill them are unknown too.
        assert loader.stats().to_dict()["unknown_values"] == 3 + 2
        assert "5 not in the vocabulary" in str(loader.stats())
        assert "forebay_values_unknown_total 5" in loader.stats().to_prometheus()


def test_unsigned_values_above_those_of_int64_are_hashed_or_refused(tmp_path: Path) -> None:
    values = [(1 << 63) + 1, 5, (1 << 64) - 1]
    path = tmp_path / "u.parquet"
    pq.write_table(pa.table({"x": pa.array([*values, None], pa.uint64())}), path)
    for value in (1 << 63, (1 << 64) - 1, -(1 << 63) - 1, 1 << 2000):
        with pytest.raises(fb.InvalidError, match=r"from -2\*\*63 to 2\*\*63 - 1, .*forebay.Hash"):
            fb.Vocabulary([5, value])
    with pytest.raises(fb.InvalidError, match='"x": 9223372036854775809 is beyond .*use a hash'):
        fb.Vocabulary.of(path, column="x")
    known = fb.Vocabulary([5], unknown="code")
    with fb.Loader(path, batch_size=4, encode={"x": known}, fill_null={"x": (1 << 64) - 2}) as loader:
        assert next(iter(loader))["x"].tolist() == [1, 0, 1, 1]
    with fb.Loader(path, batch_size=4, encode={"x": fb.Hash(1000)}, fill_null={"x": (1 << 64) - 1}) as loader:
        codes = next(iter(loader))["x"].tolist()
    assert codes[2] == codes[3] and len(set(codes)) == 3


def test_lists_of_one_length_are_encoded_as_others(tmp_path: Path) -> None:
    path, rows = tmp_path / "l.parquet", [[7, 9], [9, 11], [7, 7]]
    fixed = {f"fixed_{kind}": pa.array(rows, pa.list_(kind, 2)) for kind in (pa.int64(), pa.uint8(), pa.int16())}
    pq.write_table(pa.table({**fixed, "any": pa.array(rows, pa.list_(pa.int64()))}), path)
    assert fb.Vocabulary.of(path, column="fixed_int64") == fb.Vocabulary([7, 9, 11])
    for encoding in (fb.Vocabulary([7, 9, 11]), fb.Hash(1000)):
        with fb.Loader(path, batch_size=3, encode=dict.fromkeys([*fixed, "any"], encoding)) as loader:
            batch = next(iter(loader))
        for name in fixed:
            assert batch[name].shape == (3, 2)
            assert batch[name].tolist() == [row.tolist() for row in batch["any"]], name


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_codes_are_those_of_the_rows_whatever_holds_them(tmp_path: Path, use_dictionary: bool) -> None:
    """The loader holds codes, whether a column is stored with a dictionary or not; a cache keeps the values as they
    are stored."""
    rng = np.random.default_rng(5)
    rows = 4_000
    cities = [f"a city with a name that no view has room for, {at}" if at % 2 else f"{at}" for at in range(40)]
    city = [None if at % 11 == 0 else cities[rng.integers(40)] for at in range(rows)]
    stored = pa.table({"id": range(rows), "city": city, "part": [c if c is None else c.encode() for c in city]})
    for part in range(2):
        half = stored.slice(part * rows // 2, rows // 2)
        pq.write_table(half, tmp_path / f"{part}.parquet", row_group_size=300, use_dictionary=use_dictionary)
    texts = fb.Vocabulary(sorted(cities)[:30], unknown="code")
    options: dict[str, Any] = {
        "encode": {"city": texts, "part": fb.Hash(97)},
        "fill_null": {"city": cities[0], "part": b"none"},
        "shuffle": fb.Shuffle(seed=3, window_rows=1_000),
        "batch_size": 64,
    }
    places = {value: place for place, value in enumerate(texts.values)}
    filtered = fb.col("id") % 3 != 0
    for more, kept in [
        ({}, rows),
        ({"cache": fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")}, rows),
        ({"filter": filtered}, None),
    ]:
        loader = fb.Loader(tmp_path, **options, **more)
        for epoch in range(2):
            seen = 0
            for batch in loader.epoch(epoch):
                for row, code, hashed in zip(batch["id"], batch["city"], batch["part"], strict=True):
                    value = city[row]
                    assert code == places.get(cities[0] if value is None else value, 30)
                    assert hashed == xxh64(b"none" if value is None else value.encode(), 0) % 97
                    seen += 1
            assert seen == (kept or sum(at % 3 != 0 for at in range(rows)))


def test_texts_in_lists_of_one_length_are_filled_and_arrows_type_null_is_encoded(tmp_path: Path) -> None:
    words = [["b", None], None, ["a", "a"]]
    columns = {
        "pair": pa.array(words, pa.list_(pa.string(), 2)),
        "nothing": pa.nulls(3),
        "lists": pa.array([[], [None], []], pa.list_(pa.null())),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    known = fb.Vocabulary(["a", "b"])
    options: dict[str, Any] = {"encode": {"pair": known, "nothing": known}, "fill_null": {"pair": "b", "nothing": "a"}}
    with fb.Loader(tmp_path, columns=["pair", "nothing"], batch_size=3, **options) as loader:
        batch = next(iter(loader))
        assert batch["pair"].tolist() == [[1, 1], [1, 1], [0, 0]] and batch["nothing"].tolist() == [0, 0, 0]
    options["fill_null"] = {"*": "b"}
    with fb.Loader(tmp_path, columns=["pair", "nothing"], batch_size=3, **options) as loader:
        assert next(iter(loader))["pair"].tolist() == [[1, 1], [1, 1], [0, 0]]
    coded = {"nothing": fb.Vocabulary([3, 4], null="code"), "lists": fb.Hash(9, null="code")}
    with fb.Loader(tmp_path, columns=["nothing", "lists"], encode=coded, batch_size=3) as loader:
        batch = next(iter(loader))
        assert batch["nothing"].tolist() == [2, 2, 2] and str(batch["nothing"].dtype) == "int32"
        assert [row.tolist() for row in batch["lists"]] == [[], [9], []]
    assert fb.vocabularies(tmp_path, ["nothing"], null="code")["nothing"].values == ()
    with pytest.raises(fb.InvalidError, match="holds nulls alone .*give nulls a code of their own"):
        fb.Loader(tmp_path, columns=["nothing"], encode={"nothing": known})
