"""Writes and reads the metadata of Petastorm data sets: schemas, and indexes of row groups."""

from __future__ import annotations

from . import dataset_metadata, rowgroup_indexers, rowgroup_indexing
from .rowgroup_indexers import RowGroupIndexerBase

__all__ = ["RowGroupIndexerBase", "dataset_metadata", "rowgroup_indexers", "rowgroup_indexing"]
