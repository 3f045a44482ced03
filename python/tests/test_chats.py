"""Lists of structures in functions of rows, and lists that functions return."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

CHATS = [
    [{"role": "user", "content": "hello there"}, {"role": "assistant", "content": "general"}],
    [{"role": "user", "content": "hello"}],
    [],
    None,
    [{"role": "user", "content": None}, None],
]
NESTED = pa.list_(
    pa.struct({"name": pa.string(), "parts": pa.list_(pa.struct({"n": pa.int32(), "w": pa.list_(pa.float32())}))})
)


@pytest.fixture
def chats(tmp_path):
    message = pa.list_(pa.struct({"role": pa.string(), "content": pa.string()}))
    table = pa.table({"messages": pa.array(CHATS, message), "id": range(5)})
    pq.write_table(table, tmp_path / "chats.parquet")
    return tmp_path / "chats.parquet"


def seen(path, **options):
    """Returns the rows that a function gets."""
    rows = []

    def keep(row):
        rows.append(row)
        return {"id": row["id"]}

    list(fb.Loader(path, transform_rows=keep, **options))
    return rows


def test_rows_have_lists_of_dicts_and_none_for_nulls(chats):
    assert [row["messages"] for row in seen(chats)] == CHATS


def test_structures_in_lists_at_any_depth(tmp_path):
    values = [
        [{"name": "a", "parts": [{"n": 1, "w": [0.5]}, {"n": None, "w": None}]}, {"name": None, "parts": None}],
        [{"name": "b", "parts": []}],
    ]
    inside = pa.array(
        [{"list": value, "n": at} for at, value in enumerate(values)], pa.struct({"list": NESTED, "n": pa.int64()})
    )
    table = pa.table({"x": pa.array(values, NESTED), "s": inside, "id": [0, 1]})
    pq.write_table(table, tmp_path / "nested.parquet")
    rows = seen(tmp_path / "nested.parquet")
    assert [row["x"] for row in rows] == values
    assert [row["s"] for row in rows] == [{"list": value, "n": at} for at, value in enumerate(values)]


def test_a_slice_of_rows_has_its_own_lists(tmp_path):
    values = [[{"n": row * 10 + at} for at in range(row % 4)] for row in range(50)]
    pq.write_table(pa.table({"x": values, "id": range(50)}), tmp_path / "x.parquet", row_group_size=7)
    options = {"batch_size": 3, "shuffle": fb.Shuffle(seed=5)}
    for row in seen(tmp_path / "x.parquet", **options):
        assert row["x"] == values[row["id"]]


@pytest.mark.parametrize("workers", [0, fb.Workers(2, threads=True)])
def test_lists_of_differing_length_are_ragged(chats, workers):
    def words(row):
        texts = [turn["content"] for turn in row["messages"] or [] if turn and turn["content"]]
        return {"tokens": [len(word) for text in texts for word in text.split()], "texts": texts, "id": row["id"]}

    batch = next(iter(fb.Loader(chats, transform_rows=words, transform_workers=workers)))
    assert isinstance(batch["tokens"], fb.Ragged) and batch["tokens"].dtype == np.int64
    assert batch["tokens"].tolist() == [[5, 5, 7], [5], [], [], []]
    assert batch["texts"].tolist() == [["hello there", "general"], ["hello"], [], [], []]


def test_lists_of_lists_and_of_dicts_and_empty_ones(chats):
    def made(row):
        number = int(row["id"])
        return {
            "lists": [[1.5] * number, []],
            "dicts": [{"n": at, "text": str(at)} for at in range(number)],
            "empty": [],
            "arrays": [np.full(2, number, np.int8)] * number,
        }

    batch = next(iter(fb.Loader(chats, transform_rows=made)))
    assert batch["lists"].tolist() == [[[1.5] * number, []] for number in range(5)]
    assert batch["dicts"].tolist()[2] == [{"n": 0, "text": "0"}, {"n": 1, "text": "1"}]
    assert batch["empty"].tolist() == [[]] * 5 and batch["empty"].dtype == np.int64
    assert batch["arrays"].values.shape == (10, 2) and batch["arrays"].dtype == np.int8


def test_rows_that_pass_through_are_ragged_again(tmp_path):
    values = [[{"n": 1, "t": "a"}], [], [{"n": 2, "t": "b"}, {"n": 3, "t": "c"}]]
    pq.write_table(pa.table({"x": values}), tmp_path / "x.parquet")
    batch = next(iter(fb.Loader(tmp_path / "x.parquet", transform_rows=lambda row: {"x": row["x"]})))
    assert isinstance(batch["x"], fb.Ragged) and batch["x"].tolist() == values


def test_a_list_beside_another_value_is_refused(chats):
    loader = fb.Loader(chats, transform_rows=lambda row: {"x": [1] if row["id"] else 1.5})
    with pytest.raises(fb.InvalidError, match="column 'x' differ in type: list in row 1"):
        next(iter(loader))
    loader = fb.Loader(chats, transform_rows=lambda row: {"x": None if row["id"] else [1]})
    with pytest.raises(fb.InvalidError, match="column 'x' differ in type: NoneType in row 1.*a list for each row"):
        next(iter(loader))


def test_a_tokenizer_takes_the_messages(chats):
    tokenizers = pytest.importorskip("tokenizers")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("jinja2")
    known = ["[UNK]", "user", "assistant", ":", "hello", "there", "general"]
    model = tokenizers.models.WordLevel({word: at for at, word in enumerate(known)}, unk_token="[UNK]")
    words = tokenizers.Tokenizer(model)
    words.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    tokenizer = transformers.PreTrainedTokenizerFast(tokenizer_object=words, unk_token="[UNK]")
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }} : {{ m['content'] }} {% endfor %}"

    def tokens(row):
        ids = tokenizer.apply_chat_template(row["messages"], tokenize=True, return_dict=False)
        return {"tokens": list(ids), "id": row["id"]}

    loader = fb.Loader(chats, filter=[("id", "<", 2)], transform_rows=tokens)
    batch = next(iter(loader))
    assert batch["tokens"].tolist() == [[1, 3, 4, 5, 2, 3, 6], [1, 3, 4]]
