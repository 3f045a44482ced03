"""A framework's own sharding on top of a loader's: each row is delivered once, or the data set is refused."""

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

pytest.importorskip("torch")

ROWS, RANKS = 1_030, 2

HEAD = """
    import json, os, sys, warnings
    warnings.simplefilter("ignore")
    import torch, torch.distributed as dist
    from torch.utils.data import DataLoader
    import forebay as fb

    dist.init_process_group("gloo")
    shard = fb.Shard.from_env()
    found = {}

    def loader():
        shuffle = fb.Shuffle(seed=3)
        return fb.Loader(sys.argv[1], columns=["id"], batch_size=50, shuffle=shuffle, shard=shard, threads=1)

    def dataset():
        return fb.torch.dataset(loader())

    def tell(way, begin):
        try:
            found[way] = [row for batch in begin() for row in batch["id"].tolist()]
        except (fb.InvalidError, TypeError, ValueError) as error:
            found[way] = f"{type(error).__name__}: {error}"
"""

ACCELERATE = """
    from accelerate import Accelerator
    from accelerate.state import AcceleratorState, GradientState
    from accelerate.utils import DataLoaderConfiguration

    for dispatch in (None, True, False):
        for split in (False, True):
            for stateful in (False, True)[:STATEFUL]:
                AcceleratorState._reset_state()
                GradientState._reset_state()
                options = {"dispatch_batches": dispatch, "split_batches": split, "use_stateful_dataloader": stateful}
                accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(**options))
                tell(f"batches {options}", lambda: accelerator.prepare(fb.accelerate.batches(loader(), accelerator)))
                tell(f"dataset {options}", lambda: accelerator.prepare(DataLoader(dataset(), batch_size=None)))
"""

LIGHTNING = """
    import lightning

    class Model(lightning.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer, self.batches = torch.nn.Linear(1, 1), []

        def training_step(self, batch, index):
            self.batches.append(batch)
            return self.layer(batch["id"].float()[:, None]).mean() * 0

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.1)

    def fit(data, sampler):
        model = Model()
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        trainer = lightning.Trainer(max_epochs=1, accelerator="cpu", devices=2, strategy="ddp",
                                    enable_checkpointing=False, use_distributed_sampler=sampler, **quiet)
        trainer.fit(model, data)
        return model.batches

    for sampler in (True, False):
        tell(f"module {sampler}", lambda: fit(fb.lightning.DataModule(train=lambda shard: loader()), sampler))
        tell(f"batches {sampler}", lambda: fit(fb.torch.batches(loader()), sampler))
        tell(f"dataset {sampler}", lambda: fit(DataLoader(dataset(), batch_size=None), sampler))
"""

TRANSFORMERS = """
    import transformers

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.batches = torch.nn.Linear(1, 1), []

        def forward(self, id):
            self.batches.append({"id": id.clone()})
            return {"loss": self.layer(id.float().reshape(-1, 1)).mean() * 0}

    def fit(kind, data, **options):
        model = Model()
        options = {"report_to": [], "disable_tqdm": True, "use_cpu": True, "max_steps": 11, **options}
        arguments = transformers.TrainingArguments(os.path.dirname(sys.argv[2]), save_strategy="no",
                                                   logging_strategy="no", **options)
        kind(model, arguments, train_dataset=data).train()
        return model.batches

    for config in ({}, {"dispatch_batches": False}, {"dispatch_batches": False, "split_batches": True}):
        options = {"accelerator_config": config}
        tell(f"loader {config}", lambda: fit(fb.hf.Trainer, loader(), **options))
        tell(f"dataset {config}", lambda: fit(transformers.Trainer, dataset(), per_device_train_batch_size=2, **options))
"""

TORCH = """
    from torch.utils.data.distributed import DistributedSampler
    tell("sampler", lambda: DataLoader(dataset(), batch_size=None, sampler=DistributedSampler(dataset())))
    tell("sampler of loader", lambda: DataLoader(loader(), batch_size=None, sampler=DistributedSampler(loader())))
    batches = fb.torch.batches(loader())
    tell("sampler of batches", lambda: DataLoader(batches, batch_size=None, sampler=DistributedSampler(batches)))
"""

TORCHDATA = """
    from torchdata import nodes
    from torchdata.stateful_dataloader import StatefulDataLoader
    tell("stateful", lambda: StatefulDataLoader(dataset(), batch_size=None))
    tell("stateful, a worker", lambda: StatefulDataLoader(dataset(), batch_size=None, num_workers=1))
    tell("nodes", lambda: nodes.Loader(nodes.IterableWrapper(dataset())))
"""

TAIL = """
    with open(f"{sys.argv[2]}-{shard.rank}", "w") as file:
        json.dump(found, file)
    dist.barrier()
    dist.destroy_process_group()
"""

#: For each framework: the packages that it needs, its script, and the calls with which each row comes once.
FRAMEWORKS = {
    "torch": ((), TORCH, ()),
    "torchdata": (("torchdata",), TORCHDATA, ("stateful", "nodes")),
    "accelerate": (("accelerate",), ACCELERATE, ("batches",)),
    "lightning": (("lightning",), LIGHTNING, ("module", "batches", "dataset")),
    "transformers": (("transformers", "accelerate"), TRANSFORMERS, ("loader",)),
}

#: The errors of all other calls: from forebay, from Accelerate if it does not know the batch size, and from PyTorch.
REFUSALS = (
    "InvalidError: Accelerate would",
    "batches of a loader are whole",
    "takes the place of a DataLoader",
    "In order to use `split_batches==True`",
    "expected unspecified sampler option",
)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_each_row_comes_once_or_the_data_set_is_refused(framework: str, tmp_path: Path) -> None:
    needed, body, right = FRAMEWORKS[framework]
    for package in needed:
        pytest.importorskip(package)
    stateful = "2" if find_spec("torchdata") else "1"
    script = tmp_path / "ranks.py"
    script.write_text(textwrap.dedent(HEAD + body.replace("STATEFUL", stateful) + TAIL))
    pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64())}), tmp_path / "rows.parquet", row_group_size=100)
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={RANKS}"]
    command = [*torchrun, str(script), str(tmp_path / "rows.parquet"), str(tmp_path / "found")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-4000:]
    found: list[dict[str, Any]] = [json.loads((tmp_path / f"found-{rank}").read_text()) for rank in range(RANKS)]
    for way in found[0]:
        got = [one[way] for one in found]
        if any(map(way.startswith, right)):
            assert not any(isinstance(one, str) for one in got), (way, got)
            assert sorted(row for rows in got for row in rows) == list(range(ROWS)), way
        else:
            assert all(isinstance(one, str) for one in got), (way, [len(one) for one in got])
            assert all(any(said in one for said in REFUSALS) for one in got), (way, got)


KERAS = """
    import json, sys
    import jax
    rank, port, data, said = int(sys.argv[1]), *sys.argv[2:]
    jax.distributed.initialize(f"127.0.0.1:{port}", 2, rank)
    import keras
    import forebay as fb

    keras.utils.set_random_seed(1)
    devices = keras.distribution.list_devices()
    keras.distribution.set_distribution(keras.distribution.DataParallel(devices=devices, auto_shard_dataset=False))

    def batches(shard):
        train = fb.Loader(data, batch_size=50, shard=shard, threads=1)
        return fb.keras.batches(train, x=lambda batch: batch["id"][:, None] / 1e3, y=lambda batch: batch["id"][:, None])

    def mean(y, _):
        return keras.ops.cast(y, "float32")

    def square(y, _):
        return keras.ops.cast(y, "float32") ** 2

    model = keras.Sequential([keras.layers.Input((1,)), keras.layers.Dense(1)])
    model.compile("sgd", loss="mse", metrics=[mean, square])
    seen = model.evaluate(batches(fb.Shard(rank=rank, world=2)), verbose=0, return_dict=True)
    try:
        batches(None)
    except fb.InvalidError as error:
        seen["refused"] = str(error)
    json.dump(seen, open(said, "w"))
"""


def test_processes_of_keras_share_a_global_batch(tmp_path: Path) -> None:
    for package in ("jax", "keras"):
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    data = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"id": range(1_000)}), data, row_group_size=100)
    port = str(free_port())
    environ = {**os.environ, "KERAS_BACKEND": "jax", "JAX_PLATFORMS": "cpu"}
    ranks = []
    for rank in range(RANKS):
        command = [sys.executable, "-c", textwrap.dedent(KERAS), str(rank), port, str(data), str(tmp_path / f"said-{rank}")]
        ranks.append(subprocess.Popen(command, env=environ, text=True, stderr=subprocess.PIPE))
    try:
        errors = [process.communicate(timeout=PATIENCE)[1][-3000:] for process in ranks]
    finally:
        for process in ranks:
            process.kill()
    assert [process.returncode for process in ranks] == [0] * RANKS, errors
    for rank in range(RANKS):
        seen = json.loads((tmp_path / f"said-{rank}").read_text())
        assert seen["mean"] == pytest.approx(999 / 2) and seen["square"] == pytest.approx(332_833.5, rel=1e-5)
        assert f"each of 2 processes would read all rows (pass shard=forebay.Shard(rank={rank}, world=2))" in seen["refused"]
