"""The test training of ``forebay verify --trainer`` with Ray Train, which starts its own worker processes. If
a worker is killed as planned, the process that started the workers kills itself too."""

from __future__ import annotations

import os
import signal
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from ... import ray as fb_ray
from ... import torch as fb_torch
from .job import ROWS, Job, Training

__all__: list[str] = []

#: Seconds to wait after a checkpoint until Ray's controller, which polls once per second, has registered it.
REGISTERED_SECONDS = 3


def train(job: Job) -> None:
    """Runs all epochs, from the checkpoint if there is one."""
    import ray
    from ray.train import RunConfig, ScalingConfig, TrainingFailedError
    from ray.train.torch import TorchTrainer

    # Ray's own data sets need one processor more than the workers.
    ray.init("local", num_cpus=job.world + 1, include_dashboard=False, log_to_driver=False)
    data: dict[str, Any] = {}
    if job.source == "own":
        data = {"datasets": {"train": ray.data.from_numpy(np.load(Path(job.folder, ROWS)))}}
    trainer = TorchTrainer(
        worker,
        train_loop_config={"job": job.text()},
        scaling_config=ScalingConfig(num_workers=job.world),
        run_config=RunConfig(name="run", storage_path=str(Path(job.folder, job.source).absolute())),
        **data,
    )
    try:
        trainer.fit()
    except TrainingFailedError:
        if job.resumes:
            raise
        os.kill(os.getpid(), signal.SIGKILL)


def worker(config: dict[str, Any]) -> None:
    """The function that each worker runs."""
    run = Training(Job.of(config["job"]))
    if run.is_forebay:
        loader = run.loader(fb_ray.shard())
        fb_ray.resume(loader)
        while loader.state_dict()["epoch"] < run.epochs:
            for batch in fb_torch.batches(loader):
                run.step(batch["row_id"])
                if run.is_due:
                    fb_ray.report({}, loader)
                    time.sleep(REGISTERED_SECONDS)
        return
    own(run)


def own(run: Training) -> None:
    """Trains over the worker's shard of Ray's own data set."""
    from ray import train as rt

    rows, checkpoint = rt.get_dataset_shard("train"), rt.get_checkpoint()
    for epoch in range(int(Path(checkpoint.path, "epoch").read_text()) if checkpoint else 0, run.epochs):
        for number, batch in enumerate(rows.iter_torch_batches(batch_size=run.batch_size), 1):
            run.step(batch["data"])
            if run.is_due:
                with tempfile.TemporaryDirectory() as folder:
                    Path(folder, "epoch").write_text(str(epoch + (number == run.steps)))
                    of_all = rt.Checkpoint.from_directory(folder) if run.rank == 0 else None
                    rt.report({}, checkpoint=of_all)
                time.sleep(REGISTERED_SECONDS)
