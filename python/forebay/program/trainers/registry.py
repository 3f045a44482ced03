"""The trainers of ``forebay verify --trainer``: their titles, the packages that they need, and their
limits."""

from __future__ import annotations

import importlib.metadata
import importlib.util
from dataclasses import dataclass

__all__: list[str] = []


@dataclass(frozen=True)
class Trainer:
    """A framework's way to train, in which forebay is verified."""

    title: str
    #: The modules that the trainer imports and, below, the packages to install for them.
    modules: tuple[str, ...]
    install: str
    #: The name of the loader that the framework's own guide recommends.
    own: str
    #: Whether the framework itself starts the processes of a run.
    starts_processes: bool = False
    #: Whether the trainer can train in several processes.
    is_distributed: bool = True
    #: Whether forebay reads the user's data, instead of row ids in files that the framework wrote.
    is_direct: bool = True

    def missing(self) -> str | None:
        """A sentence that names missing packages; ``None`` if all are installed."""
        absent = [name for name in self.modules if importlib.util.find_spec(name) is None]
        if not absent:
            return None
        return f"{self.title} is not installed: {absent[0]} is missing (pip install {self.install})"

    def version(self) -> str:
        """The installed version of the framework."""
        try:
            return importlib.metadata.version(self.modules[0])
        except importlib.metadata.PackageNotFoundError:
            return "of unknown version"


TRAINERS = {
    "torch": Trainer("a plain PyTorch loop", ("torch",), "torch", "DataLoader with DistributedSampler"),
    "torchdata": Trainer("torchdata", ("torchdata", "torch"), "torchdata torch", "StatefulDataLoader"),
    "lightning": Trainer("Lightning", ("lightning", "torch"), "lightning", "DataLoader"),
    "accelerate": Trainer("Accelerate", ("accelerate", "torch"), "accelerate", "DataLoader with skip_first_batches"),
    "hf": Trainer(
        "Transformers", ("transformers", "accelerate", "torch"), "transformers accelerate torch", "its Trainer's"
    ),
    "keras": Trainer(
        "Keras", ("keras", "torch"), "keras torch", "fit over arrays, with BackupAndRestore", is_distributed=False
    ),
    "ray": Trainer("Ray Train", ("ray", "torch"), "'ray[train]' torch", "iter_torch_batches", starts_processes=True),
    "spark": Trainer(
        "Spark",
        ("pyspark", "torch"),
        "pyspark torch",
        "the loader of _train_on_dataframe",
        starts_processes=True,
        is_direct=False,
    ),
}
