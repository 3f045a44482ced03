"""One pass over an open data set in its stored order, for functions that read rows before there is a
loader."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from . import _forebay
from .at_exit import close_at_exit
from .errors import warn_caller

__all__: list[str] = []


class OnePass(Iterator[_forebay.Batch]):
    """An iterator over the batches of one pass. At its end, a ``with`` statement ends the pass's threads."""

    def __init__(self, dataset: _forebay.Dataset, spec: dict[str, Any], filter: str | None = None) -> None:
        """``spec`` has those fields of the Rust struct ``LoaderSpec`` that differ from their defaults, and
        ``filter`` is an expression as JSON."""
        self._process = os.getpid()
        self._native = _forebay.Loader([(dataset, {**spec, "epochs": 1}, filter, 1.0)])
        close_at_exit(self)
        self._epoch = self._native.epoch()
        warning = self._native.take_warning()
        if warning is not None:
            warn_caller(warning)

    def __next__(self) -> _forebay.Batch:
        step = self._epoch.pull(True)
        if step is None:
            raise StopIteration
        batch: _forebay.Batch = step.batch
        return batch

    def close(self) -> None:
        """Ends the threads that read the batches."""
        if self._process == os.getpid():
            self._native.close()

    def __enter__(self) -> OnePass:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()
