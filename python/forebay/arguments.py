"""The arguments of a loader as the compiled half takes them, each refused by its name if it can never work."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from numbers import Real
from typing import Any

import numpy as np

from . import _forebay, filters
from .encodings import Hash, Vocabulary
from .errors import InvalidError
from .following import Boxes, Keypoints, Mask
from .pack import Bucket, Pack
from .pad import Pad
from .sample import Sample
from .shard import Shard
from .sizes import given, parse_bytes
from .tensor import Tensor, dtype_name
from .texts import Json, Text
from .transforms.functions import Functions
from .values import DiskCache, Shuffle, Skip, Workers, whole
from .window import Window

__all__: list[str] = []


def names(columns: Any, argument: str = "columns") -> list[str]:
    """Names of columns."""
    if isinstance(columns, str):
        raise InvalidError(f"{argument} must be a list of names, got one string (pass [{columns!r}])")
    if isinstance(columns, (set, frozenset)):
        raise InvalidError(f"{argument} must have an order, got a set (pass a list)")
    if not isinstance(columns, Iterable) or isinstance(columns, (bytes, Mapping)):
        raise InvalidError(f"{argument} must be a list of names, got {type(columns).__qualname__}")
    found = list(columns)
    for name in found:
        if not isinstance(name, str):
            raise InvalidError(f"{argument} must be a list of names, got {name!r} in it")
    return found


def flattened(flatten: Any) -> bool | list[str]:
    """Whether structures are flattened, or which."""
    if isinstance(flatten, (bool, np.bool_)):
        return bool(flatten)
    if not isinstance(flatten, Iterable) or isinstance(flatten, (str, bytes, Mapping)):
        raise InvalidError(f"flatten must be True, False or a list of names, got {flatten!r}")
    return names(list(flatten), "flatten")


def casts(cast: Any) -> dict[str, str]:
    """The types that columns are cast to, by name."""
    given = mapping(cast, "cast", '"float32"')
    return {name: dtype_name(value, f"cast[{name!r}]") for name, value in given.items()}


def renames(rename: Any) -> dict[str, str]:
    """The names that columns are delivered under, by stored name."""
    given = mapping(rename, "rename", '"label"')
    for name, new in given.items():
        if not isinstance(new, str):
            raise InvalidError(f"rename[{name!r}] must be a str, got {new!r}")
    return given


def mapping(value: Any, name: str, example: str) -> dict[str, Any]:
    """A dict with names as keys."""
    try:
        found = dict(value)
    except (TypeError, ValueError):
        found = {0: 0}
    for key in found:
        if not isinstance(key, str):
            # The value is not repeated: options of a store may be secrets.
            raise InvalidError(
                f'{name} must be a dict with str as keys, got {_kind(value)} (pass {{"...": {example}}})'
            )
    return found


def options(storage_options: Any) -> dict[str, Any] | None:
    """The options of a store as they were given."""
    return None if storage_options is None else mapping(storage_options, "storage_options", "...")


def store_options(storage_options: dict[str, Any] | None) -> dict[str, str]:
    """The options of a store as text."""
    return {str(name): str(value) for name, value in (storage_options or {}).items()}


def checked(arguments: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """All arguments but the data set: the fields of the library's ``LoaderSpec``, and the filter as JSON."""
    cache, on_bad_row = arguments["cache"], arguments["on_bad_row"]
    shuffle, shard = arguments["shuffle"], arguments["shard"]
    if cache is not None and not isinstance(cache, DiskCache):
        example = 'pass forebay.DiskCache("cache/", max_bytes="100GB")'
        raise InvalidError(f"cache must be a forebay.DiskCache, got {_kind(cache)} ({example})")
    if on_bad_row != "raise" and not isinstance(on_bad_row, Skip):
        raise InvalidError(f"on_bad_row must be 'raise' or forebay.Skip(at_most=...), got {on_bad_row!r}")
    if shuffle is not None and not isinstance(shuffle, Shuffle):
        raise InvalidError(
            f"shuffle must be a forebay.Shuffle or None, got {shuffle!r} (pass forebay.Shuffle(seed=...))"
        )
    if shard is not None and not isinstance(shard, Shard):
        raise InvalidError(f"shard must be a forebay.Shard, got {shard!r} (pass forebay.Shard(rank=..., world=...))")
    if not isinstance(arguments["drop_last"], (bool, np.bool_)):
        raise InvalidError(f"drop_last must be True or False, got {arguments['drop_last']!r}")
    decode = arguments["decode"] or {}
    for name, value in decode.items():
        if not isinstance(value, (_forebay.Image, Boxes, Keypoints, Mask, Tensor, Text, Json)):
            raise InvalidError(
                f"decode[{name!r}] must be a forebay.Image, Boxes, Keypoints, Mask, Tensor, Text or Json, "
                f"got {_kind(value)}"
            )
    encode = arguments["encode"] or {}
    for name, value in encode.items():
        if not isinstance(value, (Vocabulary, Hash)):
            raise InvalidError(f"encode[{name!r}] must be a forebay.Vocabulary or a forebay.Hash, got {_kind(value)}")
    pad = arguments["pad"] or {}
    for name, value in pad.items():
        if not isinstance(value, Pad):
            raise InvalidError(f"pad[{name!r}] must be a forebay.Pad, got {_kind(value)}")
    samples = arguments["samples"]
    if samples is not None and not isinstance(samples, (Window, Pack, Bucket, Sample)):
        raise InvalidError(f"samples must be a forebay.Window, Pack, Bucket or Sample, got {_kind(samples)}")
    memory, threads = arguments["memory"], arguments["threads"]
    following = {name: value for name, value in decode.items() if isinstance(value, (Boxes, Keypoints, Mask))}
    spec = {
        "columns": arguments["columns"],
        "decode": {name: image for name, image in decode.items() if isinstance(image, _forebay.Image)},
        "follow": {name: value._options() for name, value in following.items()},
        "tensors": {name: tensor._spec() for name, tensor in decode.items() if isinstance(tensor, Tensor)},
        "texts": {
            name: "plain" if isinstance(text, Text) else "json"
            for name, text in decode.items()
            if isinstance(text, (Text, Json))
        },
        "encode": {name: encoding._spec() for name, encoding in encode.items()},
        "pad": {name: value._spec() for name, value in pad.items()},
        **_batches(arguments["batch_size"], arguments.get("global_batch_size"), samples),
        "drop_last": bool(arguments["drop_last"]),
        "epochs": None if arguments["epochs"] is None else whole(arguments["epochs"], "epochs", 1),
        "shuffle": shuffle
        and {
            "mixing": shuffle.mixing,
            "seed": shuffle.seed,
            "window_rows": shuffle.window_rows,
            "piece_rows": shuffle.piece_rows,
            "lanes": shuffle.lanes,
        },
        "shard": shard and {"rank": shard.rank, "world": shard.world},
        "memory": None if memory is None else parse_bytes(memory, "memory"),
        "threads": None if threads is None else whole(threads, "threads", 1),
        "on_bad_row": on_bad_row._spec() if isinstance(on_bad_row, Skip) else "raise",
        "cache": cache and {"path": cache.path, "max_bytes": cache.max_bytes, "tier": cache.tier},
        "trace": arguments["trace"],
        "fill_null": {name: _filler(name, value) for name, value in (arguments["fill_null"] or {}).items()},
        "null_mask": arguments.get("null_mask") or [],
        "flatten": arguments.get("flatten") or False,
        "cast": arguments.get("cast") or {},
        "rename": arguments.get("rename") or {},
        "row_id": _flag(arguments, "row_id"),
        "row_mask": _flag(arguments, "row_mask"),
        "deny": None if arguments.get("deny") is None else arguments["deny"]._spec(),
        "skip_steps": arguments.get("skip_steps") or [],
        "samples": "rows" if samples is None else samples._spec(),
    }
    return spec, filters.to_json(arguments["filter"])


def _batches(of_a_rank: Any, of_all: Any, samples: Any) -> dict[str, int]:
    """How large batches are."""
    if of_a_rank is None and of_all is None and isinstance(samples, Bucket):
        return {"batch_size": 1}
    if of_all is None:
        return {} if of_a_rank is None else {"batch_size": whole(of_a_rank, "batch_size", 1)}
    if of_a_rank is not None:
        raise InvalidError("batch_size and global_batch_size were given (pass one of them)")
    return {"global_batch_size": whole(of_all, "global_batch_size", 1)}


def functions(arguments: dict[str, Any]) -> Functions | None:
    """The functions that a batch goes through, if there are any."""
    given = {name: arguments.get(name) for name in ("transform", "transform_rows", "collate")}
    for name, function in given.items():
        if function is not None and not callable(function):
            raise InvalidError(f"{name} must be callable, got {_kind(function)}")
    if all(function is None for function in given.values()):
        return None
    # Those of a mix have sources, each with its own.
    of_sources = [source.get("on_bad_row") for source, _ in arguments.get("sources") or ()]
    on_bad_row = [arguments.get("on_bad_row"), *of_sources]
    return Functions(
        rows=given["transform_rows"],
        collate=given["collate"],
        batch=given["transform"],
        refill=any(isinstance(one, Skip) and one.refill for one in on_bad_row),
    )


def workers(arguments: dict[str, Any], functions: Functions | None) -> Workers:
    """Where the functions run."""
    given = arguments["transform_workers"]
    found = given if isinstance(given, Workers) else Workers(given)
    if found.count > 0 and functions is None:
        raise InvalidError(
            f"transform_workers={given!r}, but there is no transform (pass transform, transform_rows or collate)"
        )
    return found


def _flag(arguments: dict[str, Any], name: str) -> bool:
    value = arguments[name]
    if not isinstance(value, (bool, np.bool_)):
        raise InvalidError(f"{name} must be True or False, got {value!r}")
    return bool(value)


def _kind(value: Any) -> str:
    """The type of a value, in a sentence."""
    return "None" if value is None else type(value).__qualname__


def _filler(name: str, value: Any) -> int | float | str | bytes:
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a numpy scalar
        value = value.item()
    if isinstance(value, (str, bytes)):
        return value
    if not isinstance(value, Real):
        raise InvalidError(
            f"fill_null[{name!r}] must be a number, str or bytes, got {value!r} "
            "(for times, pass a number in the column's unit)"
        )
    if isinstance(value, int):
        if not -(1 << 63) <= value < 1 << 64:
            raise InvalidError(f"fill_null[{name!r}] must be from -2**63 to 2**64 - 1 as an int, got {given(value)}")
        # Exact, where a float would not be.
        return int(value)
    return float(value)
