"""Lightning: a run that is interrupted and resumed takes the same steps as one that is not."""

from __future__ import annotations

import logging
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from conftest import ids, small

import forebay as fb

lightning = pytest.importorskip("lightning")
torch = pytest.importorskip("torch")

pytestmark = [
    pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning", "ignore::DeprecationWarning"),
]
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


class Interrupted(Exception):
    pass


class Model(lightning.LightningModule):  # type: ignore[misc]
    """Records the rows of each step."""

    def __init__(self, stop: int) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
        self.stop = stop
        self.steps: list[Any] = []

    def training_step(self, batch: Any, index: int) -> Any:
        if len(self.steps) == self.stop:
            raise Interrupted
        parts = batch if "id" not in batch else {"": batch}
        self.steps.append({key: part["id"].tolist() for key, part in parts.items()})
        return self.layer(next(iter(parts.values()))["id"][:, None].float()).mean()

    def validation_step(self, batch: Any, index: int) -> None:
        pass

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), lr=0.0)


def run(data: Any, folder: Path, stop: int = sys.maxsize, resume: str | None = None, **options: Any) -> list[Any]:
    """Returns the rows of each step of a fit, which is interrupted when it begins the step ``stop``."""
    every = options.pop("every", None)
    when = {"save_on_train_epoch_end": True} if every is None else {"every_n_train_steps": every}
    model = Model(stop)
    trainer = lightning.Trainer(
        max_epochs=3,
        accelerator="cpu",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[lightning.pytorch.callbacks.ModelCheckpoint(folder, save_top_k=-1, **when)],
        **options,
    )
    try:
        trainer.fit(model, data, ckpt_path=resume)
    except Interrupted:
        assert stop < sys.maxsize
    return model.steps


def module(where: Path) -> Any:
    return fb.lightning.DataModule(
        train=lambda shard: small(where, columns=["id"], shard=shard),
        val=lambda shard: small(where, columns=["id"], shuffle=None, batch_size=500, shard=shard),
    )


def pair(where: Path) -> Any:
    def train(shard: fb.Shard) -> dict[str, fb.Loader]:
        return {
            "long": small(where, columns=["id"], shard=shard),
            "short": small(where, columns=["id"], batch_size=200, shuffle=fb.Shuffle(seed=3), shard=shard),
        }

    return fb.lightning.DataModule(train=train)


def latest(folder: Path) -> tuple[str, int]:
    """Returns the newest checkpoint, and the number of steps that it has trained."""

    def age(path: Path) -> tuple[int, int]:
        # A checkpoint of a later step is newer, even if both files have the same time.
        return int(re.findall(r"step=(\d+)", path.name)[0]), path.stat().st_mtime_ns

    path = max(folder.glob("*.ckpt"), key=age)
    saved = torch.load(path, weights_only=False)
    return str(path), saved["loops"]["fit_loop"]["epoch_loop.batch_progress"]["total"]["ready"]


CASES = [
    ({"every": 1}, (1, 15, 16, 17, 33)),
    ({"every": 3}, (8, 16, 20)),
    ({}, (16, 20, 32)),
    ({"every": 2, "accumulate_grad_batches": 2, "val_check_interval": 4}, (9, 17)),
    ({"every": 1, "limit_train_batches": 5}, (3, 5, 6)),
    ({"limit_train_batches": 5}, (5, 6, 10)),
]


@pytest.mark.parametrize(("options", "stops"), CASES, ids=str)
@pytest.mark.parametrize("make", [module, pair])
def test_a_resumed_fit_takes_the_steps_that_were_left(
    plain: Path, tmp_path: Path, options: dict[str, Any], stops: tuple[int, ...], make: Callable[[Path], Any]
) -> None:
    want = run(make(plain), tmp_path / "whole", **options)
    if make is module and "limit_train_batches" not in options:
        with small(plain, columns=["id"]) as again:
            assert [step[""] for step in want] == [rows for epoch in range(3) for rows in ids(again.epoch(epoch))]
    for stop in stops:
        folder = tmp_path / str(stop)
        got = run(make(plain), folder, stop, **options)
        checkpoint, trained = latest(folder)
        assert 0 < trained <= stop
        rest = run(make(plain), tmp_path / f"{stop} resumed", resume=checkpoint, **options)
        assert got[:trained] + rest == want, stop


def test_batches_without_a_data_module_resume_within_an_epoch(plain: Path, tmp_path: Path) -> None:
    def data() -> Any:
        return fb.torch.batches(small(plain, columns=["id"]))

    want = run(data(), tmp_path / "whole", every=1)
    got = run(data(), tmp_path / "cut", 7, every=2)
    checkpoint, trained = latest(tmp_path / "cut")
    assert trained == 6
    assert got[:trained] + run(data(), tmp_path / "resumed", resume=checkpoint, every=2) == want


def test_a_loader_without_a_shard_is_refused_among_several(plain: Path) -> None:
    class Two:
        global_rank, world_size = 1, 2

    data = fb.lightning.DataModule(train=lambda shard: small(plain))
    data.trainer = Two()
    with pytest.raises(fb.InvalidError, match=r"each of 2 processes .* shard=forebay.Shard\(rank=1, world=2\)"):
        data.setup("fit")


def test_what_is_no_function_or_no_loader_is_refused(plain: Path) -> None:
    with small(plain) as loader, pytest.raises(fb.InvalidError, match=r"train must be a function .* got Loader \(pass"):
        fb.lightning.DataModule(train=loader)
    for train in (lambda: None, lambda shard, more: None, lambda *, shard: None):
        with pytest.raises(fb.InvalidError, match=r"train must take a shard, and nothing else .* \(pass lambda shard"):
            fb.lightning.DataModule(train=train)
    with pytest.raises(fb.InvalidError, match=r"expected a forebay.Loader, got list"):
        fb.lightning.DataModule(train=lambda shard: []).setup("fit")
    data = fb.lightning.DataModule()
    data.setup()
    with pytest.raises(fb.InvalidError, match=r"has no train loader \(pass train=lambda"):
        data.train_dataloader()


def test_positions_outlive_a_fit_and_loaders_do_not(plain: Path, tmp_path: Path) -> None:
    data = module(plain)
    run(data, tmp_path / "one")
    assert not data.loaders
    assert data.state_dict()["train"]["epoch"] == 3
    data.setup("fit")
    assert data.loaders["train"].state_dict()["epoch"] == 3


@pytest.mark.parametrize("mode", ["min_size", "max_size_cycle", "sequential"])
def test_loaders_are_combined_as_lightning_combines(plain: Path, tmp_path: Path, mode: str) -> None:
    from lightning.pytorch.utilities import CombinedLoader

    with small(plain, columns=["id"]) as long, small(plain, columns=["id"], batch_size=200) as short:
        batches = {"long": fb.torch.batches(long), "short": fb.torch.batches(short)}
        combined = CombinedLoader(batches, mode)
        got = [batch for batch, _, _ in combined]
        assert len(got) == {"min_size": 5, "max_size_cycle": 16, "sequential": 21}[mode]
        if mode == "sequential":
            rows = [row for batch in got[:16] for row in batch["id"].tolist()]
            assert sorted(rows) == list(range(1000))
        else:
            rows = [row for batch in got[:5] for row in batch["short"]["id"].tolist()]
            assert sorted(rows) == list(range(1000))
        if mode != "sequential":
            assert run(CombinedLoader(batches, mode), tmp_path)


def test_fabric_carries_the_position_in_its_checkpoints(plain: Path, tmp_path: Path) -> None:
    def loop(stop: int | None, resume: bool = False) -> list[list[int]]:
        fabric = lightning.Fabric(accelerator="cpu", devices=1)
        fabric.launch()
        shard = fb.Shard(rank=fabric.global_rank, world=fabric.world_size)
        train = small(plain, columns=["id"], shard=shard)
        layer = torch.nn.Linear(1, 1)
        model, optimizer = fabric.setup(layer, torch.optim.SGD(layer.parameters(), lr=0.0))
        state = {"model": model, "optimizer": optimizer, "loader": train}
        if resume:
            fabric.load(tmp_path / "run.ckpt", state)
        steps = []
        with train:
            while train.state_dict()["epoch"] < 2:
                for batch in fb.torch.batches(train, device=fabric.device):
                    fabric.backward(model(batch["id"][:, None].float()).mean())
                    steps.append(batch["id"].tolist())
                    if len(steps) == stop:
                        fabric.save(tmp_path / "run.ckpt", state)
                        return steps
        return steps

    want = loop(None)
    for stop in (5, 16, 20):
        assert loop(stop) + loop(None, resume=True) == want, stop
