"""Columns for detection and segmentation in the layouts that data sets use: objects as lists of structures, and instance
masks. Crops and sizes change them together with their image; some results are compared with torchvision's."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import png
from PIL import Image as Pillow

import forebay as fb

ROWS = 24
IMAGES = {
    "crop": fb.Image.random_crop((60, 70), padding=(9, 5)).flip(),
    "reflect": fb.Image.random_crop(90, padding=12, padding_mode="reflect").flip().vertical_flip(),
    "edge": fb.Image.random_crop(64, padding=(1, 2, 3, 4), padding_mode="edge").flip(),
    "shortest": fb.Image.random_shortest_size([40, 56, 90], 100).flip(),
    "middle": fb.Image.random_shortest_size(64, (80, 96), centered=True).vertical_flip(),
    "jitter": fb.Image.scale_jitter((72, 64), scale_range=(0.4, 2)).flip(),
    "iou": fb.Image.random_iou_crop(48, boxes="objects.bbox").flip(),
}
BOXES = fb.Boxes(of="image", format="xywh")
DROPPING = fb.Boxes(of="image", format="xywh", min_visible=0.3, along=["objects.*"])


def ellipse(height: int, width: int, box: Any) -> np.ndarray[Any, Any]:
    left, top, wide, high = box
    y, x = np.mgrid[:height, :width] + 0.5
    inside = ((x - left - wide / 2) / (wide / 2)) ** 2 + ((y - top - high / 2) / (high / 2)) ** 2 <= 1
    return np.asarray(inside, np.uint8)


def run_lengths(mask: np.ndarray[Any, Any]) -> list[int]:
    """Returns COCO's uncompressed run lengths of a mask, which go down its columns."""
    pixels = mask.T.ravel()
    ends = np.flatnonzero(np.diff(pixels)) + 1
    lengths = np.diff(np.concatenate([[0], ends, [pixels.size]])).tolist()
    return [0, *lengths] if pixels[0] else lengths


def scene() -> list[dict[str, Any]]:
    random = np.random.default_rng(29)
    made = []
    for row in range(ROWS):
        height, width = (int(side) for side in random.integers(50, 130, 2))
        small = random.integers(0, 256, (height // 8 + 1, width // 8 + 1, 3), np.uint8)
        pixels = np.array(Pillow.fromarray(small).resize((width, height), Pillow.Resampling.BICUBIC))
        file = io.BytesIO()
        Pillow.fromarray(pixels).save(file, "JPEG" if row % 3 == 0 else "PNG", **({"quality": 95} if row % 3 == 0 else {}))
        count = row % 4
        corner = random.uniform(0, 0.6, (count, 2)) * (width, height)
        boxes = np.concatenate([corner, random.uniform(0.15, 0.4, (count, 2)) * (width, height)], axis=1)
        masks = [ellipse(height, width, box) for box in boxes]
        made.append(
            {
                "pixels": np.array(Pillow.open(io.BytesIO(file.getvalue())).convert("RGB")),
                "image": file.getvalue(),
                "boxes": boxes.astype(np.float32),
                "labels": random.integers(0, 9, count).tolist(),
                "masks": masks,
                "classes": random.integers(0, 99, (height, width), np.uint8),
                "corners": [[x, y, x + w, y, x + w, y + h, x, y + h] for x, y, w, h in boxes.tolist()],
            }
        )
    return made


SCENE = scene()


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("detection")
    rle = pa.struct([("counts", pa.list_(pa.int64())), ("size", pa.list_(pa.int64()))])
    item = pa.struct(
        [
            ("bbox", pa.list_(pa.float32(), 4)),
            ("category", pa.int64()),
            ("area", pa.float32()),
            ("png", pa.binary()),
            ("rle", rle),
            ("segmentation", pa.list_(pa.list_(pa.float64()))),
            ("keypoints", pa.list_(pa.float32())),
        ]
    )
    objects = []
    for row in SCENE:
        height, width = row["classes"].shape
        objects.append(
            [
                {
                    "bbox": box,
                    "category": label,
                    "area": float(mask.sum()),
                    "png": png(mask * 200),
                    "rle": {"counts": run_lengths(mask), "size": [height, width]},
                    "segmentation": [corners],
                    "keypoints": [box[0], box[1], 2, box[0] + box[2], box[1], 1],
                }
                for box, label, mask, corners in zip(
                    row["boxes"].tolist(), row["labels"], row["masks"], row["corners"], strict=True
                )
            ]
        )
    older = [{"bbox": row["boxes"].tolist(), "category": row["labels"]} for row in SCENE]
    table = pa.table(
        {
            "id": pa.array(range(ROWS), pa.int64()),
            "image": pa.array([row["image"] for row in SCENE], pa.binary()),
            "classes": pa.array([png(row["classes"]) for row in SCENE], pa.binary()),
            "objects": pa.array(objects, pa.list_(item)),
            "older": pa.array(
                older, pa.struct([("bbox", pa.list_(pa.list_(pa.float32(), 4))), ("category", pa.list_(pa.int64()))])
            ),
        }
    )
    pq.write_table(table, folder / "a.parquet", row_group_size=10)
    return folder


def rows(batches: Any) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    for batch in batches:
        for at, number in enumerate(batch["id"].tolist()):
            assert number not in found
            found[number] = {name: values[at] for name, values in batch.items()}
    return found


def loader(data: Path, image: fb.Image, boxes: fb.Boxes = BOXES, **options: Any) -> fb.Loader:
    decode = {
        "image": image,
        "classes": fb.Mask(of="image"),
        "objects.bbox": boxes,
        "objects.png": fb.Masks(of="image"),
        "objects.rle": fb.Masks(of="image"),
        "objects.segmentation": fb.Keypoints(of="image", flat=True),
        "objects.keypoints": fb.Keypoints(of="image", numbers=3, flat=True),
    }
    columns = ["id", "image", "classes", "objects.*"]
    settings = {"batch_size": 5, "shuffle": fb.Shuffle(seed=11), "flatten": ["objects"], **options}
    return fb.Loader(data, columns=columns, decode=decode, **settings)


def same(first: Any, second: Any) -> None:
    assert first.keys() == second.keys()
    for number in first:
        for name, value in first[number].items():
            other = second[number][name]
            if hasattr(value, "tolist"):
                assert value.tolist() == other.tolist(), (number, name)
            else:
                assert value == other, (number, name)


def changed(row: dict[str, Any], kind: str, found: dict[str, Any]) -> dict[str, Any]:
    """Returns the row as torchvision transforms it with the same crop, flips and sizes."""
    torch = pytest.importorskip("torch")
    tv = pytest.importorskip("torchvision.tv_tensors")
    F = pytest.importorskip("torchvision.transforms.v2.functional")
    top, left, height, width, across, down, whole_height, whole_width = found["image.geometry"].tolist()
    seen = (int(whole_height), int(whole_width))
    canvas = found["image"].shape[:2]
    masks = np.stack([row["classes"], *row["masks"]])
    values = {
        "image": tv.Image(torch.from_numpy(row["pixels"]).permute(2, 0, 1)),
        "boxes": tv.BoundingBoxes(torch.from_numpy(row["boxes"].reshape(-1, 4)), format="XYWH", canvas_size=seen),  # type: ignore[call-overload]
        "masks": tv.Mask(torch.from_numpy(masks)),
    }
    size = tuple(found.get("image.size", np.array(canvas)).tolist())

    def flipped(value: Any) -> Any:
        value = F.horizontal_flip(value) if across else value
        return F.vertical_flip(value) if down else value

    def transformed(value: Any) -> Any:
        if kind in ("crop", "reflect", "edge"):
            # Padding moves boxes in the same way in every mode.
            mode = "constant" if kind == "crop" or isinstance(value, tv.BoundingBoxes) else kind
            # This is enough for any crop, but less than the side of the image, because more cannot be reflected.
            around = 45
            value = F.pad(value, [around] * 4, padding_mode=mode)
            value = F.crop(value, int(top) + around, int(left) + around, int(height), int(width))
            return flipped(value)
        if kind == "iou":
            value = F.resize(F.crop(value, int(top), int(left), int(height), int(width)), list(canvas))
            return flipped(value)
        resized = [round(seen[0] * size[0] / height), round(seen[1] * size[1] / width)]
        value = F.resize(value, resized)
        value = F.crop(value, round(top * resized[0] / seen[0]), round(left * resized[1] / seen[1]), *size)
        value = flipped(value)
        above, before = ((canvas[0] - size[0]) // 2, (canvas[1] - size[1]) // 2) if kind == "middle" else (0, 0)
        return F.pad(value, [before, above, canvas[1] - size[1] - before, canvas[0] - size[0] - above])

    made = {name: transformed(value) for name, value in values.items()}
    made["boxes"] = F.clamp_bounding_boxes(made["boxes"])
    return {name: value.numpy() for name, value in made.items()}


@pytest.mark.parametrize("kind", IMAGES)
def test_image_boxes_and_masks_are_those_of_torchvision(data: Path, kind: str) -> None:
    with loader(data, IMAGES[kind].emit_geometry()) as train:
        found = rows(train.epoch(1))
    assert sorted(found) == list(range(ROWS))
    for number, row in found.items():
        expected = changed(SCENE[number], kind, row)
        image = np.transpose(expected["image"], (1, 2, 0)).astype(int)
        difference = np.abs(row["image"].astype(int) - image)
        assert difference.mean() < 1, number
        if kind in ("crop", "reflect", "edge") and number % 3:
            assert not difference.any()
        boxes = expected["boxes"].reshape(-1, 4)
        np.testing.assert_allclose(row["objects.bbox"], boxes, atol=0.01, err_msg=str(number))
        unlike = row["classes"] != expected["masks"][0]
        assert unlike.mean() < 0.001
        stored = expected["masks"][1:]
        assert row["objects.png"].shape == stored.shape
        assert (row["objects.png"] != stored).mean() < 0.001 if len(stored) else True
        assert row["objects.rle"].tolist() == row["objects.png"].tolist()


def test_points_and_polygons_of_objects_follow(data: Path) -> None:
    with loader(data, IMAGES["jitter"].emit_geometry()) as train:
        found = rows(train.epoch(0))
    for number, row in found.items():
        top, left, height, width, across = row["image.geometry"][:5].astype(float)
        high, wide = row["image.size"].tolist()
        assert len(row["objects.segmentation"]) == len(SCENE[number]["corners"])
        for at, corners in enumerate(SCENE[number]["corners"]):
            x, y = np.array(corners).reshape(-1, 2).T
            x, y = (x - left) * wide / width, (y - top) * high / height
            expected = np.stack([wide - 1 - x if across else x, y], axis=1).ravel()
            (polygon,) = row["objects.segmentation"][at]
            np.testing.assert_allclose(polygon, expected, atol=0.01)
            points = row["objects.keypoints"][at].reshape(2, 3)
            np.testing.assert_allclose(points[:, :2].ravel(), expected[:4], atol=0.01)
            assert points[:, 2].tolist() == [2, 1]


@pytest.mark.parametrize("kind", ["crop", "jitter", "iou"])
def test_all_fields_of_an_object_go_with_its_box(data: Path, kind: str) -> None:
    image = IMAGES[kind].emit_geometry()
    with loader(data, image) as whole, loader(data, image, DROPPING) as train:
        all_rows, found = rows(whole.epoch(3)), rows(train.epoch(3))
    dropped = 0
    for number, row in found.items():
        before = all_rows[number]
        top, left, height, width = before["image.geometry"][:4].astype(float)
        x, y, w, h = SCENE[number]["boxes"].reshape(-1, 4).T.astype(float)
        seen = np.clip(np.minimum(x + w, left + width) - np.maximum(x, left), 0, None)
        seen *= np.clip(np.minimum(y + h, top + height) - np.maximum(y, top), 0, None)
        kept = np.flatnonzero(seen / (w * h) >= 0.3 * (1 - 1e-4))
        dropped += len(x) - len(kept)
        for name in (name for name in row if name.startswith("objects.")):
            assert len(row[name]) == len(kept), name
            for at, from_ in enumerate(kept):
                np.testing.assert_array_equal(np.asarray(row[name][at]), np.asarray(before[name][from_]))
    assert dropped


def test_boxes_are_those_that_torchvision_keeps_around_a_crop(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """torchvision's own transforms get the crops that forebay drew in place of their random numbers."""
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    tv = pytest.importorskip("torchvision.tv_tensors")
    boxes = fb.Boxes(of="image", format="xywh", center_visible=True, along=["objects.*"])
    image = fb.Image.random_iou_crop(48, boxes="objects.bbox", sampler_options=[0.0]).emit_geometry()
    with loader(data, image, boxes) as train:
        found = rows(train.epoch(2))
    crop = v2.Compose([v2.RandomIoUCrop(sampler_options=[0.0]), v2.Resize((48, 48)), v2.SanitizeBoundingBoxes()])
    dropped = 0
    for number, row in found.items():
        stored = SCENE[number]["boxes"]
        top, left, height, width, _, _, whole_height, whole_width = row["image.geometry"].tolist()
        if not len(stored):
            assert row["objects.bbox"].shape == (0, 4)
            continue
        # torchvision rounds down, so it gets the drawn sides and places with half a pixel added.
        sides = [((width + 0.5) / whole_width - 0.3) / 0.7, ((height + 0.5) / whole_height - 0.3) / 0.7]
        corner = [(left + 0.5) / max(whole_width - width, 1), (top + 0.5) / max(whole_height - height, 1)]
        draws = iter([torch.tensor(sides), torch.tensor(corner)])
        with monkeypatch.context() as patched:
            patched.setattr(torch, "rand", lambda count, draws=draws: next(draws))
            target = {
                "boxes": tv.BoundingBoxes(torch.from_numpy(stored), format="XYWH", canvas_size=SCENE[number]["classes"].shape),
                "labels": torch.tensor(SCENE[number]["labels"]),
            }
            shown, target = crop(tv.Image(torch.from_numpy(SCENE[number]["pixels"]).permute(2, 0, 1)), target)
        assert not list(draws), "torchvision took the crop that was drawn here"
        np.testing.assert_allclose(row["objects.bbox"], target["boxes"].numpy(), atol=0.01)
        assert row["objects.category"].tolist() == target["labels"].tolist()
        difference = np.abs(row["image"].astype(int) - np.transpose(shown.numpy(), (1, 2, 0)).astype(int))
        assert difference.mean() < 1, number
        dropped += len(stored) - len(target["boxes"])
    assert dropped


@pytest.mark.parametrize("kind", ["crop", "jitter", "shortest"])
@pytest.mark.parametrize("min_size", [1, 12.5])
def test_boxes_are_those_that_torchvision_keeps_by_their_sides(data: Path, kind: str, min_size: float) -> None:
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    tv = pytest.importorskip("torchvision.tv_tensors")
    image = IMAGES[kind].emit_geometry()
    boxes = fb.Boxes(of="image", format="xywh", out_format="xyxy", min_size=min_size, along=["objects.*"])
    whole_boxes = fb.Boxes(of="image", format="xywh", out_format="xyxy")
    with loader(data, image, whole_boxes) as whole, loader(data, image, boxes) as train:
        all_rows, found = rows(whole.epoch(3)), rows(train.epoch(3))
    sanitize = v2.SanitizeBoundingBoxes(min_size=min_size)
    dropped = 0
    for number, row in found.items():
        before = all_rows[number]
        size = row["image"].shape[:2]
        target = {
            "boxes": tv.BoundingBoxes(torch.from_numpy(before["objects.bbox"]), format="XYXY", canvas_size=size),
            "labels": torch.arange(len(before["objects.bbox"])),
        }
        kept = sanitize(target)["labels"].tolist()
        dropped += len(before["objects.bbox"]) - len(kept)
        for name in (name for name in row if name.startswith("objects.")):
            assert len(row[name]) == len(kept), name
            for at, from_ in enumerate(kept):
                np.testing.assert_array_equal(np.asarray(row[name][at]), np.asarray(before[name][from_]))
    assert dropped or (min_size == 1 and kind != "crop")


def test_formats_in_and_out_are_the_same_boxes(data: Path) -> None:
    image = fb.Image.fit((100, 140), resize=60).flip()
    found = {}
    for out_format in ("xyxy", "xywh", "cxcywh"):
        for normalized in (False, True):
            boxes = fb.Boxes(of="image", format="xywh", out_format=out_format, out_normalized=normalized)  # type: ignore[arg-type]
            decode = {"image": image, "older.bbox": boxes}
            columns = ["id", "image", "older.bbox"]
            with fb.Loader(data, columns=columns, flatten=["older"], decode=decode, batch_size=ROWS) as train:
                values = next(iter(train))["older.bbox"].values.astype(float)
            if normalized:
                values = values * [140, 100, 140, 100]
            a, b, c, d = values.T
            as_corners = {
                "xyxy": [a, b, c, d],
                "xywh": [a, b, a + c, b + d],
                "cxcywh": [a - c / 2, b - d / 2, a + c / 2, b + d / 2],
            }
            found[out_format, normalized] = np.stack(as_corners[out_format])
    for corners in found.values():
        np.testing.assert_allclose(corners, found["xyxy", False], atol=1e-3)


def test_objects_are_padded_with_a_mask(data: Path) -> None:
    pad = {
        "objects.bbox": fb.Pad(5, mask=True),
        "objects.category": fb.Pad(5, value=-1),
        "objects.png": fb.Pad(5),
    }
    with loader(data, IMAGES["jitter"], DROPPING) as ragged, loader(data, IMAGES["jitter"], DROPPING, pad=pad) as padded:
        loose, found = rows(ragged.epoch(2)), rows(padded.epoch(2))
    for number, row in found.items():
        count = len(loose[number]["objects.bbox"])
        assert row["objects.bbox"].shape == (5, 4) and row["objects.png"].shape == (5, 72, 64)
        assert row["objects.bbox.mask"].tolist() == [at < count for at in range(5)]
        np.testing.assert_array_equal(row["objects.bbox"][:count], loose[number]["objects.bbox"])
        np.testing.assert_array_equal(row["objects.png"][:count], loose[number]["objects.png"])
        assert row["objects.category"].tolist() == [*loose[number]["objects.category"], *[-1] * (5 - count)]
        assert not row["objects.bbox"][count:].any() and not row["objects.png"][count:].any()
    with pytest.raises(fb.errors.BadRowError, match="a list of 3 items, which is padded to 2"):
        with loader(data, IMAGES["jitter"], pad={"objects.bbox": fb.Pad(2)}) as train:
            list(train)


@pytest.mark.parametrize(
    ("kind", "tier"),
    [("crop", "pixels"), ("reflect", "coefficients"), ("shortest", "pixels"), ("jitter", "pixels"), ("iou", "pixels")],
)
def test_what_a_cache_keeps_is_cropped_alike(data: Path, tmp_path: Path, kind: str, tier: Any) -> None:
    with loader(data, IMAGES[kind], DROPPING) as train:
        truth = [rows(train.epoch(number)) for number in (0, 1)]
    cache = fb.DiskCache(tmp_path, max_bytes="1g", tier=tier)
    with loader(data, IMAGES[kind], DROPPING, cache=cache) as train:
        for number in (0, 1):
            same(rows(train.epoch(number)), truth[number])


@pytest.mark.parametrize("kind", ["reflect", "jitter", "iou"])
def test_a_run_that_resumes_on_another_world_draws_the_same(data: Path, kind: str) -> None:
    order = {"shuffle": fb.Shuffle(seed=5, lanes=2), "deny": {"id": [4, 9]}}
    with loader(data, IMAGES[kind], DROPPING, global_batch_size=8, batch_size=None, **order) as train:
        whole = rows(train.epoch(0))
    assert sorted(whole) == [number for number in range(ROWS) if number not in (4, 9)]
    with loader(data, IMAGES[kind], DROPPING, global_batch_size=8, batch_size=None, threads=1, **order) as train:
        epoch = iter(train.epoch(0))
        found = rows([next(epoch), next(epoch)])
        state = train.state_dict()
    for rank in range(2):
        shard = fb.Shard(rank=rank, world=2)
        with loader(
            data, IMAGES[kind], DROPPING, global_batch_size=8, batch_size=None, shard=shard, **order
        ) as train:
            train.load_state_dict(state)
            rest = rows(iter(train))
            assert not found.keys() & rest.keys()
            found |= rest
    same(found, whole)


def test_rewinding_and_the_loader_of_a_spec_draw_the_same(data: Path) -> None:
    with loader(data, IMAGES["iou"], DROPPING) as train:
        epoch = iter(train.epoch(0))
        first = rows([next(epoch)])
        state = train.state_dict()
        rest = rows(epoch)
        train.load_state_dict(state)
        again = rows(iter(train))
    assert not first.keys() & rest.keys()
    same(again, rest)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"rle": {"counts": [5, 5], "size": [8, 8]}}, "run lengths of 10 pixels in all for a mask of 8x8"),
        ({"rle": {"counts": [64], "size": [4, 16]}}, "a mask of 16x4 pixels for an image of 8x8"),
        ({"rle": None}, "null in place of a mask"),
        ({"png": png(np.zeros((9, 8), np.uint8))}, "a mask of 8x9 pixels for an image of 8x8"),
        ({"polygon": [[1.0, 1.0, 2.0, 2.0]]}, "a polygon of 4 numbers"),
        ({"bbox": [5.0, 5.0, -1.0, 2.0]}, "a box whose right or bottom side comes first"),
        ({"bbox": [5.0, float("nan"), 1.0, 2.0]}, "NaN as a coordinate"),
    ],
)
def test_a_bad_object_is_a_bad_row_with_its_place(tmp_path: Path, changes: dict[str, Any], said: str) -> None:
    item = {
        "bbox": [1.0, 1.0, 3.0, 3.0],
        "rle": {"counts": [60, 4], "size": [8, 8]},
        "png": png(np.ones((8, 8), np.uint8)),
        "polygon": [[1.0, 1.0, 4.0, 1.0, 4.0, 4.0]],
    }
    types = pa.struct(
        [
            ("bbox", pa.list_(pa.float64())),
            ("rle", pa.struct([("counts", pa.list_(pa.int32())), ("size", pa.list_(pa.int32(), 2))])),
            ("png", pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
            ("polygon", pa.list_(pa.list_(pa.float32()))),
        ]
    )
    item["png"] = {"bytes": item["png"], "path": None}
    if "png" in changes:
        changes = {"png": {"bytes": changes["png"], "path": None}}
    objects = [[item], [item, {**item, **changes}], []]
    image = png(np.zeros((8, 8, 3), np.uint8))
    pq.write_table(pa.table({"image": [image] * 3, "objects": pa.array(objects, pa.list_(types))}), tmp_path / "a.parquet")
    masks = {f"objects.{name}": fb.Masks(of="image") for name in ("rle", "png", "polygon")}
    decode = {"image": fb.Image.resize(8, 8), "objects.bbox": fb.Boxes(of="image", format="xywh"), **masks}
    with fb.Loader(tmp_path, flatten=["objects"], decode=decode, batch_size=3) as train:  # type: ignore[arg-type]
        with pytest.raises(fb.errors.BadRowError, match=said) as caught:
            list(train)
        assert "row 1" in str(caught.value) and f"objects.{next(iter(changes))}" in str(caught.value)
    options = {"flatten": ["objects"], "decode": decode, "batch_size": 3, "on_bad_row": fb.Skip(at_most=1)}
    with fb.Loader(tmp_path, **options) as train:  # type: ignore[arg-type]
        batch = next(iter(train))
        assert batch["objects.polygon"].lengths.tolist() == [1, 0]
        assert batch["objects.png"].values.tolist() == [[[1] * 8] * 8]


def test_what_cannot_work_is_refused_with_the_next_move(data: Path) -> None:
    for make, said in [
        (lambda: fb.Image.random_crop(8, padding=8), "may then show nothing of the image"),
        (lambda: fb.Image.random_crop(8, padding=-1), "padding must be an int of at least 0, or two or four"),
        (lambda: fb.Image.random_crop(8, padding_mode="wrap"), "wrap"),
        (lambda: fb.Image.random_crop(8, fill=1, padding_mode="edge"), "fill is given without a canvas"),
        (lambda: fb.Image.random_shortest_size([], 8), "no shorter side to draw"),
        (lambda: fb.Image.random_shortest_size([0], 8), "min_size must be an int from 1 to 65535, or several"),
        (lambda: fb.Image.scale_jitter(8, scale_range=(2, 1)), "scale_range must be two finite numbers"),
        (lambda: fb.Image.random_iou_crop(8, boxes=7), "boxes must be a str"),
        (lambda: fb.Image.random_iou_crop(8, boxes="b", max_scale=2), "at most 1 of each side"),
        (lambda: fb.Image.random_iou_crop(8, boxes="b", trials=0), "0 trials of a crop"),
        (lambda: fb.Image.random_iou_crop(8, boxes="b", sampler_options=[]), "sampler_options"),
        (lambda: fb.Boxes(of="image", out_format="yxyx"), "out_format"),
        (lambda: fb.Keypoints(of="image", flat=1), "flat must be True or False"),
    ]:
        with pytest.raises(fb.errors.InvalidError, match=said):
            make()
    image = fb.Image.random_iou_crop(8, boxes="objects.bbox")
    with pytest.raises(fb.errors.InvalidError, match="not delivered as boxes"):
        fb.Loader(data, flatten=["objects"], decode={"image": image}, batch_size=4)
    with pytest.raises(fb.errors.UnknownColumnError, match="add .objects. to"):
        fb.Loader(data, columns=["image", "objects.bbox"], batch_size=4)


@pytest.mark.parametrize("kind", IMAGES)
def test_a_value_is_written_as_the_code_that_makes_it(kind: str) -> None:
    image = IMAGES[kind]
    assert eval(repr(image), {"forebay": fb}) == image
