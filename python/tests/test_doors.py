"""What holds for the door to every framework: however a loop ends, nothing of it is left, and the next epoch is right.

Each door runs all of its ends in one process of its own, as importing a framework takes long.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

#: Per door: what it needs, and an expression for its batches of a loader ``train``; ``rows`` takes the ids of a batch.
DOORS = {
    "torch": (["torch"], "fb.torch.batches(train)"),
    "dataset": (["torch"], "torch.utils.data.DataLoader(fb.torch.dataset(train), batch_size=None)"),
    "worker": (["torch"], "torch.utils.data.DataLoader(fb.torch.dataset(train), batch_size=None, num_workers=1)"),
    "stateful": (["torchdata", "torch"], "StatefulDataLoader(fb.torch.dataset(train), batch_size=None)"),
    "hf": (["transformers", "accelerate", "torch"], "hf_batches(train)"),
    "jax": (["jax"], "fb.jax.batches(train)"),
    "keras": (["keras", "torch"], "fb.keras.batches(train, x='id', y='id')"),
    "tf": (["tensorflow"], "fb.tf.batches(train)"),
    "tf_dataset": (["tensorflow"], "fb.tf.dataset(train)"),
    "lightning": (["lightning"], "lightning_batches(train)"),
    "accelerate": (["accelerate"], "fb.accelerate.batches(train, accelerator)"),
    "tqdm": (["tqdm"], "fb.tqdm.bar(train, disable=None, file=io.StringIO())"),
    "rich": (["rich"], "fb.rich.bar(train)"),
}

#: Doors through which PyTorch reads in a process of its own.
FORKS = ("worker",)

HEAD = """
    import gc, io, os, signal, sys, threading, time
    import numpy as np
    import forebay as fb

    door, data = sys.argv[1], sys.argv[2]
    if door in ("torch", "dataset", "worker"):
        import torch
    if door == "stateful":
        from torchdata.stateful_dataloader import StatefulDataLoader
    if door == "hf":
        import tempfile, torch, transformers
        folder = tempfile.mkdtemp()
        options = transformers.TrainingArguments(folder, use_cpu=True, report_to=[], per_device_train_batch_size=50)
        model = torch.nn.Linear(1, 1)
    if door == "accelerate":
        from accelerate import Accelerator
        accelerator = Accelerator(cpu=True)

    def lightning_batches(train):
        module = fb.lightning.DataModule(train=lambda shard: train)
        module.setup("fit")
        return module.train_dataloader()

    def hf_batches(train):
        return fb.hf.Trainer(model, options, train_dataset=train).get_train_dataloader()

    def rows(batch):
        batch = batch[0] if isinstance(batch, tuple) else batch["id"]
        return np.asarray(batch).tolist()

    def loader(**more):
        options = {"columns": ["id"], "batch_size": 50, "shuffle": fb.Shuffle(seed=5, window_rows=200), "threads": 2}
        return fb.Loader(data, **{**options, **more})

    def batches(train):
        return BATCHES

    def left():
        "Threads, children, open files and segments of shared memory."
        gc.collect()
        names = []
        for entry in os.listdir("/proc/self/task"):
            try:
                names.append(open(f"/proc/self/task/{entry}/comm").read().strip())
            except OSError:  # it ended
                continue
        ours = sorted(name for name in names if name.startswith("forebay"))
        children = open(f"/proc/self/task/{os.getpid()}/children").read().split()
        # Other programs of the machine have theirs.
        shared = [name for name in os.listdir("/dev/shm") if str(os.getpid()) in name and name not in before_shm]
        files = []
        for number in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{number}")
            except OSError:
                continue
            if data in target or "memfd" in target or "/dev/shm" in target:
                files.append(target)
        bars = [thread.name for thread in threading.enumerate() if "forebay" in thread.name]
        return ours + bars, children, shared, files

    def nothing_left(allowed_children=()):
        deadline = time.monotonic() + 5
        while True:
            threads, children, shared, files = left()
            if not (threads or set(children) - set(allowed_children) or shared or files):
                return
            if time.monotonic() > deadline:
                raise AssertionError((threads, children, shared, files))
            time.sleep(0.02)

    before_shm = set(os.listdir("/dev/shm"))
"""

ENDS = """
    # All of an epoch, twice: what is right.
    with loader() as train:
        whole = [[rows(batch) for batch in batches(train)] for _ in range(2)]
    assert sorted(sum(whole[0], [])) == sorted(sum(whole[1], [])) == list(range(1000)), door
    children = left()[1]  # of the framework itself, such as a resource tracker
    train = other = stream = batch = None
    nothing_left(children)

    # Left early, at any batch: the next epoch is whole.
    with loader() as train:
        for number, stop in enumerate((1, 7, 19)):
            for at, batch in enumerate(batches(train), 1):
                if at == stop:
                    break
            del batch
        assert sorted(sum((rows(batch) for batch in batches(train)), [])) == list(range(1000)), door
    train = other = stream = batch = None
    nothing_left(children)

    # An exception in the step comes out as it is, and the next epoch works.
    class Mine(Exception):
        pass
    with loader() as train:
        try:
            for batch in batches(train):
                raise Mine
        except Mine:
            pass
        assert sorted(sum((rows(batch) for batch in batches(train)), [])) == list(range(1000)), door
    train = other = stream = batch = None
    nothing_left(children)

    # Two loaders at once.
    with loader() as train, loader(shuffle=fb.Shuffle(seed=6)) as other:
        both = list(zip(batches(train), batches(other), strict=True))
        assert [rows(one) for one, _ in both] == whole[0], door
        assert sorted(sum((rows(two) for _, two in both), [])) == list(range(1000)), door
        del both
    train = other = stream = batch = None
    nothing_left(children)

    # A forked child of the loop does not hang, and neither does its parent.
    if door not in FORKS and door not in ("jax", "tf", "tf_dataset"):
        with loader() as train:
            stream = iter(batches(train))
            next(stream)
            child = os.fork()
            if child == 0:
                try:
                    next(stream)
                    os._exit(3)
                except fb.ClosedError:
                    os._exit(7)
                except BaseException:
                    os._exit(4)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7, door
            assert sum(len(rows(batch)) for batch in stream) == 950, door
            del stream
        train = other = stream = batch = None
    nothing_left(children)

    # Ctrl-C while the loop waits for a batch.
    slow = threading.Event()
    def wait(batch):
        slow.wait(20)
        return {"id": batch["id"]}
    if door not in FORKS and door != "tf_dataset":
        with loader(transform=wait) as train:
            threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
            began = time.monotonic()
            try:
                for batch in batches(train):
                    raise AssertionError("a batch came")
            except KeyboardInterrupt:
                took = time.monotonic() - began
            assert took < 2.3, took
            slow.set()
            assert sorted(sum((rows(batch) for batch in batches(train)), [])) == list(range(1000)), door
        train = None
        nothing_left(children)
    print("ended well", flush=True)

    # The interpreter exits in the middle of an epoch.
    train = loader()
    stream = iter(batches(train))
    next(stream)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("door", DOORS)
def test_nothing_is_left_however_a_loop_ends(door: str, plain: Path) -> None:
    needed, expression = DOORS[door]
    for package in needed:
        if find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    script = textwrap.dedent(HEAD).replace("BATCHES", expression) + f"FORKS = {FORKS}\n" + textwrap.dedent(ENDS)
    # TensorFlow imports Keras, and does not bear PyTorch beside it.
    backend = "tensorflow" if "tensorflow" in needed else "torch"
    environ = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    began = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-W", "ignore", "-c", script, door, str(plain)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"no end after {time.monotonic() - began:.0f} s: {out}{err[-3000:]}") from None
    assert process.returncode == 0, out + err[-3000:]
    assert "ended well\n" in out, out
    assert "Fatal Python error" not in err and "Traceback" not in err, err
