"""The test training of ``forebay verify --trainer`` with a hand-written loop, as in PyTorch's guides."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ... import torch as fb_torch
from .job import Training

__all__: list[str] = []


def train(run: Training, written: Any = None) -> None:
    """Runs all epochs, from the checkpoint if there is one."""
    wait, saved = joined(run), run.saved()
    if run.is_forebay:
        loader = run.loader(written=written)
        if saved:
            loader.load_state_dict(saved["loader"])
        while loader.state_dict()["epoch"] < run.epochs:
            for batch in fb_torch.batches(loader):
                run.step(batch["row_id"])
                wait()
                if run.is_due:
                    run.save(loader=loader.state_dict())
        return
    batches, sampler = own(run)
    for epoch in range(saved["epoch"] if saved else 0, run.epochs):
        sampler.set_epoch(epoch)
        for number, batch in enumerate(batches, 1):
            run.step(batch["row_id"])
            wait()
            if run.is_due:
                run.save(epoch=epoch + (number == run.steps))


def joined(run: Training) -> Callable[[], Any]:
    """Connects the processes of a hand-written loop. Returns a function that waits at each step for the other
    processes, as the exchange of gradients would."""
    import torch.distributed as dist

    if run.world == 1:
        return lambda: None
    dist.init_process_group("gloo")
    return lambda: dist.barrier()


def own(run: Training) -> tuple[Any, Any]:
    """Makes PyTorch's own loader and its sampler."""
    import torch
    from torch.utils.data import DataLoader, DistributedSampler

    torch.manual_seed(0)
    sampler: Any = DistributedSampler(run.rows, run.world, run.rank, seed=run.job.seed)
    return DataLoader(run.rows, batch_size=run.batch_size, sampler=sampler), sampler
