"""Decodes single stored rows of a Petastorm data set, for scripts that read the Parquet files themselves."""

from __future__ import annotations

import decimal
from collections.abc import Mapping
from typing import Any

import numpy as np

from .errors import DecodeFieldError
from .unischema import Unischema, UnischemaField

__all__ = ["DecodeFieldError", "decode_row"]


def decode_row(row: Mapping[str, Any], schema: Unischema) -> dict[str, Any]:
    """Decodes a stored row by the codecs of the schema; returns only the fields that the schema has.

    Raises
    ------
    DecodeFieldError
        A cell cannot be decoded.
    """
    return {name: _value(schema.fields[name], cell) for name, cell in row.items() if name in schema.fields}


def _value(field: UnischemaField, cell: Any) -> Any:
    if cell is None:
        return None
    try:
        if field.codec is not None:
            return field.codec.decode(field, cell)
        dtype = field.numpy_dtype
        is_scalar = isinstance(dtype, type) and issubclass(dtype, (np.generic, decimal.Decimal))
        return dtype(cell) if is_scalar else cell
    except Exception as error:
        raise DecodeFieldError(f'Decoding field "{field.name}" failed: {error}') from error
