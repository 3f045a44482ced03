"""A loader as a PyTorch data set: each row once, and the state of the delivered batches, with and without a
worker."""

from __future__ import annotations

import json
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import PATIENCE, alive, ids, small, until

import forebay as fb

torch = pytest.importorskip("torch")
data = torch.utils.data

METHODS = ["fork", "spawn", "forkserver"]

COLUMNS = ["id", "f32", "name"]


def rows(where: Path, **arguments: Any) -> fb.Loader:
    return small(where, columns=COLUMNS, **arguments)


def stateful(dataset: Any, **options: Any) -> Any:
    module = pytest.importorskip("torchdata.stateful_dataloader")
    return module.StatefulDataLoader(dataset, batch_size=None, **options)


def under(method: str | None) -> dict[str, Any]:
    """Returns the options of a DataLoader with one worker that starts by this method; no options for None."""
    if method is None:
        return {}
    torch.multiprocessing.get_context(method)
    return {"num_workers": 1, "multiprocessing_context": method}


def taken(iterator: Iterator[Any], number: int) -> list[list[int]]:
    return [next(iterator)["id"].tolist() for _ in range(number)]


@pytest.mark.parametrize("method", [None, *METHODS])
def test_each_pass_of_a_data_loader_is_the_next_epoch(plain: Path, method: str | None) -> None:
    with rows(plain) as train, rows(plain) as again:
        loader = data.DataLoader(fb.torch.dataset(train), batch_size=None, **under(method))
        assert len(loader) == len(train)
        for _ in range(3 if method in (None, "fork") else 2):
            assert ids(loader) == ids(again)


@pytest.mark.parametrize("persistent", [False, True])
def test_a_pass_that_is_left_early_ends_its_epoch(plain: Path, persistent: bool) -> None:
    with rows(plain) as train, rows(plain) as again:
        options = {**under("fork"), "persistent_workers": persistent}
        loader = data.DataLoader(fb.torch.dataset(train), batch_size=None, **options)
        taken(iter(loader), 3)
        assert ids(loader) == ids(again.epoch(1))


def test_without_a_worker_the_state_is_that_of_the_loader(plain: Path) -> None:
    with rows(plain) as train:
        dataset = fb.torch.dataset(train)
        batches = iter(data.DataLoader(dataset, batch_size=None))
        taken(batches, 5)
        state = json.loads(json.dumps(dataset.state_dict()))
        assert state == train.state_dict()
        rest = taken(batches, 11)
        assert next(batches, None) is None
    with rows(plain) as train:
        dataset = fb.torch.dataset(train)
        dataset.load_state_dict(state)
        assert ids(dataset) == rest


@pytest.mark.parametrize(
    ("method", "every", "stops"),
    [
        (None, 1, range(17)),
        ("fork", 1, (0, 1, 7, 15, 16)),
        ("fork", 3, (1, 7)),
        ("spawn", 1, (7,)),
        ("forkserver", 1, (7,)),
    ],
    ids=str,
)
def test_a_stateful_data_loader_resumes_after_what_it_delivered(
    plain: Path, method: str | None, every: int, stops: tuple[int, ...]
) -> None:
    with rows(plain) as again:
        want = [ids(again.epoch(epoch)) for epoch in range(3)]
    for stop in stops:
        with rows(plain) as train:
            options = {**under(method), "snapshot_every_n_steps": every}
            loader = stateful(fb.torch.dataset(train), **options)
            batches = iter(loader)
            got = taken(batches, stop)
            # By now the worker is a few batches ahead.
            state = pickle.loads(pickle.dumps(loader.state_dict()))
            del batches
        with rows(plain) as train:
            loader = stateful(fb.torch.dataset(train), **options)
            loader.load_state_dict(state)
            assert got + ids(loader) == want[0], stop
            assert ids(loader) == want[1]
            # This state is taken in the third epoch, for which the DataLoader started a new worker.
            batches = iter(loader)
            assert taken(batches, 4) == want[2][:4]
            later = stateful(fb.torch.dataset(train), **options)
            later.load_state_dict(loader.state_dict())
            del batches
            assert ids(later) == want[2][4:]


@pytest.mark.parametrize("method", [None, "fork"])
def test_the_state_after_an_epoch_begins_the_next_one(plain: Path, method: str | None) -> None:
    with rows(plain) as train, rows(plain) as again:
        loader = stateful(fb.torch.dataset(train), **under(method))
        assert ids(loader) == ids(again)
        state = loader.state_dict()
        later = stateful(fb.torch.dataset(rows(plain)), **under(method))
        later.load_state_dict(state)
        assert ids(later) == ids(again)
        # A state that is saved before the first batch of an epoch is the beginning of that epoch.
        batches = iter(loader)
        state = loader.state_dict()
        del batches
        later.load_state_dict(state)
        assert ids(later) == ids(again.epoch(1))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_worker_begins_where_the_loader_is(plain: Path, method: str) -> None:
    with rows(plain) as train, rows(plain) as again:
        epoch = iter(again)
        next(epoch)
        state = again.state_dict()
        rest = ids(epoch)
        dataset = fb.torch.dataset(train)
        loader = data.DataLoader(dataset, batch_size=None, **under(method))
        train.load_state_dict(state)
        assert ids(loader) == rest
        assert ids(loader) == ids(again)
        # This process delivers the epoch after those of the workers, and a worker then delivers the next one.
        assert ids(dataset) == ids(again)
        assert ids(loader) == ids(again)


def test_only_the_data_loader_knows_the_position_of_a_worker(plain: Path) -> None:
    with rows(plain) as train:
        dataset = fb.torch.dataset(train)
        dataset.state_dict()
        for _ in data.DataLoader(dataset, batch_size=None, **under("fork")):
            pass
        with pytest.raises(fb.InvalidError, match=r"call state_dict\(\) of a torchdata.*or pass num_workers=0"):
            dataset.state_dict()
        dataset.load_state_dict(train.state_dict())
        assert dataset.state_dict() == train.state_dict()


@pytest.mark.parametrize("method", ["fork"])
def test_several_workers_are_refused(plain: Path, method: str) -> None:
    options = {**under(method), "num_workers": 2}
    with rows(plain) as train, pytest.raises(fb.InvalidError, match=r"each row 2 times, and one is enough"):
        next(iter(data.DataLoader(fb.torch.dataset(train), batch_size=None, **options)))


@pytest.mark.parametrize("options", [{}, {"batch_size": 2}, {"batch_size": 2, "num_workers": 1}], ids=str)
def test_batches_of_batches_are_refused(plain: Path, options: dict[str, Any]) -> None:
    with rows(plain) as train, pytest.raises(fb.InvalidError, match=r"pass batch_size=None to the DataLoader"):
        next(iter(data.DataLoader(fb.torch.dataset(train), **options)))


@pytest.mark.parametrize("options", [{}, {"batch_size": None}, {"num_workers": 2}], ids=str)
def test_batches_in_a_data_loader_say_what_to_do_instead(plain: Path, options: dict[str, Any]) -> None:
    with rows(plain) as train, pytest.raises(TypeError, match=r"pass forebay.torch.dataset\(loader\) and batch_size"):
        next(iter(data.DataLoader(fb.torch.batches(train), **options)))


@pytest.mark.parametrize("method", [None, "fork", "spawn"])
def test_a_data_loader_takes_every_column_that_torch_has(plain: Path, method: str | None) -> None:
    columns = ["id", "u8", "f16", "flag", "vector", "cell", "words", "name", "blob"]
    with small(plain, columns=columns) as train, small(plain, columns=columns) as again:
        loader = data.DataLoader(fb.torch.dataset(train), batch_size=None, **under(method))
        for got, want in zip(loader, fb.torch.batches(again), strict=True):
            assert list(got) == columns
            for name in columns[:6]:
                assert got[name].dtype == want[name].dtype
                assert got[name].tolist() == want[name].tolist()
            assert [row.tolist() for row in got["words"].unbind()] == [row.tolist() for row in want["words"].unbind()]
            assert got["name"].tolist() == want["name"].tolist()


def test_times_pass_a_data_loader_that_converts_nothing(plain: Path) -> None:
    with small(plain, columns=["when"]) as train:
        loader = data.DataLoader(fb.torch.dataset(train), batch_size=None, collate_fn=lambda batch: batch)
        assert next(iter(loader))["when"].dtype == "datetime64[us]"


@pytest.mark.parametrize("method", [None, "fork"])
def test_an_error_in_the_loader_reaches_the_step(plain: Path, method: str | None) -> None:
    def fails(batch: dict[str, Any]) -> dict[str, Any]:
        raise ArithmeticError("mine")

    with rows(plain, transform=fails) as train:
        for _ in range(2):
            with pytest.raises(ArithmeticError, match="mine"):
                next(iter(data.DataLoader(fb.torch.dataset(train), batch_size=None, **under(method))))


def test_a_data_set_over_an_open_one(plain: Path) -> None:
    with rows(fb.Dataset(plain)) as train, rows(plain) as again:
        assert ids(data.DataLoader(fb.torch.dataset(train), batch_size=None, **under("fork"))) == ids(again)
        for made in (fb.torch.dataset, fb.torch.batches):
            copy = pickle.loads(pickle.dumps(made(train)))
            assert ids(copy) == ids(again.epoch(0))


LEAVES = """
    import os, sys, threading
    import torch
    import forebay as fb

    def main():
        loader = fb.Loader(sys.argv[1], columns=["id"], batch_size=16, shuffle=fb.Shuffle(seed=1))
        options = {"num_workers": 1, "multiprocessing_context": sys.argv[2]} if sys.argv[2] else {}
        batches = iter(torch.utils.data.DataLoader(fb.torch.dataset(loader), batch_size=None, **options))
        next(batches)
        worker = getattr(batches, "_workers", None)
        print(worker[0].pid if worker else 0, flush=True)
        LEAVE

    if __name__ == "__main__":
        main()
"""


@pytest.mark.skipif(not Path("/proc/self").is_dir(), reason="looks for processes through /proc")
@pytest.mark.parametrize("leave", ["pass", "raise RuntimeError('mine')", "sys.exit(3)", "os.kill(os.getpid(), 2)"])
@pytest.mark.parametrize("method", ["", "fork"])
def test_leaving_leaves_no_worker(plain: Path, tmp_path: Path, method: str, leave: str) -> None:
    script = tmp_path / "leaves.py"
    script.write_text(textwrap.dedent(LEAVES).replace("LEAVE", leave))
    command = [sys.executable, str(script), str(plain), method]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert "panicked" not in done.stderr and "Fatal" not in done.stderr
    worker = int(done.stdout)
    # At exit, PyTorch waits a few seconds for its worker. A worker that needs longer ends by itself.
    assert not worker or until(lambda: not alive(worker))
