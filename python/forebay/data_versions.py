"""Finds the versions of Delta and Iceberg tables, and the files of folders that grow, that a loader reads: those in a
saved state, or the newest ones at the beginning of each epoch."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .errors import CorruptError, DatasetChangedError, InvalidError, IoError, StateMismatchError
from .launcher_store import Awaited, got, key_of, put, said, where

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


class Follow:
    """Finds the newest versions of tables, or the files of a folder, when an epoch begins; all ranks of a run get the
    same."""

    def __init__(self, follow: Any, urls: Any, shard: Shard | None, told: dict[str, list[str]], source: int) -> None:
        self._store = None if follow is True else follow
        self._urls = urls
        self._shard = shard
        self._source = source
        # The versions that this rank has put into the store, by key. They are used again if an epoch is begun
        # again, and for another source of the mix with the same locations.
        self._told = told

    @classmethod
    def of_sources(
        cls, sources: list[dict[str, Any]], datasets: list[Dataset], whole: Mapping[str, Any]
    ) -> list[Follow | None]:
        """Makes a ``Follow`` for each source of a loader; ``None`` for a source that does not follow its
        table. ``whole`` has the arguments that the loader has for all sources."""
        told: dict[str, list[str]] = {}
        common = {name: whole[name] for name in ("shard", "skip_steps")}
        return [
            cls._of({**source, **common}, dataset, told, number)
            for number, (source, dataset) in enumerate(zip(sources, datasets, strict=True))
        ]

    @classmethod
    def _of(
        cls, arguments: Mapping[str, Any], dataset: Dataset, told: dict[str, list[str]], source: int
    ) -> Follow | None:
        """Checks the argument ``follow`` of the source with this number, and returns its ``Follow``; ``None`` if the
        source does not follow its data."""
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
        return cls(follow, arguments["urls"], shard, told, source)

    def newest(
        self, dataset: Dataset, epoch: int, reopen: Callable[[list[str] | None], Dataset]
    ) -> dict[str, str] | Dataset | None:
        """Returns the newest versions for an epoch, by the locations of the tables, or the data set of the files that a
        folder has now; ``None`` if they are those of the open data set. ``reopen`` opens a folder as it is now, or
        with only the files at these paths."""
        if not dataset._native.tables():
            return self._newest_files(dataset, epoch, reopen)
        here = _versions(dataset)
        versions = self._looked_up(epoch, "versions", lambda: self._found(dataset))
        if len(versions) != len(here):
            raise StateMismatchError(
                f"rank {_LOOKING} follows {len(versions)} tables, and this rank {len(here)} "
                "(give all ranks the same locations)"
            )
        wanted = dict(zip(here, versions, strict=True))
        return None if wanted == here else wanted

    def _newest_files(
        self, dataset: Dataset, epoch: int, reopen: Callable[[list[str] | None], Dataset]
    ) -> Dataset | None:
        listed: list[Dataset] = []

        def look() -> list[str]:
            listed.append(reopen(None))
            return [listed[0].fingerprint, *listed[0]._native.paths()]

        fingerprint, *paths = self._looked_up(epoch, f"files/{self._source}", look)
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

    def _looked_up(self, epoch: int, what: str, find: Callable[[], list[str]]) -> list[str]:
        """Returns the result of ``find``: found on this rank, or taken from the store into which rank 0 puts it under
        a key with ``what``."""
        if self._store is None:
            return find()
        key = f"{key_of(self._urls, what)}/{epoch}"
        rank = 0 if self._shard is None else self._shard.rank
        if rank != _LOOKING:
            awaited = Awaited(
                what="versions",
                rank=_LOOKING,
                where=where(self._urls),
                seconds=_TIMEOUT_SECONDS,
                if_failed=f"check that rank {_LOOKING} runs, and that the store's server does",
                if_late=f"check that rank {_LOOKING} begins epoch {epoch} of the same locations",
            )
            return _read(got(self._store, key, awaited, time.monotonic() + _TIMEOUT_SECONDS), awaited.where)
        if key not in self._told:
            try:
                found = find()
            except BaseException as error:
                # The other ranks wait for a value of this key, so they get the error as that value.
                put(self._store, key, json.dumps({"error": said(error)}).encode())
                raise
            put(self._store, key, json.dumps({"versions": found}).encode())
            self._told[key] = found
        return self._told[key]

    @staticmethod
    def _found(dataset: Dataset) -> list[str]:
        newest = dataset._native.newest_versions() or {}
        return [str(newest.get(location, version)) for location, version in _versions(dataset).items()]


def _read(value: bytes, place: str) -> list[str]:
    try:
        told = json.loads(value)
        if "error" in told:
            raise IoError(
                f"{place}: rank {_LOOKING} could not look for the newest version: {told['error']} "
                f"(see the error of rank {_LOOKING})"
            )
        return [str(version) for version in told["versions"]]
    except (ValueError, TypeError, KeyError):
        raise CorruptError(
            f"{place}: the store holds something other than versions (use a store that only this run uses)"
        ) from None
