"""The names that an option or a result may have, as types."""

from __future__ import annotations

from typing import Literal

__all__: list[str] = []

Across = Literal["row_group", "file", "dataset"]
"""How far a window or a pack runs on."""

Frames = Literal["together", "alone"]
"""What the images of a window draw."""

FilterOperator = Literal["=", "==", "!=", "<", "<=", ">", ">=", "in", "not in"]
"""How a filter compares."""

PixelType = Literal["uint8", "uint16", "float16", "bfloat16", "float32"]
"""Type of a pixel."""

PixelLayout = Literal["NHWC", "NCHW"]
"""Order of the axes of an image."""

BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
"""The four numbers of a box: two corners; a corner and the size; the centre and the size."""

Interpolation = Literal["nearest", "bilinear"]
"""How the pixels of a turned image are made."""

Resampling = Literal["bilinear", "bicubic", "lanczos"]
"""The filter of a resize."""

MaskType = Literal["uint8", "uint16"]
"""Type of the numbers of a mask."""

TensorType = Literal[
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float16",
    "float32",
    "float64",
]
"""Type of a value of a tensor."""

TensorFormat = Literal["raw", "npy", "npz"]
"""How a cell of bytes holds a tensor."""

CacheTier = Literal["auto", "rows", "coefficients", "resized", "pixels"]
"""Form in which a cache keeps images."""

Mixing = Literal["window", "exact", "stored"]
"""How rows are shuffled."""

ColumnKind = Literal["dense", "ragged", "struct", "text", "bytes", "object"]
"""How a column is delivered.

As an array, :class:`forebay.Ragged`, a dict of its fields, or an array of ``str``, ``bytes`` or other objects.
"""
