"""A training run as a job, and the helpers of its loop."""

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

#: The file with the row ids of the framework's own loader, in stored order.
ROWS = "rows.npy"


@dataclass(frozen=True)
class Job:
    """One run of a trainer over one of its two loaders."""

    trainer: str
    #: ``"forebay"`` or ``"own"``.
    source: str
    #: The folder of the rows, checkpoints and ledgers.
    folder: str
    #: The arguments of forebay's loader, including ``urls``, but not those for batches and shards.
    loader: dict[str, Any]
    seed: int
    window_rows: int | None
    global_batch: int
    #: Number of steps in an epoch.
    steps: int
    epochs: int
    #: Number of steps between two checkpoints, and the step at which the process is killed.
    every: int
    kill: int | None
    #: Whether checkpoints are saved when an epoch ends.
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
    """A job, as one of its processes runs it."""

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
        """Notes the rows of a batch. Called inside each training step, before anything is trained."""
        if self.taken == self.job.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        self.taken += 1
        print(json.dumps([int(row) for row in ids]), file=self._ledger, flush=True)

    @property
    def is_due(self) -> bool:
        """Whether a checkpoint is saved after this step."""
        return self.taken % self.every == 0

    def loader(self, shard: Shard | None = None, written: Any = None) -> Loader:
        """The loader of forebay for this process: over the data, or over the files with row ids that the
        framework wrote."""
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
        """The checkpoint of :meth:`save` if the run resumes, else ``None``."""
        import torch

        return torch.load(self.folder / "run.pt") if self.resumes else None

    def save(self, **state: Any) -> None:
        """Saves a checkpoint, once for all ranks."""
        import torch

        if self.rank == 0:
            torch.save(state, self.folder / "unfinished.pt")
            os.replace(self.folder / "unfinished.pt", self.folder / "run.pt")


def model() -> Any:
    """A model of two parameters."""
    import torch

    torch.manual_seed(0)
    return torch.nn.Linear(1, 1)


def inputs(ids: Any) -> Any:
    """The inputs of the model: row ids as small floats."""
    return (ids % 1000)[:, None].float()
