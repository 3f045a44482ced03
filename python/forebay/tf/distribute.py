"""Lets loaders work under ``tf.distribute``: each worker trains on the batches of its own shard.

A strategy of TensorFlow divides a data set in two ways. It gives each worker a part of the batches, and it
cuts each batch into one piece for each replica of all workers. A loader with a shard is divided already, and
its batches belong to one worker. An option of data sets turns off the first division, but not the second. So
this module wraps the two methods of strategies that take data sets: they treat the data set of a loader in
another way, and all other data sets as before.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import tensorflow as tf

from ..adapters import check_shard
from ..errors import InvalidError, UnsupportedError
from ..sharding.shard import Shard

if TYPE_CHECKING:
    from ..adapters import Batches
    from ..loader import Loader

__all__: list[str] = []

#: The kinds of processes ("jobs") of a TensorFlow cluster that train.
_TRAINERS = ("chief", "worker")

#: The name of an attribute of a ``tf.data.Dataset``: the loader's batches that the data set was made from.
_OF = "_forebay_batches"


def marked(dataset: Any, batches: Batches[Any]) -> Any:
    """Marks a data set that is made from the batches of a loader, and returns it. An attribute holds the
    batches, and an option keeps TensorFlow from dividing the data set among workers."""
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    dataset = dataset.with_options(options)
    setattr(dataset, _OF, batches)
    return dataset


def teach() -> None:
    """Wraps the methods of TensorFlow's strategies, so that they recognise the data sets of loaders. A second
    call changes nothing."""
    strategy = tf.distribute.Strategy
    for name, change in (
        ("experimental_distribute_dataset", _distributes_dataset),
        ("distribute_datasets_from_function", _distributes_from_function),
    ):
        method = getattr(strategy, name)
        if not hasattr(method, _OF):
            changed = functools.wraps(method)(change(method))
            setattr(changed, _OF, True)
            setattr(strategy, name, changed)


def _distributes_dataset(original: Callable[..., Any]) -> Callable[..., Any]:
    def distribute(strategy: Any, dataset: Any, options: Any = None) -> Any:
        if not list(_loaders(dataset)) or _workers(strategy) == 1:
            return original(strategy, dataset, options)

        def of_this_worker(context: Any) -> Any:
            return _pieces(dataset, context.num_replicas_in_sync // context.num_input_pipelines)

        return strategy.distribute_datasets_from_function(of_this_worker, options)

    return distribute


def _distributes_from_function(original: Callable[..., Any]) -> Callable[..., Any]:
    def distribute(strategy: Any, dataset_fn: Callable[[Any], Any], options: Any = None) -> Any:
        @functools.wraps(dataset_fn)
        def checked(context: Any) -> Any:
            dataset = dataset_fn(context)
            for loader in _loaders(dataset):
                if _workers(strategy) > 1:
                    _check(loader, Shard(rank=context.input_pipeline_id, world=context.num_input_pipelines))
            return dataset

        return original(strategy, checked, options)

    return distribute


def _loaders(dataset: Any) -> Iterator[Loader]:
    """The loaders of a data set, and of the data sets that it was made from."""
    batches = getattr(dataset, _OF, None)
    if batches is not None:
        yield batches.loader
    elif isinstance(dataset, tf.data.Dataset):
        for one in dataset._inputs():
            yield from _loaders(one)


def _workers(strategy: Any) -> int:
    """The number of processes that train together."""
    resolver = strategy.cluster_resolver
    jobs = {} if resolver is None else resolver.cluster_spec().as_dict()
    if "ps" in jobs:
        raise UnsupportedError(
            "the workers of a cluster with parameter servers run the data set and do not have its loader (use "
            "MultiWorkerMirroredStrategy)"
        )
    return max(sum(len(jobs.get(job, ())) for job in _TRAINERS), 1)


def _check(loader: Loader, shard: Shard) -> None:
    """Raises an error if a loader's shard is not the shard of its worker."""
    check_shard(loader, "tf.distribute", shard)
    given = loader._arguments["shard"]
    if given != shard:
        raise InvalidError(
            f"the loader has {given!r}, but this worker of tf.distribute is {shard!r} (pass "
            "shard=forebay.Shard.from_env(), which reads TF_CONFIG)"
        )


def _pieces(dataset: Any, replicas: int) -> Any:
    """Cuts each batch of a worker into one piece for each of its replicas. The numbers of rows in the pieces
    differ by at most one."""
    if replicas == 1:
        return dataset

    def cut(*element: Any) -> Any:
        (leaf, *_) = tf.nest.flatten(element)
        rows = leaf.nrows() if isinstance(leaf, tf.RaggedTensor) else tf.shape(leaf, tf.int64)[0]

        def piece(number: Any) -> Any:
            first, end = number * rows // replicas, (number + 1) * rows // replicas
            found = tf.nest.map_structure(lambda values: values[first:end], element)
            return found if len(element) > 1 else found[0]

        return tf.data.Dataset.range(replicas).map(piece)

    return dataset.flat_map(cut)
