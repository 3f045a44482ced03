"""Reads the rank and the world size that launchers set in the environment of a process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

from ..errors import InvalidError

__all__: list[str] = []

#: The advice in errors if the environment variables do not give the rank.
NEXT = "pass forebay.Shard(rank=..., world=...)"


class Said(NamedTuple):
    """The rank and the world size that a launcher set for this process. They are not checked yet."""

    launcher: str
    #: The environment variables that the launcher set, with their values.
    variables: Mapping[str, Any]
    rank: Any
    world: Any

    def __str__(self) -> str:
        return " ".join(f"{name}={value}" for name, value in self.variables.items())


def found(environ: Mapping[str, str]) -> list[Said]:
    """The ranks from all launchers whose variables are set, the innermost launcher first.

    Raises
    ------
    InvalidError
        A variable has an invalid value, or this process does not train.
    """
    said: list[Said] = []
    for read in _LAUNCHERS:
        try:
            one = read(environ)
        except InvalidError:
            # If a launcher further inside gave the rank, this launcher's variables do not matter.
            if not said:
                raise
        else:
            said += [] if one is None else [one]
    _check_pmix(environ, said)
    return said


def nothing(environ: Mapping[str, str]) -> InvalidError:
    """The error for an environment whose variables do not give the rank."""
    if _is_batch_script(environ) and "SLURM_NTASKS" in environ:
        return InvalidError(
            f"SLURM_NTASKS={environ['SLURM_NTASKS']}, but this process is the job's script, not one of its "
            "tasks "
            f"(start the program with srun, or {NEXT})"
        )
    if "PMIX_RANK" in environ:
        return InvalidError(
            f"PMIX_RANK={environ['PMIX_RANK']}, but no variable says how many processes there are (start "
            "with mpirun "
            f"or srun, or {NEXT})"
        )
    pairs = [read for read in (*_LAUNCHERS, _SLURM) if isinstance(read, _Pair)]
    lone = [name for pair in pairs for name in (pair.rank, pair.world) if name in environ]
    but = f": only {', '.join(lone)} is set" if lone else ""
    return InvalidError(
        f"no launcher set the rank of this process{but} (start with torchrun, horovodrun, mpirun or srun, or {NEXT})"
    )


#: A function that reads the rank from the variables of one launcher, and returns ``None`` if they are not
#: set.
_Reader: TypeAlias = Callable[[Mapping[str, str]], "Said | None"]


class _Pair(NamedTuple):
    """A launcher that sets one variable for the rank and one for the world size."""

    launcher: str
    rank: str
    world: str

    def __call__(self, environ: Mapping[str, str]) -> Said | None:
        rank, world = environ.get(self.rank), environ.get(self.world)
        if rank is None or world is None:
            return None
        return Said(self.launcher, {self.rank: rank, self.world: world}, rank, world)


#: The kinds of processes ("jobs") of a TensorFlow cluster that train, in the order of their ranks. "master"
#: is an older name of "chief".
_TRAINERS = ("chief", "master", "worker")


def _tensorflow(environ: Mapping[str, str]) -> Said | None:
    """Reads ``TF_CONFIG``, which lists the processes of a TensorFlow cluster by job, and names the job and
    the number of this process."""
    text = environ.get("TF_CONFIG")
    if not text:
        return None
    try:
        config = json.loads(text)
        jobs = config.get("cluster") or {}
        counts = {job: len(jobs.get(job) or ()) for job in (*_TRAINERS, "ps")}
        task = config.get("task") or {}
        job, index = task.get("type"), task.get("index")
    except (TypeError, ValueError, AttributeError) as error:
        raise InvalidError(
            'TF_CONFIG must be a text such as {"cluster": {"worker": ["host:port", ...]}, "task": {"type": "worker", '
            f'"index": 0}}}}: {error} (correct it, unset it, or {NEXT})'
        ) from None
    if not jobs:
        # Without a cluster, this process trains alone.
        return None
    if job == "evaluator":
        raise InvalidError(
            "TF_CONFIG says that this process is the evaluator, which is beside the cluster and reads all rows "
            "(pass forebay.Shard(rank=0, world=1))"
        )
    if job == "ps" or counts["ps"]:
        raise InvalidError(
            f"TF_CONFIG has parameter servers, and this process is its {job}: there, the program of one process says "
            "what the workers do, and none of them has a share of its own (use MultiWorkerMirroredStrategy, "
            f"or {NEXT})"
        )
    number = int(index) if isinstance(index, (int, str)) and str(index).isdecimal() else None
    if job not in _TRAINERS or number is None or number >= counts[job]:
        there = ", ".join(f"{count} of {name}" for name, count in counts.items() if count) or "no workers"
        raise InvalidError(
            f"TF_CONFIG says that this process is task {index!r} of {job!r}, but its cluster has {there} "
            "(correct it, "
            f"or {NEXT})"
        )
    before = sum(counts[name] for name in _TRAINERS[: _TRAINERS.index(job)])
    world = sum(counts[name] for name in _TRAINERS)
    variables = {"TF_CONFIG": f"{job}:{index} of {world}"}
    return Said("TensorFlow", variables, before + number, world)


def _tpu(environ: Mapping[str, str]) -> Said | None:
    """Reads the rank of a TPU host. If there are several slices of TPUs, the hosts are counted through all
    slices, as JAX counts them."""
    hosts = next((name for name in ("TPU_PROCESS_ADDRESSES", "TPU_WORKER_HOSTNAMES") if name in environ), None)
    if hosts is None or "TPU_WORKER_ID" not in environ:
        return None
    names = ["TPU_WORKER_ID", hosts, "MEGASCALE_SLICE_ID", "MEGASCALE_NUM_SLICES"]
    variables = {name: environ[name] for name in names if environ.get(name)}
    in_slice = len(environ[hosts].split(","))
    try:
        host = int(environ["TPU_WORKER_ID"])
        part = int(environ.get("MEGASCALE_SLICE_ID") or 0)
        slices = int(environ.get("MEGASCALE_NUM_SLICES") or 1)
    except (TypeError, ValueError):
        return Said("TPU", variables, environ["TPU_WORKER_ID"], in_slice)
    if not 0 <= host < in_slice:
        raise InvalidError(f"TPU_WORKER_ID={host}, but {hosts} has {in_slice} hosts (correct them, or {NEXT})")
    return Said("TPU", variables, host + part * in_slice, slices * in_slice)


def _slurm(environ: Mapping[str, str]) -> Said | None:
    if _is_batch_script(environ) and environ.get("SLURM_NTASKS") != "1":
        return None
    # This is the number of tasks in this step of the SLURM job; the whole job may have more.
    tasks = "SLURM_STEP_NUM_TASKS" if "SLURM_STEP_NUM_TASKS" in environ else _SLURM.world
    return _SLURM._replace(world=tasks)(environ)


def _is_batch_script(environ: Mapping[str, str]) -> bool:
    """Whether this process is the batch script of a SLURM job, and not a task that srun started. The script
    has the environment variables of the first task."""
    return "SLURM_JOB_ID" in environ and "SLURM_STEP_ID" not in environ and "SLURM_STEPID" not in environ


def _check_pmix(environ: Mapping[str, str], said: list[Said]) -> None:
    """Raises an error if the rank of PMIx differs from the rank of the launcher that uses PMIx. PMIx itself
    does not set the number of processes."""
    rank = environ.get("PMIX_RANK")
    served = [one for one in said if one.launcher in _SERVED_BY_PMIX]
    if rank is None or not served or any(str(one.rank) == str(rank) for one in served):
        return
    one = served[0]
    raise InvalidError(
        f"{one.launcher} says {one}, but PMIx says PMIX_RANK={rank} (unset the one that is wrong, or {NEXT})"
    )


_SLURM = _Pair("SLURM", "SLURM_PROCID", "SLURM_NTASKS")

_SERVED_BY_PMIX = ("Open MPI", "PMI", "SLURM")

#: The functions that read each launcher's variables, the innermost launcher first: torchrun is started inside
#: a SLURM or MPI job, never the other way round.
_LAUNCHERS: tuple[_Reader | _Pair, ...] = (
    _Pair("torchrun", "RANK", "WORLD_SIZE"),
    _Pair("Horovod", "HOROVOD_RANK", "HOROVOD_SIZE"),
    _Pair("JAX", "JAX_PROCESS_ID", "JAX_NUM_PROCESSES"),
    _tensorflow,
    _tpu,
    _Pair("Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    _Pair("PMI", "PMI_RANK", "PMI_SIZE"),
    _slurm,
)
