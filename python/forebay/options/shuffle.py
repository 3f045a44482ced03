""":class:`Shuffle`, the option of a loader that says how rows are shuffled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from .._forebay import MIXINGS
from ..errors import InvalidError
from .checks import named, whole

if TYPE_CHECKING:
    from ..choices import Mixing

__all__ = ["Shuffle"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Shuffle:
    """A shuffle of rows: row groups come in random order, and their rows are drawn from a rolling window.

    :meth:`exact` is a uniform permutation of all rows instead, and :meth:`stored` does not shuffle.

    Parameters
    ----------
    seed : int
        Decides the order of rows and random image operations, together with the epoch and the data set. 0 to
        2**64 - 1.
    window_rows : int, optional
        Rows in the shuffle buffer. Default: the number of rows in 1 GiB of decoded Parquet. In epoch 0 rows
        are delivered while the window fills, so the first batches come from few row groups.
    piece_rows : int, optional
        The largest number of rows that are shuffled as one piece. A larger row group is cut into pieces,
        which are read one by one: for row groups that take too much memory as a whole. Default: row groups
        are not cut. The value is a part of the order, and of a saved position.
    lanes : int, optional
        Number of interleaved parts that make up the order, so that the order does not depend on the world
        size. Default: the world size of the first start. Set this to the largest world size that you may
        resume on.
    mixing : {"window", "exact", "stored"}, default "window"
        Set by :meth:`exact` and :meth:`stored`.

    Raises
    ------
    InvalidError
        A number is out of range; ``window_rows`` or ``piece_rows`` is given for another kind of ``mixing``
        than ``"window"``; or ``seed`` is given for the stored order.

    Examples
    --------
    >>> import dataclasses
    >>> import forebay as fb
    >>> shuffle = fb.Shuffle(seed=17, window_rows=100_000)
    >>> dataclasses.replace(shuffle, seed=18)
    forebay.Shuffle(seed=18, window_rows=100000)
    """

    seed: int
    """Seed of the order of rows and of random image operations."""
    window_rows: int | None = None
    """Rows in the shuffle buffer; ``None`` for the number of rows in 1 GiB."""
    piece_rows: int | None = None
    """The largest number of rows in a piece of a row group; ``None`` if row groups are not cut."""
    lanes: int | None = None
    """Number of interleaved parts that make up the order; ``None`` for the world size of the first start."""
    mixing: Mixing = "window"
    """The kind of shuffle: ``"window"``, ``"exact"`` or ``"stored"``."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "seed", whole(self.seed, "seed", 0))
        for name, bits in (("window_rows", 64), ("piece_rows", 64), ("lanes", 32)):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, whole(getattr(self, name), name, 1, bits))
        named(self.mixing, "mixing", MIXINGS)
        for name in ("window_rows", "piece_rows"):
            if self.mixing != "window" and getattr(self, name) is not None:
                raise InvalidError(
                    f"{name}={getattr(self, name)}, but mixing={self.mixing!r} has no window (leave it out)"
                )
        if self.mixing == "stored" and self.seed != 0:
            raise InvalidError(f"seed={self.seed}, but the stored order has no seed (leave it out)")

    @classmethod
    def exact(cls, seed: int, *, lanes: int | None = None) -> Shuffle:
        """A uniform permutation of all rows.

        Each batch draws from all row groups, so it needs a :class:`DiskCache` or enough ``memory=`` for the
        whole data set.

        Parameters
        ----------
        seed : int
            As in :class:`Shuffle`.
        lanes : int, optional
            As in :class:`Shuffle`.

        Returns
        -------
        Shuffle
            The uniform shuffle.

        Examples
        --------
        >>> import forebay as fb
        >>> fb.Shuffle.exact(17)
        forebay.Shuffle.exact(17)
        """
        return cls(seed=seed, lanes=lanes, mixing="exact")

    @classmethod
    def stored(cls, *, lanes: int | None = None) -> Shuffle:
        """The stored order, like ``shuffle=None``, but with ``lanes``.

        Parameters
        ----------
        lanes : int, optional
            As in :class:`Shuffle`.

        Returns
        -------
        Shuffle
            The stored order, as a shuffle.

        Examples
        --------
        >>> import forebay as fb
        >>> fb.Shuffle.stored(lanes=8)
        forebay.Shuffle.stored(lanes=8)
        """
        return cls(seed=0, lanes=lanes, mixing="stored")

    def __repr__(self) -> str:
        names = ("window_rows", "piece_rows", "lanes")
        given = [f"{name}={getattr(self, name)}" for name in names if getattr(self, name)]
        if self.mixing == "stored":
            return f"forebay.Shuffle.stored({', '.join(given)})"
        if self.mixing == "exact":
            return f"forebay.Shuffle.exact({', '.join([str(self.seed), *given])})"
        return f"forebay.Shuffle({', '.join([f'seed={self.seed}', *given])})"
