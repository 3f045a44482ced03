"""Options for columns that belong to an image: boxes, points and masks, which are cropped, resized and
mirrored with it."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

from .._forebay import BOX_FORMATS, MASK_TYPES
from ..errors import InvalidError
from ..options.checks import named, whole

if TYPE_CHECKING:
    from ..choices import BoxFormat, MaskType

__all__ = ["Boxes", "Keypoints", "Mask", "Masks"]


@dataclass(frozen=True, repr=False, kw_only=True)
class Boxes:
    """A column of boxes of an image: cropped, resized and mirrored with it.

    The column stores lists of lists of four numbers: int32, int64, float32 or float64. It is delivered as a
    :class:`Ragged` whose ``values`` have shape ``(boxes, 4)``: ``float32``, in the same format, in pixels of the
    delivered image. Each box is clipped to its visible part. A box that is not visible at all becomes an
    empty box at the border, as with torchvision's ``ClampBoundingBoxes``, so that each box keeps its label;
    ``min_visible``, ``center_visible`` and ``min_size`` drop such boxes instead. If an image is rotated, the
    visible part of a box is rotated, and the upright box around the result is clipped again.

    Coordinates refer to the image as it is seen: with ``exif_orientation()``, after it was turned. A null, a box
    without four finite numbers, or a box whose right side is left of its left side or whose bottom is above
    its top makes its row a bad row. If ``null_mask`` names the column, a null is delivered without boxes. A
    null image that is delivered has no boxes either.

    Parameters
    ----------
    of : str
        The column of images, which is read and decoded as well.
    format : {"xyxy", "xywh", "cxcywh"}, default "xyxy"
        The four numbers: left, top, right and bottom, or left, top, width and height (COCO), or centre, width and
        height (YOLO).
    normalized : bool, default False
        Whether the stored numbers are shares of the image's width and height, from 0 to 1, instead of pixels.
    out_format : {"xyxy", "xywh", "cxcywh"}, optional
        The four delivered numbers. Default: as stored.
    out_normalized : bool, default False
        Whether the delivered numbers are shares of the width and height of the delivered array, instead of
        pixels. For ragged images, they are shares of each image's own width and height.
    min_visible : float, default 0
        The least share of a box's area, from 0 to 1, that must be visible: boxes with less are dropped. 0
        drops no box; above 0, boxes without area are dropped too.
    center_visible : bool, default False
        Whether boxes without area, and boxes whose centre is not inside the crop, are dropped, as with
        torchvision's ``RandomIoUCrop`` and ``SanitizeBoundingBoxes``. Rotations are not considered.
    min_size : float, default 0
        The least width and height of a delivered box, in pixels of the delivered image: boxes with a shorter side are
        dropped, as with the ``min_size`` of torchvision's ``SanitizeBoundingBoxes``. 0 drops none.
    along : iterable of str, default ()
        Columns of lists with one item for each box, such as labels: the items of dropped boxes are dropped as well. A
        name may be a pattern, such as ``"objects.*"``, and the columns may be :class:`Keypoints` or :class:`Masks`. A
        list that has more or fewer items than there are boxes makes its row a bad row.

    Raises
    ------
    InvalidError
        An argument is invalid.

    Examples
    --------
    >>> import forebay as fb
    >>> decode = {
    ...     "image": fb.Image.random_resized_crop(224).flip(),
    ...     "boxes": fb.Boxes(of="image", format="xywh", min_visible=0.1, along=["labels"]),
    ... }
    """

    of: str
    """The column of images."""
    format: BoxFormat = "xyxy"
    """The meaning of the four numbers."""
    normalized: bool = False
    """Whether the stored numbers are shares of the image's width and height."""
    out_format: BoxFormat | None = None
    """The meaning of the four delivered numbers."""
    out_normalized: bool = False
    """Whether the delivered numbers are shares of the delivered width and height."""
    min_visible: float = 0.0
    """The least share of a box's area that must be visible."""
    center_visible: bool = False
    """Whether boxes whose centre is not inside the crop are dropped."""
    min_size: float = 0.0
    """The least width and height of a delivered box, in pixels."""
    along: Iterable[str] = field(default=())
    """Columns of lists with one item for each box; the items of dropped boxes are dropped."""

    def __post_init__(self) -> None:
        _column(self.of, "of")
        named(self.format, "format", BOX_FORMATS)
        if self.out_format is not None:
            named(self.out_format, "out_format", BOX_FORMATS)
        for name in ("normalized", "out_normalized", "center_visible"):
            if not isinstance(getattr(self, name), bool):
                raise InvalidError(f"{name} must be True or False, got {getattr(self, name)!r}")
        share = self.min_visible
        if not isinstance(share, Real) or isinstance(share, bool) or not 0 <= share <= 1 or math.isnan(share):
            raise InvalidError(f"min_visible must be a number from 0 to 1, got {share!r}")
        object.__setattr__(self, "min_visible", float(share))
        size = self.min_size
        if not isinstance(size, Real) or isinstance(size, bool) or not 0 <= size < math.inf:
            raise InvalidError(f"min_size must be a number of pixels, 0 or more, got {size!r}")
        object.__setattr__(self, "min_size", float(size))
        if isinstance(self.along, str) or not isinstance(self.along, Iterable):
            raise InvalidError(f"along must be a list of names, got {self.along!r} (pass [{self.along!r}])")
        object.__setattr__(self, "along", tuple(_column(name, "along") for name in self.along))
        if self.along and not (self.min_visible or self.center_visible or self.min_size):
            raise InvalidError(
                "along needs min_visible or min_size above 0 or center_visible: otherwise no box is dropped"
                " (pass min_visible=...)"
            )

    def _spec(self) -> dict[str, Any]:
        """This object as JSON values, for the spec that the compiled library reads."""
        return {
            "boxes": {
                "of": self.of,
                "format": self.format,
                "normalized": self.normalized,
                "out_format": self.out_format,
                "out_normalized": self.out_normalized,
                "min_visible": self.min_visible,
                "center_visible": self.center_visible,
                "min_size": self.min_size,
                "along": list(self.along),
            }
        }

    def __repr__(self) -> str:
        text = f"of={self.of!r}"
        text += "" if self.format == "xyxy" else f", format={self.format!r}"
        text += ", normalized=True" if self.normalized else ""
        text += f", out_format={self.out_format!r}" if self.out_format else ""
        text += ", out_normalized=True" if self.out_normalized else ""
        text += f", min_visible={self.min_visible!r}" if self.min_visible else ""
        text += ", center_visible=True" if self.center_visible else ""
        text += f", min_size={self.min_size!r}" if self.min_size else ""
        text += f", along={list(self.along)!r}" if self.along else ""
        return f"forebay.Boxes({text})"


@dataclass(frozen=True, repr=False, kw_only=True)
class Keypoints:
    """A column of points of an image, which move with the image as it is cropped, resized and mirrored.

    The column stores lists of ``[x, y]`` or ``[x, y, v]``, at any depth, or ``flat`` lists of several points, in int32,
    int64, float32 or float64. It is delivered as a :class:`Ragged`: for a list of points in each row, its ``values``
    have shape ``(points, 2)`` or ``(points, 3)``. They are ``float32``, in pixels of the delivered image. A third
    number, such as a visibility, is passed on. Points are not clipped: those outside of the crop get
    coordinates outside of the result. A mirrored point is at ``width - 1 - x``, as in torchvision; a rotated
    point stays on its pixel. The points of "left eye" and "right eye" are not exchanged when an image is
    mirrored.

    Coordinates refer to the image as it is seen: with ``exif_orientation()``, after it was turned. A null, or
    a point that does not have ``numbers`` finite values, makes its row a bad row. If ``null_mask`` names the
    column, a null is delivered without points. A null image that is delivered has no points either.

    Parameters
    ----------
    of : str
        The column of images, which is read and decoded as well.
    numbers : {2, 3}, optional
        How many numbers each point has. Default: the fixed length of the stored lists, or 2 if it is not
        fixed.
    flat : bool, default False
        Whether each of the innermost lists has the numbers of several points one after the other: COCO's keypoints,
        with ``numbers=3``, and the polygons of its segmentation. They are delivered in the same form.

    Raises
    ------
    InvalidError
        An argument is invalid.

    Examples
    --------
    >>> import forebay as fb
    >>> decode = {"image": fb.Image.center_crop(224), "joints": fb.Keypoints(of="image", numbers=3)}
    """

    of: str
    """The column of images."""
    numbers: int | None = None
    """How many numbers each point has."""
    flat: bool = False
    """Whether each of the innermost lists has the numbers of several points."""

    def __post_init__(self) -> None:
        _column(self.of, "of")
        if self.numbers is not None:
            object.__setattr__(self, "numbers", whole(self.numbers, "numbers", 2))
            if self.numbers > 3:
                raise InvalidError(f"numbers must be 2 or 3, got {self.numbers}")
        if not isinstance(self.flat, bool):
            raise InvalidError(f"flat must be True or False, got {self.flat!r}")

    def _spec(self) -> dict[str, Any]:
        """This object as JSON values, for the spec that the compiled library reads."""
        return {"keypoints": {"of": self.of, "numbers": self.numbers, "flat": self.flat}}

    def __repr__(self) -> str:
        numbers = "" if self.numbers is None else f", numbers={self.numbers}"
        flat = ", flat=True" if self.flat else ""
        return f"forebay.Keypoints(of={self.of!r}{numbers}{flat})"


@dataclass(frozen=True, repr=False, kw_only=True)
class Mask:
    """A column with a mask for each image, cropped, resized and mirrored with it by the nearest pixel.

    The column stores PNG files of one channel and of the image's size: class numbers as grey values, or as
    the indices of a palette. It is delivered as arrays of shape ``(N, H, W)`` with the same numbers. A mask
    that is not such a PNG, or differs from its image in size, makes its row a bad row. So does a null, unless
    ``fill_null`` or ``null_mask`` names the column. If a null image is delivered, its mask is 0, or the value
    that ``fill_null`` gives for this column.

    Parameters
    ----------
    of : str
        The column of images, which is read and decoded as well.
    dtype : {"uint8", "uint16"}, default "uint8"
        The number type; ``"uint8"`` refuses PNG of 16 bits.

    Raises
    ------
    InvalidError
        An argument is invalid.

    Examples
    --------
    >>> import forebay as fb
    >>> decode = {"image": fb.Image.random_resized_crop(224).flip(), "mask": fb.Mask(of="image")}
    """

    of: str
    """The column of images."""
    dtype: MaskType = "uint8"
    """The number type."""

    def __post_init__(self) -> None:
        _column(self.of, "of")
        named(self.dtype, "dtype", MASK_TYPES)

    def _spec(self) -> dict[str, Any]:
        """This object as JSON values, for the spec that the compiled library reads."""
        return {"mask": {"of": self.of, "dtype": self.dtype}}

    def __repr__(self) -> str:
        dtype = "" if self.dtype == "uint8" else f", dtype={self.dtype!r}"
        return f"forebay.Mask(of={self.of!r}{dtype})"


@dataclass(frozen=True, repr=False, kw_only=True)
class Masks:
    """A column with a mask for each object of an image, cropped, resized and mirrored with it by the nearest
    pixel.

    Each row stores a list with an item for each object. An item may be a PNG of one channel, as bytes or
    ``struct<bytes, path>``, in which the object's pixels are not 0; COCO's run lengths, as
    ``struct<counts, size>`` or as text alone; or COCO's polygons, which are one ``[x, y, x, y, ...]`` or a
    list of several. The column's type decides between these forms. Polygons are drawn as pycocotools does.

    The column is delivered as a :class:`Ragged` whose ``values`` have shape ``(objects, H, W)``: ``uint8``, 1
    for the object and 0 elsewhere. If :class:`Boxes` name the column in ``along``, the masks of dropped boxes
    are dropped. A null, a mask of another size than its image, run lengths that do not add up to that size,
    or a polygon with fewer than three points makes its row a bad row. If ``null_mask`` names the column, a
    null is delivered without masks. A null image that is delivered has no masks either.

    Parameters
    ----------
    of : str
        The column of images, which is read and decoded as well.

    Raises
    ------
    InvalidError
        An argument is invalid.

    Examples
    --------
    >>> import forebay as fb
    >>> decode = {
    ...     "image": fb.Image.scale_jitter(1024).flip(),
    ...     "objects.bbox": fb.Boxes(of="image", format="xywh", min_visible=0.1, along=["objects.*"]),
    ...     "objects.segmentation": fb.Masks(of="image"),
    ... }
    """

    of: str
    """The column of images."""

    def __post_init__(self) -> None:
        _column(self.of, "of")

    def _spec(self) -> dict[str, Any]:
        """This object as JSON values, for the spec that the compiled library reads."""
        return {"masks": {"of": self.of}}

    def __repr__(self) -> str:
        return f"forebay.Masks(of={self.of!r})"


def _column(name: Any, argument: str) -> str:
    if not isinstance(name, str):
        raise InvalidError(f"{argument} must be the name of a column, got {name!r}")
    return name
