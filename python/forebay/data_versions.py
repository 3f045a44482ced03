"""Finds the versions of Delta and Iceberg tables, and the files of folders that grow, that a loader reads: those in a
saved state, or the newest ones at the beginning of each epoch."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from . import errors
from .errors import CorruptError, DatasetChangedError, ForebayError, InvalidError, IoError, StateMismatchError
from .launcher_store import Awaited, got, is_taken, key_of, next_number, put, said, where

if TYPE_CHECKING:
    from .dataset import Dataset
    from .sharding.shard import Shard

__all__: list[str] = []

#: The seconds that the other ranks wait for the rank that looks up the newest version.
_TIMEOUT_SECONDS = 600.0

#: The rank that looks up the newest version for all ranks.
_LOOKING = 0


def of_state(dataset: Dataset, state: Mapping[str, Any]) -> dict[str, str] | None:
    """Returns the table versions in a saved state, by the locations of the tables, if they differ from those
    of the open data set.

    It returns ``None`` if the versions are the same, or if the state belongs to other tables. In the latter
    case loading the state fails afterwards.
    """
    table, several = state.get("table"), state.get("tables")
    saved = several if isinstance(several, list) else [table] if isinstance(table, Mapping) else []
    here = dataset._native.tables()
    if not saved or len(saved) != len(here) or not all(isinstance(one, Mapping) for one in saved):
        return None
    wanted: dict[str, str] = {}
    for one, (location, identity, _) in zip(saved, here, strict=True):
        version = one.get("version")
        if one.get("id") != identity or not isinstance(version, int):
            return None
        wanted[location] = str(one.get("opened_as") or version)
    return None if wanted == _versions(dataset) else wanted


def data_of_state(
    dataset: Dataset, state: Mapping[str, Any], reopen: Callable[[list[str] | None], Dataset], is_between: bool
) -> Dataset | None:
    """Opens the files with which a state was saved, if files were only added to the folder since. ``reopen`` opens the
    folder with these files only, or as it is now.

    It returns ``None`` if the data set has these files already. If they are not found, it returns the folder as it is
    now for a state between two epochs (``is_between``), which needs none of them; otherwise ``None``, and loading the
    state fails afterwards.
    """
    fingerprint, files = state.get("fingerprint"), state.get("files")
    if fingerprint == dataset.fingerprint or not isinstance(files, Mapping):
        return None
    now = reopen(None)
    paths = now._native.earlier_files(json.dumps(files))
    if now.fingerprint == fingerprint:
        return now
    if paths is not None:
        found = reopen(paths)
        if found.fingerprint == fingerprint:
            now._native.release()
            return found
        found._native.release()
    if is_between:
        return now
    now._native.release()
    return None


def refuse_given(wanted: Mapping[str, str], dataset: Dataset, version: Any, timestamp: Any) -> None:
    """Raises an error if a state has another version than the ``version`` or ``timestamp`` that the user
    passed.

    If ``version`` is the name of a branch or tag, it may stand for a later version than in the state; the
    state is then resumed at its own version. If ``version`` is a number, only the number in the state is
    compared with it, and not the text after ``@``.
    """
    if timestamp is None and (version is None or (isinstance(version, str) and not version.isdigit())):
        return
    location, saved = next(item for item in wanted.items() if item[1] != _versions(dataset).get(item[0]))
    if timestamp is None and str(version) == saved.partition("@")[0]:
        return
    asked = f"version={version!r}" if timestamp is None else f"timestamp={timestamp!r}"
    of_time = "" if timestamp is None else f", which is version {_versions(dataset)[location]},"
    raise StateMismatchError(
        f"the state was saved with version {saved} of the table, and {asked}{of_time} was given "
        f"(leave it out, or pass version={saved if saved.isdigit() else repr(saved)})"
    )


def _versions(dataset: Dataset) -> dict[str, str]:
    return {location: version for location, _, version in dataset._native.tables()}


class Answers:
    """The answers of rank 0 to the ranks of one loader: the data that each epoch reads, by keys of the store."""

    def __init__(self) -> None:
        #: The answers that rank 0 has found. They are used again if an epoch is begun again, and for another source
        #: of the mix with the same locations.
        self.found: dict[str, list[str]] = {}
        #: The keys that rank 0 uses, and those of them with an answer in the store.
        self.own: set[str] = set()
        self.told: set[str] = set()
        #: The failed attempts to begin each epoch. Each attempt has its own answer.
        self.failed: Counter[str] = Counter()


@contextmanager
def agreed(follows: Sequence[Follow | None], epoch: str) -> Iterator[None]:
    """Opens the data of an epoch in its block. On rank 0 the other ranks then get the answers that the block has found;
    if it fails, they get its error. ``epoch`` names the epoch in the keys of the store."""
    leading = [one for one in follows if one is not None and one.leads]
    for one in leading:
        one.claim(epoch)
    try:
        yield
    except BaseException as error:
        failed = [one.tell_error(epoch, error) for one in leading]
        if any(failed):
            leading[0].answers.failed[epoch] += 1
        raise
    for one in leading:
        one.tell(epoch)


class Follow:
    """Finds the newest versions of tables, or the files of a folder, when an epoch begins; all ranks of a run get the
    same."""

    def __init__(
        self, follow: Any, urls: Any, shard: Shard | None, answers: Answers, kind: str, numbers: dict[str, int]
    ) -> None:
        self._rank, self._world = (0, 1) if shard is None else (shard.rank, shard.world)
        # A rank alone needs no agreement.
        self._store = None if follow is True or self._world == 1 else follow
        self._urls = urls
        self.answers = answers
        self._kind = kind
        self._numbers = numbers

    @classmethod
    def of_sources(
        cls, sources: list[dict[str, Any]], datasets: list[Dataset], whole: Mapping[str, Any]
    ) -> list[Follow | None]:
        """Makes a ``Follow`` for each source of a loader; ``None`` for a source that does not follow its
        table. ``whole`` has the arguments that the loader has for all sources."""
        answers, numbers = Answers(), dict[str, int]()
        common = {name: whole[name] for name in ("shard", "skip_steps")}
        return [
            cls._of({**source, **common}, answers, "versions" if dataset._native.tables() else f"files/{at}", numbers)
            for at, (source, dataset) in enumerate(zip(sources, datasets, strict=True))
        ]

    @classmethod
    def _of(cls, arguments: Mapping[str, Any], answers: Answers, kind: str, numbers: dict[str, int]) -> Follow | None:
        """Checks the argument ``follow`` of a source, and returns its ``Follow``; ``None`` if the source does not
        follow its data."""
        follow, shard = arguments["follow"], arguments["shard"]
        if follow is False:
            return None
        if follow is not True and not all(callable(getattr(follow, name, None)) for name in ("set", "get")):
            raise InvalidError(
                f"follow must be True, False or the store of a launcher, got {follow!r} "
                "(pass a torch.distributed.TCPStore, or another object with set(key, value) and get(key))"
            )
        for name in ("version", "timestamp", "skip_steps"):
            if arguments[name] is not None:
                why = "steps of other epochs are not known" if name == "skip_steps" else "which is one version"
                raise InvalidError(f"follow and {name} were given, {why} (leave one of them out)")
        if follow is True and shard is not None and shard.world > 1:
            raise InvalidError(
                f"follow=True with {shard.world} ranks, which may find different versions (pass the store of the "
                "launcher, such as a torch.distributed.TCPStore, as follow: rank 0 looks, and all take what it found)"
            )
        return cls(follow, arguments["urls"], shard, answers, kind, numbers)

    @property
    def leads(self) -> bool:
        """Whether this is the rank whose answers the others take."""
        return self._store is not None and self._rank == _LOOKING

    def number(self) -> None:
        """Numbers the loader among those of this process with the same store object and locations. All sources of a
        mix with the same locations get the same number."""
        name = self._name()
        if self._store is not None and name not in self._numbers:
            self._numbers[name] = next_number(self._store, name)

    def _name(self) -> str:
        return f"{key_of(self._urls, self._kind)}/{self._rank}/{self._world}"

    def _key(self, epoch: str) -> str:
        """The key of the answer for the present attempt to begin an epoch. Another loader has other keys."""
        attempt = self.answers.failed[epoch]
        return f"{key_of(self._urls, self._kind)}/{self._world}/{self._numbers[self._name()]}/{epoch}/{attempt}"

    def claim(self, epoch: str) -> None:
        """Refuses a store in which an answer for this epoch was found that this loader has not given."""
        key = self._key(epoch)
        if key in self.answers.own:
            return
        if is_taken(self._store, key):
            taken = InvalidError(
                f"{where(self._urls)}: the store already has an answer for {_shown(epoch)}, of an earlier run or of a "
                "loader with another store object (use a new store or prefix for each run, and pass the same store "
                "object to all of its loaders)"
            )
            put(self._store, key, _of_error(taken))
            raise taken
        self.answers.own.add(key)

    def tell(self, epoch: str) -> None:
        """Puts the answer for this epoch into the store."""
        key = self._key(epoch)
        if key not in self.answers.told:
            put(self._store, key, json.dumps({"found": self.answers.found[key]}).encode())
            self.answers.told.add(key)

    def tell_error(self, epoch: str, error: BaseException) -> bool:
        """Puts an error into the store in place of the answer for this epoch, unless the other ranks have the answer
        already. Returns whether it did so."""
        key = self._key(epoch)
        if key in self.answers.told:
            return False
        put(self._store, key, _of_error(error))
        return True

    def newest(
        self, dataset: Dataset, epoch: str, reopen: Callable[[list[str] | None], Dataset]
    ) -> dict[str, str] | Dataset | None:
        """Returns the newest versions for an epoch, by the locations of the tables, or the data set of the files that a
        folder has now; ``None`` if they are those of the open data set. ``reopen`` opens a folder as it is now, or
        with only the files at these paths."""
        if not dataset._native.tables():
            return self._newest_files(dataset, epoch, reopen)
        here = _versions(dataset)
        versions = self._looked_up(epoch, lambda: self._found(dataset))
        if len(versions) != len(here):
            raise StateMismatchError(
                f"rank {_LOOKING} follows {len(versions)} tables, and this rank {len(here)} "
                "(give all ranks the same locations)"
            )
        wanted = dict(zip(here, versions, strict=True))
        return None if wanted == here else wanted

    def _newest_files(
        self, dataset: Dataset, epoch: str, reopen: Callable[[list[str] | None], Dataset]
    ) -> Dataset | None:
        listed: list[Dataset] = []

        def look() -> list[str]:
            listed.append(reopen(None))
            return [listed[0].fingerprint, *listed[0]._native.paths()]

        fingerprint, *paths = self._looked_up(epoch, look)
        if fingerprint == dataset.fingerprint:
            for one in listed:
                one._native.release()
            return None
        newest = listed[0] if listed else reopen(paths)
        if newest.fingerprint == fingerprint:
            return newest
        newest._native.release()
        raise DatasetChangedError(
            f"{where(self._urls)}: rank {_LOOKING} found other content of the same files (files of a folder that is "
            "followed are added, and stay as they are)"
        )

    def _looked_up(self, epoch: str, find: Callable[[], list[str]]) -> list[str]:
        """Returns the result of ``find``: found on this rank, or the answer of rank 0 in the store."""
        if self._store is None:
            return find()
        key = self._key(epoch)
        if self._rank == _LOOKING:
            if key not in self.answers.found:
                self.answers.found[key] = find()
            return self.answers.found[key]
        awaited = Awaited(
            what=self._kind.partition("/")[0],
            rank=_LOOKING,
            where=where(self._urls),
            seconds=_TIMEOUT_SECONDS,
            if_failed=f"check that rank {_LOOKING} runs, and that the store's server does",
            if_late=f"check that rank {_LOOKING} begins {_shown(epoch)} of the same locations, and that all ranks make "
            "their loaders in the same order",
        )
        answer = _read(got(self._store, key, awaited, time.monotonic() + _TIMEOUT_SECONDS), awaited.where, epoch)
        if isinstance(answer, ForebayError):
            self.answers.failed[epoch] += 1
            raise answer
        return answer

    @staticmethod
    def _found(dataset: Dataset) -> list[str]:
        newest = dataset._native.newest_versions() or {}
        return [str(newest.get(location, version)) for location, version in _versions(dataset).items()]


def _shown(epoch: str) -> str:
    return f"epoch {epoch.partition('/')[0]}"


def _of_error(error: BaseException) -> bytes:
    """The value of the store that passes an error on."""
    kind = type(error).__name__ if isinstance(error, ForebayError) else None
    return json.dumps({"error": said(error), "kind": kind}).encode()


def _read(value: bytes, place: str, epoch: str) -> list[str] | ForebayError:
    """The answer of rank 0, or its error."""
    try:
        told = json.loads(value)
        if "error" not in told:
            return [str(one) for one in told["found"]]
        failed = f"rank {_LOOKING} could not begin {_shown(epoch)}: {told['error']}"
        if told["kind"] in errors.__all__:
            error: ForebayError = getattr(errors, told["kind"])(failed)
            return error
        return IoError(f"{place}: {failed} (see the error of rank {_LOOKING})")
    except (ValueError, TypeError, KeyError):
        raise CorruptError(
            f"{place}: the store holds something other than an answer of rank {_LOOKING} (use a store that only this "
            "run uses)"
        ) from None
