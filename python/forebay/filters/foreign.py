"""Translates filters that are expressions of pyarrow or Polars into expressions of forebay.

A part of an expression that means exactly the same in forebay is translated. Any other part raises an error
that names the part. Neither package is imported here: if the user has an expression of a package, that
package was imported already.
"""

from __future__ import annotations

import ctypes
import io
import json
import sys
import warnings
from typing import Any

from ..errors import InvalidError
from .expressions import ColumnExpression, Expression, col, operand

__all__: list[str] = []

_Any = ColumnExpression | Expression

_COMPARISONS = {
    "equal": "__eq__",
    "not_equal": "__ne__",
    "less": "__lt__",
    "less_equal": "__le__",
    "greater": "__gt__",
    "greater_equal": "__ge__",
}
_POLARS_OPERATORS = {
    "Eq": "__eq__",
    "NotEq": "__ne__",
    "Lt": "__lt__",
    "LtEq": "__le__",
    "Gt": "__gt__",
    "GtEq": "__ge__",
    "Plus": "__add__",
    "Minus": "__sub__",
    "Multiply": "__mul__",
    "TrueDivide": "__truediv__",
}
#: Values of ``null_matching_behavior`` in pyarrow's SetLookupOptions.
_MATCH, _SKIP, _EMIT_NULL = 0, 1, 2


def translated(filter: Any) -> Expression | None:
    """Translates an expression of pyarrow or Polars; returns ``None`` for any other object."""
    package = type(filter).__module__.partition(".")[0]
    if package == "pyarrow" and type(filter).__name__ == "Expression":
        return _condition(_Arrow(filter).read(), filter)
    if package == "polars" and type(filter).__name__ == "Expr":
        try:
            return _condition(_polars(json.loads(_serialized(filter))), filter)
        except (AttributeError, IndexError, KeyError, TypeError) as error:
            # This version of Polars serializes expressions in a form that this module does not know.
            raise InvalidError(
                f"filter= cannot read this Polars expression: {filter} (write it with fb.col)"
            ) from error
    return None


def _condition(found: _Any, filter: Any) -> Expression:
    condition = _as_condition(found)
    if condition is None:
        raise InvalidError(f"filter={filter} is a value and not a condition (compare it: == True)")
    return condition


def _as_condition(found: Any) -> Expression | None:
    """Returns ``found`` if it is a condition, and ``found == True`` if it is a bare column, which counts as a
    condition in pyarrow and Polars; otherwise ``None``."""
    if isinstance(found, ColumnExpression) and "column" in found._node:
        found = found == True  # noqa: E712
    return found if isinstance(found, Expression) else None


def _is_nan(column: ColumnExpression) -> Expression:
    """The condition that a value is NaN; it is null for a null."""
    return ~(column == column)


def _refused(package: str, what: str) -> InvalidError:
    return InvalidError(f"filter= does not take {what} of a {package} expression (write it with fb.col)")


def _combined(parts: list[_Any], method: str, package: str) -> Expression:
    left, right = map(_as_condition, parts)
    if left is None or right is None:
        raise _refused(package, "a value as a condition")
    found: Expression = getattr(left, method)(right)
    return found


def _applied(method: str, parts: list[Any], package: str) -> Any:
    left, right = parts
    if isinstance(left, Expression) or isinstance(right, Expression):
        raise _refused(package, "a condition as a value")
    if not isinstance(left, ColumnExpression):
        # A plain value becomes an expression first; `getattr` would otherwise find a method of the value's
        # type.
        left = operand(left, right)
    return getattr(left, method)(right)


class _Arrow:
    """Reads an expression of pyarrow from its serialized form. That form has the parts of the expression as
    the key-value pairs of a schema's metadata, in the order of the expression, and the values as columns of
    one row."""

    def __init__(self, expression: Any) -> None:
        pyarrow = sys.modules["pyarrow"]
        _, (buffer,) = expression.__reduce__()
        with pyarrow.ipc.open_file(buffer) as file:
            batch = file.get_batch(0)
        self._pairs = _pairs(batch.schema)
        self._at = 0
        self._values = [column[0] for column in batch.columns]

    def read(self) -> Any:
        kind, name = self._next()
        if kind == "literal":
            return self._values[int(name)].as_py()
        if kind == "field_ref":
            return col(name)
        if kind != "call":
            raise _refused("pyarrow", kind.replace("_", " "))
        arguments: list[Any] = []
        options: dict[str, Any] = {}
        while self._pairs[self._at][0] != "end":
            if self._pairs[self._at][0] == "options":
                options = self._options(int(self._next()[1]), arguments)
            else:
                arguments.append(self.read())
        self._next()
        return _arrow_call(name, arguments, options)

    def _options(self, at: int, arguments: list[Any]) -> dict[str, Any]:
        try:
            options: dict[str, Any] = self._values[at].as_py()
        except UnicodeDecodeError:
            # pyarrow returns a prefix as text even if it was given as bytes.
            raise InvalidError(f"{arguments[0]!r}: bytes in a filter must be UTF-8") from None
        return options

    def _next(self) -> tuple[str, str]:
        self._at += 1
        return self._pairs[self._at - 1]


def _arrow_call(name: str, arguments: list[Any], options: dict[str, Any]) -> Any:
    if name in _COMPARISONS:
        return _applied(_COMPARISONS[name], arguments, "pyarrow")
    if name in ("add_checked", "subtract_checked", "multiply_checked"):
        return _applied(f"__{name[:3]}__", arguments, "pyarrow")
    if name in ("and_kleene", "or_kleene"):
        return _combined(arguments, f"__{name.partition('_')[0]}__", "pyarrow")
    first = arguments[0] if arguments else None
    if name == "invert" and (condition := _as_condition(first)) is not None:
        return ~condition
    if isinstance(first, ColumnExpression):
        if name == "is_null":
            return first.is_null() | _is_nan(first) if options.get("nan_is_null") else first.is_null()
        if name == "is_nan":
            return _is_nan(first)
        if name == "is_valid":
            return ~first.is_null()
        if name == "starts_with" and not options.get("ignore_case"):
            return first.starts_with(options["pattern"])
        if name == "is_in":
            return _arrow_is_in(first, options)
    raise _refused("pyarrow", f"the function {name!r}")


def _arrow_is_in(column: ColumnExpression, options: dict[str, Any]) -> Expression:
    values, nulls = options["value_set"], options["null_matching_behavior"]
    there = [value for value in values if value is not None]
    if nulls == _MATCH and len(there) < len(values):
        return column.is_in(there) | column.is_null()
    if nulls in (_MATCH, _SKIP):
        return column.is_in(there)
    if nulls == _EMIT_NULL and len(there) == len(values):
        return _is_in_or_null(column, there)
    raise _refused("pyarrow", "is_in with this null_matching_behavior")


def _is_in_or_null(column: ColumnExpression, values: list[Any]) -> Expression:
    """Makes an ``is_in`` condition that is null for a null. It is a negated ``not in``, because forebay's
    ``in`` is false for a null."""
    is_in = column.is_in(values)
    name, _, listed = is_in._node["compare"]
    return Expression._of({"not": {"compare": [name, "not in", listed]}}, is_in._text)


class _CSchema(ctypes.Structure):
    """A schema of Arrow's C data interface."""

    _fields_ = [
        ("format", ctypes.c_char_p),
        ("name", ctypes.c_char_p),
        ("metadata", ctypes.c_void_p),
        ("flags", ctypes.c_int64),
        ("n_children", ctypes.c_int64),
        ("children", ctypes.c_void_p),
        ("dictionary", ctypes.c_void_p),
        ("release", ctypes.CFUNCTYPE(None, ctypes.c_void_p)),
        ("private_data", ctypes.c_void_p),
    ]


def _pairs(schema: Any) -> list[tuple[str, str]]:
    """The key-value pairs of a schema's metadata in their order. They are read from Arrow's C structure,
    because the dict that pyarrow returns has each key only once."""
    exported = _CSchema()
    schema._export_to_c(ctypes.addressof(exported))
    try:
        at = exported.metadata

        def number() -> int:
            nonlocal at
            found = ctypes.c_int32.from_address(at).value
            at += 4
            return found

        def text() -> str:
            nonlocal at
            length = number()
            found = ctypes.string_at(at, length).decode()
            at += length
            return found

        return [(text(), text()) for _ in range(number())]
    finally:
        exported.release(ctypes.addressof(exported))


def _serialized(expression: Any) -> str:
    with warnings.catch_warnings():
        # Polars warns that the form of serialized expressions may change. The warning is not shown, because
        # an unknown form is an error here.
        warnings.simplefilter("ignore")
        try:
            found: str = expression.meta.serialize(format="json")
        except Exception as error:
            raise InvalidError(f"filter= cannot read this Polars expression: {error} (write it with fb.col)") from None
    return found


def _polars(node: dict[str, Any]) -> Any:
    kind = next(iter(node))
    body = node[kind]
    if kind == "Column":
        return col(body)
    if kind == "Literal":
        return _polars_literal(node)
    if kind == "BinaryExpr":
        parts = [_polars(body["left"]), _polars(body["right"])]
        if body["op"] in ("And", "Or"):
            return _combined(parts, f"__{body['op'].lower()}__", "Polars")
        if body["op"] in _POLARS_OPERATORS:
            return _applied(_POLARS_OPERATORS[body["op"]], parts, "Polars")
        raise _refused("Polars", f"the operator {body['op']}")
    if kind == "Function":
        return _polars_function(body["function"], [_polars(part) for part in body["input"]])
    raise _refused("Polars", kind)


def _polars_function(function: Any, arguments: list[Any]) -> Expression:
    first = arguments[0]
    if function == {"Boolean": "Not"} and (condition := _as_condition(first)) is not None:
        return ~condition
    if isinstance(first, ColumnExpression):
        if function == {"Boolean": "IsNan"}:
            return _is_nan(first)
        if function == {"Boolean": "IsNotNan"}:
            return first == first
        if function == {"Boolean": "IsNull"}:
            return first.is_null()
        if function == {"Boolean": "IsNotNull"}:
            return ~first.is_null()
        if function == {"StringExpr": "StartsWith"} and isinstance(arguments[1], str):
            return first.starts_with(arguments[1])
        if function == {"Boolean": {"IsBetween": {"closed": "Both"}}}:
            least, greatest = (
                _applied(method, [first, of], "Polars")
                for method, of in zip(("__ge__", "__le__"), arguments[1:], strict=True)
            )
            return _combined([least, greatest], "__and__", "Polars")
        if function == {"Boolean": {"IsIn": {"nulls_equal": False}}} and isinstance(arguments[1], list):
            return _is_in_or_null(first, arguments[1])
    name = json.dumps(function).strip('"{}').replace('"', "")
    raise _refused("Polars", f"the function {name!r}")


def _polars_literal(node: dict[str, Any]) -> Any:
    polars = sys.modules["polars"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            expression = polars.Expr.deserialize(io.StringIO(json.dumps(node)), format="json")
            found = polars.select(expression).to_series()
        except Exception:
            # Polars serializes NaN and infinity, which JSON does not have, in a form that it cannot read
            # back.
            raise _refused("Polars", "this literal, such as NaN and infinity") from None
    body = node["Literal"]
    if isinstance(body, dict) and "Series" in body:
        return found.to_list()
    value = found.item()
    return value.to_list() if isinstance(value, polars.Series) else value
