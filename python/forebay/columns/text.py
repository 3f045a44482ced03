"""The options for columns of text, delivered as numpy's strings or as the objects that JSON texts
describe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..errors import InvalidError

__all__ = ["Json", "Text"]


@dataclass(frozen=True)
class Text:
    """A column of text as an array of numpy's strings: a frozen value for ``decode=``.

    The column may be stored as text, or as binary that holds UTF-8. A cell that is not UTF-8 makes its row a
    bad row.
    The column is delivered as an array of ``numpy.dtypes.StringDType()``, which functions of ``numpy.strings`` take,
    and which holds no Python objects. A null is a bad row, unless ``fill_null`` gives a text or ``null_mask`` names the
    column.

    Raises
    ------
    InvalidError
        This numpy has no ``StringDType``, which came with version 2.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Text()
    forebay.Text()
    """

    def __post_init__(self) -> None:
        if not hasattr(getattr(np, "dtypes", None), "StringDType"):
            raise InvalidError(
                f"Text needs numpy 2 or later for its strings, this is numpy {np.__version__} (pip install 'numpy>=2')"
            )

    def _spec(self) -> str:
        """The name of this option in the spec that the compiled library reads."""
        return "plain"

    def __repr__(self) -> str:
        return "forebay.Text()"


@dataclass(frozen=True)
class Json:
    """A column of JSON as Python objects: a frozen value for ``decode=``.

    The column may be stored as text or as binary. The loader's threads check each cell; one that is not a single JSON
    value makes its row a bad row, and the error says where the fault is. The column is delivered as an array
    of the objects that ``json.loads`` returns for the cells: dicts, lists, numbers, ``str``, ``bool`` and
    ``None``. They are made when the column is first accessed; :meth:`forebay.Batch.to_arrow` has the text. A
    null is ``None``, unless ``fill_null`` gives the JSON for it.

    JSON that is nested more than 500 deep, or has integers of more than 4300 digits, is a bad row, since Python cannot
    read it; so are ``NaN`` and ``Infinity``, which are not JSON.

    Examples
    --------
    >>> import forebay as fb
    >>> fb.Json()
    forebay.Json()
    """

    def _spec(self) -> str:
        """The name of this option in the spec that the compiled library reads."""
        return "json"

    def __repr__(self) -> str:
        return "forebay.Json()"
