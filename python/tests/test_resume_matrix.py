"""Every installed trainer resumes with each row exactly once, after SIGKILL and in a new process.

These are a few cases of ``benches/resume``, which has all of them and compares with the trainers' own
loaders. The runs are those of ``forebay verify --trainer``.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE

from forebay.program.trainers.registry import TRAINERS

MATRIX = Path(__file__).resolve().parents[2] / "benches" / "resume"

CASES = [
    # `test_verify_trainer.py` tests a plain loop in one process, and counts the rows that a DataLoader repeats there.
    *((trainer, 1, "middle") for trainer in TRAINERS if trainer not in ("torch", "spark")),
    ("torch", 2, "border"),
    ("torchdata", 2, "middle"),
    ("lightning", 2, "border"),
    ("accelerate", 2, "middle"),
    ("hf", 2, "middle"),
    ("ray", 2, "middle"),
    ("spark", 2, "middle"),
]


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX signals")
@pytest.mark.parametrize(("trainer", "world", "place"), CASES)
def test_each_row_is_trained_exactly_once_in_an_epoch(trainer: str, world: int, place: str) -> None:
    # Spark is large, and the tests do not install it.
    missing = TRAINERS[trainer].missing()
    if missing is not None:
        pytest.skip(missing)
    options = ["--trainers", trainer, "--sources", "forebay", "--worlds", str(world), "--places", place]
    done = subprocess.run([sys.executable, str(MATRIX), *options], capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    (line,) = done.stdout.splitlines()[2:]
    assert line.endswith("| each exactly once in an epoch |"), line
