"""Images that keep their shape on a padded canvas, and the boxes, points and masks that belong to them, compared
with torchvision's resize and padding."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Pillow

import forebay as fb

ROWS = 40
CANVAS = (96, 120)  # height and width
KINDS = {
    "shrunk": fb.Image.fit(CANVAS),
    "shorter": fb.Image.fit(CANVAS, resize=80),
    "square": fb.Image.fit(100, resize=64),
}


def encoded(pixels: np.ndarray[Any, Any], kind: str = "PNG", **options: Any) -> bytes:
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, kind, **options)
    return file.getvalue()


def scene() -> dict[str, list[Any]]:
    """Returns images smaller and larger than the canvas, with boxes, points and masks."""
    random = np.random.default_rng(5)
    columns: dict[str, list[Any]] = {name: [] for name in ("image", "pixels", "boxes", "points", "mask", "classes")}
    for row in range(ROWS):
        height, width = (int(side) for side in random.integers(12, 260, 2))
        small = random.integers(0, 256, (height // 6 + 1, width // 6 + 1, 3), np.uint8)
        pixels = np.array(Pillow.fromarray(small).resize((width, height), Pillow.Resampling.BICUBIC))
        columns["pixels"].append(pixels)
        columns["image"].append(encoded(pixels, "JPEG", quality=95) if row % 4 == 3 else encoded(pixels))
        corner = random.uniform(0, 0.7, (3, 2)) * (width, height)
        columns["boxes"].append(np.concatenate([corner, corner + random.uniform(1, 60, (3, 2))], axis=1).tolist())
        columns["points"].append((random.uniform(0, 1, (3, 2)) * (width, height)).tolist())
        classes = random.integers(1, 200, (height, width), np.uint8)
        columns["classes"].append(classes)
        columns["mask"].append(encoded(classes))
    return columns


SCENE = scene()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scene")
    tuples = pa.list_(pa.list_(pa.float64()))
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "image": pa.array(SCENE["image"], pa.binary()),
            "boxes": pa.array(SCENE["boxes"], tuples),
            "points": pa.array(SCENE["points"], tuples),
            "mask": pa.array(SCENE["mask"], pa.binary()),
        }
    )
    pq.write_table(table, folder / "a.parquet", row_group_size=11)
    return folder


def rows(loader: fb.Loader, epoch: int = 1) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for batch in loader.epoch(epoch):
        for at, number in enumerate(batch["id"].tolist()):
            found[number] = {name: values[at] for name, values in batch.items()}
    return found


def delivered(data: Path, image: fb.Image, **options: Any) -> dict[int, dict[str, Any]]:
    with fb.Loader(data, decode={"image": image}, columns=["id", "image"], batch_size=7, **options) as loader:
        return rows(loader)


def size_of(height: int, width: int, kind: str) -> tuple[int, int]:
    """Computes a size as torchvision does: the shorter side, then the longest one, each truncated to whole
    pixels."""
    canvas, resize = {"shrunk": (CANVAS, None), "shorter": (CANVAS, 80), "square": ((100, 100), 64)}[kind]
    if resize is not None:
        short, long = min(height, width), max(height, width)
        long = int(resize * long / short)
        height, width = (resize, long) if height <= width else (long, resize)
    if width > canvas[1] or height > canvas[0]:
        if width / canvas[1] >= height / canvas[0]:
            height, width = max(int(canvas[1] * height / width), 1), canvas[1]
        else:
            height, width = canvas[0], max(int(canvas[0] * width / height), 1)
    return height, width


@pytest.mark.parametrize("kind", KINDS)
def test_pixels_are_those_of_pillow_and_the_rest_is_the_fill(data: Path, kind: str) -> None:
    found = delivered(data, KINDS[kind])
    assert sorted(found) == list(range(ROWS))
    kept = 0
    for number, row in found.items():
        height, width = row["image.size"].tolist()
        assert row["image.size"].dtype == np.int32
        assert (height, width) == size_of(*SCENE["pixels"][number].shape[:2], kind)
        stored = Pillow.open(io.BytesIO(SCENE["image"][number]))
        kept += stored.size == (width, height)
        expected = np.array(stored.resize((width, height), Pillow.Resampling.BILINEAR), np.int16)
        assert np.abs(row["image"][:height, :width] - expected).mean() < 1
        assert not row["image"][height:].any() and not row["image"][:, width:].any()
        if stored.size == (width, height) and stored.format == "PNG":
            np.testing.assert_array_equal(row["image"][:height, :width], SCENE["pixels"][number])
    if kind == "shrunk":
        assert 0 < kept < ROWS


def test_they_are_those_of_torchvision(data: Path) -> None:
    torch = pytest.importorskip("torch")
    F = pytest.importorskip("torchvision.transforms.v2.functional")
    for number, row in delivered(data, fb.Image.fit(100, resize=64).layout("NCHW")).items():
        image = torch.from_numpy(np.array(Pillow.open(io.BytesIO(SCENE["image"][number])))).permute(2, 0, 1)
        resized = F.resize(image, [64], max_size=100, antialias=True)
        assert list(resized.shape[1:]) == row["image.size"].tolist()
        padded = F.pad(resized, [0, 0, 100 - resized.shape[2], 100 - resized.shape[1]])
        assert (padded.float() - torch.from_numpy(row["image"]).float()).abs().mean() < 1


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16"])
@pytest.mark.parametrize("grey", [False, True])
def test_every_form_is_filled(data: Path, layout: Any, dtype: Any, grey: bool) -> None:
    fill = (3.0, 5.0, 7.0) if dtype == "uint8" else (-1.5, 0.25, 2.0)
    image = fb.Image.fit(CANVAS, fill=fill[0] if grey else fill).dtype(dtype).layout(layout)
    plain = fb.Image.fit(CANVAS)
    if grey:
        image, plain = image.grayscale(), plain.grayscale()
    pixels = delivered(data, plain)
    for number, row in delivered(data, image).items():
        height, width = row["image.size"]
        values = row["image"] if layout == "NHWC" else row["image"].transpose(1, 2, 0)
        expected = np.broadcast_to(np.array(fill[: values.shape[2]], values.dtype), values.shape).copy()
        shown = pixels[number]["image"][:height, :width]
        expected[:height, :width] = shown if dtype == "uint8" else (shown / np.float32(255)).astype(dtype)
        np.testing.assert_array_equal(values, expected)


def test_flips_stay_on_their_part_and_all_that_belongs_follows(data: Path) -> None:
    decode = {
        "image": fb.Image.fit(CANVAS, resize=80).flip().vertical_flip().emit_geometry(),
        "boxes": fb.Boxes(of="image"),
        "points": fb.Keypoints(of="image"),
        "mask": fb.Mask(of="image"),
    }
    still = delivered(data, fb.Image.fit(CANVAS, resize=80))
    with fb.Loader(data, decode=decode, batch_size=7, shuffle=fb.Shuffle(seed=3)) as loader:
        assert loader.columns[-2:] == ["image.size", "image.geometry"]
        found = rows(loader)
    mirrored = set()
    for number, row in found.items():
        height, width = row["image.size"].tolist()
        _, _, whole_height, whole_width, across, down, *_ = row["image.geometry"].tolist()
        mirrored.add((across, down))
        assert (whole_height, whole_width) == SCENE["pixels"][number].shape[:2]
        expected = still[number]["image"][:height, :width]
        expected = expected[:: -1 if down else 1, :: -1 if across else 1]
        np.testing.assert_array_equal(row["image"][:height, :width], expected)
        assert not row["image"][height:].any() and not row["image"][:, width:].any()

        scale = np.array([width / whole_width, height / whole_height])
        boxes = np.clip(np.array(SCENE["boxes"][number]) * np.tile(scale, 2), 0, [width, height, width, height])
        points = np.array(SCENE["points"][number]) * scale
        if across:
            boxes[:, [0, 2]] = width - boxes[:, [2, 0]]
            points[:, 0] = width - 1 - points[:, 0]
        if down:
            boxes[:, [1, 3]] = height - boxes[:, [3, 1]]
            points[:, 1] = height - 1 - points[:, 1]
        np.testing.assert_allclose(row["boxes"], boxes, atol=0.01)
        np.testing.assert_allclose(row["points"], points, atol=0.01)

        # The arithmetic is in 32 bits, as in torch's nearest.
        rows_of = np.minimum(
            np.arange(height, dtype=np.float32) * np.float32(whole_height / height), whole_height - 1
        ).astype(int)
        columns_of = np.minimum(
            np.arange(width, dtype=np.float32) * np.float32(whole_width / width), whole_width - 1
        ).astype(int)
        classes = SCENE["classes"][number][np.ix_(rows_of, columns_of)]
        classes = classes[:: -1 if down else 1, :: -1 if across else 1]
        assert (row["mask"][:height, :width] == classes).mean() > 0.999
        assert row["mask"].shape == CANVAS
        assert not row["mask"][height:].any() and not row["mask"][:, width:].any()
    assert len(mirrored) == 4


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("options", [{}, {"resize": 80}, {"resize": 96, "fill": (114.0, 9.0, 7.0)}])
def test_centered_all_of_it_is_the_same_in_the_middle(data: Path, layout: Any, options: dict[str, Any]) -> None:
    def found(centered: bool) -> dict[int, dict[str, Any]]:
        image = fb.Image.fit(CANVAS, centered=centered, **options).flip().vertical_flip().random_rotation(30)
        decode = {
            "image": image.layout(layout),
            "boxes": fb.Boxes(of="image"),
            "points": fb.Keypoints(of="image"),
            "mask": fb.Mask(of="image"),
        }
        with fb.Loader(data, decode=decode, batch_size=7, shuffle=fb.Shuffle(seed=3)) as loader:
            return rows(loader)

    corner, middle = found(False), found(True)
    for number, row in middle.items():
        of_corner = corner[number]
        height, width = row["image.size"].tolist()
        assert of_corner["image.size"].tolist() == [height, width]
        top, left = (CANVAS[0] - height) // 2, (CANVAS[1] - width) // 2
        values = row["image"] if layout == "NHWC" else row["image"].transpose(1, 2, 0)
        cornered = of_corner["image"] if layout == "NHWC" else of_corner["image"].transpose(1, 2, 0)
        expected = np.broadcast_to(np.array(options.get("fill", (0, 0, 0)), np.uint8), values.shape).copy()
        expected[top : top + height, left : left + width] = cornered[:height, :width]
        np.testing.assert_array_equal(values, expected)
        classes = np.zeros(CANVAS, np.uint8)
        classes[top : top + height, left : left + width] = of_corner["mask"][:height, :width]
        np.testing.assert_array_equal(row["mask"], classes)
        np.testing.assert_allclose(row["boxes"], of_corner["boxes"] + np.float32([left, top] * 2), atol=0.01)
        np.testing.assert_allclose(row["points"], of_corner["points"] + np.float32([left, top]), atol=0.01)


@pytest.mark.parametrize("size", [(37, 80), (80, 37), (64, 64), (200, 90)])
def test_a_letterbox_is_pillows_pad(size: tuple[int, int]) -> None:
    from PIL import ImageOps

    pixels = np.random.default_rng(3).integers(0, 256, (*size, 3), np.uint8)
    image = fb.Image.fit(64, resize=64, fill=114, centered=True).resampling("bicubic")
    found = fb.decode_image(encoded(pixels), image)
    wanted = np.asarray(ImageOps.pad(Pillow.fromarray(pixels), (64, 64), color=(114,) * 3), np.int16)
    # Pillow rounds the shorter side, and the offset if the padding is odd, so the borders may differ by a pixel.
    inside = (wanted != 114).any(axis=-1)
    assert abs(int(inside.sum()) - int((found != 114).any(axis=-1).sum())) <= 2 * 64
    assert abs(np.argwhere(inside).mean(axis=0) - np.argwhere((found != 114).any(axis=-1)).mean(axis=0)).max() <= 1


def test_effects_change_the_image_alone(data: Path) -> None:
    image = fb.Image.fit(CANVAS, fill=9).color_jitter(0.5, 0.5, 0.5, 0.1).gaussian_blur(5).random_erasing(1, value=250)
    still = delivered(data, fb.Image.fit(CANVAS, fill=9))
    for number, row in delivered(data, image, shuffle=fb.Shuffle(seed=4)).items():
        height, width = row["image.size"]
        outside = np.ones(CANVAS, bool)
        outside[:height, :width] = False
        assert (row["image"][outside] == 9).all()
        assert (row["image"] != still[number]["image"]).any()
        assert (row["image"][:height, :width] == 250).all(axis=2).mean() > 0.01


@pytest.mark.parametrize("tier", ["pixels", "resized", "coefficients"])
def test_a_cache_gives_the_same_sizes_and_what_follows(data: Path, tmp_path: Path, tier: str) -> None:
    decode = {
        "image": fb.Image.fit(CANVAS, resize=80, fill=7).flip().dtype("float32"),
        "boxes": fb.Boxes(of="image"),
        "mask": fb.Mask(of="image"),
    }
    options: dict[str, Any] = {"decode": decode, "batch_size": 7, "shuffle": fb.Shuffle(seed=3)}
    cache = fb.DiskCache(tmp_path, max_bytes="1GB", tier=tier)  # type: ignore[arg-type]
    with fb.Loader(data, **options) as loader:
        expected = rows(loader, 2)
    with fb.Loader(data, **options, cache=cache) as loader:
        rows(loader, 1)
        found = rows(loader, 2)
        assert loader.state_dict()["cache_tier"] == tier
    with fb.Loader(data, **options, cache=cache) as loader:
        again = rows(loader, 2)
    for number, row in expected.items():
        for other in (found[number], again[number]):
            for name in ("image.size", "boxes", "mask"):
                np.testing.assert_array_equal(other[name], row[name])
            if tier == "pixels":
                np.testing.assert_array_equal(other["image"], row["image"])
            else:
                assert np.abs(other["image"] - row["image"]).mean() < 12 / 255


def test_a_resumed_epoch_has_the_rest(data: Path) -> None:
    options: dict[str, Any] = {
        "decode": {"image": fb.Image.fit(CANVAS).flip()},
        "columns": ["id", "image"],
        "batch_size": 7,
        "shuffle": fb.Shuffle(seed=3),
    }
    with fb.Loader(data, **options) as loader:
        batches = iter(loader)
        next(batches)
        state = loader.state_dict()
        rest = [dict(batch.items()) for batch in batches]
    with fb.Loader(data, **options) as loader:
        loader.load_state_dict(state)
        again = [dict(batch.items()) for batch in loader]
    assert len(rest) == len(again) > 0
    for first, second in zip(rest, again, strict=True):
        for name in ("id", "image", "image.size"):
            np.testing.assert_array_equal(first[name], second[name])


def test_extreme_shapes_fit(tmp_path: Path) -> None:
    shapes = [(1, 1), (1, 3000), (3000, 1), (16, 16), (17, 16), (16, 17)]
    files = [encoded(np.full((*shape, 3), 90, np.uint8)) for shape in shapes]
    pq.write_table(pa.table({"image": files}), tmp_path / "a.parquet")
    for resize, sizes in [
        (None, [(1, 1), (1, 16), (16, 1), (16, 16), (16, 15), (15, 16)]),
        (8, [(8, 8), (1, 16), (16, 1), (8, 8), (8, 8), (8, 8)]),
        (60000, [(16, 16), (1, 16), (16, 1), (16, 16), (16, 15), (15, 16)]),
    ]:
        with fb.Loader(tmp_path, decode={"image": fb.Image.fit(16, resize=resize)}, batch_size=6) as loader:
            batch = next(iter(loader))
        assert [tuple(size) for size in batch["image.size"].tolist()] == sizes
        for image, (height, width) in zip(batch["image"], sizes, strict=True):
            assert (image[:height, :width] == 90).all() and image.sum() == 90 * 3 * height * width


def test_an_image_too_small_for_its_blur_is_a_bad_row(tmp_path: Path) -> None:
    files = [encoded(np.zeros((*shape, 3), np.uint8)) for shape in [(9, 9), (4, 9), (5, 5)]]
    pq.write_table(pa.table({"image": files}), tmp_path / "a.parquet")
    blurred = fb.Image.fit(16).gaussian_blur(9)
    with (
        fb.Loader(tmp_path, decode={"image": blurred}, batch_size=3) as loader,
        pytest.raises(fb.BadRowError, match="a kernel of 9 pixels for an image of 9x4"),
    ):
        next(iter(loader))
    with fb.Loader(tmp_path, decode={"image": blurred}, batch_size=3, on_bad_row=fb.Skip(at_most=1)) as loader:
        assert next(iter(loader))["image.size"].tolist() == [[9, 9], [5, 5]]


def test_what_can_never_work_is_refused(data: Path) -> None:
    for call, match in [
        (lambda: fb.Image.fit(0), "size must be"),
        (lambda: fb.Image.fit(8, resize=0), "resize must be"),
        (lambda: fb.Image.fit(8, fill="black"), "fill must be"),  # type: ignore[arg-type]
        (lambda: fb.Image.fit(8, fill=float("nan")), "fill must be"),
        (lambda: fb.Loader(data, decode={"image": fb.Image.fit(8, fill=0.5)}), "whole numbers from 0 to 255"),
    ]:
        with pytest.raises(fb.InvalidError, match=match):
            call()


def test_the_size_does_not_hide_a_stored_column(tmp_path: Path) -> None:
    file = encoded(np.zeros((4, 4, 3), np.uint8))
    pq.write_table(pa.table({"image": [file], "image.size": [4]}), tmp_path / "a.parquet")
    with pytest.raises(fb.InvalidError, match="leave that column out of columns"):
        fb.Loader(tmp_path, decode={"image": fb.Image.fit(8)})
    with fb.Loader(tmp_path, decode={"image": fb.Image.fit(8)}, columns=["image"]) as loader:
        assert next(iter(loader))["image.size"].tolist() == [[4, 4]]
        layout = {name: (kind, dtype, shape) for name, kind, dtype, shape in loader.schema.layout()}
    assert layout["image.size"] == ("dense", "<i4", (2,))
