"""The columns of a DataFrame in types that Parquet has: vectors as arrays, floats in one precision."""

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
    """The name of a type of floats, or of none.

    Raises
    ------
    InvalidError
        It is another type.
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
    """The DataFrame with vectors as arrays, and with floats of any depth in a precision; itself, if that is all it has.

    Raises
    ------
    UnsupportedError
        A column has another type of a user's.
    """
    columns = [_column(field, dtype) for field in frame.schema.fields]
    if all(column is None for column in columns):
        return frame
    names = [field.name for field in frame.schema.fields]
    return frame.select(
        *(_of(name) if column is None else column.alias(name) for name, column in zip(names, columns, strict=True))
    )


def _column(field: StructField, dtype: str | None) -> Any:
    """What takes the place of a column, if something does."""
    kind = field.dataType
    if _is_vector(kind):
        from pyspark.ml.functions import vector_to_array

        column = _of(field.name)
        # The function raises for a null, which stays one.
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
    """Whether it is the type of vectors of ``pyspark.ml`` or of ``pyspark.mllib``."""
    return isinstance(kind, UserDefinedType) and type(kind).__name__ == "VectorUDT"


def _with_floats(kind: DataType, floats: DataType) -> DataType:
    """A type whose floats are of a precision. Keys of maps stay, as two of them could become one."""
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
