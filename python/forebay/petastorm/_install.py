"""Puts this package under the name of Petastorm, for scripts that cannot be edited."""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
from collections.abc import Sequence

from ..errors import InvalidError
from . import _refused

__all__ = ["install"]

_NAME = "petastorm"
_OURS = __name__.rpartition(".")[0]

#: The modules below ``petastorm`` that a script may import.
_MODULES = (
    "codecs",
    "errors",
    "etl",
    "etl.dataset_metadata",
    "etl.rowgroup_indexers",
    "etl.rowgroup_indexing",
    "fs_utils",
    "predicates",
    "pytorch",
    "reader",
    "selectors",
    "spark",
    "spark.spark_dataset_converter",
    "spark_utils",
    "tf_utils",
    "transform",
    "unischema",
    "utils",
)


def install() -> None:
    """Makes ``import petastorm`` mean ``forebay.petastorm`` in this process from here on.

    Call it before anything imports ``petastorm``, and again in each process that is started later.

    Raises
    ------
    InvalidError
        Petastorm itself was imported already.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.petastorm.install()
    >>> from petastorm import make_reader
    >>> make_reader.__module__
    'forebay.petastorm'
    """
    there = sys.modules.get(_NAME)
    ours = importlib.import_module(_OURS)
    if there is not None and there is not ours:
        raise InvalidError("petastorm was imported already (call forebay.petastorm.install() before anything does)")
    sys.modules[_NAME] = ours
    if not any(isinstance(finder, _Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Makes an import of a module of ``petastorm`` find the module of this package."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        name = fullname.removeprefix(f"{_NAME}.")
        if name == fullname or sys.modules.get(_NAME) is not importlib.import_module(_OURS):
            return None
        folders = {module.partition(".")[0] for module in _refused.NAMES if "." in module}
        known = name in _MODULES or name in _refused.NAMES or name in folders
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True) if known else None

    def exec_module(self, module: types.ModuleType) -> None:
        """Replaces the empty module that the import system made with the module of this package. If this
        package leaves that module out, a module whose names raise errors takes its place."""
        name = module.__name__.removeprefix(f"{_NAME}.")
        if name in _MODULES:
            sys.modules[module.__name__] = importlib.import_module(f"{_OURS}.{name}")
        else:
            sys.modules[module.__name__] = _refused.module(module.__name__, _refused.NAMES.get(name, {}))
