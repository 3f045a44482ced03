"""The filters of a resize, compared with Pillow's filters of the same names."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Pillow

import forebay as fb
from forebay import _forebay

FILTERS = {name: Pillow.Resampling[name.upper()] for name in _forebay.RESAMPLINGS}


def scene(height: int, width: int, channels: int = 3) -> np.ndarray[Any, Any]:
    """Returns smooth colours with edges, at which a sharp filter overshoots."""
    y, x = np.mgrid[:height, :width]
    waves = [
        120 + 90 * np.sin(x / (5 + c) + y / 17) * np.cos(y / (7 + c)) + 40 * ((x // 23 + y // 19 + c) % 2)
        for c in range(channels)
    ]
    return np.clip(np.stack(waves, axis=-1), 0, 255).astype(np.uint8)


def encoded(pixels: np.ndarray[Any, Any], kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def difference(found: Any, wanted: Any) -> tuple[float, int]:
    """Returns the mean and the largest difference of levels."""
    apart = np.abs(np.asarray(found, np.int32) - np.asarray(wanted, np.int32))
    return float(apart.mean()), int(apart.max())


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("size", [(20, 31), (64, 64), (150, 100), (201, 303), (320, 250), (7, 400)])
def test_a_resize_up_and_down_is_pillows(name: str, size: tuple[int, int]) -> None:
    pixels = scene(150, 202)
    found = fb.decode_image(encoded(pixels), fb.Image.resize(*size).resampling(name))
    wanted = Pillow.fromarray(pixels).resize(size[::-1], FILTERS[name])
    mean, most = difference(found, wanted)
    assert mean < 0.2 and most <= 2, (mean, most)
    grey = fb.decode_image(encoded(pixels), fb.Image.resize(*size).resampling(name).grayscale())
    mean, most = difference(grey[..., 0], Pillow.fromarray(pixels).convert("L").resize(size[::-1], FILTERS[name]))
    assert mean < 0.2 and most <= 2, (mean, most)


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize(("size", "resize"), [(56, 64), (96, 96), (224, 256), (31, 201)])
def test_a_centre_crop_is_that_of_the_whole_resized_image(name: str, size: int, resize: int) -> None:
    pixels = scene(150, 202)
    image = fb.Image.center_crop(size, resize=resize).resampling(name)
    found = fb.decode_image(encoded(pixels), image)
    width = resize * 202 // 150
    whole = Pillow.fromarray(pixels).resize((width, resize), FILTERS[name])
    top, left = round((resize - size) / 2), round((width - size) / 2)
    wanted = np.asarray(whole)[top : top + size, left : left + size]
    mean, most = difference(found, wanted)
    assert mean < 0.2 and most <= 2, (mean, most)


@pytest.mark.parametrize("name", FILTERS)
def test_a_random_crop_is_pillows_of_its_box(name: str, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    pixels = scene(150, 202)
    pq.write_table(pa.table({"image": [encoded(pixels)] * 24}), tmp_path / "a.parquet")
    image = fb.Image.random_resized_crop(48).flip().resampling(name).emit_geometry()
    plain = fb.Image.random_resized_crop(48).flip().emit_geometry()
    batch = next(iter(fb.Loader(tmp_path, decode={"image": image}, batch_size=24)))
    other = next(iter(fb.Loader(tmp_path, decode={"image": plain}, batch_size=24)))
    np.testing.assert_array_equal(batch["image.geometry"], other["image.geometry"])
    assert (batch["image"] != other["image"]).any() == (name != "bilinear")
    for found, (top, left, height, width, mirrored, *_) in zip(batch["image"], batch["image.geometry"], strict=True):
        shown = Pillow.fromarray(pixels).crop(tuple(int(side) for side in (left, top, left + width, top + height)))
        wanted = np.asarray(shown.resize((48, 48), FILTERS[name]))
        mean, most = difference(found, wanted[:, ::-1] if mirrored else wanted)
        assert mean < 0.2 and most <= 2, (mean, most)


def photographs() -> list[Any]:
    """Returns Kodak's photographs if they are available, or a scene with the fine grain that tells filters
    apart."""
    folder = os.environ.get("FOREBAY_TEST_DATA")
    files = sorted(Path(folder, "kodak").glob("*.png"))[::6] if folder else []
    found = [np.asarray(Pillow.open(file).convert("RGB")) for file in files]
    grain = np.random.default_rng(3).normal(0, 20, (512, 768, 1))
    return found or [np.clip(scene(512, 768) + grain, 0, 255).astype(np.uint8)]


@pytest.mark.parametrize("name", FILTERS)
@pytest.mark.parametrize("factor", [1.5, 3, 6.1, 12.3, 24.7])
@pytest.mark.parametrize("progressive", [False, True])
def test_a_jpeg_at_a_smaller_scale_is_within_a_level_of_the_whole(name: str, factor: float, progressive: bool) -> None:
    for photograph in photographs():
        height, width = photograph.shape[:2]
        size = (round(height / factor), round(width / factor))
        file = encoded(photograph, "JPEG", quality=92, progressive=progressive)
        found = fb.decode_image(file, fb.Image.resize(*size).resampling(name))
        wanted = Pillow.open(io.BytesIO(file)).convert("RGB").resize(size[::-1], FILTERS[name])
        mean, _ = difference(found, wanted)
        assert mean < 1, mean
        # The result is closest to the requested filter: all other filters differ more.
        for other in FILTERS.keys() - {name} if factor < 2 else ():
            differs = Pillow.open(io.BytesIO(file)).convert("RGB").resize(size[::-1], FILTERS[other])
            assert difference(found, differs)[0] > 2 * mean


@pytest.mark.parametrize("name", FILTERS)
def test_sixteen_bits_and_canvases_take_the_filter(name: str) -> None:
    levels = (scene(90, 120, 1)[..., 0].astype(np.uint16) * 200 + 77).astype(np.uint16)
    image = fb.Image.resize(40, 50).resampling(name).grayscale().dtype("uint16")
    found = fb.decode_image(encoded(levels), image)[..., 0]
    wanted = Pillow.fromarray(levels.astype(np.float32)).resize((50, 40), FILTERS[name])
    assert np.abs(found.astype(np.float64) - np.asarray(wanted)).max() < 2
    fit = fb.Image.fit(64, resize=48).resampling(name)
    found = fb.decode_image(encoded(scene(90, 120)), fit)[:48, :64]
    wanted = Pillow.fromarray(scene(90, 120)).resize((64, 48), FILTERS[name])
    assert difference(found, wanted)[1] <= 2


@pytest.mark.parametrize("name", FILTERS)
def test_clips_preprocessing_is_as_the_guide_says(name: str) -> None:
    torchvision = pytest.importorskip("torchvision")
    modes = torchvision.transforms.InterpolationMode
    steps = torchvision.transforms.Compose(
        [
            torchvision.transforms.Resize(224, modes[name.upper()]),
            torchvision.transforms.CenterCrop(224),
            torchvision.transforms.ToTensor(),
            torchvision.transforms.Normalize((0.48, 0.46, 0.41), (0.27, 0.26, 0.28)),
        ]
    )
    image = fb.Image.center_crop(224, resize=224).resampling(name)
    image = image.normalize((0.48, 0.46, 0.41), (0.27, 0.26, 0.28)).dtype("float32").layout("NCHW")
    for size in ((300, 401), (190, 150)):
        pixels = scene(*size)
        found = fb.decode_image(encoded(pixels), image)
        wanted = steps(Pillow.fromarray(pixels)).numpy()
        assert np.abs(found - wanted).max() < 2.01 / 255 / 0.26


def test_a_filter_is_a_value_and_an_unknown_one_is_refused() -> None:
    import pickle

    plain = fb.Image.center_crop(8, resize=9)
    image = plain.resampling("bicubic")
    assert image != plain and plain.resampling("bilinear") == plain
    assert pickle.loads(pickle.dumps(image)) == image
    assert repr(image) == 'forebay.Image.center_crop(8, resize=9).resampling("bicubic")'
    with pytest.raises(fb.InvalidError, match=r"unknown resampling .bicubik. \(did you mean .bicubic.\?\)"):
        plain.resampling("bicubik")  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="filter must be 'bilinear', 'bicubic' or 'lanczos', got 3"):
        plain.resampling(3)  # type: ignore[arg-type]
