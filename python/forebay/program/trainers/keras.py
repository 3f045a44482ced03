"""The test training of ``forebay verify --trainer`` with the ``fit`` of Keras."""

from __future__ import annotations

from typing import Any

from ... import keras as fb_keras
from .job import Training

__all__: list[str] = []


def train(run: Training) -> None:
    """Runs all epochs, from the checkpoint if there is one."""
    import keras as k

    class Model(k.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> Any:
            run.step(data[0][:, 0])
            return super().train_step(data)

    ids = k.layers.Input((1,), dtype="int64")
    small = k.ops.cast(k.ops.mod(ids, 1000), "float32")
    net = Model(ids, k.layers.Dense(1)(small))
    net.compile(k.optimizers.SGD(0.0), "mse", run_eagerly=True)
    every: Any = "epoch" if run.is_border else run.every
    backup = str(run.folder / "backup")
    if run.is_forebay:
        loader = run.loader()
        resume = fb_keras.Resume(loader, backup, every=every)
        batches = fb_keras.batches(loader, x=numbers, y=targets)
        net.fit(batches, epochs=run.epochs, verbose=0, callbacks=[resume])
    else:
        k.utils.set_random_seed(0)
        rows = {"row_id": run.ids}
        resume = k.callbacks.BackupAndRestore(backup, save_freq=every)
        net.fit(
            numbers(rows),
            targets(rows),
            batch_size=run.batch_size,
            epochs=run.epochs,
            verbose=0,
            callbacks=[resume],
        )


def numbers(batch: Any) -> Any:
    """The inputs of the model: the row ids."""
    return batch["row_id"][:, None]


def targets(batch: Any) -> Any:
    """The targets of the model."""
    return (batch["row_id"][:, None] % 1000).astype("float32")
