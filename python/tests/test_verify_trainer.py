"""``forebay verify --trainer``: its report on a trainer, and what it refuses."""

from __future__ import annotations

import importlib.util
import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE

from forebay.program.trainers import ledger, registry

ROWS = 250

pytestmark = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX signals")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    folder = tmp_path / "data"
    folder.mkdir()
    for file in range(2):
        ids = list(range(file * ROWS // 2, (file + 1) * ROWS // 2))
        pq.write_table(
            pa.table({"text": [str(row) for row in ids], "id": ids}), folder / f"{file}.parquet", row_group_size=20
        )
    return folder


def forebay(*arguments: str, code: str | None = None) -> subprocess.CompletedProcess[str]:
    command = ["-m", "forebay"] if code is None else ["-c", code]
    return subprocess.run([sys.executable, *command, *arguments], capture_output=True, text=True, timeout=PATIENCE)


def test_a_trainer_is_killed_and_resumed_with_both_loaders(data: Path, tmp_path: Path) -> None:
    pytest.importorskip("torch")
    report = tmp_path / "report.json"
    done = forebay("verify", str(data), "--trainer", "torch", "--batch-size", "24", "--json", str(report))
    assert done.returncode == 0, done.stderr
    said: dict[str, Any] = json.loads(report.read_text())
    assert (said["rows"], said["steps"], said["step_rows"], said["left_out"]) == (ROWS, 10, 24, 10)
    # In each of the two epochs, ten rows do not fill a step; the second epoch leaves out other rows than the first.
    assert said["forebay"] == {"once": 480, "twice": 0, "never": 20, "planned_never": 20, "is_each_epoch": True}
    # On resume, the trainer's own loader begins the epoch again, so the rows of its first four steps come twice.
    assert said["own"] == {"once": 480, "twice": 96, "never": 0, "planned_never": 0, "is_each_epoch": False}
    first, left_out, own_line, *rest = done.stdout.splitlines()
    assert first.startswith("a plain PyTorch loop 2."), done.stdout
    assert first.endswith("on 1 rank; killed after 6 steps and resumed on one rank from the checkpoint after 4")
    assert left_out == "10 rows of each epoch do not fill a step and are left out"
    assert own_line == "forebay         480 once, 0 twice or more, 0 never: each row once in an epoch"
    assert rest == ["its own loader  480 once, 96 twice or more, 0 never (DataLoader with DistributedSampler)"]


def test_spark_is_killed_and_resumed_with_the_loader_of_its_partitions(data: Path, tmp_path: Path) -> None:
    # Spark is large, and the tests do not install it.
    missing = registry.TRAINERS["spark"].missing()
    if missing is not None:
        pytest.skip(missing)
    report = tmp_path / "report.json"
    done = forebay("verify", str(data), "--trainer", "spark", "--batch-size", "24", "--json", str(report))
    assert done.returncode == 0, done.stdout + done.stderr
    said: dict[str, Any] = json.loads(report.read_text())
    assert said["forebay"] == {"once": 480, "twice": 0, "never": 0, "planned_never": 0, "is_each_epoch": True}
    assert said["own"] == {"once": 480, "twice": 96, "never": 0, "planned_never": 0, "is_each_epoch": False}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--trainer", "keras", "--world", "2"], "Keras trains in one process here, got --world 2 (leave it out)"),
        (["--trainer", "torch", "--batch-size", "100"], "needs 8 (--batch-size 31 fits)"),
        (["--trainer", "torch", "--order", "stored"], "verifying a trainer always shuffles through a window (leave out --order)"),
        (["--trainer", "torch", "--plant", "swap"], "cannot be used with"),
        (["--trainer", "flax"], "invalid value 'flax'"),
    ],
)
def test_what_cannot_be_run_is_refused_before_anything_starts(data: Path, arguments: list[str], said: str) -> None:
    if "keras" in arguments and importlib.util.find_spec("keras") is None:
        pytest.skip("keras is not installed")
    pytest.importorskip("torch")
    done = forebay("verify", str(data), *arguments)
    assert done.returncode == 2, done.stdout
    assert said in done.stderr, done.stderr


def test_a_framework_that_is_not_installed_is_named_with_its_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry.importlib.util, "find_spec", lambda name: None)
    said = {name: trainer.missing() for name, trainer in registry.TRAINERS.items()}
    assert said["lightning"] == "Lightning is not installed: lightning is missing (pip install lightning)"
    assert said["ray"] == "Ray Train is not installed: ray is missing (pip install 'ray[train]' torch)"
    assert all(sentence and "pip install" in sentence for sentence in said.values())


@pytest.mark.parametrize(
    ("trained", "once", "twice", "never", "is_each_epoch"),
    [
        ([[0, 1], [2, 3], [3, 1], [0, 2]], 8, 0, 0, True),
        ([[0, 1], [2, 2], [3, 1], [0, 3]], 8, 0, 0, False),
        ([[0, 1], [2, 3], [0, 1], [0, 2]], 7, 1, 1, False),
        ([[0, 1], [2, 3], [3, 1]], 6, 0, 2, True),
        ([[0, 1], [2, 3], [3, 1], [0, 2], [0, 1]], 8, 2, 0, False),
    ],
)
def test_rows_are_counted_over_the_run_and_in_each_epoch(
    trained: list[list[int]], once: int, twice: int, never: int, is_each_epoch: bool
) -> None:
    counted = ledger.count(trained, range(4), 2, 2)
    assert (counted.once, counted.twice, counted.never) == (once, twice, never)
    assert counted.is_each_epoch is is_each_epoch
