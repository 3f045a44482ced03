"""The test training of ``forebay verify --trainer`` with the Trainer of Hugging Face's Transformers."""

from __future__ import annotations

from typing import Any

from ... import hf as fb_hf
from .job import Training, inputs, model

__all__: list[str] = []


def train(run: Training) -> None:
    """Runs all epochs, from the checkpoint if there is one."""
    import torch
    import transformers

    class Model(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.layer = model()

        def forward(self, row_id: Any, **others: Any) -> dict[str, Any]:
            run.step(row_id)
            return {"loss": self.layer(inputs(row_id)).mean()}

    args = transformers.TrainingArguments(
        run.folder / "run",
        num_train_epochs=run.epochs,
        per_device_train_batch_size=run.batch_size,
        save_steps=run.every,
        learning_rate=0.0,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        ddp_backend="gloo" if run.world > 1 else None,
        remove_unused_columns=False,
    )
    if run.is_forebay:
        trainer = fb_hf.Trainer(Model(), args, train_dataset=run.loader())
    else:
        trainer = transformers.Trainer(Model(), args, train_dataset=run.rows)
    trainer.train(resume_from_checkpoint=run.resumes)
