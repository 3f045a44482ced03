"""The metadata of a data set."""

from __future__ import annotations

from . import dataset_metadata, rowgroup_indexers, rowgroup_indexing
from .rowgroup_indexers import RowGroupIndexerBase

__all__ = ["RowGroupIndexerBase", "dataset_metadata", "rowgroup_indexers", "rowgroup_indexing"]
