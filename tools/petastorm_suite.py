"""A pytest plugin for tools/petastorm-suite. It lets Petastorm's tests find forebay.petastorm, and the names
that numpy, pyarrow and Python had when the tests were written.

Names that are private to Petastorm are placeholders, which fail when a test uses them, so that the other tests of the
same file run.
"""

from __future__ import annotations

import collections
import contextlib
import importlib
import inspect
import json
import os
import re
import sys
import types
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pyarrow.fs
import pyarrow.parquet
import pytest

import forebay.petastorm
from forebay.petastorm import _install

TESTS = Path(__file__).resolve().parent.parent / ".petastorm-suite/tests"

#: Old names in numpy, and the current ones.
NUMPY = {
    "unicode_": "str_",
    "string_": "bytes_",
    "float_": "float64",
    "bool8": "bool_",
    "float": "float64",
    "int": "int64",
    "bool": "bool_",
}

#: Modules without a counterpart, and the names that tests import from them.
PRIVATE = {
    "petastorm.arrow_reader_worker": ("ArrowReaderWorker", "convert_arrow_table_to_numpy_dict"),
    "petastorm.cache": ("NullCache",),
    "petastorm.local_disk_cache": ("LocalDiskCache",),
    "petastorm.workers_pool": (),
    "petastorm.workers_pool.dummy_pool": ("DummyPool",),
    "petastorm.workers_pool.exec_in_new_process": ("exec_in_new_process",),
    "petastorm.workers_pool.process_pool": ("ProcessPool",),
    "petastorm.workers_pool.thread_pool": ("ThreadPool",),
    "petastorm.hdfs": (),
    "petastorm.hdfs.namenode": ("HAHdfsClient", "HdfsConnector", "HdfsNamenodeResolver"),
    "petastorm.hdfs.tests": (),
    "petastorm.hdfs.tests.test_hdfs_namenode": ("HC", "MockHadoopConfiguration", "MockHdfs", "MockHdfsConnector"),
    "pyarrow.filesystem": ("LocalFileSystem",),
    "pyarrow.hdfs": (),
}

#: Private names of Petastorm that tests use from modules that forebay.petastorm has as well.
LENT = {
    "unischema": {
        "_new_gt_255_compatible_namedtuple": collections.namedtuple,
        "_UNISCHEMA_FIELD_ORDER": "preserve_input_order",
        "_fullmatch": re.fullmatch,
    }
}

_OUTCOMES: dict[str, str] = {}


class Piece:
    """A file of a data set, in the form of old pyarrow."""

    def __init__(self, fragment: Any) -> None:
        self._fragment = fragment

    def get_metadata(self, *_: Any) -> Any:
        """Returns the footer."""
        return self._fragment.metadata


class PartitionSet:
    """The values of a partition key, in the form of old pyarrow: as numbers if all of them are whole numbers."""

    def __init__(self, name: str, keys: list[str]) -> None:
        self.name = name
        self.keys = keys

    @property
    def dictionary(self) -> Any:
        """Returns the values as an array."""
        try:
            return pyarrow.array([int(key) for key in self.keys])
        except ValueError:
            return pyarrow.array(self.keys)


class Hooks:
    """Declares hooks of plugins that are not installed, because the tests' own set-up implements them."""

    def pytest_logger_config(self, logger_config: Any) -> None:
        """Says which loggers are shown."""


def _private(name: str) -> Any:
    """Returns a class that raises an error when it is called."""

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        raise NotImplementedError(f"{name} is private to Petastorm")

    return type(name, (), {"__init__": __init__})


def _prepare() -> None:
    for old, new in NUMPY.items():
        if not hasattr(np, old):
            setattr(np, old, getattr(np, new))
    if not hasattr(inspect, "getargspec"):
        kind = collections.namedtuple("ArgSpec", "args varargs keywords defaults")
        inspect.getargspec = lambda function: kind(*inspect.getfullargspec(function)[:4])  # type: ignore[attr-defined]
    pyarrow.LocalFileSystem = pyarrow.fs.LocalFileSystem
    pyarrow.parquet.PartitionSet = PartitionSet
    for dataset in ("ParquetDataset", "_ParquetDatasetV2"):
        if hasattr(pyarrow.parquet, dataset):
            getattr(pyarrow.parquet, dataset).pieces = property(lambda one: list(map(Piece, one.fragments)))
    pytest.warns = _warns  # type: ignore[assignment]
    _install._Finder.exec_module = _executed  # type: ignore[method-assign]
    forebay.petastorm.install()
    tests = types.ModuleType("petastorm.tests")
    tests.__path__ = [str(TESTS)]
    sys.modules[tests.__name__] = tests
    forebay.petastorm.tests = tests  # type: ignore[attr-defined]
    for name, names in PRIVATE.items():
        module = types.ModuleType(name)
        module.__path__ = []
        for one in names:
            setattr(module, one, _private(one))
        sys.modules[name] = module
        parent, _, last = name.rpartition(".")
        setattr(sys.modules[parent], last, module)
    for name, lent in LENT.items():
        for one, value in lent.items():
            setattr(importlib.import_module(f"forebay.petastorm.{name}"), one, value)


def _warns(expected: Any, *arguments: Any, _now: Any = pytest.warns, **options: Any) -> Any:
    """Behaves like ``pytest.warns`` in old versions, where ``None`` accepts any number of warnings of any kind."""
    return warnings.catch_warnings(record=True) if expected is None else _now(expected, *arguments, **options)


def _executed(self: Any, module: Any, _now: Any = _install._Finder.exec_module) -> None:
    """Executes a module as the finder does, and then lets it return placeholders for private names that it lacks."""
    _now(self, module)
    sys.modules[module.__name__].__getattr__ = _of_module  # type: ignore[method-assign]


def _of_module(name: str) -> Any:
    if name.startswith("__") or not name.startswith("_"):
        raise AttributeError(name)
    return _private(name)


def pytest_addhooks(pluginmanager: Any) -> None:
    with contextlib.suppress(ImportError):
        # Triton is imported now: after TensorFlow, importing it crashes the process, because both contain
        # LLVM.
        import triton  # noqa: F401
    pluginmanager.add_hookspecs(Hooks)


def pytest_runtest_logreport(report: Any) -> None:
    if report.failed:
        _note(report, "failed")
    elif report.skipped:
        _note(report, "skipped")
    elif report.when == "call":
        _note(report, "passed")


def pytest_collectreport(report: Any) -> None:
    if report.failed:
        _note(report, "failed")


def _note(report: Any, outcome: str) -> None:
    """Keeps the worst outcome of a test. It is written at once, because a test may end the process."""
    test = report.nodeid.rpartition("tests/")[2]
    if outcome == "failed" or test not in _OUTCOMES:
        _OUTCOMES[test] = outcome
    out = os.environ.get("FOREBAY_SUITE_OUTCOMES")
    if out:
        Path(out).write_text(json.dumps(_OUTCOMES, indent=1))


_prepare()
