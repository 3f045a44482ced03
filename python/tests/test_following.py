"""Boxes, points and masks get the crop, size and flips of their image, as in torchvision or by its formulas."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import png
from PIL import Image as Pillow

import forebay as fb

ROWS = 60
SIZE = (48, 56)  # of the result: height and width
FRAMINGS = {
    "crop": fb.Image.random_resized_crop(SIZE).flip().vertical_flip(0.3),
    "resize": fb.Image.resize(*SIZE).flip(),
    "center": fb.Image.center_crop(SIZE, resize=64).flip(),
}


def jpeg(height: int, width: int, seed: int, **options: Any) -> bytes:
    file = io.BytesIO()
    pixels = np.random.default_rng(seed).integers(0, 256, (height // 8, width // 8, 3), np.uint8)
    Pillow.fromarray(pixels).resize((width, height)).save(file, "JPEG", **options)
    return file.getvalue()


def scene() -> dict[str, Any]:
    """Returns images of many sizes with boxes, points, labels and masks."""
    random = np.random.default_rng(17)
    columns: dict[str, list[Any]] = {
        name: [] for name in ("image", "boxes", "labels", "points", "mask", "deep", "size")
    }
    for row in range(ROWS):
        height, width = (int(side) for side in random.integers(70, 160, 2))
        count = int(random.integers(0, 6))
        corner = random.uniform(0, 0.8, (count, 2)) * (width, height)
        extent = random.uniform(0.02, 0.5, (count, 2)) * (width, height)
        columns["image"].append(jpeg(height, width, row))
        columns["boxes"].append(np.concatenate([corner, corner + extent], axis=1).tolist())
        columns["labels"].append(random.integers(0, 90, count).tolist())
        points = random.uniform(0, 1, (count, 2)) * (width, height)
        columns["points"].append(np.concatenate([points, random.integers(0, 3, (count, 1))], axis=1).tolist())
        classes = np.kron(random.integers(0, 21, (height // 6 + 1, width // 6 + 1)), np.ones((6, 6)))[:height, :width]
        columns["mask"].append(png(classes.astype(np.uint8)))
        columns["deep"].append(png((classes * 1000).astype(np.uint16)))
        columns["size"].append((height, width))
    return columns


SCENE = scene()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("scene")
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "labels": pa.array(SCENE["labels"], pa.list_(pa.int64())),
            "boxes": pa.array(SCENE["boxes"], pa.list_(pa.list_(pa.float64()))),
            "fixed": pa.array(SCENE["boxes"], pa.list_(pa.list_(pa.float32(), 4))),
            "image": pa.array(SCENE["image"], pa.binary()),
            "points": pa.array(SCENE["points"], pa.list_(pa.list_(pa.float64()))),
            "mask": pa.array(SCENE["mask"], pa.binary()),
            "deep": pa.array(SCENE["deep"], pa.binary()),
        }
    )
    pq.write_table(table, folder / "a.parquet", row_group_size=17)
    return folder


def reference(boxes: np.ndarray[Any, Any], geometry: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Computes boxes by the formulas of torchvision: crop, clamp, resize, mirror."""
    top, left, height, width, across, down, _, _ = geometry.astype(np.float64)
    boxes = boxes.reshape(-1, 4) - [left, top, left, top]
    boxes = np.clip(boxes, 0, [width, height, width, height])
    boxes = boxes * np.tile([SIZE[1] / width, SIZE[0] / height], 2)
    if across:
        boxes[:, [0, 2]] = SIZE[1] - boxes[:, [2, 0]]
    if down:
        boxes[:, [1, 3]] = SIZE[0] - boxes[:, [3, 1]]
    return boxes


def rows(loader: fb.Loader) -> dict[int, dict[str, Any]]:
    """Returns the rows that an epoch delivers, by id."""
    found: dict[int, dict[str, Any]] = {}
    for batch in loader.epoch(1):
        for at, number in enumerate(batch["id"].tolist()):
            found[number] = {name: values[at] for name, values in batch.items()}
    return found


@pytest.mark.parametrize("framing", FRAMINGS)
def test_boxes_and_points_are_those_of_the_formula(data: Path, framing: str) -> None:
    decode = {
        "image": FRAMINGS[framing].emit_geometry(),
        "boxes": fb.Boxes(of="image"),
        "fixed": fb.Boxes(of="image"),
        "points": fb.Keypoints(of="image", numbers=3),
    }
    with fb.Loader(data, decode=decode, batch_size=7, shuffle=fb.Shuffle(seed=3)) as loader:
        found = rows(loader)
    assert sorted(found) == list(range(ROWS))
    mirrored = set()
    for number, row in found.items():
        geometry = row["image.geometry"]
        assert tuple(geometry[6:]) == SCENE["size"][number]
        mirrored.add(tuple(geometry[4:6].tolist()))
        stored = np.array(SCENE["boxes"][number]).reshape(-1, 4)
        assert row["boxes"].dtype == np.float32 and row["boxes"].shape == (len(stored), 4)
        np.testing.assert_allclose(row["boxes"], reference(stored, geometry), atol=0.01)
        np.testing.assert_allclose(row["fixed"], row["boxes"], atol=0.001)
        top, left, height, width, across, down = geometry[:6].astype(np.float64)
        points = np.array(SCENE["points"][number]).reshape(-1, 3)
        x, y = (points[:, 0] - left) * SIZE[1] / width, (points[:, 1] - top) * SIZE[0] / height
        expected = [SIZE[1] - 1 - x if across else x, SIZE[0] - 1 - y if down else y, points[:, 2]]
        np.testing.assert_allclose(row["points"], np.stack(expected, axis=1), atol=0.01)
    assert len(mirrored) == (4 if framing == "crop" else 2)


@pytest.mark.parametrize("framing", FRAMINGS)
def test_they_are_those_of_torchvision(data: Path, framing: str) -> None:
    torch = pytest.importorskip("torch")
    tv_tensors = pytest.importorskip("torchvision.tv_tensors")
    F = pytest.importorskip("torchvision.transforms.v2.functional")
    decode = {
        "image": FRAMINGS[framing].emit_geometry(),
        "boxes": fb.Boxes(of="image"),
        "points": fb.Keypoints(of="image", numbers=3),
        "mask": fb.Mask(of="image"),
        "deep": fb.Mask(of="image", dtype="uint16"),
    }
    with fb.Loader(data, decode=decode, batch_size=7) as loader:
        found = rows(loader)
    equal = []
    for number, row in found.items():
        top, left, height, width, across, down, whole_height, whole_width = row["image.geometry"].tolist()
        canvas = (int(whole_height), int(whole_width))
        points = torch.tensor(SCENE["points"][number]).reshape(-1, 3)
        values = [
            tv_tensors.BoundingBoxes(
                torch.tensor(SCENE["boxes"][number]).reshape(-1, 4), format="XYXY", canvas_size=canvas
            ),
            tv_tensors.Mask(torch.from_numpy(np.array(Pillow.open(io.BytesIO(SCENE["mask"][number]))))[None]),
        ]
        if hasattr(tv_tensors, "KeyPoints"):
            values.append(tv_tensors.KeyPoints(points[:, :2], canvas_size=canvas))
        for at, value in enumerate(values):
            if framing == "center":
                shorter = F.resize(value, [64])
                shown = F.center_crop(shorter, list(SIZE))
            else:
                if at == 2:
                    # torchvision's crop clips points and forebay's does not, so only points inside are
                    # compared.
                    value = value - torch.tensor([left, top])
                    value = tv_tensors.KeyPoints(value, canvas_size=(int(height), int(width)))
                    shown = F.resize(value, list(SIZE))
                else:
                    shown = F.resized_crop(value, int(top), int(left), int(height), int(width), list(SIZE))
            if across:
                shown = F.horizontal_flip(shown)
            if down:
                shown = F.vertical_flip(shown)
            values[at] = shown
        np.testing.assert_allclose(row["boxes"], values[0].numpy(), atol=0.01)
        equal.append(np.mean(row["mask"] == values[1].numpy()[0]))
        assert row["mask"].shape == SIZE and row["mask"].dtype == np.uint8
        np.testing.assert_array_equal(row["deep"], row["mask"].astype(np.uint16) * 1000)
        if len(values) > 2:
            inside = np.all((values[2].numpy() > 0) & (values[2].numpy() < (SIZE[1] - 1, SIZE[0] - 1)), axis=1)
            np.testing.assert_allclose(row["points"][inside, :2], values[2].numpy()[inside], atol=0.01)
    print(f"{framing}: masks equal at {np.mean(equal):.6f} of the pixels")
    assert np.mean(equal) > 0.9999


def test_every_format_is_the_same_box(tmp_path: Path) -> None:
    formats: dict[str, list[Any]] = {"xyxy": [], "xywh": [], "cxcywh": [], "shares": []}
    for boxes, (height, width) in zip(SCENE["boxes"], SCENE["size"], strict=True):
        corners = np.array(boxes).reshape(-1, 4)
        extent = corners[:, 2:] - corners[:, :2]
        formats["xyxy"].append(corners.tolist())
        formats["xywh"].append(np.concatenate([corners[:, :2], extent], axis=1).tolist())
        formats["cxcywh"].append(np.concatenate([corners[:, :2] + extent / 2, extent], axis=1).tolist())
        formats["shares"].append((corners / [width, height, width, height]).tolist())
    kind = pa.list_(pa.list_(pa.float64()))
    table = pa.table({"id": range(ROWS), "image": SCENE["image"]} | {k: pa.array(v, kind) for k, v in formats.items()})
    pq.write_table(table, tmp_path / "a.parquet")
    decode: dict[str, Any] = {"image": FRAMINGS["crop"], "shares": fb.Boxes(of="image", normalized=True)}
    decode |= {name: fb.Boxes(of="image", format=name) for name in ("xyxy", "xywh", "cxcywh")}
    with fb.Loader(tmp_path, decode=decode) as loader:
        for batch in loader:
            corners, wide, centred = (batch[name].values for name in ("xyxy", "xywh", "cxcywh"))
            np.testing.assert_allclose(batch["shares"].values, corners, atol=1e-3)
            np.testing.assert_allclose(
                np.concatenate([wide[:, :2], wide[:, :2] + wide[:, 2:]], axis=1), corners, atol=1e-3
            )
            half = centred[:, 2:] / 2
            back = np.concatenate([centred[:, :2] - half, centred[:, :2] + half], axis=1)
            np.testing.assert_allclose(back, corners, atol=1e-3)


@pytest.mark.parametrize("share", [1e-9, 0.3])
def test_labels_of_dropped_boxes_are_dropped(data: Path, share: float) -> None:
    image = fb.Image.random_resized_crop(SIZE, scale=(0.1, 0.4)).flip()
    decode = {"image": image.emit_geometry(), "boxes": fb.Boxes(of="image", min_visible=share, along=["labels"])}
    with fb.Loader(data, decode=decode, batch_size=9) as loader:
        found = rows(loader)
    dropped = 0
    for number, row in found.items():
        stored = np.array(SCENE["boxes"][number]).reshape(-1, 4)
        seen = reference(stored, row["image.geometry"])
        scale = np.prod(SIZE) / np.prod(row["image.geometry"][2:4])
        area = np.prod(stored[:, 2:] - stored[:, :2], axis=1) * scale
        kept = np.prod(seen[:, 2:] - seen[:, :2], axis=1) >= share * area
        np.testing.assert_allclose(row["boxes"], seen[kept], atol=0.01)
        assert row["labels"].tolist() == np.array(SCENE["labels"][number], np.int64)[kept].tolist()
        dropped += int(np.sum(~kept))
    assert dropped > 20


def test_a_turned_image_turns_nothing_else(tmp_path: Path) -> None:
    """Boxes and masks refer to the image after its orientation was applied."""
    exif = Pillow.Exif()
    exif[0x0112] = 6
    mask = png(np.arange(80 * 40, dtype=np.uint8).reshape(80, 40))
    table = pa.table(
        {
            "id": [0],
            "image": [jpeg(40, 80, 1, exif=exif.tobytes())],
            "boxes": [[[10, 20, 30, 60]]],
            "mask": [mask],
        }
    )
    pq.write_table(table, tmp_path / "a.parquet")
    decode = {
        "image": fb.Image.resize(160, 80).exif_orientation().emit_geometry(),
        "boxes": fb.Boxes(of="image"),
        "mask": fb.Mask(of="image"),
    }
    with fb.Loader(tmp_path, decode=decode) as loader:
        (batch,) = loader
    assert batch["image.geometry"].tolist() == [[0, 0, 80, 40, 0, 0, 80, 40]]
    assert batch["boxes"][0].tolist() == [[20, 40, 60, 120]]
    np.testing.assert_array_equal(batch["mask"][0][::2, ::2].ravel(), np.arange(80 * 40, dtype=np.uint8))


@pytest.mark.parametrize("tier", ["rows", "resized", "pixels", "coefficients"])
@pytest.mark.parametrize("framing", FRAMINGS)
def test_a_cache_changes_nothing(data: Path, tmp_path: Path, framing: str, tier: Any) -> None:
    decode = {
        "image": FRAMINGS[framing].emit_geometry(),
        "boxes": fb.Boxes(of="image", min_visible=0.1, along=["labels"]),
        "points": fb.Keypoints(of="image", numbers=3),
        "mask": fb.Mask(of="image"),
    }
    with fb.Loader(data, decode=decode, shuffle=fb.Shuffle(seed=5)) as loader:
        expected = rows(loader)
    cache = fb.DiskCache(tmp_path, max_bytes="1g", tier=tier)
    with fb.Loader(data, decode=decode, shuffle=fb.Shuffle(seed=5), cache=cache) as loader:
        for _ in range(2):
            found = rows(loader)
            for number, row in expected.items():
                for name, value in row.items():
                    if name != "image":
                        np.testing.assert_array_equal(found[number][name], value)


def test_filters_shards_and_resuming_do_not_change_a_row(data: Path) -> None:
    decode = {
        "image": FRAMINGS["crop"].emit_geometry(),
        "boxes": fb.Boxes(of="image", min_visible=0.1, along=["labels"]),
        "mask": fb.Mask(of="image"),
    }
    shuffle = fb.Shuffle(seed=5, lanes=2)
    with fb.Loader(data, decode=decode, shuffle=shuffle) as loader:
        expected = rows(loader)
        copy = pickle.loads(pickle.dumps(loader))
    found = rows(copy)
    copy.close()
    for rank in range(2):
        shard = fb.Shard(rank=rank, world=2)
        with fb.Loader(data, decode=decode, shuffle=shuffle, shard=shard, batch_size=4, threads=1) as loader:
            epoch = loader.epoch(1)
            for _ in range(3):
                next(epoch)
            state = loader.state_dict()
        with fb.Loader(data, decode=decode, shuffle=shuffle, shard=shard, batch_size=4) as loader:
            loader.load_state_dict(state)
            for batch in loader:
                for at, number in enumerate(batch["id"].tolist()):
                    found[number] = {name: values[at] for name, values in batch.items()}
    with fb.Loader(data, decode=decode, shuffle=shuffle, filter=[("id", ">", 40)]) as loader:
        found |= rows(loader)
    assert sorted(found) == sorted(expected)
    for number, row in expected.items():
        for name, value in row.items():
            np.testing.assert_array_equal(found[number][name], value)


def test_bad_rows_are_placed_and_skipped(tmp_path: Path) -> None:
    good = png(np.zeros((20, 30), np.uint8))
    bad: list[tuple[str, dict[str, Any], str]] = [
        ("boxes", {"boxes": None}, "null where a list of boxes is needed"),
        ("boxes", {"boxes": [[1, 2, 3]]}, "3 numbers where 4 are needed, in number 0 of the boxes"),
        ("boxes", {"boxes": [[1, 2, 3, 4], None]}, "null as number 1 of the boxes"),
        ("boxes", {"boxes": [[1, 2, 3, None]]}, "null as a coordinate"),
        ("boxes", {"boxes": [[1, 2, 3, float("inf")]]}, "inf as a coordinate"),
        ("boxes", {"boxes": [[3, 2, 1, 4]]}, "right or bottom side comes first"),
        ("labels", {"labels": [1, 2]}, "a list of 2 items for 1 boxes"),
        ("labels", {"labels": None}, "null in place of a list"),
        ("points", {"points": [[1.0]]}, "1 numbers where 2 are needed"),
        ("mask", {"mask": None}, "null where a mask is needed"),
        ("mask", {"mask": png(np.zeros((30, 20), np.uint8))}, "a mask of 20x30 pixels for an image of 30x20"),
        ("mask", {"mask": png(np.zeros((20, 30, 3), np.uint8))}, "a mask of 3 channels"),
        ("mask", {"mask": png(np.zeros((20, 30), np.uint16))}, "a mask of 16 bits"),
        ("mask", {"mask": jpeg(20, 30, 0)}, "a mask stored as JPEG"),
        ("mask", {"mask": good[:-30]}, "corrupt PNG"),
        ("image", {"image": None}, "null where an image is needed"),
        ("image", {"image": b"no image"}, "not an image"),
        ("image", {"image": png(np.zeros((20, 30, 3), np.uint8))[:-40]}, "corrupt PNG"),
    ]
    row = {"boxes": [[1, 2, 3, 4]], "labels": [5], "points": [[1.0, 2.0]], "mask": good}
    row["image"] = png(np.zeros((20, 30, 3), np.uint8))
    table = pa.Table.from_pylist(
        [{"id": number, **row, **change} for number, (_, change, _) in enumerate(bad)] + [{"id": len(bad), **row}],
        pa.schema(
            {
                "id": pa.int64(),
                "labels": pa.list_(pa.int32()),
                "boxes": pa.list_(pa.list_(pa.float32())),
                "points": pa.list_(pa.list_(pa.float64())),
                "mask": pa.binary(),
                "image": pa.binary(),
            }
        ),
    )
    pq.write_table(table, tmp_path / "a.parquet")
    decode = {
        "image": fb.Image.resize(8, 8).emit_geometry(),
        "boxes": fb.Boxes(of="image", min_visible=0.1, along=["labels"]),
        "points": fb.Keypoints(of="image"),
        "mask": fb.Mask(of="image"),
    }
    with fb.Loader(tmp_path, decode=decode, on_bad_row=fb.Skip(at_most=len(bad))) as loader:
        (batch,) = loader
        skipped = loader.skipped()
    assert batch["id"].tolist() == [len(bad)]
    assert batch["labels"][0].tolist() == [5]
    assert batch["boxes"].values.shape == (1, 4) and batch["image.geometry"].shape == (1, 8)
    for (column, _, cause), found in zip(bad, skipped, strict=True):
        assert cause in str(found), (cause, found)
        assert f'"{column}"' in str(found) or found.column == column
    with pytest.raises(fb.BadRowError, match="null where a list of boxes"):
        list(fb.Loader(tmp_path, decode=decode))


def test_what_can_never_work_is_refused(data: Path) -> None:
    crop = fb.Image.resize(8, 8)

    def refused(match: str, decode: dict[str, Any], **options: Any) -> None:
        with pytest.raises(fb.InvalidError, match=match):
            fb.Loader(data, decode=decode, **options)

    refused("not decoded to pixels", {"boxes": fb.Boxes(of="image")})
    refused("not among the columns", {"image": crop, "boxes": fb.Boxes(of="image")}, columns=["image"])
    refused("not among the columns", {"boxes": fb.Boxes(of="image")}, columns=["boxes"])
    refused("not lists of lists of numbers", {"image": crop, "labels": fb.Boxes(of="image")})
    refused("holds lists of 4 numbers|points of 4 numbers", {"image": crop, "fixed": fb.Keypoints(of="image")})
    refused("points of 4", {"image": crop, "fixed": fb.Keypoints(of="image", numbers=3)})
    refused("not encoded masks", {"image": crop, "boxes": fb.Mask(of="image")})
    refused("a list with an item", {"image": crop, "boxes": fb.Boxes(of="image", min_visible=0.1, along=["id"])})
    refused(
        "goes along with boxes",
        {"image": crop, "mask": fb.Boxes(of="image", min_visible=0.1)}
        | {
            "boxes": fb.Boxes(of="image", min_visible=0.1, along=["fixed"]),
            "fixed": fb.Boxes(of="image"),
            "mask": crop,
        },
    )
    refused("fill_null", {"image": crop, "boxes": fb.Boxes(of="image")}, fill_null={"boxes": 0})
    with pytest.raises(fb.UnknownColumnError):
        fb.Loader(data, decode={"image": crop, "boxes": fb.Boxes(of="picture")})
    for call, match in [
        (lambda: fb.Boxes(of=3), "of must be the name"),  # type: ignore[arg-type]
        (lambda: fb.Boxes(of="x", format="yxyx"), "format must be"),  # type: ignore[arg-type]
        (lambda: fb.Boxes(of="x", min_visible=2), "min_visible must be"),
        (lambda: fb.Boxes(of="x", min_visible=0.1, along="labels"), "along must be"),
        (lambda: fb.Boxes(of="x", along=["labels"]), "along needs min_visible"),
        (lambda: fb.Boxes(of="x", normalized=1), "normalized must be"),  # type: ignore[arg-type]
        (lambda: fb.Keypoints(of="x", numbers=4), "numbers must be 2 or 3"),
        (lambda: fb.Mask(of="x", dtype="int64"), "dtype must be"),  # type: ignore[arg-type]
    ]:
        with pytest.raises(fb.InvalidError, match=match):
            call()


def test_the_spec_and_the_schema_show_them(data: Path) -> None:
    decode = {
        "image": fb.Image.resize(8, 9).emit_geometry(),
        "boxes": fb.Boxes(of="image"),
        "mask": fb.Mask(of="image"),
    }
    with fb.Loader(data, decode=decode, columns=["image", "boxes", "mask"]) as loader:
        assert loader.columns == ["image", "boxes", "mask", "image.geometry"]
        assert loader.spec["columns"] == ["image", "boxes", "mask"]
        assert set(loader.spec["follow"]) == {"boxes", "mask"}
        assert "forebay.Boxes(of='image')" in repr(loader)
        layout = {name: (kind, dtype, shape) for name, kind, dtype, shape in loader.schema.layout()}
        batch = next(iter(loader))
    assert layout["mask"] == ("dense", "|u1", (8, 9))
    assert layout["image.geometry"] == ("dense", "<f4", (8,))
    assert layout["boxes"][0] == "ragged"
    assert batch["boxes"].values.shape[1:] == (4,)
