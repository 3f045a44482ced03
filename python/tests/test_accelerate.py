"""Accelerate: saved states count the trained batches, and the gradients left at the end of an epoch make a
step."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import ids, small

import forebay as fb

accelerate = pytest.importorskip("accelerate")
torch = pytest.importorskip("torch")


@pytest.fixture
def accelerator() -> Iterator[Any]:
    yield made()
    made()


def made(**options: Any) -> Any:
    for state in (accelerate.state.AcceleratorState, accelerate.state.GradientState):
        state._reset_state()
    return accelerate.Accelerator(cpu=True, **options)


def rows(where: Path, **arguments: Any) -> fb.Loader:
    return small(where, columns=["id"], **arguments)


@pytest.mark.parametrize("door", ["forebay.accelerate", "forebay.torch"])
@pytest.mark.parametrize("stop", [1, 7, 15, 16])
def test_a_saved_state_resumes_after_what_was_trained(
    plain: Path, tmp_path: Path, accelerator: Any, door: str, stop: int
) -> None:
    def begin() -> tuple[Any, Any]:
        accelerator = made()
        train = rows(plain)
        accelerator.register_for_checkpointing(train)
        of = fb.accelerate.batches(train, accelerator) if door == "forebay.accelerate" else fb.torch.batches(train)
        prepared = accelerator.prepare(of)
        assert prepared is of
        return accelerator, prepared

    with rows(plain) as again:
        want = ids(again.epoch(0)) + ids(again.epoch(1))
    accelerator, prepared = begin()
    epoch = iter(prepared)
    got = [next(epoch)["id"].tolist() for _ in range(stop)]
    accelerator.save_state(tmp_path / "saved")
    accelerator, prepared = begin()
    accelerator.load_state(tmp_path / "saved")
    got += ids(prepared)
    if len(got) == 16:
        got += ids(prepared)
    assert got == want


@pytest.mark.parametrize("workers", [0, 1])
@pytest.mark.parametrize("stop", [1, 7, 15, 16])
def test_a_stateful_data_loader_that_was_prepared_resumes_too(
    plain: Path, tmp_path: Path, accelerator: Any, stop: int, workers: int
) -> None:
    pytest.importorskip("torchdata")

    def begin() -> tuple[Any, Any]:
        config = accelerate.utils.DataLoaderConfiguration(use_stateful_dataloader=True, dispatch_batches=False)
        accelerator = made(dataloader_config=config)
        loader = torch.utils.data.DataLoader(fb.torch.dataset(rows(plain)), batch_size=None, num_workers=workers)
        return accelerator, accelerator.prepare(loader)

    with rows(plain) as again:
        want = ids(again.epoch(0)) + ids(again.epoch(1))
    accelerator, prepared = begin()
    epoch = iter(prepared)
    got = [next(epoch)["id"].tolist() for _ in range(stop)]
    accelerator.save_state(tmp_path / "saved")
    del epoch
    accelerator, prepared = begin()
    accelerator.load_state(tmp_path / "saved")
    got += ids(prepared)
    if len(got) == 16:
        got += ids(prepared)
    assert got == want


def test_a_data_loader_that_draws_ahead_is_refused(plain: Path) -> None:
    config = accelerate.utils.DataLoaderConfiguration(dispatch_batches=False)
    accelerator = made(dataloader_config=config)
    loader = accelerator.prepare(torch.utils.data.DataLoader(fb.torch.dataset(rows(plain)), batch_size=None))
    with pytest.raises(fb.InvalidError, match=r"draws one batch ahead .*use forebay.accelerate.batches"):
        next(iter(loader))
    made()


def test_dispatched_batches_are_refused(plain: Path) -> None:
    config = accelerate.utils.DataLoaderConfiguration(dispatch_batches=True)
    accelerator = made(dataloader_config=config)
    loader = accelerator.prepare(torch.utils.data.DataLoader(fb.torch.dataset(rows(plain)), batch_size=None))
    with pytest.raises(fb.InvalidError, match=r"the batches of rank 0 alone .*dispatch_batches=False"):
        next(iter(loader))
    made()


def test_gradients_that_are_left_over_make_a_step(plain: Path) -> None:
    accelerator = made(gradient_accumulation_steps=5)
    layer = torch.nn.Linear(1, 1)
    layer, optimizer = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), lr=0.1))
    with rows(plain) as train:
        batches = fb.accelerate.batches(train, accelerator)
        for _ in range(2):
            synced = []
            for batch in batches:
                with accelerator.accumulate(layer):
                    synced.append(accelerator.sync_gradients)
                    accelerator.backward(layer(batch["id"][:, None].float()).mean())
                    optimizer.step()
                    optimizer.zero_grad()
                assert accelerator.gather_for_metrics(batch["id"]).tolist() == batch["id"].tolist()
            assert [step for step, one in enumerate(synced, 1) if one] == [5, 10, 15, 16]
        for _ in batches:
            break
        assert not accelerator.gradient_state.in_dataloader
    made()


def test_what_is_not_fit_is_refused(plain: Path, accelerator: Any) -> None:
    with pytest.raises(fb.InvalidError, match=r"expected a forebay.Loader, got list"):
        fb.accelerate.batches([], accelerator)
    with rows(plain) as train, pytest.raises(fb.InvalidError, match=r"must be an accelerate.Accelerator, got str"):
        fb.accelerate.batches(train, "cpu")
