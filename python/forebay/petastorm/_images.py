"""Decodes encoded images one by one, in their own size, depth and number of channels."""

from __future__ import annotations

import io
from typing import Any, NamedTuple

import numpy as np

from .._forebay import Image, decode_image

__all__: list[str] = []

_PNG = b"\x89PNG\r\n\x1a\n"
#: The number of channels for each colour type of a PNG. A palette image has the three channels of its
#: colours.
_PNG_CHANNELS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
#: The JPEG markers that begin a frame: C0 to CF, except those of tables and extensions.
_JPEG_FRAMES = frozenset(range(0xC0, 0xD0)) - {0xC4, 0xC8, 0xCC}


class Form(NamedTuple):
    """The size, channels and depth that the header of an image names."""

    height: int
    width: int
    channels: int
    bits: int


def decoded(cell: bytes) -> np.ndarray[Any, Any]:
    """Returns the pixels of an image file in the shape ``(height, width)`` or ``(height, width, 3)``, with 8
    or 16 bits as in the file."""
    form = _form(cell)
    pixels: np.ndarray[Any, Any]
    if form is None:
        pixels = decode_image(cell)
        return pixels
    if form.channels not in (1, 3):
        raise ValueError(f"an image has one or three channels, got {form.channels}")
    image = wanted(form.height, form.width, form.channels == 1, form.bits)
    pixels = decode_image(cell, image)
    return pixels[..., 0] if form.channels == 1 else pixels


def wanted(height: int, width: int, is_grey: bool, bits: int) -> Image:
    """Returns the :class:`Image` that decodes an image of this size and depth without changing it."""
    image = Image.resize(height, width)
    if is_grey:
        image = image.grayscale()
    return image.dtype("uint16") if bits == 16 else image


def encoded(pixels: np.ndarray[Any, Any], codec: str, quality: int) -> bytes:
    """Encodes pixels as an image file."""
    try:
        import cv2
    except ImportError:
        return _by_pillow(pixels, codec, quality)
    in_order = pixels if pixels.ndim == 2 else pixels[:, :, ::-1]
    done, file = cv2.imencode(f".{codec}", in_order, [int(cv2.IMWRITE_JPEG_QUALITY), quality])
    if not done:
        raise ValueError(f"the image cannot be encoded as {codec}")
    return bytes(file)


def _by_pillow(pixels: np.ndarray[Any, Any], codec: str, quality: int) -> bytes:
    import PIL.Image

    if pixels.dtype == np.uint16 and pixels.ndim == 3:
        raise ValueError("a colour image of 16 bits needs OpenCV (pip install opencv-python-headless)")
    file = io.BytesIO()
    options: dict[str, Any] = {"quality": quality} if codec in ("jpeg", "jpg") else {}
    kind = "JPEG" if codec in ("jpeg", "jpg") else codec.upper()
    PIL.Image.fromarray(np.ascontiguousarray(pixels)).save(file, kind, **options)
    return file.getvalue()


def _form(cell: bytes) -> Form | None:
    """Returns the size, channels and depth in the header of a PNG or JPEG file; None for other formats, or if
    the header does not contain them."""
    if cell[:8] == _PNG and len(cell) >= 26:
        width, height = (int.from_bytes(cell[at : at + 4], "big") for at in (16, 20))
        return Form(height, width, _PNG_CHANNELS.get(cell[25], 0), 16 if cell[24] == 16 else 8)
    return _jpeg_form(cell) if cell[:2] == b"\xff\xd8" else None


def _jpeg_form(cell: bytes) -> Form | None:
    at = 2
    while at + 9 < len(cell) and cell[at] == 0xFF:
        marker = cell[at + 1]
        if marker == 0xFF:
            at += 1
        elif marker in _JPEG_FRAMES:
            height, width = (int.from_bytes(cell[start : start + 2], "big") for start in (at + 5, at + 7))
            return Form(height, width, cell[at + 9], 8)
        else:
            at += 2 + int.from_bytes(cell[at + 2 : at + 4], "big")
    return None
