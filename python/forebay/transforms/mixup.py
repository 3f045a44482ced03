"""MixUp and CutMix: a transform that mixes the image and the label of each row with those of the row
before."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from .._forebay import blend_with_previous
from ..errors import InvalidError
from .rows import Columns, rng

__all__ = ["MixUp"]

#: The possible numbers of channels of an image. The last or first axis of an image is the axis of channels if
#: it has one of these lengths.
CHANNELS = (1, 3)


@dataclass(frozen=True, kw_only=True)
class MixUp:
    """Mixes each image of a batch with another image of the batch, and the labels in the same ratio: a value
    for ``transform=`` of a loader.

    Each row is mixed with the row before it, and the first row with the last, as in torchvision's ``MixUp`` and
    ``CutMix``. That other row is the partner. In MixUp a pixel becomes ``lam`` times itself plus ``1 - lam``
    times the partner's pixel, where ``lam`` is drawn from ``Beta(alpha, alpha)``. CutMix copies a random box
    of about ``1 - lam`` of the area from the partner; ``lam`` is then the exact share of the area that is
    left. The labels become ``float32`` of shape ``(N, num_classes)``: ``lam`` for the row's own class and
    ``1 - lam`` for the partner's class.

    ``lam``, the box and the choice between MixUp and CutMix are drawn once for a step, from :func:`rng` with
    ``all_ranks=True``. They are the same on all ranks, for any number of workers, and after a resume on any number
    of ranks with the same global batch size. A partner is always in the batch of the same rank.

    Parameters
    ----------
    num_classes : int
        The number of classes.
    mixup_alpha : float, default 1.0
        ``alpha`` of MixUp; 0 turns it off.
    cutmix_alpha : float, default 0.0
        ``alpha`` of CutMix; 0 turns it off.
    p : float, default 1.0
        Probability that a step is mixed. The labels have the same form in all steps.
    switch_p : float, default 0.5
        Probability of CutMix if both are on.
    label_smoothing : float, default 0.0
        The share of a label that is spread evenly over all classes.
    image : str, default "image"
        The column of images: arrays of one shape, with 1 or 3 channels first or last.
    label : str, default "label"
        The column of labels: whole numbers from 0 to ``num_classes - 1``.

    Raises
    ------
    InvalidError
        An argument is out of range, or both alphas are 0.

    Examples
    --------
    >>> import forebay as fb
    >>> mix = fb.MixUp(num_classes=10, mixup_alpha=0.2, cutmix_alpha=1.0)
    >>> train = fb.Loader("data/train/", batch_size=4, transform=mix)
    """

    num_classes: int
    mixup_alpha: float = 1.0
    cutmix_alpha: float = 0.0
    p: float = 1.0
    switch_p: float = 0.5
    label_smoothing: float = 0.0
    image: str = "image"
    label: str = "label"

    def __post_init__(self) -> None:
        if isinstance(self.num_classes, bool) or not isinstance(self.num_classes, int) or self.num_classes < 2:
            raise InvalidError(f"num_classes must be an int of at least 2, got {self.num_classes!r}")
        for name in ("mixup_alpha", "cutmix_alpha"):
            alpha = getattr(self, name)
            if not (_is_number(alpha) and 0 <= alpha < math.inf):
                raise InvalidError(f"{name} must be a finite number of at least 0, got {alpha!r}")
        if self.mixup_alpha == self.cutmix_alpha == 0:
            raise InvalidError("MixUp with both alphas 0 mixes nothing (give mixup_alpha or cutmix_alpha)")
        for name in ("p", "switch_p", "label_smoothing"):
            share = getattr(self, name)
            if not (_is_number(share) and 0 <= share <= 1):
                raise InvalidError(f"{name} must be a number from 0 to 1, got {share!r}")

    def __call__(self, batch: Columns) -> dict[str, Any]:
        """Returns the batch with mixed images and labels."""
        images, labels = self._column(batch, self.image), self._column(batch, self.label)
        draws = rng(batch, all_ranks=True)
        # All numbers are drawn in every step, so that a change of one option does not change the other draws.
        is_mixed, is_cut = draws.random() < self.p, draws.random() < self.switch_p
        across, down = draws.random(), draws.random()
        if self.mixup_alpha == 0 or self.cutmix_alpha == 0:
            is_cut = self.mixup_alpha == 0
        alpha = self.cutmix_alpha if is_cut else self.mixup_alpha
        lam = float(draws.beta(alpha, alpha)) if is_mixed else 1.0
        if is_cut:
            images, lam = _cut(images, lam, (across, down), self.image) if is_mixed else (images, lam)
        elif is_mixed:
            images = _blended(images, lam)
        ones = self._one_hot(labels)
        mixed = lam * ones + (1 - lam) * np.roll(ones, 1, axis=0)
        return {**batch, self.image: images, self.label: mixed.astype(np.float32)}

    def _column(self, batch: Columns, name: str) -> np.ndarray[Any, Any]:
        if name not in batch:
            raise InvalidError(f"MixUp: no column {name!r} in the batch, which has {', '.join(batch)}")
        column = batch[name]
        if not isinstance(column, np.ndarray) or column.dtype == object:
            raise InvalidError(f"MixUp: column {name!r} {self._misfit(column, name)}")
        return column

    def _misfit(self, column: Any, name: str) -> str:
        """An error text for a column that is not an array of numbers. It says what the column holds, and
        what to do."""
        first = column[0] if isinstance(column, np.ndarray) and len(column) else None
        if isinstance(first, str):
            return f"holds text (encode it: encode={{{name!r}: forebay.Vocabulary(...)}})"
        if isinstance(first, (bytes, dict)) and name == self.image:
            return f"holds undecoded images (decode them to one size: decode={{{name!r}: forebay.Image...}})"
        return f"is not an array of numbers of one shape, but {type(column).__qualname__} (decode images to one size)"

    def _one_hot(self, labels: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        if labels.ndim != 1 or labels.dtype.kind not in "iu":
            raise InvalidError(
                f"MixUp: column {self.label!r} has shape {labels.shape} and type {labels.dtype} (labels are whole "
                "numbers, one for each row)"
            )
        wrong = labels[(labels < 0) | (labels >= self.num_classes)]
        if len(wrong):
            raise InvalidError(
                f"MixUp: label {wrong[0]} in column {self.label!r} with num_classes={self.num_classes} (labels are "
                f"from 0 to {self.num_classes - 1}: raise num_classes)"
            )
        spread = self.label_smoothing / self.num_classes
        ones = np.full((len(labels), self.num_classes), spread)
        ones[np.arange(len(labels)), labels.astype(np.intp)] += 1 - self.label_smoothing
        return ones


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _blended(images: np.ndarray[Any, Any], lam: float) -> np.ndarray[Any, Any]:
    """Mixes each image with the image before it, as MixUp does. Whole numbers are rounded."""
    if images.dtype == np.uint8:
        images = np.ascontiguousarray(images)
        blended = np.empty_like(images)
        blend_with_previous(images, blended, lam, 1 - lam)
        return blended
    mixed = np.empty_like(images)
    own, other = np.float32(lam), np.float32(1 - lam)
    for at in range(len(images)):
        # One image at a time is mixed, because its values fit the processor's cache.
        values = own * images[at].astype(np.float32) + other * images[at - 1].astype(np.float32)
        mixed[at] = np.rint(values) if images.dtype.kind in "iu" else values
    return mixed


def _cut(
    images: np.ndarray[Any, Any], lam: float, place: tuple[float, float], name: str
) -> tuple[np.ndarray[Any, Any], float]:
    """Copies a box of each image from the image before it, as CutMix does. Returns the images, and the share
    of the area of an image that was not replaced."""
    rows, columns = _axes(images, name)
    height, width = images.shape[rows], images.shape[columns]
    half = 0.5 * math.sqrt(1 - lam)
    centre = int(place[1] * height), int(place[0] * width)
    (top, bottom), (left, right) = (
        (max(at - int(half * side), 0), min(at + int(half * side), side))
        for at, side in zip(centre, (height, width), strict=True)
    )
    box: list[Any] = [slice(None)] * images.ndim
    box[rows], box[columns] = slice(top, bottom), slice(left, right)
    cut = images.copy()
    cut[tuple(box)] = np.roll(images[tuple(box)], 1, axis=0)
    return cut, 1 - (bottom - top) * (right - left) / (height * width)


def _axes(images: np.ndarray[Any, Any], name: str) -> tuple[int, int]:
    """The numbers of the two axes of a batch that are the height and the width of the images."""
    if images.ndim == 4 and images.shape[3] in CHANNELS:
        return 1, 2
    if images.ndim == 4 and images.shape[1] in CHANNELS:
        return 2, 3
    raise InvalidError(
        f"MixUp: column {name!r} has shape {images.shape}, and CutMix needs batches of images with 1 or 3 channels, "
        "first or last"
    )
