"""Several views of each image of a column, which is decoded once for all of them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from .. import _forebay
from ..errors import InvalidError
from ..options.checks import kind_of, whole

__all__ = ["Views"]


class Views:
    """Several views of each image of a column: a frozen value for ``decode=``.

    Each view is delivered as a column ``<column>.<view>``, in place of the stored column. An image is read and decoded
    once for all its views. See ``docs/recipes/views.md``.

    Each image of each view is changed at random on its own, for instance cropped. Its random values depend on
    the seed of the shuffle, the epoch, the row, the name of the view and the image's number in it, and not on
    other views, threads or ranks.

    The decoded part of an image covers all its views, at the scale that the largest view needs. A smaller
    view, which alone would be decoded at a smaller scale, therefore differs slightly: for photographs by less
    than one level of 255 on average. All views are made from the same pixels, so they must agree in
    ``grayscale``, ``bit_depth``, ``exif_orientation``, ``raw`` and ``max_pixels``. A view cannot be an image
    of :meth:`Image.fit`.

    :class:`Boxes`, :class:`Keypoints` and :class:`Mask` can belong to a view without a count, named by its
    column: ``of="image.weak"``. ``emit_geometry()`` of a view adds a column ``<column>.<view>.geometry``. A
    null or damaged image makes its row a bad row, as with an :class:`Image`. A cache keeps images as
    ``"pixels"`` or ``"resized"`` if that form is the same for all views (random crops all use the same
    pixels), and otherwise as ``"coefficients"``.

    Parameters
    ----------
    **views : Image or tuple of Image and int
        The views by name. An image without a count gives a column of shape ``(rows, *image.shape)``, and ``(image, 2)``
        one of shape ``(rows, 2, *image.shape)``.

    Raises
    ------
    InvalidError
        There is no view, or a value is neither an Image nor an Image and an int of at least 1.

    Examples
    --------
    >>> import forebay as fb
    >>> crop = fb.Image.random_resized_crop
    >>> dino = fb.Views(g=(crop(224, scale=(0.4, 1)).flip(), 2), l=(crop(96, scale=(0.05, 0.4)).flip(), 8))
    >>> fixmatch = fb.Views(weak=crop(32).flip(), strong=crop(32).flip().random_erasing())
    >>> decode = {"image": dino}
    """

    __slots__ = ("_views",)

    _views: dict[str, tuple[_forebay.Image, int | None]]

    def __init__(self, **views: _forebay.Image | tuple[_forebay.Image, int]) -> None:
        if not views:
            raise InvalidError("Views needs at least one view (pass views by name: forebay.Views(g=(image, 2)))")
        object.__setattr__(self, "_views", {name: _checked(name, view) for name, view in views.items()})

    @property
    def views(self) -> Mapping[str, tuple[_forebay.Image, int | None]]:
        """The image and the count of each view by name; the count is None for a view that was given without
        one."""
        return MappingProxyType(self._views)

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def __eq__(self, other: object) -> bool:
        return list(self._views.items()) == list(other._views.items()) if isinstance(other, Views) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self._views.items()))

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self._given(),)

    def _spec(self) -> list[dict[str, Any]]:
        """This object as a list of dicts, for the spec that the compiled library reads."""
        return [{"name": name, "image": image, "count": count} for name, (image, count) in self._views.items()]

    def __repr__(self) -> str:
        return f"forebay.Views({', '.join(f'{name}={view!r}' for name, view in self._given().items())})"

    def _given(self) -> dict[str, Any]:
        """The views as they were passed."""
        return {name: image if count is None else (image, count) for name, (image, count) in self._views.items()}


def _checked(name: str, view: Any) -> tuple[_forebay.Image, int | None]:
    """Checks a view as the user passed it, and returns its image and its count."""
    if isinstance(view, _forebay.Image):
        return view, None
    if not isinstance(view, (tuple, list)) or len(view) != 2 or not isinstance(view[0], _forebay.Image):
        got = repr(view) if isinstance(view, (tuple, list)) else kind_of(view)
        raise InvalidError(f"{name} must be a forebay.Image, or an Image and a count such as (image, 2), got {got}")
    image, count = view
    return image, whole(count, f"the count of {name}", 1, 32)


def _restored(views: dict[str, Any]) -> Views:
    """Makes the object anew when it is unpickled."""
    return Views(**views)
