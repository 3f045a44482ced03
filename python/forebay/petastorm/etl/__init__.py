"""What is known of a data set beside its rows."""

from __future__ import annotations

from . import dataset_metadata

__all__ = ["dataset_metadata"]
