"""The test training of ``forebay verify --trainer`` with Accelerate."""

from __future__ import annotations

from typing import Any

from ... import accelerate as fb_accelerate
from .job import Training, inputs, model

__all__: list[str] = []


class Count:
    """The number of trained steps, which Accelerate saves in its checkpoints."""

    value = 0

    def state_dict(self) -> dict[str, int]:
        return {"value": self.value}

    def load_state_dict(self, state: dict[str, int]) -> None:
        self.value = state["value"]


def train(run: Training) -> None:
    """Runs all epochs, from the checkpoint if there is one."""
    import torch
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration, set_seed

    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
    set_seed(0)
    layer = model()
    layer, optimizer = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), lr=0.0))
    trained = Count()
    accelerator.register_for_checkpointing(trained)
    batches: Any
    if run.is_forebay:
        loader = run.loader()
        accelerator.register_for_checkpointing(loader)
        batches = fb_accelerate.batches(loader, accelerator)
    else:
        batches = accelerator.prepare(torch.utils.data.DataLoader(run.rows, batch_size=run.batch_size, shuffle=True))
    if run.resumes:
        accelerator.load_state(run.folder / "state")
    for epoch in range(trained.value // run.steps, run.epochs):
        of_epoch, skip = batches, trained.value % run.steps
        if not run.is_forebay:
            batches.set_epoch(epoch)
            of_epoch = accelerator.skip_first_batches(batches, skip) if skip else batches
        for batch in of_epoch:
            run.step(batch["row_id"])
            accelerator.backward(layer(inputs(batch["row_id"])).mean())
            optimizer.step()
            optimizer.zero_grad()
            trained.value += 1
            if trained.value % run.every == 0:
                accelerator.save_state(run.folder / "state")
