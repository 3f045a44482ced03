"""What ``decode=`` says of columns, as the compiled half takes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .. import _forebay
from ..errors import InvalidError
from ..options.checks import kind_of
from .boxes_and_masks import Boxes, Keypoints, Mask
from .tensor import Tensor
from .text import Json, Text

__all__: list[str] = []


def decoding(decode: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of the library's ``LoaderSpec`` for it, or the error that names the column."""
    for name, value in decode.items():
        if not isinstance(value, (_forebay.Image, Boxes, Keypoints, Mask, Tensor, Text, Json)):
            raise InvalidError(
                f"decode[{name!r}] must be a forebay.Image, Boxes, Keypoints, Mask, Tensor, Text or Json, "
                f"got {kind_of(value)}"
            )
    following = {name: value for name, value in decode.items() if isinstance(value, (Boxes, Keypoints, Mask))}
    return {
        "decode": {name: image for name, image in decode.items() if isinstance(image, _forebay.Image)},
        "follow": {name: value._options() for name, value in following.items()},
        "tensors": {name: tensor._spec() for name, tensor in decode.items() if isinstance(tensor, Tensor)},
        "texts": {
            name: "plain" if isinstance(text, Text) else "json"
            for name, text in decode.items()
            if isinstance(text, (Text, Json))
        },
    }
