"""The test training of ``forebay verify --trainer`` with Spark's TorchDistributor.

Spark starts the worker processes. If a worker is killed as planned, the process that started Spark kills
itself too.
"""

from __future__ import annotations

import os
import signal
import sys
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from ... import spark as fb_spark
from .job import ROWS, Job, Training

__all__: list[str] = []


def train(job: Job) -> None:
    """Runs all epochs, from the checkpoint if there is one."""
    from pyspark.ml.torch.distributor import TorchDistributor
    from pyspark.sql import SparkSession

    # Without this variable, Spark starts its workers with any Python that it finds.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    is_forebay = job.source == "forebay"
    # With Spark's own loader, each worker is a task of Spark with a partition of the rows.
    tasks = 1 if is_forebay else job.world
    builder = SparkSession.builder.master(f"local[{tasks}]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    rows = [(row,) for row in np.load(Path(job.folder, ROWS)).tolist()]
    distributor = TorchDistributor(num_processes=job.world, local_mode=is_forebay, use_gpu=False)
    if is_forebay:
        # The DataFrame is written once, and the resumed run finds it by its name; a DataFrame of rows in
        # memory has no other identity.
        frame = session.createDataFrame(rows, ["row_id"])
        written = fb_spark.dataset(frame, Path(job.folder, "written"), name="rows")
        begin = partial(distributor.run, worker, job.text(), written)
    else:
        frame = session.createDataFrame(session.sparkContext.parallelize(rows, job.world), ["row_id"])
        begin = partial(distributor._train_on_dataframe, own, frame, job.text())
    try:
        begin()
    except Exception:
        # The error may have another cause than the planned kill, which comes after ``job.kill`` steps.
        if job.kill is None or not job.ledger(0).exists() or len(job.ledger(0).read_text().splitlines()) < job.kill:
            raise
        session.stop()
        os.kill(os.getpid(), signal.SIGKILL)


def worker(text: str, written: Any) -> None:
    """The function that each worker runs."""
    from forebay.program.trainers import torch

    torch.train(Training(Job.of(text)), written)


def own(text: str) -> None:
    """The function that each worker runs with Spark's own loader, which has one partition of the rows."""
    from pyspark.ml.torch.distributor import _get_spark_partition_data_loader

    from forebay.program.trainers.torch import joined

    run = Training(Job.of(text))
    wait, saved = joined(run), run.saved()
    batches = _get_spark_partition_data_loader(run.steps * run.batch_size, run.batch_size)
    for epoch in range(saved["epoch"] if saved else 0, run.epochs):
        for number, (ids,) in enumerate(batches, 1):
            run.step(ids)
            wait()
            if run.is_due:
                run.save(epoch=epoch + (number == run.steps))
