"""Spark's TorchDistributor, which has workers of its own. Its guide has the loop and the loader of a plain one."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np

import forebay as fb

from .job import ROWS, Job, Training

__all__: list[str] = []


def train(job: Job) -> None:
    """Runs all epochs, from the checkpoint if there is one."""
    from pyspark.ml.torch.distributor import TorchDistributor
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    written: Any = None
    if job.source == "forebay":
        # It is written once, and the resumed run finds it.
        ids = np.load(Path(job.folder, ROWS)).tolist()
        frame = session.createDataFrame([(row,) for row in ids], ["row_id"])
        written = fb.spark.dataset(frame, Path(job.folder, "written"))
    try:
        TorchDistributor(num_processes=job.world, local_mode=True, use_gpu=False).run(worker, job.text(), written)
    except RuntimeError:
        if job.resumes:
            raise
        session.stop()
        os.kill(os.getpid(), signal.SIGKILL)


def worker(text: str, written: Any) -> None:
    """What each worker runs."""
    from forebay.trainers import torch

    torch.train(Training(Job.of(text)), written)
