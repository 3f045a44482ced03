"""FSDP under torchrun needs no door: a shard, and the loader's state beside the checkpoint."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("torch")

ROWS, STEPS, EPOCHS = 240, 10, 2

TRAIN = """
    import json, os, signal, sys
    import torch, torch.distributed as dist
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    import forebay as fb

    data, folder, kill = sys.argv[1], sys.argv[2], int(sys.argv[3])
    dist.init_process_group("gloo")
    shard = fb.Shard.from_env()
    train = fb.Loader(data, batch_size=24 // shard.world, shuffle=fb.Shuffle(seed=3, window_rows=100), shard=shard,
                      threads=1, epochs=2)
    model = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Linear(4, 1))
    mesh = init_device_mesh("cpu", (shard.world,))
    for layer in model:
        fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    path, steps = f"{folder}/state.json", 0
    resumed = os.path.exists(path)
    if resumed:
        train.load_state_dict(json.load(open(path)))
    log = open(f"{folder}/{'second' if resumed else 'first'}-{shard.rank}", "w")
    while train.state_dict()["epoch"] < 2:
        for batch in fb.torch.batches(train):
            if steps == kill and shard.rank == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            print(*batch["id"].tolist(), file=log, flush=True)
            model(batch["id"].float()[:, None]).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
            dist.barrier()
            steps += 1
            if steps == 4 and not resumed and shard.rank == 0:
                json.dump(train.state_dict(), open(path + ".part", "w"))
                os.replace(path + ".part", path)
    dist.destroy_process_group()
"""


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX signals")
def test_a_sharded_model_resumes_in_another_world(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64())}), tmp_path / "rows.parquet", row_group_size=20)
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TRAIN))

    def run(world: int, kill: int) -> int:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
        command = [*torchrun, str(script), str(tmp_path / "rows.parquet"), str(tmp_path), str(kill)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=180)
        said.append(done.stderr[-3000:])
        return done.returncode

    said: list[str] = []
    assert run(2, 6) != 0
    assert json.loads((tmp_path / "state.json").read_text())["row"] == 4 * 24, said
    assert run(1, -1) == 0, said

    def steps(phase: str, world: int) -> list[list[int]]:
        logs = [(tmp_path / f"{phase}-{rank}").read_text().splitlines() for rank in range(world)]
        return [[int(row) for line in lines for row in line.split()] for lines in zip(*logs, strict=False)]

    trained = steps("first", 2)[:4] + steps("second", 1)
    assert len(trained) == EPOCHS * STEPS
    for epoch in range(EPOCHS):
        rows = [row for step in trained[epoch * STEPS : (epoch + 1) * STEPS] for row in step]
        assert sorted(rows) == list(range(ROWS))
