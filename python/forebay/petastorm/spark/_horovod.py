"""The rank of a process of Horovod, by its environment."""

from __future__ import annotations

import logging
import os
from typing import Any

__all__: list[str] = []

_LOG = logging.getLogger("forebay")

#: Pairs of variables by which a process of Horovod knows its rank.
_HOROVOD = (
    ("HOROVOD_RANK", "HOROVOD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
)


def check_rank(reader_arguments: dict[str, Any]) -> bool:
    """Whether the share is that of this process of Horovod, if it is one. Warns if it is not."""
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
    """Rank and number of processes by the environment, or two times None."""
    for rank_name, size_name in _HOROVOD:
        rank, size = os.environ.get(rank_name), os.environ.get(size_name)
        if rank is not None and size is not None:
            return int(rank), int(size)
        if rank is not None or size is not None:
            break
    return None, None
