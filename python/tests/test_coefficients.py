"""Data sets whose JPEGs are packed as coefficients: the copied parts, the rows that loaders deliver, and the
way back to JPEG."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE, there
from PIL import Image

import forebay as fb

MARK = b"\xf4fbce\r\n\x01"
ROWS = 48
GROUP = 9
SKIP = fb.Skip(at_most=ROWS)


def forebay(*args: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forebay", *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def report(*args: object) -> dict[str, Any]:
    ran = forebay(*args, "--json", "-")
    assert ran.returncode == 0, ran.stderr
    told: dict[str, Any] = json.loads(ran.stdout)
    return told


def picture(row: int) -> bytes:
    """Returns a photograph of some size and kind: every eighth is not a JPEG with coefficients."""
    width, height = 90 + row * 3 % 40, 70 + row * 5 % 30
    across, down = np.meshgrid(np.arange(width), np.arange(height))
    noise = np.random.default_rng(row).integers(0, 40, (height, width))
    pixels = np.stack([across * 2 + noise, down * 3 + noise, (across + down) // 2], 2).clip(0, 255).astype(np.uint8)
    image = Image.fromarray(pixels)
    out = io.BytesIO()
    if row % 8 == 3:
        image.save(out, "PNG") if row % 16 == 3 else image.convert("CMYK").save(out, "JPEG")
    elif row % 8 == 5:
        exif = Image.Exif()
        exif[0x0112] = 6
        image.save(out, "JPEG", quality=90, progressive=True, exif=exif, comment=b"a comment")
    elif row % 8 == 6:
        image.convert("L").save(out, "JPEG", quality=80)
    else:
        image.save(out, "JPEG", quality=70 + row % 30, subsampling=row % 3)
    return out.getvalue()


def images(table: pa.Table, column: str = "image") -> list[bytes | None]:
    cells = table[column].to_pylist()
    return [cell["bytes"] if isinstance(cell, dict) else cell for cell in cells]


@pytest.fixture(scope="module")
def stored(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Files of many column types, compressions and indexes, in a partition folder, with images in the layout
    of Hugging Face."""
    folder = tmp_path_factory.mktemp("stored")
    for part in range(2):
        rows = range(part * ROWS // 2, (part + 1) * ROWS // 2)
        cells = [None if row % 16 == 9 else {"bytes": picture(row), "path": f"{row}.jpg"} for row in rows]
        table = pa.table(
            {
                "id": pa.array(rows, pa.int64()),
                "image": pa.array(cells, pa.struct([("bytes", pa.binary()), ("path", pa.string())])),
                "name": pa.array([f"row {row % 5}" for row in rows]),
                "boxes": pa.array([[[row, 1.5]] * (row % 3) for row in rows], pa.list_(pa.list_(pa.float32()))),
                "label": pa.array([["cat", "dog", None][row % 3] for row in rows]).dictionary_encode(),
            }
        )
        table = table.replace_schema_metadata({"huggingface": '{"info": {}}', "by": "the test"})
        (folder / f"split={part}").mkdir()
        pq.write_table(
            table,
            folder / f"split={part}" / "part.parquet",
            row_group_size=GROUP,
            compression={"id": "snappy", "name": "zstd", "image.path": "gzip", "image.bytes": "zstd"},
            write_page_index=True,
            sorting_columns=[pq.SortingColumn(0)],
            data_page_version="2.0" if part else "1.0",
            version="2.6" if part else "1.0",
        )
    return folder


@pytest.fixture(scope="module")
def packed(stored: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("packed") / "out"
    report("pack", "--coefficients", stored, out)
    return out


def parts(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def described(path: Path, column: str) -> list[dict[str, Any]]:
    """Returns everything that footers say about the chunks of a column, except their positions."""
    metadata = pq.ParquetFile(path).metadata
    leaf = [metadata.schema.column(at).path for at in range(metadata.num_columns)].index(column)
    chunks = [metadata.row_group(group).column(leaf) for group in range(metadata.num_row_groups)]
    places = ("file_offset", "data_page_offset", "dictionary_page_offset", "file_path")
    return [{key: value for key, value in chunk.to_dict().items() if key not in places} for chunk in chunks]


def test_only_the_images_are_written_anew(stored: Path, packed: Path) -> None:
    before, after = parts(stored), parts(packed)
    assert [path.relative_to(stored) for path in before] == [path.relative_to(packed) for path in after]
    kept = 0
    for old, new in zip(before, after, strict=True):
        one, two = pq.ParquetFile(old), pq.ParquetFile(new)
        assert one.metadata.created_by == two.metadata.created_by
        groups = [[file.metadata.row_group(at).num_rows for at in range(file.metadata.num_row_groups)] for file in (one, two)]
        assert groups[0] == groups[1] == [GROUP, GROUP, ROWS // 2 - 2 * GROUP]
        assert one.metadata.row_group(1).sorting_columns == two.metadata.row_group(1).sorting_columns
        for column in ("id", "image.path", "name", "boxes.list.element.list.element", "label"):
            assert described(old, column) == described(new, column), column
        chunks = [two.metadata.row_group(group).column(0) for group in range(3)]
        assert all(chunk.has_offset_index and chunk.has_column_index for chunk in chunks)
        assert {chunk["compression"] for chunk in described(new, "image.bytes")} == {"UNCOMPRESSED"}
        ours, theirs = (file.schema_arrow.metadata for file in (one, two))
        assert {key: theirs[key] for key in ours} == ours
        field = two.schema_arrow.field("image").type.field("bytes")
        assert field.metadata == {
            b"ARROW:extension:name": b"forebay.jpeg_coefficients",
            b"ARROW:extension:metadata": b'{"version":1}',
        }
        first, second = one.read(), two.read()
        for column in ("id", "name", "boxes", "label"):
            assert first[column].equals(second[column]), column
        paths = [[cell and cell["path"] for cell in table["image"].to_pylist()] for table in (first, second)]
        assert paths[0] == paths[1]
        for row, file, cell in zip(first["id"].to_pylist(), images(first), images(second), strict=True):
            assert (file is None) == (cell is None) == (row % 16 == 9)
            if file is not None and cell is not None:
                assert cell.startswith(MARK) == (row % 8 != 3), row
                assert row % 8 != 3 or cell == file, row
                kept += row % 8 == 3
    assert kept == ROWS // 8


def test_the_report_counts_what_became_of_each_cell(stored: Path, tmp_path: Path) -> None:
    told = report("pack", "--coefficients", stored, tmp_path / "out", "--columns", "image")
    [column] = told.pop("columns")
    nulls = sum(row % 16 == 9 for row in range(ROWS))
    assert (column["changed"], column["kept"], column["nulls"]) == (ROWS - ROWS // 8 - nulls, ROWS // 8, nulls)
    assert told["rows"] == ROWS and told["files"] == 2
    assert told["bytes_before"] == sum(path.stat().st_size for path in parts(stored))
    assert told["bytes_after"] == sum(path.stat().st_size for path in parts(tmp_path / "out"))
    assert 1.0 < column["bytes_after"] / column["bytes_before"] < 1.6


@pytest.mark.parametrize(
    "image",
    [
        fb.Image.random_resized_crop(32).flip(),
        fb.Image.random_resized_crop(24).exif_orientation().dtype("float32").layout("NCHW"),
        fb.Image.center_crop(40).grayscale(),
        fb.Image.fit(48),
    ],
    ids=["crop", "turned", "grey", "fit"],
)
def test_loaders_deliver_the_same_rows_and_pixels(
    stored: Path, packed: Path, tmp_path: Path, image: fb.Image
) -> None:
    def batches(folder: Path, **more: Any) -> list[Any]:
        loader = fb.Loader(
            folder,
            columns=["id", "image"],
            decode={"image": image},
            shuffle=fb.Shuffle(seed=5, window_rows=20),
            batch_size=7,
            on_bad_row=SKIP,
            **more,
        )
        return [batch for epoch in range(2) for batch in loader.epoch(epoch)]

    expected = batches(stored)
    assert sum(len(batch["id"]) for batch in expected) > ROWS
    for tier in (None, "rows", "coefficients", "pixels"):
        cache = {} if tier is None else {"cache": fb.DiskCache(tmp_path / tier, max_bytes="1GB", tier=tier)}
        found = batches(packed, **cache)
        assert len(found) == len(expected)
        for one, two in zip(expected, found, strict=True):
            assert np.array_equal(one["id"], two["id"]), tier
            assert np.array_equal(one["image"], two["image"]), tier


def test_filters_find_their_pages_in_the_copy(stored: Path, packed: Path) -> None:
    image = {"image": fb.Image.resize(8, 8)}
    for row in (0, 13, 30, ROWS - 1):
        one, two = (
            list(fb.Loader(folder, decode=image, filter=[("id", "==", row)], batch_size=1)) for folder in (stored, packed)
        )
        assert [batch["id"].tolist() for batch in two] == [[row]]
        assert np.array_equal(one[0]["image"], two[0]["image"])


def test_files_of_both_forms_are_one_data_set(stored: Path, packed: Path) -> None:
    files = [parts(stored)[0], parts(packed)[1]]
    loader = fb.Loader(files, decode={"image": fb.Image.resize(8, 8)}, batch_size=8, on_bad_row=SKIP)
    assert sum(len(batch["id"]) for batch in loader) == ROWS - 3


def test_the_way_back_gives_jpegs_of_the_same_pixels(stored: Path, packed: Path, tmp_path: Path) -> None:
    told = report("unpack", packed, tmp_path / "again")
    assert told["columns"][0]["kept"] == ROWS // 8
    for old, new in zip(parts(stored), parts(tmp_path / "again"), strict=True):
        field = pq.ParquetFile(new).schema_arrow.field("image").type.field("bytes")
        assert not field.metadata
        for file, again in zip(images(pq.read_table(old)), images(pq.read_table(new)), strict=True):
            if file is None or again is None:
                assert file is again
                continue
            one, two = Image.open(io.BytesIO(file)), Image.open(io.BytesIO(again))
            assert (one.size, one.mode, one.format) == (two.size, two.mode, two.format)
            assert one.getexif().get(0x0112) == two.getexif().get(0x0112)
            assert getattr(one, "quantization", None) == getattr(two, "quantization", None)
            assert getattr(one, "layer", None) == getattr(two, "layer", None) or one.mode == "RGB"
            assert np.array_equal(np.asarray(one), np.asarray(two))
    # Packing the result again gives the same file, so no coefficient has changed.
    report("pack", "--coefficients", tmp_path / "again", tmp_path / "twice")
    for first, second in zip(parts(packed), parts(tmp_path / "twice"), strict=True):
        assert images(pq.read_table(first)) == images(pq.read_table(second))


def test_images_may_stay_beside_their_coefficients(stored: Path, packed: Path, tmp_path: Path) -> None:
    out = tmp_path / "both"
    told = report("pack", "--coefficients", stored, out, "--keep-images")
    assert told["columns"][0]["written_as"] == "image_coefficients"
    for old, new, alone in zip(parts(stored), parts(out), parts(packed), strict=True):
        before, after = pq.read_table(old), pq.read_table(new)
        assert after.drop_columns("image_coefficients").equals(before)
        assert described(old, "image.bytes") == described(new, "image.bytes")
        assert images(after, "image_coefficients") == images(pq.read_table(alone))
    image = fb.Image.random_resized_crop(16)
    both = fb.Loader(out, decode={"image": image, "image_coefficients": image.of("image")}, batch_size=8, on_bad_row=SKIP)
    for batch in both:
        assert np.array_equal(batch["image"], batch["image_coefficients"])


def test_a_damaged_cell_is_a_bad_row_with_its_place(packed: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    damaged.mkdir()
    bytes_ = bytearray(parts(packed)[0].read_bytes())
    cells = images(pq.read_table(parts(packed)[0]))
    cell = cells[1]
    assert cell is not None
    bytes_[bytes_.index(cell) + len(cell) // 2] ^= 4
    (damaged / "part.parquet").write_bytes(bytes_)
    loader = fb.Loader(damaged, columns=["image"], decode={"image": fb.Image.resize(8, 8)}, batch_size=1)
    with pytest.raises(fb.BadRowError, match=r"row group 0, row 1, column .*the checksum of the cell differs"):
        list(loader)
    loader = fb.Loader(
        damaged, columns=["id", "image"], decode={"image": fb.Image.resize(8, 8)}, batch_size=100, on_bad_row=SKIP
    )
    assert np.concatenate([batch["id"] for batch in loader]).tolist() == [
        row for row in range(ROWS // 2) if row not in (1, 9)
    ]
    ran = forebay("unpack", damaged, tmp_path / "out")
    assert ran.returncode == 2, "other data are the remedy"
    assert "row group 0, row 1, column" in ran.stderr and "the checksum of the cell differs" in ran.stderr, ran.stderr
    assert not parts(tmp_path / "out"), "nothing unfinished is left"


def test_a_later_version_is_refused_before_the_first_row(packed: Path, tmp_path: Path) -> None:
    table = pq.read_table(parts(packed)[0])
    bytes_ = table.schema.field("image").type.field("bytes")
    later = bytes_.with_metadata({**bytes_.metadata, b"ARROW:extension:metadata": b'{"version":2}'})
    kind = pa.struct([later, table.schema.field("image").type.field("path")])
    cells = pa.array(table["image"].to_pylist(), kind)
    pq.write_table(pa.table({"image": cells}), tmp_path / "later.parquet")
    with pytest.raises(fb.UnsupportedError, match="version 2; this forebay reads version 1"):
        fb.Loader(tmp_path / "later.parquet", decode={"image": fb.Image.resize(8, 8)})


def test_what_cannot_be_packed_is_refused(stored: Path, packed: Path, tmp_path: Path) -> None:
    for args, cause in [
        (("pack", "--coefficients", stored, packed), "the folder is not empty"),
        (("pack", "--coefficients", stored, stored / "split=0" / "x"), "inside the data set"),
        (("pack", "--coefficients", stored, tmp_path / "*"), "this is a glob"),
        (("pack", "--coefficients", stored, "https://example.com/x"), "plain HTTP servers are only read"),
        (("pack", "--coefficients", stored, tmp_path / "out", "--columns", "name"), "does not hold encoded images"),
        (("pack", "--coefficients", stored, tmp_path / "out", "--columns", "imgae"), 'did you mean "image"?'),
        (("pack", stored, tmp_path / "out"), "--coefficients"),
        (("pack", "--coefficients", packed, tmp_path / "out"), "no column holds JPEGs"),
        (("unpack", stored, tmp_path / "out"), "no column holds the coefficients of JPEGs"),
    ]:
        ran = forebay(*args)
        assert ran.returncode == 2 and cause in ran.stderr, (args, ran.stderr)
    assert not (tmp_path / "out").exists()


def test_a_folder_of_one_file_is_not_packed_into_itself(stored: Path, tmp_path: Path) -> None:
    folder = tmp_path / "one"
    folder.mkdir()
    shutil.copy(parts(stored)[0], folder / "a.parquet")
    for inside in (folder / "packed", folder):
        ran = forebay("pack", "--coefficients", folder, inside)
        assert ran.returncode == 2 and "inside the data set" in ran.stderr, ran.stderr
    # If a single file is packed, its folder does not belong to the data set, and may hold the result.
    report("pack", "--coefficients", folder / "a.parquet", folder / "packed")


def test_what_an_interrupted_run_leaves_is_no_data_set(stored: Path, tmp_path: Path) -> None:
    for attempt in range(200):
        out = tmp_path / f"out-{attempt}"
        command = [sys.executable, "-m", "forebay", "pack", "--coefficients", str(stored), str(out), "--threads", "1"]
        with subprocess.Popen(command, stderr=subprocess.DEVNULL) as running:
            while running.poll() is None and not there(out, ".forebay-unfinished/**/*.parquet"):
                time.sleep(0.001)
            running.kill()
        # The program may have ended by itself just before it was killed.
        if running.returncode != 0 and (out / ".forebay-unfinished").is_dir():
            break
    assert running.returncode == -signal.SIGKILL
    with pytest.raises(fb.ForebayError):
        fb.Dataset(str(out))
    again = forebay("pack", "--coefficients", stored, out)
    assert again.returncode == 2 and "a run that did not end" in again.stderr, again.stderr
    assert ".forebay-unfinished" in again.stderr and "remove the folder" in again.stderr


def test_an_image_of_several_scans_is_decoded_alike_on_the_way_back(foreign: Path, tmp_path: Path) -> None:
    files = sorted((foreign / "jpeg-variants").glob("**/*_interleaved.jpg"))
    assert files, "no image of several scans"
    (tmp_path / "files").mkdir()
    pq.write_table(pa.table({"image": [file.read_bytes() for file in files]}), tmp_path / "files" / "a.parquet")
    assert report("pack", "--coefficients", tmp_path / "files", tmp_path / "packed")["columns"][0]["kept"] == 0
    report("unpack", tmp_path / "packed", tmp_path / "again")
    crops = [fb.Image.resize(8, 8), fb.Image.random_resized_crop(32, scale=(0.8, 1)), fb.Image.center_crop(16)]
    for image in crops:
        pixels = [
            next(iter(fb.Loader(str(tmp_path / name), decode={"image": image}, batch_size=len(files))))["image"]
            for name in ("files", "packed", "again")
        ]
        assert np.array_equal(pixels[0], pixels[1]) and np.array_equal(pixels[0], pixels[2]), image


def test_a_disk_without_room_leaves_no_file(stored: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = f"ulimit -f 16; exec {sys.executable} -m forebay pack --coefficients {stored} {out}"
    ran = subprocess.run(["sh", "-c", f"trap '' XFSZ; {command}"], capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 1 and "File too large" in ran.stderr, ran.stderr
    assert not parts(out), os.listdir(out)
