"""Raises an error if a user passes an option of torch's ``DataLoader`` to a function of forebay, and says
what to do instead."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

__all__: list[str] = []

P = ParamSpec("P")
R = TypeVar("R")

_ORDER = "pass shuffle=forebay.Shuffle(seed=...) to forebay.Loader"
_THREADS = "leave it out: the loader has threads of its own, as many as threads= of forebay.Loader says"

_INSTEAD = {
    "batch_size": "pass batch_size= to forebay.Loader",
    "drop_last": "pass drop_last= to forebay.Loader",
    "shuffle": _ORDER,
    "generator": _ORDER,
    "sampler": f"{_ORDER}, and shard= for a share of the rows",
    "batch_sampler": f"{_ORDER}, and batch_size=",
    "collate_fn": "pass collate= or transform= to forebay.Loader",
    "num_workers": _THREADS,
    "worker_init_fn": _THREADS,
    "multiprocessing_context": _THREADS,
    "persistent_workers": _THREADS,
    "timeout": _THREADS,
    "in_order": "leave it out: batches come in the planned order",
    "prefetch_factor": "pass ahead=, the batches that are copied ahead, or memory= to forebay.Loader",
    "pin_memory": "pass device=: batches go to a CUDA device from memory that is registered with it",
    "pin_memory_device": "pass device=: batches go to a CUDA device from memory that is registered with it",
}


def without_those_of_a_data_loader(function: Callable[P, R]) -> Callable[P, R]:
    """Wraps a function, so that a call with an option of ``DataLoader`` raises an error that says what to use
    instead."""

    @functools.wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        for name in options:
            if name in _INSTEAD:
                said = f"{function.__qualname__}() has no option {name}, which torch's DataLoader has"
                raise TypeError(f"{said} ({_INSTEAD[name]})")
        return function(*args, **options)

    return checked
