"""Reads the schema of a test's data set as plain values, by unpickling it into stand-ins from this file.

This is safe because the tests wrote these files themselves, or know who did. The package itself never
unpickles.
"""

from __future__ import annotations

import io
import pickle

from forebay.petastorm._schema import PlainField, PlainSchema

KEY = b"dataset-toolkit.unischema.v1"
_KINDS = {
    "ScalarCodec": "scalar",
    "NdarrayCodec": "ndarray",
    "CompressedNdarrayCodec": "compressed_ndarray",
    "CompressedImageCodec": "image",
}


class _Any:
    """An object of any class: it keeps the arguments that it was made with, and its state."""

    name = ""

    def __new__(cls, *arguments, **named):
        made = object.__new__(cls)
        made.arguments = arguments
        return made

    def __init__(self, *arguments, **named):
        pass

    def __setstate__(self, state):
        self.state = state


class _Reader(pickle.Unpickler):
    def find_class(self, module, name):
        if name == "_restore":
            return lambda kind, names, values: _named(kind)(*values)
        if name == "_reconstructor":
            return lambda kind, base, state: kind(*state) if base is tuple else kind()
        if (module, name) in (
            ("collections", "OrderedDict"),
            ("builtins", "tuple"),
            ("__builtin__", "tuple"),
            ("builtins", "object"),
            ("__builtin__", "object"),
        ):
            return {"OrderedDict": dict, "tuple": tuple, "object": object}[name]
        return _named(name)


def _named(name):
    return type(name, (_Any,), {"name": name})


def plain(pickled):
    read = _Reader(io.BytesIO(pickled), encoding="latin1").load()
    fields = [_field(value) for value in read.state["_fields"].values()]
    return PlainSchema(read.state["_name"], tuple(fields))


def _field(value):
    name, dtype, shape, codec, nullable = value.arguments
    return PlainField(name, dtype.name, tuple(shape), None if codec is None else _codec(codec), bool(nullable))


def _codec(codec):
    kind, state = _KINDS[type(codec).__name__], getattr(codec, "state", {})
    if kind == "scalar":
        of = state["_spark_type"]
        arguments = (
            (of.state["precision"], of.state["scale"]) if hasattr(of, "state") and "precision" in of.state else ()
        )
        return (kind, type(of).__name__, *arguments)
    if kind == "image":
        return (kind, state["_image_codec"].lstrip("."), state["_quality"])
    return (kind,)
