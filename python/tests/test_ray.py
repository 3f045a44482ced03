"""The door to Ray Train, in a cluster of this machine alone."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

pytest.importorskip("torch")
ray = pytest.importorskip("ray")
pytest.importorskip("ray.train.torch")


@pytest.fixture(scope="module")
def cluster() -> Any:
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_outside_of_a_worker_there_is_no_share(tmp_path: Path) -> None:
    with pytest.raises(fb.InvalidError, match="this is not a worker of Ray Train"):
        fb.ray.shard()
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "0.parquet")
    with fb.Loader(tmp_path) as train:
        with pytest.raises(fb.InvalidError, match="this is not a worker of Ray Train"):
            fb.ray.resume(train)
        with pytest.raises(fb.InvalidError, match="this is not a worker of Ray Train"):
            fb.ray.report({}, train)


def test_a_worker_that_is_killed_is_replaced_and_resumes(tmp_path: Path, cluster: Any) -> None:
    from ray.train import FailureConfig, RunConfig, ScalingConfig
    from ray.train.torch import TorchTrainer

    pq.write_table(pa.table({"id": pa.array(range(240), pa.int64())}), tmp_path / "rows.parquet", row_group_size=20)

    def train_function(folder: str) -> None:
        import os
        import signal
        import time
        from pathlib import Path

        import forebay as fb

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
                        # Ray's controller looks for checkpoints once in a second.
                        time.sleep(3)
                        os.kill(os.getpid(), signal.SIGKILL)
                    print(*batch["id"].tolist(), file=log, flush=True)
                    if step == 4 and not resumed:
                        fb.ray.report({"step": step}, batches, lambda folder: Path(folder, "model").write_text("1"))

    trainer = TorchTrainer(
        train_function,
        train_loop_config=str(tmp_path),
        scaling_config=ScalingConfig(num_workers=2),
        run_config=RunConfig(name="run", storage_path=str(tmp_path), failure_config=FailureConfig(max_failures=1)),
    )
    trainer.fit()
    assert "the train loader has no shard" in (tmp_path / "refused").read_text()
    rows = []
    for rank in (0, 1):
        before = (tmp_path / f"first-{rank}").read_text().splitlines()
        assert len(before) == 6
        after = (tmp_path / f"second-{rank}").read_text().splitlines()
        rows += " ".join(before[:5] + after).split()
    assert sorted(map(int, rows)) == list(range(240))


def test_each_node_fills_its_own_cache(tmp_path: Path, cluster: Any) -> None:
    pq.write_table(pa.table({"id": pa.array(range(240), pa.int64())}), tmp_path / "rows.parquet", row_group_size=20)

    def build() -> fb.Loader:
        import forebay as fb

        cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GB")
        return fb.Loader(tmp_path / "rows.parquet", cache=cache, threads=1)

    (node,) = fb.ray.warm(build)
    assert (node["misses"], node["written"]) == (12, 12)
    assert node["node_id"] == ray.nodes()[0]["NodeID"]
    (node,) = fb.ray.warm(build)
    assert (node["hits"], node["misses"]) == (12, 0)
    with build() as train:
        assert sum(len(batch["id"]) for batch in train) == 240
        assert train.stats().to_dict()["cache"]["misses"] == 0


def test_a_cache_that_cannot_be_warmed_says_why(tmp_path: Path, cluster: Any) -> None:
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "0.parquet")
    with pytest.raises(fb.InvalidError, match="build must be a function that returns a loader, got str"):
        fb.ray.warm("train/")  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="there is no cache to warm"):
        fb.ray.warm(lambda: fb.Loader(tmp_path))
    with pytest.raises(fb.NotFoundError):
        fb.ray.warm(lambda: fb.Loader(tmp_path / "nothing"))
