"""Libraries in the user's functions, on threads and in processes: their random seeds, and torch's threads."""

from __future__ import annotations

import random
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import SOON, small

import forebay as fb
from forebay.transforms import libraries

THREADS = fb.Workers(2, threads=True)


def draw(row: fb.Row) -> dict[str, Any]:
    return {"id": row["id"], "x": np.array([random.random(), np.random.rand()])}


def draw_of_batch(batch: dict[str, Any]) -> dict[str, Any]:
    import torch

    return {"id": batch["id"], "x": torch.rand(len(batch["id"])), "y": fb.rng(batch).random(len(batch["id"]))}


def rows(batches: Any, *names: str) -> dict[int, list[Any]]:
    return {
        int(i): [np.asarray(batch[name][at]).tolist() for name in names]
        for batch in batches
        for at, i in enumerate(batch["id"])
    }


@pytest.mark.parametrize(("function", "option"), [(draw, "transform_rows"), (draw_of_batch, "transform")])
def test_processes_seed_libraries_from_the_row_or_batch(plain: Path, function: Any, option: str) -> None:
    if function is draw_of_batch:
        pytest.importorskip("torch")
    seen = []
    for workers in (1, 3):
        with small(plain, columns=["id"], transform_workers=workers, **{option: function}) as loader:
            seen.append(rows(loader, "x"))
    assert seen[0] == seen[1]
    assert len({str(x) for x in seen[0].values()}) > 900
    with small(plain, columns=["id"], transform_workers=1, **{option: function}) as loader:
        epoch = iter(loader)
        resumed = rows([next(epoch) for _ in range(3)], "x")
        loader.load_state_dict(loader.state_dict())
        assert resumed | rows(loader, "x") == seen[0]


def test_processes_that_are_not_seeded_draw_other_numbers_each(plain: Path) -> None:
    seen = []
    for _ in range(2):
        workers = fb.Workers(2, threads=False, seeded=False)
        with small(plain, columns=["id"], transform_workers=workers, transform_rows=draw) as loader:
            seen.append(rows(loader, "x"))
    drawn = [number for x in seen for (pair,) in x.values() for number in pair]
    assert len(drawn) == len(set(drawn)) == 4_000


def draw_own(row: fb.Row) -> dict[str, Any]:
    return {"id": row["id"], "x": fb.rng(row).random(2)}


def test_the_numbers_of_a_row_do_not_need_seeded_processes(plain: Path) -> None:
    workers = (0, fb.Workers(2, threads=False), fb.Workers(2, threads=False, seeded=False))
    seen = []
    for each in workers:
        with small(plain, columns=["id"], transform_workers=each, transform_rows=draw_own) as loader:
            seen.append(rows(loader, "x"))
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("workers", [0, THREADS], ids=["one thread", "threads"])
def test_a_function_that_draws_from_a_global_generator_on_a_thread_is_told_of(plain: Path, workers: Any) -> None:
    with small(plain, columns=["id"], transform_rows=draw, transform_workers=workers) as loader:
        for _ in range(20):
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                list(loader)
            if caught:
                break
        assert "transform_rows draws from the global generator of random" in str(caught[0].message)
        assert "transform_workers=1" in str(caught[0].message)


@pytest.mark.parametrize("workers", [0, THREADS], ids=["one thread", "threads"])
def test_a_loop_that_draws_is_no_cause_for_a_warning(plain: Path, workers: Any) -> None:
    def innocent(row: fb.Row) -> dict[str, Any]:
        return {"id": row["id"], "x": fb.rng(row).random()}

    with small(plain, columns=["id"], transform_rows=innocent, transform_workers=workers) as loader:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            for _ in range(3):
                for _ in loader:
                    np.random.seed(0)
                    random.random()


@pytest.mark.parametrize("workers", [0, THREADS], ids=["one thread", "threads"])
def test_torch_has_one_thread_on_threads_of_functions_and_its_own_elsewhere(
    plain: Path, workers: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch = pytest.importorskip("torch")
    # The training loop waits at most this long until worker threads have begun, which a busy machine can delay.
    monkeypatch.setattr(libraries, "START_SECONDS", SOON)
    before = torch.get_num_threads()
    seen = set()

    def note(batch: dict[str, Any]) -> dict[str, Any]:
        seen.add(torch.get_num_threads())
        return batch

    torch.set_num_threads(3)
    try:
        with small(plain, columns=["id"], transform=note, transform_workers=workers) as loader:
            list(loader)
            elsewhere: list[int] = []
            thread = threading.Thread(target=lambda: elsewhere.append(torch.get_num_threads()))
            thread.start()
            thread.join()
            assert (seen, torch.get_num_threads(), elsewhere) == ({1}, 3, [3])
    finally:
        torch.set_num_threads(before)


def test_a_batch_has_random_numbers_of_its_own(plain: Path) -> None:
    def noise(batch: dict[str, Any]) -> dict[str, Any]:
        return {"id": batch["id"], "y": fb.rng(batch).random(len(batch["id"]))}

    with small(plain, columns=["id"], transform=noise) as loader, small(
        plain, columns=["id"], transform=noise, transform_workers=THREADS
    ) as other:
        first, again = rows(loader.epoch(0), "y"), rows(other.epoch(0), "y")
        assert first == again and first != rows(loader.epoch(1), "y")
        assert len({str(y) for y in first.values()}) == 1_000
    with pytest.raises(fb.InvalidError, match="or the batch that transform was given, got dict"):
        fb.rng({})


def fail_at_length(batch: dict[str, Any]) -> dict[str, Any]:
    raise ValueError("begin" + "x" * (20 << 20) + "end", b"y" * (20 << 20))


def test_an_exception_with_a_long_text_is_cut(plain: Path) -> None:
    with small(plain, transform=fail_at_length, transform_workers=1) as loader, pytest.raises(ValueError) as caught:
        list(loader)
    text, content = caught.value.args
    assert text.startswith("begin") and text.endswith("end") and "left out by forebay" in text
    assert len(text) < 100_000 and len(content) < 100_000
    assert "in fail_at_length" in str(caught.value.__cause__) and len(str(caught.value.__cause__)) < 100_000


def test_only_what_a_function_of_this_loader_draws_during_a_wait_is_told_of() -> None:
    watch, other = libraries.Watch(["transform_rows"]), libraries.Watch(["collate"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with watch.waits(False):
            random.random()
        with watch.waits(False), other.works():
            random.random()
        with watch.waits(False), watch.works(), other.works():
            random.random()
        with watch.waits(False), watch.works():
            pass
        with watch.waits(True), watch.works():
            random.random()
    with pytest.warns(RuntimeWarning, match="transform_rows draws from the global generator of random, or seeds it"):
        with watch.waits(False), watch.works():
            random.random()
    other = libraries.Watch(["collate"])
    with pytest.warns(RuntimeWarning, match=r"collate draws from the global generator of numpy\.random"):
        with other.works(), other.waits(False):
            np.random.rand()
