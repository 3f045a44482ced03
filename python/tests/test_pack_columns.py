"""Columns that have a value for each document beside packed tokens, compared with plain Python."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 240


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of 0 to 30 tokens in two folders. Each token is the number of its document, so the tokens of a pack
    say which documents it has."""
    root = tmp_path_factory.mktemp("documents")
    draws = np.random.default_rng(5)
    lengths = draws.integers(0, 31, ROWS)
    table = pa.table(
        {
            "n": np.arange(1, ROWS + 1),
            "tokens": pa.array([[at] * length for at, length in enumerate(lengths, 1)], pa.list_(pa.int32())),
            "source": [f"https://a.example/{at}" for at in range(1, ROWS + 1)],
            "score": np.arange(ROWS, dtype=np.float32) / 2,
            "spans": pa.array([list(range(at % 4)) for at in range(ROWS)], pa.list_(pa.int16())),
            "kind": [("web", "book", "code")[at % 3] for at in range(ROWS)],
            "bytes": [b"x"] * ROWS,
            "some": [None if at % 10 == 3 else at for at in range(ROWS)],
        }
    )
    for at, lang in enumerate(("de", "en")):
        (root / f"lang={lang}").mkdir()
        pq.write_table(table.slice(at * 120, 120), root / f"lang={lang}" / "t.parquet", row_group_size=50)
    return root


def of_packs(batch: Any) -> list[list[int]]:
    """Returns the numbers of the documents in each pack, in order."""
    found = []
    for tokens, segments in zip(batch["tokens"], batch["segment_ids"], strict=True):
        found.append([int(tokens[segments == one][0]) for one in range(1, segments.max() + 1)])
    return found


PACKS = [
    fb.Pack("tokens", 64),
    fb.Pack("tokens", 7),
    fb.Pack("tokens", 50, across="dataset"),
    fb.Pack("tokens", 64, split=False),
    fb.Pack("tokens", 16, split=False, truncate=True),
    fb.Pack("tokens", 11, split="long"),
]
COLUMNS = ["source", "tokens", "score", "n", "spans", "lang"]


@pytest.mark.parametrize("pack", PACKS, ids=repr)
@pytest.mark.parametrize("world", [1, 3])
def test_each_document_of_a_pack_has_its_values(documents: Path, tmp_path: Path, pack: fb.Pack, world: int) -> None:
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")
    for extra in ({}, {"filter": fb.col("n") % 5 != 0}, {"cache": cache}):
        alone = fb.Loader(documents, samples=pack, batch_size=4, **extra)
        options: dict[str, Any] = {"columns": COLUMNS, "row_id": True, "row_mask": True, "shuffle": fb.Shuffle(seed=3)}
        shards = [fb.Shard(rank=rank, world=world) for rank in range(world)]
        ranks = [fb.Loader(documents, samples=pack, batch_size=4, shard=shard, **options, **extra) for shard in shards]
        assert ranks[0].schema.names == [
            *COLUMNS, "row_id", "position_ids", "segment_ids", "cu_seqlens", "row_mask",
        ]  # fmt: skip
        found = []
        for loader in ranks:
            for step, batch in enumerate(loader.epoch(1)):
                packs = of_packs(batch)
                assert [one.tolist() for one in batch["n"]] == packs
                assert [list(one) for one in batch["source"]] == [[f"https://a.example/{n}" for n in one] for one in packs]
                assert [one.tolist() for one in batch["score"]] == [[(n - 1) / 2 for n in one] for one in packs]
                assert [[len(span) for span in one] for one in batch["spans"]] == [[(n - 1) % 4 for n in one] for one in packs]
                assert [list(one) for one in batch["lang"]] == [["de" if n <= 120 else "en" for n in one] for one in packs]
                planned = loader.which(step, epoch=1)
                assert np.concatenate(list(batch["row_id"])).tolist() == [row.row_id for row in planned]
                counted = batch["tokens"][batch["row_mask"]].tolist()
                found += counted
        assert sorted(found) == sorted(row.tolist() for batch in alone for row in batch["tokens"])


def test_options_deliver_the_columns_that_are_not_packed(documents: Path) -> None:
    loader = fb.Loader(
        documents,
        samples=fb.Pack("tokens", 64),
        columns=["tokens", "kind", "some", "n"],
        encode={"kind": fb.Vocabulary(["web", "book", "code"])},
        fill_null={"some": -1},
        null_mask=["some"],
        cast={"document": "int16"},
        rename={"n": "document"},
        batch_size=3,
    )
    for batch in loader:
        for documents_of, kinds, some, there, numbers in zip(
            of_packs(batch), batch["kind"], batch["some"], batch["some.mask"], batch["document"], strict=True
        ):
            assert kinds.tolist() == [(n - 1) % 3 for n in documents_of]
            assert there.tolist() == [(n - 1) % 10 != 3 for n in documents_of]
            assert some.tolist() == [n - 1 if (n - 1) % 10 != 3 else -1 for n in documents_of]
            assert numbers.tolist() == documents_of and numbers.dtype == np.int16


@pytest.mark.parametrize("refill", [False, True])
def test_a_pack_that_is_left_out_takes_its_values_along(documents: Path, refill: bool) -> None:
    skip = fb.Skip(at_most=1000, refill=refill)
    options: dict[str, Any] = {"columns": ["tokens", "some", "n"], "row_id": True, "batch_size": 4}
    with fb.Loader(documents, samples=fb.Pack("tokens", 32), on_bad_row=skip, **options) as loader:
        found = [(one, some.tolist(), ids) for batch in loader for one, some, ids in zip(of_packs(batch), batch["some"], batch["row_id"], strict=True)]
        assert loader.skipped() and all('"some"' in repr(bad) or bad.column == "some" for bad in loader.skipped())
    assert found
    for one, some, ids in found:
        assert some == [n - 1 for n in one] and len(ids) == len(one)
        assert not any((n - 1) % 10 == 3 for n in one)


def test_a_state_resumes_with_the_values_on_other_ranks(documents: Path) -> None:
    def made(rank: int, world: int) -> fb.Loader:
        options: dict[str, Any] = {"columns": ["tokens", "source"], "shuffle": fb.Shuffle(seed=2, lanes=2)}
        pack, shard = fb.Pack("tokens", 32), fb.Shard(rank=rank, world=world)
        return fb.Loader(documents, samples=pack, global_batch_size=8, shard=shard, **options)

    def rows(batch: Any) -> list[Any]:
        return [(tokens.tolist(), list(source)) for tokens, source in zip(batch["tokens"], batch["source"], strict=True)]

    loader = made(0, 1)
    epoch = iter(loader)
    for _ in range(5):
        next(epoch)
    state = json.loads(json.dumps(loader.state_dict()))
    rest = [sorted(rows(batch)) for batch in epoch]
    ranks = [made(rank, 2) for rank in range(2)]
    for rank in ranks:
        rank.load_state_dict(state)
    together = [sorted([*rows(one), *rows(other)]) for one, other in zip(*ranks, strict=True)]
    assert together[:-1] == rest[:-1] and len(together) == len(rest)


def test_packs_with_values_are_mixed(documents: Path) -> None:
    def source(length: int) -> fb.Loader:
        return fb.Loader(documents, samples=fb.Pack("tokens", length), columns=["tokens", "source"])

    mix = fb.Mix([(source(32), 1.0), (source(32), 2.0)], batch_size=6)
    for batch in mix:
        assert [list(one) for one in batch["source"]] == [[f"https://a.example/{n}" for n in one] for one in of_packs(batch)]


def test_long_values_count_in_the_memory_of_a_batch(tmp_path: Path) -> None:
    """The text counts in the size of a batch, and a batch that is too large because of its text is refused."""
    table = pa.table({"tokens": pa.array([[at] for at in range(64)], pa.list_(pa.int32())), "text": ["x" * (1 << 20)] * 64})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=8)
    made = fb.Loader(tmp_path, samples=fb.Pack("tokens", 2), columns=["tokens", "text"], batch_size=1, memory="128MiB")
    assert [len(text) for batch in made for one in batch["text"] for text in one] == [1 << 20] * 64
    with pytest.raises(fb.TooLargeError, match="memory|batch_size"):
        list(fb.Loader(tmp_path, samples=fb.Pack("tokens", 2), columns=["tokens", "text"], batch_size=32, memory="128MiB"))


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"columns": ["source"]}, 'column "tokens": is packed, but `columns` does not list it .*list it'),
        ({"columns": ["tokens", "n"], "rename": {"n": "segment_ids"}}, "packs add a column of this name"),
        ({"columns": ["tokens"], "pad": {"tokens": fb.Pad()}}, 'column "tokens": `pad` names the column, which is packed'),
        ({"columns": ["tokens"], "cast": {"tok*": "int64"}}, "`cast` names the column, which is packed"),
        ({"columns": ["tokens"], "null_mask": ["tokens"]}, "`null_mask` names the column, which is packed"),
        ({"columns": ["tokens", "bytes"], "decode": {"bytes": fb.Image.resize(2, 2)}}, "is decoded, which columns of packs are not .*leave it out"),
    ],
)
def test_what_packs_cannot_deliver_is_refused(documents: Path, options: dict[str, Any], said: str) -> None:
    with pytest.raises(fb.InvalidError, match=said):
        fb.Loader(documents, samples=fb.Pack("tokens", 8), **options)
