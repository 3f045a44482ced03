"""A ``fit`` that is killed and started again takes the same steps as one that is not."""

from __future__ import annotations

import itertools
import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import ids, need_keras, small, with_keras

import forebay as fb

SCRIPT = """
    import json, os, signal, sys, warnings
    import forebay as fb
    import keras

    where, log, options = sys.argv[1], open(sys.argv[2], "a"), json.loads(sys.argv[3])
    if not options.get("warns"):
        warnings.simplefilter("error", UserWarning)
    steps = 0

    def note(data):
        global steps
        if steps == options.get("stop"):
            os.kill(os.getpid(), signal.SIGKILL)
        steps += 1
        print(json.dumps([int(row) for row in data[0][:, 0]]), file=log, flush=True)

    class Model(keras.Model):
        if keras.backend.backend() == "jax":
            def train_step(self, state, data):
                note(data)
                return super().train_step(state, data)
        else:
            def train_step(self, data):
                note(data)
                return super().train_step(data)

    train = fb.Loader(where, columns=["id"], batch_size=64, shuffle=fb.Shuffle(seed=17, window_rows=200), threads=2)
    val = fb.Loader(where, columns=["id"], batch_size=500)
    pick = lambda batch: batch["id"][:, None].astype("float32")
    inputs = keras.layers.Input((1,))
    model = Model(inputs, keras.layers.Dense(1)(inputs))
    model.compile("sgd", "mse", run_eagerly=True)
    model.optimizer.learning_rate = 0.0
    ends = []

    class Ends(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs):
            ends.append([epoch, sorted(logs)])

    model.fit(
        fb.keras.batches(train, x=pick, y=pick),
        validation_data=fb.keras.batches(val, x=pick, y=pick),
        epochs=3,
        steps_per_epoch=options.get("steps_per_epoch"),
        verbose=0,
        callbacks=[Ends(), fb.keras.Resume(train, options["folder"], every=options["every"])],
    )
    print(json.dumps(ends), int(model.optimizer.iterations), os.listdir(options["folder"]))
"""


def run(where: Path, log: Path, backend: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return with_keras(backend, SCRIPT, where, log, json.dumps(options))


def steps(log: Path) -> list[list[int]]:
    return [json.loads(line) for line in log.read_text().splitlines()]


@pytest.mark.parametrize(
    ("backend", "every", "stops", "saved"),
    [
        ("torch", 3, (8, 15), (6, 21)),
        ("torch", "epoch", (20,), (16,)),
        ("torch", 8, (17,), (16,)),
        ("jax", 5, (7, 13), (5, 15)),
        ("jax", "epoch", (17,), (16,)),
        ("tensorflow", 5, (7,), (5,)),
    ],
    ids=str,
)
def test_a_fit_that_was_killed_resumes_after_what_was_saved(
    plain: Path, tmp_path: Path, backend: str, every: Any, stops: tuple[int, ...], saved: tuple[int, ...]
) -> None:
    need_keras(backend)
    with small(plain, columns=["id"]) as again:
        want = [rows for epoch in range(3) for rows in ids(again.epoch(epoch))]
    folder = str(tmp_path / "backup")
    began = 0
    for kill, trained in zip(stops, saved, strict=True):
        log = tmp_path / f"{kill}.log"
        done = run(plain, log, backend, every=every, stop=kill, folder=folder)
        assert done.returncode == -signal.SIGKILL, done.stderr
        assert steps(log) == want[began : began + kill]
        assert began < trained <= began + kill
        began = trained
    done = run(plain, tmp_path / "rest.log", backend, every=every, folder=folder)
    assert done.returncode == 0, done.stderr
    assert steps(tmp_path / "rest.log") == want[began:]
    epochs = [[epoch, ["loss", "val_loss"]] for epoch in range(began // 16, 3)]
    # The backup is removed.
    assert done.stdout.strip() == f"{json.dumps(epochs)} {len(want)} []"


@pytest.mark.parametrize(
    ("backend", "steps_per_epoch", "stops", "epochs"),
    [("torch", 4, (9,), [4, 4, 4]), ("torch", 6, (8, 7), [6, 6, 4]), ("jax", 40, (20,), [16, 16, 16])],
    ids=str,
)
def test_epochs_of_other_steps_than_the_loader_has_batches_resume_too(
    plain: Path, tmp_path: Path, backend: str, steps_per_epoch: int, stops: tuple[int, ...], epochs: list[int]
) -> None:
    need_keras(backend)
    with small(plain, columns=["id"]) as again:
        want = [rows for epoch in range(3) for rows in ids(again.epoch(epoch))]
    # Keras itself ends an epoch where the data ends, and warns.
    options = {"every": 1, "folder": str(tmp_path / "backup"), "steps_per_epoch": steps_per_epoch, "warns": True}
    log = tmp_path / "log"
    for stop in stops:
        assert run(plain, log, backend, stop=stop, **options).returncode == -signal.SIGKILL
    done = run(plain, log, backend, **options)
    assert done.returncode == 0, done.stderr
    assert steps(log) == want[: sum(epochs)]
    ended = [end for end in itertools.accumulate(epochs) if end > sum(stops)]
    assert done.stdout.count("val_loss") == len(ended)


def test_what_is_not_fit_is_refused(plain: Path, tmp_path: Path) -> None:
    try:
        resume = fb.keras.Resume
    except ImportError as error:
        pytest.skip(str(error))
    with pytest.raises(fb.InvalidError, match=r"expected a forebay.Loader, got list"):
        resume([], tmp_path)
    with small(plain) as train:
        with pytest.raises(fb.InvalidError, match=r"path must be a path on this machine, got a URL"):
            resume(train, "s3://bucket/backup")
        for every in (True, 0, "batch", 1.5):
            with pytest.raises(fb.InvalidError, match=r"every must be"):
                resume(train, tmp_path, every=every)
