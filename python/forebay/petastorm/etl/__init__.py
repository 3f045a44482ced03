"""The metadata of a data set."""

from __future__ import annotations

from . import dataset_metadata

__all__ = ["dataset_metadata"]
