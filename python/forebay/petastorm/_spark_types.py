"""The types of Spark by name, so that a Petastorm schema can be read and written without PySpark."""

from __future__ import annotations

import re
from typing import Any

from ..errors import InvalidError

__all__: list[str] = []

#: The Spark type in which a field without a codec is stored, for each numpy type.
OF_NUMPY = {
    "int8": "ByteType",
    "uint8": "ShortType",
    "int16": "ShortType",
    "uint16": "IntegerType",
    "int32": "IntegerType",
    "int64": "LongType",
    "float32": "FloatType",
    "float64": "DoubleType",
    "bytes_": "StringType",
    "str_": "StringType",
    "bool": "BooleanType",
}


#: The names of all Spark types that a scalar codec may have.
NAMES = (*sorted({*OF_NUMPY.values()}), "BinaryType", "DateType", "DecimalType", "TimestampType")

_DECIMAL = re.compile(r"DecimalType\(\s*(\d+)\s*,\s*(\d+)\s*\)")

#: The largest number of digits of a decimal.
_MAX_PRECISION = 38


class SparkType:
    """A Spark type: its name, and the arguments that it is made with."""

    def __init__(self, name: str, *arguments: Any) -> None:
        self.name = name
        self.arguments = arguments

    def made(self) -> Any:
        """Returns the PySpark type."""
        from pyspark.sql import types

        return getattr(types, self.name)(*self.arguments)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SparkType) and (self.name, self.arguments) == (other.name, other.arguments)

    def __hash__(self) -> int:
        return hash((self.name, self.arguments))

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(map(repr, self.arguments))})"


def spark_type(given: Any) -> SparkType:
    """Returns the Spark type that a user passed as a name, as a PySpark class, or as an object of such a
    class."""
    if isinstance(given, SparkType):
        return given
    if isinstance(given, str):
        return named(given)
    kind = given if isinstance(given, type) else type(given)
    if kind.__name__ == "DecimalType" and not isinstance(given, type):
        return SparkType("DecimalType", given.precision, given.scale)
    return SparkType(kind.__name__)


def named(name: str) -> SparkType:
    """Returns the type with that name, which may include the digits of a decimal: ``"DecimalType(10, 3)"``."""
    decimal = _DECIMAL.fullmatch(name)
    if decimal is not None:
        precision, scale = map(int, decimal.groups())
        if not 1 <= precision <= _MAX_PRECISION or scale > precision:
            raise InvalidError(f"{name}: a DecimalType has 1 to {_MAX_PRECISION} digits, and at most as many decimals")
        return SparkType("DecimalType", precision, scale)
    plain = name.removesuffix("()")
    if plain not in NAMES:
        raise InvalidError(f"there is no type of Spark {name!r} (one of {', '.join(NAMES)}, or DecimalType(10, 2))")
    return SparkType(plain)
