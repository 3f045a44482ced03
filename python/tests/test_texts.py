"""Text as numpy's strings, and JSON as Python objects, from columns of text and of binary."""

from __future__ import annotations

import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

if not hasattr(getattr(np, "dtypes", None), "StringDType"):
    pytest.skip("numpy has no StringDType before version 2", allow_module_level=True)

ROWS = 300
STRINGS = np.dtypes.StringDType()


def caption(row: int) -> str:
    return f"caption {row} é 中\0😀" * (row % 7)


def value(row: int) -> Any:
    values = [
        {"row": row, "tags": ["a", None, 1.5, True]},
        [row, {}],
        row,
        f"text {row}",
        None,
        10**30,
        {"é": "\u2028"},
    ]
    return values[row % len(values)]


@pytest.fixture(scope="module")
def texts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("texts")
    rows = range(ROWS)
    captions, values = [caption(row) for row in rows], [json.dumps(value(row)) for row in rows]
    blobs = [text.encode() for text in captions]
    table = pa.table(
        {
            "id": rows,
            "text": pa.array(captions),
            "large": pa.array(captions, pa.large_string()),
            "view": pa.array(captions).cast(pa.string_view()),
            "city": pa.array([f"city {row % 5}" for row in rows]).dictionary_encode(),
            "blob": pa.array(blobs, pa.binary()),
            "json": pa.array(values),
            "bytes": pa.array([text.encode() for text in values], pa.binary()),
        }
    )
    for part in range(2):
        pq.write_table(table.slice(part * 150, 150), folder / f"{part}.parquet", row_group_size=40)
    return folder


TEXTS = ("text", "large", "view", "city", "blob")
JSONS = ("json", "bytes")
DECODE = {**{name: fb.Text() for name in TEXTS}, **{name: fb.Json() for name in JSONS}}


def check(batch: Any) -> None:
    ids = batch["id"].tolist()
    for name in TEXTS:
        column = batch[name]
        assert column.dtype == STRINGS and column.shape == (len(ids),)
        assert column.tolist() == [f"city {row % 5}" if name == "city" else caption(row) for row in ids]
    for name in JSONS:
        column = batch[name]
        assert column.dtype == object and column.shape == (len(ids),)
        assert column.tolist() == [value(row) for row in ids]
        assert [type(cell) for cell in column] == [type(value(row)) for row in ids]


@pytest.mark.parametrize("how", ["plain", "shuffled", "exact", "cached", "filtered", "one"])
def test_values_are_those_of_python(texts: Path, tmp_path: Path, how: str) -> None:
    extra: dict[str, Any] = {
        "plain": {},
        "shuffled": {"shuffle": fb.Shuffle(seed=1, window_rows=150)},
        "exact": {"shuffle": fb.Shuffle.exact(1)},
        "cached": {"cache": fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows"), "shuffle": fb.Shuffle(seed=1)},
        "filtered": {"filter": fb.col("text") == caption(3)},
        "one": {"batch_size": 1},
    }[how]
    with fb.Loader(texts, decode=DECODE, **extra) as loader:
        for _ in range(2):
            seen = []
            for batch in loader:
                check(batch)
                seen += batch["id"].tolist()
            assert sorted(seen) == ([3] if how == "filtered" else list(range(ROWS)))


def test_arrow_has_the_text(texts: Path) -> None:
    with fb.Loader(texts, decode=DECODE) as loader:
        batch = next(iter(loader))
        record = batch.to_arrow()
        for name in (*TEXTS, *JSONS):
            assert record.schema.field(name).type == pa.large_string()
        assert record.column("blob").to_pylist() == [caption(row) for row in batch["id"]]
        assert [json.loads(text) for text in record.column("bytes").to_pylist()] == [value(row) for row in batch["id"]]
        kinds = {name: kind for name, kind, _, _ in loader.schema.layout()}
        assert kinds["blob"] == "text" and kinds["json"] == "object"


def test_numpy_computes_with_strings(texts: Path) -> None:
    with fb.Loader(texts, columns=["id", "text"], decode={"text": fb.Text()}) as loader:
        for batch in loader:
            lengths = np.strings.str_len(batch["text"])
            assert lengths.tolist() == [len(caption(row)) for row in batch["id"]]


def test_transforms_get_them(texts: Path) -> None:
    def transform(batch: dict[str, Any]) -> dict[str, Any]:
        return {"upper": np.strings.upper(batch["text"]), "size": np.array([len(repr(cell)) for cell in batch["json"]])}

    with fb.Loader(texts, decode=DECODE, transform=transform) as loader:
        batch = next(iter(loader))
        assert batch["upper"].tolist() == [caption(row).upper() for row in range(32)]
        assert batch["size"].tolist() == [len(repr(value(row))) for row in range(32)]


@pytest.mark.parametrize(
    ("cells", "decode", "bad", "said"),
    [
        ([b"a", b"\xff", "é".encode(), b"ab\xc3"], fb.Text(), [1, 3], "not UTF-8: the first wrong byte is number 0"),
        ([b"{}", b'{\n "a": x}', b"1", b"NaN", b"\xff"], fb.Json(), [1, 3, 4], "not JSON.*line 2 column 7"),
        (["[]", "", "{} {}", "[" * 501 + "]" * 501, "1" * 4301], fb.Json(), [1, 2, 3, 4], "not JSON"),
        (["a", None, "b"], fb.Text(), [1], "null where a text is needed"),
    ],
)
def test_other_cells_are_bad_rows(tmp_path: Path, cells: list[Any], decode: Any, bad: list[int], said: str) -> None:
    rows = len(cells)
    pq.write_table(pa.table({"id": range(rows), "x": cells}), tmp_path / "t.parquet", row_group_size=10)
    with fb.Loader(tmp_path, decode={"x": decode}, on_bad_row=fb.Skip(at_most=rows)) as loader:
        (batch,) = loader
        kept = [row for row in range(rows) if row not in bad]
        assert batch["id"].tolist() == kept and [each.row for each in loader.skipped()] == bad
        texts = [cell.decode() if isinstance(cell, bytes) else cell for cell in (cells[row] for row in kept)]
        expected = texts if isinstance(decode, fb.Text) else [json.loads(text) for text in texts]
        assert batch["x"].tolist() == expected
    place = rf't\.parquet, row group 0, row {bad[0]}, column "x": '
    with fb.Loader(tmp_path, decode={"x": decode}) as loader, pytest.raises(fb.BadRowError, match=f"(?s){place}{said}"):
        list(loader)


def test_the_deepest_and_longest_json_that_is_delivered_is_read(tmp_path: Path) -> None:
    cells = ["[" * 500 + "]" * 500, '{"a":' * 500 + "1" + "}" * 500, "9" * 4300, '"' + "[" * 5000 + '"']
    pq.write_table(pa.table({"x": cells}), tmp_path / "t.parquet")
    with fb.Loader(tmp_path, decode={"x": fb.Json()}) as loader:
        assert next(iter(loader))["x"].tolist() == [json.loads(cell) for cell in cells]


def test_nulls(tmp_path: Path) -> None:
    columns = {"t": ["a", None], "b": [b"a", None], "j": ["[1]", None]}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    decode = {"t": fb.Text(), "b": fb.Text(), "j": fb.Json()}
    fill: dict[str, Any] = {"t": "none", "b": ""}
    with fb.Loader(tmp_path, decode=decode, fill_null=fill) as loader:
        batch = next(iter(loader))
        assert [batch[name].tolist() for name in "tbj"] == [["a", "none"], ["a", ""], [[1], None]]
    with fb.Loader(tmp_path, decode=decode, fill_null={**fill, "j": '{"a": 0}'}) as loader:
        assert next(iter(loader))["j"].tolist() == [[1], {"a": 0}]
    with fb.Loader(tmp_path, decode=decode, null_mask=["*"], fill_null={"t": "?"}) as loader:
        batch = next(iter(loader))
        assert [batch[name].tolist() for name in "tbj"] == [["a", "?"], ["a", ""], [[1], None]]
        assert all(batch[f"{name}.mask"].tolist() == [True, False] for name in "tbj")


def test_names_patterns_and_structures(tmp_path: Path) -> None:
    table = {"meta": [{"caption": "a", "about": "[1]"}], "x": ["b"]}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    decode = {"caption": fb.Text(), "meta.about": fb.Json(), "y": fb.Text()}
    with fb.Loader(tmp_path, flatten=True, rename={"meta.caption": "caption", "x": "y"}, decode=decode) as loader:
        batch = next(iter(loader))
        assert (
            batch["caption"].dtype == STRINGS and batch["y"].tolist() == ["b"] and batch["meta.about"].tolist() == [[1]]
        )


def test_frameworks(texts: Path) -> None:
    torch = pytest.importorskip("torch")
    with fb.Loader(texts, decode=DECODE) as loader:
        batch = next(iter(fb.torch.batches(loader)))
        assert isinstance(batch["id"], torch.Tensor)
        assert batch["text"].dtype == STRINGS and batch["json"].tolist() == [value(row) for row in range(32)]


def test_jax(texts: Path) -> None:
    pytest.importorskip("jax")
    with fb.Loader(texts, decode=DECODE) as loader:
        batch = next(iter(fb.jax.batches(loader)))
        assert batch["text"].dtype == STRINGS and batch["json"].tolist() == [value(row) for row in range(32)]


def test_tensorflow(texts: Path) -> None:
    pytest.importorskip("tensorflow")
    with fb.Loader(texts, columns=["id", "text"], decode={"text": fb.Text()}) as loader:
        element = next(iter(fb.tf.dataset(loader)))
        assert [cell.decode() for cell in element["text"].numpy()] == [caption(row) for row in range(32)]
    refused = pytest.raises(fb.UnsupportedError, match="no TensorFlow type")
    with fb.Loader(texts, columns=["json"], decode={"json": fb.Json()}) as loader, refused:
        fb.tf.dataset(loader)


def test_loaders_are_copied_and_shown_with_it(texts: Path) -> None:
    decode = {"text": fb.Text(), "json": fb.Json()}
    with fb.Loader(texts, decode=decode) as loader:
        assert "decode={'text': forebay.Text(), 'json': forebay.Json()}" in repr(loader)
        assert loader.spec["texts"] == {"text": "plain", "json": "json"}
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert next(iter(copy))["text"].dtype == STRINGS
    with fb.Loader(texts) as loader:
        assert "texts" not in loader.spec and next(iter(loader))["text"].dtype == object
    assert fb.Text() == fb.Text() and fb.Json() == fb.Json() and hash(fb.Text()) == hash(fb.Text())


def test_what_can_never_work_is_refused(texts: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"decode": {"id": fb.Text()}}, "holds int64, not text"),
        ({"decode": {"id": fb.Json()}}, "holds int64, not text"),
        ({"decode": {"text": fb.Text}}, "must be a forebay.Image.*Text, Json or None, got"),
        ({"decode": {"text": fb.Text()}, "encode": {"text": fb.Hash(5)}}, "two options.*decode, encode or pad it"),
        ({"decode": {"text": fb.Text()}, "fill_null": {"text": 5}}, "give a text"),
        ({"decode": {"json": fb.Json()}, "fill_null": {"json": "{"}}, "is not JSON"),
        ({"decode": {"text": fb.Text()}, "columns": ["id"]}, "not among the columns"),
        ({"decode": {"text": fb.Text()}, "cast": {"text": "int8"}}, "holds int8, not text"),
    ]
    for arguments, message in refused:
        with pytest.raises(fb.InvalidError, match=f"(?s){message}"):
            fb.Loader(texts, **arguments)
    with pytest.raises(fb.UnknownColumnError, match="no column"):
        fb.Loader(texts, decode={"txet": fb.Text()})
    monkeypatch.delattr(np.dtypes, "StringDType")
    with pytest.raises(fb.InvalidError, match="needs numpy 2 or later"):
        fb.Text()
