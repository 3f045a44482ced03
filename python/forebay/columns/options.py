"""Checks the loader's options of columns, such as ``decode=`` and ``pad=``, and converts them for the spec,
the JSON that the compiled library reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypedDict

from .. import _forebay
from ..choices import TensorFormat, TensorType
from ..errors import InvalidError
from ..options.checks import kind_of, mapping
from .boxes_and_masks import Boxes, Keypoints, Mask, Masks
from .clip import Clip
from .encoding import Encoding
from .fill import filler
from .pad import Pad
from .tensor import Tensor, dtype_name
from .text import Json, Text
from .views import Views

__all__: list[str] = []


class ColumnOption(NamedTuple):
    """A keyword of the loader, such as ``pad=``, that takes a dict from columns to values."""

    example: str
    """An example of a value, as a user writes it."""
    check: Callable[[Any, str], Any]
    """Checks a value and returns it. Its second argument names the value in errors, such as ``pad['x']``."""


def _or_none(check: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Returns a check that accepts None, and passes other values to ``check``."""
    return lambda value, argument: None if value is None else check(value, argument)


def _one_of(kinds: tuple[type, ...], wanted: str) -> Callable[[Any, str], Any]:
    """Returns a check that accepts values of the types ``kinds``, which ``wanted`` names in its error."""

    def check(value: Any, argument: str) -> Any:
        if not isinstance(value, kinds):
            raise InvalidError(f"{argument} must be {wanted}, got {kind_of(value)}")
        return value

    return check


#: The options of columns by keyword. A value that the compiled library cannot read itself has a method
#: ``_spec`` that converts it.
COLUMN_OPTIONS = {
    "decode": ColumnOption(
        "forebay.Image.resize(224, 224)",
        _or_none(
            _one_of(
                (_forebay.Image, Views, Clip, Boxes, Keypoints, Mask, Masks, Tensor, Text, Json),
                "a forebay.Image, Views, Clip, Boxes, Keypoints, Mask, Masks, Tensor, Text, Json or None",
            )
        ),
    ),
    "encode": ColumnOption("forebay.Hash(1000)", _one_of((Encoding,), "a forebay.Vocabulary or a forebay.Hash")),
    "pad": ColumnOption("forebay.Pad(2048)", _one_of((Pad,), "a forebay.Pad")),
    "fill_null": ColumnOption("0.0", filler),
    "cast": ColumnOption('"float32"', dtype_name),
}


class TensorDict(TypedDict):
    """A :class:`forebay.Tensor` as JSON."""

    dtype: TensorType
    shape: list[int]
    format: TensorFormat
    byte_order: Literal["little", "big"]


class _GivenDict(TypedDict, total=False):
    cast: dict[str, TensorType]
    """The type that each column is cast to; absent if there are no such columns."""
    views: dict[str, list[dict[str, Any]]]
    """The columns with ``Views`` in ``decode``, each with its views; absent if there are no such columns."""
    clips: dict[str, dict[str, Any]]
    """The columns with a ``Clip`` in ``decode``; absent if there are no such columns."""
    follow: dict[str, dict[str, Any]]
    """The columns with boxes, points or masks of images in ``decode``; absent if there are no such
    columns."""
    tensors: dict[str, TensorDict]
    """The columns with a ``Tensor`` in ``decode``; absent if there are no such columns."""
    texts: dict[str, Literal["plain", "json"]]
    """The columns with ``Text`` or ``Json`` in ``decode``; absent if there are no such columns."""
    as_stored: dict[str, Literal[True]]
    """The columns with None in ``decode``, delivered as stored; absent if there are no such columns."""
    encode: dict[str, dict[str, Any]]
    """The columns that are encoded as integers; absent if there are no such columns."""
    pad: dict[str, dict[str, Any]]
    """The columns of lists that are padded to one length; absent if there are no such columns."""


class ColumnsDict(_GivenDict):
    """The part of ``Loader.spec`` with the options of columns."""

    decode: dict[str, dict[str, Any]]
    fill_null: dict[str, Any]


def by_column(value: Any, option: str) -> dict[str, Any] | None:
    """Checks the argument of an option, and returns its value for each column that it names."""
    if value is None:
        return None
    of = COLUMN_OPTIONS[option]
    return {name: of.check(one, f"{option}[{name!r}]") for name, one in mapping(value, option, of.example).items()}


def columns_spec(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The options of columns in ``arguments``, which were checked, as fields of the compiled library's
    spec."""
    given = {option: arguments[option] or {} for option in COLUMN_OPTIONS}
    return {**decoding(given.pop("decode")), **{option: _specs(values) for option, values in given.items()}}


def decoding(decode: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the spec for ``decode``. A column is put into the field for the class of its value: a
    column with a :class:`Clip` into ``clips``, for instance."""
    kinds = {
        "decode": (_forebay.Image,),
        "views": (Views,),
        "clips": (Clip,),
        "follow": (Boxes, Keypoints, Mask, Masks),
        "tensors": (Tensor,),
        "texts": (Text, Json),
    }
    fields: dict[str, Any] = {
        field: _specs({name: value for name, value in decode.items() if isinstance(value, kind)})
        for field, kind in kinds.items()
    }
    fields["as_stored"] = {name: True for name, value in decode.items() if value is None}
    return fields


def _specs(values: Mapping[str, Any]) -> dict[str, Any]:
    """The value of each column in the form that the compiled library reads."""
    return {name: value._spec() if hasattr(value, "_spec") else value for name, value in values.items()}
