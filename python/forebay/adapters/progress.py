"""The text beside a progress bar: the rate of the epoch, the share of time that the training loop waited, the
stage that it waited for, and the state of the cache.

``forebay.tqdm`` and ``forebay.rich`` show this text.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import Any

from ..errors import InvalidError
from ..loader import Loader
from . import check_loader

__all__: list[str] = []

#: Seconds over which the rate and the waits are measured: long enough not to flicker, short enough to follow
#: a change.
WINDOW_SECONDS = 10.0

#: Seconds between two readings of the loader's statistics.
TICK = 0.5

#: If the loop spends a smaller share of its time waiting, the text does not name the stage that it waits for.
MIN_WAIT_SHARE = 0.005


class Watched:
    """Iterates over the batches of one epoch, and counts them as they are handed over.

    Parameters
    ----------
    batches : iterable
        A loader, or its batches in a framework's type.
    loader : Loader, optional
        The loader behind ``batches``. Default: the attribute ``batches.loader``.
    """

    loader: Loader
    """The loader of these batches."""

    def __init__(self, batches: Any, loader: Loader | None) -> None:
        if loader is None:
            loader = batches if isinstance(batches, Loader) else getattr(batches, "loader", None)
            # If `batches` is a PyTorch DataLoader without worker processes, its data set has the loader.
            if loader is None and getattr(batches, "num_workers", None) == 0:
                loader = getattr(getattr(batches, "dataset", None), "loader", None)
        if loader is None:
            raise InvalidError(
                f"the loader of a {type(batches).__qualname__} is unknown (pass a forebay.Loader, the "
                "batches of an adapter such as forebay.torch.batches, or loader=...)"
            )
        self.loader = check_loader(loader)
        self.total = len(loader)
        self.done = 0
        self._batches = batches
        self._rows = loader.batch_size
        self._cache: tuple[int, int, int] | None = None
        self._row_groups: int | None = None
        self._seen: deque[tuple[float, int, dict[str, float]]] = deque()

    def __iter__(self) -> Iterator[Any]:
        """Yields the batches. :attr:`done` counts them, and also the batches that the same epoch delivered
        before the run was restarted."""
        self._look()
        for batch in self._batches:
            if self.done == 0:
                self.done = self._before()
            self.done += 1
            yield batch

    def _before(self) -> int:
        """Number of steps of the epoch before the first batch that this object delivered."""
        state, spec = self.loader.state_dict(), self.loader.spec
        of_step = spec.get("global_batch_size") or spec["batch_size"] * spec["shard"]["world"]
        return max(0, -(-state["row"] // of_step) - 1)

    def text(self) -> str:
        """The text to write beside the bar."""
        seen = self._look()
        cache = self._filling(seen[-1][2])
        if self.done == 0 or len(seen) < 2:
            return cache or "first batch"
        (since, before, waits), (now, done, latest) = seen[0], seen[-1]
        parts = [f"{(done - before) * self._rows / max(now - since, 1e-9):,.0f} rows/s", _waited(waits, latest)]
        return ", ".join([*parts, cache] if cache else parts)

    def _look(self) -> deque[tuple[float, int, dict[str, float]]]:
        """Reads the loader's statistics, and returns the readings of the last ``WINDOW_SECONDS`` seconds."""
        stats = self.loader._totals()
        counts = {**stats["waits"], "consumer": stats["consumer"]}
        cache = stats["cache"]
        if cache is not None:
            looked_up, kept = cache["hits"] + cache["misses"], cache["hits"] + cache["written"]
            self._cache = self._cache or (looked_up, kept, cache["misses"])
            counts |= {"/looked up": looked_up, "/kept": kept, "/misses": cache["misses"]}
        now = time.monotonic()
        self._seen.append((now, self.done, counts))
        while len(self._seen) > 2 and self._seen[1][0] < now - WINDOW_SECONDS:
            self._seen.popleft()
        return self._seen

    def _filling(self, counts: dict[str, float]) -> str:
        """The text on how far the epoch has filled the cache. It is empty if there is no cache, or if all row
        groups so far were in it."""
        if self._cache is None:
            return ""
        _, kept, misses = self._cache
        if counts["/misses"] == misses:
            return ""
        if self._row_groups is None:
            plan = self.loader.plan(self.loader.state_dict()["epoch"])
            self._row_groups = plan.to_dict()["row_groups"]
        # The count is limited to `all_of_them`, because `counts["/kept"]` may include row groups of the next
        # epoch, which are looked up before this epoch ends.
        all_of_them = self._row_groups
        here = min(int(counts["/kept"]) - kept, all_of_them)
        return f"cache {here:,} of {all_of_them:,} row groups"


def _waited(before: dict[str, float], now: dict[str, float]) -> str:
    """The share of time that the training loop waited, and the stage that it waited for longest."""
    spent = {name: now[name] - before[name] for name in now if not name.startswith("/")}
    loop = spent.pop("consumer")
    waited = sum(spent.values())
    share = waited / max(waited + loop, 1e-9)
    if share < MIN_WAIT_SHARE:
        return "waited 0 %"
    stage = max(spent, key=lambda name: spent[name])
    return f"waited {share:.0%} for {stage}".replace("%", " %")
