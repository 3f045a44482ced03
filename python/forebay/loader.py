"""The loader: arguments in, epochs out."""

from __future__ import annotations

import atexit
import json
import math
import os
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from numbers import Real
from typing import Any, NoReturn

from . import _forebay, filters
from .epoch import BadRow, Epoch
from .errors import InvalidError, StateMismatchError
from .locations import local, locations
from .reports import Plan, Stats
from .shard import Shard
from .sizes import parse_bytes
from .values import DiskCache, Shuffle, Skip, whole

__all__ = ["Loader"]

Location = str | os.PathLike[str]
Transform = Callable[[dict[str, Any]], Mapping[str, Any]]

# Loaders that are still alive when the interpreter exits. Their threads have to end before Python does.
_ALIVE: weakref.WeakSet[Loader] = weakref.WeakSet()


class Loader:
    """Batches for one training process, straight from Parquet.

    Args:
        urls: A path, URL or glob, or a list of them.
        columns: Names of the columns to read, in the order of delivery. Default: all columns.
        decode: How to decode which image columns: ``{"image": forebay.Image.random_resized_crop(224).flip()}``.
        batch_size: Rows in a batch of this process.
        drop_last: Leave out the rows that do not fill a batch on every rank.
        epochs: How many epochs there will be. Nothing is fetched ahead after the last one. Default: unknown; while an
            epoch ends, the beginning of the next one is fetched.
        filter: Which rows to read: ``[("label", "<", 100)]``, or a list of such lists, one of which must hold.
        shuffle: ``forebay.Shuffle(seed=17)``, ``forebay.Shuffle.exact(17)``, or ``None`` for the stored order.
        shard: Which share is this process's: ``forebay.Shard(rank=3, world=8)`` or ``forebay.Shard.from_env()``.
        cache: ``forebay.DiskCache("/nvme/forebay", max_bytes="200GB")`` keeps decoded rows on local disk.
        memory: One budget for all that is in flight, as ``"12GB"``, ``"4GiB"`` or a number of bytes.
        transform: A function from a dict of arrays to a dict of arrays with as many rows; values that are no arrays,
            such as a number or a text for the whole batch, are passed on. It runs on one thread of its own, so it may
            be slow as long as it lets other threads run, and its results arrive in order.
        threads: Threads that decode. Default: as many as there are processors.
        storage_options: For the store, as in pandas and fsspec.
        on_bad_row: ``"raise"``, or ``forebay.Skip(at_most=...)`` to leave out and count.
        fill_null: Values instead of nulls: ``{"x": 0.0, "text": "", "blob": b""}``. It is a number for numbers,
            booleans (0 or 1) and times (in the column's own unit), and for each byte of binary of fixed length. Of a
            column of lists it stands for each value that is null; a list that is null becomes an empty one, or where
            all have the same length, one of that value alone.
        trace: A file for a timeline of what the loader did, written when it is closed; Perfetto and chrome://tracing
            open it. Of a long run it holds the end. Default: none, which costs nothing.

    Iterating yields one epoch, and iterating again the next one. One epoch is under way at a time.

    A loader takes the place of a ``torch.utils.data.DataLoader`` and is no data set of rows for one: iterate over
    ``forebay.torch.batches(loader)``, and pass ``forebay.keras.batches(loader)`` to Keras' ``fit``.
    """

    def __init__(
        self,
        urls: Location | Iterable[Location],
        *,
        columns: Iterable[str] | None = None,
        decode: Mapping[str, _forebay.Image] | None = None,
        batch_size: int = 32,
        drop_last: bool = False,
        epochs: int | None = None,
        filter: Iterable[Any] | None = None,
        shuffle: Shuffle | None = None,
        shard: Shard | None = None,
        cache: DiskCache | None = None,
        memory: str | int | None = None,
        transform: Transform | None = None,
        threads: int | None = None,
        storage_options: Mapping[str, Any] | None = None,
        on_bad_row: str | Skip = "raise",
        fill_null: Mapping[str, float | str | bytes] | None = None,
        trace: str | os.PathLike[str] | None = None,
    ) -> None:
        self._arguments: dict[str, Any] = {
            "urls": urls if isinstance(urls, (str, os.PathLike)) else locations(urls),
            "columns": None if columns is None else _names(columns),
            "decode": None if decode is None else _dict(decode, "decode", "forebay.Image.resize(224, 224)"),
            "batch_size": batch_size,
            "drop_last": drop_last,
            "epochs": epochs,
            # An iterator is used up once it was read, and a loader is copied by its arguments.
            "filter": list(filter) if isinstance(filter, Iterator) else filter,
            "shuffle": shuffle,
            "shard": shard,
            "cache": cache,
            "memory": memory,
            "transform": transform,
            "threads": threads,
            "storage_options": None if storage_options is None else _dict(storage_options, "storage_options", "..."),
            "on_bad_row": on_bad_row,
            "fill_null": None if fill_null is None else _dict(fill_null, "fill_null", "0.0"),
            "trace": trace,
        }
        if transform is not None and not callable(transform):
            raise InvalidError(f"transform={transform!r} is no function")
        self._transform = transform
        self._process = os.getpid()
        # Rises when a state is loaded: epochs that were begun before have nothing more to say.
        self._generation = 0
        self._epochs: weakref.WeakSet[Epoch] = weakref.WeakSet()
        self._skipped: _forebay.Skipped | None = None
        self._native = _forebay.Loader(_checked(self._arguments))
        _ALIVE.add(self)

    # Batches

    def __iter__(self) -> Epoch:
        """The next epoch, or the rest of the one that a loaded state lies in."""
        return self._begin(None)

    def epoch(self, number: int) -> Epoch:
        """The epoch with this number, or the rest of it if a loaded state lies in it."""
        return self._begin(whole(number, "epoch", 0))

    def _begin(self, number: int | None) -> Epoch:
        self._check_process()
        # One epoch at a time: what an earlier one still prepares would only be in the way.
        for earlier in list(self._epochs):
            earlier.close()
        epoch = Epoch(self, self._native.epoch(number, self._transform is not None), self._transform)
        warning = self._native.take_warning()
        if warning is not None:
            warnings.warn(warning, RuntimeWarning, stacklevel=3)
        self._epochs.add(epoch)
        self._skipped = epoch._native.skipped
        return epoch

    def skipped(self) -> list[BadRow]:
        """The rows that the epoch begun last left out so far, in its order, each with its place and why.

        None are without ``on_bad_row=forebay.Skip(...)``. Rows of batches that are prepared ahead are among them.
        """
        return [] if self._skipped is None else [BadRow(*row) for row in self._skipped.rows()]

    def __getitem__(self, index: Any) -> NoReturn:
        # What takes it for a data set of rows (DataLoader, the Trainer of Hugging Face) gets to know here.
        raise TypeError(
            "a forebay.Loader gives whole batches, and no rows by number: it takes the place of a DataLoader (iterate "
            "over forebay.torch.batches(loader), or pass forebay.keras.batches(loader) to fit)"
        )

    def __len__(self) -> int:
        """Batches in a whole epoch of this rank: exact, and the same on every rank."""
        return self._native.steps()

    # Reports

    @property
    def schema(self) -> _forebay.Schema:
        """Names and types of what is delivered, before ``transform``. ``pyarrow.schema(loader.schema)`` reads it."""
        return self._native.schema()

    def plan(self, epoch: int = 0) -> Plan:
        """What this rank reads in an epoch: from the footers alone."""
        return Plan(*self._native.plan(whole(epoch, "epoch", 0)))

    def stats(self) -> Stats:
        """What each stage did so far, what the training loop waited for, and what to do about it."""
        return Stats(*self._native.stats())

    # State

    def state_dict(self) -> dict[str, Any]:
        """How far the training got, in JSON types only and the same on every rank.

        It counts the batches that were handed over, not those that were prepared ahead.
        """
        state: dict[str, Any] = json.loads(self._native.position())
        return state

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes to a saved state: the next epoch that is begun continues there.

        Raises:
            StateMismatchError: The state is of another data set, seed, filter or order, or no state at all.
        """
        self._check_process()
        try:
            position = json.dumps(dict(state))
        except (TypeError, ValueError) as error:
            raise StateMismatchError(
                f"this is no state of a loader: {error} (pass what state_dict() returned)"
            ) from None
        # First, so that a state that is refused ends nothing.
        self._native.restore(position)
        for epoch in list(self._epochs):
            epoch.close()
        self._generation += 1

    # Life

    def close(self) -> None:
        """Ends the epoch that is under way, and the loader's threads.

        To iterate raises ``ClosedError`` from then on. What is known without reading rows can still be asked for: the
        length, ``schema``, ``plan``, ``stats`` and ``state_dict``.
        """
        if self._process != os.getpid():
            return
        for epoch in list(self._epochs):
            epoch.close()
        self._native.close()
        warning = None if self._arguments["trace"] is None else self._native.take_warning()
        if warning is not None:
            warnings.warn(warning, RuntimeWarning, stacklevel=2)

    def __enter__(self) -> Loader:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def _check_process(self) -> None:
        self._native.check_process()

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (dict(self._arguments),)

    def __repr__(self) -> str:
        arguments = dict(self._arguments)
        urls = arguments.pop("urls")
        # URLs may hold passwords and signatures.
        shown = [repr(_shown(urls) if isinstance(urls, (str, os.PathLike)) else [_shown(url) for url in urls])]
        # Options may hold keys and tokens.
        if arguments["storage_options"]:
            arguments["storage_options"] = dict.fromkeys(arguments["storage_options"], "...")
        shown += [f"{name}={value!r}" for name, value in arguments.items() if value != _DEFAULTS[name]]
        return f"forebay.Loader({', '.join(shown)})"


_DEFAULTS: dict[str, Any] = dict(Loader.__init__.__kwdefaults__ or {})


def _rebuild(arguments: dict[str, Any]) -> Loader:
    return Loader(**arguments)


def _shown(url: Location) -> Location:
    """A location without what nobody else may see."""
    text = os.fspath(url)
    shown = _forebay.shown(text)
    return url if shown == text else shown


def _names(columns: Any) -> list[str]:
    if isinstance(columns, str):
        raise InvalidError(f"columns={columns!r} is one string (pass [{columns!r}])")
    if isinstance(columns, (set, frozenset)):
        raise InvalidError("columns is a set, which has no order (pass a list)")
    if not isinstance(columns, Iterable) or isinstance(columns, (bytes, Mapping)):
        raise InvalidError(f"columns is a {type(columns).__qualname__} (pass a list of names)")
    names = list(columns)
    for name in names:
        if not isinstance(name, str):
            raise InvalidError(f"columns names {name!r}, which is no text")
    return names


def _dict(value: Any, name: str, example: str) -> dict[Any, Any]:
    try:
        found = dict(value)
    except (TypeError, ValueError):
        found = {0: 0}
    for key in found:
        if not isinstance(key, str):
            # Not repeated: options of a store may be secrets.
            raise InvalidError(f'{name} is a dict from names, not what it was given (pass {{"...": {example}}})')
    return found


def _checked(arguments: dict[str, Any]) -> dict[str, Any]:
    """The arguments as the compiled half takes them, each refused by its name if it can never work."""
    cache, on_bad_row = arguments["cache"], arguments["on_bad_row"]
    shuffle, shard = arguments["shuffle"], arguments["shard"]
    if cache is not None and not isinstance(cache, DiskCache):
        raise InvalidError(f"cache={cache!r} is no forebay.DiskCache")
    if on_bad_row != "raise" and not isinstance(on_bad_row, Skip):
        raise InvalidError(f"on_bad_row={on_bad_row!r} (pass 'raise' or forebay.Skip(at_most=...))")
    if shuffle is not None and not isinstance(shuffle, Shuffle):
        raise InvalidError(f"shuffle={shuffle!r} is no forebay.Shuffle (pass forebay.Shuffle(seed=...))")
    if shard is not None and not isinstance(shard, Shard):
        raise InvalidError(f"shard={shard!r} is no forebay.Shard (pass forebay.Shard(rank=..., world=...))")
    if isinstance(arguments["drop_last"], (str, bytes)):
        raise InvalidError(f"drop_last={arguments['drop_last']!r} is neither True nor False")
    decode = arguments["decode"] or {}
    for name, image in decode.items():
        if not isinstance(image, _forebay.Image):
            raise InvalidError(f"decode={{{name!r}: {image!r}}} is no forebay.Image")
    memory, threads = arguments["memory"], arguments["threads"]
    options = arguments["storage_options"] or {}
    fill_null = arguments["fill_null"] or {}
    return {
        "urls": locations(arguments["urls"]),
        "columns": arguments["columns"],
        "decode": list(decode.items()),
        "batch_size": whole(arguments["batch_size"], "batch_size", 1),
        "drop_last": bool(arguments["drop_last"]),
        "epochs": None if arguments["epochs"] is None else whole(arguments["epochs"], "epochs", 1),
        "filter": filters.to_json(arguments["filter"]),
        "shuffle": shuffle and (shuffle.mixing, shuffle.seed, shuffle.window_rows, shuffle.lanes),
        "shard": shard and (shard.rank, shard.world),
        "memory": None if memory is None else parse_bytes(memory, "memory"),
        "threads": None if threads is None else whole(threads, "threads", 1),
        "storage_options": {str(name): str(value) for name, value in options.items()},
        "skip_at_most": on_bad_row.at_most if isinstance(on_bad_row, Skip) else None,
        "cache": cache and (cache.path, cache.max_bytes, cache.tier),
        "trace": None if arguments["trace"] is None else local(arguments["trace"], "trace"),
        "fill_null": [(name, _filler(name, value)) for name, value in fill_null.items()],
    }


def _filler(name: str, value: Any) -> float | str | bytes:
    if hasattr(value, "item") and getattr(value, "shape", None) == ():  # a numpy scalar
        value = value.item()
    if isinstance(value, (str, bytes)):
        return value
    if not isinstance(value, Real):
        raise InvalidError(
            f"fill_null={{{name!r}: {value!r}}} is no number, text or bytes "
            "(of times, give a number in the column's unit)"
        )
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if isinstance(value, int) and (math.isinf(number) or int(number) != value):
        raise InvalidError(f"fill_null={{{name!r}: {value}}} has more digits than a float64 holds")
    return number


@atexit.register
def _close_all() -> None:
    for loader in list(_ALIVE):
        loader.close()
