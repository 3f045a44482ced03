"""The Arrow and Spark types in which the fields of a Petastorm schema are stored in Parquet."""

from __future__ import annotations

from typing import Any

from ..errors import InvalidError
from ._inferred import pyarrow
from ._spark_types import OF_NUMPY, SparkType, spark_type
from .codecs import ScalarCodec
from .unischema import Unischema, UnischemaField, type_name

__all__: list[str] = []

#: The name of pyarrow's function that makes the type, for each Spark type.
_ARROW = {
    "ByteType": "int8",
    "ShortType": "int16",
    "IntegerType": "int32",
    "LongType": "int64",
    "FloatType": "float32",
    "DoubleType": "float64",
    "BooleanType": "bool_",
    "StringType": "string",
    "BinaryType": "binary",
    "DateType": "date32",
}


def arrow_schema(schema: Unischema) -> Any:
    """Returns the schema of pyarrow with the types in which the fields are stored."""
    arrow = pyarrow()
    return arrow.schema([arrow.field(field.name, _arrow(field), field.nullable) for field in schema.fields.values()])


def _arrow(field: UnischemaField) -> Any:
    arrow, kind = pyarrow(), stored_type(field)
    if kind.name == "DecimalType":
        precision, scale = kind.arguments or (10, 0)
        return arrow.decimal128(precision, scale)
    if kind.name == "TimestampType":
        return arrow.timestamp("us", "UTC")
    if kind.name not in _ARROW:
        raise InvalidError(f"field {field.name!r} has the type {kind}, which is not written here (write it with Spark)")
    return getattr(arrow, _ARROW[kind.name])()


def stored_type(field: UnischemaField) -> SparkType:
    """Returns the Spark type in which a field is stored."""
    if isinstance(field.codec, ScalarCodec):
        return spark_type(field.codec._spark_type)
    if field.codec is not None:
        return SparkType("BinaryType")
    name = OF_NUMPY.get(type_name(field.numpy_dtype))
    if name is None or field.shape != ():
        raise InvalidError(f"field {field.name!r} needs a codec: only numbers and text are stored without one")
    return SparkType(name)
