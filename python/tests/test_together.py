"""A data set that the processes of a run open together: one reads the footers, and the others read none."""

from __future__ import annotations

import multiprocessing as mp
import shutil
import threading
import time
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE, ROWS, SOON

import forebay as fb
from forebay import index_exchange

dist = pytest.importorskip("torch.distributed")


class Shelf:
    """A store whose ``get`` does not wait."""

    def __init__(self) -> None:
        self.values: dict[str, bytes] = {}
        self.was_asked = threading.Event()

    def set(self, key: str, value: bytes) -> None:
        self.values[key] = value

    def get(self, key: str) -> bytes | None:
        self.was_asked.set()
        return self.values.get(key)


def requests(dataset: fb.Dataset) -> int:
    with fb.Loader(dataset, columns=["id"]) as loader:
        return loader.stats().to_dict()["traffic"]["requests"]


def rank_of_a_run(rank: int, port: int, urls: list[str], answers: Any) -> None:
    """One process of a run, which opens each data set with the others."""
    store = dist.TCPStore("127.0.0.1", port, is_master=False, timeout=timedelta(seconds=PATIENCE))
    found = []
    for url in urls:
        try:
            dataset = fb.Dataset.together(url, store, rank=rank, timeout=PATIENCE)
            with fb.Loader(dataset, columns=["id"], shuffle=fb.Shuffle(seed=3), batch_size=64) as loader:
                asked = loader.stats().to_dict()["traffic"]["requests"]
                ids = [int(row) for batch in loader for row in batch["id"]]
            found.append((dataset.fingerprint, asked, ids))
        except fb.ForebayError as error:
            found.append((type(error).__name__, 0, [str(error)]))
    answers.put((rank, found))
    # The last process to leave ends the server.
    store.add("left", 1)


def test_processes_open_several_data_sets_through_torchs_store(plain: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(min(plain.glob("*.parquet")), other)
    urls = [str(plain), str(other), str(tmp_path / "missing")]
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    context = mp.get_context("spawn")
    answers = context.Queue()
    ranks = [context.Process(target=rank_of_a_run, args=(rank, server.port, urls, answers)) for rank in (1, 2)]
    for process in ranks:
        process.start()
    rank_of_a_run(0, server.port, urls, answers)
    said = dict(answers.get(timeout=PATIENCE) for _ in range(3))
    for process in ranks:
        process.join(PATIENCE)
    assert [process.exitcode for process in ranks] == [0, 0]
    (whole, asked, ids), (part, asked_of_part, _), missing = said[0]
    assert (asked, asked_of_part) == (3, 1)
    assert sorted(ids) == list(range(ROWS))
    for rank in (1, 2):
        assert said[rank][0] == (whole, 0, ids), "no footer was read, and the order is the same"
        assert said[rank][1][:2] == (part, 0)
        kind, _, (message,) = said[rank][2]
        assert kind == "IoError"
        assert "rank 0, which reads the footers, could not open it" in message
        assert missing[2][0] in message, "the reason of rank 0"
    assert missing[0] == "NotFoundError"


def test_a_store_that_does_not_wait_is_asked_again(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # With chunks this small, the index is split into several values of the store.
    monkeypatch.setattr(index_exchange, "_CHUNK", 100)
    store = Shelf()
    found: list[fb.Dataset] = []
    other = threading.Thread(target=lambda: found.append(fb.Dataset.together(plain, store, rank=5, timeout=PATIENCE)))
    other.start()
    assert store.was_asked.wait(SOON)
    first = fb.Dataset.together(plain, store, rank=0)
    other.join(PATIENCE)
    assert found[0].fingerprint == first.fingerprint
    assert (requests(first), requests(found[0])) == (3, 0)
    assert len(store.values) > 3


def test_nobody_waits_without_end(plain: Path, capfd: pytest.CaptureFixture[str]) -> None:
    server = dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    for store in (Shelf(), dist.HashStore(), server):
        began = time.monotonic()
        with pytest.raises(fb.IoError, match=r"rank 0 has put no index into the store for 1\.5 s .*raise timeout"):
            fb.Dataset.together(plain, store, rank=1, timeout=1.5)
        assert 1.4 < time.monotonic() - began < 60
    assert capfd.readouterr().err == "", "a store's own log of each wait"
    client = dist.TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
    del server, store
    with pytest.raises(fb.IoError, match="the store has no index of rank 0: .*server runs"):
        fb.Dataset.together(plain, client, rank=1, timeout=60)
    with pytest.raises(fb.IoError, match="the store cannot be written to"):
        fb.Dataset.together(plain, client, rank=0)


def test_a_rank_that_finds_something_else_says_so(plain: Path, tmp_path: Path) -> None:
    folder = Path(shutil.copytree(plain, tmp_path / "copy"))
    store = Shelf()
    fb.Dataset.together(folder, store, rank=0)
    last = max(folder.glob("*.parquet"))
    last.rename(folder / "not-data")
    with pytest.raises(fb.DatasetChangedError, match=rf"copy: rank 0 found .*: 3 files with {ROWS:,} rows there, 2 files"):
        fb.Dataset.together(folder, store, rank=1)
    # The folder has the same number of rows in the same number of files, in another order.
    (folder / "not-data").rename(folder / "00-first.parquet")
    with pytest.raises(fb.DatasetChangedError, match="with other content"):
        fb.Dataset.together(folder, store, rank=1)
    # Rank 0 opens the folder again, so its new content is the valid one from here on.
    fb.Dataset.together(folder, store, rank=0)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert requests(fb.Dataset.together(folder, store, rank=1)) == 0


def test_what_is_in_the_store_is_not_believed(plain: Path) -> None:
    store = Shelf()
    fb.Dataset.together(plain, store, rank=0)
    whole = dict(store.values)
    (header,) = (key for key in whole if key.count("/") == 2)
    (chunk,) = (key for key in whole if key.count("/") > 2)
    store.values[chunk] = whole[chunk][:-1] + b"?"
    with pytest.raises(fb.CorruptError, match="the index in the store is damaged"):
        fb.Dataset.together(plain, store, rank=1)
    store.values = {**whole, header: b"something"}
    with pytest.raises(fb.CorruptError, match="something other than an index"):
        fb.Dataset.together(plain, store, rank=1)
    store.values = {**whole, header: whole[header].replace(b'"version": 1', b'"version": 9')}
    with pytest.raises(fb.StateMismatchError, match="another version of forebay"):
        fb.Dataset.together(plain, store, rank=1)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"store": {}}, "store must have set"),
        ({"rank": -1}, "rank"),
        ({"timeout": 0}, "timeout must be a number of seconds above 0, got 0"),
        ({"timeout": "1h"}, "timeout must be a number of seconds"),
    ],
)
def test_arguments_that_cannot_work_are_refused(plain: Path, options: dict[str, Any], message: str) -> None:
    arguments = {"store": Shelf(), "rank": 1, **options}
    with pytest.raises(fb.InvalidError, match=message):
        fb.Dataset.together(plain, **arguments)
    with pytest.raises(fb.InvalidError, match="index must be bytes"):
        fb.Dataset(plain, index="text")  # type: ignore[arg-type]


def test_an_index_goes_from_process_to_process_as_bytes(plain: Path) -> None:
    first = fb.Dataset(plain)
    index = first.index()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        second = fb.Dataset(plain, index=index)
    assert second.fingerprint == first.fingerprint
    assert requests(second) == 0
    with pytest.raises(fb.CorruptError, match=r"cannot be used: it is damaged .*Dataset\.index\(\)"):
        fb.Dataset(plain, index=index[:-1])
