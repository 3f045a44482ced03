"""Automatic augmentation and single operations: a second implementation makes the draws, and torchvision applies
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
import test_effects
from PIL import Image as Pillow
from test_effects import HEIGHT, PHOTOGRAPHS, ROWS, SAME, WIDTH, Draws, check, delivered, tensor

import forebay as fb

data = test_effects.data

KINDS = [
    *("Identity", "ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast"),
    *("Sharpness", "Posterize", "Solarize", "AutoContrast", "Equalize"),
]
SIGNED = {"ShearX", "ShearY", "TranslateX", "TranslateY", "Rotate", "Brightness", "Color", "Contrast", "Sharpness"}


def policies() -> Any:
    return pytest.importorskip("torchvision.transforms.v2")


def magnitude(transform: Any, kind: str, bins: int, at: int, draws: Draws) -> float:
    """Returns a magnitude of torchvision's space, with a drawn sign."""
    function, signed = transform._AUGMENTATION_SPACE[kind]
    assert signed == (kind in SIGNED)
    magnitudes = function(bins, HEIGHT, WIDTH)
    value = 0.0 if magnitudes is None else float(magnitudes[at])
    return -value if signed and draws.unit() < 0.5 else value


def applied(transform: Any, pixels: Any, kind: str, value: float, **options: Any) -> Any:
    options = {"interpolation": transform.interpolation, "fill": transform._fill, **options}
    return transform._apply_image_or_video_transform(pixels, kind, value, **options)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
@pytest.mark.parametrize("at", [9, 30])
def test_rand_augment_is_torchvisions(data: Path, interpolation: Any, at: int) -> None:
    transform = policies().RandAugment(3, at, interpolation=interpolation, fill=[9, 80, 200])
    image = SAME.rand_augment(3, at, interpolation=interpolation, fill=(9, 80, 200))
    found = delivered(data, image)
    kinds = set()
    for row in range(ROWS):
        draws, pixels = Draws(row, b"augm"), tensor(row)
        for _ in range(3):
            kind = KINDS[draws.below(len(KINDS))]
            kinds.add(kind)
            pixels = applied(transform, pixels, kind, magnitude(transform, kind, 31, at, draws))
        check_moved(found[row], pixels)
    assert len(kinds) == len(KINDS)


def check_moved(found: np.ndarray[Any, Any], expected: Any) -> None:
    """Checks that few pixels differ. Where a place is halfway between two source pixels, either of them may be shown,
    and later operations may make the difference large."""
    difference = np.abs(found.astype(np.int64) - expected.numpy().transpose(1, 2, 0))
    assert difference.mean() < 1 or (difference > 1).mean() < 0.08, difference.mean()


def test_trivial_augment_wide_is_torchvisions(data: Path) -> None:
    transform = policies().TrivialAugmentWide()
    for epoch_rows in (delivered(data, SAME.trivial_augment_wide()),):
        for row in range(ROWS):
            draws = Draws(row, b"augm")
            kind, at = KINDS[draws.below(len(KINDS))], draws.below(31)
            expected = applied(transform, tensor(row), kind, magnitude(transform, kind, 31, at, draws))
            check_moved(epoch_rows[row], expected)


def test_each_magnitude_is_that_of_torchvisions_space() -> None:
    """A few pixels of turns and shears may show a neighbouring pixel; all other operations must give the same levels,
    except for colours that differ by 1."""
    transform = policies().TrivialAugmentWide()
    file, rows = io.BytesIO(), 1_500
    Pillow.fromarray(PHOTOGRAPHS[0]).save(file, "PNG")
    image = SAME.trivial_augment_wide()
    found = fb.decode_image([file.getvalue()] * rows, image, seed=test_effects.SEED, epoch=test_effects.EPOCH)
    seen = set()
    for row in range(rows):
        draws = Draws(row, b"augm")
        kind, at = KINDS[draws.below(len(KINDS))], draws.below(31)
        expected = applied(transform, tensor(0), kind, magnitude(transform, kind, 31, at, draws)).numpy()
        difference = np.abs(found[row].astype(np.int64) - expected.transpose(1, 2, 0))
        if kind in ("ShearX", "ShearY", "Rotate"):
            assert (difference > 0).mean() < 0.05, (kind, at)
        else:
            assert difference.max() <= (kind in SIGNED and not kind.startswith("Translate")), (kind, at)
        seen.add((kind, at))
    assert {("TranslateX", 15), ("TranslateY", 15), ("Solarize", 28), ("Solarize", 12), ("ShearY", 8)} <= seen


def gamma(draws: Draws, shape: float) -> float:
    """Draws from the gamma distribution, by the method of Marsaglia and Tsang."""
    if shape < 1:
        return gamma(draws, shape + 1) * (1 - draws.unit()) ** (1 / shape)
    mode = shape - 1 / 3
    spread = 1 / math.sqrt(9 * mode)
    while True:
        radius = math.sqrt(-2 * math.log(1 - draws.unit()))
        normal = radius * math.cos(math.tau * draws.unit())
        cube = (1 + spread * normal) ** 3
        limit = 0.5 * normal**2 + mode - mode * cube
        if cube > 0 and math.log(1 - draws.unit()) < limit + mode * math.log(cube):
            return mode * cube


def shares(draws: Draws, alpha: float, count: int) -> list[float]:
    each = [gamma(draws, alpha) for _ in range(count)]
    return [share / sum(each) for share in each]


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"severity": 10, "mixture_width": 2, "chain_depth": 4, "alpha": 0.4},
        {"severity": 5, "mixture_width": 1, "alpha": 3, "all_ops": False, "fill": (9, 80, 200)},
    ],
)
def test_aug_mix_is_torchvisions(data: Path, options: dict[str, Any]) -> None:
    """Torchvision gets the drawn numbers, applies the operations and mixes."""
    options = {"severity": 3, "mixture_width": 3, "chain_depth": -1, "alpha": 1.0, **options}
    torch = pytest.importorskip("torch")
    transform = policies().AugMix(**{**options, "fill": list(options.get("fill", (0, 0, 0)))})
    found = delivered(data, SAME.aug_mix(**options))
    space = list(transform._AUGMENTATION_SPACE if options.get("all_ops", True) else transform._PARTIAL_AUGMENTATION_SPACE)
    moved = 0
    for row in range(ROWS):
        draws = Draws(row, b"augm")
        own, _ = shares(draws, options["alpha"], 2)
        weights = shares(draws, options["alpha"], options["mixture_width"])
        image = tensor(row)
        mixed = np.float32(own) * image
        for weight in weights:
            depth = options["chain_depth"] if options["chain_depth"] > 0 else 1 + draws.below(3)
            chain = image
            for _ in range(depth):
                kind, at = space[draws.below(len(space))], draws.below(options["severity"])
                chain = applied(transform, chain, kind, magnitude(transform, kind, 10, at, draws))
            mixed = mixed + np.float32(weight * (1 - own)) * chain
        expected = mixed.to(torch.uint8).numpy().transpose(1, 2, 0)
        difference = np.abs(found[row].astype(np.int64) - expected)
        assert difference.mean() < 0.1, (row, difference.mean())
        moved += int((found[row] != PHOTOGRAPHS[row]).any())
    assert moved > ROWS // 2


@pytest.mark.parametrize("name", ["imagenet", "cifar10", "svhn"])
def test_auto_augment_is_torchvisions(data: Path, name: Any) -> None:
    transform = policies().AutoAugment(policies().AutoAugmentPolicy(name))
    found = delivered(data, SAME.auto_augment(name))
    for row in range(ROWS):
        draws, pixels = Draws(row, b"augm"), tensor(row)
        for kind, p, at in transform._policies[draws.below(25)]:
            if draws.unit() < p:
                pixels = applied(transform, pixels, kind, magnitude(transform, kind, 10, at, draws))
        check_moved(found[row], pixels)


@pytest.mark.parametrize(
    ("method", "stream", "arguments"),
    [
        ("invert", b"invt", ()),
        ("posterize", b"post", (3,)),
        ("solarize", b"sola", (100.5,)),
        ("adjust_sharpness", b"shrp", (1.8,)),
        ("adjust_sharpness", b"shrp", (0.2,)),
        ("autocontrast", b"auto", ()),
        ("equalize", b"equa", ()),
    ],
)
def test_a_single_operation_is_torchvisions(data: Path, method: str, stream: bytes, arguments: Any) -> None:
    F = pytest.importorskip("torchvision.transforms.v2.functional")
    found = delivered(data, getattr(SAME, f"random_{method}")(*arguments, p=0.6))
    is_made = [Draws(row, stream).unit() < 0.6 for row in range(ROWS)]
    assert 8 < sum(is_made) < ROWS
    for row in range(ROWS):
        check(found[row], getattr(F, method)(tensor(row), *arguments) if is_made[row] else tensor(row))


IMAGES = {
    "rand": SAME.rand_augment(),
    "wide": SAME.trivial_augment_wide(interpolation="bilinear", fill=128),
    "imagenet": SAME.auto_augment(),
    "svhn": SAME.auto_augment("svhn"),
    "mixed": SAME.aug_mix(severity=8),
    "single": SAME.random_invert()
    .random_posterize(4)
    .random_solarize(128)
    .random_adjust_sharpness(2)
    .random_equalize(),
}


@pytest.mark.parametrize("name", IMAGES)
def test_pixels_are_the_same_from_a_cache_and_on_another_world(data: Path, tmp_path: Path, name: str) -> None:
    image = IMAGES[name]
    plain = delivered(data, image)
    assert (plain != np.stack(PHOTOGRAPHS)).any()
    for tier in ("pixels", "resized"):
        for _ in range(2):
            cache = fb.DiskCache(tmp_path / tier, max_bytes="1g", tier=tier)
            np.testing.assert_array_equal(delivered(data, image, cache=cache), plain)
    seen = {}
    for rank in range(3):
        shard, shuffle = fb.Shard(rank=rank, world=3), fb.Shuffle(seed=test_effects.SEED)
        with fb.Loader(data, decode={"image": image}, shuffle=shuffle, batch_size=3, shard=shard) as loader:
            for batch in loader.epoch(test_effects.EPOCH):
                seen.update(zip(batch["id"].tolist(), batch["image"], strict=True))
    np.testing.assert_array_equal(np.stack([seen[row] for row in range(ROWS)]), plain)


def test_grey_images_and_floats_are_augmented_too(data: Path) -> None:
    image = SAME.rand_augment(4, 20)
    colour, planes = delivered(data, image), delivered(data, image.dtype("float32").layout("NCHW"))
    np.testing.assert_allclose(planes.transpose(0, 2, 3, 1) * 255, colour, atol=1e-3)
    grey = delivered(data, image.grayscale())
    assert grey.shape == (ROWS, HEIGHT, WIDTH, 1)
    assert (grey != delivered(data, SAME.grayscale())).any()


def test_two_views_are_augmented_apart(data: Path) -> None:
    views = fb.Views(weak=SAME, strong=(SAME.rand_augment(), 2))
    with fb.Loader(data, decode={"image": views}, batch_size=ROWS) as loader:
        batch = next(iter(loader))
    np.testing.assert_array_equal(batch["image.weak"][0], PHOTOGRAPHS[batch["id"][0]])
    assert (batch["image.strong"][:, 0] != batch["image.strong"][:, 1]).any()


def test_what_cannot_follow_is_refused(data: Path, tmp_path: Path) -> None:
    table = pq.read_table(data)
    boxes = pa.array([[[0.0, 0.0, 5.0, 5.0]]] * len(table), pa.list_(pa.list_(pa.float32(), 4)))
    pq.write_table(table.append_column("boxes", boxes).append_column("other", table["image"]), tmp_path / "a.parquet")
    augmented = SAME.rand_augment()
    for decode in (
        {"image": augmented, "boxes": fb.Boxes(of="image")},
        {"image": augmented, "other": fb.Image.resize(8, 8).of("image")},
    ):
        with pytest.raises(fb.InvalidError, match="which has an automatic augmentation"):
            fb.Loader(tmp_path, decode=decode)
    with pytest.raises(fb.InvalidError, match="an automatic augmentation of its own"):
        fb.Loader(tmp_path, decode={"image": SAME, "other": augmented.of("image")})
    with pytest.raises(fb.InvalidError, match="emit_geometry with rand_augment"):
        fb.Loader(tmp_path, decode={"image": augmented.emit_geometry()})
    for method in ("auto_augment", "rand_augment", "trivial_augment_wide", "aug_mix"):
        with pytest.raises(fb.InvalidError, match=f"{method} with images of 16 bits"):
            fb.Loader(tmp_path, decode={"image": getattr(SAME, method)().dtype("uint16")})


def test_what_can_never_work_is_refused() -> None:
    wrong: Any = SAME
    for call, said in [
        (lambda: wrong.rand_augment().trivial_augment_wide(), "a second automatic augmentation"),
        (lambda: wrong.auto_augment().auto_augment("svhn"), "a second automatic augmentation"),
        (lambda: wrong.rand_augment(2, 31), "magnitude 31 of 31"),
        (lambda: wrong.rand_augment(-1), "num_ops must be an int of at least 0, got -1"),
        (lambda: wrong.trivial_augment_wide(1), "with 1 magnitudes"),
        (lambda: wrong.aug_mix().rand_augment(), "a second automatic augmentation"),
        (lambda: wrong.aug_mix(11), "severity 11"),
        (lambda: wrong.aug_mix(mixture_width=0), "mixture_width of 0"),
        (lambda: wrong.aug_mix(chain_depth=0), "chain_depth of 0"),
        (lambda: wrong.aug_mix(chain_depth=-2), "chain_depth must be"),
        (lambda: wrong.aug_mix(alpha="1"), "alpha must be a number from 0.05 to 1000, got '1'"),
        (lambda: wrong.aug_mix(alpha=0), "alpha of 0"),
        (lambda: wrong.aug_mix(all_ops=2), "all_ops must be True or False, got 2"),
        (lambda: wrong.auto_augment("mnist"), "policy must be"),
        (lambda: wrong.auto_augment(fill=256), "fill must be"),
        (lambda: wrong.auto_augment(interpolation="cubic"), "interpolation"),
        (lambda: wrong.random_posterize(9), "bits must be an int from 0 to 8, got 9"),
        (lambda: wrong.random_solarize(-1), "threshold must be a number from 0 to 255, got -1"),
        (lambda: wrong.random_adjust_sharpness(math.inf), "factor must be a finite number of at least 0, got inf"),
        (lambda: wrong.random_invert(2), "p must be a number from 0 to 1, got 2"),
    ]:
        with pytest.raises(fb.InvalidError) as caught:
            call()
        assert said in str(caught.value)
