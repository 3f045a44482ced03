"""Indexes of the row groups of a data set: in which of them a value occurs, or a field has one."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

__all__ = ["FieldNotNullIndexer", "RowGroupIndexerBase", "SingleFieldIndexer"]


class RowGroupIndexerBase(abc.ABC):
    """The base of indexes."""

    @property
    @abc.abstractmethod
    def index_name(self) -> str:
        """The name by which selectors know it."""

    @property
    @abc.abstractmethod
    def column_names(self) -> list[str]:
        """The fields that it looks at."""

    @property
    @abc.abstractmethod
    def indexed_values(self) -> list[Any]:
        """The values that it knows."""

    @abc.abstractmethod
    def get_row_group_indexes(self, value_key: Any) -> set[int]:
        """The numbers of the row groups with a value."""

    @abc.abstractmethod
    def build_index(self, decoded_rows: Iterable[Mapping[str, Any]], piece_index: int) -> Any:
        """Adds rows of the row group with this number."""

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
    """In which row groups each value of a field occurs; of arrays, each of their values."""

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
                # Scalars of numpy are found by the plain values that they equal.
                plain = one.item() if isinstance(one, np.generic) else one
                self._index_data.setdefault(plain, set()).add(piece_index)
        return self._index_data

    def __add__(self, other: Any) -> SingleFieldIndexer:
        _check_same(self, other)
        for value, numbers in other._index_data.items():
            self._index_data.setdefault(value, set()).update(numbers)
        return self


class FieldNotNullIndexer(_OfField):
    """In which row groups a field has a value. It is asked for any value, such as None."""

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
