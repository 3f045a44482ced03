"""The names that an option or a result may have, as types."""

from __future__ import annotations

from typing import Literal

__all__: list[str] = []

Across = Literal["row_group", "file", "dataset"]
"""The range in which a window or a pack may continue: its row group, its file or the whole data set."""

Frames = Literal["together", "alone"]
"""Whether the images of a window are changed at random together or alone."""

FrameSampling = Literal["even", "random"]
"""How the images of a clip are chosen."""

ClipLayout = Literal["NTHWC", "NTCHW", "NCTHW"]
"""Order of the axes of a clip."""

FilterOperator = Literal["=", "==", "!=", "<", "<=", ">", ">=", "in", "not in"]
"""An operator of a filter."""

PixelType = Literal["uint8", "uint16", "float16", "bfloat16", "float32"]
"""Type of a pixel."""

PixelLayout = Literal["NHWC", "NCHW"]
"""Order of the axes of an image."""

BoxFormat = Literal["xyxy", "xywh", "cxcywh"]
"""The four numbers of a box: two corners; a corner and the size; the centre and the size."""

PadSide = Literal["right", "left"]
"""The side of a list on which it is padded."""

KeptEnd = Literal["first", "last"]
"""Whether the first or the last numbers of a list are kept when it is cut off."""

Interpolation = Literal["nearest", "bilinear"]
"""The interpolation of the pixels of a rotated image."""

PaddingMode = Literal["constant", "edge", "reflect", "symmetric"]
"""The content of the padding of a random crop."""

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
"""The form in which a cell of bytes contains a tensor."""

CacheTier = Literal["auto", "rows", "coefficients", "resized", "pixels"]
"""Form in which a cache keeps images."""

Mixing = Literal["window", "exact", "stored"]
"""A kind of shuffle."""

ColumnKind = Literal["dense", "ragged", "struct", "text", "bytes", "object"]
"""How a column is delivered.

As an array, :class:`forebay.Ragged`, a dict of its fields, or an array of ``str``, ``bytes`` or other
objects.
"""
