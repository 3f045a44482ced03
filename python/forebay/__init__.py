"""Feeds GPU training straight from Parquet.

>>> import forebay as fb
>>> train = fb.Loader(
...     "data/train/",
...     decode={"image": fb.Image.random_resized_crop(224).flip()},
...     batch_size=256,
...     shuffle=fb.Shuffle(seed=17),
...     shard=fb.Shard.from_env(),
... )  # doctest: +SKIP
>>> for batch in train:  # doctest: +SKIP
...     step(batch["image"], batch["label"])

``forebay.torch``, ``forebay.keras``, ``forebay.tf`` and ``forebay.jax`` are imported when they are first asked for,
and need the framework that they are named for.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

from . import _level  # noqa: F401  first: it chooses what is imported next
from ._forebay import Batch, Image, Schema, __version__
from .column import Column
from .epoch import BadRow, Epoch
from .errors import (
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
)
from .loader import Loader
from .program import main
from .ragged import Ragged
from .reports import Plan, Stats
from .shard import Shard
from .values import DiskCache, Shuffle, Skip

__all__ = [
    "BadRow",
    "BadRowError",
    "Batch",
    "ClosedError",
    "Column",
    "CorruptError",
    "DatasetChangedError",
    "DeniedError",
    "DiskCache",
    "Epoch",
    "ForebayError",
    "Image",
    "InternalError",
    "InvalidError",
    "IoError",
    "Loader",
    "NotFoundError",
    "NullError",
    "Plan",
    "Ragged",
    "Schema",
    "Shard",
    "Shuffle",
    "Skip",
    "StateMismatchError",
    "Stats",
    "TooLargeError",
    "UnknownColumnError",
    "UnsupportedError",
    "__version__",
    "main",
]

Mapping.register(Batch)

for _class in (BadRow, Column, DiskCache, Epoch, Loader, Plan, Ragged, Shard, Shuffle, Skip, Stats):
    _class.__module__ = "forebay"

_FRAMEWORKS = ("jax", "keras", "tf", "torch")


def __getattr__(name: str) -> Any:
    if name in _FRAMEWORKS:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
