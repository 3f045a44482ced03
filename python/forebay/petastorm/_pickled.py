"""Writes a schema opcode by opcode in the pickled form that Petastorm reads, so that Petastorm need not be
installed."""

from __future__ import annotations

import pickle
from typing import Any

from ..errors import UnsupportedError
from ._spark_types import SparkType
from .codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
from .unischema import Unischema, UnischemaField, type_name

__all__: list[str] = []

_PROTOCOL = 2

#: The numpy types that have another name in a pickle of Petastorm than in current numpy.
_NUMPY_NAMES = {"bool": "bool_"}


def pickled(schema: Unischema) -> bytes:
    """Returns the pickled schema as it is stored in a data set."""
    return _Pickle().schema(schema)


class _Pickle:
    """A pickle under construction, to which opcodes are appended."""

    def __init__(self) -> None:
        self._out = bytearray(pickle.PROTO + bytes([_PROTOCOL]))
        self._noted: dict[str, int] = {}

    def schema(self, schema: Unischema) -> bytes:
        self._new("petastorm.unischema", "Unischema")
        self._out += pickle.EMPTY_DICT + pickle.MARK
        self._text("_name")
        self._text(schema._name)
        self._text("_fields")
        self._global("collections", "OrderedDict")
        self._out += pickle.EMPTY_TUPLE + pickle.REDUCE + pickle.MARK
        for name, field in schema.fields.items():
            self._text(name)
            self._field(field)
            self._note(name)
        self._out += pickle.SETITEMS
        for name in schema.fields:
            if not hasattr(Unischema, name):
                self._text(name)
                self._out += pickle.LONG_BINGET + self._noted[name].to_bytes(4, "little")
        self._out += pickle.SETITEMS + pickle.BUILD + pickle.STOP
        return bytes(self._out)

    def _field(self, field: UnischemaField) -> None:
        self._global("petastorm.unischema", "UnischemaField")
        self._out += pickle.MARK
        self._text(field.name)
        self._type(field.numpy_dtype)
        self._out += pickle.MARK
        for side in field.shape:
            self._number(side)
        self._out += pickle.TUPLE
        self._codec(field)
        self._out += pickle.NEWTRUE if field.nullable else pickle.NEWFALSE
        self._out += pickle.TUPLE + pickle.NEWOBJ

    def _codec(self, field: UnischemaField) -> None:
        codec = field.codec
        if codec is None:
            self._out += pickle.NONE
        elif type(codec) is ScalarCodec:
            self._new("petastorm.codecs", "ScalarCodec")
            self._out += pickle.EMPTY_DICT + pickle.MARK
            self._text("_spark_type")
            self._spark_type(codec._type())
            self._out += pickle.SETITEMS + pickle.BUILD
        elif type(codec) in (NdarrayCodec, CompressedNdarrayCodec):
            self._new("petastorm.codecs", type(codec).__name__)
        elif type(codec) is CompressedImageCodec:
            self._new("petastorm.codecs", "CompressedImageCodec")
            self._state({"_image_codec": f".{codec.image_codec}", "_quality": codec.quality})
        else:
            raise UnsupportedError(
                f"field {field.name!r} has a codec of a class of yours, {type(codec).__qualname__}, which cannot be "
                "stored with the data set (use one of forebay.petastorm.codecs)"
            )

    def _spark_type(self, kind: SparkType) -> None:
        self._new("pyspark.sql.types", kind.name)
        if kind.name == "DecimalType":
            precision, scale = kind.arguments or (10, 0)
            self._state({"precision": precision, "scale": scale, "hasPrecisionInfo": True})

    def _type(self, dtype: Any) -> None:
        name = type_name(dtype)
        if name == "Decimal":
            self._global("decimal", "Decimal")
        elif name in ("str_", "bytes_") or name.isidentifier():
            self._global("numpy", _NUMPY_NAMES.get(name, name))

    def _state(self, values: dict[str, Any]) -> None:
        self._out += pickle.EMPTY_DICT + pickle.MARK
        for name, value in values.items():
            self._text(name)
            if isinstance(value, str):
                self._text(value)
            elif isinstance(value, bool):
                self._out += pickle.NEWTRUE if value else pickle.NEWFALSE
            else:
                self._number(value)
        self._out += pickle.SETITEMS + pickle.BUILD

    def _new(self, module: str, name: str) -> None:
        self._global(module, name)
        self._out += pickle.EMPTY_TUPLE + pickle.NEWOBJ

    def _global(self, module: str, name: str) -> None:
        self._out += pickle.GLOBAL + f"{module}\n{name}\n".encode()

    def _text(self, text: str) -> None:
        encoded = text.encode()
        self._out += pickle.BINUNICODE + len(encoded).to_bytes(4, "little") + encoded

    def _number(self, number: int | None) -> None:
        if number is None:
            self._out += pickle.NONE
        else:
            number = int(number)
            size = number.bit_length() // 8 + 1
            self._out += pickle.LONG1 + bytes([size]) + number.to_bytes(size, "little", signed=True)

    def _note(self, name: str) -> None:
        """Memoises the value on top of the stack under a name."""
        self._noted[name] = len(self._noted)
        self._out += pickle.LONG_BINPUT + self._noted[name].to_bytes(4, "little")
