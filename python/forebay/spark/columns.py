"""Converts the columns of a Spark DataFrame before it is written: vectors become arrays, and all floats get
one precision."""

from __future__ import annotations

from typing import Any

import numpy as np
from pyspark.sql import functions
from pyspark.sql.types import (
    ArrayType,
    DataType,
    DoubleType,
    FloatType,
    MapType,
    StructField,
    StructType,
    UserDefinedType,
)

from ..errors import InvalidError, UnsupportedError

__all__: list[str] = []

_PRECISIONS = {"float32": FloatType(), "float64": DoubleType()}


def precision(dtype: Any) -> str | None:
    """Checks ``dtype``, and returns its name, ``"float32"`` or ``"float64"``; ``None`` for None.

    Raises
    ------
    InvalidError
        ``dtype`` is another type.
    """
    if dtype is None:
        return None
    try:
        name = str(np.dtype(dtype).name)
    except TypeError:
        name = ""
    if name not in _PRECISIONS:
        raise InvalidError(
            f"dtype must be 'float32' or 'float64', got {dtype!r} (leave it out to keep the columns' types)"
        )
    return name


def converted(frame: Any, dtype: str | None) -> Any:
    """Returns the DataFrame with arrays in place of vectors, and with all floats, also nested ones, in one
    precision. A DataFrame that needs no change is returned unchanged.

    Raises
    ------
    UnsupportedError
        A column has a user-defined type that is not a vector.
    """
    columns = [_column(field, dtype) for field in frame.schema.fields]
    if all(column is None for column in columns):
        return frame
    names = [field.name for field in frame.schema.fields]
    return frame.select(
        *(_of(name) if column is None else column.alias(name) for name, column in zip(names, columns, strict=True))
    )


def _column(field: StructField, dtype: str | None) -> Any:
    """The expression that replaces a column; ``None`` if the column is not changed."""
    kind = field.dataType
    if _is_vector(kind):
        from pyspark.ml.functions import vector_to_array

        column = _of(field.name)
        # vector_to_array raises an error for null, so it is called only for other values, and a null stays
        # null.
        return functions.when(column.isNotNull(), vector_to_array(column, dtype or "float64"))
    if isinstance(kind, UserDefinedType):
        raise UnsupportedError(
            f"column {field.name!r} is a {kind.typeName()} of Spark, which Parquet does not have (convert it to arrays "
            "and numbers, or leave it out with frame.drop)",
            column=field.name,
        )
    if dtype is None:
        return None
    wanted = _with_floats(kind, _PRECISIONS[dtype])
    return None if wanted == kind else _of(field.name).cast(wanted)


def _is_vector(kind: DataType) -> bool:
    """Whether a type is the type of vectors of ``pyspark.ml`` or of ``pyspark.mllib``."""
    return isinstance(kind, UserDefinedType) and type(kind).__name__ == "VectorUDT"


def _with_floats(kind: DataType, floats: DataType) -> DataType:
    """The same type with floats of one precision. Keys of maps are not changed, because two of them could
    become equal."""
    if isinstance(kind, (FloatType, DoubleType)):
        return floats
    if isinstance(kind, ArrayType):
        return ArrayType(_with_floats(kind.elementType, floats), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(kind.keyType, _with_floats(kind.valueType, floats), kind.valueContainsNull)
    if isinstance(kind, StructType):
        fields = [StructField(one.name, _with_floats(one.dataType, floats), one.nullable) for one in kind.fields]
        return StructType(fields)
    return kind


def _of(name: str) -> Any:
    quoted = name.replace("`", "``")
    return functions.col(f"`{quoted}`")
