"""Petastorm's ``TransformSpec``: a function of the user that changes rows, and the fields that it changes."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

from .unischema import Unischema, UnischemaField

__all__ = ["TransformSpec", "edit_field", "transform_schema"]


class TransformSpec:
    """A function of a row or of a batch, and the fields that it changes.

    Parameters
    ----------
    func : callable, optional
        A function from a row, as a dict, to a dict for ``make_reader``, or from a ``pandas.DataFrame`` to a
        DataFrame for ``make_batch_reader``. Default: fields are only removed.
    edit_fields : list of tuple, optional
        Fields that the function adds or changes: ``(name, numpy_dtype, shape, is_nullable)``.
    removed_fields : list of str, optional
        Fields that the function removes.
    selected_fields : list of str, optional
        Fields to keep, in this order. Cannot be combined with ``removed_fields``.
    """

    def __init__(
        self,
        func: Callable[[Any], Any] | None = None,
        edit_fields: Iterable[Any] | None = None,
        removed_fields: Iterable[str] | None = None,
        selected_fields: Iterable[str] | None = None,
    ) -> None:
        if removed_fields is not None and selected_fields is not None:
            raise ValueError("removed_fields and selected_fields were given (pass one of them)")
        self.func = func
        self.edit_fields = list(edit_fields or [])
        self.removed_fields = list(removed_fields or [])
        self.selected_fields = None if selected_fields is None else list(selected_fields)


def edit_field(name: str, numpy_dtype: Any, shape: Any, nullable: bool = False) -> tuple[str, Any, Any, bool]:
    """Describes a field that a function adds or changes, for ``edit_fields``."""
    return name, numpy_dtype, shape, nullable


def transform_schema(schema: Unischema, transform_spec: TransformSpec) -> Unischema:
    """Returns the schema of the rows that the function of a ``transform_spec`` makes from rows of
    ``schema``."""
    _warn_of_others("removed_fields", transform_spec.removed_fields, schema.fields)
    edited = [UnischemaField(field[0], field[1], field[2], None, field[3]) for field in transform_spec.edit_fields]
    gone = {field.name for field in edited} | set(transform_spec.removed_fields)
    fields = [field for name, field in schema.fields.items() if name not in gone] + edited
    selected = transform_spec.selected_fields
    if selected is not None:
        by_name = {field.name: field for field in fields}
        _warn_of_others("selected_fields", selected, by_name)
        fields = [by_name[name] for name in selected if name in by_name]
    return Unischema(f"{schema._name}_transformed", fields)


def _warn_of_others(argument: str, names: list[str], known: Any) -> None:
    others = [name for name in names if name not in known]
    if others:
        said = f"{argument} has names that are not part of the schema, and are left out: {', '.join(others)}"
        warnings.warn(said, stacklevel=3)
