"""Loaders under ``tf.distribute``: two workers train on each row once, however they pass the data set."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE
from servers.process import free_port

if find_spec("tensorflow") is None:
    pytest.skip("TensorFlow is not installed", allow_module_level=True)

ROWS, BATCH, WORKERS = 1_030, 50, 2
STEPS = 11

WORKER = """
    import json, sys
    import tensorflow as tf
    import forebay as fb

    data, said = sys.argv[1], sys.argv[2]
    # The strategy must be created before TensorFlow does anything else.
    strategy = tf.distribute.MultiWorkerMirroredStrategy()
    shard = fb.Shard.from_env()
    steps, refused = {}, {}

    def loader(**options):
        options = {"shard": shard, **options}
        return fb.Loader(data, columns=["id"], batch_size=BATCH, shuffle=fb.Shuffle(seed=3), threads=1, **options)

    def walk(way, batches):
        steps[way] = [
            [row for piece in strategy.experimental_local_results(batch["id"]) for row in piece.numpy().tolist()]
            for batch in batches
        ]

    def refuse(way, distribute):
        try:
            distribute()
        except (fb.InvalidError, fb.UnsupportedError) as error:
            refused[way] = str(error)

    train = loader()
    dataset = fb.tf.dataset(train)
    walk("experimental_distribute_dataset", strategy.experimental_distribute_dataset(dataset))
    walk("experimental_distribute_dataset of what was made of it",
         strategy.experimental_distribute_dataset(dataset.map(lambda batch: {"id": batch["id"]}).prefetch(2)))
    walk("distribute_datasets_from_function", strategy.distribute_datasets_from_function(lambda context: dataset))
    walk("experimental_distribute_dataset again", strategy.experimental_distribute_dataset(dataset))

    FIT

    unsharded = fb.tf.dataset(loader(shard=None))
    swapped = fb.tf.dataset(loader(shard=fb.Shard(rank=1 - shard.rank, world=2)))
    refuse("without a shard", lambda: strategy.experimental_distribute_dataset(unsharded))
    refuse("without a shard, from a function", lambda: strategy.distribute_datasets_from_function(lambda _: unsharded))
    refuse("another's shard", lambda: strategy.experimental_distribute_dataset(swapped))
    # TensorFlow still divides its own data sets among the workers.
    numbers = strategy.experimental_distribute_dataset(tf.data.Dataset.range(8).batch(4))
    steps["others"] = [strategy.experimental_local_results(batch)[0].numpy().tolist() for batch in numbers]
    with open(said, "w") as file:
        json.dump({"rank": shard.rank, "steps": steps, "refused": refused}, file)
"""

#: This trains with Keras 2, because Keras 3 cannot reduce the values that these workers return.
FIT = """
    import tf_keras as keras

    class Model(keras.Sequential):
        def train_step(self, batch):
            tf.py_function(lambda ids: steps.setdefault("fit", []).append(ids.numpy().tolist()), [batch["id"]], [])
            return {"loss": tf.reduce_mean(self(tf.cast(batch["id"], tf.float32)[:, None]))}

    with strategy.scope():
        model = Model([keras.layers.InputLayer((1,)), keras.layers.Dense(1)])
        model.compile("sgd")
    model.fit(dataset, epochs=2, verbose=0)
"""


def workers(script: str, folder: Path, *arguments: str) -> list[dict[str, Any]]:
    """Returns the output of each worker of a cluster."""
    cluster = {"worker": [f"127.0.0.1:{free_port()}" for _ in range(WORKERS)]}
    processes = []
    for index in range(WORKERS):
        config = json.dumps({"cluster": cluster, "task": {"type": "worker", "index": index}})
        environ = {**os.environ, "TF_CONFIG": config, "CUDA_VISIBLE_DEVICES": "", "TF_CPP_MIN_LOG_LEVEL": "2"}
        command = [sys.executable, "-c", script, *arguments, str(folder / f"said-{index}")]
        pipes = {"stdout": subprocess.DEVNULL, "stderr": subprocess.PIPE}
        processes.append(subprocess.Popen(command, env=environ, text=True, **pipes))  # type: ignore[call-overload]
    try:
        errors = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * WORKERS, "\n".join(one[-3000:] for one in errors)
    return [json.loads((folder / f"said-{index}").read_text()) for index in range(WORKERS)]


def test_workers_train_on_each_row_once_in_batches_of_their_own(tmp_path: Path) -> None:
    data = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64())}), data, row_group_size=100)
    has_fit = find_spec("tf_keras") is not None
    script = textwrap.dedent(WORKER).replace("BATCH", str(BATCH))
    script = script.replace("FIT\n", textwrap.dedent(FIT) if has_fit else "\n")
    said = workers(script, tmp_path, str(data))
    assert [one["rank"] for one in said] == [0, 1]
    assert said[0]["refused"].keys() == said[1]["refused"].keys()
    for rank, one in enumerate(said):
        refused = one["refused"]
        for way in ("without a shard", "without a shard, from a function"):
            assert "the tf.distribute loader has no shard, so each of 2 processes would read all rows" in refused[way]
            assert f"(pass shard=forebay.Shard(rank={rank}, world=2))" in refused[way]
        assert f"the loader has forebay.Shard(rank={1 - rank}, world=2), and this worker" in refused["another's shard"]
    ways = {way: [one["steps"][way] for one in said] for way in said[0]["steps"]}
    assert ways.pop("others") == [[[0, 1], [4, 5]], [[2, 3], [6, 7]]]
    # `fit` trains two epochs on one data set.
    fits = ways.pop("fit", [])
    assert [len(steps) for steps in fits] == [2 * STEPS] * WORKERS * has_fit
    for epoch in range(2 * has_fit):
        ways[f"fit, epoch {epoch}"] = [steps[epoch * STEPS : (epoch + 1) * STEPS] for steps in fits]
    for way, by_worker in ways.items():
        sizes = [[len(step) for step in steps] for steps in by_worker]
        assert sizes == [[BATCH] * (STEPS - 1) + [15]] * WORKERS, (way, sizes)
        assert sorted(row for steps in by_worker for step in steps for row in step) == list(range(ROWS)), way


def test_a_data_set_of_a_loader_is_not_divided_and_keeps_that(tmp_path: Path) -> None:
    import tensorflow as tf

    import forebay as fb

    pq.write_table(pa.table({"id": range(20)}), tmp_path / "rows.parquet")
    with fb.Loader(tmp_path, batch_size=5, shard=fb.Shard(rank=0, world=2)) as train:
        for made in (fb.tf.dataset(train), fb.tf.dataset(train).prefetch(2)):
            policy = made.options().experimental_distribute.auto_shard_policy
            assert policy == tf.data.experimental.AutoShardPolicy.OFF


def test_replicas_of_a_worker_share_its_batches() -> None:
    import tensorflow as tf

    from forebay.tf import distribute

    words = tf.ragged.constant([["a"], [], ["b", "c"], ["d"], ["e"]])
    dataset = tf.data.Dataset.from_tensors({"id": tf.range(5), "words": words})
    pieces = list(distribute._pieces(dataset, 2))
    assert [piece["id"].numpy().tolist() for piece in pieces] == [[0, 1], [2, 3, 4]]
    assert [piece["words"].to_list() for piece in pieces] == [[[b"a"], []], [[b"b", b"c"], [b"d"], [b"e"]]]
    pairs = tf.data.Dataset.from_tensors((tf.range(3), tf.range(3, 6)))
    assert [(x.numpy().tolist(), y.numpy().tolist()) for x, y in distribute._pieces(pairs, 3)] == [
        ([0], [3]),
        ([1], [4]),
        ([2], [5]),
    ]


def test_two_replicas_of_one_process_share_a_batch(tmp_path: Path) -> None:
    """The script runs in its own process, because TensorFlow cannot change its devices once it has used them."""
    pq.write_table(pa.table({"id": range(100)}), tmp_path / "rows.parquet")
    script = """
        import sys
        import tensorflow as tf
        (cpu,) = tf.config.list_physical_devices("CPU")
        tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
        import forebay as fb
        strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
        train = fb.Loader(sys.argv[1], batch_size=10, threads=1)
        steps = []
        for batch in strategy.experimental_distribute_dataset(fb.tf.dataset(train)):
            steps.append([piece.numpy().tolist() for piece in strategy.experimental_local_results(batch["id"])])
        assert steps == [[list(range(at, at + 5)), list(range(at + 5, at + 10))] for at in range(0, 100, 10)], steps
    """
    environ = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environ)
    assert done.returncode == 0, done.stderr[-3000:]
