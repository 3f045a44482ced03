"""Cuts a batch into rows for ``transform_rows``, and puts the rows that it returns together into a batch."""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from ..batch.ragged import Arrays, Ragged
from ..errors import InvalidError
from .rejected import taken

__all__ = ["Row", "rng"]

#: A function that allocates an array from its shape and type, for a column that is put together from rows.
Empty = Callable[[tuple[int, ...], Any], Any]


class _Keyed(dict[str, Any]):
    """A row or a batch as a dict, with the key that seeds the generator which :func:`rng` returns for it."""

    __slots__ = ("_key", "_rng")

    _key: int
    _rng: np.random.Generator | None


class Row(_Keyed):
    """One row as ``transform_rows`` gets it: a dict from column name to value. Pass it to :func:`rng` for its
    random numbers.

    The value of a column with shape ``(N, ...)`` is a view of shape ``(...)`` over the batch's memory; a
    number is a numpy scalar, a text a ``str``, a structure a dict. A list of structures is a list of dicts, with plain
    Python values in it, and None for each null.

    Examples
    --------
    >>> import forebay as fb
    >>> def check(row):
    ...     assert isinstance(row, fb.Row)
    ...     return {"label": row["label"]}
    >>> next(iter(fb.Loader("data/train/", batch_size=4, transform_rows=check)))["label"]
    array([0, 1, 2, 3])
    """

    __slots__ = ()


class Columns(_Keyed):
    """A batch as ``transform`` gets it: a dict from column name to array. :func:`rng` makes random numbers
    for it."""

    __slots__ = ("_shared", "_step_key")

    _step_key: int
    _shared: np.random.Generator | None

    @classmethod
    def of(cls, columns: Mapping[str, Any], key: int, step_key: int) -> Columns:
        """Makes ``Columns`` of a batch's columns, with the keys of the batch and of its step, from which
        random numbers are made."""
        made = cls(columns)
        made._key, made._step_key = key, step_key
        made._rng = made._shared = None
        return made


def rng(row: Mapping[str, Any], *, all_ranks: bool = False) -> np.random.Generator:
    """The random numbers of a row, for ``transform_rows``, or of a batch, for ``transform``.

    The numbers of a row depend on the seed of the shuffle, the epoch and the row, like random crops, but not
    on workers, ranks, or the point at which a run was resumed. The numbers of a batch depend on its rank and
    its position in the epoch instead of the row: they are the same for any number of workers, and after a
    resume with the same number of ranks and batch size. With ``all_ranks`` they depend on the step alone, and stay
    the same on another number of ranks with the same global batch size. All calls with the same row or batch return
    the same generator, which continues its sequence.

    Parameters
    ----------
    row : Row or dict
        The row that ``transform_rows`` was given, or the dict that ``transform`` was given. A copy as a plain
        dict is refused, because it has lost its key.
    all_ranks : bool, default False
        Whether the numbers of a batch are the same on all ranks.

    Returns
    -------
    numpy.random.Generator
        A generator over ``numpy.random.Philox``. Its bits never change; the numbers that numpy makes of them
        may change with a release of numpy.

    Raises
    ------
    InvalidError
        ``row`` is neither such a row nor such a batch, or ``all_ranks`` is given for a row.

    Examples
    --------
    >>> import forebay as fb
    >>> def jitter(row):
    ...     return {"id": row["id"], "noise": fb.rng(row).normal(size=3)}
    >>> loader = fb.Loader("data/train/", columns=["id"], batch_size=4, transform_rows=jitter)
    >>> next(iter(loader.epoch(0)))["noise"].shape
    (4, 3)
    """
    if not isinstance(row, _Keyed) or not hasattr(row, "_key"):
        raise InvalidError(
            f"rng takes the row that transform_rows was given, or the batch that transform was given, got "
            f"{type(row).__qualname__} (pass that one and not a copy of it; a collate function draws from fb.rng of "
            "one of its rows, if there is no transform_rows)"
        )
    if all_ranks:
        if not isinstance(row, Columns):
            raise InvalidError("all_ranks is for a batch (leave it out: a row has the same numbers on any rank)")
        if row._shared is None:
            row._shared = np.random.Generator(np.random.Philox(key=row._step_key))
        return row._shared
    if row._rng is None:
        row._rng = np.random.Generator(np.random.Philox(key=row._key))
    return row._rng


def columns_for_rows(batch: Any) -> dict[str, Any]:
    """The columns of a batch in the form from which :func:`split` cuts rows: an array for each column, or a
    list of Python objects if the column has structures in lists."""
    columns = {}
    for name in batch:
        records = batch._records(name)
        columns[name] = batch[name] if records is None else records
    return columns


def cells(arrays: Mapping[str, Any]) -> dict[str, list[Any]]:
    """The values of each column of a batch, row by row."""
    return {name: list(_values(column)) for name, column in arrays.items()}


def _values(column: Any) -> Iterable[Any]:
    if isinstance(column, dict):
        names = tuple(column)
        fields = [_values(field) for field in column.values()]
        return (dict(zip(names, values, strict=True)) for values in zip(*fields, strict=True))
    return column  # type: ignore[no-any-return]


def split(columns: Mapping[str, list[Any]], keys: Sequence[int]) -> list[Row]:
    """Makes the rows of a batch from the values of its columns, and gives each row its key."""
    names = tuple(columns)
    rows = []
    # Without columns, the keys alone say how many rows there are.
    values_of_rows = zip(*columns.values(), strict=True) if columns else ((),) * len(keys)
    for key, values in zip(keys, values_of_rows, strict=True):
        row = Row(zip(names, values))  # noqa: B905 - both have a value for each column, and a check takes time
        row._key = key
        row._rng = None
        rows.append(row)
    return rows


def collate(
    made: Sequence[Mapping[str, Any]],
    given: Mapping[str, Sequence[Any]],
    arrays: Mapping[str, Any],
    empty: Empty = np.empty,
    numbers: Sequence[int] | None = None,
) -> dict[str, Any]:
    """Puts rows together into columns.

    ``given`` has the values of ``arrays`` from which the rows in ``made`` were made: a column whose values
    were all passed on unchanged is taken from ``arrays`` without a copy. ``numbers`` has the ordinals of the
    rows, if they are not all rows of the batch.
    """
    names = list(made[0])
    keys = made[0].keys()
    for at, row in enumerate(made):
        if row.keys() != keys:
            raise InvalidError(
                f"transform_rows must return the same columns for each row, got {_listed(row)} for row {at} of the "
                f"batch and {_listed(made[0])} for row 0"
            )
    if not names:
        raise InvalidError("transform_rows must return at least one column, got an empty dict")
    columns = {}
    for name in names:
        values = [row[name] for row in made]
        column = None
        if name in arrays and _are_same(values, given[name], numbers):
            column = arrays[name] if numbers is None else taken(arrays[name], numbers)
        # The rows of structures are new dicts, which the function may have changed.
        is_new = column is None or isinstance(column, (dict, list))
        columns[name] = stacked(str(name), values, empty) if is_new else column
    return columns


def _are_same(values: Sequence[Any], given: Sequence[Any], numbers: Sequence[int] | None) -> bool:
    """Whether ``values`` are the very objects in ``given`` or, with ``numbers``, the objects that ``given``
    has at these ordinals."""
    expected = given if numbers is None else [given[number] for number in numbers]
    return all(map(operator.is_, values, expected))


def stacked(name: str, values: list[Any], empty: Empty = np.empty) -> Any:
    """The values of a column as one array, as a dict of arrays if they are dicts, or as :class:`Ragged` if they
    are lists."""
    first = values[0]
    if isinstance(first, (list, tuple)) or (isinstance(first, Ragged) and not isinstance(first, Arrays)):
        return _lists(name, values, empty)
    if isinstance(first, Mapping):
        return _structure(name, values, empty)
    if is_tensor(first):
        values = [_array(name, at, value) for at, value in enumerate(values)]
        first = values[0]
    # A numpy text is treated as a Python text, because its numpy type depends on its length.
    if isinstance(first, (np.ndarray, np.generic)) and not isinstance(first, (str, bytes)):
        _check_alike(name, values)
        if first.dtype.hasobject:
            return _objects(name, values)
        if isinstance(first, np.generic):
            return np.array(values, dtype=first.dtype)
        column = empty((len(values), *first.shape), first.dtype)
        if first.ndim == 0:
            return np.stack(values, out=column)
        # Joining the arrays along their first axis writes the same bytes as stacking them, so `column` is
        # reshaped for `concatenate`.
        np.concatenate(values, out=column.reshape(len(values) * len(first), *first.shape[1:]))
        return column
    _check_kinds(name, values)
    if isinstance(first, (bool, int, float, complex)):
        kinds: dict[type, type] = {bool: np.bool_, int: np.int64, float: np.float64, complex: np.complex128}
        try:
            return np.array(values, dtype=kinds[next(kind for kind in kinds if isinstance(first, kind))])
        except OverflowError:
            raise InvalidError(
                f"an int of column {name!r} does not fit int64 (return a numpy scalar such as numpy.uint64)",
                column=name,
            ) from None
    if hasattr(first, "offsets"):
        raise InvalidError(
            f"column {name!r} has {type(first).__name__} as values, which may differ in length (return lists, or numpy "
            "arrays of one shape, or pass collate=)",
            column=name,
        )
    return _objects(name, values)


def _lists(name: str, values: list[Any], empty: Empty) -> Ragged:
    """Makes a :class:`Ragged` of the lists of a column. The items of all lists are stacked
    together, like the values of a column."""
    lists = [value.tolist() if isinstance(value, Ragged) else value for value in values]
    for at, value in enumerate(lists):
        if not isinstance(value, (list, tuple)):
            raise InvalidError(
                f"the values of column {name!r} differ in type: {type(value).__name__} in row {at} of the batch, "
                f"{type(lists[0]).__name__} in row 0 (return a list for each row)",
                column=name,
            )
    offsets = np.zeros(len(lists) + 1, np.int64)
    np.cumsum([len(value) for value in lists], out=offsets[1:])
    items = [item for value in lists for item in value]
    # If all lists are empty, the type of their items is unknown, and int64 is used.
    return Ragged(stacked(name, items, empty) if items else np.empty(0, np.int64), offsets)


def is_tensor(value: Any) -> bool:
    """Whether a value is a tensor of torch. torch is not imported for this check."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def _structure(name: str, values: list[Any], empty: Empty) -> dict[str, Any]:
    for at, value in enumerate(values):
        if not isinstance(value, Mapping) or value.keys() != values[0].keys():
            raise InvalidError(
                f"the dicts of column {name!r} differ: row {at} of the batch has {_shown(value)}, row 0 has "
                f"{_shown(values[0])} (return the same keys for each row)",
                column=name,
            )
    return {field: stacked(f"{name}.{field}", [value[field] for value in values], empty) for field in values[0]}


def _array(name: str, at: int, value: Any) -> Any:
    if not is_tensor(value):
        return value
    try:
        return value.detach().cpu().numpy()
    except (TypeError, RuntimeError) as error:
        raise InvalidError(
            f"the tensor of column {name!r} in row {at} of the batch cannot become an array: {error} (return a dense "
            "tensor of a type that numpy has)",
            column=name,
        ) from None


def _are_alike(values: list[Any]) -> bool:
    """Whether values are certainly of one shape and type."""
    if len(set(map(type, values))) > 1:
        return False
    # numpy scalars of one class, such as np.int64, all have the same dtype and shape.
    return isinstance(values[0], (np.number, np.bool_)) or len({(value.dtype, value.shape) for value in values}) == 1


def _check_alike(name: str, values: list[Any]) -> None:
    """Refuses values that cannot become one array without a change of type."""
    if _are_alike(values):
        return
    shape, dtype = values[0].shape, values[0].dtype
    for at, value in enumerate(values):
        if not isinstance(value, (np.ndarray, np.generic)):
            _check_kinds(name, values)
            continue
        if value.dtype != dtype:
            raise InvalidError(
                f"the values of column {name!r} differ in type: {value.dtype} in row {at} of the batch, {dtype} in "
                "row 0 (convert them to one type)",
                column=name,
            )
        if value.shape != shape:
            raise InvalidError(
                f"the values of column {name!r} differ in shape: {value.shape} in row {at} of the batch, {shape} in "
                "row 0 (bring them to one shape, or pass collate=)",
                column=name,
            )


def _check_kinds(name: str, values: list[Any]) -> None:
    """Refuses a column that mixes numbers with values of other types. Text and ``None`` may be mixed, because
    both become objects."""
    number = (bool, int, float, complex, np.ndarray, np.generic, list, tuple)
    first = _kind(values[0])
    for at, value in enumerate(values):
        kind = _kind(value)
        if kind is not first and (issubclass(kind, number) or issubclass(first, number)):
            raise InvalidError(
                f"the values of column {name!r} differ in type: {kind.__name__} in row {at} of the batch, "
                f"{first.__name__} in row 0 (convert them to one type)",
                column=name,
            )


def _kind(value: Any) -> type:
    return next((kind for kind in (str, bytes) if isinstance(value, kind)), type(value))


def _objects(name: str, values: list[Any]) -> Any:
    objects = np.empty(len(values), dtype=object)
    for at, value in enumerate(values):
        objects[at] = value
    return objects


def _listed(row: Mapping[str, Any]) -> str:
    return ", ".join(map(repr, row)) or "none"


def _shown(value: Any) -> str:
    return f"the fields {_listed(value)}" if isinstance(value, Mapping) else type(value).__name__
