"""Rows kept on local disk: the same batches, which from the second epoch on do not need the files of the data
set."""

from __future__ import annotations

import contextlib
import io
import itertools
import multiprocessing
import shutil
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE, ids, small, until

import forebay as fb

ROW_GROUPS = 13


def kept(loader: fb.Loader) -> dict[str, int]:
    cache: dict[str, int] = loader.stats().to_dict()["cache"]
    return cache


def all_written(loader: fb.Loader) -> bool:
    """Waits until the cache has written all rows that it did not have. Rows are delivered before they are written,
    and closing a loader does not wait long for unwritten rows."""

    def are_written() -> bool:
        cache = loader.stats().to_dict()["cache"]
        unkept: int = sum(cache["declined"].values()) + cache["gave_up_waiting"]
        return bool(cache["misses"] <= cache["written"] + unkept)

    return until(are_written)


def test_the_cache_changes_nothing_but_where_rows_come_from(plain: Path, tmp_path: Path) -> None:
    cache = fb.DiskCache(tmp_path / "rows", max_bytes="1GB", tier="rows")
    assert cache == fb.DiskCache(str(tmp_path / "rows"), max_bytes=10**9, tier="rows")
    oracle = [ids(small(plain).epoch(number)) for number in range(3)]
    with small(plain, cache=cache) as loader:
        assert [ids(loader) for _ in range(3)] == oracle
        assert all_written(loader)
        assert kept(loader)["entries"] == ROW_GROUPS
    with small(plain, cache=cache) as later:
        assert [ids(later) for _ in range(3)] == oracle
        assert kept(later)["misses"] == 0
        assert later.stats().to_dict()["stages"]["fetch"]["bytes"] == 0
        assert "100.0 % of" in repr(later.stats())


def test_an_exact_shuffle_needs_the_cache_and_not_the_memory(photos: Path, tmp_path: Path) -> None:
    shuffle = fb.Shuffle.exact(3)
    oracle = ids(small(photos, shuffle=shuffle, batch_size=4))
    with pytest.raises(fb.TooLargeError, match="use a cache"):
        small(photos, shuffle=shuffle, batch_size=4, memory="200kB")
    cache = fb.DiskCache(tmp_path, max_bytes="1GB", tier="rows")
    loader = small(photos, shuffle=shuffle, batch_size=4, memory="200kB", cache=cache)
    assert ids(loader.epoch(0)) == oracle
    assert ids(loader.epoch(0)) == oracle


def test_a_state_does_not_depend_on_the_cache(plain: Path, tmp_path: Path) -> None:
    whole = ids(small(plain).epoch(0))
    with small(plain, cache=fb.DiskCache(tmp_path, max_bytes="1GB", tier="rows")) as loader:
        epoch = iter(loader)
        head = ids(next(epoch) for _ in range(5))
        state = loader.state_dict()
    plainly = small(plain)
    plainly.load_state_dict(state)
    assert head + ids(plainly) == whole


def _run(where: str, cache: str, rank: int, results: multiprocessing.Queue[tuple[int, list[list[int]], int]]) -> None:
    shard = fb.Shard(rank=rank, world=2)
    loader = small(Path(where), shard=shard, cache=fb.DiskCache(cache, max_bytes="1GB", tier="rows"))
    batches = [ids(loader.epoch(number)) for number in range(4)]
    counts = [Path(f"{cache}-{one}") for one in range(2)]

    def are_written() -> bool:
        # The ranks' counts are added up, because an entry exists on the disk before it is counted.
        counts[rank].write_text(str(kept(loader)["written"]))
        return sum(int(count.read_text() or 0) for count in counts if count.exists()) >= ROW_GROUPS

    assert until(are_written)
    # Nothing is written twice.
    time.sleep(0.5)
    results.put((rank, batches[0] + batches[1], kept(loader)["written"]))


def test_the_ranks_of_a_machine_share_a_cache(plain: Path, tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    results: multiprocessing.Queue[tuple[int, list[list[int]], int]] = spawn.Queue()
    ranks = [spawn.Process(target=_run, args=(str(plain), str(tmp_path / "rows"), rank, results)) for rank in range(2)]
    for process in ranks:
        process.start()
    found = sorted(results.get(timeout=PATIENCE) for _ in ranks)
    for process in ranks:
        process.join(PATIENCE)
        assert process.exitcode == 0
    for rank, batches, _ in found:
        alone = small(plain, shard=fb.Shard(rank=rank, world=2))
        assert batches == ids(alone.epoch(0)) + ids(alone.epoch(1))
    assert sum(written for _, _, written in found) == ROW_GROUPS


def test_a_cache_that_is_gone_stops_nothing(plain: Path, tmp_path: Path) -> None:
    oracle = ids(small(plain).epoch(0))
    with small(plain, cache=fb.DiskCache(tmp_path / "rows", max_bytes="1GB", tier="rows")) as loader:
        assert ids(loader.epoch(0)) == oracle
        # The loader may already be writing rows of the next epoch.
        while not (tmp_path / "rows").is_file():
            shutil.rmtree(tmp_path / "rows", ignore_errors=True)
            with contextlib.suppress(IsADirectoryError):
                (tmp_path / "rows").write_text("in the way")
        assert ids(loader.epoch(0)) == oracle


def test_what_is_no_cache_is_refused(plain: Path, tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(fb.InvalidError, match="a folder of its own"):
        small(plain, cache=fb.DiskCache(tmp_path, max_bytes="1GB"))
    with pytest.raises(fb.InvalidError, match="tier must be"):
        fb.DiskCache(tmp_path, max_bytes=1, tier="pickle")  # type: ignore[arg-type]


def test_resized_images_are_close_to_the_files(drawn: Path, tmp_path: Path) -> None:
    decode, photos = {"image": fb.Image.center_crop(96, resize=128).flip()}, drawn / "photos"
    cache = fb.DiskCache(tmp_path, max_bytes="1GB", tier="resized")
    with small(photos, decode=decode) as plain, small(photos, decode=decode, cache=cache) as cached:
        for number in (0, 1):
            for ours, theirs in zip(plain.epoch(number), cached.epoch(number), strict=True):
                difference = abs(ours["image"].astype(int) - theirs["image"].astype(int))
                assert ours["label"].tolist() == theirs["label"].tolist()
                assert difference.mean() < 3
        assert cached.state_dict()["cache_tier"] == "resized"
        assert all_written(cached)
        assert cached.stats().to_dict()["stages"]["keep"]["items"] == 400


@pytest.mark.parametrize("progressive", [False, True])
def test_coefficients_give_the_pixels_of_the_files(tmp_path: Path, progressive: bool) -> None:
    pillow = pytest.importorskip("PIL.Image")
    random = np.random.default_rng(7)

    def photo(number: int) -> bytes:
        small = random.integers(0, 256, (12 + number, 16, 3), dtype=np.uint8)
        encoded = io.BytesIO()
        picture = pillow.fromarray(small).resize((200 + number, 160))
        picture.save(encoded, "JPEG", quality=70 + number, progressive=progressive, subsampling=number % 3)
        return encoded.getvalue()

    photos = [photo(number) for number in range(24)]
    table = pa.table({"id": list(range(24)), "image": pa.array(photos, pa.binary())})
    pq.write_table(table, tmp_path / "photos.parquet", row_group_size=8)
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GB", tier="coefficients")
    options: dict[str, Any] = {"batch_size": 5, "shuffle": fb.Shuffle(seed=3)}
    # The second loader, with another crop, uses the entries of the first one.
    for image, made in (fb.Image.random_resized_crop(64).flip(), 24), (fb.Image.center_crop(20, resize=24), 0):
        with (
            fb.Loader(tmp_path / "photos.parquet", decode={"image": image}, **options) as plain,
            fb.Loader(tmp_path / "photos.parquet", decode={"image": image}, **options, cache=cache) as cached,
        ):
            for number in (0, 1):
                for ours, theirs in zip(plain.epoch(number), cached.epoch(number), strict=True):
                    assert ours["id"].tolist() == theirs["id"].tolist()
                    np.testing.assert_array_equal(ours["image"], theirs["image"])
            assert cached.state_dict()["cache_tier"] == "coefficients"
            assert all_written(cached)
            stats = cached.stats().to_dict()
            assert stats["stages"]["keep"]["items"] == made
            assert stats["cache"]["misses"] == stats["cache"]["written"] == made // 8


def test_a_tier_is_chosen_when_the_loop_waits_and_resumed(drawn: Path, tmp_path: Path) -> None:
    # The data set has the 400 photographs several times. A fast machine reads 400 of them in less than 0.2 s, and
    # no tier is chosen after an epoch as short as this.
    copies = 6
    photos = tmp_path / "photos"
    photos.mkdir()
    for copy, file in itertools.product(range(copies), (drawn / "photos").glob("*.parquet")):
        shutil.copy(file, photos / f"{copy}-{file.name}")

    def loader(**arguments: object) -> fb.Loader:
        decode = {"image": fb.Image.random_resized_crop(64).flip()}
        return small(photos, decode=decode, threads=1, **arguments)

    def epoch(loader: fb.Loader, number: int) -> list[tuple[list[int], int]]:
        return [(batch["label"].tolist(), int(batch["image"].sum())) for batch in loader.epoch(number)]

    with loader() as plain:
        oracle = [epoch(plain, number) for number in range(5)]
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="2GB")
    with loader(cache=cache) as chosen:
        assert chosen.state_dict()["cache_tier"] == "rows"
        assert epoch(chosen, 0) == oracle[0]
        for number in (1, 2, 3):
            found = epoch(chosen, number)
            assert [labels for labels, _ in found] == [labels for labels, _ in oracle[number]]
        state = chosen.state_dict()
        assert state["cache_tier"] == "pixels"
        assert all_written(chosen)
        # The new form was made from cached rows: no file was read twice.
        stages = chosen.stats().to_dict()["stages"]
        assert stages["keep"]["items"] >= 400 * copies
        assert stages["fetch"]["items"] + stages["cache"]["items"] >= 12 * copies
        # On a slow disk, the loader leaves out some of the entries.
        chosen.warm()
        assert all_written(chosen)
    with loader(cache=cache) as later:
        later.load_state_dict(state)
        assert [labels for labels, _ in epoch(later, 4)] == [labels for labels, _ in oracle[4]]
        stats = later.stats().to_dict()
        assert stats["cache"]["misses"] == 0
        assert stats["stages"]["fetch"]["bytes"] == 0
    state["cache_tier"] = "wax"
    with loader(cache=cache) as later, pytest.raises(fb.StateMismatchError, match="wax"):
        later.load_state_dict(state)


def test_a_loop_that_is_slower_than_the_loader_is_left_alone(drawn: Path, tmp_path: Path) -> None:
    decode = {"image": fb.Image.center_crop(32, resize=40)}
    cache = fb.DiskCache(tmp_path, max_bytes="2GB")
    with small(drawn / "photos", decode=decode, batch_size=20, cache=cache) as loader:
        for _ in range(3):
            asked = time.monotonic()
            for number, _ in enumerate(loader, 1):
                # A step takes four times what the loader needs for the next batch on this machine at this moment.
                # The first batch cannot be ready before the epoch begins, so its step is much longer than its wait.
                began = time.monotonic()
                waited = began - asked if number == 1 else 0
                while number < len(loader) and loader.stats().to_dict()["queues"]["batches_ready"] == 0:
                    time.sleep(0.001)
                time.sleep(max(0.1, 40 * waited, 3 * (time.monotonic() - began)))
        assert loader.state_dict()["cache_tier"] == "rows"
        assert loader.stats().to_dict()["stages"]["keep"]["items"] == 0


@pytest.mark.parametrize("max_bytes", ["1GB", "100kB"])
def test_pixels_from_the_cache_are_those_of_the_files(photos: Path, tmp_path: Path, max_bytes: str) -> None:
    image = fb.Image.random_resized_crop(16).flip().dtype("float32").normalize((0.5, 0.5, 0.5), (0.2, 0.2, 0.2))
    cache = fb.DiskCache(tmp_path, max_bytes=max_bytes, tier="pixels")
    with small(photos, decode={"image": image}) as plain, small(photos, decode={"image": image}, cache=cache) as cached:
        for number in (0, 1, 1):
            for ours, theirs in zip(plain.epoch(number), cached.epoch(number), strict=True):
                assert ours["id"].tolist() == theirs["id"].tolist()
                assert (ours["image"] == theirs["image"]).all()
        # With a small cache, the rows that do not fit are missing again in each epoch.
        assert max_bytes != "1GB" or all_written(cached)
        stats = cached.stats().to_dict()
    if max_bytes == "1GB":
        assert stats["stages"]["keep"]["items"] == 256
        assert stats["cache"]["entries"] == 8
    else:
        assert stats["cache"]["bytes"] <= 100_000
