"""Indexes of the row groups of a data set: an index says in which row groups each value of a field occurs, or
in which row groups the field is not null in some row."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["FieldNotNullIndexer", "RowGroupIndexerBase", "SingleFieldIndexer"]


class RowGroupIndexerBase(abc.ABC):
    """The base class of indexes."""

    @property
    @abc.abstractmethod
    def index_name(self) -> str:
        """The name of the index, which selectors use."""

    @property
    @abc.abstractmethod
    def column_names(self) -> list[str]:
        """The fields that are indexed."""

    @property
    @abc.abstractmethod
    def indexed_values(self) -> list[Any]:
        """The keys for which :meth:`get_row_group_indexes` finds row groups."""

    @abc.abstractmethod
    def get_row_group_indexes(self, value_key: Any) -> set[int]:
        """Returns the numbers of the row groups that contain the value ``value_key``."""

    @abc.abstractmethod
    def build_index(self, decoded_rows: Iterable[Mapping[str, Any]], piece_index: int) -> Any:
        """Adds rows of the row group with the number ``piece_index`` to the index."""

    @abc.abstractmethod
    def __add__(self, other: Any) -> Any:
        """Adds the row groups of another index of the same field."""


class _OfField(RowGroupIndexerBase):
    """An index of one field."""

    def __init__(self, index_name: str, index_field: str) -> None:
        self._index_name = index_name
        self._column_name = index_field

    @property
    def index_name(self) -> str:
        return self._index_name

    @property
    def column_names(self) -> list[str]:
        return [self._column_name]


class SingleFieldIndexer(_OfField):
    """Indexes in which row groups each value of a field occurs. For a field of arrays it indexes the values
    in the arrays."""

    def __init__(self, index_name: str, index_field: str) -> None:
        super().__init__(index_name, index_field)
        self._index_data: dict[Any, set[int]] = {}

    @property
    def indexed_values(self) -> list[Any]:
        return list(self._index_data)

    def get_row_group_indexes(self, value_key: Any) -> set[int]:
        return set(self._index_data.get(value_key, ()))

    def build_index(self, decoded_rows: Iterable[Mapping[str, Any]], piece_index: int) -> dict[Any, set[int]]:
        for row in decoded_rows:
            value = row[self._column_name]
            values = value.ravel().tolist() if isinstance(value, np.ndarray) else [] if value is None else [value]
            for one in values:
                # Keys are plain Python values. A lookup with an equal numpy scalar finds them too.
                plain = one.item() if isinstance(one, np.generic) else one
                self._index_data.setdefault(plain, set()).add(piece_index)
        return self._index_data

    def __add__(self, other: Any) -> SingleFieldIndexer:
        _check_same(self, other)
        for value, numbers in other._index_data.items():
            self._index_data.setdefault(value, set()).update(numbers)
        return self


class FieldNotNullIndexer(_OfField):
    """Indexes the row groups in which a field is not null in at least one row. The method
    ``get_row_group_indexes`` returns all of them for any key."""

    def __init__(self, index_name: str, index_field: str) -> None:
        super().__init__(index_name, index_field)
        self._index_data: set[int] = set()

    @property
    def indexed_values(self) -> list[Any]:
        return ["Field is Not Null"]

    def get_row_group_indexes(self, value_key: Any = None) -> set[int]:
        return set(self._index_data)

    def build_index(self, decoded_rows: Iterable[Mapping[str, Any]], piece_index: int) -> set[int]:
        if any(row[self._column_name] is not None for row in decoded_rows):
            self._index_data.add(piece_index)
        return self._index_data

    def __add__(self, other: Any) -> FieldNotNullIndexer:
        _check_same(self, other)
        self._index_data |= other._index_data
        return self


def _check_same(index: RowGroupIndexerBase, other: Any) -> None:
    if type(other) is not type(index):
        raise TypeError(f"{type(index).__name__} cannot be added to {type(other).__name__}")
    if other.column_names != index.column_names:
        raise ValueError(f"the indexes are of the fields {index.column_names} and {other.column_names}")
