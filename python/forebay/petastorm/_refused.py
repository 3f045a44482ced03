"""Placeholders for the parts of Petastorm that forebay leaves out on purpose. They can be imported, but using
one raises an error that says what to use instead."""

from __future__ import annotations

import types
from typing import Any

from .errors import refused

__all__: list[str] = []

_WINDOW = "use forebay.Loader with samples=forebay.Window(...), which has windows of any fields and gaps"
_PROGRAM = "use the program forebay"

#: The modules of Petastorm that are left out: for each module its names, and for each name what to use
#: instead.
NAMES = {
    "weighted_sampling_reader": {"WeightedSamplingReader": "use forebay.Mix, which mixes loaders by weight"},
    "ngram": {"NGram": _WINDOW},
    "etl.petastorm_generate_metadata": {
        "generate_petastorm_metadata": "use forebay.petastorm.etl.dataset_metadata.materialize_dataset",
        "main": _PROGRAM,
    },
    "tools.copy_dataset": {"copy_dataset": "read with make_reader, and write with forebay.petastorm.write"},
    "benchmark.throughput": {"reader_throughput": f"{_PROGRAM}: forebay bench"},
}

#: Names that are left out of modules that do exist here, and what to use instead.
IN_MODULES = {
    "tf_tensors": "use make_petastorm_dataset: TensorFlow 2 has no queues",
}


def module(name: str, names: dict[str, str]) -> types.ModuleType:
    """Makes a module whose names raise an error when they are used."""
    made = types.ModuleType(name, "Left out on purpose.")
    for one, instead in names.items():
        setattr(made, one, _class(one, instead))
    made.__path__ = []
    return made


def _class(name: str, instead: str) -> Any:
    """Makes a class that cannot be instantiated, but works with ``isinstance``."""

    def __init__(self: Any, *arguments: Any, **options: Any) -> None:
        raise refused(name, instead)

    return type(name, (), {"__init__": __init__, "__doc__": f"Refused: {instead}."})


def absent(name: str) -> Any:
    """Makes the placeholder for a name in ``IN_MODULES``."""
    return _class(name, IN_MODULES[name])
