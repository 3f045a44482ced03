"""``follow=`` for folders of plain files: each epoch has the files that the folder has when it begins, on all ranks, and a
state finishes its epoch with the files that it was saved with."""

from __future__ import annotations

import json
import pickle
import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE

import forebay as fb
from forebay import data_versions

ROWS = 20


class Launcher:
    """A key-value store of a launcher, in this process."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.was_asked = threading.Event()

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def get(self, key: str) -> bytes | None:
        self.was_asked.set()
        return self.values.get(key)


class Checked(Launcher):
    """A store that says whether it has a value, as torch's stores do."""

    def check(self, keys: list[str]) -> bool:
        return all(key in self.values for key in keys)


def add(folder: Path, name: str, first: int) -> None:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table({"id": range(first, first + ROWS)}), folder / f"{name}.parquet", row_group_size=5)


def made(folder: Path, rank: int = 0, world: int = 1, follow: Any = True, **options: Any) -> fb.Loader:
    shuffle = fb.Shuffle(seed=3, window_rows=15, lanes=2)
    shard = fb.Shard(rank=rank, world=world)
    return fb.Loader(folder, follow=follow, shuffle=shuffle, global_batch_size=8, shard=shard, **options)


def ids(batches: Any) -> list[int]:
    return [number for batch in batches for number in batch["id"].tolist()]


def test_an_epoch_has_the_files_that_the_folder_has_when_it_begins(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    add(folder, "b", 0)
    with made(folder) as loader:
        assert sorted(ids(loader)) == list(range(ROWS)) and loader.new_files == []
        under_way = iter(loader)
        first = next(under_way)
        add(folder, "a", 100)
        add(folder, "c", 200)
        rest = ids(under_way)
        assert sorted([*first["id"].tolist(), *rest]) == list(range(ROWS)), "not within an epoch"
        grown = ids(loader)
        assert loader.new_files == ["a.parquet", "c.parquet"]
        assert sorted(grown) == sorted([*range(ROWS), *range(100, 100 + ROWS), *range(200, 200 + ROWS)])
        with fb.Loader(folder, shuffle=fb.Shuffle(seed=3, window_rows=15, lanes=2), global_batch_size=8) as plain:
            assert grown == ids(plain.epoch(2)), "in the order of a loader over these files"
        assert sorted(ids(loader)) == sorted(grown) and loader.new_files == []
        with pickle.loads(pickle.dumps(loader)) as copy:
            add(folder, "d", 300)
            assert len(ids(copy)) == 4 * ROWS
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert copy.num_rows == 4 * ROWS
    with fb.Loader(folder) as still:
        assert still.new_files == []


def test_a_state_finishes_its_epoch_with_the_files_that_it_was_saved_with(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    add(folder, "a", 0)
    add(folder, "c", 100)
    with made(folder) as loader:
        under_way = iter(loader)
        next(under_way)
        state = json.loads(json.dumps(loader.state_dict()))
        rest = ids(under_way)
    for name, first in (("b", 200), ("d", 300)):
        add(folder, name, first)
    store = Launcher()
    ranks = [made(folder, rank, 2, store) for rank in range(2)]
    for one in ranks:
        one.load_state_dict(state)
    steps = list(zip(*ranks, strict=True))
    assert sorted(ids(batch for step in steps for batch in step)) == sorted(rest)
    # The next epoch has all files, in a loader that resumed and in one that did not.
    with made(folder) as resumed:
        resumed.load_state_dict(state)
        assert ids(resumed) == rest
        assert len(ids(resumed)) == 4 * ROWS and resumed.new_files == ["b.parquet", "d.parquet"]
        after = resumed.state_dict()
    with made(folder) as again:
        again.load_state_dict(after)
        assert len(ids(again)) == 4 * ROWS
    # Many files are told apart if they come after all others.
    for number in range(100):
        add(folder, f"e{number:03}", 1_000 + 100 * number)
    with made(folder) as resumed:
        resumed.load_state_dict(after)
        assert sorted(ids(resumed)) != [] and resumed.num_rows == 104 * ROWS
    with fb.Loader(folder, shuffle=fb.Shuffle(seed=3, window_rows=15, lanes=2), global_batch_size=8) as still:
        with pytest.raises(fb.StateMismatchError, match="104 files"):
            still.load_state_dict(state)
    # A file that was changed or removed is named or counted.
    pq.write_table(pa.table({"id": range(ROWS)}), folder / "a.parquet", row_group_size=7)
    (folder / "c.parquet").unlink()
    with made(folder) as other, pytest.raises(fb.StateMismatchError, match="it was saved with 2 files and 40 rows"):
        other.load_state_dict(state)


def test_all_ranks_have_the_files_that_rank_0_found(tmp_path: Path) -> None:
    folder, store = tmp_path / "data", Launcher()
    add(folder, "b", 0)
    ranks = [made(folder, rank, 2, store) for rank in range(2)]
    assert sorted(ids([*ranks[0], *ranks[1]])) == list(range(ROWS))
    add(folder, "a", 100)
    first = iter(ranks[0])
    # This file is added after rank 0 has looked.
    add(folder, "c", 200)
    second = iter(ranks[1])
    expected = sorted([*range(ROWS), *range(100, 100 + ROWS)])
    assert sorted(ids([*first, *second])) == expected and ranks[1].new_files == ["a.parquet"]
    assert sorted(ids([*ranks[0], *ranks[1]])) == sorted([*expected, *range(200, 200 + ROWS)])
    with pytest.raises(fb.InvalidError, match="follow=True with 2 ranks"):
        made(folder, 0, 2)


def rows_or_error(loader: fb.Loader) -> list[int] | fb.ForebayError:
    try:
        return ids(loader)
    except fb.ForebayError as error:
        return error


def begun_by_rank_1_first(ranks: list[fb.Loader], store: Launcher) -> list[Any]:
    """The rows or errors of an epoch that rank 0 begins when rank 1 already waits for its answer."""
    store.was_asked.clear()
    found: list[Any] = [None, None]

    def second() -> None:
        found[1] = rows_or_error(ranks[1])

    other = threading.Thread(target=second)
    other.start()
    assert store.was_asked.wait(PATIENCE)
    found[0] = rows_or_error(ranks[0])
    other.join(PATIENCE)
    return found


def test_loaders_that_share_a_store_take_no_answers_of_one_another(tmp_path: Path) -> None:
    folder, store = tmp_path / "data", Launcher()
    add(folder, "a", 0)

    def pair(**options: Any) -> list[fb.Loader]:
        return [made(folder, rank, 2, store, **options) for rank in range(2)]

    train, held_out = pair(), pair(filter=fb.col("id") % 2 == 1)
    assert sorted(sum(begun_by_rank_1_first(train, store), [])) == list(range(ROWS))
    state = train[0].state_dict()
    add(folder, "b", 100)
    odd = [*range(1, ROWS, 2), *range(101, 100 + ROWS, 2)]
    assert sorted(sum(begun_by_rank_1_first(held_out, store), [])) == odd
    grown = [*range(ROWS), *range(100, 100 + ROWS)]
    assert sorted(sum(begun_by_rank_1_first(train, store), [])) == grown
    # Epoch 1 begins again after a state was loaded, in new loaders and in those that had begun it before.
    for number, resumed in enumerate((pair(), train)):
        add(folder, f"c{number}", 200 + 100 * number)
        grown += range(200 + 100 * number, 200 + 100 * number + ROWS)
        for rank in resumed:
            rank.load_state_dict(state)
        assert sorted(sum(begun_by_rank_1_first(resumed, store), [])) == grown


def test_sources_of_mixes_that_share_a_store_agree(tmp_path: Path) -> None:
    folder, store = tmp_path / "data", Launcher()
    add(folder, "a", 0)

    def pair() -> list[fb.Mix]:
        parts = [fb.Loader(folder, follow=store, filter=fb.col("id") % 2 == odd) for odd in range(2)]
        options: dict[str, Any] = {"stop": "last", "repeat": False, "global_batch_size": 4}
        return [
            fb.Mix([(part, 1) for part in parts], shard=fb.Shard(rank=rank, world=2), **options) for rank in range(2)
        ]

    assert sorted(sum(begun_by_rank_1_first(pair(), store), [])) == list(range(ROWS))
    add(folder, "b", 100)
    assert sorted(sum(begun_by_rank_1_first(pair(), store), [])) == [*range(ROWS), *range(100, 100 + ROWS)]


def test_a_store_with_answers_of_an_earlier_run_is_refused(tmp_path: Path) -> None:
    folder, earlier = tmp_path / "data", Checked()
    add(folder, "a", 0)
    assert len(ids(made(folder, 0, 2, earlier))) == ROWS / 2
    store = Checked()
    store.values = earlier.values
    ranks = [made(folder, rank, 2, store) for rank in range(2)]
    for _ in range(2):
        with pytest.raises(fb.InvalidError, match="already has an answer for epoch 0, .*new store or prefix"):
            iter(ranks[0])
    with pytest.raises(fb.InvalidError, match="rank 0 could not begin epoch 0: .*already has an answer"):
        iter(ranks[1])
    assert len(ids(made(folder, 0, 1, store))) == ROWS, "a rank alone does not use the store"


def test_all_ranks_get_the_same_error_at_the_same_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, store = tmp_path / "data", Launcher()
    add(folder, "a", 0)
    ranks = [made(folder, rank, 2, store) for rank in range(2)]
    assert sorted(sum(begun_by_rank_1_first(ranks, store), [])) == list(range(ROWS))
    (folder / "a.parquet").unlink()
    for _ in range(2):
        first, second = begun_by_rank_1_first(ranks, store)
        assert isinstance(first, fb.NotFoundError) and type(second) is type(first)
        assert str(second) == f"rank 0 could not begin epoch 1: {first}"
    # Rank 0 lists this file, and cannot begin an epoch without rows.
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), folder / "b.parquet")
    first, second = begun_by_rank_1_first(ranks, store)
    assert isinstance(first, fb.InvalidError) and "no row is selected" in str(first)
    assert (type(second), str(second)) == (fb.InvalidError, f"rank 0 could not begin epoch 1: {first}")
    add(folder, "c", 100)
    assert sorted(sum(begun_by_rank_1_first(ranks, store), [])) == list(range(100, 100 + ROWS))
    # A rank that failed alone takes the answer that rank 0 has gone on with.
    add(folder, "d", 200)
    rows = ids(ranks[0])
    (folder / "d.parquet").rename(folder / "_d")
    with pytest.raises(fb.NotFoundError, match="not among those of the location"):
        iter(ranks[1])
    (folder / "_d").rename(folder / "d.parquet")
    add(folder, "e", 300)
    assert sorted(rows + ids(ranks[1])) == [*range(100, 100 + ROWS), *range(200, 200 + ROWS)]
    # An error that is not of forebay, and a rank that does not begin.
    monkeypatch.setattr(data_versions.Follow, "_newest_files", interrupted)
    with pytest.raises(KeyboardInterrupt):
        iter(ranks[0])
    monkeypatch.undo()
    with pytest.raises(fb.IoError, match=r"data: rank 0 could not begin epoch 3: KeyboardInterrupt \(see the error of"):
        iter(ranks[1])
    monkeypatch.setattr(data_versions, "_TIMEOUT_SECONDS", 0.0)
    with pytest.raises(fb.IoError, match=r"rank 0 has put no files into the store.*begins epoch 3 of the same"):
        iter(ranks[1])


def interrupted(*_: Any) -> None:
    raise KeyboardInterrupt


def test_sources_of_a_mix_grow(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for number, folder in enumerate(folders):
        add(folder, "a", 1_000 * number)
    sources = [(fb.Loader(folder, follow=True), 1) for folder in folders]
    with fb.Mix(sources, stop="last", repeat=False, batch_size=8) as mix:
        assert len(ids(mix)) == 2 * ROWS
        add(folders[1], "b", 2_000)
        assert len(ids(mix)) == 3 * ROWS and mix.new_files == ["b.parquet"]
        state = mix.state_dict()
        add(folders[0], "b", 3_000)
    with fb.Mix(sources, stop="last", repeat=False, batch_size=8) as mix:
        mix.load_state_dict(state)
        assert len(ids(mix)) == 4 * ROWS


def test_a_state_between_two_epochs_goes_on_without_the_old_files(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    for number, name in enumerate("ab"):
        add(folder, name, 100 * number)
    with made(folder) as loader:
        under_way = iter(loader)
        next(under_way)
        middle = loader.state_dict()
        list(under_way)
        between = json.loads(json.dumps(loader.state_dict()))
    assert (between["epoch"], between["row"]) == (1, 0)
    (folder / "a.parquet").unlink()
    add(folder, "c", 200)
    expected = [*range(100, 100 + ROWS), *range(200, 200 + ROWS)]
    with made(folder) as resumed:
        resumed.load_state_dict(between)
        assert resumed.state_dict()["epoch"] == 1
        rows = ids(resumed)
        assert sorted(rows) == expected and resumed.new_files == []
        with made(folder) as fresh:
            assert rows == ids(fresh.epoch(1)), "in the order of a loader over these files"
        add(folder, "d", 300)
        assert len(ids(resumed)) == 3 * ROWS and resumed.new_files == ["d.parquet"]
    (folder / "d.parquet").unlink()
    store = Launcher()
    ranks = [made(folder, rank, 2, store) for rank in range(2)]
    for rank in ranks:
        rank.load_state_dict(between)
    steps = zip(*ranks, strict=True)
    assert sorted(ids(batch for step in steps for batch in step)) == expected
    # Rows of an epoch under way still need the old files.
    with made(folder) as other, pytest.raises(fb.StateMismatchError, match="earlier files to finish the epoch"):
        other.load_state_dict(middle)
    shuffle = {"shuffle": fb.Shuffle(seed=3, window_rows=15, lanes=2), "global_batch_size": 8}
    with (
        fb.Loader(folder, **shuffle) as still,
        pytest.raises(fb.StateMismatchError, match="2 files.*follow the folder"),
    ):
        still.load_state_dict(between)
    for changed, match in (({"seed": 4}, "saved with seed 3"), ({"lanes": 3}, "saved with lanes 2")):
        options: dict[str, Any] = {"seed": 3, "window_rows": 15, "lanes": 2, **changed}
        with fb.Loader(folder, follow=True, shuffle=fb.Shuffle(**options)) as other:
            with pytest.raises(fb.StateMismatchError, match=match):
                other.load_state_dict(between)
            assert other.state_dict()["epoch"] == 0


def test_a_mix_goes_on_between_two_epochs_if_only_followed_sources_changed(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("grows", "stays")]
    for number, folder in enumerate(folders):
        add(folder, "a", 1_000 * number)

    def mixed() -> fb.Mix:
        sources = [(fb.Loader(folder, follow=folder == folders[0]), 1) for folder in folders]
        return fb.Mix(sources, stop="last", repeat=False, batch_size=8)

    with mixed() as mix:
        list(mix)
        state = mix.state_dict()
    (folders[0] / "a.parquet").unlink()
    add(folders[0], "b", 100)
    with mixed() as mix:
        mix.load_state_dict(state)
        assert mix.state_dict()["step"] == state["step"]
        assert sorted(ids(mix)) == [*range(100, 100 + ROWS), *range(1_000, 1_000 + ROWS)]
    add(folders[1], "b", 2_000)
    with mixed() as mix, pytest.raises(fb.StateMismatchError, match="source 1 of the mix has other data.*not followed"):
        mix.load_state_dict(state)


def test_a_followed_folder_may_gain_partitions(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    add(folder / "day=1", "a", 0)
    with fb.Loader(folder, follow=True, batch_size=8) as loader:
        assert sorted(ids(loader)) == list(range(ROWS))
        add(folder / "day=2", "a", 100)
        batches = list(loader)
        assert loader.new_files == ["day=2/a.parquet"]
        assert {day for batch in batches for day in batch["day"].tolist()} == {1, 2}
        # The type of a key follows from all folders.
        add(folder / "day=last", "a", 200)
        assert {day for batch in loader for day in batch["day"].tolist()} == {"1", "2", "last"}
        add(folder, "b", 300)
        with pytest.raises(fb.UnsupportedError, match='column "day": .*b.parquet has no such column'):
            loader.epoch(3)


def test_an_epoch_of_an_empty_folder_is_an_error_and_begins_once_there_are_rows(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    add(folder, "a", 0)
    with fb.Loader(folder, follow=True, batch_size=8) as loader:
        assert len(ids(loader)) == ROWS
        (folder / "a.parquet").unlink()
        with pytest.raises(fb.NotFoundError, match="data: the folder holds no Parquet file"):
            iter(loader)
        pq.write_table(pa.table({"id": pa.array([], pa.int64())}), folder / "b.parquet")
        with pytest.raises(fb.InvalidError, match=r"no row is selected \(the data set is empty: .*, or wait for rows\)"):
            iter(loader)
        add(folder, "b", 100)
        assert sorted(ids(loader)) == list(range(100, 100 + ROWS))
        assert loader.state_dict()["epoch"] == 2 and loader.new_files == ["b.parquet"]
