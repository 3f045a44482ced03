"""A cache whose tier is `auto` keeps no local rows that are as fast without it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import until

import forebay as fb


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table"
    path.mkdir()
    # The table is this large because the cache keeps smaller ones without measuring.
    wide = pa.array([bytes([number % 251]) * 6_000 for number in range(3_000)])
    texts = [f"text {number % 7}" for number in range(3_000)]
    rows = pa.table({"id": np.arange(3_000), "text": texts, "wide": wide})
    pq.write_table(rows, path / "a.parquet", row_group_size=500, use_dictionary=["text"], compression="none")
    return path


def ids(epoch: object) -> list[int]:
    return [int(number) for batch in epoch for number in batch["id"]]  # type: ignore[attr-defined]


def test_rows_that_stay_in_memory_are_not_kept_and_the_order_does_not_change(table: Path, tmp_path: Path) -> None:
    def loader(**options: object) -> fb.Loader:
        return fb.Loader(table, batch_size=64, shuffle=fb.Shuffle(seed=3), **options)  # type: ignore[arg-type]

    with loader() as plain:
        oracle = [ids(plain) for _ in range(3)]
    auto, rows = (fb.DiskCache(tmp_path / tier, max_bytes="1GB", tier=tier) for tier in ("auto", "rows"))
    with loader(cache=auto) as unkept, loader(cache=rows) as kept:
        assert unkept.warm()["written"] == 0
        for epoch in oracle[:2]:
            assert ids(unkept) == epoch == ids(kept)
        # The loader delivers rows before they are written to the cache, so the writes may end later.
        assert until(lambda: kept.stats().to_dict()["cache"]["written"] == 6)  # type: ignore[index]
        found, named = unkept.stats().to_dict()["cache"], kept.stats().to_dict()["cache"]
        assert found is not None and named is not None
        assert (found["entries"], found["misses"], found["writing"]) == (0, 0, 0.0)
        assert found["read_again"] == "nothing is kept: the rows are local, and stay in memory"
        assert found["read_again"] in str(unkept.plan()) and found["read_again"] in str(unkept.stats())
        assert unkept.plan().to_dict()["read_again"] == found["read_again"]
        assert named["entries"] == 6 and named["read_again"] is None
        assert named["writing"] > 0 and "of the work" in str(kept.stats())
        state = unkept.state_dict()
        assert "cache_tier" not in state and kept.state_dict()["cache_tier"] == "rows"
        # A cache does not change the order, so each of the two states resumes with both caches.
        for saved in (state, kept.state_dict()):
            for cache in (auto, rows):
                with loader(cache=cache) as resumed:
                    resumed.load_state_dict(saved)
                    assert ids(resumed) == oracle[2]


def test_what_was_measured_is_in_the_folder_and_decides_again(table: Path, tmp_path: Path) -> None:
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GB")

    def reason() -> str | None:
        # With epochs=1 no rows stay in memory for a next epoch, so the measurement decides.
        with fb.Loader(table, batch_size=64, shuffle=fb.Shuffle(seed=3), epochs=1, cache=cache) as loader:
            assert sorted(ids(loader)) == list(range(3_000))
            stats = loader.stats().to_dict()["cache"]
            assert stats is not None
            return stats["read_again"]  # type: ignore[no-any-return]

    reason()
    (note,) = (tmp_path / "cache").rglob("*.note")
    for again, kept, are_kept in [(1e-6, 1e-9, True), (1e-9, 1e-6, False), (1e-6, 1e-9, True)]:
        note.write_text(f'{{"again": {again}, "kept": {kept}, "source_disk": null, "cache_disk": null}}')
        assert (reason() is None) == are_kept
    note.write_text("torn")
    reason()
    assert "again" in note.read_text()


def test_an_exact_shuffle_that_memory_does_not_hold_is_kept(tmp_path: Path) -> None:
    rows = pa.table({"id": np.arange(4_000), "bytes": [bytes(1_000) + bytes([number % 251]) for number in range(4_000)]})
    pq.write_table(rows, tmp_path / "a.parquet", row_group_size=100, use_dictionary=False, compression="none")
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GB")
    options = {"batch_size": 4, "shuffle": fb.Shuffle.exact(3), "memory": "2MB"}
    with pytest.raises(fb.TooLargeError, match="use a cache"):
        fb.Loader(tmp_path / "a.parquet", **options)  # type: ignore[arg-type]
    with fb.Loader(tmp_path / "a.parquet", cache=cache, **options) as loader:  # type: ignore[arg-type]
        assert sorted(ids(loader)) == list(range(4_000))
        assert until(lambda: loader.stats().to_dict()["cache"]["written"] == 40)  # type: ignore[index]
        stats = loader.stats().to_dict()["cache"]
        assert stats is not None and stats["read_again"] is None and stats["entries"] == 40


def test_the_plan_of_a_mix_has_an_estimate_and_a_limit_of_memory(table: Path) -> None:
    def source(seed: int) -> fb.Loader:
        return fb.Loader(table, columns=["id", "text"], shuffle=fb.Shuffle(seed=seed))

    first = fb.Loader(table, columns=["id", "text"], shuffle=fb.Shuffle(seed=1), batch_size=64, memory="1GB")
    alone = first.plan().to_dict()
    for weights in ((1,), (3, 1), (0.5, 0.3, 0.2)):
        mix = fb.Mix([(source(seed), weight) for seed, weight in enumerate(weights)], batch_size=64, memory="1GB")
        with mix:
            for epoch in (0, 2):
                plan = mix.plan(epoch).to_dict()
                assert 0 < plan["expected_memory"] <= plan["most_memory"] <= plan["memory"] == 10**9
                assert plan["expected_memory"] < plan["most_memory"] / 4
                assert "peak memory about " in str(mix.plan(epoch))
            if len(weights) == 1:
                assert plan["expected_memory"] <= 1.2 * alone["expected_memory"]
