"""Petastorm's own interface on forebay's engine: the same data sets, and the same scripts with another import.

``from forebay.petastorm import make_reader`` for ``from petastorm import make_reader``, and so on for each module
below it: ``pytorch``, ``tf_utils``, ``spark``, ``unischema``, ``codecs``, ``predicates``, ``transform``,
``etl``, ``selectors``, ``fs_utils``, ``spark_utils``, ``reader``, ``utils`` and ``errors``. :func:`install` puts all
of them under the name ``petastorm``, for scripts that cannot be edited. :func:`write` writes data sets without Spark.

Examples
--------
>>> import forebay as fb
>>> with fb.petastorm.make_batch_reader("file:data/train", schema_fields=["label", "id"]) as reader:
...     print(sum(len(batch.id) for batch in reader))
256
"""

from __future__ import annotations

import importlib
from typing import Any

from ..public import publish
from . import codecs, errors, etl, fs_utils, predicates, reader, selectors, transform, unischema, utils
from ._install import install
from .errors import NoDataAvailableError
from .reader import make_batch_reader, make_reader
from .transform import TransformSpec
from .writing import write

__all__ = [
    "NoDataAvailableError",
    "TransformSpec",
    "codecs",
    "errors",
    "etl",
    "fs_utils",
    "install",
    "make_batch_reader",
    "make_reader",
    "predicates",
    "reader",
    "selectors",
    "transform",
    "unischema",
    "utils",
    "write",
]

#: The version of Petastorm whose interface this is.
__version__ = "0.13.1"

publish(__name__)

#: Modules that need a framework, and are imported when they are first used.
_LATER = ("pytorch", "spark", "spark_utils", "tf_utils")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return importlib.import_module(f"{__name__}.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
