"""Raw pixels compared with a PNG of the same pixels: as bytes, in lists, with columns that follow them, and
with errors."""

from __future__ import annotations

import pickle
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import png

import forebay as fb

ROWS = 60
HEIGHT, WIDTH = 30, 44
SHAPE = (HEIGHT, WIDTH, 3)
BYTES = HEIGHT * WIDTH * 3
PIXELS = np.random.default_rng(40).integers(0, 256, (ROWS, *SHAPE), np.uint8)
CELL = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("raw")
    cells = [pixels.tobytes() for pixels in PIXELS]
    planes = [pixels.transpose(2, 0, 1).tobytes() for pixels in PIXELS]
    levels = pa.array(PIXELS.ravel())
    offsets = [row * BYTES for row in range(ROWS + 1)]
    classes = [png(pixels[..., 0]) for pixels in PIXELS]
    table = pa.table(
        {
            "file": pa.array([png(pixels) for pixels in PIXELS], pa.binary()),
            "binary": pa.array(cells, pa.binary()),
            "fixed": pa.array(cells, pa.binary(BYTES)),
            "struct": pa.array([{"bytes": cell, "path": None} for cell in cells], CELL),
            "list": pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), levels),
            "large": pa.LargeListArray.from_arrays(pa.array(offsets, pa.int64()), levels),
            "fixed_list": pa.FixedSizeListArray.from_arrays(levels, BYTES),
            "planes": pa.array(planes, pa.binary()),
            "mask": pa.array(classes, pa.binary()),
            "mask2": pa.array(classes, pa.binary()),
            "boxes": pa.array([[[1.0, 2.0, 20.0, 25.0], [0.0, 0.0, 44.0, 30.0]]] * ROWS),
            "boxes2": pa.array([[[1.0, 2.0, 20.0, 25.0], [0.0, 0.0, 44.0, 30.0]]] * ROWS),
        }
    )
    pq.write_table(table, folder / "a.parquet", row_group_size=17)
    return folder


def float_nchw(image: Any) -> Any:
    return image.normalize(MEAN, STD).dtype("float32").layout("NCHW")


STORED = {
    name: ((3, HEIGHT, WIDTH), "NCHW") if name == "planes" else (SHAPE, "NHWC")
    for name in ("binary", "fixed", "struct", "list", "large", "fixed_list", "planes")
}


@pytest.mark.parametrize("name", STORED)
def test_every_stored_form_gives_the_pixels(data: Path, name: str) -> None:
    shape, layout = STORED[name]
    image = fb.Image.resize(HEIGHT, WIDTH).raw(shape, layout=layout)
    loader = fb.Loader(data, columns=[name], decode={name: image}, batch_size=ROWS)
    np.testing.assert_array_equal(next(iter(loader))[name], PIXELS)
    floats = next(iter(fb.Loader(data, columns=[name], decode={name: float_nchw(image)}, batch_size=ROWS)))[name]
    unit = PIXELS.astype(np.float32) / np.float32(255)
    wanted = (unit - np.float32(MEAN)) / np.float32(STD)
    np.testing.assert_array_equal(floats, wanted.transpose(0, 3, 1, 2))


KINDS = {
    "whole": fb.Image.resize(HEIGHT, WIDTH).flip(),
    "crop": fb.Image.random_resized_crop(20).flip().vertical_flip(),
    "float": float_nchw(fb.Image.random_resized_crop(20).flip()),
    "half": fb.Image.center_crop(16, resize=20).dtype("float16").layout("NCHW"),
    "bicubic": fb.Image.random_resized_crop(20).resampling("bicubic"),
    "grey": fb.Image.resize(9, 9).grayscale(),
    "canvas": fb.Image.fit(64, resize=24, fill=7, centered=True).flip(),
    "effects": fb.Image.random_resized_crop(20)
    .color_jitter(0.4, 0.4, 0.4, 0.1)
    .random_erasing(0.5)
    .random_rotation(20),
}


@pytest.mark.parametrize("kind", KINDS)
def test_raw_pixels_are_drawn_and_shown_as_their_file(data: Path, tmp_path: Path, kind: str) -> None:
    image = KINDS[kind]
    # Random crops and flips depend on the name of the column, so both files have the same name for it.
    for name, source in (("files", "file"), ("raws", "binary")):
        (tmp_path / name).mkdir()
        table = pq.read_table(data / "a.parquet", columns=[source]).rename_columns(["image"])
        pq.write_table(table, tmp_path / name / "a.parquet", row_group_size=17)
    for epoch in range(2):
        found = []
        for name, decode in (("files", image), ("raws", image.raw(SHAPE))):
            loader = fb.Loader(
                tmp_path / name, decode={"image": decode}, shuffle=fb.Shuffle(seed=3), batch_size=16, epochs=2
            )
            for _ in range(epoch):
                for _ in loader:
                    pass
            found.append([np.asarray(batch["image"]) for batch in loader])
        for files, raws in zip(*found, strict=True):
            np.testing.assert_array_equal(files, raws)


def test_masks_boxes_and_images_follow(data: Path) -> None:
    crop = fb.Image.random_resized_crop(20).flip()
    decode = {
        "binary": crop.raw(SHAPE).emit_geometry(),
        "file": fb.Image.resize(20, 20).of("binary"),
        "mask": fb.Mask(of="binary"),
        "mask2": fb.Mask(of="file"),
        "boxes": fb.Boxes(of="binary"),
        "boxes2": fb.Boxes(of="file"),
    }
    batch = next(iter(fb.Loader(data, columns=list(decode), decode=decode, batch_size=ROWS)))
    np.testing.assert_array_equal(batch["file"], batch["binary"])
    np.testing.assert_array_equal(batch["mask"], batch["mask2"])
    np.testing.assert_array_equal(batch["boxes"].values, batch["boxes2"].values)
    assert (batch["binary.geometry"][:, 6:] == (HEIGHT, WIDTH)).all()
    turned = {"file": crop, "binary": fb.Image.resize(20, 20).raw(SHAPE).of("file")}
    batch = next(iter(fb.Loader(data, columns=list(turned), decode=turned, batch_size=ROWS)))
    np.testing.assert_array_equal(batch["file"], batch["binary"])


@pytest.mark.parametrize("kind", [pa.binary(), pa.binary(BYTES), pa.list_(pa.uint8())])
def test_nulls_are_masked_and_filled(tmp_path: Path, kind: pa.DataType) -> None:
    cells = [None if row % 3 == 1 else PIXELS[row] for row in range(9)]
    stored = [
        None if cell is None else cell.ravel().tolist() if pa.types.is_list(kind) else cell.tobytes() for cell in cells
    ]
    files = pa.array([None if cell is None else png(cell) for cell in cells], pa.binary())
    classes = pa.array([png(PIXELS[row][..., 0]) for row in range(9)], pa.binary())
    pq.write_table(pa.table({"image": pa.array(stored, kind), "file": files, "mask": classes}), tmp_path / "a.parquet")
    image = float_nchw(fb.Image.resize(HEIGHT, WIDTH).raw(SHAPE))
    decode = {"image": image, "mask": fb.Mask(of="image"), "file": fb.Image.resize(8, 8).of("image")}
    nulls: dict[str, Any] = {"null_mask": ["image", "file"]}
    batch = next(iter(fb.Loader(tmp_path, decode=decode, batch_size=9, **nulls)))
    here = [cell is not None for cell in cells]
    assert batch["image.mask"].tolist() == here
    assert [bool(one.any()) for one in batch["image"]] == here == [bool(one.any()) for one in batch["mask"]]
    filled = fb.Loader(tmp_path, columns=["image"], decode={"image": image}, fill_null={"image": -1}, batch_size=9)
    assert (next(iter(filled))["image"][1] == -1).all()
    with pytest.raises(fb.BadRowError, match="row 1.*null where an image is needed"):
        next(iter(fb.Loader(tmp_path, columns=["image"], decode={"image": image}, batch_size=9)))


def test_a_cell_of_another_length_is_a_bad_row_with_its_place(tmp_path: Path) -> None:
    cells = [PIXELS[row].tobytes() for row in range(6)]
    cells[2] = cells[2][:-1]
    cells[4] = png(PIXELS[4])
    lists = [list(cell) for cell in cells]
    lists[5][7] = None  # type: ignore[call-overload]
    table = pa.table({"binary": pa.array(cells, pa.binary()), "list": pa.array(lists, pa.list_(pa.uint8()))})
    pq.write_table(table, tmp_path / "a.parquet", row_group_size=3)
    image = fb.Image.random_resized_crop(8).raw(SHAPE)
    for name, skipped in (("binary", 2), ("list", 3)):
        loader = fb.Loader(tmp_path, columns=[name], decode={name: image}, batch_size=6)
        said = rf'a\.parquet.*row group 0, row 2.*"{name}".*{BYTES - 1} bytes where raw pixels of 30x44x3 take {BYTES}'
        with pytest.raises(fb.BadRowError, match=said):
            next(iter(loader))
        loader = fb.Loader(
            tmp_path, columns=[name], decode={name: image}, batch_size=6, on_bad_row=fb.Skip(at_most=skipped)
        )
        assert sum(len(batch[name]) for batch in loader) == 6 - skipped
        places = [(row.row_group, row.row) for row in loader.skipped()]
        assert places == [(0, 2), (1, 1), (1, 2)][:skipped]
    only = pq.read_table(tmp_path / "a.parquet").slice(5, 1)
    pq.write_table(only, tmp_path / "a.parquet")
    with pytest.raises(fb.BadRowError, match='row 0.*"list".*null in a list of bytes'):
        next(iter(fb.Loader(tmp_path, columns=["list"], decode={"list": image}, batch_size=1)))


@pytest.mark.parametrize(
    ("stored", "said"),
    [
        (pa.array([bytes(9)], pa.binary(9)), f"holds cells of 9 bytes, and raw pixels of 30x44x3 take {BYTES}"),
        (pa.FixedSizeListArray.from_arrays(pa.array([1, 2], pa.uint8()), 2), "holds cells of 2 bytes"),
        (pa.array([[1]], pa.list_(pa.int32())), "not raw pixels.*lists of uint8"),
        (pa.array([[[1]]], pa.list_(pa.list_(pa.uint8()))), "not raw pixels.*lists of uint8"),
        (pa.array(["a"]), "not raw pixels"),
    ],
)
def test_a_column_that_holds_none_is_refused_when_the_loader_is_made(
    tmp_path: Path, stored: pa.Array, said: str
) -> None:
    pq.write_table(pa.table({"image": stored}), tmp_path / "a.parquet")
    with pytest.raises(fb.InvalidError, match=f'"image".*{said}'):
        iter(fb.Loader(tmp_path, decode={"image": fb.Image.resize(8, 8).raw(SHAPE)}, batch_size=1))


def test_pixels_without_raw_are_refused_with_the_next_move(tmp_path: Path) -> None:
    square = np.full((28, 28, 3), 200, np.uint8)
    pq.write_table(pa.table({"image": [square.tobytes()], "list": [square.ravel()]}), tmp_path / "a.parquet")
    image = fb.Image.resize(8, 8)
    with pytest.raises(fb.BadRowError, match=re.escape("such as raw((28, 28, 3))")):
        next(iter(fb.Loader(tmp_path, columns=["image"], decode={"image": image}, batch_size=1)))
    with pytest.raises(fb.InvalidError, match="not encoded images.*raw pixels are decoded with `?raw"):
        iter(fb.Loader(tmp_path, columns=["list"], decode={"list": image}, batch_size=1))


def test_a_cache_keeps_the_pixels_as_they_are(data: Path, tmp_path: Path) -> None:
    image = float_nchw(fb.Image.random_resized_crop(20).flip()).raw(SHAPE)
    cache = fb.DiskCache(tmp_path / "cache", max_bytes=1 << 30, tier="rows")
    options: dict[str, Any] = {"columns": ["binary"], "decode": {"binary": image}, "batch_size": 20}
    plain = [np.asarray(batch["binary"]) for batch in fb.Loader(data, **options)]
    for _ in range(2):
        with fb.Loader(data, cache=cache, **options) as loader:
            for found, wanted in zip(loader, plain, strict=True):
                np.testing.assert_array_equal(found["binary"], wanted)


def test_what_the_advice_of_a_transform_says_can_be_followed(data: Path) -> None:
    def normalise(batch: dict[str, Any]) -> dict[str, Any]:
        unit = batch["binary"].astype(np.float32) / np.float32(255)
        normalised = (unit - np.float32(MEAN)) / np.float32(STD)
        return {"binary": np.ascontiguousarray(normalised.transpose(0, 3, 1, 2))}

    stored = fb.Tensor("uint8", SHAPE)
    options: dict[str, Any] = {"columns": ["binary"], "batch_size": 20}
    slow = fb.Loader(data, decode={"binary": stored}, transform=normalise, **options)
    fast = fb.Loader(data, decode={"binary": float_nchw(fb.Image.resize(HEIGHT, WIDTH).raw(SHAPE))}, **options)
    for by_hand, found in zip(slow, fast, strict=True):
        np.testing.assert_array_equal(by_hand["binary"], found["binary"])


def test_raw_is_a_value_and_what_can_never_work_is_refused() -> None:
    plain = fb.Image.resize(8, 8)
    for image, code in [
        (plain.raw((4, 5)), "raw((4, 5, 1))"),
        (plain.raw((4, 5, 3)), "raw((4, 5, 3))"),
        (plain.raw((3, 4, 5), layout="NCHW"), 'raw((3, 4, 5), layout="NCHW")'),
    ]:
        assert repr(image) == f"forebay.Image.resize(8, 8).{code}"
        assert pickle.loads(pickle.dumps(image)) == image == eval(repr(image), {"forebay": fb})
    assert repr(fb.Image.fit(8, centered=True)) == "forebay.Image.fit(8, centered=True)"
    assert fb.Image.fit(8, centered=False) == fb.Image.fit(8)
    for shape, said in [
        ((4,), "shape must be a height, a width and channels, as ints"),
        (9, "shape must be"),
        ((4, 5, "3"), "shape must be"),
        ((0, 5, 3), "raw pixels of 0x5"),
        ((4, 5, 7), "raw pixels of 7 channels"),
    ]:
        with pytest.raises(fb.InvalidError, match=said):
            plain.raw(shape)  # type: ignore[arg-type]
    with pytest.raises(fb.InvalidError, match="centered is given with ragged images"):
        fb.Image.fit(8, centered=True).ragged()
    with pytest.raises(fb.InvalidError, match="exif_orientation with raw pixels"):
        fb.decode_image(bytes(48), plain.raw((4, 4, 3)).exif_orientation())


def test_pixels_are_decoded_without_a_data_set() -> None:
    image = float_nchw(fb.Image.random_resized_crop(20).flip())
    files, raws = [png(pixels) for pixels in PIXELS[:5]], [pixels.tobytes() for pixels in PIXELS[:5]]
    np.testing.assert_array_equal(fb.decode_image(raws, image.raw(SHAPE), seed=7), fb.decode_image(files, image, seed=7))
    np.testing.assert_array_equal(fb.decode_image(PIXELS[0], fb.Image.resize(HEIGHT, WIDTH).raw(SHAPE)), PIXELS[0])
