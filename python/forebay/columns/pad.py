"""Lists of numbers as rows of one length."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .._forebay import KEPT_ENDS, PAD_SIDES
from ..errors import InvalidError
from ..options.checks import check_number, named, whole
from ..options.written import written

if TYPE_CHECKING:
    from ..choices import KeptEnd, PadSide

__all__ = ["Pad"]


@dataclass(frozen=True, repr=False)
class Pad:
    """Pads a column of lists of numbers to rows of one length: a frozen value for ``pad=``.

    The column is delivered as a numpy array of shape ``(rows, length)`` with the type of the numbers, made by the
    loader's threads in the batch's own memory. Shorter lists are padded. A list that is null, or has a null among the
    delivered numbers, is a bad row, unless ``fill_null`` gives a value.

    Parameters
    ----------
    length : int, optional
        The length of a row, at least 1. Default: the length of the longest list in the batch.
    multiple : int, optional
        Make rows as long as the longest list in the batch, rounded up to a multiple of this number, so that batches
        have few shapes. ``length`` is then the largest length of a row, and must be such a multiple too.
    value : float, default 0
        The padding. Both the column's type and a float64 must be able to hold it.
    side : {"right", "left"}, default "right"
        Pad lists after their end, or before their beginning.
    truncate : bool, default False
        Cut off longer lists. By default they are bad rows.
    keep : {"first", "last"}, default "first"
        With ``truncate=True``, the numbers of a longer list that are kept.
    mask : bool, default False
        Deliver ``"<name>.mask"`` as well, of the same shape: True for a number of the list, False for padding.

    Raises
    ------
    InvalidError
        ``length`` or ``multiple`` is not an int of at least 1, another argument is of the wrong type, or ``truncate``
        or ``keep`` is given without the argument that it needs.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Pad(length=2048, value=-1, truncate=True)
    forebay.Pad(2048, value=-1, truncate=True)
    >>> fb.Pad(multiple=64, side="left")
    forebay.Pad(multiple=64, side='left')
    """

    length: int | None = None
    """The length of a row, or None for that of the batch's longest list."""
    multiple: int | None = field(default=None, kw_only=True)
    """Rows are as long as the batch's longest list, rounded up to a multiple of this number."""
    value: float = field(default=0, kw_only=True)
    """The number that lists are padded with."""
    side: PadSide = field(default="right", kw_only=True)
    """The side on which lists are padded."""
    truncate: bool = field(default=False, kw_only=True)
    """Whether lists longer than ``length`` are cut off, instead of being bad rows."""
    keep: KeptEnd = field(default="first", kw_only=True)
    """The end of a list whose numbers are kept when the list is cut off."""
    mask: bool = field(default=False, kw_only=True)
    """Whether a column ``<name>.mask`` is delivered too, which is False for padding."""

    def __post_init__(self) -> None:
        if self.length is not None:
            object.__setattr__(self, "length", whole(self.length, "length", 1))
        if self.multiple is not None:
            object.__setattr__(self, "multiple", whole(self.multiple, "multiple", 1, 31))
        if self.length is not None and self.multiple is not None and self.length % self.multiple:
            fitting = max(self.length - self.length % self.multiple, self.multiple)
            raise InvalidError(
                f"length must be a multiple of multiple={self.multiple}, got {self.length} (pass {fitting}, for "
                "example)"
            )
        check_number(self.value)
        named(self.side, "side", PAD_SIDES)
        named(self.keep, "keep", KEPT_ENDS)
        for name in ("truncate", "mask"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidError(f"{name} must be True or False, got {getattr(self, name)!r}")
        if self.truncate and self.length is None:
            raise InvalidError(
                "truncate=True needs a length: without one, rows are as long as the longest list (pass "
                "forebay.Pad(length, truncate=True))"
            )
        if self.keep != "first" and not self.truncate:
            raise InvalidError(f"keep={self.keep!r} is for lists that are cut off (pass truncate=True too)")

    def _spec(self) -> dict[str, Any]:
        """This object as JSON values, for the spec that the compiled library reads."""
        return {
            "length": self.length,
            "multiple": self.multiple,
            "value": float(self.value),
            "side": self.side,
            "truncate": self.truncate,
            "keep": self.keep,
            "mask": self.mask,
        }

    def __repr__(self) -> str:
        return written(self) if self.length is None else written(self, self.length)
