"""Feeds GPU training straight from Parquet.

:class:`Loader` delivers batches of a :class:`Dataset`, and :class:`Mix` those of several by weight. The small
values :class:`Shuffle`, :class:`Shard`, :class:`Image`, :class:`Views`, :class:`Clip`, :class:`Boxes`,
:class:`Keypoints`, :class:`Mask`, :class:`Masks`, :class:`Tensor`, :class:`Text`, :class:`Json`,
:class:`Vocabulary`, :class:`Hash`, :class:`Pad`, :class:`Stack`, :class:`Window`, :class:`Pack`, :class:`Bucket`,
:class:`Sample`, :class:`Prepare`, :class:`DiskCache`, :class:`Skip`, :class:`Workers` and :class:`MixUp` are
options of a loader, :func:`col` begins a filter, and :func:`rng` has the random numbers of a row.
:func:`vocabularies` counts the values of columns, and :func:`decode_image` decodes images without a data set.

``forebay.torch``, ``forebay.lightning``, ``forebay.accelerate``, ``forebay.hf``, ``forebay.ray``,
``forebay.spark``, ``forebay.keras``, ``forebay.tf``, ``forebay.jax``, ``forebay.mlflow``, ``forebay.tqdm`` and
``forebay.rich`` are imported when they are first used; each needs the framework whose name it has.
``forebay.petastorm`` has the interface of Petastorm. ``forebay.adapters`` is for other frameworks,
``forebay.errors`` has the exceptions, and ``forebay.types`` the types for annotations.

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
from ._forebay import Batch, Image, Schema, __version__, decode_image
from .batch.column import Column
from .batch.ragged import Ragged
from .categories import Hash, Vocabulary, vocabularies
from .columns.boxes_and_masks import Boxes, Keypoints, Mask, Masks
from .columns.clip import Clip
from .columns.pad import Pad
from .columns.stack import Stack
from .columns.tensor import Tensor
from .columns.text import Json, Text
from .columns.views import Views
from .dataset import Dataset
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
from .filters.expressions import ColumnExpression, Expression, col, row_fraction
from .loader import Loader
from .mix import Mix
from .options.cache import DiskCache
from .options.prepare import Prepare
from .options.shuffle import Shuffle
from .options.skip import Skip
from .options.workers import Workers
from .program.main import main
from .public import publish
from .reports.reports import MixPlan, Plan, Stats
from .rows.row_id import RowId, RowPlace, SourcePlace
from .samples.pack import Bucket, Pack
from .samples.weighted import Sample
from .samples.window import Window
from .sharding.shard import Shard
from .transforms.mixup import MixUp
from .transforms.rows import Row, rng

__all__ = [
    "BadRow",
    "BadRowError",
    "Batch",
    "Boxes",
    "Bucket",
    "Clip",
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
    "Masks",
    "Mix",
    "MixPlan",
    "MixUp",
    "NotFoundError",
    "NullError",
    "Pack",
    "Pad",
    "Plan",
    "Prepare",
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
    "Stack",
    "StateMismatchError",
    "Stats",
    "Tensor",
    "Text",
    "TooLargeError",
    "UnknownColumnError",
    "UnsupportedError",
    "Views",
    "Vocabulary",
    "Window",
    "WorkerError",
    "Workers",
    "__version__",
    "adapters",
    "col",
    "decode_image",
    "errors",
    "main",
    "rng",
    "row_fraction",
    "types",
    "vocabularies",
]

Mapping.register(Batch)

publish(__name__)

_FRAMEWORKS = (
    "accelerate",
    "hf",
    "jax",
    "keras",
    "lightning",
    "mlflow",
    "petastorm",
    "ray",
    "rich",
    "spark",
    "tf",
    "torch",
    "tqdm",
)


def __dir__() -> list[str]:
    return sorted([*__all__, *_FRAMEWORKS])


def __getattr__(name: str) -> Any:
    if name in _FRAMEWORKS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
