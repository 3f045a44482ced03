"""BMP images compared with Pillow, and images that are refused with their format's name."""

from __future__ import annotations

import io
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image as Pillow

import forebay as fb

WIDTH, HEIGHT = 13, 7


def bmp(bits: int, compression: int, masks: tuple[int, ...] = (), size: int = 40, height: int = HEIGHT) -> bytes:
    """Returns a BMP of random pixels. The colour masks follow a header of 40 bytes, or are part of a longer one."""
    random = np.random.default_rng(5)
    row = (WIDTH * bits + 31) // 32 * 4
    body = random.integers(0, 256, row * HEIGHT, np.uint8).tobytes()
    if compression in (1, 2):
        body = b"".join(bytes([WIDTH, 7 * at, 0, 0]) for at in range(HEIGHT)) + b"\0\1"
    rest = struct.pack(f"<{len(masks)}I", *masks)
    rest += bytes(max(size - 40 - len(rest), 0))
    palette = random.integers(0, 256, 4 << bits, np.uint8).tobytes() if bits <= 8 else b""
    offset = 14 + 40 + len(rest) + len(palette)
    head = struct.pack("<IiiHHIIiiII", size, WIDTH, height, 1, bits, compression, len(body), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", offset + len(body), 0, 0, offset) + head + rest + palette + body


def first(folder: Path, cell: Any) -> Any:
    pq.write_table(pa.table({"image": pa.array([cell], pa.binary())}), folder / "a.parquet")
    with fb.Loader(folder / "a.parquet", decode={"image": fb.Image.resize(HEIGHT, WIDTH)}) as loader:
        return next(iter(loader))["image"][0]


@pytest.mark.parametrize(
    "encoded",
    [
        bmp(16, 3, (0xF800, 0x7E0, 0x1F)),
        bmp(16, 3, (0x7C00, 0x3E0, 0x1F)),
        bmp(16, 0),
        bmp(16, 3, (0xF800, 0x7E0, 0x1F), height=-HEIGHT),
        bmp(16, 3, (0xF800, 0x7E0, 0x1F, 0), size=108),
        bmp(32, 3, (0xFF0000, 0xFF00, 0xFF)),
        bmp(32, 3, (0xFF000000, 0xFF0000, 0xFF00)),
        bmp(24, 0, size=64),
        bmp(8, 0, size=64),
        bmp(8, 1),
        bmp(4, 2),
        bmp(8, 1, height=-HEIGHT),
    ],
)
def test_a_bmp_has_pillows_pixels(tmp_path: Path, encoded: bytes) -> None:
    with Pillow.open(io.BytesIO(encoded)) as image:
        np.testing.assert_array_equal(first(tmp_path, encoded), np.asarray(image.convert("RGB")))


@pytest.mark.parametrize(
    ("cell", "said"),
    [
        (b"\0\0\0\x18ftypavif\0\0\0\0avif" + bytes(99), r"AVIF.*re-encode"),
        (b"\0\0\0\x18ftypheic\0\0\0\0heic" + bytes(99), r"HEIC.*re-encode"),
        (b"\x89PNG\r\n\x1a\n\0\0\0\4CgBI" + bytes(99), r"CgBI.*convert"),
        (b"/9j/4AAQSkZJRgABAQ", r"JPEG in base64.*b64decode"),
        (b"data:image/png;base64,iVBORw0KGgo=", r"data URI.*b64decode"),
    ],
)
def test_what_is_not_read_is_refused_by_name_with_the_next_move(tmp_path: Path, cell: bytes, said: str) -> None:
    with pytest.raises(fb.BadRowError, match=said):
        first(tmp_path, cell)


@pytest.mark.parametrize("column", ["image", "mask"])
def test_a_cell_with_a_path_alone_names_the_path(tmp_path: Path, column: str) -> None:
    kind = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    here, elsewhere = {"bytes": bmp(24, 0), "path": "a.bmp"}, {"bytes": None, "path": "folder/b.png"}
    cells = {name: pa.array([elsewhere if name == column else here], kind) for name in ("image", "mask")}
    pq.write_table(pa.table(cells), tmp_path / "a.parquet")
    decode = {"image": fb.Image.resize(8, 8), "mask": fb.Mask(of="image")}
    with pytest.raises(fb.BadRowError, match=rf'"{column}": only the path of an? (image|mask) is stored, "folder/b.png".*embed_table'):
        next(iter(fb.Loader(tmp_path, decode=decode if column == "mask" else {"image": decode["image"]})))
