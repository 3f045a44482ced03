"""Many columns of numbers as one matrix."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..errors import InvalidError
from ..options.checks import kind_of, mapping, names
from ..options.written import written
from .tensor import dtype_name

if TYPE_CHECKING:
    import numpy as np

    from ..choices import TensorType

__all__ = ["Stack"]


@dataclass(frozen=True, repr=False)
class Stack:
    """Many columns as one matrix: a frozen value for ``stack=``.

    The columns are delivered as one array of shape ``(rows, columns)``, written by the loader's threads into the
    batch's own memory. They are read even if ``columns=`` does not list them, and are not delivered themselves. A null
    makes its row a bad row, unless ``fill_null`` or ``null_mask`` names the stack or the column.

    Parameters
    ----------
    columns : iterable of str
        Stored names, or patterns of them, in the order of the matrix. The columns that a pattern matches are in the
        order of the schema; a column that is also listed by its own name is at the place of that name.
    dtype : dtype, optional
        The type to cast values to, as ``cast`` does. Default: the type of the columns, which must be the same.

    Raises
    ------
    InvalidError
        ``columns`` is empty or not an iterable of names, or ``dtype`` is not a type of numbers or booleans.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Stack(["age", "I*"], dtype="float32")
    forebay.Stack(['age', 'I*'], dtype='float32')
    """

    columns: tuple[str, ...]
    """The names of the columns, or patterns of names, in the order of the matrix."""
    dtype: TensorType | None = field(default=None, kw_only=True)
    """The type that values are cast to, or None for the type of the columns."""

    def __init__(self, columns: Iterable[str], *, dtype: TensorType | type | np.dtype[Any] | None = None) -> None:
        listed = tuple(names(columns, "columns"))
        if not listed:
            raise InvalidError("columns must name at least one column, or a pattern such as 'I*'")
        object.__setattr__(self, "columns", listed)
        object.__setattr__(self, "dtype", None if dtype is None else dtype_name(dtype, "dtype"))

    def _spec(self) -> dict[str, Any]:
        """This object as JSON values, for the spec that the compiled library reads."""
        return {"columns": list(self.columns), **({} if self.dtype is None else {"dtype": self.dtype})}

    def __repr__(self) -> str:
        return written(self, list(self.columns))


def stacks(stack: Any) -> dict[str, Stack]:
    """Checks the argument ``stack``, a dict from the delivered name of each matrix to its :class:`Stack`."""
    given = mapping(stack, "stack", 'forebay.Stack(["I*"])')
    for name, one in given.items():
        if not isinstance(one, Stack):
            raise InvalidError(f"stack[{name!r}] must be a forebay.Stack, got {kind_of(one)}")
    return given
