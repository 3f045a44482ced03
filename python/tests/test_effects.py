"""Colour jitter, grey, blur and erasing: a second implementation makes the draws, and torchvision applies
them."""

from __future__ import annotations

import io
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Pillow

import forebay as fb

ROWS = 24
HEIGHT, WIDTH = 40, 52
SEED, EPOCH = 11, 2
SAME = fb.Image.resize(HEIGHT, WIDTH)

MASK = (1 << 64) - 1
GAMMA = 0x9E3779B97F4A7C15


def mix(z: int) -> int:
    """The finaliser of SplitMix64."""
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
    return z ^ (z >> 31)


def keyed(seed: int, purpose: int, parts: list[int]) -> int:
    """Returns a number for a purpose, as the library draws it."""
    state = mix((seed + GAMMA) & MASK) ^ mix(purpose)
    for part in parts:
        state = mix(((state + GAMMA) & MASK) ^ mix((part + GAMMA) & MASK))
    return mix((state + GAMMA) & MASK)


def key(row: int) -> int:
    """Returns the key of the column "image" in a row."""
    tag = keyed(0, 9, [int.from_bytes(b"image", "little"), len(b"image")])
    return keyed(keyed(SEED, 6, [EPOCH, row]), 9, [tag])


class Draws:
    """The random stream of one operation on a row."""

    def __init__(self, row: int, operation: bytes) -> None:
        self.state = mix(((key(row) ^ int.from_bytes(operation, "big")) + GAMMA) & MASK)

    def next(self) -> int:
        self.state = (self.state + GAMMA) & MASK
        return mix(self.state)

    def unit(self) -> float:
        return (self.next() >> 11) / (1 << 53)

    def uniform(self, low: float, high: float) -> float:
        return low + (high - low) * self.unit()

    def below(self, count: int) -> int:
        return (self.next() * count) >> 64


def photographs() -> list[np.ndarray[Any, Any]]:
    """Returns smooth images with noise, in the delivered size."""
    made = []
    for row in range(ROWS):
        random = np.random.default_rng(row)
        coarse = Pillow.fromarray(random.integers(0, 256, (6, 8, 3), np.uint8)).resize((WIDTH, HEIGHT))
        noise = random.integers(-12, 13, (HEIGHT, WIDTH, 3))
        made.append(np.clip(np.array(coarse, np.int64) + noise, 0, 255).astype(np.uint8))
    return made


PHOTOGRAPHS = photographs()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("photographs")
    cells = []
    for pixels in PHOTOGRAPHS:
        file = io.BytesIO()
        Pillow.fromarray(pixels).save(file, "PNG")
        cells.append(file.getvalue())
    pq.write_table(pa.table({"id": range(ROWS), "image": cells}), folder / "a.parquet", row_group_size=10)
    return folder


def delivered(data: Path, image: fb.Image, **options: Any) -> np.ndarray[Any, Any]:
    """Returns the images of an epoch, in the order of the rows."""
    with fb.Loader(data, decode={"image": image}, shuffle=fb.Shuffle(seed=SEED), batch_size=7, **options) as loader:
        batches = list(loader.epoch(EPOCH))
    order = np.argsort(np.concatenate([batch["id"] for batch in batches]))
    images: np.ndarray[Any, Any] = np.concatenate([batch["image"] for batch in batches])[order]
    return images


def tensor(row: int) -> Any:
    torch = pytest.importorskip("torch")
    return torch.from_numpy(PHOTOGRAPHS[row].transpose(2, 0, 1).copy())


def check(found: np.ndarray[Any, Any], expected: Any) -> None:
    """The images differ by at most 1 of 255 on average; single pixels may differ more where a hue jumps."""
    difference = np.abs(found.astype(np.int64) - expected.numpy().transpose(1, 2, 0))
    assert difference.mean() < 0.1, difference.mean()


def test_without_an_effect_pixels_are_those_stored(data: Path) -> None:
    np.testing.assert_array_equal(delivered(data, SAME), np.stack(PHOTOGRAPHS))
    np.testing.assert_array_equal(delivered(data, SAME.color_jitter()), np.stack(PHOTOGRAPHS))


def test_a_colour_jitter_is_torchvisions(data: Path) -> None:
    F = pytest.importorskip("torchvision.transforms.v2.functional")
    amounts = {"brightness": 0.4, "contrast": 0.5, "saturation": 0.6, "hue": 0.2}
    found = delivered(data, SAME.color_jitter(**amounts, p=0.75))
    changed = 0
    for row in range(ROWS):
        draws, pixels = Draws(row, b"jitr"), tensor(row)
        if draws.unit() < 0.75:
            changed += 1
            order = [0, 1, 2, 3]
            for last in (3, 2, 1):
                other = draws.below(last + 1)
                order[last], order[other] = order[other], order[last]
            factors = [draws.uniform(max(0, 1 - amount), 1 + amount) for amount in (0.4, 0.5, 0.6)]
            factors.append(draws.uniform(-0.2, 0.2))
            functions = (F.adjust_brightness, F.adjust_contrast, F.adjust_saturation, F.adjust_hue)
            for at in order:
                pixels = functions[at](pixels, factors[at])
        check(found[row], pixels)
    assert 10 < changed < ROWS


@pytest.mark.parametrize("name", ["brightness", "contrast", "saturation", "hue"])
def test_each_change_by_itself_is_torchvisions(data: Path, name: str) -> None:
    F = pytest.importorskip("torchvision.transforms.v2.functional")
    found = delivered(data, SAME.color_jitter(**{name: 0.5}))
    for row in range(ROWS):
        draws = Draws(row, b"jitr")
        for _ in range(4):  # whether it is changed, and the order
            draws.next()
        for other in ("brightness", "contrast", "saturation", "hue"):
            amount = 0.5 if other == name else 0.0
            around = 0.0 if other == "hue" else 1.0
            factor = draws.uniform(around - amount, around + amount)
            if other == name:
                check(found[row], getattr(F, f"adjust_{name}")(tensor(row), factor))


def test_grey_is_torchvisions(data: Path) -> None:
    F = pytest.importorskip("torchvision.transforms.v2.functional")
    found = delivered(data, SAME.random_grayscale(0.5))
    is_grey = [Draws(row, b"grey").unit() < 0.5 for row in range(ROWS)]
    assert 4 < sum(is_grey) < 20
    for row in range(ROWS):
        check(found[row], F.rgb_to_grayscale(tensor(row), 3) if is_grey[row] else tensor(row))


@pytest.mark.parametrize("kernel", [3, 9, 23])
def test_a_blur_is_torchvisions(data: Path, kernel: int) -> None:
    F = pytest.importorskip("torchvision.transforms.v2.functional")
    found = delivered(data, SAME.gaussian_blur(kernel, (0.1, 3.0), p=0.8))
    for row in range(ROWS):
        draws = Draws(row, b"blur")
        is_blurred, sigma = draws.unit() < 0.8, draws.uniform(0.1, 3.0)
        check(found[row], F.gaussian_blur(tensor(row), kernel, sigma) if is_blurred else tensor(row))


def test_erasing_is_torchvisions(data: Path) -> None:
    image = SAME.random_erasing(0.6, (0.05, 0.3), (0.5, 2.0), (1, 2, 3))
    found = delivered(data, image)
    floats = delivered(data, image.dtype("float32").layout("NCHW"))
    erased = 0
    for row in range(ROWS):
        draws, pixels = Draws(row, b"eras"), PHOTOGRAPHS[row].copy()
        wide = pixels.astype(np.float32) / 255
        if draws.unit() < 0.6:
            for _ in range(10):
                area = HEIGHT * WIDTH * draws.uniform(0.05, 0.3)
                aspect = math.exp(draws.uniform(math.log(0.5), math.log(2.0)))
                height, width = round(math.sqrt(area * aspect)), round(math.sqrt(area / aspect))
                if height < HEIGHT and width < WIDTH:
                    top, left = draws.below(HEIGHT - height + 1), draws.below(WIDTH - width + 1)
                    for made in (pixels, wide):
                        made[top : top + height, left : left + width] = (1, 2, 3)
                    erased += 1
                    break
        np.testing.assert_array_equal(found[row], pixels)
        np.testing.assert_array_equal(floats[row], wide.transpose(2, 0, 1))
    assert 8 < erased < ROWS


def test_crops_and_flips_stay_as_they_are_drawn(data: Path, tmp_path: Path) -> None:
    crop = fb.Image.random_resized_crop(32).flip().emit_geometry()
    more = crop.color_jitter(0.4, 0.4, 0.4, 0.1, p=0.8).random_grayscale(0.2).gaussian_blur(5, p=0.5).random_erasing()
    geometries = []
    for image in (crop, more):
        with fb.Loader(data, decode={"image": image}) as loader:
            geometries.append(np.concatenate([batch["image.geometry"] for batch in loader.epoch(0)]))
    np.testing.assert_array_equal(*geometries)
    plain = delivered(data, more.dtype("float16").layout("NCHW"))
    for _ in range(2):
        # The cache keeps pixels from before the first random operation.
        cache = fb.DiskCache(tmp_path, max_bytes="1g", tier="pixels")
        np.testing.assert_array_equal(delivered(data, more.dtype("float16").layout("NCHW"), cache=cache), plain)


def test_what_can_never_work_is_refused() -> None:
    wrong: Any = SAME
    for call, said in [
        (lambda: wrong.color_jitter(-0.1), "brightness must be a finite number of at least 0, got -0.1"),
        (lambda: wrong.color_jitter(contrast="much"), "contrast must be a finite number of at least 0, got 'much'"),
        (lambda: wrong.color_jitter(hue=0.6), "hue must be a number from 0 to 0.5, got 0.6"),
        (lambda: wrong.color_jitter(0.1, p=2), "p must be a number from 0 to 1, got 2"),
        (lambda: wrong.random_grayscale(-1), "p must be a number from 0 to 1, got -1"),
        (lambda: wrong.gaussian_blur(4), "a blur with a kernel of 4 pixels"),
        (lambda: wrong.gaussian_blur(81), "an odd number below 80"),
        (lambda: wrong.gaussian_blur(3, 1.0), "sigma must be two finite numbers above 0"),
        (lambda: wrong.random_erasing(0.5, (0.1, 2.0)), "give shares of the area, of at most 1"),
        (lambda: wrong.random_erasing(value="random"), "value must be a finite number or three of them"),
    ]:
        with pytest.raises(fb.InvalidError) as caught:
            call()
        assert said in str(caught.value)
