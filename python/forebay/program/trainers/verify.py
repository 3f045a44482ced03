"""The Python part of ``forebay verify --trainer``: it trains inside a framework with forebay and with the
framework's own loader, and counts the rows that each delivered.

The compiled program passes the options as JSON on standard input, and reads the counts as JSON from standard
output.
"""

from __future__ import annotations

import json
import sys
import tempfile
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from ...dataset import Dataset
from ...errors import ForebayError, InvalidError, UnsupportedError
from ...loader import Loader
from .cases import RunError, case
from .job import ROWS, Job
from .registry import TRAINERS

__all__: list[str] = []

#: The smallest number of steps in an epoch, so that a run can be killed between two checkpoints.
MIN_STEPS = 8

#: The share of an epoch, from 0 to 1, between two checkpoints.
CHECKPOINT_SHARE = 0.4

#: The number of steps after the first checkpoint at which a run is killed.
KILLED_AFTER_STEPS = 2

#: Rows in a batch while the row ids are read.
ROWS_AT_ONCE = 65_536


def main() -> int:
    """Reads the options from standard input, and prints the counts of the rows as JSON."""
    try:
        said = verify(json.load(sys.stdin))
    except ForebayError as error:
        said = {"refused": str(error)}
    print(json.dumps(said))
    return 0


def verify(told: dict[str, Any]) -> dict[str, Any]:
    """Runs the test training with both loaders of a trainer, and returns the counts of the rows."""
    trainer = TRAINERS[told["trainer"]]
    missing = trainer.missing()
    if missing is not None:
        raise UnsupportedError(missing)
    world, batch_size, epochs = told["world"], told["batch_size"], told["epochs"]
    if world > 1 and not trainer.is_distributed:
        raise InvalidError(f"{trainer.title} trains in one process here, got --world {world} (leave it out)")
    loader = {key: told[key] for key in ("storage_options", "split", "config", "columns", "memory")}
    ids = row_ids(told["urls"], loader)
    global_batch = world * batch_size
    steps = len(ids) // global_batch
    if steps < MIN_STEPS:
        fits = len(ids) // (MIN_STEPS * world)
        move = f"--batch-size {fits} fits" if fits else "use more rows, or fewer ranks"
        raise InvalidError(
            f"{_counted(len(ids), 'row')} in steps of {global_batch} make {_counted(steps, 'step')}; a run that is "
            f"killed needs {MIN_STEPS} ({move})"
        )
    every = max(round(steps * CHECKPOINT_SHARE), KILLED_AFTER_STEPS + 1)
    counts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory(prefix="forebay-verify-") as folder:
        rows = ids[: steps * global_batch]
        np.save(Path(folder, ROWS), rows)
        for source, with_what in (("forebay", "forebay"), ("own", trainer.own)):
            # Progress is printed, because Ray and Spark may take minutes to start and end.
            print(f"{trainer.title} with {with_what}: run, killed and resumed", file=sys.stderr, flush=True)
            job = Job(
                trainer=told["trainer"],
                source=source,
                folder=folder,
                loader={**loader, "urls": told["urls"]},
                seed=told["seed"],
                window_rows=told["window_rows"],
                global_batch=global_batch,
                steps=steps,
                epochs=epochs,
                every=every,
                kill=every + KILLED_AFTER_STEPS,
                is_border=False,
                world=world,
                resumes=False,
            )
            # In each epoch, forebay leaves out the rows that do not fill a step. Those rows differ from epoch
            # to epoch, so forebay may deliver any row. The framework's own loader gets only rows that fill
            # steps.
            expected = ids if source == "forebay" and trainer.is_direct else rows
            planned = {"planned_never": (len(expected) - len(rows)) * epochs}
            try:
                counts[source] = {**asdict(case(job, expected.tolist())), **planned}
            except RunError as error:
                counts[source] = {"failed": str(error)}
    return {
        "trainer": told["trainer"],
        "title": trainer.title,
        "version": trainer.version(),
        "own_loader": trainer.own,
        "rows": len(ids),
        "left_out": len(ids) - len(rows),
        "steps": steps,
        "step_rows": global_batch,
        "epochs": epochs,
        "world": world,
        "checkpoint": every,
        "killed": every + KILLED_AFTER_STEPS,
        **counts,
    }


def row_ids(urls: list[str], options: dict[str, Any]) -> Any:
    """The row ids of all rows, in the order in which they are stored."""
    where = {key: options[key] for key in ("storage_options", "split", "config")}
    dataset = Dataset(urls, **where)
    with Loader(
        dataset,
        columns=options["columns"],
        memory=options["memory"],
        row_id=True,
        batch_size=min(ROWS_AT_ONCE, max(dataset.num_rows, 1)),
        epochs=1,
    ) as loader:
        return np.concatenate([batch["row_id"].copy() for batch in loader])


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


if __name__ == "__main__":
    sys.exit(main())
