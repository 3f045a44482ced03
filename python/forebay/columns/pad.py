"""Lists of numbers as rows of one length."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidError
from ..options.checks import check_number, whole

__all__ = ["Pad"]


@dataclass(frozen=True, repr=False)
class Pad:
    """Pads a column of lists of numbers to rows of one length: a frozen value for ``pad=``.

    The column is delivered as a numpy array of shape ``(rows, length)`` with the type of the numbers, made by the
    loader's threads in the batch's own memory. Shorter lists are padded at their end. A list that is null, or has a
    null among the delivered numbers, is a bad row, unless ``fill_null`` gives a value.

    Parameters
    ----------
    length : int, optional
        The length of a row, at least 1. Default: the length of the longest list in the batch.
    value : float, default 0
        The padding. Both the column's type and a float64 must be able to hold it.
    truncate : bool, default False
        Cut off longer lists. By default they are bad rows.
    mask : bool, default False
        Deliver ``"<name>.mask"`` as well, of the same shape: True for a number of the list, False for padding.

    Raises
    ------
    InvalidError
        ``length`` is not an int of at least 1, or another argument is of the wrong type.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Pad(length=2048, value=-1, truncate=True)
    forebay.Pad(2048, value=-1, truncate=True)
    """

    length: int | None = None
    """The length of a row, or None for that of the batch's longest list."""
    value: float = field(default=0, kw_only=True)
    """The padding."""
    truncate: bool = field(default=False, kw_only=True)
    """Whether longer lists are cut off."""
    mask: bool = field(default=False, kw_only=True)
    """Whether a mask is delivered that distinguishes numbers of the lists from padding."""

    def __post_init__(self) -> None:
        if self.length is not None:
            object.__setattr__(self, "length", whole(self.length, "length", 1))
        check_number(self.value)
        for name in ("truncate", "mask"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.truncate and self.length is None:
            raise InvalidError(
                "truncate=True needs a length: without one, rows are as long as the longest list (pass "
                "forebay.Pad(length, truncate=True))"
            )

    def _spec(self) -> dict[str, Any]:
        """The value in the form that the library reads."""
        return {"length": self.length, "value": float(self.value), "truncate": self.truncate, "mask": self.mask}

    def __repr__(self) -> str:
        options = [] if self.length is None else [repr(self.length)]
        options += [] if self.value == 0 else [f"value={self.value!r}"]
        options += [f"{name}=True" for name in ("truncate", "mask") if getattr(self, name)]
        return f"forebay.Pad({', '.join(options)})"
