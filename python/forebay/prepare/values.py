"""Types and bytes of the values that the function given to ``prepare`` returns for the rows.

A type is a string such as ``"int64"``, ``"datetime64[ms]"``, ``"text"`` or ``"binary"``, or a tuple:
``("list", item)``, ``("struct", ((name, type), ...))``, or ``("tensor", number, shape)``. The type of
``None`` is ``"null"`` until another row has a value.

A node holds the values of a column in a tuple of three: the type (only its first item, such as ``"list"``, if
the type is a tuple), optional bytes that are 0 for each value that is None, and the content of the values.
``python/src/rows.rs`` reads nodes.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..batch.ragged import Ragged
from ..errors import InvalidError
from ..transforms.rows import is_tensor

__all__: list[str] = []

#: The type of ``None``, and of the items of an empty list.
UNKNOWN = "null"

#: The types of Python's own numbers.
_PLAIN = {bool: "bool", int: "int64", float: "float64"}

#: The smallest and the largest int of Python that can be prepared.
_INT64 = (-(1 << 63), (1 << 63) - 1)

#: The bytes that are counted for a number, and for any other value in addition to its content.
_OVERHEAD_BYTES = 8

#: The units of times that Parquet has, and finer ones, whose times are kept in ns.
_UNITS = ("ms", "us", "ns")
_FINER_UNITS = ("ps", "fs", "as")

#: The types of values that nothing can change.
_IMMUTABLE = frozenset({bool, int, float, str, bytes, type(None)})

Type = Any
Node = tuple[str, bytes | None, Any]


def type_of(name: str, value: Any) -> tuple[Type, int]:
    """The type of a value, and about how many bytes it takes. ``name`` is that of its column or field."""
    if value is None:
        return UNKNOWN, _OVERHEAD_BYTES
    if type(value) in _PLAIN:
        _check_ints(name, [value])
        return _PLAIN[type(value)], _OVERHEAD_BYTES
    if isinstance(value, str):
        _check_text(name, value)
        return "text", _OVERHEAD_BYTES + len(value)
    if isinstance(value, (bytes, bytearray, memoryview)):
        return "binary", _OVERHEAD_BYTES + len(value)
    if isinstance(value, np.generic):
        if value.dtype.kind == "M":
            _check_times(name, value)
        return _number(name, value.dtype), _OVERHEAD_BYTES
    if isinstance(value, np.ma.MaskedArray):
        raise InvalidError(
            f"column {name!r} has a masked array, whose mask cannot be kept (return array.filled(), or a list with "
            "None for masked values)",
            column=name,
        )
    if isinstance(value, np.ndarray):
        return _of_array(name, value)
    if isinstance(value, Mapping):
        return _of_fields(name, value)
    if isinstance(value, (list, tuple)):
        return _of_items(name, value)
    raise InvalidError(
        f"column {name!r} has a {type(value).__qualname__}, which cannot be kept (return numbers, text, bytes, numpy "
        "arrays, lists and dicts of these, and times as numpy.datetime64)",
        column=name,
    )


def plain(value: Any) -> Any:
    """A value without the classes of other libraries: tensors become arrays, and ragged rows lists."""
    if is_tensor(value):
        value = value.detach().cpu().numpy()
    if isinstance(value, Ragged):
        return list(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "OUST":
        return value.tolist()
    return value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value


def owned(value: Any) -> Any:
    """A copy of a value that the function may change when it makes the next row, such as a buffer that it reuses."""
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, Mapping):
        return {name: owned(plain(inner)) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return list(value) if _IMMUTABLE.issuperset(map(type, value)) else [owned(plain(item)) for item in value]
    return value


def agreed(name: str, before: Type, now: Type, where: str = "the rows before") -> Type:
    """Merges two types of a column: parts that are unknown in one are taken from the other. Raises an error
    if the types differ."""
    found = _merged(before, now)
    if found is None:
        raise InvalidError(
            f"column {name!r} is {shown(before)} in {where}, and {shown(now)} in this row (return one type for all "
            "rows: convert numbers with a type of numpy, and give dicts the same keys)",
            column=name,
        )
    return found


def shown(of: Type) -> str:
    """A type as text for a message."""
    if isinstance(of, str):
        return of
    if of[0] == "list":
        return f"list<{shown(of[1])}>"
    if of[0] == "tensor":
        return f"{of[1]}[{', '.join(map(str, of[2]))}]"
    return f"struct<{', '.join(f'{name}: {shown(inner)}' for name, inner in of[1])}>"


def from_json(of: Any) -> Type:
    """A type that was written as JSON."""
    return tuple(map(from_json, of)) if isinstance(of, list) else of


def settled(name: str, of: Type) -> Type:
    """A type without unknown parts: the items of lists that are all empty are int64, as in batches."""
    if of == UNKNOWN:
        raise InvalidError(
            f"column {name!r} is None in all rows of the first row group, so its type is not known (return a value "
            'such as 0, "" or an empty array, or leave the column out)',
            column=name,
        )
    if isinstance(of, str) or of[0] == "tensor":
        return of
    if of[0] == "list":
        return ("list", "int64" if of[1] == UNKNOWN else settled(name, of[1]))
    return ("struct", tuple((field, settled(f"{name}.{field}", inner)) for field, inner in of[1]))


def node(of: Type, values: Sequence[Any]) -> Node:
    """The values of a column of this type."""
    if of == UNKNOWN:
        return UNKNOWN, None, len(values)
    valid = bytes(value is not None for value in values) if None in map(_none, values) else None
    if of in ("text", "binary"):
        encode: Callable[[Any], bytes] = str.encode if of == "text" else bytes
        encoded = [b"" if value is None else encode(value) for value in values]
        return of, valid, (_offsets(map(len, encoded)), b"".join(encoded))
    if isinstance(of, str):
        return _numbers(of, valid, values)
    if of[0] == "list":
        lists = [() if value is None else value for value in values]
        return "list", valid, (_offsets(map(len, lists)), _items(of[1], lists))
    if of[0] == "struct":
        fields = [
            (name, node(inner, [None if value is None else plain(value[name]) for value in values]))
            for name, inner in of[1]
        ]
        return "struct", valid, (len(values), fields)
    _, number, shape = of
    arrays = [np.zeros(shape, number) if value is None else value for value in values]
    stacked = np.stack(arrays).astype(number, copy=False) if arrays else np.zeros(0, number)
    return "tensor", valid, (len(values), list(shape), (number, None, stacked.tobytes()))


def conformed(one: Node, of: Type) -> Node:
    """Returns the node with the type ``of``: parts of unknown type get the type that other rows have."""
    kind, valid, data = one
    if kind == UNKNOWN:
        return node(of, [None] * data)
    if kind == "list":
        offsets, items = data
        return kind, valid, (offsets, conformed(items, of[1]))
    if kind == "struct":
        rows, fields = data
        found = dict(fields)
        return kind, valid, (rows, [(name, conformed(found[name], inner)) for name, inner in of[1]])
    return one


def _none(value: Any) -> Any:
    """None for None, and 0 for any other value: an array cannot be compared with None for one truth value."""
    return None if value is None else 0


def _number(name: str, dtype: np.dtype[Any]) -> str:
    """The name of a type of numbers or times."""
    if dtype.kind == "M":
        unit = np.datetime_data(dtype)[0]
        return f"datetime64[{unit if unit in _UNITS else 'ns' if unit in _FINER_UNITS else 'ms'}]"
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise InvalidError(
            f"column {name!r} has values of type {dtype}, which cannot be kept (convert them to another type)",
            column=name,
        )
    return dtype.name


def _of_array(name: str, array: np.ndarray[Any, Any]) -> tuple[Type, int]:
    number, size = _number(name, array.dtype), _OVERHEAD_BYTES + array.nbytes
    if array.dtype.kind == "M":
        _check_times(name, array)
    if array.ndim == 1:
        return ("list", number), size
    if array.dtype.kind == "M":
        raise InvalidError(
            f"column {name!r} has times in an array of shape {array.shape} (return array.tolist(), or their numbers "
            'with array.astype("int64"))',
            column=name,
        )
    if array.size == 0:
        raise InvalidError(
            f"column {name!r} has an array of shape {array.shape} without values (return an array of one dimension, "
            "or lists)",
            column=name,
        )
    return ("tensor", number, array.shape), size


def _of_fields(name: str, value: Mapping[Any, Any]) -> tuple[Type, int]:
    fields, size = [], _OVERHEAD_BYTES
    for field, inner in value.items():
        if not isinstance(field, str):
            raise InvalidError(f"the keys of column {name!r} must be text, got {field!r}", column=name)
        found, more = type_of(f"{name}.{field}", plain(inner))
        fields.append((field, found))
        size += more
    if not fields:
        raise InvalidError(f"column {name!r} has an empty dict (return at least one key, or None)", column=name)
    return ("struct", tuple(fields)), size


def _of_items(name: str, values: Sequence[Any]) -> tuple[Type, int]:
    kinds = set(map(type, values))
    if len(kinds) == 1 and (number := _PLAIN.get(next(iter(kinds)))) is not None:
        if number == "int64":
            _check_ints(name, values)
        return ("list", number), _OVERHEAD_BYTES * (1 + len(values))
    item, size = UNKNOWN, _OVERHEAD_BYTES
    for value in values:
        found, more = type_of(name, plain(value))
        if not isinstance(found, str) and found[0] == "tensor":
            raise InvalidError(
                f"the lists of column {name!r} have arrays of {len(found[2])} dimensions (return array.tolist())",
                column=name,
            )
        item = agreed(name, item, found, "the items before")
        size += more
    return ("list", item), size


def _check_ints(name: str, values: Sequence[Any]) -> None:
    if type(values[0]) is int and (min(values) < _INT64[0] or max(values) > _INT64[1]):
        raise InvalidError(
            f"an int of column {name!r} does not fit int64 (return a numpy scalar such as numpy.uint64)", column=name
        )


def _check_times(name: str, times: Any) -> None:
    """Refuses times that the unit in which they are kept cannot express."""
    kept = times.astype(_number(name, times.dtype)).astype(times.dtype)
    if not ((kept == times) | np.isnat(times)).all():
        raise InvalidError(
            f"column {name!r} has times of type {times.dtype} that do not fit {_number(name, times.dtype)} (convert "
            "them to another unit)",
            column=name,
        )


def _check_text(name: str, value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise InvalidError(
            f'column {name!r} has text that is not Unicode: {error} (return text.encode("utf-8", "replace").decode())',
            column=name,
        ) from None


def _merged(one: Type, other: Type) -> Type:
    """Merges two types, like :func:`agreed`; ``None`` if they differ."""
    if one == other or other == UNKNOWN:
        return one
    if one == UNKNOWN:
        return other
    if isinstance(one, str) or isinstance(other, str) or one[0] != other[0] or one[0] == "tensor":
        return None
    if one[0] == "list":
        item = _merged(one[1], other[1])
        return None if item is None else ("list", item)
    fields = dict(other[1])
    if fields.keys() != dict(one[1]).keys():
        return None
    merged = [(name, _merged(inner, fields[name])) for name, inner in one[1]]
    return None if any(inner is None for _, inner in merged) else ("struct", tuple(merged))


def _numbers(of: str, valid: bytes | None, values: Sequence[Any]) -> Node:
    if not of.startswith("datetime64"):
        filled = values if valid is None else [0 if value is None else value for value in values]
        return of, valid, np.array(filled, np.dtype(of)).tobytes()
    times = np.array([np.datetime64("NaT") if value is None else value for value in values], np.dtype(of))
    missing = np.isnat(times)
    return of, (~missing).tobytes() if missing.any() else None, times.tobytes()


def _items(of: Type, lists: Sequence[Any]) -> Node:
    """The items of all lists, one after the other."""
    filled = [items for items in lists if len(items)]
    if of in ("int64", "float64"):
        # Most lists are of Python's numbers. A None in them is a TypeError here, and is handled below.
        with contextlib.suppress(TypeError):
            return of, None, np.fromiter(itertools.chain.from_iterable(filled), of).tobytes()
    are_arrays = bool(filled) and all(isinstance(items, np.ndarray) for items in filled)
    if are_arrays and isinstance(of, str) and not of.startswith("datetime64"):
        return of, None, np.concatenate(filled).astype(of, copy=False).tobytes()
    return node(of, [plain(item) for item in itertools.chain.from_iterable(filled)])


def _offsets(lengths: Iterable[int]) -> bytes:
    counted = np.fromiter(lengths, np.int64)
    offsets = np.zeros(len(counted) + 1, np.int64)
    np.cumsum(counted, out=offsets[1:])
    return offsets.tobytes()
