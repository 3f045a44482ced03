"""Filters as expressions: ``fb.col("label") < 100``."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, NoReturn

from ..errors import InvalidError
from ..options.checks import given, whole
from .literals import is_list, value_of

if TYPE_CHECKING:
    from typing import Self

__all__ = ["ColumnExpression", "Expression", "col", "row_fraction"]

_COMBINE = "combine conditions with &, | and ~, each in parentheses: (fb.col('x') > 0) & (fb.col('x') < 9)"


class _Node:
    """Base class of conditions and columns. It raises an error if Python asks for its truth value, as ``and``
    does, or iterates over it, because both are mistakes in a filter."""

    __slots__ = ("_node", "_text")
    __hash__ = None  # type: ignore[assignment]

    _node: Any
    _text: str

    def __init__(self) -> None:
        raise InvalidError("expressions are made of columns: fb.col('x') > 0")

    @classmethod
    def _of(cls, node: Any, text: str) -> Self:
        made = object.__new__(cls)
        made._node, made._text = node, text
        return made

    def __bool__(self) -> NoReturn:
        raise InvalidError(f"a condition on rows is neither true nor false ({_COMBINE})")

    def __iter__(self) -> NoReturn:
        raise InvalidError(f"a condition on rows cannot be iterated ({_COMBINE})")

    def __repr__(self) -> str:
        return self._text

    def __getstate__(self) -> tuple[Any, str]:
        return self._node, self._text

    def __setstate__(self, state: tuple[Any, str]) -> None:
        self._node, self._text = state


class Expression(_Node):
    """A condition on rows, for ``filter=``: made by comparing a :func:`col`, or by :func:`row_fraction`.

    Conditions combine with ``&`` (and), ``|`` (or) and ``~`` (not), each in parentheses. Null is treated as
    in SQL: a comparison with null is neither true nor false, and neither is its negation. The exception is
    :meth:`ColumnExpression.is_in`, which is false for null. A row is read if the whole filter is true.

    Examples
    --------
    >>> import forebay as fb
    >>> filter = (fb.col("label") < 2) | fb.col("label").is_in([7, 9])
    >>> filter & ~fb.col("label").is_null()
    ((fb.col('label') < 2) | fb.col('label').is_in([7, 9])) & ~fb.col('label').is_null()
    """

    __slots__ = ()

    def __and__(self, other: Expression) -> Expression:
        return _combined("and", "&", self, other)

    def __or__(self, other: Expression) -> Expression:
        return _combined("or", "|", self, other)

    def __invert__(self) -> Expression:
        return Expression._of({"not": self._node}, f"~{_inside(self)}")


class ColumnExpression(_Node):
    """A column, or arithmetic on numeric columns, to be compared: made by :func:`col`.

    ``==``, ``!=``, ``<``, ``<=``, ``>`` and ``>=`` compare the column with a value or, if both are numbers,
    with another column. ``+``, ``-``, ``*``, ``/``, ``//`` and ``%`` have the same meaning as in Python. They
    are exact on integers, and are computed in 64-bit floats otherwise. An integer divided by 0 with ``//`` or
    ``%`` is null.

    Examples
    --------
    >>> import forebay as fb
    >>> loader = fb.Loader("data/train/", columns=["id"], filter=fb.col("id") % 10 == 0)
    >>> loader.num_rows
    26
    """

    __slots__ = ()

    def __eq__(self, other: Any) -> Expression:  # type: ignore[override]
        return self._compared("=", "==", other)

    def __ne__(self, other: Any) -> Expression:  # type: ignore[override]
        return self._compared("!=", "!=", other)

    def __lt__(self, other: Any) -> Expression:
        return self._compared("<", "<", other)

    def __le__(self, other: Any) -> Expression:
        return self._compared("<=", "<=", other)

    def __gt__(self, other: Any) -> Expression:
        return self._compared(">", ">", other)

    def __ge__(self, other: Any) -> Expression:
        return self._compared(">=", ">=", other)

    def is_in(self, values: Iterable[Any]) -> Expression:
        """The condition that the column has one of these values; it is false for null.

        Parameters
        ----------
        values : iterable of int, float, bool, str, bytes, date or datetime
            May be empty.

        Returns
        -------
        Expression
            The condition.

        Examples
        --------
        >>> import forebay as fb
        >>> fb.Loader("data/train/", columns=["id"], filter=fb.col("id").is_in([3, 4, 999])).num_rows
        2
        """
        if not is_list(values):
            raise InvalidError(f"is_in needs a list of values, got {values!r}")
        beside = repr(self)
        found = [value_of(value, beside) for value in values]
        if isinstance(values, (set, frozenset)):
            # Sets are sorted, so that equal filters give equal text, which is compared when a state is
            # loaded.
            found.sort(key=repr)
        return Expression._of({"compare": [self._node, "in", {"literal": found}]}, f"{_inside(self)}.is_in({found!r})")

    def is_null(self) -> Expression:
        """The condition that the column is null. The column may have any type.

        Returns
        -------
        Expression
            The condition, which is always true or false.

        Examples
        --------
        >>> import forebay as fb
        >>> fb.Loader("data/train/", columns=["id"], filter=~fb.col("label").is_null()).num_rows
        256
        """
        return Expression._of({"is_null": self._node}, f"{_inside(self)}.is_null()")

    def starts_with(self, prefix: str | bytes) -> Expression:
        """The condition that a text or binary value begins with a prefix. It cannot be used on the result of
        arithmetic on columns.

        Parameters
        ----------
        prefix : str or bytes
            Compared byte by byte.

        Returns
        -------
        Expression
            The condition.

        Examples
        --------
        >>> import forebay as fb
        >>> fb.col("split").starts_with("train")
        fb.col('split').starts_with('train')
        """
        if not isinstance(prefix, (str, bytes)):
            raise InvalidError(f"starts_with needs a str or bytes, got {prefix!r}")
        text = value_of(prefix, repr(self))
        return Expression._of({"starts_with": [self._node, text]}, f"{_inside(self)}.starts_with({text!r})")

    def __add__(self, other: Any) -> ColumnExpression:
        return self._computed("+", other)

    def __radd__(self, other: Any) -> ColumnExpression:
        return operand(other, self)._computed("+", self)

    def __sub__(self, other: Any) -> ColumnExpression:
        return self._computed("-", other)

    def __rsub__(self, other: Any) -> ColumnExpression:
        return operand(other, self)._computed("-", self)

    def __mul__(self, other: Any) -> ColumnExpression:
        return self._computed("*", other)

    def __rmul__(self, other: Any) -> ColumnExpression:
        return operand(other, self)._computed("*", self)

    def __truediv__(self, other: Any) -> ColumnExpression:
        return self._computed("/", other)

    def __rtruediv__(self, other: Any) -> ColumnExpression:
        return operand(other, self)._computed("/", self)

    def __floordiv__(self, other: Any) -> ColumnExpression:
        return self._computed("//", other)

    def __rfloordiv__(self, other: Any) -> ColumnExpression:
        return operand(other, self)._computed("//", self)

    def __mod__(self, other: Any) -> ColumnExpression:
        return self._computed("%", other)

    def __rmod__(self, other: Any) -> ColumnExpression:
        return operand(other, self)._computed("%", self)

    def __neg__(self) -> ColumnExpression:
        return operand(0, self)._computed("-", self)

    def __and__(self, other: Any) -> NoReturn:
        # `fb.col("x") > 0 & fb.col("y") > 0` comes here: & binds closer than >.
        raise InvalidError(f"{self!r} is a column and not a condition ({_COMBINE})")

    __or__ = __rand__ = __ror__ = __and__

    def __invert__(self) -> NoReturn:
        raise InvalidError(f"{self!r} is a column and not a condition (compare it: {self!r} == False)")

    def _compared(self, op: str, sign: str, other: Any) -> Expression:
        right = operand(other, self)
        return Expression._of({"compare": [self._node, op, right._node]}, f"{_inside(self)} {sign} {_inside(right)}")

    def _computed(self, op: str, other: Any) -> ColumnExpression:
        right = operand(other, self)
        return ColumnExpression._of(
            {"arithmetic": [self._node, op, right._node]}, f"{_inside(self)} {op} {_inside(right)}"
        )


def col(name: str) -> ColumnExpression:
    """A column, to be compared in a filter.

    Parameters
    ----------
    name : str
        Name of the column, which need not be among ``columns=``.

    Returns
    -------
    ColumnExpression
        The column.

    Examples
    --------
    >>> import forebay as fb
    >>> loader = fb.Loader("data/train/", columns=["id"], filter=(fb.col("id") >= 10) & (fb.col("id") < 20))
    >>> loader.num_rows
    10
    """
    if not isinstance(name, str):
        raise InvalidError(f"col needs the name of a column, got {name!r}")
    return ColumnExpression._of({"column": name}, f"fb.col({name!r})")


def row_fraction(fraction: float, *, seed: int, by: str | None = None) -> Expression:
    """A share of the rows, drawn by a hash: the same rows in every run and on every rank.

    ``~fb.row_fraction(0.9, seed=1)`` selects the other rows, so the two are a training and a validation set.
    Each row is drawn independently, so the share of the drawn rows is only approximately ``fraction``.

    Parameters
    ----------
    fraction : float
        From 0 to 1.
    seed : int
        The seed of the hash: another seed draws other rows.
    by : str, optional
        A column of integers, text or binary, whose value is hashed: rows with the same value stay together,
        such as all photographs of one patient. Default: the path of the row's file in the data set and the
        row's number in that file are hashed.

    Returns
    -------
    Expression
        The condition.

    Examples
    --------
    >>> import forebay as fb
    >>> train = fb.Loader("data/train/", filter=fb.row_fraction(0.9, seed=1))
    >>> held_out = fb.Loader("data/train/", filter=~fb.row_fraction(0.9, seed=1))
    >>> train.num_rows + held_out.num_rows
    256
    """
    if isinstance(fraction, bool) or not isinstance(fraction, (int, float)) or not 0 <= fraction <= 1:
        raise InvalidError(f"the fraction of rows must be a number from 0 to 1, got {fraction!r}")
    if by is not None and not isinstance(by, str):
        raise InvalidError(f"by must be the name of a column, got {by!r}")
    sample: dict[str, Any] = {"fraction": float(fraction), "seed": whole(seed, "seed", 0)}
    text = f"fb.row_fraction({fraction!r}, seed={sample['seed']}"
    if by is not None:
        sample["by"] = by
        text += f", by={by!r}"
    return Expression._of({"sample": sample}, text + ")")


def operand(value: Any, beside: ColumnExpression) -> ColumnExpression:
    """Returns one side of a comparison or of arithmetic as an expression; ``beside`` is the other side."""
    if isinstance(value, ColumnExpression):
        return value
    if isinstance(value, Expression):
        raise InvalidError(f"{value!r} is a condition and not a value ({_COMBINE})")
    if value is None:
        raise InvalidError(f"nothing is equal to null (use {_inside(beside)}.is_null())")
    if isinstance(value, (list, tuple, set, frozenset)):
        raise InvalidError(f"{beside!r} was compared with {value!r} (use is_in for a list of values)")
    found = value_of(value, repr(beside))
    return ColumnExpression._of({"literal": found}, repr(found))


def _combined(name: str, sign: str, left: Expression, right: Any) -> Expression:
    if not isinstance(right, Expression):
        raise InvalidError(f"{given(right)} is not a condition ({_COMBINE})")
    # A long chain such as a & b & c becomes one flat list of conditions instead of deeply nested ones.
    parts = [part for one in (left, right) for part in one._node.get(name, [one._node])]
    texts = [one._text if name in one._node else _inside(one) for one in (left, right)]
    return Expression._of({name: parts}, f" {sign} ".join(texts))


def _inside(expression: _Node) -> str:
    """The text of an expression as a part of a larger one, in parentheses where it needs them."""
    kind = next(iter(expression._node))
    is_call = kind == "compare" and expression._node[kind][1] in ("in", "not in")
    simple = is_call or kind in ("column", "literal", "is_null", "starts_with", "sample", "not")
    return expression._text if simple else f"({expression._text})"
