"""Runs a case of ``forebay verify --trainer``: a run that is killed, a second run that resumes from its last
checkpoint, and the count of the rows that both delivered.

The first run saves checkpoints as its framework does, and is killed by SIGKILL. The second run, in one
process, resumes and trains to the end. The count includes the steps of the first run up to its last
checkpoint, and all steps of the second run.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from .job import Job
from .ledger import Count, count, steps
from .registry import TRAINERS

__all__: list[str] = []

#: A run is considered to hang after this number of seconds, plus a number for each of its steps.
BASE_SECONDS, STEP_SECONDS = 180, 1

#: Seconds between two checks whether the processes of a run have ended.
PAUSE_SECONDS = 0.05


class RunError(Exception):
    """A run did not end as it should."""


def case(job: Job, rows: Sequence[int]) -> Count:
    """Runs a job until it is killed, resumes it and runs it to its end, and counts the delivered ``rows``."""
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


def run(job: Job) -> tuple[list[int | None], str]:
    """Runs a job. Returns the exit status of each process, and the last line that a failed process wrote to
    its standard error. The status is None if the process was still running at the deadline, or when another
    process failed."""
    world = 1 if TRAINERS[job.trainer].starts_processes else job.world
    processes = []
    with _rendezvous(world) as together, ExitStack() as ended:
        for rank in range(world):
            of_rank = {**together, "RANK": str(rank), "LOCAL_RANK": str(rank)} if world > 1 else {}
            environ = {
                **os.environ,
                "KERAS_BACKEND": "torch",
                "CUDA_VISIBLE_DEVICES": "",
                "OMP_NUM_THREADS": "1",
                **of_rank,
            }
            with _errors(job, rank).open("w") as stderr:
                process = subprocess.Popen(
                    [sys.executable, "-m", f"{__package__}.process"],
                    env=environ,
                    cwd=job.folder,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.DEVNULL,
                    stderr=stderr,
                )
            ended.callback(_end, process)
            processes.append(process)
            assert process.stdin is not None
            # The job goes to standard input and not into the arguments, because it may contain secrets.
            process.stdin.write(job.text().encode())
            process.stdin.close()
        patience = BASE_SECONDS + STEP_SECONDS * job.steps * job.epochs
        deadline = time.monotonic() + patience
        codes = [process.poll() for process in processes]
        # If a process fails, the others would wait for it, so they are not waited for.
        while None in codes and not _has_failed(codes) and time.monotonic() < deadline:
            time.sleep(PAUSE_SECONDS)
            codes = [process.poll() for process in processes]
    return codes, _said(job, codes) or f"no end after {patience} s"


@contextmanager
def _rendezvous(world: int) -> Iterator[dict[str, str]]:
    """The environment variables by which the processes of a run find each other, at a store in this process.

    The store keeps its port open. If only a free port were chosen here, another program could take it before
    the first process of the run does.
    """
    if world == 1:
        yield {}
        return
    from torch.distributed import TCPStore

    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    yield {
        "WORLD_SIZE": str(world),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(store.port),
        "TORCHELASTIC_USE_AGENT_STORE": "True",
        "TORCHELASTIC_RESTART_COUNT": "0",
    }


def _end(process: subprocess.Popen[bytes]) -> None:
    """Kills a process if it still runs."""
    process.kill()
    process.wait()


def _has_failed(codes: Sequence[int | None]) -> bool:
    """Whether a process failed although none was killed. Failures that follow the planned kill do not
    count."""
    return -signal.SIGKILL not in codes and any(codes)


def _said(job: Job, codes: Sequence[int | None]) -> str:
    """The last line that the first failed process wrote to its standard error."""
    for rank, code in enumerate(codes):
        text = _errors(job, rank).read_text(errors="replace") if code else ""
        if lines := [line for line in text.strip().splitlines() if not _is_frame(line)]:
            return lines[-1]
    return ""


def _errors(job: Job, rank: int) -> Path:
    """The file that a process writes its errors to."""
    return Path(job.folder, f"errors-{rank}.txt")


def _is_frame(line: str) -> bool:
    """Whether a line is empty or belongs to a Java stack trace, which is printed after the error."""
    return line.startswith(("\tat ", "\t... ")) or not line.strip()
