"""For every framework: however a training loop ends, nothing is left over, and the next epoch is right.

Each framework runs all of its ends in one process, because importing a framework takes long.
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
from conftest import PATIENCE

#: For each case: the required packages, and an expression for the batches of a loader ``train``; ``rows``
# returns the ids of a batch.
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

#: The cases in which PyTorch reads in a process of its own.
FORKS = ("worker",)

#: Frameworks whose own threads do not survive a fork.
THREADED = ("jax", "tf", "tf_dataset")

SCRIPT = """
    import io, sys
    import forebay as fb
    from loop_ends import Ends

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

    def batches(train):
        return BATCHES

    ends = Ends(data, data, batches)
    ends.run(forks=FORKED, interrupts=INTERRUPTED)
    print("ended well", flush=True)

    # The interpreter exits in the middle of an epoch.
    train = ends.loader()
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
    script = textwrap.dedent(SCRIPT).replace("BATCHES", expression)
    script = script.replace("FORKED", str(door not in FORKS + THREADED))
    script = script.replace("INTERRUPTED", str(door not in (*FORKS, "tf_dataset")))
    # TensorFlow imports Keras, which must not import PyTorch into the same process.
    backend = "tensorflow" if "tensorflow" in needed else "torch"
    environ = {**os.environ, "KERAS_BACKEND": backend, "JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
    # The script imports `loop_ends` from this folder.
    environ["PYTHONPATH"] = os.pathsep.join(filter(None, [str(Path(__file__).parent), os.environ.get("PYTHONPATH")]))
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
        out, err = process.communicate(timeout=PATIENCE)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
        raise AssertionError(f"no end after {time.monotonic() - began:.0f} s: {out}{err[-3000:]}") from None
    assert process.returncode == 0, out + err[-3000:]
    assert "ended well\n" in out, out
    assert "Fatal Python error" not in err and "Traceback" not in err, err
