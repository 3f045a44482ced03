"""Types of options and results that are one of a few names."""

from __future__ import annotations

from typing import Literal

__all__: list[str] = []

Across = Literal["row_group", "file", "dataset"]
"""The range that all rows of a window or a pack come from: one row group, one file or the whole data set."""

Frames = Literal["together", "alone"]
"""How random changes apply to a window's images: the same to all together, or to each one alone."""

FrameSampling = Literal["even", "random"]
"""How the images of a clip are chosen from a longer list: at even distances, or at random."""

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
"""The end of a list whose numbers are kept when the list is cut to a shorter length."""

Interpolation = Literal["nearest", "bilinear"]
"""The interpolation of the pixels of a rotated image."""

PaddingMode = Literal["constant", "edge", "reflect", "symmetric"]
"""How the border that a random crop adds to an image is filled."""

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
"""The kind of a shuffle: within a window of row groups, over all rows exactly, or none (the stored order)."""

ColumnKind = Literal["dense", "ragged", "struct", "text", "bytes", "object"]
"""The form in which a column is delivered.

The forms are an array, a :class:`forebay.Ragged`, a dict of the fields of a structure, and arrays of ``str``,
of ``bytes`` and of other objects.
"""
