"""Every example runs, on a few drawn photographs, and does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def environment(framework: str | None = None) -> dict[str, str]:
    """This process's, with a backend for Keras. Skips, by name, where the framework is absent."""
    environ = dict(os.environ)
    if framework is not None and find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    if framework == "keras":
        backends = [name for name in ("jax", "torch", "tensorflow") if find_spec(name)]
        if not backends:
            pytest.skip("Keras has no backend here: jax, torch or tensorflow")
        environ.setdefault("KERAS_BACKEND", backends[0])
    return environ


def run(example: str, *arguments: str, cwd: Path, framework: str | None = None) -> str:
    """What an example prints."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        cwd=cwd,
        env=environment(framework),
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_has_a_test() -> None:
    own = Path(__file__).read_text()
    missing = [path.name for path in EXAMPLES.glob("*.py") if f'run("{path.name}"' not in own]
    assert not missing


def test_the_numpy_classifier_learns(drawn: Path) -> None:
    text = run("numpy_classifier.py", "photos", "held-out", "--epochs", "4", cwd=drawn)
    rows = [line.split() for line in text.splitlines() if re.match(r" +\d", line)]
    losses = [float(row[4]) for row in rows]
    assert len(losses) == 4
    assert losses[-1] < 0.7 * losses[0], text
    assert int(rows[-1][5].rstrip("%")) > 30, text


def test_two_ranks_share_an_epoch(drawn: Path) -> None:
    assert "together: 400 rows, each exactly once" in run("ranks.py", "photos", cwd=drawn)


def test_keras_fits(drawn: Path) -> None:
    text = run("keras_fit.py", "photos", "held-out", "--epochs", "2", "--size", "64", cwd=drawn, framework="keras")
    assert "val_accuracy" in text


def test_torch_resumes_where_it_was_interrupted(drawn: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.pt"
    both = ("held-out", "--batch-size", "16", "--size", "64", "--checkpoint", str(checkpoint), "--every", "5")
    first = run("torch_imagenet.py", *both, "--stop-after", "5", cwd=drawn, framework="torch")
    assert "epoch 0, step 5: loss" in first
    assert checkpoint.exists()
    second = run("torch_imagenet.py", *both, cwd=drawn, framework="torch")
    assert "resumed after step 5" in second
    assert "epoch 1, step 14: loss" in second
    checkpoint.unlink()
    straight = run("torch_imagenet.py", *both, cwd=drawn, framework="torch")
    # The rest of a run that was interrupted is the run that was not.
    assert loss(second, 14) == pytest.approx(loss(straight, 14), abs=2e-3)


def loss(text: str, step: int) -> float:
    found = re.search(rf"step {step}: loss ([\d.]+)", text)
    assert found, text
    return float(found[1])
