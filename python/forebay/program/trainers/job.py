"""A test training as a job that is passed to its processes, and helpers for the training loops."""

from __future__ import annotations

import json
import os
import signal
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from ...loader import Loader
from ...options.shuffle import Shuffle
from ...sharding.shard import Shard

__all__: list[str] = []

#: The file with the row ids that the framework's own loader delivers, in stored order.
ROWS = "rows.npy"


@dataclass(frozen=True)
class Job:
    """One run of a trainer, with forebay or with the framework's own loader."""

    trainer: str
    #: The loader: ``"forebay"``, or ``"own"`` for the one that the framework's guide recommends.
    source: str
    #: The folder of the run's files: row ids, checkpoints, and the lists of delivered rows.
    folder: str
    #: The arguments of forebay's loader, including ``urls``, but without those for batches and shards.
    loader: dict[str, Any]
    seed: int
    window_rows: int | None
    global_batch: int
    #: Number of steps in an epoch.
    steps: int
    epochs: int
    #: The number of steps between two checkpoints.
    every: int
    #: The number of steps after which the process kills itself; ``None`` if it runs to the end.
    kill: int | None
    #: Whether checkpoints are saved at the end of each epoch, and not every few steps.
    is_border: bool
    world: int
    resumes: bool

    def text(self) -> str:
        """The job as JSON."""
        return json.dumps(asdict(self))

    @staticmethod
    def of(text: str) -> Job:
        """A job from its JSON."""
        return Job(**json.loads(text))

    def ledger(self, rank: int) -> Path:
        """The file in which a rank notes the rows of each step."""
        return Path(self.folder, f"{self.source}-{'second' if self.resumes else 'first'}-{rank}.jsonl")


class Training:
    """One process of a job: it has the job's data and loader, notes delivered rows, and saves checkpoints."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.folder = Path(job.folder, job.source)
        self.folder.mkdir(exist_ok=True)
        self.rank = int(os.environ.get("RANK", 0))
        self.world = int(os.environ.get("WORLD_SIZE", job.world))
        self.batch_size = job.global_batch // self.world
        self.steps, self.epochs, self.every = job.steps, job.epochs, job.every
        self.is_forebay, self.resumes, self.is_border = job.source == "forebay", job.resumes, job.is_border
        self.taken = 0
        self._ledger = open(job.ledger(self.rank), "w")  # noqa: SIM115  for as long as the process lives

    def step(self, ids: Any) -> None:
        """Notes the rows of a batch, or kills this process if the job says so. A training step calls this
        before it trains."""
        if self.taken == self.job.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        self.taken += 1
        print(json.dumps([int(row) for row in ids]), file=self._ledger, flush=True)

    @property
    def is_due(self) -> bool:
        """Whether a checkpoint is saved after this step."""
        return self.taken % self.every == 0

    def loader(self, shard: Shard | None = None, written: Any = None) -> Loader:
        """Makes forebay's loader for this process. It reads the data, or the data set ``written`` of row ids
        if a framework had to write one."""
        if shard is None and self.world > 1:
            shard = Shard(rank=self.rank, world=self.world)
        options = dict(self.job.loader, row_id=True)
        urls = options.pop("urls")
        if written is not None:
            urls, options = written, {"columns": ["row_id"]}
        return Loader(
            urls,
            **options,
            batch_size=self.batch_size,
            drop_last=True,
            shuffle=Shuffle(seed=self.job.seed, window_rows=self.job.window_rows),
            shard=shard,
            threads=1,
        )

    @cached_property
    def ids(self) -> Any:
        """The row ids for the framework's own loader."""
        return np.load(Path(self.job.folder, ROWS))

    @cached_property
    def rows(self) -> Any:
        """The row ids as a data set of PyTorch."""
        import torch

        return [{"row_id": row} for row in torch.from_numpy(self.ids)]

    def saved(self) -> Any:
        """Loads the checkpoint that :meth:`save` wrote, or returns ``None`` if the run does not resume."""
        import torch

        return torch.load(self.folder / "run.pt") if self.resumes else None

    def save(self, **state: Any) -> None:
        """Saves a checkpoint on rank 0, and does nothing on other ranks."""
        import torch

        if self.rank == 0:
            torch.save(state, self.folder / "unfinished.pt")
            os.replace(self.folder / "unfinished.pt", self.folder / "run.pt")


def model() -> Any:
    """Makes a model of two parameters, with the same values in all processes."""
    import torch

    torch.manual_seed(0)
    return torch.nn.Linear(1, 1)


def inputs(ids: Any) -> Any:
    """The inputs of the model: row ids as small floats."""
    return (ids % 1000)[:, None].float()
