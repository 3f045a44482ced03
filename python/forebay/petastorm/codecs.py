"""The codecs of Petastorm, which encode values for storage in Parquet cells and decode them. Users may call
them directly."""

from __future__ import annotations

import io
from typing import Any

import numpy as np

from ..errors import InvalidError
from . import _images, _npy
from ._spark_types import SparkType, named, spark_type

__all__ = [
    "CompressedImageCodec",
    "CompressedNdarrayCodec",
    "DataframeColumnCodec",
    "NdarrayCodec",
    "ScalarCodec",
]

_INTEGERS = ("ByteType", "ShortType", "IntegerType", "LongType")
_FLOATS = ("FloatType", "DoubleType")


class DataframeColumnCodec:
    """The interface of a codec, which stores the values of a field in a Parquet column."""

    def encode(self, unischema_field: Any, value: Any) -> Any:
        """Encodes a value, and returns the content of its cell in the Parquet file."""
        raise NotImplementedError(f"{type(self).__name__}.encode")

    def decode(self, unischema_field: Any, value: Any) -> Any:
        """Decodes the content of a cell, and returns the value."""
        raise NotImplementedError(f"{type(self).__name__}.decode")

    def spark_dtype(self) -> Any:
        """Returns the Spark type in which cells are stored."""
        raise NotImplementedError(f"{type(self).__name__}.spark_dtype")

    def __str__(self) -> str:
        return f"{type(self).__name__}()"


class _BytesCodec(DataframeColumnCodec):
    """A codec that stores cells as bytes."""

    def spark_dtype(self) -> Any:
        return SparkType("BinaryType").made()


class CompressedImageCodec(_BytesCodec):
    """Stores images of one or three channels as PNG or JPEG.

    Parameters
    ----------
    image_codec : str, default "png"
        ``"png"`` or ``"jpeg"``.
    quality : int, default 80
        Quality of a JPEG.
    """

    def __init__(self, image_codec: str = "png", quality: int = 80) -> None:
        self._image_codec = "." + image_codec
        self._quality = quality

    @property
    def image_codec(self) -> str:
        """``"png"`` or ``"jpeg"``."""
        return self._image_codec[1:]

    @property
    def quality(self) -> int:
        """Quality of a JPEG."""
        return self._quality

    def encode(self, unischema_field: Any, value: Any) -> bytearray:
        _check_array(unischema_field, value)
        if not (value.ndim == 2 or (value.ndim == 3 and value.shape[2] == 3)):
            raise ValueError(
                f"Field {unischema_field.name!r}: an image has the shape (height, width) or (height, width, 3), "
                f"got {value.shape}"
            )
        return bytearray(_images.encoded(value, self.image_codec, self._quality))

    def decode(self, unischema_field: Any, value: Any) -> Any:
        return _images.decoded(bytes(value))

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.image_codec!r}, {self._quality})"


class NdarrayCodec(_BytesCodec):
    """Stores arrays as ``numpy.save`` files."""

    def encode(self, unischema_field: Any, value: Any) -> bytearray:
        _check_array(unischema_field, value)
        file = io.BytesIO()
        np.save(file, value, allow_pickle=False)
        return bytearray(file.getbuffer())

    def decode(self, unischema_field: Any, value: Any) -> Any:
        return _npy.array(bytes(value))


class CompressedNdarrayCodec(_BytesCodec):
    """Stores arrays as ``numpy.savez_compressed`` files."""

    def encode(self, unischema_field: Any, value: Any) -> bytearray:
        _check_array(unischema_field, value)
        if value.dtype.hasobject:
            raise ValueError(f"Field {unischema_field.name!r}: an array of objects cannot be stored")
        file = io.BytesIO()
        np.savez_compressed(file, arr=value)
        return bytearray(file.getbuffer())

    def decode(self, unischema_field: Any, value: Any) -> Any:
        return _npy.archived(bytes(value))


class ScalarCodec(DataframeColumnCodec):
    """Stores single values in a Spark type.

    Parameters
    ----------
    spark_type : pyspark.sql.types.DataType or str
        The type, or its name, such as ``"IntegerType"`` or ``"DecimalType(10, 3)"``, which needs no PySpark.

    Raises
    ------
    InvalidError
        There is no type of that name.
    """

    def __init__(self, spark_type: Any) -> None:
        self._spark_type = named(spark_type) if isinstance(spark_type, str) else spark_type

    def encode(self, unischema_field: Any, value: Any) -> Any:
        is_one = isinstance(value, np.ndarray) and value.shape == ()
        if not is_one and hasattr(value, "__len__") and not isinstance(value, str):
            raise TypeError(f"Expected a scalar as the value of {unischema_field.name!r}, got {type(value).__name__}")
        if unischema_field.shape:
            raise ValueError(
                f"The shape of {unischema_field.name!r} must be an empty tuple, got {unischema_field.shape}"
            )
        kind = self._type().name
        if kind in _INTEGERS:
            return int(value)
        if kind in _FLOATS:
            return float(value)
        if kind == "BooleanType":
            return bool(value)
        if kind == "StringType":
            if not isinstance(value, str):
                raise ValueError(f"Field {unischema_field.name!r}: expected a str, got {type(value).__name__}")
            return str(value)
        return value

    def decode(self, unischema_field: Any, value: Any) -> Any:
        return unischema_field.numpy_dtype(value)

    def spark_dtype(self) -> Any:
        return self._type().made() if isinstance(self._spark_type, SparkType) else self._spark_type

    def _type(self) -> SparkType:
        return spark_type(self._spark_type)

    def __str__(self) -> str:
        return f"{type(self).__name__}({self._type()})"


def codec_of(plain: tuple[Any, ...] | None) -> DataframeColumnCodec | None:
    """Makes the codec from its plain form in a stored schema."""
    if plain is None:
        return None
    kind, *arguments = plain
    if kind == "scalar":
        return ScalarCodec(SparkType(*arguments))
    if kind == "ndarray":
        return NdarrayCodec()
    if kind == "compressed_ndarray":
        return CompressedNdarrayCodec()
    if kind == "image":
        return CompressedImageCodec(*(one for one in arguments if one is not None))
    raise InvalidError(f"there is no codec {kind!r}")


def _check_array(field: Any, value: Any) -> None:
    """Raises an error if a value is not an array of the field's type and shape."""
    wanted = _type_name(field.numpy_dtype)
    if not isinstance(value, np.ndarray):
        raise ValueError(f"Unexpected type of {field.name}: expected an array of {wanted}, got {type(value).__name__}")
    if value.dtype.type != np.dtype(field.numpy_dtype).type:
        raise ValueError(f"Unexpected type of {field.name}: expected {wanted}, got {value.dtype}")
    if not complies(value.shape, field.shape):
        raise ValueError(f"Unexpected dimensions of {field.name}: expected {field.shape}, got {value.shape}")


def complies(shape: tuple[int, ...], of_field: tuple[int | None, ...]) -> bool:
    """Whether a value with this shape fits the shape of its field. A length that is None or 0 fits any
    length."""
    return len(shape) == len(of_field) and all(
        not there or not side or side == there for side, there in zip(shape, of_field, strict=True)
    )


def _type_name(dtype: Any) -> str:
    return str(getattr(dtype, "__name__", dtype))
