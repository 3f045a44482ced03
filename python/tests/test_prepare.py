"""Functions that run once for each row, before samples are made."""

from __future__ import annotations

import contextlib
import gc
import json
import logging
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import textwrap
import threading
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from forebay.prepare import folder as folders
from forebay.prepare import parts
from forebay.prepare.values import agreed, conformed, node, settled, type_of

ROWS = 900
BOTH = pytest.mark.parametrize(
    "workers", [0, fb.Workers(2, threads=True), fb.Workers(2, threads=False)], ids=["one", "threads", "processes"]
)


def tokens_of(text: str) -> list[int]:
    return [2 + sum(word.encode()) % 1000 for word in text.split()]


def tokenise(row: Any) -> dict[str, Any]:
    return {"input_ids": tokens_of(row["text"])}


def noted(log: str, row: Any) -> dict[str, Any]:
    """Tokenises, and notes each call in a file."""
    with open(log, "a") as file:
        file.write(f"{row['id']}\n")
    return {"id": row["id"], "input_ids": np.array(tokens_of(row["text"]), np.int32)}


def texts(count: int = ROWS) -> list[str]:
    random = np.random.default_rng(3)
    words = np.array(["data", "loads", "in", "order", "again"])
    return [" ".join(random.choice(words, random.integers(0, 30))) for _ in range(count)]


@pytest.fixture(scope="module")
def docs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three files of texts, with row groups of two sizes."""
    folder = tmp_path_factory.mktemp("docs")
    write(folder, texts())
    return folder


def write(folder: Path, found: list[str], groups: int = 70) -> None:
    folder.mkdir(exist_ok=True)
    third = len(found) // 3
    for number in range(3):
        rows = range(number * third, (number + 1) * third)
        table = pa.table({"id": list(rows), "text": [found[row] for row in rows]})
        pq.write_table(table, folder / f"part-{number}.parquet", row_group_size=groups + number)


@pytest.fixture(scope="module")
def by_hand(docs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same rows, prepared by hand with the same files and row groups."""
    folder = tmp_path_factory.mktemp("by-hand")
    for path in sorted(docs.iterdir()):
        file = pq.ParquetFile(path)
        schema = pa.schema({"id": pa.int64(), "input_ids": pa.list_(pa.int32())})
        with pq.ParquetWriter(folder / path.name, schema) as writer:
            for group in range(file.num_row_groups):
                rows = file.read_row_group(group)
                made = {"id": rows["id"], "input_ids": [tokens_of(text) for text in rows["text"].to_pylist()]}
                writer.write_table(pa.table(made, schema))
    return folder


@pytest.fixture(scope="module")
def prepared(docs: Path, tmp_path_factory: pytest.TempPathFactory) -> fb.Prepare:
    """Returns a finished preparation. The log of its calls is beside its folder."""
    folder = tmp_path_factory.mktemp("prepared")
    prepare = fb.Prepare(partial(noted, str(folder / "log")), into=folder / "tokens", version="1")
    fb.Loader(docs, prepare=prepare).close()
    return prepare


def read(loader: fb.Loader) -> list[dict[str, Any]]:
    return [{name: plain(batch[name]) for name in batch} for batch in loader]


def plain(column: Any) -> Any:
    return column.tolist()


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


SAMPLES: dict[str, dict[str, Any]] = {
    "rows": {},
    "packs": {"samples": fb.Pack("input_ids", 64)},
    "whole packs": {"samples": fb.Pack("input_ids", 64, split=False, eos=1)},
    "packs of all files": {"samples": fb.Pack("input_ids", 64, across="dataset")},
    "buckets": {"samples": fb.Bucket("input_ids", tokens=200), "pad": {"input_ids": fb.Pad()}},
    "windows": {"samples": fb.Window(3)},
    "filter": {"filter": fb.col("id") >= 400, "pad": {"input_ids": fb.Pad(40)}},
}


# The rows


@pytest.mark.parametrize("options", SAMPLES.values(), ids=SAMPLES.keys())
def test_prepared_rows_are_those_of_parquet_written_by_hand(docs, by_hand, prepared, options):
    shuffle = fb.Shuffle(seed=5, lanes=2)
    ours = fb.Loader(docs, prepare=prepared, shuffle=shuffle, row_id=True, **options)
    theirs = fb.Loader(by_hand, shuffle=shuffle, row_id=True, **options)
    assert read(ours) == read(theirs)
    assert len(ours) == len(theirs)


@BOTH
def test_each_row_is_prepared_once_and_kept(docs, tmp_path, workers):
    log = tmp_path / "log"
    prepare = fb.Prepare(partial(noted, str(log)), into=tmp_path / "tokens", version="1", workers=workers)
    first = fb.Loader(docs, prepare=prepare)
    assert sorted(map(int, log.read_text().split())) == list(range(ROWS))
    before = read(first), read(first)
    again = fb.Loader(docs, prepare=prepare)
    assert (read(again), read(again)) == before
    assert len(log.read_text().split()) == ROWS
    assert not list((tmp_path / "tokens").glob(".*"))


@BOTH
def test_the_bytes_depend_on_the_rows_alone(docs, prepared, tmp_path, workers):
    prepare = fb.Prepare(partial(noted, str(tmp_path / "log")), into=tmp_path / "b", version="1", workers=workers)
    fb.Loader(docs, prepare=prepare)
    assert contents(tmp_path / "b") == contents(Path(prepared.into))


def test_row_ids_and_places_are_those_of_the_source(docs, prepared):
    loader = fb.Loader(docs, prepare=prepared, batch_size=7, shuffle=fb.Shuffle(seed=1))
    source = fb.Dataset(docs)
    for place in loader.which(3):
        theirs = place.row_id.place(source)
        assert Path(theirs.file).name == Path(place.file).name
        assert theirs[1:] == place[1:]


def test_rows_are_denied_by_the_ids_of_the_source(docs, prepared):
    ids = next(iter(fb.Loader(docs, columns=["id"], row_id=True, batch_size=ROWS)))["row_id"].tolist()
    kept = fb.Loader(docs, prepare=prepared, deny=ids[10:20], batch_size=ROWS)
    assert next(iter(kept))["id"].tolist() == [*range(10), *range(20, ROWS)]


def test_the_function_gets_the_named_columns(docs, tmp_path):
    seen = []

    def function(row):
        seen.append(sorted(row))
        return {"length": len(row["text"])}

    prepare = fb.Prepare(function, into=tmp_path / "into", version="1")
    loader = fb.Loader(docs, columns=["text"], prepare=prepare, batch_size=ROWS)
    assert loader.columns == ["length"]
    assert next(iter(loader))["length"].tolist() == list(map(len, texts()))
    assert seen == [["text"]] * ROWS


def test_a_large_row_group_of_the_source_is_divided(docs, tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "ROW_GROUP_BYTES", 4_000)
    prepare = fb.Prepare(tokenise, into=tmp_path / "into", version="1")
    loader = fb.Loader(docs, columns=["text"], prepare=prepare, batch_size=ROWS)
    assert plain(next(iter(loader))["input_ids"]) == list(map(tokens_of, texts()))
    names = [f"part-{number}.parquet" for number in range(3)]
    groups = [pq.ParquetFile(tmp_path / "into" / name).num_row_groups for name in names]
    stored = [pq.ParquetFile(docs / name).num_row_groups for name in names]
    assert all(more > less for more, less in zip(groups, stored))


def test_a_row_larger_than_a_row_group(tmp_path, monkeypatch):
    monkeypatch.setattr(parts, "ROW_GROUP_BYTES", 1_000)
    pq.write_table(pa.table({"n": [3, 5_000, 4]}), tmp_path / "in.parquet")
    prepare = fb.Prepare(lambda row: {"x": list(range(row["n"]))}, into=tmp_path / "into", version="1")
    loader = fb.Loader(tmp_path / "in.parquet", prepare=prepare)
    assert next(iter(loader))["x"].lengths.tolist() == [3, 5_000, 4]
    assert pq.ParquetFile(tmp_path / "into" / "in.parquet").num_row_groups == 2


def test_keys_of_folders_stay_columns(tmp_path):
    for day in (1, 2):
        folder = tmp_path / "in" / f"day={day}"
        folder.mkdir(parents=True)
        pq.write_table(pa.table({"x": [day * 10, day * 10 + 1]}), folder / "part.parquet")

    def function(row):
        return {"y": row["x"] + 1}

    prepare = fb.Prepare(function, into=tmp_path / "into", version="1")
    batch = next(iter(fb.Loader(tmp_path / "in", prepare=prepare, filter=fb.col("day") == 2)))
    assert batch["y"].tolist() == [21, 22] and batch["day"].tolist() == [2, 2]
    alone = fb.Prepare(function, into=tmp_path / "alone", version="1")
    assert list(next(iter(fb.Loader(tmp_path / "in", columns=["x"], prepare=alone)))) == ["y"]
    with pytest.raises(fb.InvalidError, match="'day', which is a key .*leave it out"):
        fb.Loader(tmp_path / "in", prepare=fb.Prepare(dict, into=tmp_path / "third", version="1"))


def test_values_of_every_kind_come_back(tmp_path):
    pq.write_table(pa.table({"n": list(range(300))}), tmp_path / "in.parquet")
    loader = fb.Loader(
        tmp_path / "in.parquet",
        prepare=fb.Prepare(every_kind, into=tmp_path / "into", version="1"),
        batch_size=300,
    )
    batch = next(iter(loader))
    rows = [every_kind({"n": np.int64(n)}) for n in range(300)]
    for name in ("int", "float", "bool", "small", "half", "text", "bytes", "none", "time"):
        assert batch[name].tolist() == [getattr(row[name], "tolist", lambda found=row[name]: found)() for row in rows]
    for name in ("ints", "texts", "nested"):
        assert batch[name].tolist() == [row[name] for row in rows]
    assert batch["array"].dtype == np.uint16
    assert batch["array"].tolist() == [row["array"].tolist() for row in rows]
    assert batch["image"].shape == (300, 2, 3) and batch["image"].dtype == np.float32
    assert batch["image"].tolist() == [row["image"].tolist() for row in rows]
    assert batch["fields"]["a"].tolist() == [row["fields"]["a"] for row in rows]
    assert batch["turns"].tolist() == [row["turns"] for row in rows]
    assert batch["small"].dtype == np.int8 and batch["half"].dtype == np.float16


def every_kind(row: Any) -> dict[str, Any]:
    n = int(row["n"])
    return {
        "int": n,
        "float": n / 2,
        "bool": n % 2 == 0,
        "small": np.int8(n % 100),
        "half": np.float16(n),
        "text": f"é{n}",
        "bytes": bytes([n % 256]),
        "none": None if n % 3 else "x",
        "time": np.datetime64(n, "us"),
        "ints": list(range(n % 4)),
        "texts": [str(n)] * (n % 3),
        "nested": [[n], [n, n]][: n % 3],
        "array": np.arange(n % 5, dtype=np.uint16),
        "image": np.full((2, 3), n, np.float32),
        "fields": {"a": n, "b": [n]},
        "turns": [{"role": "user", "content": str(n)}] * (n % 3),
    }


def test_values_of_the_source_pass_through(docs, tmp_path):
    def function(row):
        return {**row, "length": len(row["text"])}

    loader = fb.Loader(docs, prepare=fb.Prepare(function, into=tmp_path / "into", version="1"), batch_size=ROWS)
    batch = next(iter(loader))
    assert batch["text"].tolist() == texts()
    assert batch["id"].tolist() == list(range(ROWS))


def test_nulls_of_the_source_are_none(tmp_path):
    table = pa.table(
        {
            "number": pa.array([1, None, 3] * 200, pa.int16()),
            "real": pa.array([0.5, 1.5] * 300, pa.float32()),
            "time": pa.array([None, 7, 8] * 200, pa.timestamp("us")),
            "items": pa.array([[1, 2], None, [3, None]] * 200, pa.list_(pa.int32())),
            "fields": pa.array([{"a": 1}, {"a": None}, None] * 200, pa.struct([("a", pa.int64())])),
        }
    )
    # The last row has no nulls.
    table = pa.concat_tables([table, table.slice(0, 1).set_column(2, "time", pa.array([5], pa.timestamp("us")))])
    pq.write_table(table, tmp_path / "in.parquet")
    seen = []

    def function(row):
        seen.append(row["number"])
        return {**row}

    loader = fb.Loader(tmp_path / "in.parquet", prepare=fb.Prepare(function, into=tmp_path / "into", version="1"))
    assert all(value is None or type(value) is np.int16 for value in seen)
    kept = pq.read_table(tmp_path / "into")
    assert kept.to_pylist() == table.to_pylist()
    assert kept["number"].type == pa.int16() and kept["items"].type.value_type == pa.int32()
    with pytest.raises(fb.NullError):
        next(iter(loader))["number"]


def test_chats_become_tokens_and_labels(tmp_path):
    chats = [
        [{"role": "user", "content": "a" * (n % 5)}, {"role": "assistant", "content": "b" * (1 + n % 3)}]
        for n in range(100)
    ]
    pq.write_table(pa.table({"messages": chats}), tmp_path / "chats.parquet", row_group_size=30)

    def encode(row):
        ids, labels = [], []
        for turn in row["messages"]:
            found = list(turn["content"].encode())
            ids += found
            labels += found if turn["role"] == "assistant" else [-100] * len(found)
        return {"input_ids": ids, "labels": labels}

    pack = fb.Pack(["input_ids", "labels"], 32, value={"labels": -100}, split=False)
    loader = fb.Loader(
        tmp_path / "chats.parquet",
        prepare=fb.Prepare(encode, into=tmp_path / "into", version="1"),
        samples=pack,
    )
    batch = next(iter(loader))
    learned = batch["labels"] != -100
    assert (batch["input_ids"][learned] == ord("b")).all() and learned.any()
    assert set(batch["input_ids"][~learned].tolist()) <= {ord("a"), 0}


def test_random_numbers_are_the_same_each_time(docs, tmp_path):
    def function(row):
        return {"drawn": fb.rng(row).random()}

    found = [
        next(iter(fb.Loader(docs, prepare=fb.Prepare(function, into=tmp_path / name, version="1"), batch_size=ROWS)))
        for name in "ab"
    ]
    assert found[0]["drawn"].tolist() == found[1]["drawn"].tolist()
    assert len(set(found[0]["drawn"].tolist())) == ROWS


def test_the_progress_is_reported(docs, tmp_path):
    told = []
    report = lambda done, count: told.append((done, count))  # noqa: E731
    prepare = fb.Prepare(tokenise, into=tmp_path / "into", version="1", report=report)
    fb.Loader(docs, columns=["text"], prepare=prepare)
    assert told[-1] == (ROWS, ROWS) and told == sorted(told)
    told.clear()
    fb.Loader(docs, columns=["text"], prepare=prepare)
    assert not told


def deletion_vector(rows: list[int]) -> tuple[str, int]:
    """Returns rows as an inline deletion vector of a Delta table, which is a Roaring bitmap in Z85, and its size in
    bytes."""
    signs = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"
    values = struct.pack(f"<{len(rows)}H", *rows)
    bitmap = struct.pack("<IIHHI", 12346, 1, 0, len(rows) - 1, 16) + values
    raw = struct.pack("<IQI", 1681511377, 1, 0) + bitmap
    padded = raw + bytes(-len(raw) % 4)
    words = struct.unpack(f">{len(padded) // 4}I", padded)
    return "".join(signs[word // 85**power % 85] for word in words for power in (4, 3, 2, 1, 0)), len(raw)


def test_deleted_rows_of_a_table_are_not_prepared(tmp_path):
    table = tmp_path / "table"
    (table / "_delta_log").mkdir(parents=True)
    adds = []
    for number in range(2):
        file = table / f"part-{number}.parquet"
        pq.write_table(pa.table({"x": list(range(number * 10, number * 10 + 10))}), file, row_group_size=4)
        adds.append(
            {
                "path": file.name,
                "partitionValues": {},
                "size": file.stat().st_size,
                "modificationTime": 0,
                "dataChange": True,
            }
        )
    text, size = deletion_vector([0, 3, 4, 9])
    adds[0]["deletionVector"] = {"storageType": "i", "pathOrInlineDv": text, "sizeInBytes": size, "cardinality": 4}
    schema = {"type": "struct", "fields": [{"name": "x", "type": "long", "nullable": True, "metadata": {}}]}
    actions: list[dict[str, Any]] = [
        {
            "protocol": {
                "minReaderVersion": 3,
                "minWriterVersion": 7,
                "readerFeatures": ["deletionVectors"],
                "writerFeatures": ["deletionVectors"],
            }
        },
        {
            "metaData": {
                "id": "t",
                "format": {"provider": "parquet", "options": {}},
                "schemaString": json.dumps(schema),
                "partitionColumns": [],
                "configuration": {"delta.enableDeletionVectors": "true"},
            }
        },
        *({"add": add} for add in adds),
    ]
    (table / "_delta_log" / f"{0:020}.json").write_text("\n".join(map(json.dumps, actions)))
    left = [1, 2, 5, 6, 7, 8, *range(10, 20)]
    assert next(iter(fb.Loader(table)))["x"].tolist() == left
    prepare = fb.Prepare(lambda row: {"y": row["x"]}, into=tmp_path / "into", version="1")
    assert next(iter(fb.Loader(table, prepare=prepare)))["y"].tolist() == left


# The folder


def test_a_folder_of_something_else_is_refused(docs, tmp_path):
    def open_with(function=tokenise, source=docs, version="1", columns=("text",)):
        prepare = fb.Prepare(function, into=tmp_path / "into", version=version)
        return fb.Loader(source, columns=columns, prepare=prepare)

    open_with()
    with pytest.raises(fb.InvalidError, match="version 1 there, 2 here .*another folder"):
        open_with(version="2")
    with pytest.raises(fb.InvalidError, match="columns text there, id, text here"):
        open_with(columns=("id", "text"))
    with pytest.raises(fb.InvalidError, match="function tokenise there, every_kind here"):
        open_with(function=every_kind)
    write(tmp_path / "others", texts(600))
    with pytest.raises(fb.InvalidError, match=f"source {fb.Dataset(docs).fingerprint} there, "):
        open_with(source=tmp_path / "others")
    open_with()


def test_a_copy_of_the_source_elsewhere_is_the_same_source(docs, prepared, tmp_path):
    shutil.copytree(docs, tmp_path / "copy")
    assert len(fb.Loader(tmp_path / "copy", prepare=prepared)) == len(fb.Loader(docs, prepare=prepared))


def test_all_columns_by_name_are_all_columns(docs, prepared):
    assert fb.Loader(docs, columns=["id", "text"], prepare=prepared).columns == ["id", "input_ids"]


def test_columns_in_another_order_are_refused_as_such(docs, prepared):
    """The function gets the columns in their order, so it may make other rows of them."""
    with pytest.raises(fb.InvalidError, match=r"columns in the order id, text there, text, id here \(pass the same"):
        fb.Loader(docs, columns=["text", "id"], prepare=prepared)


def test_a_folder_with_other_files_is_left_alone(docs, tmp_path):
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(fb.InvalidError, match=r"not empty: it has 'notes.txt' \(name a folder"):
        fb.Loader(docs, prepare=fb.Prepare(tokenise, into=tmp_path, version="1"))
    assert os.listdir(tmp_path) == ["notes.txt"]


def test_missing_and_damaged_files_are_noticed(docs, tmp_path):
    prepare = fb.Prepare(tokenise, into=tmp_path / "into", version="1")
    fb.Loader(docs, columns=["text"], prepare=prepare)
    (tmp_path / "into" / "part-1.parquet").rename(tmp_path / "elsewhere")
    with pytest.raises(fb.CorruptError, match="600 rows, but 900 were prepared .*remove it"):
        fb.Loader(docs, columns=["text"], prepare=prepare)
    (tmp_path / "into" / folders.RECORD).write_text("{")
    with pytest.raises(fb.CorruptError, match="record of the preparation is damaged"):
        fb.Loader(docs, columns=["text"], prepare=prepare)


def test_places_that_cannot_work_are_refused(docs, tmp_path):
    with pytest.raises(fb.InvalidError, match="into must be a path on this machine, got a URL"):
        fb.Prepare(tokenise, into="s3://bucket/tokens", version="1")
    with pytest.raises(fb.InvalidError, match="got the glob"):
        fb.Prepare(tokenise, into="tokens-*", version="1")
    copy = Path(shutil.copytree(docs, tmp_path / "docs"))
    with pytest.raises(fb.InvalidError, match="inside .*beside it"):
        fb.Loader(copy, prepare=fb.Prepare(tokenise, into=copy / "tokens", version="1"))
    file = tmp_path / "file"
    file.write_text("")
    with pytest.raises(fb.InvalidError, match="not a file"):
        fb.Loader(docs, prepare=fb.Prepare(tokenise, into=file, version="1"))
    with pytest.raises(fb.InvalidError, match="not a file"):
        fb.Loader(docs, prepare=fb.Prepare(tokenise, into=file / "in", version="1"))


def test_names_that_do_not_work_in_a_folder_are_refused(tmp_path):
    for name in ("part", "part.parquet", "_part.parquet", "a", "a-b"):
        pq.write_table(pa.table({"x": [1]}), tmp_path / name)
    prepare = fb.Prepare(dict, into=tmp_path / "into", version="1")
    for names, said in (
        (("part", "part.parquet"), "two files of the source have the path 'part.parquet'"),
        (("part", "_part.parquet"), "'_part.parquet' of the source has a name that readers of folders pass over"),
        (("a", "a-b"), "another order with names that end in .parquet"),
    ):
        with pytest.raises(fb.InvalidError, match=said):
            fb.Loader([tmp_path / name for name in names], prepare=prepare)


def test_several_locations_are_prepared_together(tmp_path):
    for at, name in enumerate(("b", "a")):
        (tmp_path / name).mkdir()
        pq.write_table(pa.table({"x": [at, at + 10]}), tmp_path / name / "part.parq")
    urls = [tmp_path / "b", tmp_path / "a"]
    prepare = fb.Prepare(dict, into=tmp_path / "into", version="1")
    assert next(iter(fb.Loader(urls, prepare=prepare)))["x"].tolist() == [1, 11, 0, 10]


def test_a_source_without_rows_is_refused(tmp_path):
    pq.write_table(pa.table({"x": pa.array([], pa.int64())}), tmp_path / "in.parquet")
    with pytest.raises(fb.InvalidError, match="no rows to prepare"):
        fb.Loader(tmp_path / "in.parquet", prepare=fb.Prepare(dict, into=tmp_path / "into", version="1"))


def test_a_data_set_is_prepared_too(docs, prepared):
    dataset = fb.Dataset(docs)
    with fb.Loader(dataset, prepare=prepared) as loader:
        assert pickle.loads(pickle.dumps(loader)).columns == loader.columns
    assert dataset.columns == ["id", "text"]


# Interruptions


def in_process(code: str, *arguments: Any) -> subprocess.Popen[str]:
    """Starts a program that imports this file."""
    program = f"import sys\nsys.path.insert(0, {str(Path(__file__).parent)!r})\n" + textwrap.dedent(code)
    command = [sys.executable, "-c", program, *map(str, arguments)]
    return subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


KILLED = """
import os, signal
import forebay as fb
from functools import partial
from forebay.prepare import folder
import test_prepare

_, docs, log, into, step, at = sys.argv
steps = 0
named = getattr(folder.Folder, step)

def dies(*arguments):
    global steps
    steps += 1
    if steps > int(at):
        os.kill(os.getpid(), signal.SIGKILL)
    return named(*arguments)

setattr(folder.Folder, step, dies)
fb.Loader(docs, prepare=fb.Prepare(partial(test_prepare.noted, log), into=into, version="1"))
"""


@pytest.mark.parametrize(
    ("step", "at"),
    [
        ("keep", 0), ("finish_part", 0), ("finish_part", 3), ("finish_file", 0), ("finish_file", 2), ("finish", 0),
        ("clear", 0),
    ],
)  # fmt: skip
def test_a_killed_preparation_goes_on(docs, prepared, tmp_path, step, at):
    log, into = tmp_path / "log", tmp_path / "into"
    killed = in_process(KILLED, docs, log, into, step, at)
    assert killed.wait() == -signal.SIGKILL, killed.communicate()[1]
    before = list(map(int, log.read_text().split())) if log.exists() else []
    kept = sum(int(path.name.split("-")[-1].split(".")[0]) for path in into.rglob("*.part"))
    whole = sum(pq.ParquetFile(path).metadata.num_rows for path in into.rglob("*.parquet"))
    log.unlink(missing_ok=True)
    fb.Loader(docs, prepare=fb.Prepare(partial(noted, str(log)), into=into, version="1"))
    after = list(map(int, log.read_text().split())) if log.exists() else []
    assert after == list(range(ROWS - len(after), ROWS))
    if step in ("finish_part", "finish_file"):
        assert len(before) >= ROWS - len(after) >= at * 60
        assert len(after) == ROWS - max(kept, 0) - whole
    assert contents(into) == contents(Path(prepared.into))


def test_files_that_were_shown_in_part_are_completed(docs, prepared, tmp_path):
    log, into = tmp_path / "log", tmp_path / "into"
    killed = in_process(KILLED, docs, log, into, "clear", 0)
    assert killed.wait() == -signal.SIGKILL
    hidden = into / folders.HIDDEN
    # This makes the state of a process that was killed when it had moved only one file into place.
    for name in ("part-1.parquet", "part-2.parquet", folders.RECORD):
        os.replace(into / name, hidden / name)
    log.unlink()
    fb.Loader(docs, prepare=fb.Prepare(partial(noted, str(log)), into=into, version="1"))
    assert not log.exists()
    assert contents(into) == contents(Path(prepared.into))


def test_another_preparation_under_way_is_not_overwritten(docs, tmp_path):
    log, into = tmp_path / "log", tmp_path / "into"
    assert in_process(KILLED, docs, log, into, "finish_part", 2).wait() == -signal.SIGKILL
    with pytest.raises(fb.InvalidError, match="columns id, text there, text here"):
        fb.Loader(docs, columns=["text"], prepare=fb.Prepare(partial(noted, str(log)), into=into, version="2"))


def test_unfinished_rows_are_not_a_data_set(docs, tmp_path):
    log, into = tmp_path / "log", tmp_path / "into"
    assert in_process(KILLED, docs, log, into, "finish_file", 2).wait() == -signal.SIGKILL
    with pytest.raises(fb.NotFoundError):
        fb.Dataset(into)


OPENER = """
import forebay as fb
from functools import partial
import test_prepare

if __name__ == "__main__":
    _, docs, log, into = sys.argv
    prepare = fb.Prepare(partial(test_prepare.noted, log), into=into, version="1")
    loader = fb.Loader(docs, prepare=prepare, batch_size=900)
    print(next(iter(loader))["id"].sum())
"""


def test_of_several_processes_one_prepares(docs, prepared, tmp_path):
    log, into = tmp_path / "log", tmp_path / "into"
    openers = [in_process(OPENER, docs, log, into) for _ in range(4)]
    told = [opener.communicate() for opener in openers]
    assert [out.strip() for out, _ in told] == [str(sum(range(ROWS)))] * 4, told
    assert sorted(map(int, log.read_text().split())) == list(range(ROWS))
    assert contents(into) == contents(Path(prepared.into))


def test_who_waits_says_so_once_and_takes_over(docs, tmp_path, caplog):
    into = tmp_path / "into"
    begun, goes_on = threading.Event(), threading.Event()

    def stops(row):
        begun.set()
        goes_on.wait()
        raise ValueError("stopped")

    def first():
        with contextlib.suppress(ValueError):
            fb.Loader(docs, prepare=fb.Prepare(stops, into=into, version="1"))

    thread = threading.Thread(target=first)
    thread.start()
    begun.wait()

    class Told(logging.Handler):
        def emit(self, record):
            goes_on.set()

    handler = Told()
    logging.getLogger("forebay").addHandler(handler)
    try:
        loader = fb.Loader(docs, columns=["text"], prepare=fb.Prepare(tokenise, into=into, version="1"))
    finally:
        logging.getLogger("forebay").removeHandler(handler)
    thread.join()
    assert loader.num_rows == ROWS
    assert [record.getMessage() for record in caplog.records].count(
        f"{into}: another process prepares these rows, and this one waits for it"
    ) == 1


def test_a_lock_that_was_removed_with_its_folder_is_taken_again(docs, tmp_path, monkeypatch):
    into = tmp_path / "into"
    take, taken = folders._take, []

    def take_late(descriptor: int) -> bool:
        """Takes the lock that another process held when this one opened it, and removed when it was done."""
        if not taken:
            shutil.rmtree(into / folders.HIDDEN)
        taken.append(descriptor)
        return take(descriptor)

    monkeypatch.setattr(folders, "_take", take_late)
    loader = fb.Loader(docs, columns=["text"], prepare=fb.Prepare(tokenise, into=into, version="1"))
    assert (loader.num_rows, len(taken)) == (ROWS, 2)


def test_a_file_system_without_locks(docs, tmp_path, monkeypatch):
    def no_locks(*_):
        raise OSError(37, "No locks available")

    monkeypatch.setattr(folders.fcntl, "flock", no_locks)
    loader = fb.Loader(docs, columns=["text"], prepare=fb.Prepare(tokenise, into=tmp_path / "into", version="1"))
    assert loader.num_rows == ROWS


def test_a_program_without_a_guard_is_told_so(docs, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(f"""
        import forebay as fb
        def function(row):
            return {{"x": row["id"]}}
        fb.Loader({str(docs)!r}, prepare=fb.Prepare(function, into={str(tmp_path / "into")!r}, version="1", workers=2))
        """)
    )
    ended = subprocess.run([sys.executable, program], text=True, capture_output=True)
    assert ended.returncode != 0
    assert 'if __name__ == "__main__"' in ended.stderr


# Positions


def test_a_position_holds_for_a_folder_that_is_prepared_again(docs, prepared, tmp_path):
    options: dict[str, Any] = {
        "samples": fb.Pack("input_ids", 64, split=False),
        "shuffle": fb.Shuffle(seed=9, lanes=4),
        "global_batch_size": 8,
    }
    loader = fb.Loader(docs, prepare=prepared, **options)
    batches = iter(loader)
    for _ in range(5):
        next(batches)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [batch["input_ids"].tolist() for batch in batches]

    again = fb.Prepare(partial(noted, str(tmp_path / "log")), into=tmp_path / "again", version="1", workers=2)
    ranks = [fb.Loader(docs, prepare=again, shard=fb.Shard(rank=rank, world=2), **options) for rank in range(2)]
    for rank in ranks:
        rank.load_state_dict(state)
    steps = list(zip(*ranks))
    assert len(steps) == len(rest)
    for step, expected in zip(steps[:-1], rest):
        assert sorted(sum((batch["input_ids"].tolist() for batch in step), [])) == sorted(expected)


def test_a_position_of_another_version_is_refused(docs, prepared, tmp_path):
    state = fb.Loader(docs, prepare=prepared).state_dict()
    other = fb.Prepare(partial(noted, str(tmp_path / "log")), into=tmp_path / "other", version="2")
    with pytest.raises(fb.StateMismatchError):
        fb.Loader(docs, prepare=other).load_state_dict(state)


def test_a_copy_of_a_loader_prepares_nothing(docs, tmp_path, monkeypatch):
    log = tmp_path / "log"
    monkeypatch.chdir(docs.parent)
    prepare = fb.Prepare(partial(noted, str(log)), into=tmp_path / "into", version="1")
    loader = fb.Loader(docs.name, prepare=prepare, batch_size=100)
    calls = log.read_text()
    copied = pickle.dumps(loader)
    monkeypatch.chdir(tmp_path)
    assert read(pickle.loads(copied)) == read(loader)
    assert log.read_text() == calls


def test_a_copy_of_a_loader_prepares_where_the_folder_is_missing(docs, tmp_path):
    prepare = fb.Prepare(partial(noted, str(tmp_path / "log")), into=tmp_path / "into", version="1")
    loader = fb.Loader(docs, prepare=prepare, batch_size=100)
    rows, copied = read(loader), pickle.dumps(loader)
    loader.close()
    shutil.rmtree(tmp_path / "into")
    assert read(pickle.loads(copied)) == rows


def test_a_copy_of_a_loader_refuses_prepared_rows_that_have_changed(docs, tmp_path):
    into = tmp_path / "into"
    loader = fb.Loader(docs, prepare=fb.Prepare(partial(noted, str(tmp_path / "log")), into=into, version="1"))
    copied = pickle.dumps(loader)
    assert pickle.loads(copied).num_rows == ROWS
    loader.close()
    part = into / "part-0.parquet"
    pq.write_table(pq.read_table(part), part, row_group_size=10)
    with pytest.raises(fb.StateMismatchError, match="the prepared rows of .* have changed since it was pickled"):
        pickle.loads(copied)


def test_a_mix_of_a_prepared_and_a_plain_source(docs, by_hand, prepared):
    packs: dict[str, Any] = {"samples": fb.Pack("input_ids", 64), "shuffle": fb.Shuffle(seed=3)}

    def mixed(first):
        return fb.Mix([(first, 0.5), (fb.Loader(by_hand, **packs), 0.5)], batch_size=4)

    mix = mixed(fb.Loader(docs, prepare=prepared, **packs))
    expected = read(mixed(fb.Loader(by_hand, **packs)))
    assert read(pickle.loads(pickle.dumps(mix))) == expected
    state = mix.state_dict()
    assert read(mix) == expected
    mix.load_state_dict(state)
    assert read(mix) == expected


def test_a_mix_takes_different_columns_of_source_and_result(docs, tmp_path):
    first = fb.Loader(docs, columns=["text"], prepare=fb.Prepare(tokenise, into=tmp_path / "a", version="1"))
    second = fb.Loader(docs, columns=["text"], prepare=fb.Prepare(tokenise, into=tmp_path / "b", version="1"))
    assert fb.Mix([(first, 1), (second, 1)]).columns == ["input_ids"]


# Functions that fail


def fails(source: Path, function: Any, into: Path, **options: Any) -> BaseException:
    with pytest.raises(Exception) as caught:
        fb.Loader(source, prepare=fb.Prepare(function, into=into, version="1", **options))
    return caught.value


def raising(row: Any) -> dict[str, Any]:
    if row["id"] == 450:
        raise KeyError("no such token")
    return {"x": 1}


@BOTH
def test_an_exception_has_the_place_of_its_row(docs, tmp_path, workers):
    error = fails(docs, raising, tmp_path / "into", workers=workers)
    assert isinstance(error, KeyError)
    if sys.version_info >= (3, 11):
        # The row is number 150 of the second file, whose row groups have 71 rows.
        assert f"prepare of {docs}/part-1.parquet, row group 2, row 8, which" in error.__notes__[0]
    gc.collect()


def test_rows_before_a_failure_stay(docs, tmp_path):
    log = tmp_path / "log"

    def function(row):
        if row["id"] == 450 and not (tmp_path / "mended").exists():
            raise ValueError("a bad row")
        return noted(str(log), row)

    fails(docs, function, tmp_path / "into")
    log.unlink()
    (tmp_path / "mended").touch()
    fb.Loader(docs, prepare=fb.Prepare(function, into=tmp_path / "into", version="1"))
    # The first batch of 256 rows completed three row groups of 70 rows; later rows are prepared again.
    assert int(log.read_text().split()[0]) == 210


WRONG: dict[str, tuple[Any, str]] = {
    "none": (None, "prepare must return a dict for each row, got NoneType"),
    "list": ([1], "prepare must return a dict for each row, got list"),
    "empty": ({}, "at least one column"),
    "no name": ({1: 2}, "at least one column, by its name, got \\[1\\]"),
    "other columns": ({"y": 1}, "the columns 'x' for the rows before, and 'y' for this one"),
    "more columns": ({"x": 1, "y": 1}, "'x', 'y' for this one \\(return the same columns"),
    "another type": ({"x": 1.5}, "column 'x' is int64 in the rows before, and float64 in this row \\(return one type"),
    "text": ({"x": "1"}, "int64 in the rows before, and text in this row"),
    "a list": ({"x": [1]}, "int64 in the rows before, and list<int64> in this row"),
    "an object": ({"x": object()}, "column 'x' has a object, which cannot be kept"),
    "complex": ({"x": np.complex64(1)}, "complex64, which cannot be kept"),
    "large": ({"x": 1 << 70}, "does not fit int64"),
    "surrogate": ({"x": "\ud800"}, "text that is not Unicode"),
    "keys": ({"x": {1: 2}}, "keys of column 'x' must be text"),
    "no keys": ({"x": {}}, "empty dict"),
    "mixed items": ({"x": [1, "a"]}, "column 'x' is int64 in the items before, and text in this row"),
    "arrays in lists": ({"x": [np.zeros((2, 2))]}, "arrays of 2 dimensions"),
    "an array without values": ({"x": np.zeros((0, 2))}, "without values"),
}


@pytest.mark.parametrize(("wrong", "said"), WRONG.values(), ids=WRONG.keys())
@pytest.mark.parametrize("at", [3, 700], ids=["same batch", "later batch"])
def test_a_row_that_cannot_be_kept_is_an_error(docs, tmp_path, wrong, said, at):
    error = fails(docs, lambda row: wrong if row["id"] >= at else {"x": 1}, tmp_path / "into")
    assert isinstance(error, fb.InvalidError)
    with pytest.raises(fb.InvalidError, match=said):
        raise error


def test_a_type_that_differs_in_a_later_batch_has_its_place(docs, tmp_path):
    # The third batch begins with row 512: row 212 of the second file.
    error = fails(docs, lambda row: {"x": "a" if row["id"] >= 512 else 1}, tmp_path / "into")
    assert str(error).startswith(f"{docs}/part-1.parquet, row group 2, row 70: column 'x' is int64")
    assert error.column == "x"


def test_shapes_that_differ_are_an_error(docs, tmp_path):
    error = fails(docs, lambda row: {"x": np.zeros((2, 1 + row["id"] % 2))}, tmp_path / "into")
    assert "float64[2, 1] in the rows before, and float64[2, 2] in this row" in str(error)


def test_a_row_cannot_be_rejected(docs, tmp_path):
    def function(row):
        raise fb.BadRow("too short")

    with pytest.raises(fb.InvalidError, match="keeps every row.*too short .*filter="):
        fb.Loader(
            docs,
            prepare=fb.Prepare(function, into=tmp_path / "into", version="1"),
            on_bad_row=fb.Skip(at_most=5),
        )


def test_a_column_without_any_value_is_an_error(docs, tmp_path):
    assert "column 'x' is None in all rows" in str(fails(docs, lambda row: {"x": None}, tmp_path / "into"))


def test_a_column_may_begin_without_values(docs, tmp_path):
    def function(row):
        late = row["id"] >= 60
        return {"a": "x" if late else None, "b": [{"c": 1}] if late else [], "d": [1] if late else []}

    loader = fb.Loader(docs, prepare=fb.Prepare(function, into=tmp_path / "into", version="1"), batch_size=ROWS)
    batch = next(iter(loader))
    assert batch["a"].tolist() == [None] * 60 + ["x"] * (ROWS - 60)
    assert batch["b"].lengths.tolist() == batch["d"].lengths.tolist() == [0] * 60 + [1] * (ROWS - 60)


def test_functions_that_processes_cannot_have(docs, tmp_path):
    error = fails(docs, lambda row: row, tmp_path / "into", workers=fb.Workers(1, threads=False))
    assert "workers=forebay.Workers(..., threads=True) or 0" in str(error)


# Options


def test_arguments_are_checked(docs):
    with pytest.raises(fb.InvalidError, match="function must be callable, got int"):
        fb.Prepare(3, into="a", version="1")  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="report must be callable, got int"):
        fb.Prepare(tokenise, into="a", version="1", report=3)  # type: ignore[arg-type]
    for version in ("", 1, None):
        with pytest.raises(fb.InvalidError, match="version must be a text"):
            fb.Prepare(tokenise, into="a", version=version)  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="transform_workers must be"):
        fb.Prepare(tokenise, into="a", version="1", workers=-1)
    with pytest.raises(fb.InvalidError, match=r"prepare must be a forebay.Prepare, got function"):
        fb.Loader(docs, prepare=tokenise)  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="follow and prepare"):
        fb.Loader(docs, prepare=fb.Prepare(tokenise, into="a", version="1"), follow=True)


def test_a_prepare_is_shown_as_it_is_written(docs, prepared):
    one = fb.Prepare(tokenise, into="/a/b/", version="2")
    assert repr(one) == "forebay.Prepare(tokenise, into='/a/b', version='2')"
    assert repr(fb.Prepare(tokenise, into="/a", version="2", workers=3)).endswith("workers=forebay.Workers(3))")
    assert "prepare=forebay.Prepare(noted, into=" in repr(fb.Loader(docs, prepare=prepared))
    assert pickle.loads(pickle.dumps(one)) == one


# Values


def test_types_are_merged():
    assert agreed("x", "null", ("list", "null")) == ("list", "null")
    assert agreed("x", ("list", "null"), ("list", "text")) == ("list", "text")
    one, other = ("struct", (("a", "null"), ("b", "text"))), ("struct", (("b", "null"), ("a", "int64")))
    assert agreed("x", one, other) == ("struct", (("a", "int64"), ("b", "text")))
    with pytest.raises(fb.InvalidError, match="struct<a: text>"):
        agreed("x", ("struct", (("a", "text"),)), ("struct", (("b", "text"),)))


@pytest.mark.parametrize(
    ("value", "size"),
    [
        (None, 8), (True, 8), (3, 8), (np.int8(3), 8), ("abc", 11), (b"abc", 11), (np.zeros(5, np.int16), 18),
        (np.zeros((2, 3), np.float32), 32), ([], 8), ([1, 2, 3], 32), (["a", "bc"], 27), ([np.int8(1), None], 24),
        ({"a": 1, "b": "xy"}, 26), ([{"a": 1}, {"a": 2}], 40),
    ],
)  # fmt: skip
def test_row_groups_are_cut_by_the_bytes_of_values(value, size):
    assert type_of("x", value)[1] == size


def test_unknown_parts_take_the_types_of_other_rows():
    found, _ = type_of("x", [])
    assert found == ("list", "null") and settled("x", found) == ("list", "int64")
    assert conformed(node("null", [None]), "text") == node("text", [None])
    empty = node(found, [[], None])
    assert conformed(empty, ("list", "text")) == node(("list", "text"), [[], None])


def numbers(folder: Path, count: int = 6, groups: int = 2) -> Path:
    folder.mkdir()
    pq.write_table(pa.table({"x": range(count)}), folder / "part-0.parquet", row_group_size=groups)
    return folder


def prepared_values(source: Path, into: Path, function: Any) -> Any:
    prepare = fb.Prepare(function, into=into, version="1")
    return next(iter(fb.Loader(str(source), prepare=prepare, batch_size=6)))["v"]


@pytest.mark.parametrize("kind", ["array", "matrix", "list", "dict", "tensor"])
def test_a_function_may_use_its_memory_again(tmp_path: Path, kind: str) -> None:
    buffer: Any = {"array": np.zeros(2, np.int32), "matrix": np.zeros((2, 2)), "list": [0, 0], "dict": {"a": [0]}}.get(kind)
    if kind == "tensor":
        buffer = pytest.importorskip("torch").zeros(2)

    def again(row: Any) -> dict[str, Any]:
        if kind == "dict":
            buffer["a"][0] = int(row["x"])
        else:
            buffer[0] = int(row["x"]) if kind == "list" else row["x"]
        return {"v": buffer}

    values = prepared_values(numbers(tmp_path / "source"), tmp_path / "into", again)
    if kind == "dict":
        assert [row[0] for row in values["a"]] == list(range(6))
    elif kind == "matrix":
        assert values[:, 0, 0].tolist() == list(range(6))
    else:
        assert [row[0] for row in values] == list(range(6))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.datetime64(2**62, "s"), "do not fit datetime64\\[ms\\]"),
        (np.array([2**40], "M8[D]"), "do not fit datetime64\\[ms\\]"),
        (np.datetime64("1970-01-02T00:00:00.123456789012", "ps"), "do not fit datetime64\\[ns\\]"),
        (np.zeros((2, 2), "M8[ms]"), "times in an array of shape \\(2, 2\\)"),
        (np.ma.array([1, 2], mask=[True, False]), "masked array"),
    ],
)
def test_a_value_that_cannot_be_kept_as_it_is_is_refused(tmp_path: Path, value: Any, message: str) -> None:
    with pytest.raises(fb.InvalidError, match=message):
        prepared_values(numbers(tmp_path / "source"), tmp_path / "into", lambda _: {"v": value})


def test_times_of_finer_units_are_kept_in_nanoseconds(tmp_path: Path) -> None:
    time = np.datetime64("1970-01-02T00:00:00.123456789000", "ps")
    values = prepared_values(numbers(tmp_path / "source"), tmp_path / "into", lambda _: {"v": time})
    assert values.dtype == "datetime64[ns]" and (values == time).all()


def test_a_tensor_without_dimensions_is_a_number(tmp_path: Path) -> None:
    torch = pytest.importorskip("torch")
    source = numbers(tmp_path / "source")
    values = prepared_values(source, tmp_path / "into", lambda row: {"v": torch.tensor(float(row["x"]))})
    assert values.dtype == np.float32 and values.tolist() == list(range(6))


def test_another_version_begins_anew_where_the_one_before_was_not_finished(tmp_path, caplog):
    source, into = numbers(tmp_path / "source"), tmp_path / "into"

    def fails(row: Any) -> dict[str, Any]:
        return {"v": 1 // (4 - int(row["x"]))}

    def open_with(function: Any, version: str, **options: Any) -> fb.Loader:
        return fb.Loader(str(source), prepare=fb.Prepare(function, into=into, version=version), batch_size=6, **options)

    with pytest.raises(ZeroDivisionError):
        open_with(fails, "1")
    with caplog.at_level(logging.WARNING, "forebay"):
        values = next(iter(open_with(lambda row: {"v": row["x"] * 10}, "2")))["v"]
    assert values.tolist() == [0, 10, 20, 30, 40, 50]
    with pytest.raises(fb.InvalidError, match="version 2 there, 3 here"):
        open_with(fails, "3")


def test_a_folder_that_a_glob_of_the_source_matches_is_refused(tmp_path):
    source = numbers(tmp_path / "all")
    for pattern, into in (("all/*", "all/prepared"), ("*", "prepared")):
        with pytest.raises(fb.InvalidError, match="inside .*beside it"):
            prepared_values(tmp_path / pattern, tmp_path / into, lambda row: {"v": row["x"]})
    for _ in range(2):
        values = prepared_values(tmp_path / "*" / "part-*.parquet", tmp_path / "prepared", lambda row: {"v": row["x"]})
        assert len(values) == 6
    assert sorted(path.name for path in source.iterdir()) == ["part-0.parquet"]
