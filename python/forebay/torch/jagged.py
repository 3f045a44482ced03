"""Codes of several columns as two tensors, as torchrec's ``KeyedJaggedTensor`` takes them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ..adapters.missing import missing
from ..batch.patterns import columns_meant
from ..batch.ragged import Ragged
from ..errors import InvalidError, UnknownColumnError
from ..options.checks import names as names_of

try:
    import torch
except ImportError as error:
    raise missing("torch", "PyTorch", "torch", error) from error

__all__ = ["KeyedJagged", "keyed_jagged"]


class KeyedJagged(NamedTuple):
    """Codes of several columns, key by key: the arguments of torchrec's ``KeyedJaggedTensor``."""

    keys: list[str]
    """The names of the features."""
    values: torch.Tensor
    """All codes: those of the first key in all rows, then those of the next."""
    lengths: torch.Tensor
    """The number of codes for each key and row, of shape ``(keys * rows,)``: all rows of the first key first."""


class _Feature(NamedTuple):
    key: str
    values: torch.Tensor
    lengths: torch.Tensor


def keyed_jagged(
    batch: Mapping[str, Any],
    columns: str | Iterable[str],
    *,
    keys: Mapping[str, Iterable[str]] | None = None,
) -> KeyedJagged:
    """The codes of several columns as torchrec's ``KeyedJaggedTensor`` takes them.

    ``KeyedJaggedTensor.from_lengths_sync(*found)`` makes it. A list gives as many codes as it has items, and a
    number gives one. The tensors are on the device of the columns.

    Parameters
    ----------
    batch : mapping
        A batch of :func:`batches`, or of a loader.
    columns : str or iterable of str
        The columns of integers, or of lists of integers, in the order of the keys. A pattern such as ``"C*"``
        means all columns that it matches and that are not listed by name, in the order of the batch.
    keys : mapping from str to iterable of str, optional
        The keys of the columns of a matrix that :class:`forebay.Stack` makes. Without it, a matrix is a column
        of lists of one length, such as those that ``pad`` makes.

    Returns
    -------
    KeyedJagged
        The keys, the values and the lengths. With ``B`` rows, the codes of key ``k`` in row ``b`` are
        ``values[offsets[k * B + b] : offsets[k * B + b + 1]]``, where ``offsets`` are the running sums of
        ``lengths`` from 0 on.

    Raises
    ------
    InvalidError
        A column is not of integers or lists of integers, ``columns`` has a name twice, ``keys`` are not as many as
        the columns of the matrix, two columns give the same key, a nested tensor is not contiguous, or columns have
        different numbers of rows.
    UnknownColumnError
        The batch has no such column.

    Examples
    --------
    >>> import forebay as fb
    >>> import numpy as np
    >>> seen = fb.Ragged(np.array([7, 8, 9]), np.array([0, 2, 3]))
    >>> fb.torch.keyed_jagged({"city": np.array([3, 4]), "seen": seen}, ["city", "seen"])
    KeyedJagged(keys=['city', 'seen'], values=tensor([3, 4, 7, 8, 9]), lengths=tensor([1, 1, 2, 1]))
    """
    listed = [columns] if isinstance(columns, str) else names_of(columns, "columns")
    of_matrices = {name: names_of(given, f"keys[{name!r}]") for name, given in (keys or {}).items()}
    twice = _repeated(listed)
    if twice is not None:
        raise InvalidError(f"columns names {twice!r} twice (name each column once)")
    features: list[_Feature] = []
    for name in columns_meant(listed, batch):
        if name not in batch:
            raise UnknownColumnError(f"the batch has no column {name!r} (it has {', '.join(batch)})")
        features += _features(name, batch[name], of_matrices.pop(name, None))
    if not features:
        raise InvalidError("columns names no column (pass those with the codes)")
    if of_matrices:
        raise InvalidError(f"keys names {next(iter(of_matrices))!r}, which is not among columns (add it to columns)")
    named = [feature.key for feature in features]
    twice = _repeated(named)
    if twice is not None:
        raise InvalidError(f"two columns have the key {twice!r} (give one another name)")
    rows = [len(feature.lengths) for feature in features]
    if len(set(rows)) > 1:
        at = next(at for at, count in enumerate(rows) if count != rows[0])
        raise InvalidError(f"{named[0]!r} has {rows[0]} rows, and {named[at]!r} has {rows[at]}")
    values = torch.cat([feature.values for feature in features])
    return KeyedJagged(named, values, torch.cat([feature.lengths for feature in features]))


def _repeated(names: list[str]) -> str | None:
    """The first name that came before."""
    return next((name for at, name in enumerate(names) if name in names[:at]), None)


def _features(name: str, column: Any, keys: list[str] | None) -> list[_Feature]:
    """The features of one column: one, or those of each column of a matrix with ``keys``."""
    values, lengths = _parts(name, column)
    if values.is_floating_point() or values.is_complex() or values.dtype == torch.bool:
        raise InvalidError(f"column {name!r} has type {values.dtype}, and codes are integers (encode it)")
    if keys is not None:
        if values.ndim != 2 or lengths is not None or values.shape[1] != len(keys):
            shape = "lists of differing lengths" if lengths is not None else f"shape {tuple(values.shape)}"
            raise InvalidError(f"keys has {len(keys)} names for {name!r}, which has {shape}")
        one = torch.ones(len(values), dtype=torch.int64, device=values.device)
        return [_Feature(key, values[:, at], one) for at, key in enumerate(keys)]
    if lengths is not None and values.ndim == 1:
        return [_Feature(name, values, lengths)]
    if lengths is not None or values.ndim > 2:
        raise InvalidError(f"column {name!r} has shape {tuple(values.shape)} (codes are numbers or lists of them)")
    length = values.shape[1] if values.ndim == 2 else 1
    lengths = torch.full((len(values),), length, dtype=torch.int64, device=values.device)
    return [_Feature(name, values.reshape(-1), lengths)]


def _parts(name: str, column: Any) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The values of a column, and the lengths of its lists if they differ."""
    if isinstance(column, torch.Tensor):
        if not column.is_nested:
            return column, None
        # A tensor that was narrowed has lengths of its own, since its values still hold those between its rows.
        if column.layout != torch.jagged or column.lengths() is not None:
            raise InvalidError(f"column {name!r} is a nested tensor that is strided or was cut (pass a contiguous one)")
        return column.values(), column.offsets().diff()
    if isinstance(column, Ragged) and isinstance(column.values, np.ndarray) and column.values.dtype.kind in "iu":
        values = column.values[column.offsets[0] : column.offsets[-1]]
        return torch.from_numpy(values), torch.from_numpy(column.lengths)
    if isinstance(column, np.ndarray) and column.dtype.kind in "iu":
        return torch.from_numpy(column), None
    raise InvalidError(f"column {name!r} is not of integers or lists of integers (encode it)")
