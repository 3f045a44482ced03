"""Connects loaders to Ray Train: gives each worker its shard, saves the loader's position in checkpoints, and
fills caches on all nodes.

A training function that is stopped, fails, or loses its machine begins again from the last checkpoint, on the
number of workers that are left. Its loader resumes at the batch after the last one that was trained before
that checkpoint.

Examples
--------
>>> import ray.train, ray.train.torch, torch
>>> import forebay as fb
>>> def train_function(config):
...     train = fb.Loader(config["data"], columns=["label"], batch_size=64, shard=fb.ray.shard())
...     model = torch.nn.Linear(1, 10)
...     fb.ray.resume(train, lambda folder: model.load_state_dict(torch.load(f"{folder}/model.pt")))
...     while train.state_dict()["epoch"] < 2:
...         for batch in fb.torch.batches(train):
...             ...
...         fb.ray.report({"loss": 0.0}, train, lambda folder: torch.save(model.state_dict(), f"{folder}/model.pt"))
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from .adapters import Batches, check_loader, check_shard
from .adapters.missing import missing
from .errors import InvalidError
from .loader import Loader
from .sharding.shard import Shard

try:
    import ray
    import ray.train
    from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy
except ImportError as error:
    raise missing("ray", "Ray Train", "ray", error) from error

if TYPE_CHECKING:
    from .types import StateDict

__all__ = ["report", "resume", "shard", "warm"]

#: The name of the file in a checkpoint that contains the loader's position.
POSITION = "forebay.json"


def shard() -> Shard:
    """The shard of this worker of Ray Train.

    Returns
    -------
    Shard
        The shard with the worker's rank and the number of workers.

    Raises
    ------
    InvalidError
        This is not a worker of Ray Train.

    Examples
    --------
    >>> import forebay as fb
    >>> def train_function():
    ...     train = fb.Loader("data/train/", batch_size=64, shard=fb.ray.shard())
    """
    context = _context()
    return Shard(rank=context.get_world_rank(), world=context.get_world_size())


def resume(train: Loader | Batches[Any], load: Callable[[str], object] | None = None) -> bool:
    """Resumes from the checkpoint that this worker was given, if there is one.

    Parameters
    ----------
    train : Loader or Batches
        The loader, or its batches. It is set to the position that :func:`report` saved.
    load : callable, optional
        A function that takes the checkpoint's folder, and loads the files that ``save`` of :func:`report`
        wrote there.

    Returns
    -------
    bool
        Whether there is a checkpoint.

    Raises
    ------
    InvalidError
        This is not a worker of Ray Train, ``train`` is not a loader or has no shard, or the checkpoint holds
        no position.
    StateMismatchError
        The position belongs to another data set or order; see :meth:`forebay.Loader.load_state_dict`.

    Examples
    --------
    >>> import forebay as fb
    >>> def train_function():
    ...     train = fb.Loader("data/train/", batch_size=64, shard=fb.ray.shard())
    ...     if fb.ray.resume(train):
    ...         print("goes on at", train.state_dict())
    """
    loader = _of_this_worker(train)
    checkpoint = ray.train.get_checkpoint()
    if checkpoint is None:
        return False
    with checkpoint.as_directory() as folder:
        try:
            with open(os.path.join(folder, POSITION), encoding="utf-8") as file:
                state: StateDict = json.load(file)
        except FileNotFoundError:
            raise InvalidError(
                f"the checkpoint {checkpoint.path} has no {POSITION} (save it with forebay.ray.report(metrics, train))"
            ) from None
        loader.load_state_dict(state)
        if load is not None:
            load(folder)
    return True


def report(
    metrics: Mapping[str, Any], train: Loader | Batches[Any], save: Callable[[str], object] | None = None
) -> None:
    """Reports metrics to Ray Train, with a checkpoint that holds the loader's position. Like
    ``ray.train.report``, it is called by all workers.

    The position counts the batches that the training loop took, and no batch that is only prepared. It is the
    same on all workers, and the worker of rank 0 writes it.

    Parameters
    ----------
    metrics : mapping from str to value
        The metrics for ``ray.train.report``.
    train : Loader or Batches
        The loader whose position is saved, or its batches.
    save : callable, optional
        A function that takes a folder, and writes the model and all else that belongs to the checkpoint
        there. Called by the worker of rank 0.

    Raises
    ------
    InvalidError
        This is not a worker of Ray Train, or ``train`` is not a loader or has no shard.

    Examples
    --------
    >>> import forebay as fb
    >>> def train_function():
    ...     train = fb.Loader("data/train/", batch_size=64, shard=fb.ray.shard())
    ...     for step, batch in enumerate(train):
    ...         if step % 100 == 99:
    ...             fb.ray.report({"step": step}, train)
    """
    state = _of_this_worker(train).state_dict()
    if _context().get_world_rank() != 0:
        ray.train.report(dict(metrics))
        return
    with tempfile.TemporaryDirectory(prefix="forebay-") as folder:
        if save is not None:
            save(folder)
        with open(os.path.join(folder, POSITION), "w", encoding="utf-8") as file:
            json.dump(state, file)
        ray.train.report(dict(metrics), checkpoint=ray.train.Checkpoint.from_directory(folder))


def warm(build: Callable[[], Loader]) -> list[dict[str, Any]]:
    """Fills the caches of all nodes of the cluster at the same time, before training.

    Each node with processors puts all rows of the data set into its own cache, as far as they fit, because
    with a shuffle window its workers read different row groups in each epoch. If the data set is larger than
    the disk of a node, call ``train.warm(share=True)`` in the training function instead: it fills the cache
    with the row groups that the worker reads in its next epoch.

    Parameters
    ----------
    build : callable
        Returns a loader with a cache, with the columns and images of training. It is called on each node,
        without a shard.

    Returns
    -------
    list of dict
        For each node its ``node_id``, its ``address``, and the result of :meth:`forebay.Loader.warm`.

    Raises
    ------
    InvalidError
        ``build`` is not callable, does not return a loader, or the loader has no cache.
    ForebayError
        A row group cannot be read.
    ray.exceptions.RayError
        A node left the cluster, or the process on it ended. Any other exception of ``build`` is raised as
        Ray's error of the same type.

    Examples
    --------
    >>> import forebay as fb
    >>> def build():
    ...     return fb.Loader("s3://acme/train/", cache=fb.DiskCache("/nvme/forebay", max_bytes="200GB"))
    >>> def main():
    ...     for node in fb.ray.warm(build):
    ...         print(node["address"], node["written_bytes"])
    """
    if not callable(build):
        raise InvalidError(
            f"build must be a function that returns a loader, got {type(build).__qualname__} (pass lambda: "
            "forebay.Loader(..., cache=...))"
        )
    if not ray.is_initialized():
        ray.init()
    nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
    tasks = [_fill.options(scheduling_strategy=_on(node)).remote(build) for node in nodes]
    try:
        filled = ray.get(tasks)
    except BaseException:
        # After an error or Ctrl-C, the tasks that still run are cancelled. Cancelling a task that has ended
        # can make Ray end this process. After `ray.shutdown` no task runs, and Ray would wait for a new
        # cluster.
        running = ray.wait(tasks, num_returns=len(tasks), timeout=0)[1] if ray.is_initialized() else []
        for task in running:
            ray.cancel(task, force=True)
        raise
    return [
        {"node_id": node["NodeID"], "address": node["NodeManagerAddress"], **stats}
        for node, stats in zip(nodes, filled, strict=True)
    ]


def _on(node: dict[str, Any]) -> Any:
    return NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)


# The task requests 0 processors, because all processors of the node may be taken. The loader starts its
# threads without asking Ray.
@ray.remote(num_cpus=0, max_retries=0)  # type: ignore[untyped-decorator]
def _fill(build: Callable[[], Loader]) -> dict[str, Any]:
    with check_loader(build()) as loader:
        return loader.warm()


def _context() -> Any:
    try:
        context = ray.train.get_context()
        context.get_world_rank()
    except RuntimeError as error:
        raise InvalidError(f"this is not a worker of Ray Train: {error} (call it in the training function)") from None
    return context


def _of_this_worker(train: Any) -> Loader:
    loader = check_loader(train.loader if isinstance(train, Batches) else train)
    check_shard(loader, "train", shard())
    return loader
