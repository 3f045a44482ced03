"""A case: a run that is killed, a second run that resumes from its last checkpoint, and the count of the rows
that both delivered.

The first run saves checkpoints as its framework does, and is killed by SIGKILL. The second, in one process,
resumes and trains to the end. The count has the steps of the first run up to its last checkpoint, and all
steps of the second.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from .job import Job
from .ledger import Count, count, steps
from .registry import TRAINERS

__all__: list[str] = []

#: Seconds until a run is considered to hang, and the seconds that each of its steps adds.
BASE_SECONDS, STEP_SECONDS = 180, 1


class RunError(Exception):
    """A run did not end as it should."""


def case(job: Job, rows: Sequence[int]) -> Count:
    """Runs a job until it is killed, and then to its end."""
    assert job.kill is not None
    codes, said = run(job)
    if -signal.SIGKILL not in codes:
        raise RunError(f"the first run failed: {said or 'it ended before it could be killed'}")
    resumed = replace(job, kill=None, world=1, resumes=True)
    codes, said = run(resumed)
    if codes != [0]:
        raise RunError(f"the second run failed: {said}")
    kept = job.kill // job.every * job.every
    return count(steps(job)[:kept] + steps(resumed), rows, job.epochs, job.steps)


def run(job: Job) -> tuple[list[int], str]:
    """Runs a job. Returns the exit statuses of its processes, and the last line of output of a process that
    failed."""
    world = 1 if TRAINERS[job.trainer].starts_processes else job.world
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    together = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = []
    said = ""
    try:
        for rank in range(world):
            of_rank = {**together, "RANK": str(rank), "LOCAL_RANK": str(rank)} if world > 1 else {}
            environ = {
                **os.environ,
                "KERAS_BACKEND": "torch",
                "CUDA_VISIBLE_DEVICES": "",
                "OMP_NUM_THREADS": "1",
                **of_rank,
            }
            errors = Path(job.folder, f"errors-{rank}.txt")
            with errors.open("w") as stderr:
                process = subprocess.Popen(
                    [sys.executable, "-m", f"{__package__}.process"],
                    env=environ,
                    cwd=job.folder,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                )
            processes.append((process, errors))
            assert process.stdin is not None
            # The job is not an argument, because locations may contain secrets.
            process.stdin.write(job.text().encode())
            process.stdin.close()
        patience = BASE_SECONDS + STEP_SECONDS * job.steps * job.epochs
        for process, errors in processes:
            process.wait(timeout=patience)
            lines = [line for line in errors.read_text(errors="replace").strip().splitlines() if not _is_frame(line)]
            said = said or (lines[-1] if lines and process.returncode else "")
    except subprocess.TimeoutExpired:
        said = f"no end after {patience} s"
    finally:
        for process, _ in processes:
            process.kill()
            process.wait()
    return [process.returncode for process, _ in processes], said


def _is_frame(line: str) -> bool:
    """Whether a line belongs to a Java stack trace, which is printed after the error."""
    return line.startswith(("\tat ", "\t... ")) or not line.strip()
