"""The test training of ``forebay verify --trainer`` with a hand-written loop and torchdata's
StatefulDataLoader."""

from __future__ import annotations

from typing import Any

from ... import torch as fb_torch
from .job import Training
from .torch import joined

__all__: list[str] = []


def train(run: Training) -> None:
    """Runs all epochs, from the checkpoint if there is one."""
    from torchdata.stateful_dataloader import StatefulDataLoader
    from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

    wait, saved = joined(run), run.saved()
    sampler: Any = None
    if run.is_forebay:
        batches = StatefulDataLoader(fb_torch.dataset(run.loader()), batch_size=None, num_workers=1)
    else:
        sampler = StatefulDistributedSampler(run.rows, run.world, run.rank, seed=run.job.seed)
        batches = StatefulDataLoader(run.rows, batch_size=run.batch_size, sampler=sampler)
    if saved:
        batches.load_state_dict(saved["batches"])
    for epoch in range(saved["epoch"] if saved else 0, run.epochs):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for batch in batches:
            run.step(batch["row_id"])
            wait()
            if run.is_due:
                run.save(batches=batches.state_dict(), epoch=epoch)
