"""The options of columns: what each takes for a column, and what a spec says of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NamedTuple, TypedDict

from .. import _forebay
from ..choices import TensorFormat, TensorType
from ..errors import InvalidError
from ..options.checks import kind_of, mapping
from .boxes_and_masks import Boxes, Keypoints, Mask
from .encoding import Encoding
from .fill import filler
from .pad import Pad
from .tensor import Tensor, dtype_name
from .text import Json, Text

__all__: list[str] = []


class ColumnOption(NamedTuple):
    """A keyword that takes a value for each of some columns."""

    example: str
    """A value of it, as a user writes it."""
    check: Callable[[Any, str], Any]
    """Returns a value, or raises the error that names it: as an argument, such as ``pad['x']``."""


def _or_none(check: Callable[[Any, str], Any]) -> Callable[[Any, str], Any]:
    """Takes None as well."""
    return lambda value, argument: None if value is None else check(value, argument)


def _one_of(kinds: tuple[type, ...], wanted: str) -> Callable[[Any, str], Any]:
    """Takes the values of some types."""

    def check(value: Any, argument: str) -> Any:
        if not isinstance(value, kinds):
            raise InvalidError(f"{argument} must be {wanted}, got {kind_of(value)}")
        return value

    return check


#: By keyword. A value that is not as the library reads it has a method ``_spec``.
COLUMN_OPTIONS = {
    "decode": ColumnOption(
        "forebay.Image.resize(224, 224)",
        _or_none(
            _one_of(
                (_forebay.Image, Boxes, Keypoints, Mask, Tensor, Text, Json),
                "a forebay.Image, Boxes, Keypoints, Mask, Tensor, Text, Json or None",
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
    """The types that columns are cast to, where there are any."""
    follow: dict[str, dict[str, Any]]
    """What ``decode`` says of columns that belong to images, where there are any."""
    tensors: dict[str, TensorDict]
    """The tensors in ``decode``, where there are any."""
    texts: dict[str, Literal["plain", "json"]]
    """The text and JSON in ``decode``, where there are any."""
    as_stored: dict[str, Literal[True]]
    """The columns that are None in ``decode``, where there are any."""
    encode: dict[str, dict[str, Any]]
    """The columns that are encoded, where there are any."""
    pad: dict[str, dict[str, Any]]
    """The columns of lists that are padded, where there are any."""


class ColumnsDict(_GivenDict):
    """What a spec says of columns, as JSON."""

    decode: dict[str, dict[str, Any]]
    fill_null: dict[str, Any]


def by_column(value: Any, option: str) -> dict[str, Any] | None:
    """What the argument of an option says of columns, each value checked."""
    if value is None:
        return None
    of = COLUMN_OPTIONS[option]
    return {name: of.check(one, f"{option}[{name!r}]") for name, one in mapping(value, option, of.example).items()}


def columns_spec(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the library's ``LoaderSpec`` for all options of columns, whose values were checked."""
    given = {option: arguments[option] or {} for option in COLUMN_OPTIONS}
    return {**decoding(given.pop("decode")), **{option: _specs(values) for option, values in given.items()}}


def decoding(decode: Mapping[str, Any]) -> dict[str, Any]:
    """The fields for ``decode``, which is one option for several."""
    kinds = {
        "decode": (_forebay.Image,),
        "follow": (Boxes, Keypoints, Mask),
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
    """The values as the library reads them."""
    return {name: value._spec() if hasattr(value, "_spec") else value for name, value in values.items()}
