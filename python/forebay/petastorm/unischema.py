"""The schema of a Petastorm data set: names, types, shapes and codecs of its fields."""

from __future__ import annotations

import copy
import decimal
import re
import warnings
from collections import OrderedDict, namedtuple
from collections.abc import Iterable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from ._inferred import of_columns, of_keys
from ._spark_types import OF_NUMPY, SparkType
from .codecs import codec_of

__all__ = [
    "Unischema",
    "UnischemaField",
    "dict_to_spark_row",
    "encode_row",
    "insert_explicit_nulls",
    "match_unischema_fields",
]

#: Other names of types, as in schemas written with older numpy, and the names that are used here.
_OLD_NAMES = {"unicode_": "str_", "string_": "bytes_", "bool_": "bool", "str": "str_", "bytes": "bytes_"}


class UnischemaField(NamedTuple):
    """One field of a schema. Fields are compared without their codecs.

    Attributes
    ----------
    name : str
        The name of the field.
    numpy_dtype : type
        The type of a value, such as ``numpy.uint8``, or ``decimal.Decimal``.
    shape : tuple
        The shape of a value, ``()`` for a scalar. A dimension that is None may have any length.
    codec : DataframeColumnCodec, optional
        How a value is stored. None for a type that Parquet stores itself.
    nullable : bool, default False
        Whether a value may be None.
    """

    name: str
    numpy_dtype: Any
    shape: Any
    codec: Any = None
    nullable: Any = False

    def _identity(self) -> tuple[Any, ...]:
        return (self.name, self.numpy_dtype, self.shape, self.nullable)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, UnischemaField) and self._identity() == other._identity()

    def __ne__(self, other: object) -> bool:
        return not self == other

    def __hash__(self) -> int:
        return hash(self._identity())


class Unischema:
    """A schema. Its fields are attributes: ``schema.label``.

    Parameters
    ----------
    name : str
        The name of the schema.
    fields : list of UnischemaField
        The fields, in order.
    """

    def __init__(self, name: str, fields: Iterable[UnischemaField]) -> None:
        self._name = name
        self._fields: OrderedDict[str, UnischemaField] = OrderedDict((field.name, field) for field in fields)
        for field in self._fields.values():
            if hasattr(self, field.name):
                warnings.warn(
                    f"Can not create dynamic property {field.name}: the schema has another one of that name",
                    stacklevel=2,
                )
            else:
                setattr(self, field.name, field)

    @property
    def fields(self) -> OrderedDict[str, UnischemaField]:
        """The fields by name."""
        return self._fields

    def create_schema_view(self, fields: Iterable[Any]) -> Unischema:
        """Returns a schema with some of the fields.

        Parameters
        ----------
        fields : list of UnischemaField or str
            Fields, and regular expressions of whole names.

        Raises
        ------
        ValueError
            A field does not belong to this schema, or an item is neither a field nor a ``str``.
        """
        fields = list(fields)
        patterns = [field for field in fields if isinstance(field, str)]
        exact: list[Any] = [field for field in fields if isinstance(field, tuple)]
        if len(patterns) + len(exact) != len(fields):
            raise ValueError("each of the fields must be either a string, a regular expression, or a UnischemaField")
        unknown = [field.name for field in exact if field.name not in self._fields]
        if unknown:
            raise ValueError(f"field {', '.join(unknown)} does not belong to the schema {self}")
        # The user's field may have another codec and shape, so the field of this schema with its name is
        # used.
        chosen = [self._fields[field.name] for field in exact]
        return Unischema(f"{self._name}_view", [*chosen, *match_unischema_fields(self, patterns)])

    def make_namedtuple(self, **kargs: Any) -> Any:
        """Returns a row, a named tuple, with the given values by field."""
        return self._get_namedtuple()(**kargs)

    def make_namedtuple_tf(self, *args: Any, **kargs: Any) -> Any:
        """Returns a row, a named tuple, of the given tensors."""
        return self._get_namedtuple()(*args, **kargs)

    def as_spark_schema(self) -> Any:
        """Returns the schema of the encoded rows, for ``spark.createDataFrame``."""
        from pyspark.sql import types

        return types.StructType(
            [types.StructField(field.name, spark_type_of(field), field.nullable) for field in self._fields.values()]
        )

    @classmethod
    def from_arrow_schema(cls, parquet_dataset: Any, omit_unsupported_fields: bool = True) -> Unischema:
        """Infers a schema from the columns of a pyarrow data set that has no Petastorm schema.

        Parameters
        ----------
        parquet_dataset : pyarrow.parquet.ParquetDataset
            The data set.
        omit_unsupported_fields : bool, default True
            Whether to leave out columns of unsupported types, with a warning.

        Raises
        ------
        ValueError
            A column has an unsupported type, and ``omit_unsupported_fields`` is false.
        """
        keys = [
            (one.name, one.dictionary.type if hasattr(one, "dictionary") else one)
            for one in getattr(parquet_dataset, "partitions", None) or []
        ]
        pieces = getattr(parquet_dataset, "pieces", None)
        columns = pieces[0].get_metadata().schema.to_arrow_schema() if pieces else parquet_dataset.schema
        found = [*of_keys(keys), *of_columns(columns, omit_unsupported_fields)]
        return cls("inferred_schema", [UnischemaField(*one) for one in found])

    def _get_namedtuple(self) -> Any:
        return _row_type(self._name, tuple(self._fields))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"the schema has no field and no attribute {name!r}")

    def __str__(self) -> str:
        fields = "".join(
            f"  {type(field).__name__}({field.name!r}, {getattr(field.numpy_dtype, '__name__', field.numpy_dtype)}, "
            f"{field.shape}, {field.codec}, {field.nullable}),\n"
            for field in self._fields.values()
        )
        return f"{type(self).__name__}({self._name}, [\n{fields}])"


def match_unischema_fields(schema: Unischema, field_regex: Iterable[str] | None) -> list[UnischemaField]:
    """Returns the fields whose whole name matches one of the regular expressions, in the order of the schema."""
    patterns = list(field_regex or [])
    for pattern in patterns:
        try:
            re.compile(pattern)
        except re.error as error:
            raise ValueError(f"schema_fields has {pattern!r}, which is not a regular expression: {error}") from error
    found = [field for name, field in schema.fields.items() if any(re.fullmatch(one, name) for one in patterns)]
    begun = [name for name in schema.fields if any(re.match(one, name) for one in patterns)]
    others = sorted(set(begun) - {field.name for field in found})
    if others:
        warnings.warn(
            "schema_fields behavior has changed: patterns match whole names, which these fields only begin with: "
            f"{', '.join(others)}",
            stacklevel=2,
        )
    return found


def insert_explicit_nulls(unischema: Unischema, row_dict: dict[str, Any]) -> None:
    """Adds None for each nullable field that a row lacks.

    Raises
    ------
    ValueError
        A field that is not nullable is missing.
    """
    for name, field in unischema.fields.items():
        if name not in row_dict:
            if not field.nullable:
                raise ValueError(f"Field {name} is not found in the row_dict, but is not nullable.")
            row_dict[name] = None


def encode_row(unischema: Unischema, row_dict: dict[str, Any]) -> dict[str, Any]:
    """Encodes the values of a row for storage, and returns them in the order of the schema.

    Raises
    ------
    ValueError
        The row has other fields than the schema, or a field that is not nullable is None.
    """
    row = completed(unischema, copy.copy(row_dict))
    return {name: encoded(field, row[name]) for name, field in unischema.fields.items()}


def completed(unischema: Unischema, row: dict[str, Any]) -> dict[str, Any]:
    """Returns a row with None for the nullable fields that it lacks.

    Raises
    ------
    ValueError
        The row has other fields than the schema.
    """
    insert_explicit_nulls(unischema, row)
    if set(row) != set(unischema.fields):
        others = ", ".join(sorted(set(row) - set(unischema.fields)))
        raise ValueError(f"Dictionary fields do not match schema fields: {others} are not in the schema")
    return row


def encoded(field: UnischemaField, value: Any) -> Any:
    """Encodes a value for storage, by the codec of its field."""
    if value is None:
        if not field.nullable:
            raise ValueError(f"Field {field.name} is not nullable, and its value is None")
        return None
    if field.codec is not None:
        return field.codec.encode(field, value)
    return value.tolist() if isinstance(value, np.generic) else value


def dict_to_spark_row(unischema: Unischema, row_dict: dict[str, Any]) -> Any:
    """Returns the encoded row as a ``pyspark.Row``, for ``spark.createDataFrame``."""
    from pyspark.sql import Row

    if not isinstance(unischema, Unischema):
        raise TypeError(f"unischema must be a Unischema, got {type(unischema).__name__}")
    cells = encode_row(unischema, row_dict)
    row = Row(*cells.values())
    row.__fields__ = list(cells)
    return row


def schema_of(plain: Any) -> Unischema:
    """Makes a schema from its plain form, which was read from a data set."""
    return Unischema(
        plain.name,
        [
            UnischemaField(field.name, type_of(field.dtype), tuple(field.shape), codec_of(field.codec), field.nullable)
            for field in plain.fields
        ],
    )


def type_of(name: str) -> Any:
    """Returns the type that has this name in a stored schema."""
    if name == "Decimal":
        return decimal.Decimal
    name = _OLD_NAMES.get(name, name)
    return np.bool_ if name == "bool" else getattr(np, name)


def type_name(dtype: Any) -> str:
    """Returns the name of a type: ``"str_"`` for text, ``"bytes_"``, ``"Decimal"``, or numpy's name."""
    if dtype is decimal.Decimal:
        return "Decimal"
    if isinstance(dtype, np.dtype):
        dtype = dtype.type
    name = str(getattr(dtype, "__name__", dtype))
    return _OLD_NAMES.get(name, name)


def spark_type_of(field: UnischemaField) -> Any:
    """Returns the Spark type in which a field is stored."""
    if field.codec is not None:
        return field.codec.spark_dtype()
    if field.shape != ():
        raise ValueError(f"Field {field.name!r} is not a scalar and has codec set to None")
    name = OF_NUMPY.get(type_name(field.numpy_dtype))
    if name is None:
        raise ValueError(f"Was not able to map type {field.numpy_dtype} of field {field.name!r} to one of Spark")
    return SparkType(name).made()


@cache
def _row_type(name: str, fields: tuple[str, ...]) -> Any:
    """Returns the named tuple type of rows. Equal schemas share one type, because TensorFlow compares
    types."""
    return namedtuple(f"{name}_view", fields)
