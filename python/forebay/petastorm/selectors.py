"""The selectors of Petastorm, which select row groups by an index that is stored in the data set. A user
passes one to a reader as ``rowgroup_selector``."""

from __future__ import annotations

import abc
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["IntersectIndexSelector", "RowGroupSelectorBase", "SingleIndexSelector", "UnionIndexSelector"]


class RowGroupSelectorBase(abc.ABC):
    """The base class of selectors. A class of yours implements both methods."""

    @abc.abstractmethod
    def get_index_names(self) -> Iterable[str]:
        """Returns the names of the indexes that the selector uses."""

    @abc.abstractmethod
    def select_row_groups(self, index_dict: Mapping[str, Any]) -> set[int]:
        """Returns the numbers of the row groups to read; ``index_dict`` has the indexes by name."""


class SingleIndexSelector(RowGroupSelectorBase):
    """Selects the row groups in which at least one of the given values occurs, according to one index."""

    def __init__(self, index_name: str, values_list: Iterable[Any]) -> None:
        self._index_name = index_name
        self._values = list(values_list)

    def get_index_names(self) -> list[str]:
        return [self._index_name]

    def select_row_groups(self, index_dict: Mapping[str, Any]) -> set[int]:
        index = index_dict[self._index_name]
        return {number for value in self._values for number in index.get_row_group_indexes(value)}


class _Several(RowGroupSelectorBase):
    """A combination of selectors."""

    def __init__(self, single_index_selectors: Iterable[RowGroupSelectorBase]) -> None:
        self._selectors = list(single_index_selectors)
        if not self._selectors:
            raise ValueError(f"{type(self).__name__} needs a selector, and the list is empty")

    def get_index_names(self) -> list[str]:
        return [name for selector in self._selectors for name in selector.get_index_names()]

    def _selected(self, index_dict: Mapping[str, Any]) -> list[set[int]]:
        return [set(selector.select_row_groups(index_dict)) for selector in self._selectors]


class IntersectIndexSelector(_Several):
    """Selects the row groups that all of the given selectors select."""

    def select_row_groups(self, index_dict: Mapping[str, Any]) -> set[int]:
        return set.intersection(*self._selected(index_dict))


class UnionIndexSelector(_Several):
    """Selects the row groups that at least one of the given selectors selects."""

    def select_row_groups(self, index_dict: Mapping[str, Any]) -> set[int]:
        return set.union(*self._selected(index_dict))
