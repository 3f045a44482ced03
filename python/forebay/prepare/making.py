"""Runs the function over all rows of a data set that are not prepared yet."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from typing import Any

import numpy as np

from .. import _forebay
from ..dataset import Dataset
from ..epoch import Epoch
from ..errors import InvalidError
from ..options.prepare import Prepare
from ..options.workers import Workers
from ..transforms.functions import Functions
from ..transforms.libraries import Watch
from ..transforms.processes import processes
from .folder import Folder
from .function import MADE, Made, Preparing
from .parts import Parts

__all__: list[str] = []

#: The number of rows that a worker gets at once: enough that sending them costs little.
BATCH_ROWS = 256


class Pass:
    """One pass over the source in its stored order. ``Epoch`` uses it in place of a loader."""

    def __init__(self, source: Dataset, options: dict[str, Any], prepare: Prepare) -> None:
        spec = {**options, "batch_size": BATCH_ROWS, "epochs": 1}
        workers = prepare.workers
        assert isinstance(workers, Workers)
        self._arguments: dict[str, Any] = {"epochs": 1}
        functions = Preparing(rows=prepare.function)
        self._functions: Functions | None = functions
        self._workers = workers
        self._processes = processes(functions, workers)
        self._watch = Watch(functions.names, functions.option)
        self._generation = 0
        self._process = os.getpid()
        self._native = _forebay.Loader([(source._native, spec, None, 1.0)], numbered=True)

    def rows(self, start: int) -> Iterator[tuple[Made, str]]:
        """Yields the prepared rows from the row ``start`` on, in batches with the place of the first row."""
        state = json.loads(self._native.position())
        self._native.restore(json.dumps({**state, "row": start}))
        epoch = Epoch(self, self._native.epoch(None, True))
        try:
            while (pulled := epoch.pull()) is not None:
                epoch.hand_over(pulled)
                numbers = np.frombuffer(self._native.row_keys(pulled.step.step)[0], np.uint64)
                place = self._native.row_place(int(numbers[0]))
                yield pulled.batch[MADE], "" if place is None else "{}, row group {}, row {}".format(*place)
        finally:
            epoch.close()

    def close(self) -> None:
        """Ends the threads and the processes."""
        if self._processes is not None:
            self._processes.shut()
        self._native.close()

    def _check_process(self) -> None:
        self._native.check_process()


def make(folder: Folder, wanted: dict[str, Any], source: Dataset, options: dict[str, Any], prepare: Prepare) -> None:
    """Prepares all rows that are not in the folder yet. The folder must be locked."""
    layout = source._native.layout()
    with folder.errors():
        parts = Parts(folder, folder.begin(wanted), layout)
        parts.resume()
    count = sum(sum(groups) for _, groups in layout)
    if count == 0:
        raise InvalidError(f"{source!r} has no rows to prepare (check its locations)")
    if parts.rows < count:
        run = Pass(source, options, prepare)
        try:
            for made, place in run.rows(parts.rows):
                _add(folder, parts, made, place)
                if prepare.report is not None:
                    prepare.report(parts.rows, count)
        finally:
            run.close()
    if parts.rows != count:
        raise InvalidError(
            f"{source!r} has {count:,} rows, of which {parts.rows:,} could be prepared (open it again: its files may "
            "have changed)"
        )
    with folder.errors():
        parts.finish()


def _add(folder: Folder, parts: Parts, made: Made, place: str) -> None:
    try:
        with folder.errors():
            parts.add(made)
    except InvalidError as error:
        # Workers do not know the types of other batches, so an error about them gets its place only here.
        raise InvalidError(f"{place}: {error}" if place else str(error), column=error.column) from None
