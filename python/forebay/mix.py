"""Several loaders as one: their rows in each batch by weight."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, cast

from . import _forebay
from .at_exit import close_at_exit
from .dataset import Dataset, opened
from .epoch import SkippedRow
from .errors import InvalidError, StateMismatchError
from .loader import _DEFAULTS, Loader
from .options.checks import given, named, whole
from .options.locations import local, locations
from .options.other_loaders import explained
from .options.workers import Workers
from .reports.reports import MixPlan, numbers
from .rows.row_id import RowId
from .sharding.shard import Shard
from .spec import checked

if TYPE_CHECKING:
    from .types import Collate, Location, MixStateDict, RowTransform, Transform

__all__ = ["Mix", "SourcePlace"]

# Options of a loader that belong to all sources together.
_OF_THE_MIX = (
    "batch_size",
    "global_batch_size",
    "drop_last",
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


class SourcePlace(NamedTuple):
    """Where a row of a mix is stored.

    Attributes
    ----------
    source : int
        Which source, from 0.
    file : str
        Path or URL of the file.
    row_group : int
        Ordinal of the row group in the file, from 0.
    row : int
        Ordinal of the row in its row group, from 0.
    row_id : RowId
        Its number in the data set of the source.
    """

    source: int
    file: str
    row_group: int
    row: int
    row_id: RowId


class Mix(Loader):
    """Several sources as one loader: each batch has rows of all of them, by weight.

    It takes the place of a :class:`Loader` everywhere: it is iterated once for each epoch, has a length and a state,
    and goes to ``forebay.torch.batches`` and the other frameworks.

    Each step has its share of every source, rounded to whole rows of each lane, so that no sum over steps is off by a
    row of each lane. There are as many lanes as ranks unless a source has ``lanes=``; with more, such as 64 lanes and
    batches of 64, a batch can be of one source alone. A pass over a source has each of its rows once, in the order that
    its own loader has in that epoch. Every epoch begins a new pass over every source.

    Parameters
    ----------
    sources : iterable of (source, float)
        Sources and their weights, of which only the ratio matters. A source is a :class:`Loader` for its data set,
        columns and rows, decoding, order and cache; or a :class:`Dataset`, path or URL, which is read as it is
        stored. What belongs to all of them, from ``batch_size`` to ``transform``, is given here. Columns are those of
        all sources: a column that a source does not have is null in its rows, and those of one name have one type.
        Numbers, images and other columns that are one array cannot be null there: leave such a column out with
        ``columns=`` of the loaders that have it, or read the batch through Arrow.
    schedule : mapping from int to iterable of float, optional
        Other weights from a step on, counted through all epochs: ``{10_000: [0.5, 0.5]}``. Default: the weights do not
        change.
    random_shares : int, optional
        Draw the source of each row by chance, from this seed: with a probability that is its weight, so that a step has
        the share of a source on average, and each 32 steps have it exactly. All epochs draw the same sources, in units
        of one row of each lane. Default: each step has the exact share of each source.
    stop : {"first", "last"}, default "first"
        Whether an epoch ends with the first source that ends, or when each has given all of its rows.
    repeat : bool, default True
        With ``stop="last"``, whether a source that ends before the epoch begins again. Otherwise the others share the
        steps from then on, and an epoch delivers each row of each source once.
    source : bool, default False
        Deliver a column ``source`` of int64: the number of each row's source, from 0.
    batch_size, global_batch_size, drop_last, epochs, shard, threads, trace
        As of :class:`Loader`, for all sources together. A step that has the last rows of a source is shorter, and
        ``drop_last`` leaves it out.
    memory : int or str, optional
        Budget in bytes for all sources together. Each gets what its window needs, and its share of the rest. Default:
        as of :class:`Loader`.
    transform, transform_rows, collate, transform_workers
        As of :class:`Loader`, for the batches of the mix.

    Notes
    -----
    A window that is not given is for 1 GiB of rows over all sources. A mix pickles as a loader does. The loaders that
    it was made of are not used: close them, or do not keep them.

    Raises
    ------
    InvalidError
        An argument can never work; a source has an option that belongs to the mix, or a function; columns of one name
        have several types; an epoch has no step or no end.
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

    @explained
    def __init__(
        self,
        sources: Iterable[tuple[Loader | Dataset | Location | Iterable[Location], float]],
        *,
        schedule: Mapping[int, Iterable[float]] | None = None,
        random_shares: int | None = None,
        stop: Literal["first", "last"] = "first",
        repeat: bool = True,
        source: bool = False,
        batch_size: int | None = None,
        global_batch_size: int | None = None,
        drop_last: bool = False,
        epochs: int | None = None,
        shard: Shard | None = None,
        memory: str | int | None = None,
        transform: Transform | None = None,
        transform_rows: RowTransform | None = None,
        collate: Collate | None = None,
        transform_workers: int | Workers = 0,
        threads: int | None = None,
        trace: str | os.PathLike[str] | None = None,
    ) -> None:
        found = _sources(sources)
        self._arguments: dict[str, Any] = {
            "sources": [(arguments, weight) for arguments, _, weight in found],
            "schedule": _schedule(schedule),
            "random_shares": None if random_shares is None else whole(random_shares, "random_shares", 0),
            "stop": stop,
            "repeat": repeat,
            "source": source,
            "batch_size": batch_size,
            "global_batch_size": global_batch_size,
            "drop_last": drop_last,
            "epochs": epochs,
            "shard": shard,
            "memory": memory,
            "transform": transform,
            "transform_rows": transform_rows,
            "collate": collate,
            "transform_workers": transform_workers,
            "threads": threads,
            "trace": None if trace is None else local(trace, "trace"),
            # Of each decoded column the first source's value, for those who ask how it is delivered.
            "decode": {
                name: value
                for arguments, _, _ in reversed(found)
                for name, value in (arguments["decode"] or {}).items()
            },
        }
        self._build_of([dataset for _, dataset, _ in found])

    def _build_of(self, datasets: list[Dataset]) -> None:
        """Builds what the arguments say, over data sets that are open."""
        own = self._arguments
        named(own["stop"], "stop", ("first", "last"))
        for name in ("repeat", "source"):
            if not isinstance(own[name], bool):
                raise InvalidError(f"{name} must be True or False, got {own[name]!r}")
        # What the two have in common is checked as a loader's.
        common = {name: own[name] for name in _OF_THE_MIX if name in _DEFAULTS}
        options, _ = checked({**_DEFAULTS, **common})
        of_mix = ("batch_size", "global_batch_size", "drop_last", "epochs", "shard", "memory", "threads", "trace")
        options = {name: options[name] for name in of_mix if name in options}
        options["schedule"] = [(step, weights) for step, weights in own["schedule"].items()]
        options |= {name: own[name] for name in ("stop", "repeat", "source", "random_shares")}
        self._settle()
        self._datasets = datasets
        sources = [
            (dataset._native, *checked(arguments), weight)
            for dataset, (arguments, weight) in zip(datasets, own["sources"], strict=True)
        ]
        self._mix = _forebay.Mix(sources, options, numbered=self._numbered)
        # What an epoch and a loader ask of it, a mix answers as well.
        self._native = cast(_forebay.Loader, self._mix)
        close_at_exit(self)

    def which(  # type: ignore[override]  # the places say of which source
        self, step: int | None = None, *, epoch: int | None = None, rank: int | None = None
    ) -> list[SourcePlace]:
        """Where the rows of a step are stored, in the order of delivery: of any step, past or to come. Nothing is read.

        Parameters
        ----------
        step : int, optional
            Which step, counted from the first one of epoch 0, or of ``epoch``, with the batches of this mix. Default:
            the one that the training loop gets next; its list is empty where the epoch is over.
        epoch : int, optional
            The epoch in which ``step`` is counted.
        rank : int, optional
            Whose rows. Default: this process's.

        Returns
        -------
        list of SourcePlace
            Source, file, row group and row of each.

        Raises
        ------
        InvalidError
            There is no such step or rank; or the epoch is under way and began with other batches, so that its steps
            cannot be counted.

        Examples
        --------
        >>> import forebay as fb
        >>> mix = fb.Mix([("data/train/", 3), ("data/val/", 1)], batch_size=8)
        >>> [place.source for place in mix.which(0)]
        [0, 0, 0, 0, 0, 0, 1, 1]
        """
        if epoch is not None and step is None:
            raise InvalidError(f"epoch={epoch!r}, but no step of it was given (pass which(0, epoch={epoch!r}))")
        bits = {"step": (step, 64), "epoch": (epoch, 64), "rank": (rank, 32)}
        asked = [None if value is None else whole(value, name, 0, size) for name, (value, size) in bits.items()]
        return [
            SourcePlace(source, file, row_group, row, RowId(row_id))
            for source, (file, row_group, row, row_id) in self._mix.which(*asked)
        ]

    @property
    def weights(self) -> list[float]:
        """The weights that hold for the next step, one for each source; their sum is 1."""
        state = self.state_dict()
        parts: list[int] = [weights for step, weights in state["schedule"] if step <= state["step"]][-1]
        return [part / sum(parts) for part in parts]

    @property
    def spec(self) -> dict[str, Any]:  # type: ignore[override]  # a mix has other options
        """The options that the mix was built with, in JSON types only, with the defaults filled in.

        ``sources`` has those of each source, as :attr:`Loader.spec`. Without locations and storage options.
        """
        spec, sources = self._mix.spec()
        result: dict[str, Any] = json.loads(spec)
        result["sources"] = [json.loads(source) for source in sources]
        return result

    @property
    def batch_size(self) -> int:
        """Rows in a batch of this process, of all sources together; a step that ends a source has fewer."""
        size: int = self.spec["batch_size"]
        return size

    @property
    def num_rows(self) -> int:
        """Rows that the filters of the sources select, over all ranks and sources."""
        return sum(source["order"]["rows"] for source in self.state_dict()["sources"])

    def plan(self, epoch: int = 0) -> MixPlan:  # type: ignore[override]  # it is a plan of several sources
        """What comes of each source in an epoch, from the footers alone.

        Parameters
        ----------
        epoch : int, default 0
            Which epoch, from 0.

        Returns
        -------
        MixPlan
            Steps, rows, and for each source its rows, passes, and rows that are not read.

        Raises
        ------
        InvalidError
            ``epoch`` is not an int of at least 0.

        Examples
        --------
        >>> import forebay as fb
        >>> plan = fb.Mix([("data/train/", 3), ("data/val/", 1)], batch_size=8).plan()
        >>> plan.to_dict()["sources"][0]["passes"]
        1
        """
        return MixPlan(*self._native.plan(whole(epoch, "epoch", 0)))

    def metrics(self, prefix: str = "forebay/") -> dict[str, float]:
        """Position and statistics as flat numbers, as :meth:`Loader.metrics`.

        Parameters
        ----------
        prefix : str, default "forebay/"
            What each name begins with.

        Returns
        -------
        dict
            As of a loader, and ``forebay/sources/0/rows``: the rows of source 0 in the batches of this rank.
        """
        metrics = super().metrics(prefix)
        for number, source in enumerate(self.stats().to_dict().get("sources", [])):
            metrics |= dict(numbers(source, f"{prefix}sources/{number}/"))
        return metrics

    def skipped(self, save: str | os.PathLike[str] | None = None) -> list[SkippedRow]:
        """Rows that were left out of the epoch that was begun last, as :meth:`Loader.skipped`.

        Parameters
        ----------
        save : str or os.PathLike, optional
            Refused: a row id belongs to the data set of one source, and a list of them would deny rows of another.

        Returns
        -------
        list of SkippedRow
            The place of each row, and why it was left out.

        Raises
        ------
        InvalidError
            ``save`` is given.
        """
        if save is not None:
            raise InvalidError(
                "save= is not for a mix: a row id belongs to one of its sources (take file, row group and row of each "
                "from mix.skipped(), and save them with a loader of that source)"
            )
        return super().skipped()

    def warm(self, *, share: bool = False, report: Callable[[int, int], object] | None = None) -> dict[str, Any]:
        """Refused: the caches belong to the sources, whose loaders fill them before they are mixed.

        Parameters
        ----------
        share : bool, default False
            As of :meth:`Loader.warm`.
        report : callable, optional
            As of :meth:`Loader.warm`.

        Returns
        -------
        dict
            Nothing is returned.

        Raises
        ------
        InvalidError
            Always.
        """
        raise InvalidError("a mix has the caches of its sources (call warm() of their loaders, before they are mixed)")

    def state_dict(self) -> MixStateDict:  # type: ignore[override]  # it has a place in each source
        """How far the training loop got, in all sources.

        It counts the batches that were handed over, not those that were prepared ahead. The weights are part of it: a
        mix that resumes it has the same ones up to its step, and may have others from there on.

        Returns
        -------
        dict
            A few JSON values, the same on every rank.

        Examples
        --------
        >>> import forebay as fb
        >>> mix = fb.Mix([("data/train/", 3), ("data/val/", 1)], batch_size=8)
        >>> batch = next(iter(mix))
        >>> [source["rows"] for source in mix.state_dict()["sources"]]
        [6, 2]
        """
        state: MixStateDict = json.loads(self._native.position())
        return state

    def _release(self) -> None:
        for dataset, (arguments, _) in zip(self._datasets, self._arguments["sources"], strict=True):
            if not isinstance(arguments["urls"], Dataset):
                dataset._native.release()

    def _check_kind(self, state: Mapping[str, Any]) -> None:
        if "mix" not in state and "version" in state:
            raise StateMismatchError(
                "this is a state of a loader, and not a state of a mix (pass it to a forebay.Loader of its data set)"
            )

    def __reduce__(self) -> tuple[Any, ...]:
        carried = []
        for dataset, (arguments, weight) in zip(self._datasets, self._arguments["sources"], strict=True):
            urls = arguments["urls"]
            # Opened anew where it is unpickled, from anywhere.
            found = (urls, None) if isinstance(urls, Dataset) else (dataset._absolute(), dataset.fingerprint)
            carried.append(({**arguments, "urls": found[0]}, found[1], weight))
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


_MIX_DEFAULTS: dict[str, Any] = dict(Mix.__init__.__kwdefaults__ or {})


def _rebuild(arguments: dict[str, Any], carried: list[tuple[dict[str, Any], str | None, float]]) -> Mix:
    mix = Mix.__new__(Mix)
    mix._arguments = {**arguments, "sources": [(of_source, weight) for of_source, _, weight in carried]}
    mix._build_of([_opened(of_source, fingerprint) for of_source, fingerprint, _ in carried])
    return mix


def _opened(arguments: dict[str, Any], fingerprint: str | None) -> Dataset:
    """The data set of a source."""
    urls = arguments["urls"]
    if isinstance(urls, Dataset):
        return urls
    options, merge, types = (arguments[name] for name in ("storage_options", "merge_schema", "partition_types"))
    return opened(urls, options, fingerprint, merge, types, checked(arguments)[1])


def _sources(sources: Any) -> list[tuple[dict[str, Any], Dataset, float]]:
    """Of each source the arguments of its loader, its data set, and its weight."""
    if isinstance(sources, (str, bytes, Mapping, Loader, Dataset)) or not isinstance(sources, Iterable):
        raise InvalidError(
            f"sources must be a list of (source, weight), got {type(sources).__qualname__} (pass [(a, 0.7), (b, 0.3)])"
        )
    return [_source(number, one) for number, one in enumerate(sources)]


def _source(number: int, one: Any) -> tuple[dict[str, Any], Dataset, float]:
    if not isinstance(one, (tuple, list)) or len(one) != 2:
        raise InvalidError(f"source {number} must be a pair of a source and its weight (pass (loader, 0.7))")
    source, weight = one
    if isinstance(source, Mix):
        raise InvalidError(f"source {number} is a mix itself (pass its sources, with weights that are multiplied)")
    if isinstance(source, Loader):
        for name in _OF_THE_MIX:
            if source._arguments.get(name, _DEFAULTS[name]) != _DEFAULTS[name]:
                raise InvalidError(
                    f"source {number} has {name}, which belongs to the mix (pass {name}= to forebay.Mix, and leave it "
                    "out of the loader)"
                )
        return source._arguments, source._dataset, _weight(weight, f"the weight of source {number}")
    urls = source if isinstance(source, (str, os.PathLike, Dataset)) else locations(source)
    arguments = {**_DEFAULTS, "urls": urls}
    return arguments, _opened(arguments, None), _weight(weight, f"the weight of source {number}")


def _weight(weight: Any, name: str) -> float:
    if isinstance(weight, bool) or not isinstance(weight, (Real, Decimal)):
        raise InvalidError(f"{name} must be a number, got {weight!r}")
    try:
        return float(weight)
    except (OverflowError, ValueError):  # a large int or fraction, a signalling NaN
        raise InvalidError(f"{name} must be a number that a float holds, got {given(weight)}") from None


def _schedule(schedule: Any) -> dict[int, list[float]]:
    """The steps at which weights change, and the weights from there on."""
    if schedule is None:
        return {}
    if not isinstance(schedule, Mapping):
        raise InvalidError(
            f"schedule must be a dict of weights by step, got {schedule!r} (pass {{10_000: [0.5, 0.5]}})"
        )
    found = {}
    for step, weights in schedule.items():
        number = whole(step, "a step of schedule", 1)
        if isinstance(weights, (str, bytes, Mapping)) or not isinstance(weights, Iterable):
            raise InvalidError(f"schedule[{number}] must be a list of weights, got {weights!r}")
        found[number] = [_weight(weight, f"a weight of schedule[{number}]") for weight in weights]
    return dict(sorted(found.items()))
