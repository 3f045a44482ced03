"""Leaves out the rows that a predicate, an index or a shard of row groups does not select: by a filter of the
loader if there is one with the same meaning, otherwise by the ids of the rows."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from ..filters.expressions import Expression, col
from ..loader import Loader
from ._batches import BatchMaker, kinds_of, reading_of
from ._columns import readings
from ._groups import ROW_ID, Numbered
from ._rows import ROWS, RowMaker
from ._stored import AS_STORED, Stored
from .predicates import PredicateBase, in_lambda, in_negate, in_reduce, in_set
from .unischema import Unischema

__all__: list[str] = []

Numbers = np.ndarray[Any, Any]

#: Rows in a batch while a predicate is evaluated.
_BATCH = 4096


def as_filter(predicate: PredicateBase, stored: Stored) -> Expression | None:
    """Returns a filter of the loader that selects the same rows as the predicate; None if no filter does."""
    return _filter(predicate, stored, True)


def left_out_by(predicate: PredicateBase, stored: Stored, is_batched: bool, options: dict[str, Any]) -> list[int]:
    """Returns the ids of the rows that a predicate leaves out. It reads the fields that the predicate needs,
    for all rows in stored order."""
    names = list(predicate.get_fields())
    if not names:
        raise ValueError("the predicate has no fields: its get_fields() must return at least one name")
    unknown = [name for name in names if name not in stored.schema.fields]
    if unknown:
        raise ValueError(
            f"the predicate's fields {', '.join(unknown)} are not valid schema names: {', '.join(stored.schema.fields)}"
        )
    fields = [field for name, field in stored.schema.fields.items() if name in names]
    view = Unischema(stored.schema._name, fields)
    evaluate: Callable[[Any], Any]
    of_folders = set(names) <= set(stored.keys)
    if is_batched and not of_folders and not _is_of_rows(predicate):
        maker = BatchMaker(kinds_of(stored, view), view, None)
        reading = reading_of(stored, view)

        def evaluate(batch: Any) -> Any:
            return np.asarray(predicate.do_include(maker.frame(batch))).astype(bool)
    else:
        reading, values = readings(stored, view)
        rows = RowMaker(values, tuple(names), None)
        given = list(view.fields)

        def included(row: Any) -> bool:
            return bool(predicate.do_include(dict(zip(given, row, strict=True))))

        # All rows of a folder have the same keys, so a predicate on keys is called once for each folder.
        ask = functools.cache(included) if of_folders else included

        def evaluate(batch: Any) -> Any:
            made = rows(batch)[ROWS]
            return np.fromiter(map(ask, made), bool, len(made))

    left_out: list[int] = []
    with Loader(stored.dataset, **reading.options(), batch_size=_BATCH, epochs=1, row_id=True, **options) as loader:
        for batch in loader:
            left_out += batch[ROW_ID][~evaluate(batch)].tolist()
    return left_out


def outside(stored: Stored, is_kept: Callable[[Numbers], Numbers]) -> tuple[list[int], int]:
    """Returns the ids of the rows that ``is_kept`` does not keep, and the number of row groups that have
    rows. ``is_kept`` takes the numbers of the rows' row groups."""
    left_out: list[int] = []
    numbered = Numbered(stored.dataset)
    options: dict[str, Any] = {"columns": _cheapest(stored), "decode": AS_STORED, "batch_size": _BATCH}
    with Loader(stored.dataset, **options, epochs=1, row_id=True) as loader:
        for batch in loader:
            left_out += batch[ROW_ID][~is_kept(numbered.of(batch[ROW_ID]))].tolist()
    return left_out, numbered.count


def _cheapest(stored: Stored) -> list[str]:
    """Returns the name of one column that costs little to read, in a list; no name if there is no column."""
    numbers = [name for name, kind in stored.types.items() if str(kind).startswith(("int", "uint", "bool", "float"))]
    return [*stored.keys, *numbers, *stored.types][:1]


def _is_of_rows(predicate: PredicateBase) -> bool:
    """Whether a predicate takes the values of one row, as forebay's own predicates do. An ``in_lambda`` and a
    predicate of the user's class take a DataFrame of many rows."""
    if isinstance(predicate, in_negate):
        return _is_of_rows(predicate._predicate)
    if isinstance(predicate, in_reduce):
        return all(_is_of_rows(one) for one in predicate._predicate_list)
    return type(predicate).__module__ == in_set.__module__ and not isinstance(predicate, in_lambda)


def _filter(predicate: PredicateBase, stored: Stored, wanted: bool) -> Expression | None:
    """Returns a filter for the rows for which the predicate returns ``wanted``; None if no filter does
    that."""
    kind = type(predicate)
    if kind is in_negate:
        return _filter(predicate._predicate, stored, not wanted)  # type: ignore[attr-defined]
    if kind is in_reduce:
        return _reduced(predicate, stored, wanted)
    if kind is in_set:
        return _in_set(predicate, stored, wanted)
    return None


def _reduced(predicate: Any, stored: Stored, wanted: bool) -> Expression | None:
    if predicate._reduce_func not in (all, any):
        return None
    parts = [_filter(one, stored, wanted) for one in predicate._predicate_list]
    return _combined(parts, (predicate._reduce_func is all) is wanted)


def _combined(parts: Iterable[Expression | None], is_and: bool) -> Expression | None:
    combined: Expression | None = None
    for part in parts:
        if part is None:
            return None
        combined = part if combined is None else combined & part if is_and else combined | part
    return combined


def _in_set(predicate: Any, stored: Stored, wanted: bool) -> Expression | None:
    name, values = predicate._predicate_field, predicate._inclusion_values
    field, stored_as = stored.schema.fields.get(name), str(stored.types.get(name))
    if field is None or not values or not _compares_alike(field, stored_as, values):
        return None
    listed = [value.item() if isinstance(value, np.generic) else value for value in values]
    expression = col(name).is_in(sorted(listed))
    # A null is not in the set, so a negated predicate selects it.
    return expression if wanted else ~expression | col(name).is_null()


def _compares_alike(field: Any, stored_as: str, values: Iterable[Any]) -> bool:
    """Whether comparing a field with ``values`` selects the same rows before and after decoding. This is so
    for whole numbers and for text."""
    if field.shape != () or not isinstance(field.numpy_dtype, type):
        return False
    if stored_as.startswith(("int", "uint")):
        whole = all(isinstance(value, (int, np.integer)) and not isinstance(value, bool) for value in values)
        return whole and issubclass(field.numpy_dtype, np.integer)
    is_text = stored_as.startswith(("string", "large_string")) and field.numpy_dtype is np.str_
    return is_text and all(isinstance(value, str) for value in values)
