""":class:`Mix`, a loader that reads several data sets and puts rows of all of them into each batch, by
weight."""

from __future__ import annotations

import functools
import inspect
import json
import os
from collections.abc import Iterable, Mapping, Set
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

from .dataset import Dataset
from .errors import InvalidError
from .filters.costs import costs_of, spec_of
from .loader import _DEFAULTS, Loader, delivered, opened_for
from .options.checks import given, named, whole
from .options.locations import local, locations
from .options.other_loaders import explained
from .options.workers import Workers
from .reports.reports import MixPlan
from .rows.row_id import SourcePlace
from .rows.skip_steps import steps
from .samples.pack import Bucket
from .sharding.shard import Shard
from .spec import checked

if TYPE_CHECKING:
    from .filters.costs import Cost
    from .loader import _Source
    from .types import Collate, Location, MixStateDict, RowTransform, Transform

__all__ = ["Mix"]

# Options that are given once for all sources of a mix, so the loaders of the sources must not have them.
_OF_THE_MIX = (
    "batch_size",
    "global_batch_size",
    "drop_last",
    "skip_steps",
    "epochs",
    "shard",
    "memory",
    "threads",
    "trace",
    "transform",
    "transform_rows",
    "collate",
    "transform_workers",
)


# Options that only a mix has, and their defaults.
_MIXING = {"schedule": [], "by": [], "stop": "first", "repeat": True, "max_passes": [], "source": False}


class Mix(Loader):
    """Several sources as one loader: each batch has rows of all of them, by weight.

    A mix takes the place of a :class:`Loader` everywhere: iterating yields the batches of one epoch, it has a length
    and a state, and ``forebay.torch.batches`` and the functions for other frameworks take it. See
    ``docs/recipes/several.md``.

    Each step has the share of every source, rounded to whole rows in each lane. A lane is one of the
    interleaved parts that make up an epoch's order; there is one for each rank, unless a source has
    ``lanes=``. Rounding errors do not add up: after any number of steps, a lane has delivered less than one
    row of a source too many or too few. A step should therefore have many more rows than there are lanes.

    A pass over a source delivers each of its rows once, in the order of its own loader. Every epoch begins a new pass
    over every source; a source with ``follow=`` takes the newest version of its table then.

    Parameters
    ----------
    sources : iterable of (source, float)
        Sources and their weights, of which only the ratio matters. A source is a :class:`Loader`, which brings its data
        set, columns, rows, decoding, order and cache; or a :class:`Dataset`, path or URL, which is read in its stored
        order. A batch has the columns of all sources. A column that a source does not have is null in its rows, and
        columns with the same name must have the same type. Numbers, images and other columns that are delivered as one
        array cannot be null: leave such a column out with ``columns=`` of the loaders that have it, or read the batch
        through Arrow.
    schedule : mapping from int to iterable of float, optional
        Weights that hold from a step on, with steps counted through all epochs: ``{10_000: [0.5, 0.5]}``. Default: the
        weights do not change.
    by : str, ColumnExpression or iterable of them, optional
        The cost that weights count, such as tokens: a column, or arithmetic such as ``forebay.col("prompt") +
        forebay.col("answer")``; one for all sources, or one for each. A column stands for its number in a row, or for
        the length of its list or text, where a null counts as 0. The weight of a source is divided by the mean cost
        of its samples, see :attr:`mean_costs`. The columns are read once before the first epoch. Sources of windows
        or of :class:`Sample`, and sources with ``follow=``, are refused. Default: weights count samples.
    random_shares : int, optional
        Seed with which the source of each row is drawn at random, with the weights as probabilities. A step then has
        the share of a source only on average, and every block of 32 steps has it exactly. Default: each step has the
        exact share of each source.
    stop : {"first", "last"}, default "first"
        ``"first"`` ends an epoch when any source has delivered all of its rows, ``"last"`` when all have.
    repeat : bool, default True
        With ``stop="last"``, whether a source starts over if it ends before the epoch does. If not, the other
        sources share the steps from then on, and an epoch delivers each row of each source once.
    max_passes : int or iterable of (int or None), optional
        With ``stop="last"``, the largest number of passes over each source in an epoch: one number for all sources, or
        one for each, such as ``[None, 4]``, where None is no limit. After its last pass a source is left out, and the
        others share the steps. Default: no limit.
    source : bool, default False
        Add a column ``source`` of int64 with the number of each row's source, from 0.
    batch_size, global_batch_size, drop_last, skip_steps, epochs, shard, threads, trace
        The options of :class:`Loader`, for all sources together. A step with the last rows of a source is shorter;
        ``drop_last`` leaves it out. If sources have ``samples=``, batches and weights count windows, packs or buckets;
        a mix of buckets alone has one bucket for each rank in a step by default.
    memory : int or str, optional
        Budget in bytes for all sources together. Each source gets the memory that its window needs, and its share of
        the rest. Default: as for :class:`Loader`.
    transform, transform_rows, collate, transform_workers
        The options of :class:`Loader`, for the batches of the mix. The loaders of the sources cannot have them.

    Notes
    -----
    The default windows of all sources hold 1 GiB of rows together. A mix pickles like a loader. The mix does not use
    the loaders that it was made from: close them, or do not keep them.

    Raises
    ------
    InvalidError
        An argument is invalid; a source has an option that belongs to the mix, or a function; columns of
        one name have several types; an epoch would have no step or no end.
    TooLargeError
        The windows and batches of all sources do not fit ``memory`` together.

    Examples
    --------
    >>> import forebay as fb
    >>> photos = fb.Loader("data/train/", columns=["label", "id"], shuffle=fb.Shuffle(seed=17))
    >>> others = fb.Loader("data/val/", columns=["label", "id"], shuffle=fb.Shuffle(seed=17))
    >>> mix = fb.Mix([(photos, 0.75), (others, 0.25)], batch_size=32, source=True)
    >>> batch = next(iter(mix))
    >>> batch["source"].tolist().count(1), len(batch["label"])
    (8, 32)
    """

    _is_mix = True
    _plan = MixPlan

    @functools.partial(explained, of_sources=frozenset(inspect.signature(Loader).parameters))
    def __init__(
        self,
        sources: Iterable[tuple[Loader | Dataset | Location | Iterable[Location], float]],
        *,
        schedule: Mapping[int, Iterable[float]] | None = None,
        by: Cost | Iterable[Cost] | None = None,
        random_shares: int | None = None,
        stop: Literal["first", "last"] = "first",
        repeat: bool = True,
        max_passes: int | Iterable[int | None] | None = None,
        source: bool = False,
        shard: Shard | None = None,
        threads: int | None = None,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        epochs: int | None = None,
        drop_last: bool = False,
        skip_steps: Iterable[tuple[int, int]] | None = None,
        memory: str | int | None = None,
        transform: Transform | None = None,
        transform_rows: RowTransform | None = None,
        collate: Collate | None = None,
        transform_workers: int | Workers = 0,
        trace: str | os.PathLike[str] | None = None,
    ) -> None:
        found = _sources(sources)
        self._arguments: dict[str, Any] = {
            "sources": [(arguments, weight) for arguments, _, weight in found],
            "schedule": _schedule(schedule),
            "by": costs_of(by, "by"),
            "random_shares": None if random_shares is None else whole(random_shares, "random_shares", 0),
            "stop": stop,
            "repeat": repeat,
            "max_passes": _max_passes(max_passes, len(found)),
            "source": source,
            "shard": shard,
            "threads": threads,
            "batch_size": batch_size,
            "global_batch_size": global_batch_size,
            "epochs": epochs,
            "drop_last": drop_last,
            "skip_steps": None if skip_steps is None else steps(skip_steps),
            "memory": memory,
            "transform": transform,
            "transform_rows": transform_rows,
            "collate": collate,
            "transform_workers": transform_workers,
            "trace": None if trace is None else local(trace, "trace"),
            # The `decode` options of all sources in one dict, for code that asks how a column is delivered.
            # If several sources decode the same column, the first one counts.
            "decode": {
                name: value
                for arguments, _, _ in reversed(found)
                for name, value in (arguments["decode"] or {}).items()
            },
        }
        self._build_of([dataset for _, dataset, _ in found])

    def _build_of(self, datasets: list[Dataset]) -> None:
        """Checks the arguments, and starts the mix over open data sets, one for each source."""
        self._options()
        self._settle()
        self._start(datasets)

    def _options(self) -> dict[str, Any]:
        """Checks the options of the mix itself, and returns them in the form that the compiled loader
        reads."""
        own = self._arguments
        named(own["stop"], "stop", ("first", "last"))
        for name in ("repeat", "source"):
            if not isinstance(own[name], bool):
                raise InvalidError(f"{name} must be True or False, got {own[name]!r}")
        # Options that a loader has too are checked by the loader's function.
        common = {name: own[name] for name in _OF_THE_MIX}
        # A bucket (rows of similar length) is a whole batch. If all sources deliver buckets, a rank gets one
        # in each step by default, as from a loader.
        samples = [of_source["samples"] for of_source, _ in own["sources"]]
        buckets = samples[0] if samples and all(isinstance(kind, Bucket) for kind in samples) else None
        options, _ = checked({**_DEFAULTS, **common, "samples": buckets})
        options = {name: options[name] for name in _OF_THE_MIX if name in options}
        options["schedule"] = [(step, weights) for step, weights in own["schedule"].items()]
        options["by"] = [spec_of(cost) for cost in own["by"] or []]
        if own["by"] and any(of_source["follow"] is not False for of_source, _ in own["sources"]):
            raise InvalidError(
                "by and a source with follow were given, and weights by a cost would change with the versions (leave "
                "one of them out)"
            )
        return options | {name: own[name] for name in ("stop", "repeat", "max_passes", "source", "random_shares")}

    def _checked(self, datasets: list[Dataset]) -> tuple[list[_Source], dict[str, Any] | None]:
        sources = [
            (dataset._native, *_checked_source(delivered(of_source, dataset)), weight)
            for dataset, (of_source, weight) in zip(datasets, self._arguments["sources"], strict=True)
        ]
        return sources, self._options()

    def _of_sources(self) -> list[dict[str, Any]]:
        return [of_source for of_source, _ in self._arguments["sources"]]

    def _place(self, source: int, row: tuple[str, int, int, int]) -> Any:
        return SourcePlace._of_source(source, row)

    if TYPE_CHECKING:
        # These methods have other result types in a mix, because their results name the sources.
        def which(  # type: ignore[override]
            self, step: int | None = None, *, epoch: int | None = None, rank: int | None = None
        ) -> list[SourcePlace]: ...
        def plan(self, epoch: int = 0) -> MixPlan: ...
        def state_dict(self) -> MixStateDict: ...  # type: ignore[override]

    @property
    def weights(self) -> list[float]:
        """The weights that hold for the next step, one for each source; their sum is 1. They count samples, or the
        cost ``by``."""
        state = self.state_dict()
        parts: list[int] = [parts for step, parts in state["schedule"] if step <= state["step"]][-1]
        costs = self.mean_costs or [1.0] * len(parts)
        weights = [part * cost for part, cost in zip(parts, costs, strict=True)]
        return [weight / sum(weights) for weight in weights]

    @property
    def mean_costs(self) -> list[float] | None:
        """For each source, the cost ``by`` of all its selected rows divided by the number of its samples; None
        without ``by``. A state contains the weights of samples that follow from these means."""
        found: list[float] | None = self._native.mean_costs()
        return found

    def set_weights(self, weights: Iterable[float], *, step: int | None = None) -> None:
        """Sets the weights during the run; they hold until they are set again, in place of those of ``schedule``.

        The epoch under way continues with the new weights, which may change its number of steps. A state contains the
        weights, so a mix that is made with the same arguments continues with them. Every rank must set the same weights
        at the same step. Batches that the mix has prepared ahead are made again from other
        rows. ``memory`` was divided among the sources by the weights that the mix was made with: a source
        whose share is now larger takes more for its batches.

        Parameters
        ----------
        weights : iterable of float
            One weight for each source.
        step : int, optional
            The first step that has these weights, counted through all epochs. With a transform, or in a
            framework's loader, batches are made ahead: give a step after these. Default: the next step.

        Raises
        ------
        InvalidError
            A weight is invalid, the step has passed, its batch was made already, or the epoch would have no
            end.

        Examples
        --------
        >>> import forebay as fb
        >>> mix = fb.Mix([("data/train/", 0.9), ("data/val/", 0.1)], batch_size=10, source=True)
        >>> batches = iter(mix)
        >>> next(batches)["source"].tolist().count(1)
        1
        >>> mix.set_weights([0.5, 0.5])
        >>> next(batches)["source"].tolist().count(1)
        5
        """
        given = None if step is None else whole(step, "step", 0)
        self._native.set_weights(_weights(weights, "weights"), given)

    @property
    def spec(self) -> dict[str, Any]:  # type: ignore[override]  # a mix has other options
        """The options that the mix was built with, in JSON types only, with the defaults filled in.

        ``sources`` has the options of each source, in the form of :attr:`Loader.spec`. Locations and storage
        options are left out.
        """
        spec, sources = self._native.spec()
        given = json.loads(spec)
        result = {name: given.get(name, value) for name, value in _MIXING.items()}
        result |= {name: given[name] for name in ("random_shares", *_OF_THE_MIX) if name in given}
        return {**result, "sources": [json.loads(source) for source in sources]}

    def __reduce__(self) -> tuple[Any, ...]:
        carried = [
            ({**of_source, "urls": place["urls"]}, fingerprint, weight, place.get("versions"))
            for (place, fingerprint), (of_source, weight) in zip(self._carried, self._arguments["sources"], strict=True)
        ]
        return _rebuild, ({**self._arguments, "sources": None}, carried)

    def __repr__(self) -> str:
        own = dict(self._arguments)
        del own["decode"]
        weighted = zip(self._datasets, own.pop("sources"), strict=True)
        sources = [f"({dataset!r}, {weight!r})" for dataset, (_, weight) in weighted]
        schedule = own.pop("schedule")
        text = [f"[{', '.join(sources)}]", *([f"schedule={schedule!r}"] if schedule else [])]
        text += [f"{name}={value!r}" for name, value in own.items() if value != _MIX_DEFAULTS[name]]
        return f"forebay.Mix({', '.join(text)})"


_MIX_DEFAULTS: dict[str, Any] = {**(Mix.__init__.__kwdefaults__ or {}), "max_passes": []}


def _rebuild(arguments: dict[str, Any], carried: list[tuple[dict[str, Any], str | None, float, Any]]) -> Mix:
    mix = Mix.__new__(Mix)
    mix._arguments = {**arguments, "sources": [(of_source, weight) for of_source, _, weight, _ in carried]}
    mix._build_of(
        [
            opened_for(of_source, checked(of_source)[1], fingerprint, versions)
            for of_source, fingerprint, _, versions in carried
        ]
    )
    return mix


def _sources(sources: Any) -> list[tuple[dict[str, Any], Dataset, float]]:
    """Checks ``sources=``, and returns for each source its loader's arguments, its data set and its
    weight."""
    if isinstance(sources, (str, bytes, Mapping, Set, Loader, Dataset)) or not isinstance(sources, Iterable):
        raise InvalidError(
            f"sources must be a list of (source, weight), got {type(sources).__qualname__} (pass [(a, 0.7), (b, 0.3)])"
        )
    return [_source(number, one) for number, one in enumerate(sources)]


def _source(number: int, one: Any) -> tuple[dict[str, Any], Dataset, float]:
    if not isinstance(one, (tuple, list)) or len(one) != 2:
        raise InvalidError(f"source {number} must be a pair of a source and its weight (pass (loader, 0.7))")
    source, weight = one
    if isinstance(source, Mix):
        raise InvalidError(f"source {number} is itself a mix (pass its sources, and multiply their weights)")
    if isinstance(source, Loader):
        for name in _OF_THE_MIX:
            if source._arguments.get(name, _DEFAULTS[name]) != _DEFAULTS[name]:
                raise InvalidError(
                    f"source {number} has {name}, which belongs to the mix (pass {name}= to forebay.Mix, and leave it "
                    "out of the loader)"
                )
        return source._arguments, source._datasets[0], _weight(weight, f"the weight of source {number}")
    urls = source if isinstance(source, (str, os.PathLike, Dataset)) else locations(source)
    arguments = {**_DEFAULTS, "urls": urls}
    return arguments, opened_for(arguments, None), _weight(weight, f"the weight of source {number}")


def _checked_source(arguments: dict[str, Any]) -> tuple[dict[str, Any], str | None]:
    """Checks the arguments of a source, and returns its filter and its other options. The batch size is left
    out, because it belongs to the mix."""
    spec, filter = checked(arguments)
    return {name: value for name, value in spec.items() if name != "batch_size"}, filter


def _weight(weight: Any, name: str) -> float:
    if isinstance(weight, bool) or not isinstance(weight, (Real, Decimal)):
        raise InvalidError(f"{name} must be a number, got {weight!r}")
    try:
        return float(weight)
    except (OverflowError, ValueError):  # a large int or fraction, a signalling NaN
        raise InvalidError(f"{name} must be a number that a float holds, got {given(weight)}") from None


def _schedule(schedule: Any) -> dict[int, list[float]]:
    """Checks ``schedule=``, and returns a dict from each step at which weights change to its new weights."""
    if schedule is None:
        return {}
    if not isinstance(schedule, Mapping):
        raise InvalidError(
            f"schedule must be a dict of weights by step, got {schedule!r} (pass {{10_000: [0.5, 0.5]}})"
        )
    found = {}
    for step, weights in schedule.items():
        number = whole(step, "a step of schedule", 1)
        found[number] = _weights(weights, f"schedule[{number}]")
    return dict(sorted(found.items()))


def _refuse_set(values: Any, name: str) -> None:
    """Refuses a set, because it has no order that would assign its values to the sources."""
    if isinstance(values, Set):
        raise InvalidError(
            f"{name} must be a list, got {given(values)}, which has no order (pass a list, one for each source)"
        )


def _weights(weights: Any, name: str) -> list[float]:
    _refuse_set(weights, name)
    if isinstance(weights, (str, bytes, Mapping)) or not isinstance(weights, Iterable):
        raise InvalidError(f"{name} must be a list of weights, got {weights!r}")
    return [_weight(weight, f"a weight of {name}") for weight in weights]


def _max_passes(passes: Any, sources: int) -> list[int | None]:
    """The largest number of passes over each source; empty if no source has a limit."""
    if passes is None:
        return []
    _refuse_set(passes, "max_passes")
    if isinstance(passes, (str, bytes, Mapping)) or not isinstance(passes, Iterable):
        return [whole(passes, "max_passes", 1)] * sources
    return [None if one is None else whole(one, "a number of max_passes", 1) for one in passes]
