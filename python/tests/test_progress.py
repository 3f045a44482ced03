"""The progress bars of tqdm and rich agree with the statistics."""

from __future__ import annotations

import io
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import small, until

import forebay as fb
from forebay.adapters import progress
from forebay.adapters.progress import Watched


@pytest.fixture(params=["tqdm", "rich"])
def kind(request: pytest.FixtureRequest) -> str:
    pytest.importorskip(request.param)
    return request.param


def shown(kind: str, batches: Any, out: io.StringIO, **options: Any) -> Iterator[Any]:
    """Returns the batches behind a bar that is drawn to ``out``."""
    if kind == "tqdm":
        yield from fb.tqdm.bar(batches, file=out, ncols=200, **options)
        return
    from rich.console import Console
    from rich.progress import MofNCompleteColumn, Progress

    console = Console(file=out, force_terminal=True, width=200)
    with Progress(MofNCompleteColumn(), fb.rich.StatsColumn(), console=console) as display:
        yield from fb.rich.bar(batches, progress=display, **options)


def test_a_bar_counts_steps_and_names_the_rate(plain: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The window is longer than the epoch, so the bar shows the rate of the whole epoch.
    monkeypatch.setattr(progress, "WINDOW_SECONDS", 3_600.0)
    out = io.StringIO()
    began = time.monotonic()
    with small(plain) as train:
        for _ in shown(kind, fb.adapters.Batches(train, dict), out):
            time.sleep(0.04)
    took = time.monotonic() - began
    text = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", out.getvalue())
    rates = re.findall(r"16/16.*?([\d,]+) rows/s, waited \d+ %", text)
    assert rates, text
    # A step takes at least 40 ms for a batch of 64 rows, so the rate is at most about 1,600 rows/s.
    assert 16 * 64 / took - 1 <= int(rates[-1].replace(",", "")) <= 1_700


def test_a_resumed_epoch_begins_where_it_was(plain: Path, kind: str) -> None:
    out = io.StringIO()
    with small(plain) as train:
        batches = iter(train)
        for _ in range(5):
            next(batches)
        state = train.state_dict()
    with small(plain) as train:
        train.load_state_dict(state)
        watched = Watched(train, None)
        assert len(list(watched)) == 11
        assert watched.done == watched.total == 16
        train.load_state_dict(state)
        assert len(list(shown(kind, train, out))) == 11
    assert "16/16" in out.getvalue()


def test_a_rank_counts_its_own_steps(plain: Path) -> None:
    with small(plain, shard=fb.Shard(rank=1, world=2)) as train:
        watched = Watched(train, None)
        assert len(list(watched)) == watched.done == len(train)


def test_a_slow_transform_is_named(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def slow(batch: Any) -> Any:
        time.sleep(0.1)
        return {"id": batch["id"]}

    with small(plain, transform=slow) as train:
        watched = Watched(train, None)
        texts = [watched.text() for _ in watched]
    assert texts[0] == "first batch" or "rows/s" in texts[0]
    assert re.search(r"waited \d+ % for transform$", texts[-1]), texts
    assert int(re.search(r"waited (\d+) %", texts[-1])[1]) > 50  # type: ignore[index]


def test_an_epoch_that_fills_a_cache_says_how_far_it_is(plain: Path, tmp_path: Path) -> None:
    cache = fb.DiskCache(tmp_path, max_bytes="1GB", tier="rows")
    with small(plain, cache=cache, epochs=2) as train:
        groups = train.plan().to_dict()["row_groups"]
        first = Watched(train, None)
        texts = [first.text() for _ in first]
        found = [re.search(r"cache ([\d,]+) of ([\d,]+) row groups", text) for text in texts]
        assert found[-1], texts
        assert int(found[-1][2]) == groups
        counts = [int(one[1]) for one in found if one]
        assert counts == sorted(counts)
        assert until(lambda: f"cache {groups} of {groups} row groups" in first.text())
        second = Watched(train, None)
        assert "cache" not in [second.text() for _ in second][-1]


def test_the_text_changes_while_the_loop_waits(plain: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("tqdm")
    monkeypatch.setattr("forebay.tqdm.TICK", 0.02)
    out = io.StringIO()

    def slow(batch: Any) -> Any:
        assert until(lambda: "first batch" in out.getvalue())
        return {"id": batch["id"]}

    with fb.Loader(plain, columns=["id"], batch_size=500, transform=slow) as train:
        batches = fb.tqdm.bar(train, file=out, ncols=120)
        next(batches)
        assert "first batch" in out.getvalue()
        batches.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("end", ["break", "exception", "close", "two"])
def test_no_thread_is_left_behind(plain: Path, kind: str, end: str) -> None:
    def threads() -> set[threading.Thread]:
        # tqdm has one thread for all of its bars, which remains.
        return {thread for thread in threading.enumerate() if type(thread).__name__ != "TMonitor"}

    before = threads()
    with small(plain) as train, small(plain) as other:
        batches = shown(kind, train, io.StringIO())
        next(batches)
        if end == "two":
            assert len(list(fb.tqdm.bar(other, file=io.StringIO()) if kind == "tqdm" else other)) == 16
            assert len(list(batches)) == 15
        elif end == "exception":
            with pytest.raises(ArithmeticError):
                batches.throw(ArithmeticError())  # type: ignore[attr-defined]
        else:
            batches.close()  # type: ignore[attr-defined]
    del batches
    assert until(lambda: not threads() - before)


def test_what_has_no_loader_is_refused(kind: str) -> None:
    with pytest.raises(fb.InvalidError, match="the loader of a list is unknown"):
        getattr(fb, kind).bar([1, 2])
    with pytest.raises(fb.InvalidError, match=r"expected a forebay.Loader, got str"):
        getattr(fb, kind).bar([1, 2], loader="x")


def test_the_number_of_steps_is_the_loaders(plain: Path) -> None:
    pytest.importorskip("tqdm")
    with small(plain) as train, pytest.raises(TypeError, match=r"leave total= out"):
        fb.tqdm.bar(train, total=3)


def test_a_short_epoch_ends_with_what_it_was(plain: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # The interval is longer than the epoch, so the first text would remain without a final update.
    monkeypatch.setattr(fb.tqdm if kind == "tqdm" else fb.rich, "TICK", 60.0)
    out = io.StringIO()
    with small(plain) as train:
        for _ in shown(kind, train, out):
            pass
    text = re.sub(r"\x1b\[[^A-Za-z]*[A-Za-z]", "", out.getvalue())
    assert re.search(r"[\d,]+ rows/s, waited \d+ %[^a-z]*(for \w+)?\W*$", text), text


def test_a_data_loader_without_workers_is_known(plain: Path) -> None:
    torch = pytest.importorskip("torch")
    with small(plain, columns=["id"]) as train:
        batches = torch.utils.data.DataLoader(fb.torch.dataset(train), batch_size=None)
        watched = Watched(batches, None)
        assert len(list(watched)) == watched.done == 16
        behind = torch.utils.data.DataLoader(fb.torch.dataset(train), batch_size=None, num_workers=1)
        with pytest.raises(fb.InvalidError, match="the loader of a DataLoader is unknown"):
            Watched(behind, None)


# ---- warming ----


def test_a_cache_is_warmed_once_and_says_how_far(plain: Path, tmp_path: Path) -> None:
    cache = fb.DiskCache(tmp_path, max_bytes="1GB", tier="rows")
    with small(plain, cache=cache) as train:
        seen: list[tuple[int, int]] = []
        stats = train.warm(report=lambda done, of: seen.append((done, of)))
        groups = fb.Dataset(plain).num_row_groups
        assert (stats["misses"], stats["written"]) == (groups, groups)
        assert seen[-1] == (groups, groups)
        assert [done for done, _ in seen] == sorted(done for done, _ in seen)
        assert train.warm()["hits"] == groups
        list(train)
        assert train.stats().to_dict()["cache"]["misses"] == groups


def test_the_shares_of_all_ranks_are_the_whole(plain: Path, tmp_path: Path) -> None:
    written = 0
    for rank in range(3):
        cache = fb.DiskCache(tmp_path, max_bytes="1GB", tier="rows")
        with small(plain, cache=cache, batch_size=16, epochs=1, shard=fb.Shard(rank=rank, world=3)) as train:
            own = train.warm(share=True)
            assert own["misses"] < fb.Dataset(plain).num_row_groups
            written += own["misses"]
            before = train.stats().to_dict()["cache"]["misses"]
            # The rank has warmed all row groups that it reads in the epoch, so none is missing from the cache.
            assert len(list(train)) == len(train)
            assert train.stats().to_dict()["cache"]["misses"] == before
    assert written == fb.Dataset(plain).num_row_groups


def test_a_bar_of_warming(plain: Path, tmp_path: Path, kind: str) -> None:
    with small(plain, cache=fb.DiskCache(tmp_path, max_bytes="1GB", tier="rows")) as train:
        out = io.StringIO()
        if kind == "tqdm":
            stats = fb.tqdm.warm(train, file=out)
            assert f"{stats['misses']}/{stats['misses']}" in out.getvalue()
        else:
            assert fb.rich.warm(train)["misses"] > 0


def test_a_report_that_raises_ends_the_warming(plain: Path, tmp_path: Path) -> None:
    def report(done: int, of: int) -> None:
        raise ArithmeticError("no")

    with small(plain, cache=fb.DiskCache(tmp_path, max_bytes="1GB", tier="rows")) as train:
        with pytest.raises(ArithmeticError):
            train.warm(report=report)
        assert train.warm()["entries"] > 0
        assert len(list(train)) == 16


def test_ctrl_c_ends_the_warming(plain: Path, tmp_path: Path) -> None:
    with small(plain, cache=fb.DiskCache(tmp_path, max_bytes="1GB", tier="rows")) as train:
        with pytest.raises(KeyboardInterrupt):
            train.warm(report=lambda done, of: os.kill(os.getpid(), signal.SIGINT))
        assert train.warm()["entries"] == fb.Dataset(plain).num_row_groups
        assert len(list(train)) == 16


@pytest.mark.parametrize(
    ("warm", "said"),
    [
        (lambda train: train.warm(share=1), "share must be True or False, got 1"),
        (lambda train: train.warm(report=3), "report must be callable, got int"),
        (lambda train: train.warm(), "the loader has no cache to warm"),
    ],
)
def test_warming_says_what_is_wrong(plain: Path, warm: Callable[[Any], Any], said: str) -> None:
    with small(plain) as train, pytest.raises(fb.InvalidError, match=said):
        warm(train)


def test_a_text_of_nothing_is_plain() -> None:
    assert progress._waited({"decode": 0.0, "consumer": 0.0}, {"decode": 0.0, "consumer": 1.0}) == "waited 0 %"
    assert progress._waited({"decode": 1.0, "consumer": 0.0}, {"decode": 2.0, "consumer": 3.0}) == "waited 25 % for decode"
