"""Errors for options that a loader does not have, because they belong to other loaders or are misspelt. The
errors say what to do instead."""

from __future__ import annotations

import difflib
import functools
import inspect
from collections.abc import Callable, Iterable, Set
from typing import ParamSpec, TypeVar

__all__: list[str] = []

P = ParamSpec("P")
R = TypeVar("R")


#: Keywords of other loaders, and what to use in a forebay.Loader instead.
_OF_OTHERS = {
    "num_workers": "threads= says how many threads decode, and transform_workers= where functions run",
    "workers": "threads= says how many threads decode, and transform_workers= where functions run",
    "workers_count": "threads= says how many threads decode, and transform_workers= where functions run",
    "num_threads": "pass threads=",
    "num_parallel_calls": "pass threads=, or transform_workers= for functions",
    "reader_pool_type": "leave it out, or pass transform_workers= for functions",
    "collate_fn": "pass collate= or transform=",
    "worker_init_fn": "leave it out: a worker process seeds random, numpy and torch from each row",
    "sampler": "pass shuffle= for the order, shard= for a share, or samples=",
    "batch_sampler": "pass shuffle= for the order, and batch_size=",
    "generator": "pass shuffle=forebay.Shuffle(seed=...)",
    "seed": "pass shuffle=forebay.Shuffle(seed=...)",
    "shard_seed": "pass shuffle=forebay.Shuffle(seed=...)",
    "shuffle_seed": "pass shuffle=forebay.Shuffle(seed=...)",
    "shuffle_rows": "pass shuffle=forebay.Shuffle(seed=...)",
    "shuffle_row_groups": "pass shuffle=forebay.Shuffle(seed=...)",
    "buffer_size": "pass shuffle=forebay.Shuffle(seed=..., window_rows=...)",
    "shuffle_buffer_size": "pass shuffle=forebay.Shuffle(seed=..., window_rows=...)",
    "prefetch_factor": "pass memory=, which is the budget for all that is prefetched",
    "prefetch": "pass memory=, which is the budget for all that is prefetched",
    "pin_memory": "pass device= to forebay.torch.batches(loader)",
    "persistent_workers": "leave it out: worker processes stay from epoch to epoch",
    "multiprocessing_context": "leave it out: processes are started by forkserver",
    "timeout": "leave it out",
    "schema_fields": "pass columns=",
    "features": "pass columns=",
    "cur_shard": "pass shard=forebay.Shard(rank=..., world=...)",
    "shard_count": "pass shard=forebay.Shard(rank=..., world=...)",
    "num_shards": "pass shard=forebay.Shard(rank=..., world=...)",
    "rank": "pass shard=forebay.Shard(rank=..., world=...)",
    "world_size": "pass shard=forebay.Shard(rank=..., world=...)",
    "num_epochs": "pass epochs=",
    "predicate": "pass filter=, such as fb.col('label') < 100",
    "filters": "pass filter=",
    "transform_spec": "pass transform_rows= or transform=",
    "map_fn": "pass transform_rows= or transform=",
    "hdfs_driver": "leave it out, and pass storage_options= for the store",
    "filesystem": "pass a URL, and storage_options= for its credentials",
    "cache_type": "pass cache=forebay.DiskCache(...)",
    "cache_location": "pass cache=forebay.DiskCache(...)",
    "split": "pass the files of the split, as a glob such as 'data/train-*.parquet'",
    "streaming": "leave it out: rows are always streamed",
    "drop_remainder": "pass drop_last=True",
}


def explained(function: Callable[P, R], of_sources: Set[str] = frozenset()) -> Callable[P, R]:
    """Wraps the constructor of a loader, so that the error for an unknown option says what to use instead.
    ``of_sources`` are the options that the loaders of a mix's sources have."""
    known = function.__kwdefaults__ or {}
    of_place = set(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: P.args, **options: P.kwargs) -> R:
        for name in options:
            if name not in of_place and (move := _next_move(name, known, of_sources)):
                kind = function.__qualname__.removesuffix(".__init__")
                raise TypeError(f"forebay.{kind}() has no option {name} ({move})")
        return function(*args, **options)

    checked.__kwdefaults__ = known  # type: ignore[attr-defined]
    return checked


def _next_move(name: str, known: Iterable[str], of_sources: Set[str]) -> str | None:
    """The advice for an unknown option: its counterpart here, the loader that takes it, or a known option with a
    similar name; ``None`` if there is none of these."""
    if name in _OF_OTHERS:
        return _OF_OTHERS[name]
    if name in of_sources:
        return f"pass {name}= to the loaders of the sources"
    near = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {near[0]}=?" if near else None
