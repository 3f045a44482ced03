"""Every trainer that is installed resumes with each row exactly once, after SIGKILL and in a new process.

These are a few cases of ``benches/resume``, which has all of them and compares with the trainers' own loaders.
"""

from __future__ import annotations

import importlib.util
import signal
import subprocess
import sys
from pathlib import Path

import pytest

MATRIX = Path(__file__).resolve().parents[2] / "benches" / "resume"

PACKAGES = {
    "plain": ["torch"],
    "stateful": ["torchdata"],
    "lightning": ["lightning"],
    "accelerate": ["accelerate"],
    "transformers": ["transformers", "accelerate"],
    "keras": ["keras", "torch"],
    "ray": ["ray", "torch"],
    # Large, and not among what the tests install.
    "spark": ["pyspark", "torch"],
}

CASES = [
    *((trainer, 1, "middle") for trainer in PACKAGES if trainer != "spark"),
    ("plain", 2, "border"),
    ("stateful", 2, "middle"),
    ("lightning", 2, "border"),
    ("accelerate", 2, "middle"),
    ("transformers", 2, "middle"),
    ("ray", 2, "middle"),
    ("spark", 2, "middle"),
]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX signals")
@pytest.mark.parametrize(("trainer", "world", "place"), CASES)
def test_each_row_is_trained_exactly_once_in_an_epoch(trainer: str, world: int, place: str) -> None:
    for package in PACKAGES[trainer]:
        if importlib.util.find_spec(package) is None:
            pytest.skip(f"{package} is not installed")
    options = ["--trainers", trainer, "--sources", "forebay", "--worlds", str(world), "--places", place]
    done = subprocess.run([sys.executable, str(MATRIX), *options], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()[2:]
    assert line.endswith("| each exactly once in an epoch |"), line


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX signals")
def test_the_matrix_sees_rows_that_are_repeated() -> None:
    pytest.importorskip("torch")
    options = ["--trainers", "plain", "--sources", "own", "--worlds", "1", "--places", "middle"]
    done = subprocess.run([sys.executable, str(MATRIX), *options], capture_output=True, text=True, timeout=600)
    assert done.stdout.splitlines()[-1].endswith("| 0 lost, 96 repeated |"), done.stdout + done.stderr
