"""Ray Train, in a cluster that consists of this machine.

Each test has its own driver, because Ray ends the process of a driver if its cluster fails.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE, SOON

import forebay as fb

pytest.importorskip("torch")
ray = pytest.importorskip("ray")
pytest.importorskip("ray.train.torch")


def drive(folder: Path, name: str) -> Any:
    """Runs the function of this name in this file in a driver, and returns its result."""
    command = [sys.executable, "-W", "ignore", __file__, name, str(folder)]
    # The output goes to a file, because reading a pipe would wait for the cluster's own processes.
    with (folder / "said").open("w") as said:
        done = subprocess.run(command, stdout=said, stderr=said, timeout=PATIENCE)
    assert done.returncode == 0, f"{done.returncode}: {(folder / 'said').read_text()[-5000:]}"
    return json.loads((folder / "result").read_text())


def test_outside_of_a_worker_there_is_no_share(tmp_path: Path) -> None:
    with pytest.raises(fb.InvalidError, match="this is not a worker of Ray Train"):
        fb.ray.shard()
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "0.parquet")
    with fb.Loader(tmp_path) as train:
        with pytest.raises(fb.InvalidError, match="this is not a worker of Ray Train"):
            fb.ray.resume(train)
        with pytest.raises(fb.InvalidError, match="this is not a worker of Ray Train"):
            fb.ray.report({}, train)


def train_function(folder: str) -> None:
    data, shuffle = f"{folder}/rows.parquet", fb.Shuffle(seed=5, window_rows=100)
    with fb.Loader(data, batch_size=20, shuffle=shuffle) as whole:
        try:
            fb.ray.resume(whole)
        except fb.InvalidError as error:
            Path(folder, "refused").write_text(str(error))
    with fb.Loader(data, batch_size=10, shuffle=shuffle, shard=fb.ray.shard()) as train:
        batches = fb.torch.batches(train)
        resumed = fb.ray.resume(batches, lambda folder: Path(folder, "model").read_text())
        with open(f"{folder}/{'second' if resumed else 'first'}-{fb.ray.shard().rank}", "w") as log:
            for step, batch in enumerate(batches):
                if step == 6 and not resumed:
                    # Ray's controller writes this file when it has taken the checkpoint, and ends the other worker.
                    taken = Path(folder, "run", "checkpoint_manager_snapshot.json")
                    logs = [Path(folder, f"first-{rank}") for rank in (0, 1)]
                    deadline = time.monotonic() + SOON
                    while time.monotonic() < deadline and not (
                        taken.exists() and all(len(log.read_text().splitlines()) == 6 for log in logs)
                    ):
                        time.sleep(0.1)
                    os.kill(os.getpid(), signal.SIGKILL)
                print(*batch["id"].tolist(), file=log, flush=True)
                if step == 4 and not resumed:
                    fb.ray.report({"step": step}, batches, lambda folder: Path(folder, "model").write_text("1"))


def training(folder: Path) -> None:
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    trainer = TorchTrainer(
        train_function,
        train_loop_config=str(folder),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=str(folder), failure_config=FailureConfig(max_failures=1)),
    )
    trainer.fit()


def test_a_worker_that_is_killed_is_replaced_and_resumes(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array(range(240), pa.int64())}), tmp_path / "rows.parquet", row_group_size=20)
    drive(tmp_path, "training")
    assert "the train loader has no shard" in (tmp_path / "refused").read_text()
    rows = []
    for rank in (0, 1):
        before = (tmp_path / f"first-{rank}").read_text().splitlines()
        assert len(before) == 6
        after = (tmp_path / f"second-{rank}").read_text().splitlines()
        rows += " ".join(before[:5] + after).split()
    assert sorted(map(int, rows)) == list(range(240))


def warming(folder: Path) -> list[Any]:
    def build() -> fb.Loader:
        cache = fb.DiskCache(folder / "cache", max_bytes="1GB", tier="rows")
        return fb.Loader(folder / "rows.parquet", cache=cache, threads=1)

    (first,), (second,) = fb.ray.warm(build), fb.ray.warm(build)
    with build() as train:
        rows = sum(len(batch["id"]) for batch in train)
        return [ray.nodes()[0]["NodeID"], first, second, rows, train.stats().to_dict()["cache"]["misses"]]


def test_each_node_fills_its_own_cache(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array(range(240), pa.int64())}), tmp_path / "rows.parquet", row_group_size=20)
    node, first, second, rows, misses = drive(tmp_path, "warming")
    assert (first["misses"], first["written"]) == (12, 12)
    assert first["node_id"] == second["node_id"] == node
    assert (second["hits"], second["misses"]) == (12, 0)
    assert (rows, misses) == (240, 0)


def refusals(folder: Path) -> list[str]:
    builds = {
        "train/": fb.InvalidError,
        lambda: fb.Loader(folder / "0.parquet"): fb.InvalidError,
        lambda: fb.Loader(folder / "nothing"): fb.NotFoundError,
    }
    refused = []
    for build, kind in builds.items():
        with pytest.raises(kind) as error:
            fb.ray.warm(build)  # type: ignore[arg-type]
        refused.append(str(error.value))
    # `warm` must not cancel a task that has just ended, because that sometimes makes a Ray driver exit.
    for _ in range(300):
        with pytest.raises(fb.NotFoundError):
            fb.ray.warm(build)
    return refused


def test_a_cache_that_cannot_be_warmed_says_why(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "0.parquet")
    no_function, no_cache, _ = drive(tmp_path, "refusals")
    assert "build must be a function that returns a loader, got str" in no_function
    assert "the loader has no cache to warm" in no_cache


if __name__ == "__main__":
    function, folder = globals()[sys.argv[1]], Path(sys.argv[2])
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    (folder / "result").write_text(json.dumps(function(folder)))
    ray.shutdown()
