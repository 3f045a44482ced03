"""Images of 16 bits: exact levels of PNG and TIFF, and every step compared with Pillow's arithmetic on
floats."""

from __future__ import annotations

import io
import pickle
import struct
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Pillow

import forebay as fb

ROWS = 24
HEIGHT, WIDTH = 34, 46
GREY = fb.Image.resize(HEIGHT, WIDTH).grayscale()
COLOUR = fb.Image.resize(HEIGHT, WIDTH)


def png(pixels: np.ndarray[Any, Any]) -> bytes:
    """Returns a PNG of 16 bits; Pillow writes such files only in grey."""

    def chunk(kind: bytes, content: bytes) -> bytes:
        return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))

    height, width, channels = pixels.shape
    color = {1: 0, 2: 4, 3: 2, 4: 6}[channels]
    rows = b"".join(b"\0" + row.astype(">u2").tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", width, height, 16, color, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def tiff(pixels: np.ndarray[Any, Any], order: str, white_is_zero: bool = False) -> bytes:
    """Returns an uncompressed TIFF of one strip, in either byte order."""
    height, width, channels = pixels.shape
    stored = pixels.astype(order + "u2").tobytes()
    depths = struct.pack(order + "3H", 16, 16, 16)
    bits = (3, 1, 16 << (16 if order == ">" else 0)) if channels == 1 else (3, 3, 8 + len(stored))
    meaning = 2 if channels == 3 else 0 if white_is_zero else 1
    long = {256: width, 257: height, 262: meaning, 259: 1, 273: 8, 277: channels, 278: height, 279: len(stored)}
    entries = {tag: (4, 1, value) for tag, value in long.items()} | {258: bits}
    directory = struct.pack(order + "H", len(entries))
    for tag, (kind, count, value) in sorted(entries.items()):
        directory += struct.pack(order + "HHII", tag, kind, count, value)
    head = {"<": b"II*\0", ">": b"MM\0*"}[order] + struct.pack(order + "I", 8 + len(stored) + 6)
    return head + stored + depths + directory + b"\0\0\0\0"


def levels(row: int, channels: int) -> np.ndarray[Any, Any]:
    """Returns levels that are smooth enough to be resized but use all bits, with noise in the low byte."""
    random = np.random.default_rng([row, channels])
    y, x = np.mgrid[:HEIGHT, :WIDTH]
    wave = 20_000 * np.sin((x + 3 * row) / 17) + 9_000 * np.cos((y * 2 + x) / 13) + 32_000
    pixels = np.stack([wave * (1 - 0.2 * channel) for channel in range(channels)], axis=2)
    return (pixels + random.integers(0, 256, pixels.shape)).astype(np.uint16)


def of_pillow(pixels: np.ndarray[Any, Any], kind: str, **options: Any) -> bytes:
    file = io.BytesIO()
    Pillow.fromarray(pixels[:, :, 0]).save(file, kind, **options)
    return file.getvalue()


KINDS: dict[str, Any] = {
    "png": png,
    "png of Pillow": lambda pixels: of_pillow(pixels, "PNG"),
    "tiff, little-endian": lambda pixels: tiff(pixels, "<"),
    "tiff, big-endian": lambda pixels: tiff(pixels, ">"),
    "tiff, white is 0": lambda pixels: tiff(65535 - pixels, "<", white_is_zero=True),
    "tiff of Pillow": lambda pixels: of_pillow(pixels, "TIFF"),
    "tiff, LZW": lambda pixels: of_pillow(pixels, "TIFF", compression="tiff_lzw"),
    "tiff, deflate": lambda pixels: of_pillow(pixels, "TIFF", compression="tiff_adobe_deflate"),
}
OF_COLOUR = ("png", "tiff, little-endian", "tiff, big-endian")


def write(folder: Path, cells: list[bytes]) -> Path:
    table = pa.table({"id": pa.array(range(len(cells)), pa.int64()), "image": pa.array(cells, pa.binary())})
    pq.write_table(table, folder / "a.parquet", row_group_size=7)
    return folder


@pytest.fixture(scope="module")
def grey(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("grey"), [png(levels(row, 1)) for row in range(ROWS)])


@pytest.fixture(scope="module")
def colour(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("colour"), [png(levels(row, 3)) for row in range(ROWS)])


def delivered(data: Path, image: fb.Image, epoch: int = 0, **options: Any) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    with fb.Loader(data, decode={"image": image}, batch_size=5, **options) as loader:
        for batch in loader.epoch(epoch):
            for at, number in enumerate(batch["id"].tolist()):
                found[number] = {name: values[at] for name, values in batch.items()}
    return found


def resized(pixels: np.ndarray[Any, Any], size: tuple[int, int]) -> np.ndarray[Any, Any]:
    """Returns Pillow's resize of floats, which uses the same filter without rounding."""
    planes = [
        np.array(Pillow.fromarray(pixels[:, :, channel].astype(np.float32)).resize(size, 2))
        for channel in range(pixels.shape[2])
    ]
    return np.stack(planes, axis=2)


@pytest.mark.parametrize("kind", KINDS)
def test_all_bits_of_grey_files_are_delivered(tmp_path: Path, kind: str) -> None:
    write(tmp_path, [KINDS[kind](levels(row, 1)) for row in range(4)])
    found = delivered(tmp_path, GREY.dtype("uint16"))
    three = delivered(tmp_path, COLOUR.dtype("uint16").layout("NCHW"))
    for row in range(4):
        assert found[row]["image"].dtype == np.uint16
        np.testing.assert_array_equal(found[row]["image"], levels(row, 1))
        np.testing.assert_array_equal(three[row]["image"], np.repeat(levels(row, 1), 3, axis=2).transpose(2, 0, 1))


@pytest.mark.parametrize("kind", OF_COLOUR)
def test_all_bits_of_colour_files_are_delivered(tmp_path: Path, kind: str) -> None:
    write(tmp_path, [KINDS[kind](levels(row, 3)) for row in range(4)])
    found = delivered(tmp_path, COLOUR.dtype(np.uint16))
    for row in range(4):
        np.testing.assert_array_equal(found[row]["image"], levels(row, 3))
    luma = delivered(tmp_path, GREY.dtype("uint16"))
    for row in range(4):
        expected = levels(row, 3) @ np.array([0.299, 0.587, 0.114])
        assert np.abs(luma[row]["image"][:, :, 0] - expected).max() < 1.5


@pytest.mark.parametrize("channels", [2, 4])
def test_alpha_is_dropped(tmp_path: Path, channels: int) -> None:
    pixels = levels(0, channels)
    write(tmp_path, [png(pixels)])
    found = delivered(tmp_path, COLOUR.dtype("uint16"))[0]["image"]
    np.testing.assert_array_equal(found, pixels[:, :, [0, 0, 0] if channels == 2 else [0, 1, 2]])


def test_each_type_has_its_share_of_the_levels(grey: Path) -> None:
    found = {
        name: delivered(grey, image)
        for name, image in {
            "uint8": GREY,
            "float32": GREY.dtype("float32"),
            "fine": GREY.dtype("float32").bit_depth(16),
            "half": GREY.dtype("float16").bit_depth(16),
            "normal": GREY.dtype("float32").bit_depth(16).normalize((0.4, 0, 0), (0.2, 1, 1)),
        }.items()
    }
    for row in range(ROWS):
        stored = levels(row, 1)
        np.testing.assert_array_equal(found["uint8"][row]["image"], stored >> 8)
        high = (stored >> 8).astype(np.float32)
        np.testing.assert_array_equal(found["float32"][row]["image"], high / np.float32(255))
        unit = stored.astype(np.float32) / np.float32(65535)
        np.testing.assert_array_equal(found["fine"][row]["image"], unit)
        np.testing.assert_array_equal(found["half"][row]["image"], unit.astype(np.float16))
        normal = (unit - np.float32(0.4)) / np.float32(0.2)
        np.testing.assert_array_equal(found["normal"][row]["image"], normal)


def test_files_of_eight_bits_are_widened(tmp_path: Path) -> None:
    cells = []
    for row in range(8):
        file = io.BytesIO()
        pixels = (levels(row, 3) >> 8).astype(np.uint8)
        Pillow.fromarray(pixels).save(file, ["PNG", "JPEG", "WEBP", "BMP"][row % 4])
        cells.append(file.getvalue())
    cells.append(png(levels(8, 3)))
    write(tmp_path, cells)
    shuffle = fb.Shuffle(seed=3)
    crop = fb.Image.random_resized_crop(16).flip()
    narrow = delivered(tmp_path, crop, shuffle=shuffle)
    wide = delivered(tmp_path, crop.dtype("uint16"), shuffle=shuffle)
    floats = delivered(tmp_path, crop.dtype("float32"), shuffle=shuffle)
    fine = delivered(tmp_path, crop.dtype("float32").bit_depth(16), shuffle=shuffle)
    for row in range(8):
        np.testing.assert_array_equal(wide[row]["image"], narrow[row]["image"].astype(np.uint16) * 257)
        np.testing.assert_array_equal(fine[row]["image"], floats[row]["image"])
    assert (wide[8]["image"] % 257).any()
    assert (fine[8]["image"] != floats[8]["image"]).any()


@pytest.mark.parametrize("size", [(17, 20), (90, 61), (34, 11)])
def test_a_resize_is_that_of_floats(colour: Path, size: tuple[int, int]) -> None:
    found = delivered(colour, fb.Image.resize(*size).dtype("uint16"))
    for row in range(ROWS):
        expected = resized(levels(row, 3), size[::-1])
        assert np.abs(found[row]["image"] - expected).max() <= 1


def test_random_crops_and_flips_are_those_of_eight_bits(grey: Path) -> None:
    image = fb.Image.random_resized_crop(20).flip().vertical_flip().grayscale().emit_geometry()
    shuffle = fb.Shuffle(seed=9)
    narrow = delivered(grey, image, epoch=2, shuffle=shuffle)
    found = delivered(grey, image.dtype("uint16"), epoch=2, shuffle=shuffle)
    for row in range(ROWS):
        geometry = found[row]["image.geometry"]
        np.testing.assert_array_equal(geometry, narrow[row]["image.geometry"])
        top, left, height, width, across, down = geometry[:6].tolist()
        shown = slice(int(top), int(top + height)), slice(int(left), int(left + width))
        expected = resized(levels(row, 1)[shown], (20, 20))
        expected = expected[:: -1 if down else 1, :: -1 if across else 1]
        assert np.abs(found[row]["image"] - expected).max() <= 1


def test_a_canvas_is_filled_up_to_65535(grey: Path) -> None:
    image = fb.Image.fit((30, 60), fill=40_000).grayscale().dtype("uint16")
    for row, cells in delivered(grey, image).items():
        height, width = cells["image.size"].tolist()
        expected = resized(levels(row, 1), (width, height))
        assert np.abs(cells["image"][:height, :width] - expected).max() <= 1
        assert (cells["image"][height:] == 40_000).all() and (cells["image"][:, width:] == 40_000).all()


@pytest.mark.parametrize("interpolation", ["nearest", "bilinear"])
def test_a_rotation_is_that_of_eight_bits(tmp_path: Path, interpolation: Any) -> None:
    wide = [levels(row, 3) for row in range(4)]
    write(tmp_path, [png(pixels) for pixels in wide])
    turned = COLOUR.random_rotation((30, 31), interpolation, fill=(0, 128, 255))
    found, narrow = delivered(tmp_path, turned.dtype("uint16")), delivered(tmp_path, turned)
    for row in range(4):
        assert tuple(found[row]["image"][0, 0]) == (0, 128 * 257, 65535)
        differs = np.abs(found[row]["image"] / 256 - narrow[row]["image"] - 0.5)
        assert differs.max() <= 1.6


def test_erased_boxes_have_the_delivered_value(grey: Path) -> None:
    image = GREY.dtype("uint16").random_erasing(1, value=60_000)
    for row, cells in delivered(grey, image, shuffle=fb.Shuffle(seed=1)).items():
        differs = cells["image"] != levels(row, 1)
        assert differs.any() and (cells["image"][differs] == 60_000).all()


@pytest.mark.parametrize("tier", ["pixels", "resized"])
def test_a_cache_keeps_all_bits(grey: Path, tmp_path: Path, tier: Any) -> None:
    image = fb.Image.random_resized_crop(20).flip().grayscale().dtype("uint16")
    shuffle = fb.Shuffle(seed=4)
    cache = fb.DiskCache(tmp_path, max_bytes="1GB", tier=tier)
    # The same rows are cached in 8 bits first: entries of one depth are never taken for the other.
    delivered(grey, image.dtype("uint8"), shuffle=shuffle, cache=cache)
    plain = {epoch: delivered(grey, image, epoch, shuffle=shuffle) for epoch in (0, 1)}
    with fb.Loader(grey, decode={"image": image}, batch_size=5, shuffle=shuffle, cache=cache) as loader:
        assert loader.state_dict()["cache_tier"] == ("pixels" if tier == "pixels" else "rows")
        for epoch in (0, 1):
            for batch in loader.epoch(epoch):
                for at, number in enumerate(batch["id"].tolist()):
                    np.testing.assert_array_equal(batch["image"][at], plain[epoch][number]["image"])


def test_frameworks_and_arrow_get_uint16(grey: Path) -> None:
    image = GREY.dtype("uint16")
    with fb.Loader(grey, decode={"image": image}, batch_size=4) as loader:
        batch = next(iter(loader))
        assert batch.column("image").element == "<u2"
        field = batch.to_arrow().schema.field("image")
        assert field.type.value_type == pa.uint16()
        np.testing.assert_array_equal(np.from_dlpack(batch.column("image")), batch["image"])


def test_torch_gets_uint16(grey: Path) -> None:
    torch = pytest.importorskip("torch")
    if not hasattr(torch, "uint16"):
        pytest.skip("this PyTorch has no uint16")
    with fb.Loader(grey, decode={"image": GREY.dtype("uint16")}, batch_size=4) as loader:
        batch = next(iter(fb.torch.batches(loader, device="cpu")))
        assert batch["image"].dtype == torch.uint16
        np.testing.assert_array_equal(batch["image"].numpy()[0], levels(0, 1))


def test_jax_gets_uint16(grey: Path) -> None:
    pytest.importorskip("jax")
    import forebay.jax

    with fb.Loader(grey, decode={"image": GREY.dtype("uint16")}, batch_size=4) as loader:
        batch = next(iter(forebay.jax.batches(loader)))
        np.testing.assert_array_equal(np.asarray(batch["image"])[0], levels(0, 1))


def test_a_damaged_file_is_a_bad_row(tmp_path: Path) -> None:
    cells = [png(levels(row, 1)) for row in range(6)]
    cells[2] = cells[2][: len(cells[2]) // 2]
    cells[4] = tiff(levels(4, 1), "<")[:900]
    write(tmp_path, cells)
    image = GREY.dtype("uint16")
    with fb.Loader(tmp_path, decode={"image": image}, batch_size=2, on_bad_row=fb.Skip(at_most=2)) as loader:
        kept = [number for batch in loader.epoch(0) for number in batch["id"].tolist()]
        assert kept == [0, 1, 3, 5] and [row.row for row in loader.skipped()] == [2, 4]
    write(tmp_path, [png(levels(0, 1))])
    with pytest.raises(fb.TooLargeError, match="1564 pixels, over the limit of 1563"):
        delivered(tmp_path, image.max_pixels(HEIGHT * WIDTH - 1))


@pytest.mark.parametrize(
    ("image", "said"),
    [
        (GREY.dtype("uint16").normalize((0.5,) * 3, (0.5,) * 3), "normalize with dtype uint16"),
        (COLOUR.color_jitter(0.4).dtype("uint16"), "color_jitter with images of 16 bits"),
        (COLOUR.random_grayscale().dtype("float32").bit_depth(16), "random_grayscale with images of 16 bits"),
        (COLOUR.gaussian_blur(3).dtype("uint16"), "gaussian_blur with images of 16 bits"),
        (COLOUR.bit_depth(16), "bit_depth 16 with dtype uint8"),
        (COLOUR.dtype("uint16").bit_depth(8), "bit_depth 8 with dtype uint16"),
        (fb.Image.fit(9, fill=0.5).dtype("uint16"), "whole numbers from 0 to 65535"),
        (COLOUR.dtype("uint16").random_erasing(value=65_536), "whole numbers from 0 to 65535"),
    ],
)
def test_what_cannot_work_is_refused_before_the_first_row(grey: Path, image: fb.Image, said: str) -> None:
    with pytest.raises(fb.InvalidError, match=said):
        fb.Loader(grey, decode={"image": image})


@pytest.mark.parametrize("bits", [12, 0, True, "16", 16.0, None])
def test_a_depth_is_8_or_16(bits: Any) -> None:
    with pytest.raises(fb.InvalidError, match="bits must be 8 or 16"):
        COLOUR.bit_depth(bits)


def test_a_depth_is_part_of_the_value(grey: Path) -> None:
    image = GREY.dtype("float32").bit_depth(16)
    assert image != GREY.dtype("float32")
    assert eval(repr(image), {"forebay": fb}) == image
    assert pickle.loads(pickle.dumps(image)) == image
    assert ".bit_depth(16)" in repr(image)
    with fb.Loader(grey, decode={"image": image}, batch_size=4) as loader:
        assert loader.spec["decode"]["image"]["bit_depth"] == 16
