"""Masks and key points of COCO and YOLO, as ``forebay write`` writes them and loaders read them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_write import picture, refused, start, write

import forebay as fb

HEIGHT, WIDTH = 32, 48
SQUARE = [8.0, 6.0, 20.0, 6.0, 20.0, 18.0, 8.0, 18.0]
SMALL = [30.0, 20.0, 36.0, 20.0, 36.0, 26.0, 30.0, 26.0]
POINTS = [10, 8, 2, 18, 16, 1, 0, 0, 0]


def mask_of(*outlines: list[float]) -> np.ndarray[Any, Any]:
    """Returns a mask of rectangles. Their right and lower edges lie outside the mask."""
    mask = np.zeros((HEIGHT, WIDTH), np.uint8)
    for left, top, right, _, _, bottom, *_ in outlines:
        mask[int(top) : int(bottom), int(left) : int(right)] = 1
    return mask


def counts(mask: np.ndarray[Any, Any]) -> list[int]:
    pixels = mask.T.ravel()
    ends = np.flatnonzero(np.diff(pixels)) + 1
    lengths: list[int] = np.diff(np.concatenate([[0], ends, [pixels.size]])).tolist()
    return [0, *lengths] if pixels[0] else lengths


def compressed(lengths: list[int]) -> str:
    """Run lengths as the C code of pycocotools writes them."""
    text = ""
    for at, number in enumerate(lengths):
        number -= lengths[at - 2] if at > 2 else 0
        more = True
        while more:
            group = number & 0x1F
            number >>= 5
            more = number != -1 if group & 0x10 else number != 0
            text += chr((group | (0x20 if more else 0)) + 48)
    return text


class Coco:
    """A folder of three images, and a file with their annotations in COCO's format."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder / "images"
        self.file = folder / "instances.json"
        self.folder.mkdir()
        self.annotations: list[dict[str, Any]] = []
        for number in range(3):
            (self.folder / f"{number}.png").write_bytes(picture(number, "PNG"))

    def add(self, image: float, **fields: Any) -> Coco:
        box = [8, 6, 12, 12]
        annotation = {"id": len(self.annotations) + 1, "image_id": image, "category_id": 1, "bbox": box, "iscrowd": 0}
        self.annotations.append(annotation | fields)
        return self

    def save(self, **more: Any) -> Path:
        images = [{"id": number, "file_name": f"{number}.png"} for number in range(3)]
        about = {"images": images, "categories": [{"id": 1, "name": "cat"}], "annotations": self.annotations}
        self.file.write_text(json.dumps(about | more))
        return self.file


@pytest.fixture
def coco(tmp_path: Path) -> Coco:
    return Coco(tmp_path)


def crop() -> fb.Image:
    """Crops the middle 24 x 24 pixels of the image and mirrors them."""
    return fb.Image.center_crop(24, resize=HEIGHT).flip(1.0)


def loaded(out: Path, image: fb.Image, **decode: Any) -> list[dict[str, Any]]:
    """The rows of a data set, in their order."""
    loader = fb.Loader(out, decode={"image": image, **decode}, batch_size=1, shuffle=None)
    return [{name: batch[name][0] for name in batch} for batch in loader]


def cropped(mask: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    return mask[4:28, 12:36][:, ::-1]


def test_outlines_and_key_points_of_coco_follow_crops(coco: Coco, tmp_path: Path) -> None:
    coco.add(0, segmentation=[SQUARE, SMALL], keypoints=POINTS, num_keypoints=2)
    coco.add(2, segmentation=[SMALL, [1, 2, 3, 4]])
    coco.add(2, segmentation=[])
    process = start(coco.folder, tmp_path / "out", "--coco", coco.save())
    _, err = process.communicate()
    assert process.returncode == 0, err
    assert "fewer than three points: 1 outline" in err and "cover no pixel: 1 object" in err
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == ["image", "boxes", "labels", "masks", "keypoints", "path"]
    assert table["masks"].to_pylist() == [[[SQUARE, SMALL]], [], [[SMALL], []]]
    assert table["keypoints"].to_pylist() == [[[[10, 8, 2], [18, 16, 1], [0, 0, 0]]], [], [[], []]]
    features = json.loads(table.schema.metadata[b"huggingface"])["info"]["features"]
    assert features["keypoints"]["feature"]["feature"]["length"] == 3
    boxes = fb.Boxes(of="image", format="xywh", min_visible=0.1, along=["labels", "masks", "keypoints"])
    following = {"boxes": boxes, "masks": fb.Masks(of="image"), "keypoints": fb.Keypoints(of="image")}
    rows = loaded(tmp_path / "out", crop(), **following)
    np.testing.assert_array_equal(rows[0]["masks"][0], cropped(mask_of(SQUARE, SMALL)))
    assert [len(row["masks"]) for row in rows] == [1, 0, 2]
    np.testing.assert_array_equal(rows[2]["masks"], [cropped(mask_of(SMALL)), np.zeros((24, 24))])
    # A point at x = 10 is 2 pixels left of the crop, which is mirrored.
    np.testing.assert_allclose(rows[0]["keypoints"][0], [[25, 4, 2], [17, 12, 1], [35, -4, 0]])
    np.testing.assert_allclose(rows[0]["boxes"], [[16, 2, 8, 12]])


@pytest.mark.parametrize("form", ["numbers", "text"])
def test_run_lengths_of_coco_are_masks_beside_outlines(form: str, coco: Coco, tmp_path: Path) -> None:
    runs = counts(mask_of(SQUARE))
    segmentation = {"counts": compressed(runs) if form == "text" else runs, "size": [HEIGHT, WIDTH]}
    coco.add(0, segmentation=segmentation).add(0, segmentation=[SMALL, SQUARE]).add(1)
    crowd = {"counts": [3], "size": [1, 3]}
    coco.add(1, segmentation=crowd, iscrowd=True)
    write(coco.folder, tmp_path / "out", "--coco", coco.save())
    table = pq.read_table(tmp_path / "out")
    assert table.schema.field("masks").type.value_type.field("counts").type == pa.string()
    both = compressed(counts(mask_of(SQUARE, SMALL)))
    size = [HEIGHT, WIDTH]
    none = compressed([HEIGHT * WIDTH])
    assert table["masks"].to_pylist() == [
        [{"counts": compressed(runs), "size": size}, {"counts": both, "size": size}],
        [{"counts": none, "size": size}],
        [],
    ]
    rows = loaded(tmp_path / "out", crop(), masks=fb.Masks(of="image"))
    np.testing.assert_array_equal(rows[0]["masks"], [cropped(mask_of(SQUARE)), cropped(mask_of(SQUARE, SMALL))])


def test_identifiers_of_coco_may_be_floats(coco: Coco, tmp_path: Path) -> None:
    coco.add(2.0, id=7.0, category_id=1.0, iscrowd=0.0)
    write(coco.folder, tmp_path / "out", "--coco", coco.save(categories=[{"id": 1.0, "name": "cat"}]))
    assert pq.read_table(tmp_path / "out")["labels"].to_pylist() == [[], [], [0]]
    coco.annotations[0]["image_id"] = 2.5
    error = refused(coco.folder, tmp_path / "out2", "--coco", coco.save())
    assert "annotations[0]: the identifier 2.5 is not a whole number of 64 bits at line 1 column" in error


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"segmentation": [[1, 2, 3, 4, 5, 6, 7]]}, "the annotation with the id 1: an outline of 7 numbers"),
        ({"keypoints": [1, 2]}, "the annotation with the id 1: 2 numbers as keypoints"),
        ({"segmentation": {"counts": [1, 2], "size": [32, 48]}}, "the annotation with the id 1: run lengths of 3 pixels"),
        ({"segmentation": {"counts": [6], "size": [2, 3]}}, "0.png: object 0: a mask of 3x2 pixels for an image of 48x32"),
        ({"segmentation": "x"}, "annotations[1]: a segmentation is a list of outlines, or an object with counts and size at line 1 column"),
        ({"iscrowd": "yes"}, 'annotations[1]: iscrowd is "yes", and not 0 or 1 at line 1 column'),
        ({"bbox": [1, 2, 3]}, "annotations[1]: invalid length 3, expected an array of length 4 at line 1 column"),
        ({"bbox": [float("nan"), 1, 2, 3]}, "annotations[1]: expected value at line 1 column"),
        ({"bbox": [1, 2, 1e300, 3]}, "annotations[0]: number out of range at line 1 column"),
        ({"bbox": [1, 2, 3, 2e30]}, "the annotation with the id 1: bbox: number 3 is 2"),
        ({"keypoints": [1, -2e30, 2]}, "the annotation with the id 1: keypoints: number 1 is -2"),
        (
            {"segmentation": [[1, 2, 3, 4, 5, 6], [1, 2, 3, 4, 1e300, 6]]},
            "the annotation with the id 1: segmentation[1]: number 4 is 1e300 (coordinates are from -131070.0 to 131070.0)",
        ),
        ({"segmentation": [[1, 2, 3, 4, 131071, 6]]}, "segmentation[0]: number 4 is 131071.0"),
        ({"area": float("-inf")}, "if this is NaN or Infinity, which Python's json writes"),
    ],
)
def test_damaged_annotations_of_coco_are_refused(fields: dict[str, Any], words: str, coco: Coco, tmp_path: Path) -> None:
    has_valid_neighbour = "annotations[1]" in words
    if has_valid_neighbour:
        coco.add(2)
    coco.add(0, **fields)
    error = refused(coco.folder, tmp_path / "out", "--coco", coco.save())
    assert words in error and ("instances.json" in error or "0.png" in error)


def test_items_of_coco_are_named_in_each_list(coco: Coco, tmp_path: Path) -> None:
    good = [{"id": number, "file_name": f"{number}.png"} for number in range(3)]
    for key, items, words in [
        ("images", [*good[:2], {"id": 2}], "images[2]: missing field `file_name` at line 1 column"),
        ("categories", [{"id": "x", "name": "cat"}], "categories[0]: invalid type: string \"x\", expected"),
        ("images", {"0": good[0]}, 'invalid type: map, expected the list "images"'),
        ("images", [*good, {"id": 7, "file_name": "./1.png"}], "the images with the identifiers 1 and 7 have one file"),
        ("images", [*good, {"id": 7, "file_name": "../x.png"}], 'file_name "../x.png" leads out of the folder of the images'),
        ("images", [{"id": 7, "file_name": "/etc/passwd"}], 'file_name "/etc/passwd" leads out of the folder of the images'),
    ]:
        assert words in refused(coco.folder, tmp_path / "out", "--coco", coco.save(**{key: items}))


def test_a_byte_order_mark_is_no_part_of_annotations(coco: Coco, tmp_path: Path) -> None:
    coco.add(1).save()
    coco.file.write_bytes(b"\xef\xbb\xbf" + coco.file.read_bytes())
    write(coco.folder, tmp_path / "out", "--coco", coco.file)
    yolo = Yolo(tmp_path)
    yolo.label(0, "0 0.5 0.5 0.25 0.25")
    for path in [yolo.data, yolo.labels / "0.txt"]:
        path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    assert write(yolo.images, tmp_path / "out2", "--yolo")["classes"] == ["cat"]


def remarks(*words: object) -> str:
    process = start(*words)
    _, err = process.communicate()
    assert process.returncode == 0, err
    return err


def test_boxes_that_nothing_learns_from_are_counted(coco: Coco, tmp_path: Path) -> None:
    for box in [[8, 6, -3, 4], [8, 6, 3, 0], [48, 0, 5, 5], [0, 0, 48.5, 32.5], [40, 0, 40, 8]]:
        coco.add(0, bbox=box)
    sizes = [{"id": number, "file_name": f"{number}.png", "width": WIDTH, "height": HEIGHT} for number in range(3)]
    said = remarks(coco.folder, tmp_path / "out", "--coco", coco.save(images=sizes))
    form = "(bbox is left, top, width and height in pixels)"
    assert "left out, since the width or height of their box is below 0: 1 annotation" in said
    assert f"whose width or height is 0 {form}: 1 object" in said
    assert f"outside of the image {form}: 1 object" in said and f"beyond the image {form}: 1 object" in said
    assert len(pq.read_table(tmp_path / "out")["boxes"].to_pylist()[0]) == 4
    boxes = fb.Boxes(of="image", format="xywh", min_size=1, along=["labels"])
    [first, *_] = loaded(tmp_path / "out", fb.Image.resize(HEIGHT, WIDTH), boxes=boxes)
    np.testing.assert_allclose(first["boxes"], [[0, 0, 48, 32], [40, 0, 8, 8]])
    said = remarks(coco.folder, tmp_path / "out2", "--coco", coco.save())
    assert "height is 0" in said and "outside" not in said
    yolo = Yolo(tmp_path)
    yolo.label(0, "0 0.5 0.5 0 0.25", "0 0.9 0.5 0.5 0.5", "0 0.5 0.5 1 1")
    said = remarks(yolo.images, tmp_path / "out3", "--yolo")
    assert "height is 0" in said and "beyond the image" in said and said.count(": 1 object") == 2


def test_another_mask_is_another_job(coco: Coco, tmp_path: Path) -> None:
    coco.add(0, segmentation=[SQUARE], keypoints=POINTS)
    write(coco.folder, tmp_path / "out", "--coco", coco.save())
    assert write(coco.folder, tmp_path / "out", "--coco", coco.file)["files_before"] == 1
    coco.annotations[0]["segmentation"] = [SMALL]
    assert "another run" in refused(coco.folder, tmp_path / "out", "--coco", coco.save())
    coco.annotations[0] |= {"segmentation": [SQUARE], "keypoints": [1, *POINTS[1:]]}
    assert "another run" in refused(coco.folder, tmp_path / "out", "--coco", coco.save())


class Yolo:
    """A folder of two images of YOLO's layout."""

    def __init__(self, folder: Path, more: str = "") -> None:
        self.images, self.labels = folder / "set/images/train", folder / "set/labels/train"
        self.images.mkdir(parents=True)
        self.labels.mkdir(parents=True)
        for number in range(2):
            (self.images / f"{number}.png").write_bytes(picture(number, "PNG"))
        self.data = folder / "set/data.yaml"
        self.data.write_text(f"names: [cat]\n{more}")

    def label(self, image: int, *lines: str) -> None:
        (self.labels / f"{image}.txt").write_text("\n".join(lines))


def shares(outline: list[float]) -> str:
    return " ".join(f"{number / (HEIGHT if at % 2 else WIDTH):.6f}" for at, number in enumerate(outline))


def test_outlines_of_yolo_are_masks_and_boxes(tmp_path: Path) -> None:
    yolo = Yolo(tmp_path)
    yolo.label(0, f"0 {shares(SQUARE)}", f"0 {shares(SMALL)}")
    yolo.label(1)
    write(yolo.images, tmp_path / "out", "--yolo")
    table = pq.read_table(tmp_path / "out")
    assert table.column_names == ["image", "boxes", "labels", "masks", "path"]
    np.testing.assert_allclose(table["boxes"].to_pylist()[0], [[8, 6, 12, 12], [30, 20, 6, 6]], atol=1e-3)
    np.testing.assert_allclose(table["masks"].to_pylist()[0], [[SQUARE], [SMALL]], atol=1e-3)
    rows = loaded(tmp_path / "out", crop(), masks=fb.Masks(of="image"))
    np.testing.assert_array_equal(rows[0]["masks"], [cropped(mask_of(SQUARE)), cropped(mask_of(SMALL))])
    yolo.label(1, "", "0 0.5 0.5 0.1 0.1")
    error = refused(yolo.images, tmp_path / "out2", "--yolo")
    assert "1.txt: line 2 has only a box, and line 1 of" in error and "0.txt has an outline" in error


def test_images_of_yolo_have_a_short_relative_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    yolo = Yolo(tmp_path)
    yolo.label(0, "0 0.5 0.5 0.25 0.25")
    for folder, name in [(tmp_path / "set/images", "train"), (tmp_path, "set/images/train"), (yolo.images, ".")]:
        monkeypatch.chdir(folder)
        assert write(name, tmp_path / f"out-{len(name)}", "--yolo")["classes"] == ["cat"]
    yolo.data.unlink()
    monkeypatch.chdir(tmp_path / "set")
    assert write("images/train", tmp_path / "unnamed", "--yolo")["classes"] == ["0"]
    yolo.label(0, "0 0.5 0.5 0.25 0.25 17")
    assert "0.txt: line 1 is not" in refused("images/train", tmp_path / "more", "--yolo")


def test_key_points_of_yolo_without_their_shape_are_remarked_on(tmp_path: Path) -> None:
    yolo = Yolo(tmp_path)
    yolo.label(0, "0 0.5 0.5 0.2 0.2 0.45 0.45 0.55 0.45 0.5 0.55", "0 0.3 0.3 0.2 0.2 0.25 0.25 0.35 0.25 0.3 0.35")
    said = remarks(yolo.images, tmp_path / "out", "--yolo")
    assert "read as an outline of 5 points" in said and "data.yaml, such as [3, 2] or [2, 3], and write them" in said
    yolo.data.unlink()
    assert "such as [3, 2]" in remarks(yolo.images, tmp_path / "out2", "--yolo")
    yolo.label(1, f"0 {shares(SQUARE)}")
    assert "kpt_shape" not in remarks(yolo.images, tmp_path / "out3", "--yolo")
    yolo.data.write_text("names: [cat]\nkpt_shape: [3, 2]\n")
    yolo.label(1)
    assert "outline" not in remarks(yolo.images, tmp_path / "out4", "--yolo")
    assert pq.read_table(tmp_path / "out4")["keypoints"].to_pylist()[0][0][0] == pytest.approx([21.6, 14.4])


def test_labels_of_yolo_without_an_image_and_a_wrong_number_of_classes_are_told(tmp_path: Path) -> None:
    yolo = Yolo(tmp_path, "nc: 3\n")
    yolo.label(0, "0 0.5 0.5 0.25 0.25")
    yolo.label(1)
    for name, text in [("7", "0 0.5 0.5 0.25 0.25"), ("8", "0 0.5 0.5 0.5 0.5"), ("classes", "cat"), ("9", "")]:
        (yolo.labels / f"{name}.txt").write_text(text)
    said = remarks(yolo.images, tmp_path / "out", "--yolo")
    assert f"there is no image for their annotations: 2 files, such as {yolo.labels / '7.txt'}" in said
    assert "data.yaml has nc: 3, and 1 name: the names are taken" in said
    yolo.data.write_text("names: [cat]\nnc: 1\n")
    for name in ("7", "8"):
        (yolo.labels / f"{name}.txt").unlink()
    said = remarks(yolo.images, tmp_path / "out2", "--yolo")
    assert "nc:" not in said and "no image" not in said


def test_yaml_that_expands_to_gigabytes_is_refused_before(tmp_path: Path) -> None:
    yolo = Yolo(tmp_path)
    yolo.label(0, "0 0.5 0.5 0.25 0.25")
    levels = [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 10)}]" for level in range(1, 12)]
    yolo.data.write_text("\n".join(["names: [cat]", "a0: &a0 [x, x]", *levels]))
    error = refused(yolo.images, tmp_path / "out", "--yolo")
    assert "data.yaml: line 8: the values take too much memory" in error
    yolo.data.write_text("names: &n [cat]\nothers: *n\n")
    assert write(yolo.images, tmp_path / "out", "--yolo")["classes"] == ["cat"]


def test_key_points_of_yolo_follow_crops(tmp_path: Path) -> None:
    yolo = Yolo(tmp_path, "kpt_shape: [2, 3]\n")
    yolo.label(0, "0 0.291667 0.375 0.25 0.375 0.208333 0.25 2 0.375 0.5 1")
    write(yolo.images, tmp_path / "out", "--yolo")
    table = pq.read_table(tmp_path / "out")
    np.testing.assert_allclose(table["keypoints"].to_pylist()[0], [[[10, 8, 2], [18, 16, 1]]], atol=1e-3)
    rows = loaded(tmp_path / "out", crop(), keypoints=fb.Keypoints(of="image"))
    np.testing.assert_allclose(rows[0]["keypoints"][0], [[25, 4, 2], [17, 12, 1]], atol=1e-3)
    yolo.label(0, "0 0.5 0.5 0.25 0.25 0.5 0.5 2")
    error = refused(yolo.images, tmp_path / "out2", "--yolo")
    assert "0.txt: line 1 is not a class, a box and 2 key points of 3 numbers each" in error and "kpt_shape" in error
    yolo.label(0, "0 0.5 0.5 0.25 0.25 0.5 0.5 1e300 0.5 0.5 2")
    assert "0.txt: line 1 is not" in refused(yolo.images, tmp_path / "out2", "--yolo")
    yolo.data.write_text("names: [cat]\nkpt_shape: [2, 2]\n")
    yolo.label(0, "0 0.5 0.5 0.25 0.25 0.5 0.5 0.25 0.25")
    write(yolo.images, tmp_path / "out3", "--yolo")
    assert pq.read_table(tmp_path / "out3")["keypoints"].to_pylist()[0] == [[[24, 16], [12, 8]]]
    yolo.data.write_text("names: [cat]\nkpt_shape: 17\n")
    assert "kpt_shape is not two numbers" in refused(yolo.images, tmp_path / "out2", "--yolo")
