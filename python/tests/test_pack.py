"""Packs of tokens and buckets of rows, compared with plain Python."""

from __future__ import annotations

import bisect
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import planned_batches, row_groups

import forebay as fb

ROWS = 300


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of 0 to 60 tokens in two files with row groups of 45; each token occurs once."""
    root = tmp_path_factory.mktemp("documents")
    draws = np.random.default_rng(3)
    lengths = draws.integers(0, 61, ROWS)
    lengths[[4, 100]] = 0
    tokens = np.split(np.arange(1, lengths.sum() + 1), np.cumsum(lengths)[:-1])
    table = pa.table(
        {
            "id": np.arange(ROWS),
            "tokens": pa.array([list(one) for one in tokens], pa.list_(pa.int32())),
            "labels": pa.array([[-t for t in one] for one in tokens], pa.large_list(pa.int64())),
            "n": lengths.astype(np.int16),
            "text": ["x" * length for length in lengths],
            "score": np.ones(ROWS),
        }
    )
    pq.write_table(table.slice(0, 200), root / "a.parquet", row_group_size=45)
    pq.write_table(table.slice(200), root / "b.parquet", row_group_size=45)
    return root


def split(lists: list[list[int]], length: int) -> list[list[list[int]]]:
    """Returns the pieces of lists in each pack, cut where a pack ends."""
    packs: list[list[list[int]]] = []
    room = 0
    for one in lists:
        while one:
            if room == 0:
                packs.append([])
                room = length
            packs[-1].append(one[:room])
            one, room = one[room:], room - len(packs[-1][-1])
    return packs


def fitted(lists: list[list[int]], length: int) -> list[list[int]]:
    """Packs whole lists, the longest first, each where it leaves the least room; returns their rows."""
    packs: list[list[int]] = []
    rooms: list[tuple[int, int]] = []
    for row in sorted((row for row, one in enumerate(lists) if one), key=lambda row: (-len(lists[row]), row)):
        at = bisect.bisect_left(rooms, (len(lists[row]), 0))
        if at == len(rooms):
            packs.append([])
            room, pack = length, len(packs) - 1
        else:
            room, pack = rooms.pop(at)
        packs[pack].append(row)
        if room > len(lists[row]):
            bisect.insort(rooms, (room - len(lists[row]), pack))
    return packs


def best_fit(lists: list[list[int]], length: int) -> list[list[list[int]]]:
    """Packs whole lists; packs and their lists stay in stored order."""
    return [[lists[row] for row in pack] for pack in sorted(map(sorted, fitted(lists, length)))]


def split_long(lists: list[list[int]], length: int) -> list[list[list[int]]]:
    """Cuts lists that are longer than a pack into packs of their own, and packs what is left of them with the whole
    lists."""
    pieces: dict[tuple[int, int], list[int]] = {}
    for row, one in enumerate(lists):
        full = len(one) // length * length if len(one) > length else 0
        pieces |= {(row, start): one[start : start + length] for start in range(0, full, length)}
        pieces |= {(row, full): one[full:]} if one[full:] else {}
    alone = [at for at, piece in pieces.items() if len(piece) == length and len(lists[at[0]]) > length]
    shared = [at for at in pieces if at not in alone]
    packs = [[shared[item] for item in pack] for pack in fitted([pieces[at] for at in shared], length)]
    return [[pieces[at] for at in pack] for pack in sorted(map(sorted, [*packs, *([at] for at in alone)]))]


def laid_out(pieces: list[list[int]], length: int, value: int) -> dict[str, list[int]]:
    tokens = [token for piece in pieces for token in piece]
    room = length - len(tokens)
    ends = [0]
    for piece in pieces:
        ends.append(ends[-1] + len(piece))
    return {
        "tokens": tokens + [value] * room,
        "position_ids": [at for piece in pieces for at in range(len(piece))] + list(range(room)),
        "segment_ids": [n + 1 for n, piece in enumerate(pieces) for _ in piece] + [0] * room,
        "cu_seqlens": ends + [length] * (room > 0),
    }


def number_of(numbers: Any, column: str) -> Any:
    return numbers.get(column, 0) if isinstance(numbers, dict) else numbers


def marked(one: list[int], pack: fb.Pack, column: str = "tokens") -> list[int]:
    """Returns a list with the numbers that the pack puts before and after it. An empty list stays empty."""
    before, after = ([] if mark is None else [number_of(mark, column)] for mark in (pack.bos, pack.eos))
    return [*before, *one, *after] if one else []


def by_hand(
    root: Path, pack: fb.Pack, keep: Any = lambda row: True, column: str = "tokens"
) -> list[dict[str, list[int]]]:
    found = []
    for rows in row_groups(root):
        lists = [marked(row[column], pack, column) for row in rows if keep(row)]
        if pack.truncate:
            lists = [one[: pack.length] for one in lists]
        packs = {True: split, False: best_fit, "long": split_long}[pack.split](lists, pack.length)
        found += [laid_out(pieces, pack.length, int(number_of(pack.value, column))) for pieces in packs]
    return found


def delivered(loader: Any) -> list[dict[str, list[int]]]:
    names = ("tokens", "position_ids", "segment_ids", "cu_seqlens")
    return [
        {name: np.asarray(batch[name][at]).tolist() for name in names}
        for batch in loader
        for at in range(len(batch["tokens"]))
    ]


PACKS = [
    fb.Pack("tokens", 64),
    fb.Pack("tokens", 7, value=-5),
    fb.Pack(["tokens", "labels"], 100, lengths="n"),
    fb.Pack("tokens", 64, split=False),
    fb.Pack("tokens", 128, split=False, value=9, lengths="n"),
    fb.Pack("tokens", 20, split=False, truncate=True),
    fb.Pack(["tokens", "labels"], 7, value={"labels": -100}),
    fb.Pack("tokens", 64, eos=-1),
    fb.Pack("tokens", 7, bos=-1, eos=-2, lengths="n"),
    fb.Pack(["tokens", "labels"], 9, bos={"tokens": -1, "labels": -100}, eos={"tokens": -2, "labels": -2}),
    fb.Pack("tokens", 64, split=False, bos=-1, eos=-2, lengths="n"),
    fb.Pack("tokens", 20, split=False, truncate=True, eos=-1),
    fb.Pack("tokens", 1, bos=-1),
    fb.Pack("tokens", 20, split="long"),
    fb.Pack(["tokens", "labels"], 17, split="long", bos=-1, eos=-2, lengths="n", value={"labels": -100}),
    fb.Pack("tokens", 1, split="long"),
]


@pytest.mark.parametrize("pack", PACKS, ids=repr)
def test_packs_are_those_of_a_plain_packer(documents: Path, pack: fb.Pack) -> None:
    assert delivered(fb.Loader(documents, samples=pack, batch_size=5)) == by_hand(documents, pack)
    even = fb.Loader(documents, samples=pack, batch_size=5, filter=fb.col("id") % 2 == 0)
    assert delivered(even) == by_hand(documents, pack, lambda row: row["id"] % 2 == 0)


def test_numbers_stand_before_and_after_the_lists_of_each_column(documents: Path) -> None:
    pack = fb.Pack(["tokens", "labels"], 30, bos={"tokens": -1, "labels": -100}, eos={"tokens": -2, "labels": -3})
    labels = [row.tolist() for batch in fb.Loader(documents, samples=pack, batch_size=5) for row in batch["labels"]]
    assert labels == [one["tokens"] for one in by_hand(documents, pack, column="labels")]
    # The packs are the same if the files already have -2 at the end of each list.
    written = documents.parent / "written"
    written.mkdir()
    for path in documents.glob("*.parquet"):
        rows = pq.read_table(path, columns=["tokens"])["tokens"].to_pylist()
        table = pa.table({"tokens": [[*row, -2] if row else [] for row in rows]})
        pq.write_table(table, written / path.name, row_group_size=45)
    for options in ({}, {"split": False}, {"across": "dataset"}):
        ours = fb.Loader(documents, samples=fb.Pack("tokens", 64, eos=-2, **options), batch_size=5)
        theirs = fb.Loader(written, samples=fb.Pack("tokens", 64, **options), batch_size=5)
        assert delivered(ours) == delivered(theirs)


def test_a_list_that_does_not_fit_with_what_stands_around_it_is_refused(documents: Path, tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array([[1, 2, 3]], pa.list_(pa.int8())), "n": [2]}), tmp_path / "t.parquet")
    fb.Loader(tmp_path, samples=fb.Pack("x", 5, split=False, bos=1, eos=2))
    with pytest.raises(fb.BadRowError, match='column "x": a list of 3 values with bos and eos does not fit a pack of 4'):
        fb.Loader(tmp_path, samples=fb.Pack("x", 4, split=False, bos=1, eos=2))
    with pytest.raises(fb.BadRowError, match="a list of 3 values, where packs were planned with 2"):
        list(fb.Loader(tmp_path, samples=fb.Pack("x", 4, lengths="n", eos=2)))
    with pytest.raises(fb.InvalidError, match='column "x": packs of int8 cannot have lists that end with 300.*give eos a'):
        fb.Loader(tmp_path, samples=fb.Pack("x", 4, eos=300))
    with pytest.raises(fb.InvalidError, match="cannot have lists that begin with 0.5"):
        fb.Loader(tmp_path, samples=fb.Pack("x", 4, bos=0.5))


def test_a_state_is_of_the_same_lengths(documents: Path) -> None:
    def loader(**options: Any) -> fb.Loader:
        return fb.Loader(documents, samples=fb.Pack("tokens", 64, **options), batch_size=5)

    state = loader(eos=-1).state_dict()
    loader(eos=-2).load_state_dict(state)
    for options in ({}, {"bos": -1}, {"bos": -1, "eos": -1}):
        with pytest.raises(fb.StateMismatchError, match="saved with samples"):
            loader(**options).load_state_dict(state)


def test_several_columns_are_packed_alike(documents: Path) -> None:
    for batch in fb.Loader(documents, samples=PACKS[2], batch_size=5):
        assert (batch["tokens"].dtype, batch["labels"].dtype) == (np.int32, np.int64)
        np.testing.assert_array_equal(batch["labels"], -batch["tokens"])
        assert batch["position_ids"].dtype == batch["segment_ids"].dtype == np.int32


def test_flash_attention_gets_all_lists_of_a_batch(documents: Path) -> None:
    batch = next(iter(fb.Loader(documents, samples=fb.Pack("tokens", 64), batch_size=6)))
    ends, longest = fb.Pack.flash(batch)
    assert (ends[0], ends[-1], ends.dtype) == (0, 6 * 64, np.int32)
    positions = batch["position_ids"].reshape(-1)
    assert positions.max() + 1 == longest == np.diff(ends).max()
    np.testing.assert_array_equal(np.flatnonzero(positions == 0), ends[:-1])


@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("pack", [PACKS[0], PACKS[3], PACKS[-3]], ids=["split", "whole", "long"])
def test_each_token_comes_once_on_any_world(documents: Path, tmp_path: Path, pack: fb.Pack, world: int) -> None:
    expected = sorted(one["tokens"] for one in by_hand(documents, pack))
    for extra in ({}, {"cache": fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")}):
        ranks = [
            fb.Loader(
                documents,
                samples=pack,
                batch_size=4,
                shuffle=fb.Shuffle(seed=4, window_rows=150),
                shard=fb.Shard(rank=rank, world=world),
                row_mask=True,
                **extra,
            )
            for rank in range(world)
        ]
        assert len({len(loader) for loader in ranks}) == 1
        for epoch in range(2):
            found = [
                row.tolist() for loader in ranks for batch in loader.epoch(epoch) for row in batch["tokens"][batch["row_mask"]]
            ]
            assert sorted(found) == expected


@pytest.mark.parametrize(
    "samples", [PACKS[0], PACKS[3], PACKS[-3], fb.Bucket("tokens", rows=8)], ids=["split", "whole", "long", "bucket"]
)
def test_a_state_resumes_at_the_next_sample_on_any_world(documents: Path, samples: Any) -> None:
    def made(rank: int, world: int, threads: int) -> fb.Loader:
        options: dict[str, Any] = {"threads": threads, "shard": fb.Shard(rank=rank, world=world)}
        shuffle = fb.Shuffle(seed=2, window_rows=100, lanes=2)
        return fb.Loader(documents, samples=samples, global_batch_size=6, shuffle=shuffle, **options)

    def rows(batch: Any) -> list[Any]:
        return [np.asarray(one).tolist() for one in batch["tokens"]]

    loader = made(0, 1, 2)
    states, steps = [], []
    for batch in loader:
        steps.append(sorted(rows(batch)))
        states.append(json.loads(json.dumps(loader.state_dict())))
    for at in range(0, len(states) - 1, 3):
        tails = []
        for rank in range(4):
            resumed = made(rank, 4, 1)
            resumed.load_state_dict(states[at])
            tails.append([rows(batch) for batch in resumed])
        whole = len(steps) - at - 2
        together = [sorted(row for tail in tails for row in tail[step]) for step in range(whole)]
        assert together == steps[at + 1 : -1]
        assert len({len(tail) for tail in tails}) == 1


def test_the_plan_names_the_documents_of_a_batch(documents: Path) -> None:
    loader = fb.Loader(documents, samples=PACKS[3], batch_size=3, shuffle=fb.Shuffle(seed=1))
    for step, batch in enumerate(loader):
        tokens = []
        for place in loader.which(step, epoch=0):
            tokens += pq.ParquetFile(place.file).read_row_group(place.row_group)["tokens"][place.row].as_py()
        assert tokens == batch["tokens"][batch["segment_ids"] > 0].tolist()


def test_a_list_of_another_length_is_a_bad_row(tmp_path: Path) -> None:
    lists = [[1, 2, 3], [4, 5], [6, 7, 8], [9]]
    pq.write_table(pa.table({"x": lists, "n": [3, 2, 2, 1]}), tmp_path / "t.parquet")
    pack = fb.Pack("x", 5, lengths="n")
    with pytest.raises(fb.BadRowError, match='row 2, column "x": a list of 3 values, where packs were planned with 2'):
        list(fb.Loader(tmp_path, samples=pack))
    with fb.Loader(tmp_path, samples=pack, on_bad_row=fb.Skip(at_most=9)) as loader:
        assert [batch["x"].tolist() for batch in loader] == [[[1, 2, 3, 4, 5]]]
        assert [bad.row for bad in loader.skipped()] == [2]


def test_a_null_in_a_list_leaves_its_pack_out(tmp_path: Path) -> None:
    lists = [[1, 2], [], [3, None], [4, 5]]
    pq.write_table(pa.table({"x": pa.array(lists, pa.list_(pa.int8()))}), tmp_path / "t.parquet")
    with pytest.raises(fb.BadRowError, match="row 2.*null in a list that is packed"):
        list(fb.Loader(tmp_path, samples=fb.Pack("x", 2)))
    with fb.Loader(tmp_path, samples=fb.Pack("x", 2), on_bad_row=fb.Skip(at_most=1)) as loader:
        (batch,) = loader
        assert batch["x"].tolist() == [[1, 2], [4, 5]]
        assert [ends.tolist() for ends in batch["cu_seqlens"]] == [[0, 2], [0, 2]]


def test_each_column_is_filled_up_with_its_own_value(documents: Path) -> None:
    pack = fb.Pack(["tokens", "labels"], 100, split=False, value={"tokens": 7, "labels": -100})
    for batch in fb.Loader(documents, samples=pack, batch_size=5):
        is_filled = batch["segment_ids"] == 0
        assert is_filled.any() and (batch["tokens"][is_filled] == 7).all() and (batch["labels"][is_filled] == -100).all()
        np.testing.assert_array_equal(batch["labels"][~is_filled], -batch["tokens"][~is_filled])
    renamed = fb.Loader(documents, samples=fb.Pack(["ids"], 100, value={"ids": 7}), rename={"tokens": "ids"}, batch_size=5)
    batch = next(iter(renamed))
    assert (batch["ids"][batch["segment_ids"] == 0] == 7).all()
    with pytest.raises(fb.InvalidError, match="cannot be filled up with -100"):
        fb.Loader(_unsigned(documents.parent), samples=fb.Pack("x", 8, value={"x": -100}))


def _unsigned(root: Path) -> Path:
    path = root / "unsigned.parquet"
    pq.write_table(pa.table({"x": pa.array([[1]], pa.list_(pa.uint8()))}), path)
    return path


@pytest.fixture
def odd(tmp_path: Path) -> Path:
    """A data set of two row groups, in which rows 1 and 6 have no list, and rows 3 and 7 have one of 9
    values."""
    lists = [[1, 2], None, [3], [4] * 9, [5, 6], [7], None, [8] * 9, [9]]
    table = pa.table({"id": range(9), "x": pa.array(lists, pa.list_(pa.int64()))})
    pq.write_table(table, tmp_path / "odd.parquet", row_group_size=5)
    return tmp_path


@pytest.mark.parametrize(
    ("samples", "said"),
    [
        (fb.Pack("x", 4), "row group 0, row 1, column \"x\": null where a list is packed .*deny.*Skip"),
        (fb.Pack("x", 4, across="file"), "row 1, column \"x\": null where a list"),
        (fb.Pack("x", 4, split=False, truncate=True), "row 1, column \"x\": null where a list"),
        (fb.Bucket("x", tokens=4), "row 3, column \"x\": a row of 9 values does not fit a bucket of 4 .*tokens.*Skip"),
    ],
    ids=repr,
)
def test_rows_that_no_sample_holds_are_refused_with_their_place(odd: Path, samples: Any, said: str) -> None:
    with pytest.raises(fb.ForebayError, match=said):
        fb.Loader(odd, samples=samples)


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize(
    ("samples", "bad"),
    [
        (fb.Pack("x", 4), [1, 6]),
        (fb.Pack("x", 4, across="dataset"), [1, 6]),
        (fb.Pack("x", 4, split=False), [1, 3, 6, 7]),
        (fb.Pack("x", 4, split=False, truncate=True), [1, 6]),
        (fb.Bucket("x", tokens=4), [3, 7]),
    ],
    ids=repr,
)
def test_rows_that_no_sample_holds_are_skipped_and_counted_once(odd: Path, samples: Any, bad: list[int], world: int) -> None:
    found: list[int] = []
    for epoch in range(2):
        listed = []
        for rank in range(world):
            shard, skip = fb.Shard(rank=rank, world=world), fb.Skip(at_most=len(bad))
            # A bucket also delivers rows whose list is null, so they need a value.
            fill: Any = {"fill_null": {"x": 0}} if isinstance(samples, fb.Bucket) else {}
            loader = fb.Loader(odd, samples=samples, batch_size=1, shard=shard, on_bad_row=skip, **fill)
            kept = [row for batch in loader.epoch(epoch) for row in batch["x"]]
            found += [value for row in kept for value in np.asarray(row).tolist() if value not in (0, 4, 8)]
            listed += [(row.row_group or 0) * 5 + (row.row or 0) for row in loader.skipped()]
            assert loader.stats().to_dict()["skipped_rows"] == len(loader.skipped())
        assert sorted(listed) == bad
    assert set(found) == {1, 2, 3, 5, 6, 7, 9}


def test_rows_that_no_sample_holds_count_against_the_limit(odd: Path) -> None:
    loader = fb.Loader(odd, samples=fb.Pack("x", 4), batch_size=1, on_bad_row=fb.Skip(at_most=1))
    with pytest.raises(fb.BadRowError, match="row group 1, row 1.*2 bad rows, of which 1 may be skipped: null where a list"):
        list(loader)
    # Bad rows are counted when an epoch begins, and not again when it is resumed.
    options: Any = {"samples": fb.Pack("x", 4), "batch_size": 1, "on_bad_row": fb.Skip(at_most=2)}
    first, second = fb.Loader(odd, **options), fb.Loader(odd, **options)
    next(iter(first))
    state = first.state_dict()
    assert state["skipped"] == 2
    second.load_state_dict(state)
    assert len(list(second)) == len(first) - 1 and second.skipped() == []
    list(second)
    assert [row.row for row in second.skipped()] == [1, 1]


def test_the_lengths_are_kept(tmp_path: Path) -> None:
    lists = pa.array([np.random.default_rng(at).integers(0, 1 << 31, 200 + at) for at in range(6_000)])
    (tmp_path / "t").mkdir()
    pq.write_table(pa.table({"x": lists}), tmp_path / "t" / "t.parquet", row_group_size=1_000)
    options = {"metadata_cache": str(tmp_path / "kept")}
    first = fb.Loader(tmp_path / "t", samples=fb.Pack("x", 512), storage_options=options)
    (kept,) = (tmp_path / "kept").rglob("*.rows")
    before = kept.stat().st_mtime_ns
    assert kept.stat().st_size < 15_000
    second = fb.Loader(tmp_path / "t", samples=fb.Pack("x", 512), storage_options=options)
    assert len(second) == len(first)
    fb.Loader(tmp_path / "t", samples=fb.Bucket("x", rows=64), storage_options=options)
    assert [path.stat().st_mtime_ns for path in (tmp_path / "kept").rglob("*.rows")] == [before]


def buckets(root: Path, by: str, rows: int | None, tokens: int | None) -> list[list[int]]:
    found = []
    for group in row_groups(root):
        length = {row["id"]: row[by] if by == "n" else len(row[by]) for row in group}
        bucket: list[int] = []
        for row in sorted(length, key=lambda row: (length[row], row)):
            is_full = len(bucket) == rows or (tokens and length[row] * (len(bucket) + 1) > tokens)
            if is_full:
                found.append(sorted(bucket))
                bucket = []
            bucket.append(row)
        found.append(sorted(bucket))
    return found


@pytest.mark.parametrize("by", ["tokens", "n", "text"])
@pytest.mark.parametrize(("rows", "tokens"), [(8, None), (None, 300), (16, 500), (None, 60), (None, 120)])
def test_buckets_have_rows_of_similar_length(documents: Path, by: str, rows: int | None, tokens: int | None) -> None:
    loader = fb.Loader(documents, samples=fb.Bucket(by, rows=rows, tokens=tokens), columns=["id"])
    assert [batch["id"].tolist() for batch in loader] == buckets(documents, by, rows, tokens)


@pytest.mark.parametrize("world", [1, 2, 5])
def test_each_rank_has_as_many_buckets_and_each_row_comes_once(documents: Path, world: int) -> None:
    bucket = fb.Bucket("tokens", tokens=300)
    ranks = [
        fb.Loader(
            documents,
            samples=bucket,
            pad={"tokens": fb.Pad()},
            columns=["id", "tokens"],
            shuffle=fb.Shuffle(seed=4, window_rows=150),
            shard=fb.Shard(rank=rank, world=world),
            row_id=True,
            row_mask=True,
        )
        for rank in range(world)
    ]
    for epoch in range(2):
        found = []
        for batch in planned_batches(ranks, epoch):
            assert batch["tokens"].size <= 300
            found += batch["id"][batch["row_mask"]].tolist()
        assert sorted(found) == list(range(ROWS))


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fb.Pack([], 8), "different names"),
        (lambda: fb.Pack(["x", "x"], 8), "different names"),
        (lambda: fb.Pack([1], 8), "got 1 in it"),
        (lambda: fb.Pack("x", 0), "length must be at least 1"),
        (lambda: fb.Pack("x", 8, truncate=True), "split=False"),
        (lambda: fb.Pack("x", 8, split=1), "split must be True, False or 'long', got 1"),
        (lambda: fb.Pack("x", 8, split="short"), "split must be True, False or 'long', got 'short'"),
        (lambda: fb.Pack("x", 8, split="long", truncate=True), "long lists are split .*split=False"),
        (lambda: fb.Pack("x", 8, split="long", across="file"), "across='file' is for lists that are split"),
        (lambda: fb.Pack("x", 8, value="0"), "value must be a number"),
        (lambda: fb.Pack("x", 8, value={"x": None}), "value must be a number"),
        (lambda: fb.Pack("x", 8, value={"y": 0}), "a number for 'y', which is not packed"),
        (lambda: fb.Pack("x", 8, lengths=3), "lengths must be the name"),
        (lambda: fb.Pack("x", 8, eos="</s>"), "eos must be a number, got '</s>'"),
        (lambda: fb.Pack("x", 8, bos=2**53 + 1), "bos has more digits than a float64 holds"),
        (lambda: fb.Pack(["x", "y"], 8, eos={"x": 2}), "eos has no number for 'y', but for other columns .*each column"),
        (lambda: fb.Pack("x", 8, bos={"y": 0}), "bos has a number for 'y', which is not packed"),
        (lambda: fb.Bucket("x"), "rows=... or tokens=..."),
        (lambda: fb.Bucket(3, rows=4), "cost must be the name of a column or an expression"),
        (lambda: fb.Bucket("x", rows=0), "rows must be at least 1"),
    ],
)
def test_what_cannot_be_meant_is_refused(make: Any, said: str) -> None:
    with pytest.raises(fb.InvalidError, match=said):
        make()


def test_a_loader_refuses_what_packs_cannot_have(documents: Path) -> None:
    def made(samples: Any, **options: Any) -> fb.Loader:
        return fb.Loader(documents, samples=samples, **options)

    with pytest.raises(fb.InvalidError, match='"text": holds .*, which is not packed'):
        made(fb.Pack("text", 8))
    with pytest.raises(fb.InvalidError, match='"tokens": is packed, but `columns` does not list it'):
        made(fb.Pack("tokens", 8), columns=["labels"])
    with pytest.raises(fb.InvalidError, match='"tokens": `cast` names the column, which is packed'):
        made(fb.Pack("tokens", 8), cast={"tokens": "int64"})
    with pytest.raises(fb.BadRowError, match='row group 0, row .*"tokens": a list of .* does not fit a pack of 8.*truncate'):
        made(fb.Pack("tokens", 8, split=False))
    for value in (0.5, {"tokens": 0.5}):
        with pytest.raises(fb.InvalidError, match="cannot be filled up"):
            made(fb.Pack("tokens", 8, value=value))
    with pytest.raises(fb.BadRowError, match='row group 0, row .*"n": a row of .* does not fit a bucket of 30.*tokens.*Skip'):
        made(fb.Bucket("n", tokens=30))
    with pytest.raises(fb.UnknownColumnError, match="token"):
        made(fb.Pack("token", 8))
    with pytest.raises(fb.InvalidError, match="which gives no lengths or costs"):
        made(fb.Bucket("score", rows=3))


def test_packs_and_buckets_are_values() -> None:
    assert PACKS[-1] != fb.Pack(["tokens", "labels"], 7)
    for value in (*PACKS, fb.Bucket("x", rows=3), fb.Bucket("x", tokens=3)):
        assert pickle.loads(pickle.dumps(value)) == value
        assert hash(value) == hash(pickle.loads(pickle.dumps(value)))
    assert repr(fb.Pack("x", 8, split=False, truncate=True)) == "forebay.Pack(['x'], 8, split=False, truncate=True)"
