"""FSDP and DeepSpeed under torchrun need no adapter: a shard, and the loader's state in or beside the
checkpoint."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE

pytest.importorskip("torch")

ROWS, STEPS, EPOCHS = 240, 10, 2

TRAIN = """
    import json, os, signal, sys
    import torch, torch.distributed as dist
    import forebay as fb

    data, folder, kill = sys.argv[1], sys.argv[2], int(sys.argv[3])
    model = torch.nn.Sequential(torch.nn.Linear(1, 4), torch.nn.Linear(4, 1))
    {begin}
    shard = fb.Shard.from_env()
    train = fb.Loader(data, batch_size=24 // shard.world, shuffle=fb.Shuffle(seed=3, window_rows=100), shard=shard,
                      threads=1, epochs=2)
    steps, resumed = 0, os.path.exists(f"{{folder}}/saved")
    if resumed:
        {load}
        train.load_state_dict(state)
    log = open(f"{{folder}}/{{'second' if resumed else 'first'}}-{{shard.rank}}", "w")
    while train.state_dict()["epoch"] < 2:
        for batch in fb.torch.batches(train):
            if steps == kill and shard.rank == 0:
                os.kill(os.getpid(), signal.SIGKILL)
            print(*batch["id"].tolist(), file=log, flush=True)
            {step}
            dist.barrier()
            steps += 1
            if steps == 4 and not resumed:
                {save}
                if shard.rank == 0:
                    open(f"{{folder}}/saved", "w").close()
    dist.destroy_process_group()
"""

FSDP = {
    "begin": """
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    for layer in [*model, model]:
        fully_shard(layer, mesh=mesh)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    """,
    "step": """
            model(batch["id"].float()[:, None]).mean().backward()
            optimizer.step()
            optimizer.zero_grad()
    """,
    "save": """
                if shard.rank == 0:
                    json.dump(train.state_dict(), open(f"{folder}/state.json", "w"))
    """,
    "load": """
        state = json.load(open(f"{folder}/state.json"))
    """,
}

DEEPSPEED = {
    "begin": """
    import deepspeed
    deepspeed.init_distributed(dist_backend="gloo")
    config = {"train_micro_batch_size_per_gpu": 24 // dist.get_world_size(), "zero_optimization": {"stage": 1},
              "zero_allow_untested_optimizer": True}
    engine, *_ = deepspeed.initialize(model=model, optimizer=torch.optim.SGD(model.parameters(), lr=1e-6), config=config)
    """,
    "step": """
            engine.backward(engine(batch["id"].float()[:, None]).mean())
            engine.step()
    """,
    "save": """
                engine.save_checkpoint(folder, "step", client_state={"loader": train.state_dict()})
    """,
    "load": """
        state = engine.load_checkpoint(folder, "step", load_module_only=True)[1]["loader"]
    """,
}


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="POSIX signals")
@pytest.mark.parametrize("engine", ["fsdp", "deepspeed"])
def test_a_sharded_model_resumes_in_another_world(tmp_path: Path, engine: str) -> None:
    if engine == "deepspeed":
        pytest.importorskip("deepspeed")
    parts = {"fsdp": FSDP, "deepspeed": DEEPSPEED}[engine]
    pq.write_table(pa.table({"id": pa.array(range(ROWS), pa.int64())}), tmp_path / "rows.parquet", row_group_size=20)
    script = tmp_path / "train.py"
    script.write_text(textwrap.dedent(TRAIN.format(**{name: text.strip() for name, text in parts.items()})))
    environment = {**os.environ, "DS_ACCELERATOR": "cpu"}

    def run(world: int, kill: int) -> int:
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={world}"]
        command = [*torchrun, str(script), str(tmp_path / "rows.parquet"), str(tmp_path), str(kill)]
        # DeepSpeed compiles an operator when it is used for the first time on a machine.
        done = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE, env=environment)
        said.append(done.stderr[-3000:])
        return done.returncode

    said: list[str] = []
    assert run(2, 6) != 0
    assert (tmp_path / "saved").exists(), said
    assert run(1, -1) == 0, said

    def steps(phase: str, world: int) -> list[list[int]]:
        logs = [(tmp_path / f"{phase}-{rank}").read_text().splitlines() for rank in range(world)]
        return [[int(row) for line in lines for row in line.split()] for lines in zip(*logs, strict=False)]

    trained = steps("first", 2)[:4] + steps("second", 1)
    assert len(trained) == EPOCHS * STEPS
    for epoch in range(EPOCHS):
        rows = [row for step in trained[epoch * STEPS : (epoch + 1) * STEPS] for row in step]
        assert sorted(rows) == list(range(ROWS))
