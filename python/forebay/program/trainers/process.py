"""The program that each process of a test training runs: ``python -m forebay.program.trainers.process``, with
the job on its standard input."""

from __future__ import annotations

import importlib
import sys

from .job import Job, Training
from .registry import TRAINERS

__all__: list[str] = []


def main() -> None:
    """Runs the job."""
    job = Job.of(sys.stdin.read())
    module = importlib.import_module(f"{__package__}.{job.trainer}")
    module.train(job if TRAINERS[job.trainer].starts_processes else Training(job))


if __name__ == "__main__":
    main()
