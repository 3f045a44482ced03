"""Encodes the values of rows for Parquet, and checks that each value fits the type of its field."""

from __future__ import annotations

import datetime
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import InvalidError
from ._inferred import pyarrow
from ._sheet import stored_type
from .unischema import Unischema, UnischemaField, completed, encoded

__all__: list[str] = []

_INTEGERS = ("ByteType", "ShortType", "IntegerType", "LongType")
_FLOATS = ("FloatType", "DoubleType")


class Cells:
    """Encodes the rows of a schema as cells: one value for each Parquet column."""

    def __init__(self, schema: Unischema) -> None:
        self._schema = schema
        self._kinds = {name: stored_type(field).name for name, field in schema.fields.items()}

    def of(self, row: Mapping[str, Any], number: int) -> dict[str, Any]:
        """Returns the cells of a row. ``number`` is its number among all rows, for errors.

        Raises
        ------
        InvalidError
            The row has other fields than the schema, or a value does not fit its field.
        """
        try:
            values = completed(self._schema, dict(row))
        except (TypeError, ValueError) as error:
            raise InvalidError(f"row {number}: {error} (each row is a dict of the fields of the schema)") from error
        cells = {}
        for name, field in self._schema.fields.items():
            try:
                cells[name] = _cell(field, self._kinds[name], values[name])
            except Exception as error:
                raise unfit(number, name, error) from error
        return cells


def unfit(number: int, name: str, why: object) -> InvalidError:
    """The error for a value that cannot be stored."""
    return InvalidError(f"row {number}, field {name!r}: {why} (correct the value, or give the field another type)")


def fault(cell: Any, column: Any) -> str | None:
    """Returns the reason why a cell cannot be stored in a column of pyarrow; None if it can."""
    try:
        pyarrow().array([cell], column.type)
    except Exception as error:
        # The error says more than the type, for example that a decimal has too many digits.
        return f"{cell!r} is not stored as {column.type}: {error}"
    return None


def _cell(field: UnischemaField, kind: str, value: Any) -> Any:
    cell = encoded(field, value)
    if cell is None:
        return None
    if isinstance(cell, bytearray):
        return bytes(cell)
    if kind in _INTEGERS:
        _check_integer(field.numpy_dtype, cell, value)
    elif kind in _FLOATS:
        _check_float(field.numpy_dtype, cell, value)
    elif kind == "BooleanType" and cell != value:
        raise ValueError(f"{value!r} is neither true nor false")
    elif kind in ("DateType", "TimestampType"):
        return _time(kind, cell)
    return cell


def _check_integer(dtype: Any, cell: Any, value: Any) -> None:
    if cell != value or isinstance(cell, str) or int(cell) != cell:
        raise ValueError(f"{value!r} is not a whole number")
    if isinstance(dtype, type) and issubclass(dtype, np.integer):
        bounds = np.iinfo(dtype)
        if not bounds.min <= cell <= bounds.max:
            raise ValueError(f"{value!r} is beyond {dtype.__name__}")


def _check_float(dtype: Any, cell: Any, value: Any) -> None:
    if isinstance(dtype, type) and issubclass(dtype, np.floating) and math.isfinite(cell):
        with np.errstate(over="ignore"):
            is_held = np.isfinite(dtype(cell))
        if not is_held:
            raise ValueError(f"{value!r} is beyond {dtype.__name__}")


def _time(kind: str, cell: Any) -> Any:
    """Returns a date or a time in the form that pyarrow accepts."""
    if isinstance(cell, np.datetime64):
        exact = cell.astype("datetime64[us]")
        if exact != cell:
            raise ValueError(f"{cell!r} has more digits than microseconds")
        cell = exact.item()
    if not isinstance(cell, datetime.date):
        raise ValueError(f"expected a date or a time, got {type(cell).__name__}")
    if kind == "TimestampType":
        return cell if isinstance(cell, datetime.datetime) else datetime.datetime(cell.year, cell.month, cell.day)
    if isinstance(cell, datetime.datetime):
        if cell.time() != datetime.time():
            raise ValueError(f"{cell!r} has a time of day, and a DateType has none")
        return cell.date()
    return cell
