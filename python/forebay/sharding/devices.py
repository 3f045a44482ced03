"""Finds the shard of a process from the rows of a batch that its JAX devices hold."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

from ..errors import InvalidError

__all__: list[str] = []

#: A set of rows of a batch, as ranges: the first row, and the row after the last.
Ranges = frozenset[tuple[int, int]]


def rows_of_processes(sharding: Any) -> tuple[int, dict[int, Ranges]]:
    """Returns the number of this process, and by process the rows of a batch that its devices hold."""
    # An object can be a sharding only if JAX was imported.
    jax = sys.modules.get("jax")
    if jax is None or not isinstance(sharding, jax.sharding.Sharding):
        raise InvalidError(f"sharding must be a jax.sharding.Sharding, got {sharding!r}")
    if isinstance(sharding, jax.sharding.NamedSharding):
        # Only the first dimension of the batch matters here, because it has the rows.
        first = sharding.spec[0] if len(sharding.spec) else None
        sharding = jax.sharding.NamedSharding(sharding.mesh, jax.sharding.PartitionSpec(first))
    # A batch with one row for each device can be divided by every sharding over these devices.
    total = len(sharding.device_set)
    rows: dict[int, set[tuple[int, int]]] = {}
    for device, (of_device, *_) in sharding.devices_indices_map((total,)).items():
        start, stop, _ = of_device.indices(total)
        rows.setdefault(device.process_index, set()).add((start, stop))
    return jax.process_index(), {process: frozenset(ranges) for process, ranges in rows.items()}


def sharding_of(mesh: Any, axes: list[str]) -> Any:
    """The sharding of a batch whose rows these axes of a mesh of JAX divide."""
    unknown = [name for name in axes if name not in mesh.axis_names]
    if unknown or not axes:
        cause = f"the mesh has no axis {unknown[0]!r}" if unknown else "no axis of the mesh divides the data"
        raise InvalidError(f"{cause} (its axes are {', '.join(map(str, mesh.axis_names))})")
    jax = sys.modules["jax"]
    return jax.sharding.NamedSharding(mesh, jax.sharding.PartitionSpec(tuple(axes)))


def place_of(process: int, rows: Mapping[int, Ranges]) -> dict[str, int]:
    """Rank and world size of a process, from the rows of a batch that each process has.

    Raises
    ------
    InvalidError
        Two processes share only some of their rows, or processes have different numbers of rows.
    """
    if process not in rows:
        raise InvalidError(
            f"the sharding has no device of this process, {process} (make its mesh of devices of all processes)"
        )
    places = sorted(set(rows.values()), key=sorted)
    owners: dict[tuple[int, int], int] = {}
    for place, ranges in enumerate(places):
        for one in ranges:
            if owners.setdefault(one, place) != place:
                first = min(at for at, has in rows.items() if has == places[owners[one]])
                second = min(at for at, has in rows.items() if has == places[place])
                raise InvalidError(
                    f"processes {first} and {second} share some rows of a batch, but not all (divide the "
                    "rows "
                    "so that two processes have the same rows or none in common)"
                )
    sizes = {sum(stop - start for start, stop in ranges) for ranges in places}
    if len(sizes) > 1:
        raise InvalidError(
            f"the sharding gives processes from {min(sizes)} to {max(sizes)} parts of the rows of a batch "
            "(give each process the same number)"
        )
    return {"rank": places.index(rows[process]), "world": len(places)}
