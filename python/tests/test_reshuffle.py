"""Packs and buckets that each epoch makes anew, checked against the documents themselves."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 400


@pytest.fixture(scope="module")
def documents(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Documents of 0 to 60 tokens in row groups of 90; each token occurs once."""
    root = tmp_path_factory.mktemp("documents")
    lengths = np.random.default_rng(7).integers(0, 61, ROWS)
    tokens = np.split(np.arange(1, lengths.sum() + 1), np.cumsum(lengths)[:-1])
    table = pa.table(
        {
            "n": np.arange(ROWS),
            "tokens": pa.array([one.tolist() for one in tokens], pa.list_(pa.int32())),
            "length": lengths,
        }
    )
    pq.write_table(table, root / "t.parquet", row_group_size=90)
    return root


KINDS = [
    fb.Pack("tokens", 64, reshuffle=True),
    fb.Pack("tokens", 16, eos=-1, lengths="length", reshuffle=True),
    fb.Pack("tokens", 128, split=False, reshuffle=True),
    fb.Pack("tokens", 48, split=False, truncate=True, bos=-1, reshuffle=True),
    fb.Pack("tokens", 50, split="long", eos=-1, reshuffle=True),
    fb.Bucket("tokens", rows=8, reshuffle=True),
    fb.Bucket("length", tokens=300, reshuffle=True),
]


def loader(root: Path, samples: Any, rank: int = 0, world: int = 1, **options: Any) -> fb.Loader:
    shuffle = options.pop("shuffle", fb.Shuffle(seed=5, window_rows=60, lanes=3))
    if isinstance(samples, fb.Bucket):
        options.setdefault("columns", ["n", "tokens"])
    shard = fb.Shard(rank=rank, world=world)
    return fb.Loader(root, samples=samples, shuffle=shuffle, shard=shard, row_mask=True, **options)


def members(batch: Any) -> list[tuple[int, ...]]:
    """Returns the tokens of each pack, or the rows of a bucket, without the padded rows."""
    if "segment_ids" in batch:
        return [tuple(row) for row in batch["tokens"][batch["row_mask"]].tolist()]
    return [tuple(batch["n"][batch["row_mask"]].tolist())]


def of_epoch(root: Path, samples: Any, epoch: int, world: int = 1, **options: Any) -> list[list[tuple[int, ...]]]:
    """Returns the samples of each step from all ranks together, sorted within the step."""
    ranks = [loader(root, samples, rank, world, **options) for rank in range(world)]
    steps = zip(*(rank.epoch(epoch) for rank in ranks), strict=True)
    return [sorted(one for batch in step for one in members(batch)) for step in steps]


@pytest.mark.parametrize("samples", KINDS, ids=repr)
def test_each_epoch_has_other_members_and_each_document_once(documents: Path, samples: Any) -> None:
    stored = pq.read_table(documents)
    lists = stored["tokens"].to_pylist()
    epochs = []
    for epoch in range(3):
        steps = of_epoch(documents, samples, epoch, global_batch_size=1)
        assert len(steps) == len(loader(documents, samples, global_batch_size=1))
        epochs.append({one for step in steps for one in step})
        if isinstance(samples, fb.Bucket):
            assert sorted(row for step in steps for one in step for row in one) == list(range(ROWS))
            for (one,) in (step for step in steps if step):
                longest = max(len(lists[row]) for row in one)
                assert len(one) <= (samples.rows or ROWS) and longest * len(one) <= (samples.tokens or 1 << 30)
            continue
        found = sorted(token for step in steps for one in step for token in one if token > 0)
        most = samples.length - (samples.bos is not None) if samples.truncate else 1 << 30
        assert found == sorted(token for one in lists for token in one[:most])
        assert sum(token == -1 for step in steps for one in step for token in one) in (0, sum(map(bool, lists)))
    same = [len(one & other) / len(one) for one, other in ((epochs[0], epochs[1]), (epochs[1], epochs[2]))]
    # Lists that nearly fill a pack are alone in it in most epochs.
    is_short = isinstance(samples, fb.Pack) and samples.split is not True and samples.length < 64
    assert max(same) < (0.8 if is_short else 0.5)
    plain = fb.Pack("tokens", samples.length, split=samples.split) if isinstance(samples, fb.Pack) else None
    if plain and samples.bos is samples.eos is None:
        assert len(loader(documents, samples, global_batch_size=1)) == len(loader(documents, plain, global_batch_size=1))


@pytest.mark.parametrize("samples", KINDS, ids=repr)
def test_the_samples_of_an_epoch_depend_on_data_seed_and_number_alone(documents: Path, tmp_path: Path, samples: Any) -> None:
    def together(**options: Any) -> list[tuple[int, ...]]:
        return sorted(one for step in of_epoch(documents, samples, 2, **options) for one in step)

    expected = together(global_batch_size=1)
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")
    assert together(global_batch_size=1, threads=1, cache=cache) == expected
    assert together(global_batch_size=1, shuffle=fb.Shuffle.exact(seed=5)) == expected
    assert together(global_batch_size=1, shuffle=fb.Shuffle(seed=6)) != expected
    if not isinstance(samples, fb.Bucket):
        for world in (2, 3):
            assert of_epoch(documents, samples, 2, world, global_batch_size=6) == of_epoch(
                documents, samples, 2, global_batch_size=6
            )


@pytest.mark.parametrize("samples", KINDS, ids=repr)
def test_a_state_resumes_at_the_next_sample_on_other_ranks(documents: Path, samples: Any) -> None:
    options: dict[str, Any] = {"global_batch_size": 6, "drop_last": True}
    first = loader(documents, samples, **options)
    epoch = iter(first.epoch(1))
    for _ in range(4):
        next(epoch)
    state = json.loads(json.dumps(first.state_dict()))
    rest = [sorted(np.concatenate([np.ravel(one) for one in members(batch)]).tolist()) for batch in epoch]
    for world in (1, 2, 3):
        ranks = [loader(documents, samples, rank, world, **options) for rank in range(world)]
        for rank in ranks:
            rank.load_state_dict(state)
        steps = [
            sorted(np.concatenate([np.ravel(one) for batch in step for one in members(batch)]).tolist())
            for step in zip(*ranks, strict=True)
        ]
        assert steps == rest
    # After a resume, `which` names the rows of each step; it needs only the state.
    resumed = loader(documents, samples, row_id=True, **options)
    resumed.load_state_dict(state)
    for step, batch in enumerate(resumed, 4):
        ids = [int(one) for row in batch["row_id"] for one in np.atleast_1d(row)]
        assert [place.row_id for place in resumed.which(step, epoch=1)] == ids
    with pytest.raises(fb.StateMismatchError, match="saved with samples"):
        plain = {of: getattr(samples, of) for of in samples.__dataclass_fields__} | {"reshuffle": False}
        loader(documents, type(samples)(**plain), **options).load_state_dict(state)


@pytest.mark.parametrize("samples", KINDS[:5:2] + KINDS[5:6], ids=repr)
def test_documents_that_are_denied_or_filtered_are_in_no_sample(documents: Path, samples: Any) -> None:
    gone = fb.Loader(documents, columns=["n"], row_id=True, batch_size=ROWS)
    (batch,) = gone
    ids = batch["row_id"][batch["n"] % 9 == 4].tolist()
    lists = pq.read_table(documents)["tokens"].to_pylist()
    expected = sorted(token for row, one in enumerate(lists) if row % 9 != 4 for token in one)
    for options in ({"deny": ids}, {"filter": fb.col("n") % 9 != 4}):
        for epoch in range(2):
            found: list[int] = []
            for batch in loader(documents, samples, **options).epoch(epoch):
                rows = batch["tokens"][batch["row_mask"]] if "segment_ids" in batch else batch["tokens"]
                found += [int(token) for row in rows for token in row if token > 0]
            assert sorted(found) == expected


def test_a_mix_takes_the_packs_of_each_pass(documents: Path) -> None:
    def mix() -> fb.Mix:
        sources = [fb.Loader(documents, samples=KINDS[0], shuffle=fb.Shuffle(seed=seed)) for seed in (5, 8)]
        return fb.Mix([(source, 1.0) for source in sources], batch_size=7)

    train = mix()
    epoch = iter(train)
    for _ in range(3):
        next(epoch)
    state = train.state_dict()
    again = mix()
    again.load_state_dict(state)
    rest = [batch["tokens"].tolist() for batch in epoch]
    assert rest and [batch["tokens"].tolist() for batch in again] == rest


def test_what_cannot_be_made_anew_is_refused(documents: Path) -> None:
    with pytest.raises(fb.InvalidError, match="reshuffle=True makes packs of one row group each, and across='file'"):
        fb.Pack("tokens", 8, across="file", reshuffle=True)
    with pytest.raises(fb.InvalidError, match="reshuffle must be True or False, got 1"):
        fb.Bucket("tokens", rows=3, reshuffle=1)  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="`balance` was given, but each epoch makes its samples anew"):
        loader(documents, KINDS[0], balance="tokens")
    assert repr(KINDS[5]) == "forebay.Bucket('tokens', rows=8, reshuffle=True)"
