"""Several images as one value: a list of images in each row, or the images of a window of rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from .. import _forebay
from ..errors import InvalidError
from ..options.checks import kind_of, named, whole
from ..options.written import written

if TYPE_CHECKING:
    from ..choices import ClipLayout, Frames, FrameSampling

__all__ = ["Clip"]


@dataclass(frozen=True, repr=False)
class Clip:
    """Several images as one value, such as the frames of a video: a frozen value for ``decode=``.

    A row of the column has a list of binary values or of ``struct<bytes, path>``, and becomes an array of shape
    ``(frames, H, W, C)``. With ``frames``, or for lists of a fixed length, a batch has shape ``(N, frames, H, W, C)``;
    otherwise each clip has as many images as its list, and a batch is a :class:`Ragged`. With a :class:`Window` as
    ``samples=`` the column has one image in each row, and a clip is made of the rows of a window. See
    ``docs/recipes/clips.md``.

    The random changes are those that an :class:`Image` would get in this row, or in the first row of the
    window. A bad or null image makes its whole row or window bad. If ``image`` keeps the aspect ratio, as
    :meth:`Image.fit` does, each image is on a canvas of its own, and a column ``<column>.size`` has their heights and
    widths: int32 of shape ``(N, frames, 2)``, or a :class:`Ragged` if clips differ in length. :meth:`Image.ragged` is
    refused. A cache keeps lists as they are stored, and the images of windows as if there were no clip.

    Parameters
    ----------
    image : Image
        How each image becomes pixels.
    frames : int, optional
        Number of images of a clip. Without ``stride``, the list or window is divided into this number of
        equal parts, and each part gives one image; if the list or window is shorter, images are repeated.
        Default: all images.
    stride : int, optional
        Distance from one image to the next, in images of the list or window. With ``frames``, the last image
        is repeated if the list or window is too short. Default: 1 without ``frames``; with ``frames``, images
        are taken from the whole list or window.
    sampling : {"even", "random"}, default "even"
        How the ``frames`` images are chosen. ``"even"`` takes the middle image of each part or, with
        ``stride``, images around the middle. ``"random"`` takes a random image of each part or, with
        ``stride``, starts at a random image. The random choice depends on the seed of the shuffle, the epoch
        and the row.
    draws : {"together", "alone"}, default "together"
        ``"together"`` gives all images of a clip the same random crop, flip and change of colours;
        ``"alone"`` gives each image its own. If a :class:`Window` has ``frames="alone"``, each of its images
        always gets its own.
    layout : {"NTHWC", "NTCHW", "NCTHW"}, optional
        Order of the axes; T counts the images. "NCTHW" is for clips of one length. Default: that of ``image``, with T
        after N.
    at_most : int, optional
        The most images of a clip, if lists differ in length and ``frames`` is not given; a longer list is a bad row.
        While a batch is made, each of its clips takes the memory of a clip of this length.

    Raises
    ------
    InvalidError
        An argument is invalid, or two arguments cannot be combined.

    Examples
    --------
    >>> import forebay as fb
    >>> image = fb.Image.random_resized_crop(224).flip().dtype("float32")
    >>> decode = {"frames": fb.Clip(image, frames=8, sampling="random", layout="NCTHW")}
    >>> fb.Clip(image, at_most=32).at_most
    32
    """

    image: _forebay.Image
    """How each image becomes pixels."""
    frames: int | None = field(default=None, kw_only=True)
    """Number of images of a clip."""
    stride: int | None = field(default=None, kw_only=True)
    """Distance from one image of the clip to the next, in images of the list or window."""
    sampling: FrameSampling = field(default="even", kw_only=True)
    """How the images are chosen if there are more than ``frames``: evenly, or at random."""
    draws: Frames = field(default="together", kw_only=True)
    """How random changes apply to the images of a clip: the same to all together, or to each one alone."""
    layout: ClipLayout | None = field(default=None, kw_only=True)
    """Order of the axes."""
    at_most: int | None = field(default=None, kw_only=True)
    """The largest number of images in a clip, if lists differ in length."""

    def __post_init__(self) -> None:
        if not isinstance(self.image, _forebay.Image):
            raise InvalidError(f"image must be a forebay.Image, got {kind_of(self.image)}")
        for name in ("frames", "stride", "at_most"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, whole(value, name, 1, 32))
        named(self.sampling, "sampling", _forebay.FRAME_SAMPLINGS)
        named(self.draws, "draws", _forebay.FRAMES)
        if self.layout is not None:
            named(self.layout, "layout", _forebay.CLIP_LAYOUTS)

    def _spec(self) -> dict[str, Any]:
        """This object as a dict, for the spec that the compiled library reads."""
        spec = {name: getattr(self, name) for name in ("frames", "stride", "layout", "at_most")}
        given = {name: value for name, value in spec.items() if value is not None}
        return {"image": self.image, "sampling": self.sampling, "draws": self.draws, **given}

    def __repr__(self) -> str:
        return written(self, self.image)
