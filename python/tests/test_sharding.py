"""The shard of a JAX process, from the sharding of a batch."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import textwrap
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE, small
from servers.process import free_port

import forebay as fb
from forebay.sharding.devices import place_of


def ranges(*of: tuple[int, int]) -> frozenset[tuple[int, int]]:
    return frozenset(of)


def test_processes_of_one_replica_have_one_rank() -> None:
    rows = {0: ranges((0, 2)), 1: ranges((2, 4)), 2: ranges((0, 2)), 3: ranges((2, 4))}
    assert [place_of(process, rows) for process in rows] == [{"rank": rank, "world": 2} for rank in (0, 1, 0, 1)]


def test_ranks_follow_the_order_of_the_rows_and_share_them_once() -> None:
    draw = random.Random(3)
    for _ in range(200):
        world, replicas, devices = draw.randint(1, 6), draw.randint(1, 3), draw.randint(1, 3)
        cuts = list(range(world * devices))
        draw.shuffle(cuts)
        groups = [ranges(*((cut, cut + 1) for cut in cuts[at::world])) for at in range(world)]
        processes = [at for at in range(world) for _ in range(replicas)]
        draw.shuffle(processes)
        rows = {process: groups[at] for process, at in enumerate(processes)}
        places = {process: place_of(process, rows) for process in rows}
        for process, place in places.items():
            assert place["world"] == world
            assert {other for other in rows if places[other] == place} == {
                other for other in rows if rows[other] == rows[process]
            }
        firsts = sorted((min(rows[process])[0], place["rank"]) for process, place in places.items())
        assert [rank for _, rank in firsts] == sorted(rank for _, rank in firsts)


def test_rows_that_are_shared_in_part_are_refused() -> None:
    with pytest.raises(fb.InvalidError, match="processes 0 and 1 share some rows of a batch, but not all"):
        place_of(0, {0: ranges((0, 1), (1, 2)), 1: ranges((1, 2), (2, 3))})
    with pytest.raises(fb.InvalidError, match="from 1 to 2 parts of the rows"):
        place_of(0, {0: ranges((0, 1), (1, 2)), 1: ranges((2, 3))})
    with pytest.raises(fb.InvalidError, match="has no device of this process, 2"):
        place_of(2, {0: ranges((0, 1))})


def test_what_is_not_a_sharding_is_refused(plain: Path) -> None:
    jax = pytest.importorskip("jax")
    with pytest.raises(fb.InvalidError, match=r"sharding must be a jax.sharding.Sharding, got 'data'"):
        fb.Shard.from_sharding("data")
    # A sharding that covers only this process does not say which shard it has, so the loader keeps its own.
    sharding = jax.sharding.SingleDeviceSharding(jax.devices("cpu")[0])
    with small(plain, shard=fb.Shard(rank=1, world=2)) as train:
        assert len(list(fb.jax.batches(train, sharding=sharding))) == len(train)
        with pytest.raises(fb.InvalidError, match="ahead must be"):
            fb.jax.batches(train, ahead=-1)


PROCESS = """
    import os, sys
    import numpy as np
    import jax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
    jax.distributed.initialize(sys.argv[1], num_processes=2, process_id=int(sys.argv[2]))
    import forebay as fb

    def rows(mesh, spec):
        sharding = NamedSharding(mesh, spec)
        shard = fb.Shard.from_sharding(sharding)
        loader = fb.Loader(sys.argv[3], columns=["id"], batch_size=100 // shard.world, shard=shard, threads=1)
        with loader as train:
            batch = next(iter(fb.jax.batches(train, sharding=sharding)))["id"]
            assert batch.shape == (100,), batch.shape
            return shard, sorted(int(row) for piece in batch.addressable_shards for row in np.asarray(piece.data))

    devices = np.array(jax.devices()).reshape(2, 2)
    # Each process has one half of the rows.
    shard, own = rows(Mesh(devices, ("data", "model")), P("data"))
    assert shard == fb.Shard(rank=jax.process_index(), world=2), shard
    assert len(set(own)) == 50 and len(own) == 100, own
    # Both processes are one replica: each has all rows.
    shard, own = rows(Mesh(devices.T, ("data", "model")), P("data"))
    assert fb.Shard.from_sharding(NamedSharding(Mesh(devices.T, ("data", "model")), P("data", "model"))) == shard
    assert shard == fb.Shard(rank=0, world=1), shard
    assert own == list(range(100)), own
    try:
        with fb.Loader(sys.argv[3], shard=fb.Shard(rank=jax.process_index(), world=2)) as train:
            fb.jax.batches(train, sharding=NamedSharding(Mesh(devices.T, ("data", "model")), P("data")))
    except fb.InvalidError as error:
        print(error)
"""


def test_two_processes_of_jax_agree(plain: Path) -> None:
    pytest.importorskip("jax")
    address = f"127.0.0.1:{free_port()}"
    environ = {**os.environ, "JAX_PLATFORMS": "cpu", "XLA_FLAGS": "--xla_force_host_platform_device_count=2"}
    command = [sys.executable, "-c", textwrap.dedent(PROCESS), address]
    processes = [
        subprocess.Popen(
            [*command, str(rank), str(plain)], env=environ, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        for rank in (0, 1)
    ]
    try:
        said = [process.communicate(timeout=PATIENCE) for process in processes]
    finally:
        for process in processes:
            process.kill()
    for process, (out, err) in zip(processes, said, strict=True):
        assert process.returncode == 0, err[-3000:]
        assert "but this sharding makes this process forebay.Shard(rank=0, world=1) (pass shard=" in out


@pytest.mark.parametrize("shuffle", [None, fb.Shuffle(seed=3), fb.Shuffle.exact(seed=3)])
def test_more_ranks_than_rows_repeat_rows_and_their_state_resumes_on_fewer(tmp_path, shuffle):
    path = tmp_path / "two.parquet"
    pq.write_table(pa.table({"id": [0, 1]}), path)

    def ranks(world):
        shards = [fb.Shard(rank=rank, world=world) for rank in range(world)]
        return [fb.Loader(path, shard=shard, batch_size=1, shuffle=shuffle) for shard in shards]

    loaders = ranks(4)
    batches = [[batch["id"].tolist() for batch in loader] for loader in loaders]
    assert [len(steps) for steps in batches] == [1] * 4
    assert {row for steps in batches for step in steps for row in step} == {0, 1}
    for world in (1, 2, 7):
        resumed = ranks(world)
        for loader in resumed:
            loader.load_state_dict(loaders[0].state_dict())
        later = {row for loader in resumed for batch in loader for row in batch["id"].tolist()}
        assert later == {0, 1}
