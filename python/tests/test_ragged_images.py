"""Images in their own sizes, without a canvas: each has the pixels that `fit` delivers, without the padding."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Pillow

import forebay as fb

ROWS = 45
BROKEN = (7, 8, 30)
LARGEST = (60, 90)


def pixels(row: int) -> np.ndarray[Any, Any]:
    random = np.random.default_rng(row)
    height, width = (int(side) for side in random.integers(3, 80, 2))
    return random.integers(0, 256, (height, width, 3), np.uint8)


def write(folder: Path, broken: tuple[int, ...] = ()) -> Path:
    cells = []
    for row in range(ROWS):
        file = io.BytesIO()
        Pillow.fromarray(pixels(row)).save(file, "PNG")
        cells.append(file.getvalue()[: 60 if row in broken else None])
    boxes = [[[1.0, 1.0, 3.0, 2.0]]] * ROWS
    table = pa.table({"id": pa.array(range(ROWS), pa.int64()), "image": pa.array(cells, pa.binary()), "boxes": boxes})
    pq.write_table(table, folder / "a.parquet", row_group_size=13)
    return folder


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("images"))


def delivered(data: Path, image: fb.Image, epoch: int = 0, **options: Any) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    with fb.Loader(data, decode={"image": image}, columns=["id", "image"], batch_size=6, **options) as loader:
        for batch in loader.epoch(epoch):
            for at, number in enumerate(batch["id"].tolist()):
                found[number] = {name: values[at] for name, values in batch.items()}
    return found


def test_images_have_their_own_pixels(data: Path) -> None:
    found = delivered(data, fb.Image.fit(80).ragged())
    assert sorted(found) == list(range(ROWS))
    for row, cells in found.items():
        np.testing.assert_array_equal(cells["image"], pixels(row))
        assert cells["image.size"].tolist() == list(pixels(row).shape[:2])


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float16", "float32", "bfloat16"])
@pytest.mark.parametrize("grey", [False, True])
def test_they_are_what_the_canvas_shows(data: Path, dtype: Any, grey: bool) -> None:
    image = fb.Image.fit(LARGEST, resize=40).flip().random_rotation(20).random_erasing(0.5).dtype(dtype)
    image = image.grayscale() if grey else image
    shuffle = fb.Shuffle(seed=3)
    canvas = delivered(data, image, 1, shuffle=shuffle)
    found = delivered(data, image.ragged(), 1, shuffle=shuffle)
    assert list(found) == list(canvas)
    for row, cells in found.items():
        height, width = canvas[row]["image.size"].tolist()
        expected = canvas[row]["image"][:height, :width]
        assert cells["image"].shape == (height, width, 1 if grey else 3)
        assert cells["image"].dtype == expected.dtype
        np.testing.assert_array_equal(cells["image"], expected)


def test_a_batch_is_one_block_of_memory(data: Path) -> None:
    with fb.Loader(data, decode={"image": fb.Image.fit(80).ragged()}, batch_size=6) as loader:
        assert loader.schema.layout()[1][1] == "ragged"
        batch = next(iter(loader))
        images = batch["image"]
        assert isinstance(images, fb.Ragged) and len(images) == 6
        block = images.values.values
        assert block.shape == (sum(image.shape[0] * image.shape[1] for image in images), 3)
        assert all(np.shares_memory(image, block) for image in images)
        assert [len(image) for image in images] == images.lengths.tolist() == batch["image.size"][:, 0].tolist()
        assert repr(images) == f"<forebay.Images: 6 images, {len(block)} pixels of 3 x uint8>"
        cut = images[2:4]
        assert len(cut) == 2 and repr(cut).startswith("<forebay.Images: 2 images")
        np.testing.assert_array_equal(cut[1], pixels(3))
        np.testing.assert_array_equal(images[-1], pixels(5))
        with pytest.raises(IndexError):
            images[6]
        padded = images.padded(fill=9)
        assert padded.shape == (6, *batch["image.size"].max(axis=0), 3)
        for at in range(6):
            height, width = batch["image.size"][at]
            np.testing.assert_array_equal(padded[at, :height, :width], pixels(at))
            assert (padded[at, height:] == 9).all() and (padded[at, :, width:] == 9).all()
        assert batch.to_arrow().column("image").to_pylist()[4] == pixels(4).tolist()


def test_bad_rows_leave_no_gap(tmp_path: Path) -> None:
    write(tmp_path, BROKEN)
    image = fb.Image.fit(80).ragged()
    found = delivered(tmp_path, image, on_bad_row=fb.Skip(at_most=3))
    assert sorted(found) == [row for row in range(ROWS) if row not in BROKEN]
    for row, cells in found.items():
        np.testing.assert_array_equal(cells["image"], pixels(row))
    with pytest.raises(fb.BadRowError, match="row 7"):
        delivered(tmp_path, image)


@pytest.mark.parametrize("tier", ["rows", "pixels"])
def test_a_cache_gives_the_same_and_shares_with_the_canvas(data: Path, tmp_path: Path, tier: Any) -> None:
    cache = fb.DiskCache(tmp_path, max_bytes="1GB", tier=tier)
    delivered(data, fb.Image.fit(LARGEST), cache=cache)
    image = fb.Image.fit(LARGEST).ragged().flip()
    for epoch in (0, 1):
        plain, kept = delivered(data, image, epoch), delivered(data, image, epoch, cache=cache)
        for row in range(ROWS):
            np.testing.assert_array_equal(kept[row]["image"], plain[row]["image"])


def test_boxes_follow(data: Path) -> None:
    decode = {"image": fb.Image.fit(80).ragged().flip(1), "boxes": fb.Boxes(of="image")}
    with fb.Loader(data, decode=decode, batch_size=6) as loader:
        for batch in loader:
            for image, boxes in zip(batch["image"], batch["boxes"], strict=True):
                width = image.shape[1]
                np.testing.assert_allclose(boxes, [[max(width - 3, 0), 1, width - 1, 2]])


def test_frameworks_hand_it_over_as_it_is(data: Path) -> None:
    torch = pytest.importorskip("torch")
    with fb.Loader(data, decode={"image": fb.Image.fit(80).ragged()}, batch_size=6) as loader:
        batch = next(iter(fb.torch.batches(loader, device="cpu")))
        tensors = [torch.from_numpy(image) for image in batch["image"]]
        assert [tuple(tensor.shape) for tensor in tensors] == [pixels(row).shape for row in range(6)]


def test_it_resumes_and_a_batch_of_one_is_no_exception(data: Path) -> None:
    with fb.Loader(data, decode={"image": fb.Image.fit(80).ragged()}, batch_size=1, epochs=1) as loader:
        steps = iter(loader)
        np.testing.assert_array_equal(next(steps)["image"][0], pixels(0))
        state = loader.state_dict()
    with fb.Loader(data, decode={"image": fb.Image.fit(80).ragged()}, batch_size=1, epochs=1) as loader:
        loader.load_state_dict(state)
        np.testing.assert_array_equal(next(iter(loader))["image"][0], pixels(1))


def test_what_cannot_work_is_refused(data: Path) -> None:
    for build, said in [
        (lambda: fb.Image.center_crop(8).ragged(), "ragged is given for images that all get one size.*use fit"),
        (lambda: fb.Image.fit(8, fill=1).ragged(), "fill is given with ragged images"),
    ]:
        with pytest.raises(fb.InvalidError, match=said):
            build()
    with pytest.raises(fb.InvalidError, match="ragged images with layout NCHW"):
        fb.Loader(data, decode={"image": fb.Image.fit(8).ragged().layout("NCHW")})


def test_it_is_part_of_the_value(data: Path) -> None:
    image = fb.Image.fit(8, resize=6).ragged().flip()
    assert image != fb.Image.fit(8, resize=6).flip()
    assert eval(repr(image), {"forebay": fb}) == image
    assert pickle.loads(pickle.dumps(image)) == image
    assert repr(image) == "forebay.Image.fit(8, resize=6).ragged().flip(0.5)"
