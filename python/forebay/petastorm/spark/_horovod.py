"""Finds the rank of a Horovod process from its environment."""

from __future__ import annotations

import logging
import os
from typing import Any

__all__: list[str] = []

_LOG = logging.getLogger("forebay")

#: The pairs of environment variables in which Horovod and MPI set the rank and the number of processes.
_HOROVOD = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def check_rank(reader_arguments: dict[str, Any]) -> bool:
    """Returns False, with a warning, if this is a Horovod process and the reader's shard is not that of its
    rank; otherwise returns True."""
    rank, size = _rank_and_size()
    shard = reader_arguments.get("cur_shard"), reader_arguments.get("shard_count")
    if rank is None or shard == (rank, size):
        return True
    _LOG.warning(
        "cur_shard=%s and shard_count=%s, but Horovod says rank %s of %s (pass cur_shard=hvd.rank() and "
        "shard_count=hvd.size(), so that each process reads its own share)",
        *shard,
        rank,
        size,
    )
    return False


def _rank_and_size() -> tuple[int | None, int | None]:
    """Returns the rank and the number of processes from the environment; both are None if they are not
    set."""
    for rank_name, size_name in _HOROVOD:
        rank, size = os.environ.get(rank_name), os.environ.get(size_name)
        if rank is not None and size is not None:
            return int(rank), int(size)
        if rank is not None or size is not None:
            break
    return None, None
