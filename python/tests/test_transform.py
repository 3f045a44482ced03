"""A Python function between the loader and the training step."""

from __future__ import annotations

import threading
import time
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ids, small, until

import forebay as fb
from forebay.adapters import Batches, pick


def halve(batch: dict[str, Any]) -> dict[str, Any]:
    return {"id": batch["id"], "half": batch["f32"] / 2, "thread": threading.get_ident(), "note": object()}


def test_its_results_arrive_in_order_from_another_thread(plain: Path) -> None:
    with small(plain) as bare, small(plain, transform=halve) as loader:
        for batch, made in zip(bare, loader, strict=True):
            assert type(made) is dict
            assert (made["id"] == batch["id"]).all()
            assert (made["half"] == batch["f32"] / 2).all()
            assert made["thread"] != threading.get_ident()
        assert len(ids(loader)) == 16


def test_it_works_ahead_but_not_far(plain: Path) -> None:
    calls: list[int] = []

    def count(batch: dict[str, Any]) -> dict[str, Any]:
        calls.append(1)
        return batch

    with small(plain, transform=count) as loader:
        epoch = iter(loader)
        next(epoch)
        assert until(lambda: len(calls) >= 2)
        time.sleep(0.3)
        assert len(calls) <= 3


def test_the_state_counts_what_was_handed_over(plain: Path) -> None:
    with small(plain) as bare, small(plain, transform=halve) as loader:
        plain_epoch, epoch = iter(bare), iter(loader)
        for _ in range(5):
            next(plain_epoch)
            next(epoch)
            time.sleep(0.02)
            assert loader.state_dict() == bare.state_dict()
        state = loader.state_dict()
        rest = [batch["id"].tolist() for batch in epoch]
        loader.load_state_dict(state)
        assert ids(loader) == rest


class Mine(Exception):
    """An exception that only this test knows."""


def test_its_exception_is_raised_at_its_batch(plain: Path) -> None:
    calls = 0

    def fail(batch: dict[str, Any]) -> dict[str, Any]:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise Mine("no")
        return batch

    with small(plain, transform=fail) as loader:
        seen = 0
        with pytest.raises(Mine, match="no") as caught:
            for _ in loader:
                seen += 1
        assert seen == 3
        assert "in fail" in "".join(traceback.format_tb(caught.value.__traceback__))
        if hasattr(caught.value, "add_note"):
            assert any("batch 3" in note for note in caught.value.__notes__)
        assert loader.state_dict()["row"] == 3 * 64
        assert len(ids(loader)) == 16


def test_it_has_to_return_a_dict(plain: Path) -> None:
    with small(plain, transform=lambda batch: np.zeros(3)) as loader, pytest.raises(TypeError, match="dict of arrays"):
        next(iter(loader))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda batch: {"id": batch["id"], "y": batch["id"][:2]}, r"64 rows of column 'y', .* got 2\b"),
        (lambda batch: {"y": batch["id"][:2]}, r"64 rows of column 'y', .* got 2\b"),
        (lambda batch: {"y": np.concatenate([batch["id"], batch["id"]])}, r"got 128\b"),
        (lambda batch: {"y": batch["id"].sum()}, "got int64 without rows"),
        (lambda batch: {"y": np.array(3)}, "got ndarray without rows"),
        (lambda batch: {"y": [1, 2]}, r"got 2\b"),
        (lambda batch: {"y": {"z": batch["id"][1:]}}, r"column 'y.z', .* got 63\b"),
        (lambda batch: {"y": fb.Ragged(batch["id"], np.array([0, 64]))}, r"got 1\b"),
        (lambda batch: {}, "at least one column"),
    ],
)
def test_it_returns_as_many_rows_as_it_was_given(plain: Path, change: Any, says: str) -> None:
    with small(plain, transform=change) as loader, pytest.raises(fb.InvalidError, match=says) as caught:
        next(iter(loader))
    if hasattr(caught.value, "add_note"):
        assert any("batch 0" in note for note in caught.value.__notes__)


def test_values_of_the_whole_batch_pass(plain: Path) -> None:
    def add(batch: dict[str, Any]) -> dict[str, Any]:
        return {"id": batch["id"], "rows": len(batch["id"]), "list": batch["id"].tolist(), "of": "train"}

    with small(plain, transform=add) as loader:
        made = next(iter(loader))
        assert made["rows"] == len(made["list"]) == 64


def test_its_thread_ends_with_the_iterator(plain: Path) -> None:
    def running() -> int:
        return sum(thread.name == "forebay-transform" for thread in threading.enumerate())

    with small(plain, transform=halve) as loader:
        for _ in range(20):
            epoch = iter(loader)
            next(epoch)
            del epoch
        for _ in loader:
            break
        assert until(lambda: running() == 0)
        assert len(ids(loader)) == 16


@pytest.mark.parametrize("error", [StopIteration, StopIteration("the end of a list of augmentations")], ids=str)
def test_a_stop_iteration_of_its_own_does_not_end_the_epoch(plain: Path, error: Any) -> None:
    def stop(batch: dict[str, Any]) -> dict[str, Any]:
        raise error

    with small(plain, transform=stop) as loader:
        for batches in (loader, Batches(loader, dict)):
            with pytest.raises(RuntimeError, match="the transform raised StopIteration") as caught:
                for _ in batches:
                    pass
            assert isinstance(caught.value.__cause__, StopIteration)


def conversions(function: Any) -> list[dict[str, Any]]:
    """Returns options of ``Batches``, one set for each way in which it can call the function."""
    return [
        {"convert": function},
        {"convert": dict, "finish": function},
        {"convert": dict, "copied": function},
        {"convert": function, "ahead": 2},
    ]


@pytest.mark.parametrize("which", range(4))
@pytest.mark.parametrize("transform", [None, halve], ids=["bare", "transform"])
def test_an_exception_of_a_conversion_says_at_which_batch_it_was(plain: Path, which: int, transform: Any) -> None:
    calls = 0

    def fail(batch: Any) -> int:
        nonlocal calls
        calls += 1
        if calls == 3:
            raise Mine("no")
        return 0

    with small(plain, transform=transform) as loader:
        epoch = loader.epoch(5)
        next(epoch)
        with pytest.raises(Mine, match="no") as caught:
            list(Batches(loader, **conversions(fail)[which]).over(epoch))
        if hasattr(caught.value, "add_note"):
            assert caught.value.__notes__ == [
                "forebay: in the conversion of batch 3 (as counted in this run) of epoch 5"
            ]


@pytest.mark.parametrize("which", range(4))
def test_a_stop_iteration_of_a_conversion_does_not_end_the_epoch(plain: Path, which: int) -> None:
    def stop(batch: Any) -> Any:
        return next(iter(()))

    with small(plain) as loader:
        with pytest.raises(RuntimeError, match="the conversion raised StopIteration") as caught:
            list(Batches(loader, **conversions(stop)[which]))
        assert isinstance(caught.value.__cause__, StopIteration)
        with pytest.raises(RuntimeError, match="picks columns raised StopIteration"):
            pick({}, stop)


@pytest.mark.parametrize("transform", [None, halve], ids=["bare", "transform"])
def test_an_epoch_that_is_over_may_be_closed(plain: Path, transform: Any) -> None:
    with small(plain, transform=transform) as loader:
        for _ in range(2):
            epoch = iter(loader)
            assert len(list(epoch)) == 16
            with pytest.raises(StopIteration):
                next(epoch)
            epoch.close()
            epoch.close()
            with pytest.raises(fb.ClosedError, match="it was closed"):
                next(epoch)
            assert epoch.skipped == []
        batches = iter(Batches(loader, dict))
        assert len(list(batches)) == 16
        batches.close()  # type: ignore[attr-defined]
