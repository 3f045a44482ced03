"""``decode_image`` gives the same pixels as a loader, from bytes without a data set."""

from __future__ import annotations

import io
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from PIL import Image as Pillow

import forebay as fb


def encoded(seed: int, size: tuple[int, int] = (40, 30), form: str = "PNG") -> bytes:
    width, height = size
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, form)
    return file.getvalue()


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "JPEG"])
def test_an_image_has_its_own_size_and_the_pixels_of_pillow(form):
    file = encoded(1, form=form)
    pixels = fb.decode_image(file)
    expected = np.asarray(Pillow.open(io.BytesIO(file)).convert("RGB"))
    assert (pixels.shape, pixels.dtype) == ((30, 40, 3), np.uint8)
    assert np.array_equal(pixels, expected)
    assert pixels.flags.writeable


def test_a_tiff_of_floating_point_numbers_is_refused_with_a_next_move():
    file = io.BytesIO()
    Pillow.new("F", (8, 8)).save(file, "TIFF")
    with pytest.raises(fb.BadRowError, match=r"floating-point numbers is not read .store it with 8 or 16 bits"):
        fb.decode_image(file.getvalue())


@pytest.mark.parametrize("of", [bytes, bytearray, memoryview, lambda file: np.frombuffer(file, np.uint8)])
def test_any_object_with_bytes_will_do(of):
    file = encoded(2)
    assert np.array_equal(fb.decode_image(of(file)), fb.decode_image(file))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float16", "float32"])
def test_a_batch_has_the_images_by_themselves_with_one_key_after_the_other(dtype):
    files = [encoded(seed) for seed in range(5)]
    image = fb.Image.random_resized_crop(16).flip().dtype(dtype).layout("NCHW")
    batch = fb.decode_image(files, image, key=2**64 - 2)
    keys = [2**64 - 2, 2**64 - 1, 0, 1, 2]
    alone = [fb.decode_image(file, image, key=key) for file, key in zip(files, keys, strict=True)]
    assert (batch.shape, batch.dtype.name) == ((5, 3, 16, 16), dtype)
    assert np.array_equal(batch, np.stack(alone))
    assert not np.array_equal(batch, fb.decode_image(files, image, key=3))
    assert fb.decode_image([], image).shape == (0, 3, 16, 16)


def test_pixels_are_written_where_the_caller_says():
    files, image = [encoded(seed) for seed in range(3)], fb.Image.resize(8, 9).dtype("float32")
    out = np.full((3, 8, 9, 3), np.nan, np.float32)
    assert fb.decode_image(files, image, out=out) is out
    assert np.array_equal(out, fb.decode_image(files, image))
    own = np.zeros((30, 40, 3), np.uint8)
    fb.decode_image(files[0], out=own)
    assert np.array_equal(own, fb.decode_image(files[0]))


def test_a_ragged_image_has_its_own_size():
    image = fb.Image.fit(20).ragged()
    assert fb.decode_image(encoded(1), image).shape == (15, 20, 3)


def test_threads_decode_the_same():
    files = [encoded(seed, (64, 48), "JPEG") for seed in range(40)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fb.decode_image, files))
    assert all(np.array_equal(one, fb.decode_image(file)) for one, file in zip(together, files, strict=True))


def test_what_cannot_be_decoded_is_refused_with_its_place_and_the_next_move():
    image = fb.Image.resize(8, 8)
    with pytest.raises(fb.BadRowError, match=r"row 1: .*HTML") as raised:
        fb.decode_image([encoded(1), b"<html>"], image)
    assert raised.value.row == 1
    with pytest.raises(fb.BadRowError, match="corrupt PNG"):
        fb.decode_image(encoded(1)[:200])
    with pytest.raises(fb.TooLargeError, match="max_pixels"):
        fb.decode_image(encoded(1), image.max_pixels(100))
    with pytest.raises(fb.InvalidError, match="image="):
        fb.decode_image([encoded(1)])
    with pytest.raises(fb.InvalidError, match="image="):
        fb.decode_image([encoded(1)], fb.Image.fit(8).ragged())
    with pytest.raises(fb.InvalidError, match="not a path"):
        fb.decode_image("photograph.jpg")
    for wrong in (3, None, {}, [encoded(1), None]):
        with pytest.raises(fb.InvalidError, match="data must be"):
            fb.decode_image(wrong, image)
    for key in (-1, 2**64, True, "7"):
        with pytest.raises(fb.InvalidError, match="key must be"):
            fb.decode_image(encoded(1), key=key)
    with pytest.raises(fb.InvalidError, match="image must be"):
        fb.decode_image(encoded(1), "resize")
    with pytest.raises(fb.InvalidError, match="normalize"):
        fb.decode_image(encoded(1), image.normalize((0.5,) * 3, (0.5,) * 3))
    frozen = np.zeros((8, 8, 3), np.uint8)
    frozen.flags.writeable = False
    strided = np.zeros((8, 8, 6), np.uint8)[..., ::2]
    for out in (np.zeros((8, 8, 3)), np.zeros((8, 9, 3), np.uint8), frozen, strided, []):
        with pytest.raises(fb.InvalidError, match="out must be"):
            fb.decode_image(encoded(1), image, out=out)
