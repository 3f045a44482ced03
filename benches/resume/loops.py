"""One training run of the matrix: a trainer, a source of batches, one process. It is killed at a step if asked to be.

Each function trains on the rows' numbers, notes them inside the training step, and saves and resumes as its framework
does. ``own`` is the loader that the framework's guide recommends.
"""

import argparse
import json
import os
import signal
import sys
import tempfile
import time
from functools import cached_property
from pathlib import Path

ROWS, STEPS, EPOCHS = 240, 10, 2

#: Batches between two checkpoints, and batches trained when the process is killed.
PLACES = {"middle": (4, 6), "border": (STEPS, STEPS + 2)}

#: Seconds after which Ray's controller, which looks once in a second, knows a checkpoint.
REGISTERED = 3


class Job:
    """What a run is to do."""

    def __init__(self, given):
        self.trainer, self.source, self.folder = given.trainer, given.source, Path(given.folder)
        self.data, self.resumes = given.data, given.resume
        self.every, kill = PLACES[given.place]
        self.kill = None if given.resume else kill
        self.is_border = given.place == "border"
        self.rank, self.world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", given.world))
        self.batch_size = ROWS // STEPS // self.world
        self.steps = 0
        self.log = open(self.folder / f"{'second' if given.resume else 'first'}-{self.rank}.jsonl", "w")

    def step(self, ids):
        """Called inside each training step, before anything is trained."""
        if self.steps == self.kill:
            os.kill(os.getpid(), signal.SIGKILL)
        self.steps += 1
        print(json.dumps([int(row) for row in ids]), file=self.log, flush=True)

    def loader(self, shard=None):
        import forebay as fb

        shard = shard or (fb.Shard(rank=self.rank, world=self.world) if self.world > 1 else None)
        shuffle = fb.Shuffle(seed=17, window_rows=100)
        return fb.Loader(self.data, columns=["id"], batch_size=self.batch_size, shuffle=shuffle, shard=shard, threads=1)

    @cached_property
    def rows(self):
        import pyarrow.parquet as pq
        import torch

        ids = pq.read_table(self.data)["id"].to_pylist()
        return [{"id": torch.tensor(row)} for row in ids]

    def saved(self):
        import torch

        return torch.load(self.folder / "run.pt") if self.resumes else None

    def save(self, **state):
        import torch

        if self.rank == 0:
            torch.save(state, self.folder / "unfinished.pt")
            os.replace(self.folder / "unfinished.pt", self.folder / "run.pt")


def model():
    import torch

    torch.manual_seed(0)
    return torch.nn.Linear(1, 1)


def joined(job):
    """The processes of plain loops wait for one another at each step, as gradients make them."""
    import torch.distributed as dist

    if job.world > 1:
        dist.init_process_group("gloo")
        return dist.barrier
    return lambda: None


def plain(job):
    wait, saved = joined(job), job.saved()
    if job.source == "forebay":
        import forebay as fb

        train = job.loader()
        if saved:
            train.load_state_dict(saved["loader"])
        while train.state_dict()["epoch"] < EPOCHS:
            for batch in fb.torch.batches(train):
                job.step(batch["id"])
                wait()
                if job.steps % job.every == 0:
                    job.save(loader=train.state_dict())
        return
    batches, sampler = of_rows(job)
    for epoch in range(saved["epoch"] if saved else 0, EPOCHS):
        sampler.set_epoch(epoch)
        for number, batch in enumerate(batches, 1):
            job.step(batch["id"])
            wait()
            if job.steps % job.every == 0:
                job.save(epoch=epoch + (number == STEPS))


def of_rows(job, kind=None):
    import torch
    from torch.utils.data import DataLoader, DistributedSampler

    torch.manual_seed(0)
    sampler = DistributedSampler(job.rows, job.world, job.rank, seed=17)
    return (kind or DataLoader)(job.rows, batch_size=job.batch_size, sampler=sampler), sampler


def stateful(job):
    from torchdata.stateful_dataloader import StatefulDataLoader

    wait, saved = joined(job), job.saved()
    if job.source == "forebay":
        import forebay as fb

        batches, sampler = StatefulDataLoader(fb.torch.dataset(job.loader()), batch_size=None, num_workers=1), None
    else:
        from torchdata.stateful_dataloader.sampler import StatefulDistributedSampler

        sampler = StatefulDistributedSampler(job.rows, job.world, job.rank, seed=17)
        batches = StatefulDataLoader(job.rows, batch_size=job.batch_size, sampler=sampler)
    if saved:
        batches.load_state_dict(saved["batches"])
    for epoch in range(saved["epoch"] if saved else 0, EPOCHS):
        if sampler is not None:
            sampler.set_epoch(epoch)
        for batch in batches:
            job.step(batch["id"])
            wait()
            if job.steps % job.every == 0:
                job.save(batches=batches.state_dict(), epoch=epoch)


def lightning(job):
    import lightning as pl
    import torch
    from lightning.pytorch.callbacks import ModelCheckpoint

    import forebay as fb

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = model()

        def training_step(self, batch, index):
            job.step(batch["id"])
            return self.layer(batch["id"][:, None].float()).mean()

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), lr=0.0)

    when = {"save_on_train_epoch_end": True} if job.is_border else {"every_n_train_steps": job.every}
    trainer = pl.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=job.world,
        strategy="ddp" if job.world > 1 else "auto",
        logger=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[ModelCheckpoint(job.folder, filename="run", **when)],
    )
    if job.source == "forebay":
        data = {"datamodule": fb.lightning.DataModule(train=job.loader)}
    else:
        loader = torch.utils.data.DataLoader(job.rows, batch_size=job.batch_size, shuffle=True)
        data = {"train_dataloaders": loader}
    pl.seed_everything(0, verbose=False)
    trainer.fit(Module(), **data, ckpt_path=job.folder / "run.ckpt" if job.resumes else None)


def accelerate(job):
    import torch
    from accelerate import Accelerator
    from accelerate.utils import DataLoaderConfiguration, set_seed

    import forebay as fb

    class Count:
        value = 0

        def state_dict(self):
            return {"value": self.value}

        def load_state_dict(self, state):
            self.value = state["value"]

    accelerator = Accelerator(cpu=True, dataloader_config=DataLoaderConfiguration(use_seedable_sampler=True))
    set_seed(0)
    layer = model()
    layer, optimizer = accelerator.prepare(layer, torch.optim.SGD(layer.parameters(), lr=0.0))
    trained = Count()
    accelerator.register_for_checkpointing(trained)
    if job.source == "forebay":
        train = job.loader()
        accelerator.register_for_checkpointing(train)
        batches = fb.accelerate.batches(train, accelerator)
    else:
        loader = torch.utils.data.DataLoader(job.rows, batch_size=job.batch_size, shuffle=True)
        batches = accelerator.prepare(loader)
    if job.resumes:
        accelerator.load_state(job.folder / "state")
    for epoch in range(trained.value // STEPS, EPOCHS):
        of_epoch, skip = batches, trained.value % STEPS
        if job.source == "own":
            batches.set_epoch(epoch)
            of_epoch = accelerator.skip_first_batches(batches, skip) if skip else batches
        for batch in of_epoch:
            job.step(batch["id"])
            accelerator.backward(layer(batch["id"][:, None].float()).mean())
            optimizer.step()
            optimizer.zero_grad()
            trained.value += 1
            if trained.value % job.every == 0:
                accelerator.save_state(job.folder / "state")


def transformers(job):
    import torch
    import transformers as hf

    import forebay as fb

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = model()

        def forward(self, id):
            job.step(id)
            return {"loss": self.layer(id[:, None].float()).mean()}

    args = hf.TrainingArguments(
        job.folder / "run",
        num_train_epochs=EPOCHS,
        per_device_train_batch_size=job.batch_size,
        save_steps=job.every,
        learning_rate=0.0,
        report_to=[],
        disable_tqdm=True,
        use_cpu=True,
        ddp_backend="gloo" if job.world > 1 else None,
        remove_unused_columns=False,
    )
    if job.source == "forebay":
        trainer = fb.hf.Trainer(Model(), args, train_dataset=job.loader())
    else:
        trainer = hf.Trainer(Model(), args, train_dataset=job.rows)
    trainer.train(resume_from_checkpoint=job.resumes)


def keras(job):
    import keras as k
    import numpy as np

    import forebay as fb

    class Model(k.Model):
        def train_step(self, data):
            job.step(data[0][:, 0])
            return super().train_step(data)

    inputs = k.layers.Input((1,))
    net = Model(inputs, k.layers.Dense(1)(inputs))
    net.compile("sgd", "mse", run_eagerly=True)
    every = "epoch" if job.is_border else job.every
    backup = str(job.folder / "backup")
    if job.source == "forebay":
        train = job.loader()

        def pick(batch):
            return batch["id"][:, None].astype("float32")

        resume = fb.keras.Resume(train, backup, every=every)
        net.fit(fb.keras.batches(train, x=pick, y=pick), epochs=EPOCHS, verbose=0, callbacks=[resume])
    else:
        k.utils.set_random_seed(0)
        x = np.array([[int(row["id"])] for row in job.rows], "float32")
        resume = k.callbacks.BackupAndRestore(backup, save_freq=every)
        net.fit(x, x, batch_size=job.batch_size, epochs=EPOCHS, verbose=0, callbacks=[resume])


def ray(given):
    """Ray Train has workers of its own: this process, which starts them, dies with the one that is killed."""
    import ray as cluster
    import ray.train as rt
    from ray.train.torch import TorchTrainer

    def train_function(given):
        sys.path.append(os.path.dirname(given.loops))
        from loops import EPOCHS, REGISTERED, Job

        job = Job(given)
        if job.source == "forebay":
            import forebay as fb

            train = job.loader(fb.ray.shard())
            fb.ray.resume(train)
            while train.state_dict()["epoch"] < EPOCHS:
                for batch in fb.torch.batches(train):
                    job.step(batch["id"])
                    if job.steps % job.every == 0:
                        fb.ray.report({}, train)
                        time.sleep(REGISTERED)
            return
        rows, checkpoint = rt.get_dataset_shard("train"), rt.get_checkpoint()
        for epoch in range(int(Path(checkpoint.path, "epoch").read_text()) if checkpoint else 0, EPOCHS):
            for number, batch in enumerate(rows.iter_torch_batches(batch_size=job.batch_size), 1):
                job.step(batch["id"])
                if job.steps % job.every == 0:
                    with tempfile.TemporaryDirectory() as folder:
                        Path(folder, "epoch").write_text(str(epoch + (number == STEPS)))
                        of_all = rt.Checkpoint.from_directory(folder) if job.rank == 0 else None
                        rt.report({}, checkpoint=of_all)
                    time.sleep(REGISTERED)

    # One more for what reads its own data sets.
    cluster.init(num_cpus=given.world + 1, include_dashboard=False, log_to_driver=False)
    data = {} if given.source == "forebay" else {"datasets": {"train": cluster.data.read_parquet(given.data)}}
    trainer = TorchTrainer(
        train_function,
        train_loop_config=given,
        scaling_config=rt.ScalingConfig(num_workers=given.world),
        run_config=rt.RunConfig(name="run", storage_path=given.folder),
        **data,
    )
    try:
        trainer.fit()
    except rt.TrainingFailedError:
        if given.resume:
            raise
        os.kill(os.getpid(), signal.SIGKILL)


def spark(given):
    """As with Ray. Its guide has the loop and the loader of a plain one."""
    from pyspark.ml.torch.distributor import TorchDistributor
    from pyspark.sql import SparkSession

    import forebay as fb

    def train_function(given, data):
        sys.path.append(os.path.dirname(given.loops))
        from loops import Job, plain

        job = Job(given)
        job.data = data
        plain(job)

    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    session = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    data = given.data
    if given.source == "forebay":
        data = fb.spark.dataset(session.read.parquet(data), Path(given.folder, "written"))
    try:
        TorchDistributor(num_processes=given.world, local_mode=True, use_gpu=False).run(train_function, given, data)
    except RuntimeError:
        if given.resume:
            raise
        session.stop()
        os.kill(os.getpid(), signal.SIGKILL)


TRAINERS = {
    "plain": plain,
    "stateful": stateful,
    "lightning": lightning,
    "accelerate": accelerate,
    "transformers": transformers,
    "keras": keras,
    "ray": ray,
    "spark": spark,
}

if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("trainer", choices=TRAINERS)
    parser.add_argument("source", choices=["forebay", "own"])
    parser.add_argument("place", choices=PLACES)
    parser.add_argument("data")
    parser.add_argument("folder")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--world", type=int, default=1, help="workers, of a trainer that starts them itself")
    given = parser.parse_args()
    given.loops = os.path.abspath(__file__)
    TRAINERS[given.trainer](given if given.trainer in ("ray", "spark") else Job(given))
