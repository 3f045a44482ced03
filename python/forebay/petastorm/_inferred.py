"""Infers the fields of a Petastorm schema from Arrow types, for data sets that do not store such a schema."""

from __future__ import annotations

import decimal
import warnings
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ..adapters.missing import missing

__all__: list[str] = []


class Inferred(NamedTuple):
    """A field of a schema, inferred from a column, with the attributes of a ``UnischemaField``."""

    name: str
    numpy_dtype: Any
    shape: tuple[int | None, ...]
    codec: None
    nullable: bool


def of_keys(types: Iterable[tuple[str, Any]]) -> list[Inferred]:
    """Returns the fields of the columns that folder names such as ``day=3`` give: whole numbers or text."""
    return [Inferred(name, np.int64 if str(kind) == "int64" else np.str_, (), None, False) for name, kind in types]


def of_columns(columns: Iterable[Any], omit_unsupported: bool = True) -> Iterator[Inferred]:
    """Yields the fields of columns. A column of an unsupported type is left out with a warning.

    Raises
    ------
    ValueError
        A column has an unsupported type, and ``omit_unsupported`` is false.
    """
    for column in columns:
        shape, item = ((None,), _item(column.type)) if is_list(column.type) else ((), column.type)
        found = None if item is None else _numpy_type(item)
        if found is not None:
            yield Inferred(column.name, found, shape, None, column.nullable)
        elif omit_unsupported:
            said = f"Column {column.name!r} is left out: its type, {column.type}, is an unsupported field"
            warnings.warn(said, stacklevel=5)
        else:
            raise ValueError(
                f"Cannot auto-create unischema due to unsupported column type {column.type} of {column.name!r}"
            )


def is_list(kind: Any) -> bool:
    """Whether an Arrow type is a type of lists."""
    return str(kind).startswith(("list<", "large_list<", "fixed_size_list<", "list_view<", "large_list_view<"))


def pyarrow() -> Any:
    """Imports pyarrow, or raises an error that says how to install it."""
    try:
        import pyarrow as found
        import pyarrow.parquet
    except ImportError as error:
        raise missing("petastorm", "pyarrow", "pyarrow", error) from error
    if not hasattr(found.Schema, "__arrow_c_schema__"):
        raise ImportError(
            f"forebay.petastorm needs pyarrow 14 or later, and {found.__version__} is installed "
            "(pip install 'pyarrow>=14')"
        )
    return found


def _item(kind: Any) -> Any:
    """Returns the type of the items of a list; None if the items are lists or structures themselves."""
    item = kind.value_type
    return None if str(item).startswith(("struct<", "map<")) or is_list(item) else item


def _numpy_type(kind: Any) -> Any:
    types = pyarrow().types
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return np.dtype(kind.to_pandas_dtype()).type
    if types.is_decimal(kind):
        return decimal.Decimal
    if types.is_date(kind) or types.is_timestamp(kind):
        return np.datetime64
    name = str(kind)
    if name in ("string", "large_string", "string_view"):
        return np.str_
    return np.bytes_ if name.startswith(("binary", "large_binary", "fixed_size_binary")) else None
