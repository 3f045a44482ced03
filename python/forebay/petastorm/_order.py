"""Translates Petastorm's arguments for the choice and order of rows into those of the loader."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from ..options.shuffle import Shuffle
from ..sharding.shard import Shard
from ._groups import as_stored

__all__: list[str] = []

Shards = Literal["rows", "equal", "row_groups"]

SHARDS = ("rows", "equal", "row_groups")

_SEEDS = 1 << 64


@dataclass(frozen=True)
class Order:
    """Petastorm's arguments for the order of rows and for the share of this process, after they were
    checked."""

    shuffle_row_groups: bool
    shuffle_rows: bool
    drop_partitions: int
    seed: int
    shard: Shard | None
    shards: Shards
    """The way in which shards divide the data: by rows, by equal numbers of rows, or by whole row groups."""

    @classmethod
    def of(
        cls,
        *,
        shuffle_row_groups: Any,
        shuffle_rows: Any,
        drop_partitions: Any,
        seed: Any,
        cur_shard: Any,
        shard_count: Any,
        shards: Any,
    ) -> Order:
        """Checks the arguments that a user passed, and makes the order from them."""
        if shards not in SHARDS:
            raise ValueError(f"shards must be one of {', '.join(map(repr, SHARDS))}, got {shards!r}")
        shard = None
        if cur_shard is not None or shard_count is not None:
            if not _is_int(cur_shard) or not _is_int(shard_count) or not shard_count:
                raise ValueError(f"cur_shard and shard_count must both be ints, got {cur_shard!r} and {shard_count!r}")
            shard = Shard(rank=int(cur_shard), world=int(shard_count))
        if not _is_int(drop_partitions) or drop_partitions < 1:
            raise ValueError(f"shuffle_row_drop_partitions must be an int of at least 1, got {drop_partitions!r}")
        return cls(
            bool(shuffle_row_groups),
            bool(shuffle_rows),
            int(drop_partitions),
            _seed(seed, shared=shard is not None and shards != "row_groups"),
            shard,
            shards,
        )

    @property
    def by_row_groups(self) -> bool:
        """Whether shards consist of whole row groups."""
        return self.shard is not None and self.shards == "row_groups"

    @property
    def by_rows(self) -> bool:
        """Whether shards divide the data by rows, so that each row is in one shard."""
        return self.shard is not None and self.shards != "row_groups"

    def least(self, rows: int) -> int:
        """Returns how many of ``rows`` each process has to deliver if all need equal numbers, otherwise 0."""
        return -(-rows // self.shard.world) if self.shard is not None and self.shards == "equal" else 0

    def options(self, row_group_rows: int) -> dict[str, Any]:
        """Returns the arguments of a loader that reads in this order; row groups have about
        ``row_group_rows`` rows."""
        shuffle = None
        if self.shuffle_row_groups:
            piece = _piece(row_group_rows, self.drop_partitions) if self.drop_partitions > 1 else None
            # `window_rows=1` makes the shuffle buffer hold one row group, so rows of two groups never mix.
            shuffle = Shuffle(seed=self.seed, window_rows=1, piece_rows=piece)
        return {
            "shuffle": shuffle,
            "shard": None if self.by_row_groups else self.shard,
            "row_mask": self.by_rows,
            "row_id": True,
        }

    def within(self, epoch: int) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]] | None:
        """Returns a function from the row ids of a row group to the order of its rows in this epoch; None if
        the rows stay in the order in which the loader delivers them."""
        if self.shuffle_row_groups:
            return None if self.shuffle_rows else as_stored
        return self._permuted(epoch) if self.shuffle_rows else None

    def _permuted(self, epoch: int) -> Callable[[np.ndarray[Any, Any]], np.ndarray[Any, Any]]:
        def order(ids: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
            key = [self.seed, epoch, int(ids[0]) % _SEEDS]
            return np.random.default_rng(key).permutation(len(ids))

        return order


def _piece(rows: int, pieces: int) -> int:
    """Returns the size of the pieces into which ``rows`` rows are cut, so that their number is as close as
    possible to ``pieces``."""
    sizes = (-(-rows // pieces), max(1, rows // pieces))
    return min(sizes, key=lambda size: abs(-(-rows // size) - pieces))


def _is_int(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _seed(seed: Any, shared: bool) -> int:
    """Returns the seed of the order. If the user gives none, it is random, or 0 if several processes share
    the rows and need the same seed."""
    if seed is not None:
        if not _is_int(seed) or seed < 0:
            raise ValueError(f"seed must be an int of at least 0, got {seed!r}")
        return int(seed) % _SEEDS
    return 0 if shared else random.SystemRandom().getrandbits(64)
