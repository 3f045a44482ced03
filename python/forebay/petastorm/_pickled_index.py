"""Reads and writes Petastorm's indexes, which say which row groups have a value, in their pickled form.

So that a pickle cannot run code, this module interprets it opcode by opcode. No name in it is imported, and
only the calls in ``_CALLS`` are made.
"""

from __future__ import annotations

import decimal
import pickle
import pickletools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

__all__: list[str] = []

_PROTOCOL = 2
_MODULE = "petastorm.etl.rowgroup_indexers"
_MODULES = (
    _MODULE,
    "av.experimental.deepdrive.dataset_toolkit.etl.rowgroup_indexers",
    "av.ml.dataset_toolkit.etl.rowgroup_indexers",
)
_KINDS = ("SingleFieldIndexer", "FieldNotNullIndexer")

#: The numpy types that values may have: numbers and text, never objects.
_TYPE = re.compile(r"[biufSU]\d{1,9}")

_MARK = object()


class PlainIndex(NamedTuple):
    """An index of one column: the row groups that have each value, or that have any value."""

    kind: str
    """``"SingleFieldIndexer"`` or ``"FieldNotNullIndexer"``."""
    name: str
    column: str
    data: Any
    """A dict from each value to the numbers of its row groups, or the set of row groups that have any
    value."""


class _Name(NamedTuple):
    """The name of a class or function in a pickle, which is never imported."""

    module: str
    name: str


class _Object:
    """Stands for an object of Petastorm that a pickle builds."""

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.state: Any = None


class _Type:
    """A numpy type in a pickle; only numbers and text are allowed."""

    def __init__(self, text: str) -> None:
        if not _TYPE.fullmatch(text):
            raise ValueError(f"it has values of the type {text!r}")
        self.dtype = np.dtype(text)


def read(stored: bytes) -> list[PlainIndex]:
    """Returns the indexes in a pickle.

    Raises
    ------
    ValueError
        The pickle is damaged, or has parts that do not belong to an index.
    """
    try:
        made = _Machine(len(stored)).run(stored)
        return [_index(name, one) for name, one in made.items()]
    except ValueError:
        raise
    except Exception as error:
        raise ValueError(f"it is damaged: {type(error).__name__}: {error}") from error


def pickled(indexes: Iterable[PlainIndex]) -> bytes:
    """Returns the pickled indexes as they are stored in a data set."""
    out = bytearray(pickle.PROTO + bytes([_PROTOCOL]) + pickle.EMPTY_DICT + pickle.MARK)
    for one in indexes:
        data = one.data if isinstance(one.data, set) else defaultdict(set, one.data)
        state = {"_index_name": one.name, "_column_name": one.column, "_index_data": data}
        out += _value(one.name) + pickle.GLOBAL + f"{_MODULE}\n{one.kind}\n".encode()
        out += pickle.EMPTY_TUPLE + pickle.NEWOBJ + _value(state) + pickle.BUILD
    return bytes(out + pickle.SETITEMS + pickle.STOP)


def _value(value: Any) -> bytes:
    """Returns the opcodes that pickle a value of a built-in type, without those that begin and end a
    pickle."""
    return pickle.dumps(value, _PROTOCOL)[2:-1]


class _Machine:
    """Interprets the opcodes of a pickle. It makes only plain values, and calls only what is in
    ``_CALLS``."""

    def __init__(self, budget: int) -> None:
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        # The limit for the bytes and items that are passed to calls. Without it, a small pickle could pass
        # the same large value to many calls.
        self._budget = 16 * budget

    def run(self, stored: bytes) -> Any:
        for opcode, argument, _ in pickletools.genops(stored):
            name = opcode.name
            if name == "STOP":
                break
            if name in _PUSHED:
                self._stack.append(argument)
            elif name in _CONSTANTS:
                self._stack.append(_CONSTANTS[name]())
            elif name in _STEPS:
                _STEPS[name](self, argument)
            elif name not in ("PROTO", "FRAME"):
                raise ValueError(f"it has the opcode {name}")
        (made,) = self._stack
        return made

    def _put(self, at: int) -> None:
        self._memo[at] = self._stack[-1]

    def _memoize(self, _: Any) -> None:
        self._memo[len(self._memo)] = self._stack[-1]

    def _get(self, at: int) -> None:
        self._stack.append(self._memo[at])

    def _mark(self, _: Any) -> None:
        self._stack.append(_MARK)

    def _global(self, named: str) -> None:
        module, _, name = named.partition(" ")
        self._stack.append(_known(module, name))

    def _stack_global(self, _: Any) -> None:
        module, name = self._taken(2)
        self._stack.append(_known(module, name))

    def _new(self, _: Any) -> None:
        named, arguments = self._taken(2)
        if named.module not in _MODULES or arguments:
            raise ValueError(f"it makes an object of {named.module}.{named.name}")
        self._stack.append(_Object(named.name))

    def _reduce(self, _: Any) -> None:
        named, arguments = self._taken(2)
        self._budget -= sum(len(one) for one in arguments if hasattr(one, "__len__"))
        if self._budget < 0:
            raise ValueError("it names the same values too often")
        self._stack.append(_CALLS[named](*arguments))

    def _build(self, _: Any) -> None:
        made, state = self._taken(2)
        if isinstance(made, _Object) and isinstance(state, dict):
            made.state = state
        elif isinstance(made, _Type) and isinstance(state, tuple) and state[1] in ("<", ">", "|"):
            made.dtype = made.dtype.newbyteorder(state[1])
        else:
            raise ValueError("it gives a state to what has none")
        self._stack.append(made)

    def _tuple(self, length: int | None) -> None:
        self._stack.append(tuple(self._since_mark() if length is None else self._taken(length)))

    def _append(self, _: Any) -> None:
        (item,) = self._taken(1)
        self._of(list).append(item)

    def _appends(self, _: Any) -> None:
        items = self._since_mark()
        self._of(list).extend(items)

    def _add_items(self, _: Any) -> None:
        items = self._since_mark()
        self._of(set).update(items)

    def _set_item(self, _: Any) -> None:
        name, value = self._taken(2)
        self._of(dict)[name] = value

    def _set_items(self, _: Any) -> None:
        items = self._since_mark()
        self._of(dict).update(zip(items[::2], items[1::2], strict=True))

    def _taken(self, count: int) -> list[Any]:
        taken = self._stack[-count:]
        if len(taken) < count:
            raise ValueError("it takes more values than there are")
        del self._stack[-count:]
        return taken

    def _since_mark(self) -> list[Any]:
        at = len(self._stack) - 1
        while self._stack[at] is not _MARK:
            at -= 1
        items = self._stack[at + 1 :]
        del self._stack[at:]
        return items

    def _of(self, kind: type) -> Any:
        made = self._stack[-1]
        if not isinstance(made, kind):
            raise ValueError(f"it adds items to a {type(made).__name__}")
        return made


def _known(module: Any, name: Any) -> _Name:
    named = _Name(module, name)
    if named not in _CALLS and not (module in _MODULES and name in _KINDS):
        raise ValueError(f"it names {module}.{name}, which no index of Petastorm does")
    return _Name("builtins", "set") if named == _OLD_SET else named


def _index(name: Any, made: Any) -> PlainIndex:
    state = made.state
    if name != state["_index_name"]:
        raise ValueError(f"the index {name!r} calls itself {state['_index_name']!r}")
    index = PlainIndex(made.kind, name, state["_column_name"], state["_index_data"])
    is_by_value = made.kind == "SingleFieldIndexer"
    sets = list(index.data.values()) if is_by_value else [index.data]
    if not all(isinstance(one, set) for one in sets) or not all(type(at) is int for one in sets for at in one):
        raise ValueError(f"the index {name!r} has something else than numbers of row groups")
    return index


def _scalar(kind: _Type, cell: Any) -> Any:
    """Makes the plain Python value that equals a numpy scalar, from the scalar's type and bytes."""
    # A pickle of Python 2 has text in place of bytes.
    (value,) = np.frombuffer(cell.encode("latin1") if isinstance(cell, str) else cell, kind.dtype)
    return value.item()


def _dtype(text: Any, *_: Any) -> _Type:
    return _Type(text.decode() if isinstance(text, bytes) else text)


def _encoded(text: str, codec: Any) -> bytes:
    if codec != "latin1":
        raise ValueError(f"it encodes text as {codec!r}")
    return text.encode("latin1")


def _decimal(text: str) -> decimal.Decimal:
    return decimal.Decimal(text)


def _set(items: Any = ()) -> set[Any]:
    return set(items)


def _by_value(kind: _Name) -> dict[Any, Any]:
    if kind != _SET:
        raise ValueError("it has a dictionary of something else than sets")
    return {}


_SET, _OLD_SET = _Name("builtins", "set"), _Name("__builtin__", "set")

#: The functions and classes that a pickled index may call, each with the function that is called instead.
_CALLS: dict[_Name, Callable[..., Any]] = {
    _SET: _set,
    _OLD_SET: _set,
    _Name("collections", "defaultdict"): _by_value,
    _Name("numpy", "dtype"): _dtype,
    _Name("numpy.core.multiarray", "scalar"): _scalar,
    _Name("numpy._core.multiarray", "scalar"): _scalar,
    _Name("_codecs", "encode"): _encoded,
    _Name("decimal", "Decimal"): _decimal,
}

#: The opcodes that only push their argument onto the stack.
_PUSHED = {
    *("BININT", "BININT1", "BININT2", "LONG1", "LONG4", "BINFLOAT"),
    *("BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8", "BINSTRING", "SHORT_BINSTRING"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8"),
}

_CONSTANTS: dict[str, Callable[[], Any]] = {
    "NONE": lambda: None,
    "NEWTRUE": lambda: True,
    "NEWFALSE": lambda: False,
    "EMPTY_DICT": dict,
    "EMPTY_LIST": list,
    "EMPTY_SET": set,
    "EMPTY_TUPLE": tuple,
}

_STEPS: dict[str, Callable[[_Machine, Any], None]] = {
    **dict.fromkeys(("BINPUT", "LONG_BINPUT"), _Machine._put),
    **dict.fromkeys(("BINGET", "LONG_BINGET"), _Machine._get),
    "MEMOIZE": _Machine._memoize,
    "MARK": _Machine._mark,
    "GLOBAL": _Machine._global,
    "STACK_GLOBAL": _Machine._stack_global,
    "NEWOBJ": _Machine._new,
    "REDUCE": _Machine._reduce,
    "BUILD": _Machine._build,
    "TUPLE": lambda machine, _: machine._tuple(None),
    "TUPLE1": lambda machine, _: machine._tuple(1),
    "TUPLE2": lambda machine, _: machine._tuple(2),
    "TUPLE3": lambda machine, _: machine._tuple(3),
    "APPEND": _Machine._append,
    "APPENDS": _Machine._appends,
    "ADDITEMS": _Machine._add_items,
    "SETITEM": _Machine._set_item,
    "SETITEMS": _Machine._set_items,
}
