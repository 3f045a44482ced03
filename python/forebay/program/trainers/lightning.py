"""The test training of ``forebay verify --trainer`` with Lightning's Trainer."""

from __future__ import annotations

from typing import Any

from ... import lightning as fb_lightning
from .job import Training, inputs, model

__all__: list[str] = []


def train(run: Training) -> None:
    """Runs all epochs, from the checkpoint if there is one."""
    import lightning as pl
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint

    class Module(pl.LightningModule):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = model()

        def training_step(self, batch: Any, index: int) -> Any:
            run.step(batch["row_id"])
            return self.layer(inputs(batch["row_id"])).mean()

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), lr=0.0)

    when: dict[str, Any] = {"every_n_train_steps": run.every}
    if run.is_border:
        when = {"save_on_train_epoch_end": True}
    trainer = pl.Trainer(
        max_epochs=run.epochs,
        accelerator="cpu",
        devices=run.world,
        strategy="ddp" if run.world > 1 else "auto",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint(run.folder, filename="run", **when)],
    )
    if run.is_forebay:
        data = {"datamodule": fb_lightning.DataModule(train=run.loader)}
    else:
        loader = torch.utils.data.DataLoader(run.rows, batch_size=run.batch_size, shuffle=True)
        data = {"train_dataloaders": loader}
    pl.seed_everything(0, verbose=False)
    trainer.fit(Module(), **data, ckpt_path=run.folder / "run.ckpt" if run.resumes else None)
