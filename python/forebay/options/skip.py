"""What becomes of bad rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidError
from .checks import whole

__all__ = ["Skip"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Skip:
    """Leaves bad rows out of the batches and counts them, instead of raising.

    A batch is shorter by the rows that are left out of it, so that every rank has the same number of steps;
    :meth:`Loader.skipped` lists them. No batch is empty: one without a row that can be delivered has the next row of
    its rank's that can be. Bad rows are those whose image cannot be decoded, whose tensor has another shape, or whose
    value is not in a vocabulary; those with a null in a column that needs values (numbers, booleans, times, binary of
    fixed length, lists, structures of these) and has no ``fill_null``, and those of row groups that cannot be read. Of
    an image only the part that is wanted is decoded: damage outside that part, such as below a crop, is not seen.

    Parameters
    ----------
    at_most : int
        Bad rows to tolerate in one epoch of one rank; one more raises after all. 0 or more. A state has the count, so a
        run that resumes goes on from there.
    refill : bool, default False
        Have batches keep their shape, for models that are compiled: the nearest row of the batch that is good stands in
        for a bad one. It comes twice then, and with ``row_mask=True`` the column ``row_mask`` is True for one of the
        two.

    Raises
    ------
    InvalidError
        ``at_most`` is not an int of at least 0, or ``refill`` is not a bool.

    Examples
    --------
    >>> import forebay as fb
    >>> loader = fb.Loader("data/train/", on_bad_row=fb.Skip(at_most=10))
    """

    at_most: int
    """Bad rows to tolerate in one epoch of one rank."""
    refill: bool = field(default=False, kw_only=True)
    """Whether batches keep their shape."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "at_most", whole(self.at_most, "at_most", 0))
        if not isinstance(self.refill, bool):
            raise InvalidError(f"refill must be True or False, got {self.refill!r}")

    def _spec(self) -> dict[str, Any]:
        """The value as the library reads it."""
        return {"skip": {"at_most": self.at_most, "refill": self.refill}}

    def __repr__(self) -> str:
        return f"forebay.Skip(at_most={self.at_most}{', refill=True' if self.refill else ''})"
