"""The shard of a process in a mesh, in which only some axes divide the data."""

from __future__ import annotations

import itertools
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import PATIENCE

import forebay as fb

#: Two pipeline stages of three replicas, each with two tensor-parallel parts.
MESH = {"pp": 2, "dp": 3, "tp": 2}


def shards(axes: str | tuple[str, ...]) -> list[tuple[int, int]]:
    """The rank and world of each process, counted in nested loops over the mesh."""
    chosen = (axes,) if isinstance(axes, str) else axes
    places = [dict(zip(MESH, place, strict=True)) for place in itertools.product(*map(range, MESH.values()))]
    keys = [tuple(place[axis] for axis in chosen) for place in places]
    order = sorted(set(keys))
    return [(order.index(key), len(order)) for key in keys]


@pytest.mark.parametrize("axes", ["dp", ("dp",), ("pp", "dp"), ("dp", "pp"), ("pp", "dp", "tp")])
def test_processes_with_the_same_coordinates_have_the_same_rows(axes: str | tuple[str, ...]) -> None:
    found = [fb.Shard.from_mesh(MESH, axes, rank=rank) for rank in range(12)]
    assert [(shard.rank, shard.world) for shard in found] == shards(axes)


def test_the_rank_is_that_of_the_launcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANK", "5")
    monkeypatch.setenv("WORLD_SIZE", "12")
    assert fb.Shard.from_mesh(MESH) == fb.Shard(rank=2, world=3)
    with pytest.raises(fb.InvalidError, match="the mesh has 8 processes, but the launcher started 12"):
        fb.Shard.from_mesh({"dp": 4, "tp": 2})


def test_a_mesh_that_cannot_be_is_refused() -> None:
    for mesh, axes, rank, match in [
        (MESH, "dp", 12, "rank 12 is outside a mesh of 12 processes"),
        (MESH, "data", 0, r"no axis \"data\" \(its axes are pp, dp, tp\)"),
        (MESH, (), 0, "no axis of the mesh divides the data"),
        (MESH, ("dp", "dp"), 0, "named twice"),
        (MESH, {"dp", "pp"}, 0, "axes must have an order, got a set"),
        (MESH, ("dp", 1), 0, "axes must be names of axes, got 1"),
        (MESH, "dp", -1, "rank must be"),
        ({"dp": 0}, "dp", 0, r"mesh\['dp'\] must be"),
        ({1: 4}, "dp", 0, "the axes of a mesh have names, got 1"),
        ([2, 3], "dp", 0, "mesh must be a DeviceMesh of PyTorch, a Mesh of JAX or a dict of sizes, got list"),
    ]:
        with pytest.raises(fb.InvalidError, match=match):
            fb.Shard.from_mesh(mesh, axes, rank=rank)


TORCH = """
    import torch.distributed as dist
    from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
    from torch.testing._internal.distributed.fake_pg import FakeStore
    import forebay as fb

    sizes = {"pp": 2, "dp": 3, "tp": 2}
    for rank in range(12):
        dist.init_process_group("fake", rank=rank, world_size=12, store=FakeStore())
        mesh = init_device_mesh("cpu", tuple(sizes.values()), mesh_dim_names=tuple(sizes))
        for axes in ("dp", ("pp", "dp"), ("dp", "pp")):
            assert fb.Shard.from_mesh(mesh, axes) == fb.Shard.from_mesh(sizes, axes, rank=rank), (rank, axes)
        assert fb.Shard.from_mesh(mesh["dp"]) == fb.Shard(rank=mesh.get_local_rank("dp"), world=3)
        for arguments, match in [
            ((mesh, "data"), 'no axis "data"'),
            ((init_device_mesh("cpu", (12,)), "dp"), "have no names"),
        ]:
            try:
                fb.Shard.from_mesh(*arguments)
            except fb.InvalidError as error:
                assert match in str(error), error
            else:
                raise AssertionError(match)
        dist.destroy_process_group()
    print("done")
"""


def test_a_device_mesh_of_pytorch_says_its_axes_and_this_process(tmp_path: Path) -> None:
    pytest.importorskip("torch.testing._internal.distributed.fake_pg")
    script = tmp_path / "mesh.py"
    script.write_text(textwrap.dedent(TORCH))
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert ran.stdout == "done\n", ran.stderr


def test_a_mesh_of_jax_says_its_axes_and_this_process() -> None:
    jax = pytest.importorskip("jax")
    mesh = jax.make_mesh((1, 1), ("data", "model"))
    assert fb.Shard.from_mesh(mesh, "data") == fb.Shard(rank=0, world=1)
    with pytest.raises(fb.InvalidError, match=r"no axis 'dp' \(its axes are data, model\)"):
        fb.Shard.from_mesh(mesh)
    with pytest.raises(fb.InvalidError, match="rank was given beside a Mesh of JAX"):
        fb.Shard.from_mesh(mesh, "data", rank=0)
