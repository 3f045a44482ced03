"""Makes the batches of ``make_batch_reader``: turns columns into the arrays that pandas would make, and
applies the user's function to them."""

from __future__ import annotations

import datetime
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..adapters.missing import missing
from ..batch.ragged import Ragged
from ._columns import Reading, is_masked
from ._groups import ROW_ID, matrix
from ._inferred import is_list
from ._stored import Stored
from .transform import TransformSpec
from .unischema import Unischema

__all__: list[str] = []

#: The column that holds the result when the user's function has changed the number of rows.
MADE = "made"

#: The names of Arrow's float types.
_FLOATS = ("halffloat", "float", "double")


@dataclass(frozen=True)
class Made:
    """Columns with another number of rows than the batch that they were made from."""

    columns: dict[str, Any]


@dataclass(frozen=True)
class BatchMaker:
    """Turns a batch of the loader into the arrays that ``make_batch_reader`` delivers."""

    kinds: dict[str, str]
    """For each column, the Arrow name of its stored type."""
    schema: Unischema
    """The fields that are delivered."""
    spec: TransformSpec | None

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Applies the user's function to a batch: it is the ``transform`` of a loader."""
        mask = batch.get("row_mask")
        frame = self.frame(batch)
        if mask is not None and not mask.all():
            frame = frame[mask]
        made = self._transformed(frame)
        rows = len(next(iter(made.values()))) if made else 0
        if rows == len(batch[ROW_ID]):
            return {ROW_ID: batch[ROW_ID], **made}
        # The function has removed or added rows, so its result is passed on as one value for the whole batch.
        return {ROW_ID: batch[ROW_ID], MADE: Made(made)}

    def arrays(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the columns as arrays, without applying the user's function."""
        return {name: self._array(name, batch) for name in self.kinds}

    def frame(self, batch: Mapping[str, Any]) -> Any:
        """Returns the columns as a pandas DataFrame."""
        columns = {name: _for_pandas(self._plain(name, batch)) for name in self.kinds}
        return pandas().DataFrame(columns)

    def _array(self, name: str, batch: Mapping[str, Any]) -> Any:
        column = self._plain(name, batch)
        if is_list(self.kinds[name]):
            return _matrix(name, column, self.schema.fields[name].shape)
        return column.astype(np.str_) if _is_text(self.kinds[name]) else column

    def _plain(self, name: str, batch: Mapping[str, Any]) -> Any:
        """Returns a column with its nulls represented as in pandas."""
        column, kind = batch[name], self.kinds[name]
        there = batch.get(f"{name}.mask")
        return with_nulls(column, None if there is None or there.all() else ~there, kind)

    def _transformed(self, frame: Any) -> dict[str, Any]:
        assert self.spec is not None
        made = frame if self.spec.func is None else self.spec.func(frame)
        if not hasattr(made, "columns"):
            raise TypeError(
                f"the function of the TransformSpec must return a pandas.DataFrame, got {type(made).__name__}"
            )
        gone = [name for name in self.spec.removed_fields if name in made.columns]
        made = made.drop(columns=gone) if gone else made
        fields = self.schema.fields
        if self.spec.selected_fields is not None:
            made = made[[name for name in fields if name in made.columns]]
        if set(made.columns) != set(fields):
            raise ValueError(
                f"Transformed result columns ({', '.join(map(str, made.columns))}) do not match required schema "
                f"columns ({', '.join(fields)})"
            )
        return {name: _delivered(name, made[name], field.shape) for name, field in fields.items()}


def reading_of(stored: Stored, schema: Unischema) -> Reading:
    """Returns the loader's arguments that read the stored columns of a schema."""
    names = [name for name in schema.fields if name in stored.types]
    fixed = [name for name in names if str(stored.types[name]).startswith("fixed_size_list")]
    # Nulls among floats become NaN, which needs no mask.
    plain = [name for name in names if str(stored.types[name]) in _FLOATS]
    masked = [name for name in names if is_masked(stored.types[name]) and name not in (*fixed, *plain)]
    floats = [*plain, *(name for name in names if _is_list_of_floats(str(stored.types[name])))]
    return Reading(columns=names, null_mask=masked, fill_null=dict.fromkeys(floats, float("nan")))


def kinds_of(stored: Stored, schema: Unischema) -> dict[str, str]:
    """Returns for each column of a schema the Arrow name of its stored type."""
    return {name: str(stored.types[name]) for name in schema.fields if name in stored.types}


def with_nulls(column: Any, absent: Any, kind: str) -> Any:
    """Returns the array that pandas would make from a column of the type ``kind``. Values that ``absent``
    marks as null become NaN, NaT or None, and dates and times of day become Python objects."""
    if isinstance(column, Ragged) or column.dtype == object:
        return column
    letter = column.dtype.kind
    if kind.startswith("fixed_size_binary"):
        column = _objects([row.tobytes() for row in column])
    elif letter == "M" and kind.startswith("date"):
        column = _objects(column.astype("datetime64[D]").tolist())
    elif letter == "m" and kind.startswith("time"):
        column = _objects([_time(int(at)) for at in column.astype("timedelta64[us]").view(np.int64)])
    if absent is None:
        return column
    if column.dtype.kind in "iu":
        column = column.astype(np.float64)
    elif column.dtype.kind == "b":
        column = column.astype(object)
    else:
        column = column.copy()
    column[absent] = None if column.dtype == object else (np.nan if column.dtype.kind == "f" else "NaT")
    return column


def pandas() -> Any:
    """Imports pandas, or raises an error that says how to install it."""
    try:
        import pandas as found
    except ImportError as error:
        raise missing("petastorm", "pandas for functions of batches", "pandas", error) from error
    return found


def _delivered(name: str, column: Any, shape: Any) -> Any:
    """Returns a column of a DataFrame as an array."""
    values = column.to_numpy()
    if values.dtype != object or not len(values):
        return values
    if len(shape) > 1:
        for value in values:
            _check_shape(name, value, shape)
        return _joined(values)
    first = next((value for value in values if value is not None), None)
    if isinstance(first, (list, tuple, np.ndarray)):
        return _matrix(name, values, shape)
    return values.astype(np.str_) if isinstance(first, str) else values


def _check_shape(name: str, value: Any, shape: Any) -> None:
    if not isinstance(value, np.ndarray):
        raise ValueError(f"field {name} must be numpy array type, got {type(value).__name__}.")
    if None in tuple(shape):
        raise ValueError(f"All dimensions of a shape: {shape} in: {name} field must be constant.")
    if value.shape != tuple(shape):
        raise ValueError(f"field {name} must be the shape {shape}, got {value.shape}")


def _matrix(name: str, column: Any, shape: Any) -> Any:
    """Returns lists as the rows of an array, or raises an error if they differ in length."""
    if isinstance(column, Ragged):
        lengths = set(column.lengths.tolist())
        if len(lengths) == 1:
            return _shaped(np.asarray(column), shape)
    elif column.dtype != object:
        return _shaped(column, shape)
    else:
        lengths = {0 if row is None else len(row) for row in column}
        if len(lengths) == 1 and all(row is not None for row in column):
            return _shaped(_joined(column), shape)
    raise RuntimeError(
        f"Length of all values in column '{name}' are expected to be the same length. "
        f"Got the following set of lengths: '{', '.join(map(str, sorted(lengths)))}'"
    )


def _joined(rows: Any) -> Any:
    """Joins arrays of one shape into one array. Concatenating costs less than stacking."""
    arrays = [np.asarray(row) for row in rows]
    return np.concatenate(arrays).reshape(len(arrays), *arrays[0].shape)


def _shaped(matrix: Any, shape: Any) -> Any:
    return matrix.reshape(len(matrix), *shape) if len(shape) > 1 else matrix


def _for_pandas(column: Any) -> Any:
    """Returns a column for a DataFrame, in which each list is an array."""
    if isinstance(column, Ragged):
        column = matrix(column)
    if isinstance(column, Ragged) and isinstance(column.values, np.ndarray):
        ends = column.offsets.tolist()
        return _objects([column.values[low:high] for low, high in itertools.pairwise(ends)])
    if isinstance(column, Ragged) or (isinstance(column, np.ndarray) and column.ndim > 1):
        return _objects(list(column))
    return column


def _is_text(kind: str) -> bool:
    return kind.startswith(("string", "large_string"))


def _is_list_of_floats(kind: str) -> bool:
    return is_list(kind) and any(f": {item}>" in kind or f": {item} not null>" in kind for item in ("float", "double"))


def _time(microseconds: int) -> datetime.time:
    return (datetime.datetime.min + datetime.timedelta(microseconds=microseconds)).time()


def _objects(values: list[Any]) -> np.ndarray[Any, Any]:
    made = np.empty(len(values), object)
    for at, value in enumerate(values):
        made[at] = value
    return made
