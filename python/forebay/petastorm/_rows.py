"""Makes the rows that a reader delivers: decodes columns, and calls the user's function for each row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._columns import Values
from ._groups import ROW_ID
from .transform import TransformSpec

__all__: list[str] = []

#: The name of the column with the rows that :class:`RowMaker` makes.
ROWS = "rows"


@dataclass(frozen=True)
class RowMaker:
    """Makes a tuple for each row of a batch; it is the ``transform`` of a reader's loader."""

    values: list[Values]
    names: tuple[str, ...]
    """The fields of a delivered row, in order."""
    spec: TransformSpec | None

    def __call__(self, batch: Mapping[str, Any]) -> dict[str, Any]:
        columns = [values.of(batch) for values in self.values]
        rows: Any = zip(*columns, strict=True)
        if self.spec is not None:
            given = [values.field.name for values in self.values]
            rows = (self._transformed(dict(zip(given, row, strict=True)), self.spec) for row in rows)
        kept = {name: batch[name] for name in (ROW_ID, "row_mask") if name in batch}
        return {ROWS: np.fromiter(rows, object, len(batch[ROW_ID])), **kept}

    def _transformed(self, row: dict[str, Any], spec: TransformSpec) -> tuple[Any, ...]:
        made = spec.func(row) if spec.func is not None else row
        if not isinstance(made, Mapping):
            raise TypeError(f"the function of the TransformSpec must return a dict, got {type(made).__name__}")
        removed = spec.removed_fields
        if spec.selected_fields is None:
            others = [name for name in made if name not in self.names and name not in removed]
            if others:
                raise TypeError(
                    f"the function of the TransformSpec returned fields that are not in its edit_fields: "
                    f"{', '.join(others)} (add them, or do not return them)"
                )
        missing = [name for name in self.names if name not in made]
        if missing:
            raise TypeError(
                f"the function of the TransformSpec did not return the fields {', '.join(missing)} (return them, or "
                "name them in removed_fields)"
            )
        return tuple(made[name] for name in self.names)
