"""Finds the coordinates of a process in a mesh: a grid of processes with named axes."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from ..errors import InvalidError
from ..options.checks import kind_of, ordered, whole

__all__: list[str] = []


class Place(NamedTuple):
    """The place of a process in a mesh."""

    rank: int
    """The number of the process, counted along the last axis first."""
    axes: list[tuple[str, int]]
    """The names and the sizes of the axes."""


def names_of(axes: Any) -> list[str]:
    """Checks the names of the axes that divide the data: one name, or several."""
    ordered(axes, "axes")
    found = [axes] if isinstance(axes, str) else list(axes) if isinstance(axes, Iterable) else [axes]
    for name in found:
        if not isinstance(name, str):
            raise InvalidError(f'axes must be names of axes, got {name!r} (pass axes=("dp",))')
    return found


def is_of_jax(mesh: Any) -> bool:
    """Whether this is a mesh of JAX."""
    # An object can be a mesh of a library only if the library was imported.
    jax = sys.modules.get("jax")
    return jax is not None and isinstance(mesh, jax.sharding.Mesh)


def place_in(mesh: Any, rank: Any, of_launcher: Callable[[], tuple[int, int]]) -> Place:
    """The place of a process in a mesh of PyTorch, or in one that is given by names and sizes. ``of_launcher``
    returns the number of this process and the number of processes."""
    torch = sys.modules.get("torch.distributed.device_mesh")
    if torch is not None and isinstance(mesh, torch.DeviceMesh):
        return _in_device_mesh(mesh, rank)
    if not isinstance(mesh, Mapping):
        raise InvalidError(
            "mesh must be a DeviceMesh of PyTorch, a Mesh of JAX or a dict of sizes, got "
            f'{kind_of(mesh)} (pass {{"dp": 4, "tp": 2}}, with the outermost axis first)'
        )
    axes = []
    for name, size in mesh.items():
        if not isinstance(name, str):
            raise InvalidError(f"the axes of a mesh have names, got {name!r} (pass {{'dp': 4, 'tp': 2}})")
        axes.append((name, whole(size, f"mesh[{name!r}]", 1, 32)))
    if rank is not None:
        return Place(whole(rank, "rank", 0, 32), axes)
    found, world = of_launcher()
    processes = math.prod(size for _, size in axes)
    if processes != world:
        raise InvalidError(f"the mesh has {processes} processes, but the launcher started {world} (correct the sizes)")
    return Place(found, axes)


def _in_device_mesh(mesh: Any, rank: Any) -> Place:
    if rank is not None:
        raise InvalidError("rank was given beside a DeviceMesh, which knows it (leave it out)")
    names, sizes = mesh.mesh_dim_names, tuple(mesh.shape)
    if not names:
        raise InvalidError("the dimensions of the DeviceMesh have no names (pass mesh_dim_names= to init_device_mesh)")
    coordinates = mesh.get_coordinate()
    if coordinates is None:
        raise InvalidError("this process is not in the DeviceMesh (pass a mesh of all processes that train)")
    number = 0
    for size, coordinate in zip(sizes, coordinates, strict=True):
        number = number * size + coordinate
    return Place(number, list(zip(names, sizes, strict=True)))
