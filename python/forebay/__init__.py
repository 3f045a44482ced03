"""Feeds GPU training straight from Parquet.

:class:`Loader` delivers batches of a :class:`Dataset`, and :class:`Mix` those of several by weight. The small values
:class:`Shuffle`, :class:`Shard`, :class:`Image`, :class:`Boxes`, :class:`Keypoints`, :class:`Mask`, :class:`Tensor`,
:class:`Text`, :class:`Json`, :class:`Vocabulary`, :class:`Hash`, :class:`Pad`, :class:`Window`, :class:`Pack`,
:class:`Bucket`, :class:`Sample`, :class:`DiskCache`, :class:`Skip` and :class:`Workers` are its options, :func:`col` begins a filter, and
:func:`rng` has the random numbers of a row.

``forebay.torch``, ``forebay.lightning``, ``forebay.accelerate``, ``forebay.hf``, ``forebay.ray``, ``forebay.spark``,
``forebay.keras``, ``forebay.tf``, ``forebay.jax``, ``forebay.tqdm`` and ``forebay.rich`` are imported when they are first
used, and need the framework that they are named for.
``forebay.adapters`` is for other frameworks, ``forebay.errors`` has the exceptions, ``forebay.types`` the types for
annotations.

Examples
--------
>>> import forebay as fb
>>> train = fb.Loader(
...     "data/train/",
...     decode={"image": fb.Image.random_resized_crop(224).flip()},
...     batch_size=64,
...     shuffle=fb.Shuffle(seed=17),
... )
>>> for batch in train:
...     print(batch["image"].shape, batch["label"].shape)
(64, 224, 224, 3) (64,)
(64, 224, 224, 3) (64,)
(64, 224, 224, 3) (64,)
(64, 224, 224, 3) (64,)
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from . import _level  # noqa: F401  first: it chooses what is imported next

# isort: split
from . import adapters, errors, types
from ._forebay import Batch, Image, Schema, __version__
from .column import Column
from .dataset import Dataset
from .encodings import Hash, Vocabulary
from .epoch import Epoch, SkippedRow
from .errors import (
    BadRow,
    BadRowError,
    ClosedError,
    CorruptError,
    DatasetChangedError,
    DeniedError,
    ForebayError,
    InternalError,
    InvalidError,
    IoError,
    NotFoundError,
    NullError,
    StateMismatchError,
    TooLargeError,
    UnknownColumnError,
    UnsupportedError,
    WorkerError,
)
from .expressions import ColumnExpression, Expression, col, row_fraction
from .following import Boxes, Keypoints, Mask
from .loader import Loader
from .mix import Mix, SourcePlace
from .pack import Bucket, Pack
from .pad import Pad
from .program import main
from .ragged import Ragged
from .reports import MixPlan, Plan, Stats
from .rows import RowId, RowPlace
from .sample import Sample
from .transforms.rows import Row, rng
from .shard import Shard
from .tensor import Tensor
from .texts import Json, Text
from .values import DiskCache, Shuffle, Skip, Workers
from .window import Window

__all__ = [
    "BadRow",
    "BadRowError",
    "Batch",
    "Boxes",
    "Bucket",
    "ClosedError",
    "Column",
    "ColumnExpression",
    "CorruptError",
    "Dataset",
    "DatasetChangedError",
    "DeniedError",
    "DiskCache",
    "Epoch",
    "Expression",
    "ForebayError",
    "Hash",
    "Image",
    "InternalError",
    "InvalidError",
    "IoError",
    "Json",
    "Keypoints",
    "Loader",
    "Mask",
    "Mix",
    "MixPlan",
    "NotFoundError",
    "NullError",
    "Pack",
    "Pad",
    "Plan",
    "Ragged",
    "Row",
    "RowId",
    "RowPlace",
    "Sample",
    "Schema",
    "Shard",
    "Shuffle",
    "Skip",
    "SkippedRow",
    "SourcePlace",
    "StateMismatchError",
    "Stats",
    "Tensor",
    "Text",
    "TooLargeError",
    "UnknownColumnError",
    "UnsupportedError",
    "Vocabulary",
    "Window",
    "WorkerError",
    "Workers",
    "__version__",
    "adapters",
    "col",
    "errors",
    "main",
    "rng",
    "row_fraction",
    "types",
]

Mapping.register(Batch)

for _class in (
    Boxes,
    Column,
    ColumnExpression,
    Dataset,
    DiskCache,
    Epoch,
    Expression,
    Json,
    Keypoints,
    Loader,
    Mask,
    Mix,
    MixPlan,
    Pad,
    Plan,
    Ragged,
    Row,
    RowId,
    RowPlace,
    Shard,
    Shuffle,
    Skip,
    SkippedRow,
    SourcePlace,
    Stats,
    Tensor,
    Text,
    Workers,
):
    _class.__module__ = "forebay"
Hash.__module__ = Vocabulary.__module__ = rng.__module__ = "forebay"

_FRAMEWORKS = ("accelerate", "hf", "jax", "keras", "lightning", "ray", "rich", "spark", "tf", "torch", "tqdm")


def __dir__() -> list[str]:
    return sorted([*__all__, *_FRAMEWORKS])


def __getattr__(name: str) -> Any:
    if name in _FRAMEWORKS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
