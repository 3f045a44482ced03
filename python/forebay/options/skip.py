""":class:`Skip`, the option of a loader that leaves out rows that cannot be read or decoded."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..errors import InvalidError
from .checks import whole

__all__ = ["Skip"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Skip:
    """Leaves bad rows out of the batches and counts them, instead of raising.

    A batch is shorter by the rows that are left out of it, so every rank still has the same number of steps.
    :meth:`Loader.skipped` lists the rows that were left out. No batch is empty: if all of its rows are bad,
    it gets the next good row of its rank. Bad rows are those whose image cannot be decoded, whose tensor has
    another shape, or whose value is not in a vocabulary; rows with a null in a column that needs values
    (numbers, booleans, times, binary of fixed length, lists, structures of these) and has no ``fill_null``;
    and rows of row groups that cannot be read. Only the part of an image that is delivered is decoded: damage
    outside that part, such as below a crop, is not noticed.

    Parameters
    ----------
    at_most : int
        Number of bad rows, 0 or more, to tolerate in one epoch of one rank; the next bad row raises an error.
        The count is part of the loader's state, so a resumed run continues to count from there.
    refill : bool, default False
        Keep the shape of batches, for models that are compiled: the nearest good row of the batch takes the
        place of a bad one. That row is then delivered twice; with ``row_mask=True``, the column ``row_mask``
        is True for only one of the two.

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
    """Number of bad rows to tolerate in one epoch of one rank."""
    refill: bool = field(default=False, kw_only=True)
    """Whether a good row of the batch takes the place of a bad one, so that batches keep their shape."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "at_most", whole(self.at_most, "at_most", 0))
        if not isinstance(self.refill, bool):
            raise InvalidError(f"refill must be True or False, got {self.refill!r}")

    def _spec(self) -> dict[str, Any]:
        """The option as the dict that the compiled library reads."""
        return {"skip": {"at_most": self.at_most, "refill": self.refill}}

    def __repr__(self) -> str:
        return f"forebay.Skip(at_most={self.at_most}{', refill=True' if self.refill else ''})"
