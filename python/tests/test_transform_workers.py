"""Functions of the user in several processes or threads."""

from __future__ import annotations

import collections
import contextlib
import gc
import itertools
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading
import time
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE, SOON, alive, ids, quickest, small, until

import forebay as fb
from forebay.transforms import processes, several
from forebay.transforms.processes import Processes

PROCESSES = fb.Workers(2, threads=False)
THREADS = fb.Workers(2, threads=True)
BOTH = pytest.mark.parametrize("workers", [PROCESSES, THREADS], ids=["processes", "threads"])


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """Checks that no test leaves a thread behind."""
    yield
    gc.collect()
    assert until(
        lambda: not [thread for thread in threading.enumerate() if thread.name.startswith("forebay-transform")]
    )


def ended(processes: Any) -> None:
    assert until(lambda: not any(map(alive, processes)))


def change(row: fb.Row) -> dict[str, Any]:
    noise = fb.rng(row).random(3)
    return {**row, "vector": row["vector"] * 2 + noise, "name": row["name"].upper(), "half": row["f32"] / np.float32(2)}


def double(batch: dict[str, Any]) -> dict[str, Any]:
    return {**batch, "id": batch["id"], "twice": batch["f64"] * 2, "rows": len(batch["id"]), "why": "test"}


def gather(rows: list[Any]) -> dict[str, Any]:
    return {
        "id": np.array([row["id"] for row in rows]),
        "vector": np.stack([row["vector"] for row in rows]),
        "words": fb.Ragged(
            np.concatenate([row["words"] for row in rows]), np.cumsum([0] + [len(row["words"]) for row in rows])
        ),
        "wide": np.zeros((len(rows), 300)).T.T,
    }


def content(value: Any) -> Any:
    """Returns the content of a value in a form that can be compared."""
    if isinstance(value, fb.Ragged):
        return type(value), content(value.values), content(value.offsets)
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.shape, value.tolist() if value.dtype.hasobject else value.tobytes()
    if isinstance(value, dict):
        return {name: content(one) for name, one in value.items()}
    return value


@pytest.mark.parametrize("workers", [1, 3, PROCESSES, THREADS], ids=str)
@pytest.mark.parametrize(
    "functions",
    [
        {"transform_rows": change},
        {"transform": double},
        {"transform_rows": change, "transform": double},
        {"transform_rows": change, "collate": gather},
        {"collate": gather},
    ],
    ids=lambda functions: "+".join(functions),
)
def test_batches_do_not_depend_on_workers(plain: Path, workers: Any, functions: Any) -> None:
    with small(plain, **functions) as alone, small(plain, **functions, transform_workers=workers) as loader:
        for epoch in range(2):
            for one, other in zip(alone.epoch(epoch), loader.epoch(epoch), strict=True):
                assert type(other) is dict
                assert content(other) == content(one)
        assert loader.state_dict() == alone.state_dict()


def test_arrays_of_every_size_and_kind_come_through(photos: Path) -> None:
    options: Any = {"decode": {"image": fb.Image.resize(96, 128)}, "batch_size": 48}
    with (
        fb.Loader(photos, **options) as bare,
        fb.Loader(photos, **options, transform_workers=2, transform=kinds) as loader,
    ):
        for one, other in zip(bare, loader, strict=True):
            assert (other["flipped"] == one["image"][:, :, ::-1]).all()
            assert (other["first"] == one["image"].transpose(0, 3, 1, 2)).all()
            assert (other["fortran"] == one["image"][..., 0].reshape(len(one["id"]), -1)).all()
            assert other["times"].dtype == np.dtype("M8[s]")
            assert other["texts"].tolist() == [str(i) * 50 for i in one["id"]]
            assert other["image"].flags.writeable
            other["image"][:] = 0


def kinds(batch: dict[str, Any]) -> dict[str, Any]:
    image = batch["image"]
    return {
        "image": image,
        "flipped": image[:, :, ::-1],
        "first": image.transpose(0, 3, 1, 2),
        "fortran": np.asfortranarray(image[..., 0].reshape(len(image), -1)),
        "times": batch["id"].astype("M8[s]"),
        "texts": np.array([str(i) * 50 for i in batch["id"]], object),
    }


def tensors(batch: dict[str, Any]) -> dict[str, Any]:
    import torch

    return {"id": batch["id"], "x": torch.from_numpy(batch["f32"]) * torch.ones(500, 1), "rows": len(batch["id"])}


def transposed(batch: dict[str, Any]) -> dict[str, Any]:
    made = tensors(batch)
    return {**made, "x": made["x"].T.contiguous(), "b": made["x"].T.bfloat16()}


def test_tensors_come_through(plain: Path) -> None:
    torch = pytest.importorskip("torch")
    with small(plain) as bare, small(plain, transform=transposed, transform_workers=1) as loader:
        for one, other in zip(bare, loader, strict=True):
            assert isinstance(other["x"], torch.Tensor)
            assert (other["x"][:, 7].numpy() == one["f32"]).all()
            assert other["b"].dtype == torch.bfloat16


def where(row: fb.Row) -> dict[str, Any]:
    return {"id": row["id"], "process": os.getpid(), "thread": threading.get_ident()}


class Both:
    """A function of a row that waits until two processes have called it, so that each of them makes some rows."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()

    def __call__(self, row: fb.Row) -> dict[str, Any]:
        (self.folder / str(os.getpid())).touch()
        assert until(lambda: len(os.listdir(self.folder)) == 2)
        return where(row)

    def processes(self, loader: fb.Loader) -> set[int]:
        """Returns the processes that made the rows of an epoch."""
        for path in self.folder.iterdir():
            path.unlink()
        return {int(i) for batch in loader for i in batch["process"]}


@pytest.fixture
def both(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Both:
    # At its end, an epoch waits until its workers are free, so that the next epoch can use them again.
    monkeypatch.setattr(several, "CLOSE_SECONDS", SOON)
    return Both(tmp_path / "both")


def test_each_worker_is_a_process_that_stays_from_epoch_to_epoch(plain: Path, both: Both) -> None:
    with small(plain, transform_rows=both, transform_workers=2) as loader:
        seen = [both.processes(loader) for _ in range(3)]
        assert seen[0] == seen[1] == seen[2]
        assert len(seen[0]) == 2
        assert os.getpid() not in seen[0]
        assert all(map(alive, seen[0]))
    ended(seen[0])


def test_threads_are_threads_of_this_process(plain: Path) -> None:
    with small(plain, transform_rows=where, transform_workers=THREADS) as loader:
        batches = list(loader)
        assert {int(i) for batch in batches for i in batch["process"]} == {os.getpid()}
        assert threading.get_ident() not in {int(i) for batch in batches for i in batch["thread"]}


def test_the_processes_end_after_the_last_epoch(plain: Path) -> None:
    with small(plain, transform_rows=where, transform_workers=2, epochs=2) as loader:
        seen = {int(i) for _ in range(2) for batch in loader for i in batch["process"]}
        assert len(seen) <= 2, "those of the first epoch work on the last one"
        ended(seen)


def begin(loader: fb.Loader) -> tuple[Any, set[int]]:
    epoch = iter(loader)
    return epoch, {int(i) for _ in range(5) for i in next(epoch)["process"]}


def test_the_processes_end_with_the_iterator_the_loader_and_an_exception(plain: Path) -> None:
    def loader() -> fb.Loader:
        return small(plain, transform_rows=where, transform_workers=2)

    one = loader()
    epoch, processes = begin(one)
    del epoch
    ended(processes)

    epoch, processes = begin(one)
    one.close()
    ended(processes)
    with pytest.raises(fb.ClosedError, match="the loader was closed"):
        next(epoch)

    one = loader()
    seen = {int(i) for batch in one for i in batch["process"]}
    assert all(map(alive, seen))
    del one, epoch
    gc.collect()
    ended(seen)

    one = loader()
    with pytest.raises(ZeroDivisionError):
        for batch in one:
            processes = set(batch["process"].tolist())
            raise ZeroDivisionError
    ended(processes)

    # Beginning another epoch, or loading a state, ends the work of the previous one.
    first, processes = begin(one)
    state = one.state_dict()
    second, others = begin(one)
    ended(processes)
    one.load_state_dict(state)
    ended(others)
    assert first is not second
    assert sum(len(batch["id"]) for batch in one) == 1_000 - 5 * 64
    one.close()


class Mine(Exception):
    """An exception that only this test knows."""


class Stubborn(Exception):
    """An exception that cannot be unpickled, because ``args`` holds one argument and ``__init__`` takes two."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__(f"{one} {two}")


def fail(row: fb.Row) -> dict[str, Any]:
    if row["id"] == 613:
        raise Mine("no", 3)
    return {"id": row["id"], "process": os.getpid()}


def fail_stubbornly(batch: dict[str, Any]) -> dict[str, Any]:
    raise Stubborn(1, 2)


def stop(batch: dict[str, Any]) -> dict[str, Any]:
    return next(iter(()))


@BOTH
def test_an_exception_is_raised_at_its_batch_with_the_place_of_its_row(plain: Path, workers: Any) -> None:
    with small(plain) as bare:
        which = next(at for at, batch in enumerate(ids(bare)) if 613 in batch)
    with small(plain, transform_rows=fail, transform_workers=workers) as loader:
        seen: set[int] = set()
        batches = 0
        with pytest.raises(Mine) as caught:
            for batch in loader:
                batches += 1
                seen |= set(batch["process"].tolist())
        assert batches == which
        assert caught.value.args == ("no", 3)
        assert loader.state_dict()["row"] == which * 64
        if workers is PROCESSES:
            assert "in fail" in str(caught.value.__cause__)
            ended(seen)
        if hasattr(caught.value, "add_note"):
            (note,) = caught.value.__notes__
            assert "forebay: in the transform_rows of " in note
            assert "part-1.parquet, row group 2, row 33, which is row " in note
            assert f"of batch {which} (as counted in this run) of epoch 0" in note


@BOTH
def test_other_exceptions_end_the_epoch_as_what_they_are(plain: Path, workers: Any) -> None:
    with small(plain, transform=stop, transform_workers=workers) as loader:
        with pytest.raises(RuntimeError, match="the transform raised StopIteration") as caught:
            list(loader)
        assert isinstance(caught.value.__cause__, StopIteration)
    with small(plain, transform=fail_stubbornly, transform_workers=workers) as loader:
        expected, says = (fb.WorkerError, "Stubborn: 1 2") if workers is PROCESSES else (Stubborn, "1 2")
        for _ in range(2):
            with pytest.raises(expected, match=says):
                list(loader)
    with (
        small(plain, transform=nothing, transform_workers=workers) as loader,
        pytest.raises(TypeError, match="transform must return a dict of arrays, got NoneType"),
    ):
        list(loader)
    with (
        small(plain, columns=["id"], transform_rows=make_a_lambda, transform_workers=PROCESSES) as loader,
        pytest.raises(fb.InvalidError, match=r"made cannot be sent from a worker process: .*threads=True"),
    ):
        list(loader)


def nothing(batch: dict[str, Any]) -> None:
    return None


def make_a_lambda(row: fb.Row) -> dict[str, Any]:
    return {"x": lambda: row}


def die(row: fb.Row) -> dict[str, Any]:
    if row["id"] == 613:
        os.kill(os.getpid(), signal.SIGKILL)
    return {"id": row["id"]}


def leave(row: fb.Row) -> dict[str, Any]:
    os._exit(3)


@pytest.mark.parametrize(("function", "says"), [(die, "was killed by signal 9"), (leave, "ended with exit code 3")])
def test_a_worker_that_dies_is_an_error_that_says_so(plain: Path, function: Any, says: str) -> None:
    with small(plain, transform_rows=function, transform_workers=2) as loader:
        for _ in range(2):
            with pytest.raises(
                fb.WorkerError, match=rf"worker process [0-9]+ of the transform {says}.*memory may have"
            ):
                for _ in loader:
                    pass


def test_a_worker_that_died_between_epochs_is_replaced(plain: Path, both: Both) -> None:
    with small(plain, transform_rows=both, transform_workers=2) as loader:
        first = both.processes(loader)
        victim = min(first)
        os.kill(victim, signal.SIGKILL)
        ended([victim])
        # The pipe to the killed process closes with its last thread, a moment after the process has ended.
        assert until(lambda: not all(worker.is_idle() for worker in loader._processes._workers))
        second = both.processes(loader)
        assert first & second == first - {victim}
        assert len(second) == 2


def test_what_cannot_be_pickled_is_refused_when_the_loader_is_built(plain: Path) -> None:
    def local(row: fb.Row) -> dict[str, Any]:
        return dict(row)

    for function in (local, lambda row: row):
        with pytest.raises(fb.InvalidError, match=r"cannot be sent to worker processes: .* top level of a module"):
            small(plain, transform_rows=function, transform_workers=2)
        with small(plain, transform_rows=function, transform_workers=THREADS) as loader:
            next(iter(loader))


@pytest.mark.parametrize(
    ("workers", "says"),
    [
        (-1, "transform_workers must be at least 0, got -1"),
        (1.5, "transform_workers must be an int, got 1.5"),
        (True, "transform_workers must be an int, got True"),
        (1 << 20, "transform_workers must fit 16 bits"),
    ],
)
def test_a_wrong_number_of_workers_is_refused(plain: Path, workers: Any, says: str) -> None:
    with pytest.raises(fb.InvalidError, match=says):
        small(plain, transform=double, transform_workers=workers)


def test_workers_without_a_transform_are_refused(plain: Path) -> None:
    with pytest.raises(fb.InvalidError, match="transform_workers=2, but there is no transform"):
        small(plain, transform_workers=2)
    with pytest.raises(fb.InvalidError, match="threads must be True or False, got 3"):
        fb.Workers(2, threads=3)  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="seeded must be True or False, got 0"):
        fb.Workers(2, seeded=0)  # type: ignore[arg-type]


def test_loaders_with_workers_pickle_and_show_them(plain: Path) -> None:
    workers = fb.Workers(2, threads=True)
    assert repr(workers) == "forebay.Workers(2, threads=True)"
    assert repr(fb.Workers(2)) == "forebay.Workers(2)"
    assert repr(fb.Workers(2, seeded=False)) == "forebay.Workers(2, seeded=False)"
    assert pickle.loads(pickle.dumps(workers)) == workers
    with small(plain, transform=double, transform_workers=2) as loader:
        assert "transform_workers=2" in repr(loader)
        list(loader)
        with pickle.loads(pickle.dumps(loader)) as again:
            assert ids(again) == ids(loader.epoch(0))


def test_batches_that_are_kept_keep_their_rows(plain: Path) -> None:
    with small(plain, batch_size=16, transform=big, transform_workers=2) as loader:
        before = len(os.listdir("/proc/self/fd"))
        batches = list(loader)
        # The kept batches do not hold one open file each.
        assert len(os.listdir("/proc/self/fd")) < before + 60
        for batch in batches:
            assert (batch["x"] == batch["id"][:, None]).all()
        again = list(loader)
        for batch in batches + again:
            assert (batch["x"] == batch["id"][:, None]).all()
    for batch in batches:
        assert (batch["x"] == batch["id"][:, None]).all()
    del batch, batches, again
    # The last slots of shared memory are freed with the last arrays, which a reference cycle may keep for a while.
    assert until(lambda: gc.collect() >= 0 and not open_slots())
    assert until(lambda: "forebay-slot" not in Path("/proc/self/maps").read_text())


@pytest.mark.parametrize("number", [0, 1])
def test_slots_that_cannot_be_sent_to_a_worker_are_closed(
    plain: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    send, sent = processes.send_handle, itertools.count()

    def fails(*words: Any) -> None:
        """Fails at the call with this number, as if the worker had died at that moment."""
        if next(sent) == number:
            raise BrokenPipeError("gone")
        send(*words)

    monkeypatch.setattr(processes, "send_handle", fails)
    with (
        small(plain, batch_size=16, transform=big, transform_workers=1) as loader,
        pytest.raises(fb.WorkerError, match="worker process [0-9]+ of the transform"),
    ):
        list(loader)
    assert until(lambda: gc.collect() >= 0 and not open_slots())


def test_workers_that_an_epoch_gives_back_after_the_loader_was_closed_end(
    plain: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    give_back, late = Processes.give_back, threading.Event()
    ids_of: list[int] = []

    def slow(self: Any, workers: Any) -> None:
        ids_of.extend(worker.process_id for worker in workers)
        late.wait()
        give_back(self, workers)

    monkeypatch.setattr(several, "CLOSE_SECONDS", 0.01)
    monkeypatch.setattr(Processes, "give_back", slow)
    with small(plain, batch_size=16, transform=big, transform_workers=2) as loader:
        batches = list(loader)
    assert until(lambda: len(ids_of) == 2)
    late.set()
    # The workers end although the loader and its batches still exist.
    ended(ids_of)
    del batches
    assert until(lambda: not open_slots())
    assert repr(loader)


def test_a_slot_that_is_given_back_while_its_worker_is_released_is_closed(plain: Path) -> None:
    class Late(collections.deque[Any]):
        """Simulates another thread that releases the worker just before a slot is added."""

        def append(self, slot: Any) -> None:
            worker.end()
            worker.release()
            super().append(slot)

    with small(plain, batch_size=16, transform=big, transform_workers=1) as loader:
        batches = list(loader)
        # The epoch gives its worker back to the loader when it has ended.
        assert until(lambda: loader._processes._workers)
        (worker,) = loader._processes._workers
        worker._targets = Late(worker._targets)
        del batches
        assert until(lambda: not open_slots())


def mapped() -> list[str]:
    """Returns the mappings of named shared memory in this process. Such memory could outlive the process."""
    lines = Path("/proc/self/maps").read_text().splitlines()
    return [line for line in lines if "/dev/shm/" in line and "/dev/shm/sem." not in line]


def test_shared_memory_has_no_name_that_could_be_left_behind(plain: Path) -> None:
    before = mapped()
    with small(plain, columns=["id"], transform=look, transform_workers=1) as loader:
        batches = list(loader)
        assert all(batch["slots"] for batch in batches[1:])
        assert not any(batch["named"] for batch in batches)
        assert not set(mapped()) - set(before)


def look(batch: dict[str, Any]) -> dict[str, Any]:
    slots = Path("/proc/self/maps").read_text().count("/memfd:forebay-slot")
    return {**big(batch), "named": "\n".join(mapped()), "slots": slots}


def big(batch: dict[str, Any]) -> dict[str, Any]:
    return {"id": batch["id"], "x": np.repeat(batch["id"][:, None], 2_000, axis=1)}


def open_slots() -> list[str]:
    """Returns the shared memory of workers that this process has open."""
    found = []
    for name in os.listdir("/proc/self/fd"):
        try:
            found.append(os.readlink(f"/proc/self/fd/{name}"))
        except FileNotFoundError:
            continue
    return [path for path in found if "forebay-slot" in path]


KEPT: list[Any] = []


def keep(batch: dict[str, Any]) -> dict[str, Any]:
    """Keeps arrays of each batch, checks that those of earlier batches are unchanged, and returns the batch."""
    KEPT.append((batch["id"].copy(), batch["id"], batch["vector"][:1]))
    assert all((copy == view).all() and part[0, 0] == copy[0] for copy, view, part in KEPT), "memory was used again"
    return batch


def test_a_function_may_keep_arrays_of_earlier_batches(plain: Path) -> None:
    with small(plain, columns=["id", "vector"], batch_size=100, transform=keep, transform_workers=1) as loader:
        for _ in range(3):
            assert sum(len(batch["id"]) for batch in loader) == 1_000


@BOTH
def test_they_work_ahead_but_not_far(plain: Path, tmp_path: Path, workers: Any, monkeypatch: Any) -> None:
    calls = tmp_path / "calls"
    monkeypatch.setenv("FOREBAY_TEST_CALLS", str(calls))
    # The function carries the path, because workers may be forked from a process that started before `setenv`.
    function = CountCalls(str(calls))
    with small(plain, batch_size=10, transform=function, transform_workers=workers) as loader:
        epoch = iter(loader)
        next(epoch)
        assert until(lambda: len(calls.read_text()) >= 5)
        time.sleep(0.3)
        assert len(calls.read_text()) == 1 + 4


class CountCalls:
    """A function that adds a letter to a file at each call. It can be pickled."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        with open(self.path, "a") as file:
            file.write("x")
        return batch


#: Seconds that a slow function takes for a batch.
SLOW = 0.5


def slow(batch: dict[str, Any]) -> dict[str, Any]:
    time.sleep(SLOW)
    return batch


@BOTH
def test_statistics_count_the_time_of_all_workers(plain: Path, workers: Any) -> None:
    with small(plain, columns=["id"], transform=slow, transform_workers=workers) as loader:
        # The worker processes start in this first epoch, which is not timed.
        list(loader)
        waited: list[float] = []

        def epoch() -> float:
            before = loader.stats().to_dict()
            began = time.monotonic()
            list(loader)
            seconds = time.monotonic() - began
            after = loader.stats().to_dict()
            items, working = (
                after["stages"]["transform"][key] - before["stages"]["transform"][key] for key in ("items", "working")
            )
            assert items == 16
            assert 16 * SLOW <= working <= 2 * seconds
            waited.append(after["waits"]["transform"] - before["waits"]["transform"])
            assert waited[-1] <= seconds
            return seconds

        seconds = quickest(epoch, 16 * SLOW)
    assert seconds < 16 * SLOW
    assert 0.3 * seconds <= waited[-1]
    assert "The transform is" in str(loader.stats())


def test_ranks_and_resume_do_not_depend_on_workers(plain: Path) -> None:
    shuffle = fb.Shuffle(seed=17, window_rows=200, lanes=2)
    options: Any = {"columns": ["id", "f32", "vector", "name"], "shuffle": shuffle, "transform_rows": change}

    def rows(batches: Any) -> dict[int, bytes]:
        return {int(i): x.tobytes() for batch in batches for i, x in zip(batch["id"], batch["vector"], strict=True)}

    with small(plain, **options) as alone:
        first = rows(alone)
    found: dict[int, bytes] = {}
    for rank in range(2):
        with small(plain, **options, shard=fb.Shard(rank=rank, world=2), transform_workers=2) as loader:
            epoch = iter(loader)
            found.update(rows(next(epoch) for _ in range(3)))
            state = loader.state_dict()
            assert state["row"] == 3 * 64 * 2
            loader.load_state_dict(state)
            found.update(rows(loader))
    assert found == first


def test_bad_rows_are_left_out(tmp_path: Path) -> None:
    table = pa.table({"id": pa.array([None] * 4 + list(range(36)))})
    pq.write_table(table, tmp_path / "a.parquet")
    skip = fb.Skip(at_most=4)
    with fb.Loader(tmp_path, batch_size=4, on_bad_row=skip, transform_rows=where, transform_workers=2) as loader:
        batches = list(loader)
        assert batches[0]["id"].tolist() == [0]
        assert [len(batch["id"]) for batch in batches[1:]] == [4] * 9
        assert len(loader.skipped()) == 4


def test_two_loaders_have_processes_of_their_own(plain: Path) -> None:
    with (
        small(plain, transform_rows=where, transform_workers=2) as one,
        small(plain, transform_rows=where, transform_workers=2) as other,
    ):
        first, second = set(), set()
        for a, b in zip(one, other, strict=True):
            first |= set(a["process"].tolist())
            second |= set(b["process"].tolist())
            assert (a["id"] == b["id"]).all()
        assert not first & second


def test_batches_for_torch_are_made_of_what_workers_made(plain: Path) -> None:
    torch = pytest.importorskip("torch")
    with (
        small(plain, columns=["id", "vector"]) as bare,
        small(plain, columns=["id", "vector"], transform=big, transform_workers=2) as loader,
    ):
        batches = list(fb.torch.batches(loader))
        for one, other in zip(bare, batches, strict=True):
            assert isinstance(other["x"], torch.Tensor)
            assert (other["x"].numpy() == one["id"][:, None]).all()


def of_a_module_of_this_process(row: fb.Row) -> fb.Row:
    return row


def test_a_function_that_the_processes_cannot_import_is_told_so(plain: Path, monkeypatch: Any) -> None:
    module = types.ModuleType("only_here")
    module.function = of_a_module_of_this_process  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "only_here", module)
    monkeypatch.setattr(of_a_module_of_this_process, "__module__", "only_here")
    monkeypatch.setattr(of_a_module_of_this_process, "__qualname__", "function")
    with (
        small(plain, transform_rows=of_a_module_of_this_process, transform_workers=1) as loader,
        pytest.raises(fb.WorkerError, match=r"cannot import the transform: ModuleNotFoundError.*'only_here'"),
    ):
        list(loader)


def of_a_daemon(folder: str, answers: Any) -> None:
    """The processes of a DataLoader are daemons too."""
    try:
        list(small(Path(folder), transform_rows=where, transform_workers=2))
    except fb.WorkerError as error:
        answers.put(str(error))
    with small(Path(folder), transform_rows=where, transform_workers=THREADS) as loader:
        answers.put(len(list(loader)))


def test_a_daemon_process_is_told_to_use_threads(plain: Path) -> None:
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    process = context.Process(target=of_a_daemon, args=(str(plain), answers), daemon=True)
    process.start()
    said = answers.get(timeout=PATIENCE)
    assert (
        "daemonic processes are not allowed to have children" in said and "forebay.Workers(..., threads=True)" in said
    )
    assert answers.get(timeout=PATIENCE) == 16
    process.join(PATIENCE)


def test_a_forked_child_leaves_the_workers_alone(plain: Path) -> None:
    with small(plain, transform_rows=where, transform_workers=2) as loader:
        epoch = iter(loader)
        next(epoch)
        child = os.fork()
        if child == 0:
            try:
                next(epoch)
            except fb.ClosedError:
                del epoch
                loader.close()
                os._exit(0)
            os._exit(1)
        assert os.waitpid(child, 0)[1] == 0
        assert sum(1 for _ in epoch) == 15


# Whole programs

PROGRAM = """
    import glob, os, sys, time
    import numpy as np
    import forebay as fb

    def where(row):
        # Each process waits here until both have begun, so that both make rows.
        open(f"{__file__}.{os.getpid()}", "w").close()
        while len(glob.glob(f"{__file__}.*")) < 2:
            time.sleep(0.01)
        return {"id": row["id"], "process": os.getpid()}

    def sleep(row):
        os.write(1, b"%d\\n" % os.getpid())
        time.sleep(1000)

    def spin(row):
        os.write(1, b"%d\\n" % os.getpid())
        sum(range(1 << 40))  # with the GIL

    def main():
        folder, what = sys.argv[1:3]
        function = {"sleep": sleep, "spin": spin}.get(what, where)
        loader = fb.Loader(folder, columns=["id"], batch_size=10, transform_rows=function, transform_workers=2)
        epoch = iter(loader)
        if what == "child":
            if os.fork() == 0:
                time.sleep(1000)
        for _ in range(5):
            for process in set(next(epoch)["process"].tolist()):
                print(process, flush=True)
        if what == "kept":
            list(epoch)
        if what == "exits":
            child = os.fork()
            if child == 0:
                sys.exit(0)
            assert os.waitpid(child, 0)[1] == 0
            assert sum(len(batch["id"]) for batch in epoch) == 950
        if what in ("wait", "child"):
            # A signal that arrives just before a sleep does not end it, so the sleeps are short.
            for _ in range(10_000):
                time.sleep(0.1)
        # With "left" and "kept", the program ends here.

    if __name__ == "__main__":
        main()
"""


STARTED: list[subprocess.Popen[str]] = []


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Path]:
    path = tmp_path / "program.py"
    path.write_text(textwrap.dedent(PROGRAM))
    yield path
    while STARTED:
        # Otherwise, the processes of a failed test would run for ever.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(STARTED.pop().pid, signal.SIGKILL)


def start(program: Path, plain: Path, what: str) -> tuple[subprocess.Popen[str], set[int]]:
    """Starts the program. Returns it with the process ids that it printed: those of its workers."""
    command = [sys.executable, str(program), str(plain), what]
    running = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    STARTED.append(running)
    assert running.stdout is not None
    lines = 2 if what in ("sleep", "spin") else 5
    return running, {int(running.stdout.readline()) for _ in range(lines)}


def finish(running: subprocess.Popen[str]) -> str:
    _, errors = running.communicate(timeout=PATIENCE)
    return errors


@pytest.mark.parametrize("what", ["left", "kept", "exits"])
def test_the_processes_end_with_the_interpreter(program: Path, plain: Path, what: str) -> None:
    running, processes = start(program, plain, what)
    assert finish(running) == ""
    assert running.returncode == 0
    ended(processes)


@pytest.mark.parametrize("what", ["wait", "sleep", "spin", "child"])
def test_the_processes_end_when_this_one_is_killed(program: Path, plain: Path, what: str) -> None:
    running, processes = start(program, plain, what)
    assert all(map(alive, processes))
    running.kill()
    # In the case "child", a forked child still runs and holds all file descriptors open. The workers end even so.
    ended(processes)
    if what == "child":
        os.killpg(running.pid, signal.SIGKILL)
    finish(running)


@pytest.mark.parametrize("what", ["wait", "sleep"])
def test_ctrl_c_ends_them_without_a_word(program: Path, plain: Path, what: str) -> None:
    running, processes = start(program, plain, what)
    os.killpg(running.pid, signal.SIGINT)
    errors = finish(running)
    assert errors.count("Traceback") == 1 and errors.rstrip().endswith("KeyboardInterrupt")
    assert running.returncode == -signal.SIGINT
    ended(processes)


def test_a_script_that_starts_itself_again_is_told_so(tmp_path: Path, plain: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(
        textwrap.dedent(f"""
            import forebay as fb

            def same(row):
                return row

            for batch in fb.Loader({str(plain)!r}, columns=["id"], transform_rows=same, transform_workers=1):
                pass
        """)
    )
    done = subprocess.run([sys.executable, str(program)], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 1
    assert "forebay.WorkerError: worker process" in done.stderr
    assert 'needs `if __name__ == "__main__":`' in done.stderr


def test_an_interactive_session_is_told_what_to_do(plain: Path) -> None:
    program = f"""
import forebay as fb
def same(row):
    return row
fb.Loader({str(plain)!r}, columns=["id"], transform_rows=same, transform_workers=1)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert "forebay.InvalidError: the transform cannot be sent to worker processes: it was defined in an" in done.stderr


def test_closing_does_not_wait_for_a_function(plain: Path, tmp_path: Path) -> None:
    def closes() -> float:
        begun = tmp_path / "begun"
        begun.unlink(missing_ok=True)
        loader = small(plain, transform=SleepLong(begun), transform_workers=2)
        epoch = iter(loader)
        assert until(begun.exists)
        began = time.monotonic()
        loader.close()
        took = time.monotonic() - began
        with pytest.raises(fb.ClosedError):
            next(epoch)
        return took

    assert quickest(closes, 3, tries=20) < 3


class SleepLong:
    """A function that creates the file ``begun`` and then sleeps for a long time."""

    def __init__(self, begun: Path) -> None:
        self.begun = begun

    def __call__(self, batch: dict[str, Any]) -> dict[str, Any]:
        self.begun.touch()
        time.sleep(600)
        return batch
