"""Checks the arguments of a loader, and converts them to the spec that the compiled library reads. The error
for an invalid argument names the argument."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from .columns.options import columns_spec
from .errors import InvalidError
from .filters import terms
from .filters.costs import spec_of
from .options.cache import DiskCache
from .options.checks import flag, kind_of, mapping, names, whole
from .options.shuffle import Shuffle
from .options.sizes import parse_bytes
from .options.skip import Skip
from .options.workers import Workers
from .samples.pack import Bucket, Pack
from .samples.weighted import Sample
from .samples.window import Window
from .sharding.shard import Shard
from .transforms.functions import Functions

__all__: list[str] = []


def flattened(flatten: Any) -> bool | list[str]:
    """Checks ``flatten``: a bool for all structures or none, or the names of the structures to flatten."""
    if isinstance(flatten, (bool, np.bool_)):
        return bool(flatten)
    if not isinstance(flatten, Iterable) or isinstance(flatten, (str, bytes, Mapping)):
        raise InvalidError(f"flatten must be True, False or a list of names, got {flatten!r}")
    return names(list(flatten), "flatten")


def renames(rename: Any) -> dict[str, str]:
    """Checks ``rename``, a dict from stored names of columns to the names under which they are delivered."""
    given = mapping(rename, "rename", '"label"')
    for name, new in given.items():
        if not isinstance(new, str):
            raise InvalidError(f"rename[{name!r}] must be a str, got {new!r}")
    return given


def checked(arguments: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Checks all arguments of a loader except the data set. Returns the fields of the spec that the compiled
    library reads, and the filter as JSON."""
    cache, on_bad_row = arguments["cache"], arguments["on_bad_row"]
    shuffle, shard = arguments["shuffle"], arguments["shard"]
    if cache is not None and not isinstance(cache, DiskCache):
        example = 'pass forebay.DiskCache("cache/", max_bytes="100GB")'
        raise InvalidError(f"cache must be a forebay.DiskCache, got {kind_of(cache)} ({example})")
    if on_bad_row != "raise" and not isinstance(on_bad_row, Skip):
        raise InvalidError(f"on_bad_row must be 'raise' or forebay.Skip(at_most=...), got {on_bad_row!r}")
    if shuffle is not None and not isinstance(shuffle, Shuffle):
        raise InvalidError(
            f"shuffle must be a forebay.Shuffle or None, got {shuffle!r} (pass forebay.Shuffle(seed=...))"
        )
    if shard is not None and not isinstance(shard, Shard):
        raise InvalidError(f"shard must be a forebay.Shard, got {shard!r} (pass forebay.Shard(rank=..., world=...))")
    drop_last = flag(arguments["drop_last"], "drop_last")
    samples = arguments["samples"]
    if samples is not None and not isinstance(samples, (Window, Pack, Bucket, Sample)):
        raise InvalidError(f"samples must be a forebay.Window, Pack, Bucket or Sample, got {kind_of(samples)}")
    memory, threads = arguments["memory"], arguments["threads"]
    spec = {
        "columns": arguments["columns"],
        **columns_spec(arguments),
        **_batches(arguments["batch_size"], arguments["global_batch_size"], samples),
        "drop_last": drop_last,
        "epochs": None if arguments["epochs"] is None else whole(arguments["epochs"], "epochs", 1),
        "shuffle": shuffle
        and {
            "mixing": shuffle.mixing,
            "seed": shuffle.seed,
            "window_rows": shuffle.window_rows,
            "piece_rows": shuffle.piece_rows,
            "lanes": shuffle.lanes,
        },
        "balance": [spec_of(cost) for cost in arguments["balance"] or []],
        "shard": shard and {"rank": shard.rank, "world": shard.world},
        "memory": None if memory is None else parse_bytes(memory, "memory"),
        "threads": None if threads is None else whole(threads, "threads", 1),
        "on_bad_row": on_bad_row._spec() if isinstance(on_bad_row, Skip) else "raise",
        "cache": cache and {"path": cache.path, "max_bytes": cache.max_bytes, "tier": cache.tier},
        "trace": arguments["trace"],
        "null_mask": arguments["null_mask"] or [],
        "stack": {name: one._spec() for name, one in (arguments["stack"] or {}).items()},
        "flatten": arguments["flatten"] or False,
        "rename": arguments["rename"] or {},
        "row_id": flag(arguments["row_id"], "row_id"),
        "row_mask": flag(arguments["row_mask"], "row_mask"),
        "deny": None if arguments["deny"] is None else arguments["deny"]._spec(),
        "deny_from": [(step, denied._spec()) for step, denied in (arguments["deny_from"] or {}).items()],
        "skip_steps": arguments["skip_steps"] or [],
        "samples": "rows" if samples is None else samples._spec(),
    }
    return spec, terms.to_json(arguments["filter"])


def _batches(of_a_rank: Any, of_all: Any, samples: Any) -> dict[str, int]:
    """The fields of the spec for the size of batches, from ``batch_size`` and ``global_batch_size``."""
    if of_a_rank is None and of_all is None and isinstance(samples, Bucket):
        return {"batch_size": 1}
    if of_all is None:
        return {} if of_a_rank is None else {"batch_size": whole(of_a_rank, "batch_size", 1)}
    if of_a_rank is not None:
        raise InvalidError("batch_size and global_batch_size were given (pass one of them)")
    return {"global_batch_size": whole(of_all, "global_batch_size", 1)}


def functions(arguments: dict[str, Any]) -> Functions | None:
    """The user's functions of rows and batches; ``None`` if the user passed no function."""
    given = {name: arguments.get(name) for name in ("transform", "transform_rows", "collate")}
    for name, function in given.items():
        if function is not None and not callable(function):
            raise InvalidError(f"{name} must be callable, got {kind_of(function)}")
    if all(function is None for function in given.values()):
        return None
    # Each source of a mix has its own on_bad_row.
    of_sources = [source.get("on_bad_row") for source, _ in arguments.get("sources") or ()]
    on_bad_row = [arguments.get("on_bad_row"), *of_sources]
    return Functions(
        rows=given["transform_rows"],
        collate=given["collate"],
        batch=given["transform"],
        refill=any(isinstance(one, Skip) and one.refill for one in on_bad_row),
    )


def workers(arguments: dict[str, Any], functions: Functions | None) -> Workers:
    """Checks ``transform_workers``, and returns the threads or processes in which the functions run."""
    given = arguments["transform_workers"]
    found = given if isinstance(given, Workers) else Workers(given)
    if found.count > 0 and functions is None:
        raise InvalidError(
            f"transform_workers={given!r}, but there is no transform (pass transform, transform_rows or collate)"
        )
    return found
