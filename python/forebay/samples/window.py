"""The option for samples that are windows of consecutive rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from itertools import pairwise
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np

from .._forebay import ACROSS, FRAMES
from ..batch.patterns import columns_meant
from ..batch.ragged import Ragged
from ..errors import InvalidError
from ..options.checks import named, whole

if TYPE_CHECKING:
    from ..choices import Across, Frames

__all__ = ["Window"]


@dataclass(frozen=True, repr=False)
class Window:
    """Samples of several consecutive rows, which Petastorm calls an NGram: a frozen value for ``samples=``.

    Each column has a value for each row of a window: numbers have shape ``(windows, rows)``, images
    ``(windows, rows, H, W, C)``; text and lists are :class:`Ragged` with a value for each row of a window.
    The rows of a window follow each other in stored order, among the rows that a ``filter`` selects. A row
    may be in several windows or in none. Batches, plans and states count windows, while ``window_rows`` of
    :class:`Shuffle` counts rows. All images of a window get the same random crop, flip and colours, unless
    ``frames`` is ``"alone"``. See ``docs/guide/samples.md``.

    ``by`` and ``within`` are stored names, as in filters. These columns are read before the first epoch. The
    windows are kept on local disk if reading the columns took more than 4 MiB of local files or any request
    to a store. A bad row counts once for each window that is left out because of it: ``at_most`` of
    :class:`Skip` is then a number of windows.

    Parameters
    ----------
    fields : int or mapping from int to list of str
        Number of rows in a window, with all columns. Or columns by offset, as in ``{-1: ["x"], 0: ["x",
        "y"]}``: a window reaches from the lowest offset to the highest, and a column has a value for each
        offset that lists it, in ascending order. A pattern such as ``"I*"`` lists all columns that it matches.
        Without ``columns=`` these columns are read.
    by : str, optional
        Column of numbers or times that ascend within a window. It is an error if rows are not stored in this
        order. A row without a value in this column is in no window. Default: none.
    gap : float or datetime.timedelta, optional
        The largest difference in ``by`` between a row and the row before it. For times, it is a
        ``timedelta``, or a number in the column's unit. In a column of floats, rounding errors are ignored.
        Default: any difference.
    overlap : bool or int, default True
        With True, a window begins at each row. With False, windows share no row, and each window begins later
        in ``by`` than the end of the window before. An int is the number of rows that a window shares with
        the window before.
    within : str, optional
        Column in which all rows of a window have the same value, such as an episode, whose rows are stored
        together. Default: none.
    across : {"row_group", "file", "dataset"}, default "row_group"
        How far a window may reach. By default a window ends in the row group in which it begins, so that the
        rows near the end of a row group are in fewer windows. With ``"file"`` a window may reach into the
        next row groups of its file, and with ``"dataset"`` also into the next files in the order of their
        paths, if the keys of their folders are the same. Each row group is then read together with the first
        rows of the next row groups. Only the pages of these rows are read if a file has an offset index
        (pyarrow's ``write_page_index=True``), or is local and has 1 MiB or more of a column in a row group;
        otherwise, and always for lists, the next row groups are read whole, and therefore twice.
    frames : {"together", "alone"}, default "together"
        How the random crops, flips and colours of images are drawn. ``"together"`` draws once for all rows of
        a window, and anew for the next window. ``"alone"`` draws once for each row, which then has the same
        pixels in all windows of an epoch.

    stride : int, default 1
        Distance from one row of a window to the next: with 4, a window has the rows 0, 4, 8 and so on of the
        rows that it spans. ``overlap``, ``by``, ``gap`` and ``within`` refer to all rows that a window spans,
        and a column ``row_id`` has the ids of all these rows. With ``overlap=False`` the rows between those of a
        window are in no window: ``Window(16, stride=4, overlap=False)`` leaves out 45 of each 61 rows.

    Raises
    ------
    InvalidError
        A window would have no row, ``gap`` is given without ``by``, ``overlap`` is more than the rows of a
        window, or an argument has the wrong type.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Window({-1: ["x"], 0: ["x", "y"]}, by="time", gap=0.1, within="episode")
    forebay.Window({-1: ['x'], 0: ['x', 'y']}, by='time', gap=0.1, within='episode')
    >>> train = fb.Loader("data/train/", samples=fb.Window({-1: ["id"], 0: ["id", "label"]}), batch_size=2)
    >>> batch = next(iter(train))
    >>> batch["id"].tolist(), batch["label"].tolist()
    ([[0, 1], [1, 2]], [[1], [2]])
    """

    fields: int | Mapping[int, Iterable[str]]
    """Number of rows in a window, or columns by offset."""
    by: str | None = field(default=None, kw_only=True)
    """Column in which the rows of a window ascend."""
    gap: float | timedelta | None = field(default=None, kw_only=True)
    """The largest difference in ``by`` between a row and the row before it."""
    overlap: bool | int = field(default=True, kw_only=True)
    """Whether consecutive windows share rows, or the number of rows that they share."""
    within: str | None = field(default=None, kw_only=True)
    """Column in which all rows of a window have the same value."""
    across: Across = field(default="row_group", kw_only=True)
    """How far a window may reach: within a row group, within a file, or through all files."""
    frames: Frames = field(default="together", kw_only=True)
    """How random changes apply to the images of a window: the same to all together, or to each one alone."""

    stride: int = field(default=1, kw_only=True)
    """Distance from one row of a window to the next."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "stride", whole(self.stride, "stride", 1, 16))
        if self.stride != 1 and isinstance(self.fields, Mapping):
            raise InvalidError("stride must be left out if fields lists columns by offset")
        if isinstance(self.fields, Mapping):
            object.__setattr__(self, "fields", _offsets(self.fields))
        else:
            object.__setattr__(self, "fields", whole(self.fields, "fields", 1, 16))
        for name in ("by", "within"):
            value = getattr(self, name)
            if value is not None and not isinstance(value, str):
                raise InvalidError(f"{name} must be the name of a column, got {value!r}")
        _check_gap(self.gap, self.by)
        named(self.across, "across", ACROSS)
        named(self.frames, "frames", FRAMES)
        if not isinstance(self.overlap, (bool, np.bool_)):
            object.__setattr__(self, "overlap", whole(self.overlap, "overlap", 0, 32))
            spanned = self.offsets[-1] - self.offsets[0] + 1
            if self.overlap >= spanned:
                raise InvalidError(f"overlap must be less than the {spanned} rows of a window, got {self.overlap}")

    @property
    def offsets(self) -> range:
        """Offset of each row of a window."""
        if isinstance(self.fields, int):
            return range(0, self.fields * self.stride, self.stride)
        return range(min(self.fields), max(self.fields) + 1)

    @property
    def length(self) -> int:
        """Number of rows in a window."""
        return len(self.offsets)

    def at(self, batch: Mapping[str, Any], offset: int) -> dict[str, Any]:
        """The columns of one offset, without the axis of the window's rows: views of a batch's arrays.

        Parameters
        ----------
        batch : mapping
            A batch of a loader with this window, or a dict of its arrays or tensors.
        offset : int
            One of :attr:`offsets` that ``fields`` lists.

        Returns
        -------
        dict
            For each column of the offset, its value in that row of each window. A structure is a dict of its
            fields; the lists of a column of lists are in a Python list.

        Raises
        ------
        InvalidError
            The window has no columns of this offset.

        Examples
        --------
        >>> import forebay as fb
        >>> window = fb.Window({-1: ["id"], 0: ["id", "label"]})
        >>> batch = next(iter(fb.Loader("data/train/", samples=window, batch_size=2)))
        >>> {name: values.tolist() for name, values in window.at(batch, 0).items()}
        {'id': [1, 2], 'label': [1, 2]}
        """
        delivered = self.offsets if isinstance(self.fields, int) else list(self.fields)
        if offset not in delivered:
            raise InvalidError(f"the window has offsets {_shown(delivered)}, got {offset!r}")
        if isinstance(self.fields, int):
            return {name: _at(values, offset // self.stride) for name, values in batch.items()}
        named = {other: columns_meant(names, batch) for other, names in sorted(self.fields.items())}
        found = {}
        for name in named[offset]:
            listed = [other for other, names in named.items() if name in names]
            found[name] = _at(batch[name], listed.index(offset))
        return found

    def _spec(self) -> dict[str, Any]:
        """This object as JSON values, for the spec that the compiled library reads."""
        spec: dict[str, Any] = {"first": self.offsets[0], "last": self.offsets[-1]}
        if not isinstance(self.fields, int):
            spec["fields"] = [[offset, list(names)] for offset, names in self.fields.items()]
        if isinstance(self.gap, timedelta):
            spec["gap"] = {"seconds": self.gap.total_seconds()}
        elif self.gap is not None:
            spec["gap"] = {"number": float(self.gap)}
        if not isinstance(self.overlap, (bool, np.bool_)):
            spec["overlap"] = self.overlap
        elif not self.overlap:
            spec["overlap"] = 0
        spec |= {name: getattr(self, name) for name in ("by", "within") if getattr(self, name) is not None}
        spec |= {"across": self.across, "frames": self.frames}
        spec |= {"stride": self.stride} if self.stride != 1 else {}
        return {"windows": spec}

    def __hash__(self) -> int:
        fields = self.fields if isinstance(self.fields, int) else tuple(sorted(self.fields.items()))
        return hash((fields, self.by, self.gap, self.overlap, self.within, self.across, self.frames, self.stride))

    def __repr__(self) -> str:
        fields = self.fields
        if not isinstance(fields, int):
            fields = {offset: list(names) for offset, names in fields.items()}
        given = [(name, getattr(self, name)) for name in ("by", "gap", "overlap", "within")]
        options = [f"{name}={value!r}" for name, value in given if value is not None and value is not True]
        options += [f"across={self.across!r}"] if self.across != "row_group" else []
        options += [f"frames={self.frames!r}"] if self.frames != "together" else []
        options += [f"stride={self.stride}"] if self.stride != 1 else []
        return f"forebay.Window({', '.join([repr(fields), *options])})"


def _offsets(fields: Mapping[int, Iterable[str]]) -> dict[int, tuple[str, ...]]:
    """Checks ``fields``, and returns the columns of each offset, sorted by offset."""
    found = {}
    for key, names in fields.items():
        offset = whole(key, "an offset of fields", -(1 << 31), 31)
        if isinstance(names, (str, bytes)) or not isinstance(names, Iterable):
            raise InvalidError(f"fields[{offset}] must be a list of names, got {names!r}")
        found[offset] = tuple(names)
        for name in found[offset]:
            if not isinstance(name, str):
                raise InvalidError(f"fields[{offset}] must be a list of names, got {name!r} in it")
    if not any(found.values()):
        raise InvalidError("fields names no column (pass a number of rows to get all columns)")
    return dict(sorted(found.items()))


def _shown(offsets: Sequence[int]) -> str:
    """Ascending offsets for a message."""
    steps = {after - before for before, after in pairwise(offsets)}
    if len(offsets) < 3 or len(steps) > 1:
        return ", ".join(map(str, offsets))
    step = steps.pop()
    return f"{offsets[0]} to {offsets[-1]}" + ("" if step == 1 else f" in steps of {step}")


def _at(values: Any, row: int) -> Any:
    """The values of a column in one row of each window; ``row`` is its ordinal in the window."""
    if isinstance(values, Mapping):
        return {name: _at(field, row) for name, field in values.items()}
    if not isinstance(values, Ragged):
        return values[:, row]
    if isinstance(values.values, dict):
        return {name: _at(Ragged(field, values.offsets), row) for name, field in values.values.items()}
    if isinstance(values.values, np.ndarray):
        return np.asarray(values)[:, row]
    return [window[row] for window in values]


def _check_gap(gap: Any, by: str | None) -> None:
    if gap is None:
        return
    if by is None:
        raise InvalidError("gap needs the column that it is measured in (pass by=...)")
    if isinstance(gap, bool) or not isinstance(gap, (Real, timedelta)):
        raise InvalidError(f"gap must be a number or a datetime.timedelta, got {gap!r}")
    number = gap.total_seconds() if isinstance(gap, timedelta) else float(gap)
    if not math.isfinite(number) or number < 0:
        raise InvalidError(f"gap must be 0 or more, got {gap!r}")
