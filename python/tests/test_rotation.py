"""Images that are rotated at random, and the columns that belong to them, compared with torchvision at the
same angle."""

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

ROWS = 40
HEIGHT, WIDTH = 72, 97
WHOLE = fb.Image.resize(HEIGHT, WIDTH)


def encoded(pixels: np.ndarray[Any, Any]) -> bytes:
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def scene() -> dict[str, list[Any]]:
    random = np.random.default_rng(11)
    columns: dict[str, list[Any]] = {name: [] for name in ("image", "mask", "boxes", "labels", "points")}
    for _ in range(ROWS):
        small = Pillow.fromarray(random.integers(0, 256, (8, 9, 3), np.uint8))
        columns["image"].append(encoded(np.array(small.resize((WIDTH, HEIGHT), Pillow.Resampling.BICUBIC))))
        classes = np.kron(random.integers(1, 21, (8, 10)), np.ones((10, 10)))[:HEIGHT, :WIDTH]
        columns["mask"].append(encoded(classes.astype(np.uint8)))
        corner = random.uniform(-0.2, 0.9, (4, 2)) * (WIDTH, HEIGHT)
        columns["boxes"].append(np.concatenate([corner, corner + random.uniform(2, 50, (4, 2))], axis=1).tolist())
        columns["labels"].append(random.integers(0, 90, 4).tolist())
        columns["points"].append((random.uniform(0, 1, (4, 2)) * (WIDTH - 1, HEIGHT - 1)).tolist())
    return columns


SCENE = scene()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scene")
    tuples = pa.list_(pa.list_(pa.float64()))
    types = {"boxes": tuples, "points": tuples, "labels": pa.list_(pa.int64())}
    table = {"id": pa.array(range(ROWS), pa.int64())}
    table |= {name: pa.array(values, types.get(name, pa.binary())) for name, values in SCENE.items()}
    pq.write_table(pa.table(table), folder / "a.parquet", row_group_size=11)
    return folder


def rows(loader: fb.Loader, epoch: int = 1) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for batch in loader.epoch(epoch):
        for at, number in enumerate(batch["id"].tolist()):
            found[number] = {name: values[at] for name, values in batch.items()}
    return found


def delivered(data: Path, decode: dict[str, Any], epoch: int = 1, **options: Any) -> dict[int, dict[str, Any]]:
    with fb.Loader(
        data, decode=decode, columns=["id", *decode], batch_size=7, shuffle=fb.Shuffle(seed=3), **options
    ) as loader:
        return rows(loader, epoch)


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_pixels_are_those_of_torchvision(data: Path, interpolation: Any) -> None:
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    fill = (10, 200, 90)
    image = WHOLE.flip().vertical_flip().random_rotation(180, interpolation, fill).emit_geometry()
    differences, angles = [], []
    for number, row in delivered(data, {"image": image}).items():
        *_, across, down, _, _, degrees = row["image.geometry"].tolist()
        stored = torch.from_numpy(np.array(Pillow.open(io.BytesIO(SCENE["image"][number])))).permute(2, 0, 1)
        stored = v2.functional.horizontal_flip(stored) if across else stored
        stored = v2.functional.vertical_flip(stored) if down else stored
        mode = v2.InterpolationMode(interpolation)
        turned = v2.functional.rotate(stored, degrees, interpolation=mode, fill=list(fill))
        found = torch.from_numpy(row["image"]).permute(2, 0, 1)
        differences.append((found.float() - turned.float()).abs().mean().item())
        angles.append(degrees)
    print(f"{interpolation}: {np.mean(differences):.4f} of 255 on average, {max(differences):.4f} at most")
    assert max(differences) < 0.5
    assert min(angles) < -90 and max(angles) > 90 and len(set(angles)) == ROWS


def test_what_belongs_to_an_image_is_turned_as_torchvision_does(data: Path) -> None:
    torch = pytest.importorskip("torch")
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    F = pytest.importorskip("torchvision.transforms.v2.functional")
    decode = {
        "image": WHOLE.flip().random_rotation((-60, 120)).emit_geometry(),
        "boxes": fb.Boxes(of="image"),
        "mask": fb.Mask(of="image"),
    }
    equal, compared = [], 0
    for number, row in delivered(data, decode).items():
        *_, across, down, _, _, degrees = row["image.geometry"].tolist()
        assert -60 <= degrees < 120 and not down
        boxes = tv_tensors.BoundingBoxes(
            torch.tensor(SCENE["boxes"][number]), format="XYXY", canvas_size=(HEIGHT, WIDTH)
        )
        boxes = F.clamp_bounding_boxes(boxes)
        mask = tv_tensors.Mask(torch.from_numpy(np.array(Pillow.open(io.BytesIO(SCENE["mask"][number]))))[None])
        if across:
            boxes, mask = F.horizontal_flip(boxes), F.horizontal_flip(mask)
        # Boxes that were not visible before stay empty here, while torchvision turns them into lines at the
        # border.
        visible = ((boxes[:, 2:] - boxes[:, :2]) > 0).all(dim=1).numpy()
        assert ((row["boxes"][:, 2:] == row["boxes"][:, :2]).all(axis=1) | visible).all()
        compared += int(visible.sum())
        boxes, mask = F.clamp_bounding_boxes(F.rotate(boxes, degrees)), F.rotate(mask, degrees)
        np.testing.assert_allclose(row["boxes"][visible], boxes.numpy()[visible], atol=0.01)
        equal.append(np.mean(row["mask"] == mask.numpy()[0]))
    print(f"masks equal at {np.mean(equal):.6f} of the pixels")
    assert np.mean(equal) > 0.999 and 3 * ROWS < compared < 4 * ROWS


@pytest.mark.parametrize("degrees", [90, -90, 180, 37.5])
def test_points_name_the_pixels_that_they_named(tmp_path: Path, degrees: float) -> None:
    """The image has a bright block at the point, and after a rotation the block is where the point is."""
    side, at = 41, (30, 12)  # column and row
    pixels = np.zeros((side, side, 3), np.uint8)
    pixels[at[1] - 1 : at[1] + 2, at[0] - 1 : at[0] + 2] = 200
    table = {"image": [encoded(pixels)], "points": [[list(map(float, at))]], "boxes": [[[29.0, 11.0, 32.0, 14.0]]]}
    pq.write_table(pa.table(table), tmp_path / "a.parquet")
    image = fb.Image.resize(side, side).random_rotation((degrees, degrees), "bilinear")
    decode = {"image": image, "points": fb.Keypoints(of="image"), "boxes": fb.Boxes(of="image")}
    with fb.Loader(tmp_path, decode=decode, batch_size=1) as loader:
        batch = next(iter(loader))
    shown = batch["image"][0, :, :, 0].astype(float)
    row, column = (np.sum(shown * grid) / shown.sum() for grid in np.indices(shown.shape))
    np.testing.assert_allclose(batch["points"][0][0], [column, row], atol=0.1)
    # A box covers whole pixels, so its middle is half a pixel further.
    left, top, right, bottom = batch["boxes"][0][0]
    np.testing.assert_allclose([(left + right) / 2, (top + bottom) / 2], [column + 0.5, row + 0.5], atol=0.1)
    turn = math.radians(degrees)
    x, y = at[0] - 20, at[1] - 20
    expected = [20 + math.cos(turn) * x + math.sin(turn) * y, 20 - math.sin(turn) * x + math.cos(turn) * y]
    np.testing.assert_allclose(batch["points"][0][0], expected, atol=1e-4)


def test_no_other_draw_changes(data: Path) -> None:
    crop = fb.Image.random_resized_crop(32).flip().vertical_flip().emit_geometry()
    still = delivered(data, {"image": crop})
    same = delivered(data, {"image": crop.random_rotation(0)})
    turned = delivered(data, {"image": crop.random_rotation(30)})
    changed = 0
    for number, row in still.items():
        assert row["image.geometry"].shape == (8,)
        np.testing.assert_array_equal(same[number]["image"], row["image"])
        np.testing.assert_array_equal(turned[number]["image.geometry"][:8], row["image.geometry"])
        changed += (turned[number]["image"] != row["image"]).any()
    assert changed > 0.8 * ROWS  # all but those by angles near 0
    angles = [row["image.geometry"][8] for row in turned.values()]
    assert len(set(angles)) == ROWS and all(-30 <= angle < 30 for angle in angles)
    again = delivered(data, {"image": crop.random_rotation(30)}, epoch=2)
    assert angles != [again[number]["image.geometry"][8] for number in turned]


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("dtype", ["uint8", "float32"])
@pytest.mark.parametrize("grey", [False, True])
def test_every_form_is_turned_alike(data: Path, layout: Any, dtype: Any, grey: bool) -> None:
    image = WHOLE.flip().random_rotation((20, 20), "bilinear", (9, 80, 200))
    image = image.grayscale() if grey else image
    plain = delivered(data, {"image": image})
    for number, row in delivered(data, {"image": image.dtype(dtype).layout(layout)}).items():
        values = row["image"] if layout == "NHWC" else row["image"].transpose(1, 2, 0)
        expected = plain[number]["image"]
        assert expected[0, 0].tolist() == ([9] if grey else [9, 80, 200])
        np.testing.assert_array_equal(values, expected if dtype == "uint8" else expected / np.float32(255))


def test_it_is_the_part_of_a_canvas_that_is_turned(data: Path) -> None:
    turn = fb.Image.fit((80, 120), fill=3).random_rotation((30, 30), fill=7)
    whole = delivered(data, {"image": WHOLE.random_rotation((30, 30), fill=7), "mask": fb.Mask(of="image")})
    for number, row in delivered(data, {"image": turn, "mask": fb.Mask(of="image")}).items():
        assert row["image.size"].tolist() == [HEIGHT, WIDTH]
        for name, fill in (("image", 3), ("mask", 0)):
            np.testing.assert_array_equal(row[name][:HEIGHT, :WIDTH], whole[number][name])
            assert (row[name][HEIGHT:] == fill).all() and (row[name][:, WIDTH:] == fill).all()


def test_boxes_that_are_hardly_visible_are_dropped_with_their_labels(data: Path) -> None:
    image = fb.Image.random_resized_crop(48, scale=(0.2, 0.6)).random_rotation(45)
    every = delivered(data, {"image": image, "boxes": fb.Boxes(of="image")})
    boxes = fb.Boxes(of="image", min_visible=0.4, along=["labels"])
    with fb.Loader(data, decode={"image": image, "boxes": boxes}, batch_size=7, shuffle=fb.Shuffle(seed=3)) as loader:
        found = rows(loader)
    dropped = 0
    for number, row in found.items():
        assert len(row["boxes"]) == len(row["labels"]) <= 4
        dropped += 4 - len(row["labels"])
        places = [SCENE["labels"][number].index(label) for label in row["labels"].tolist()]
        if len(set(SCENE["labels"][number])) == 4:
            np.testing.assert_array_equal(row["boxes"], every[number]["boxes"][places])
        extent = row["boxes"][:, 2:] - row["boxes"][:, :2]
        assert (extent > 0).all()
    assert 0 < dropped < 4 * ROWS


def test_a_cache_gives_the_same(data: Path, tmp_path: Path) -> None:
    decode = {"image": fb.Image.random_resized_crop(32).flip().random_rotation(40), "boxes": fb.Boxes(of="image")}
    expected = delivered(data, decode, epoch=2)
    cache = fb.DiskCache(tmp_path, max_bytes="1GB", tier="pixels")
    delivered(data, decode, epoch=1, cache=cache)
    for number, row in delivered(data, decode, epoch=2, cache=cache).items():
        np.testing.assert_array_equal(row["image"], expected[number]["image"])
        np.testing.assert_array_equal(row["boxes"], expected[number]["boxes"])


def test_what_can_never_work_is_refused() -> None:
    for call, match in [
        (lambda: WHOLE.random_rotation(-1), "degrees must be"),
        (lambda: WHOLE.random_rotation((3, 1)), "degrees must be"),
        (lambda: WHOLE.random_rotation(float("inf")), "degrees must be"),
        (lambda: WHOLE.random_rotation("x"), "degrees must be"),  # type: ignore[arg-type]
        (lambda: WHOLE.random_rotation(1, "bilinaer"), 'did you mean "bilinear"'),  # type: ignore[arg-type]
        (lambda: WHOLE.random_rotation(1, 2), "interpolation must be"),  # type: ignore[arg-type]
        (lambda: WHOLE.random_rotation(1, fill=256), "fill must be"),
        (lambda: WHOLE.random_rotation(1, fill=(1, 2)), "fill must be"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(fb.InvalidError, match=match):
            call()
