"""``decode_image`` gives the same pixels as a loader, from bytes without a data set."""

from __future__ import annotations

import io
import multiprocessing
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE
from PIL import Image as Pillow

import forebay as fb


def encoded(seed: int, size: tuple[int, int] = (40, 30), form: str = "PNG") -> bytes:
    width, height = size
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), np.uint8)
    file = io.BytesIO()
    Pillow.fromarray(pixels).save(file, form)
    return file.getvalue()


FILES = [encoded(seed, (40 + seed % 3, 30), ["JPEG", "PNG", "BMP"][seed % 3]) for seed in range(12)]
CROP = fb.Image.random_resized_crop(16).flip()
FLOATS = CROP.color_jitter(0.4, 0.4).dtype("float32").layout("NCHW")


@pytest.mark.parametrize("form", ["PNG", "BMP", "TIFF", "JPEG"])
def test_an_image_has_its_own_size_and_the_pixels_of_pillow(form):
    file = encoded(1, form=form)
    pixels = fb.decode_image(file)
    expected = np.asarray(Pillow.open(io.BytesIO(file)).convert("RGB"))
    assert (pixels.shape, pixels.dtype) == ((30, 40, 3), np.uint8)
    assert np.array_equal(pixels, expected)
    assert pixels.flags.writeable


def test_a_tiff_of_floating_point_numbers_is_refused_with_a_next_move():
    file = io.BytesIO()
    Pillow.new("F", (8, 8)).save(file, "TIFF")
    with pytest.raises(fb.BadRowError, match=r"floating-point numbers is not read .store it with 8 or 16 bits"):
        fb.decode_image(file.getvalue())


@pytest.mark.parametrize("of", [bytes, bytearray, memoryview, lambda file: np.frombuffer(file, np.uint8)])
def test_any_object_with_bytes_will_do(of):
    file = encoded(2)
    assert np.array_equal(fb.decode_image(of(file)), fb.decode_image(file))
    assert np.array_equal(fb.decode_image([of(file)], CROP), fb.decode_image([file], CROP))


def columns():
    """The files as columns of each type that holds bytes, alone, cut out of longer ones, and in chunks."""
    equal = [file.ljust(max(map(len, FILES)), b"\0") for file in FILES]
    struct = pa.array([{"bytes": file, "path": "x"} for file in FILES])
    for column in [
        pa.array(FILES, pa.binary()),
        pa.array(FILES, pa.large_binary()),
        pa.array(FILES, pa.binary_view()),
        pa.array(equal, pa.binary(len(equal[0]))),
        struct,
    ]:
        yield column
        yield pa.concat_arrays([column.slice(5), column])[len(FILES) - 5 :]
        yield pa.chunked_array([column.slice(0, 5), column.slice(5, 0), column.slice(5)])


def test_a_column_of_arrow_is_read_as_the_list_of_its_values():
    expected = fb.decode_image(FILES, CROP, seed=3)
    found = list(columns())
    assert len(found) == 15
    for column in found:
        assert np.array_equal(fb.decode_image(column, CROP, seed=3), expected), column.type
    assert np.array_equal(fb.decode_image(tuple(FILES), CROP, seed=3), expected)


@pytest.mark.parametrize("image", [CROP, FLOATS, fb.Image.fit(20, fill=9), fb.Image.center_crop(8, resize=9)])
@pytest.mark.parametrize("epoch", [0, 3])
def test_pixels_and_draws_are_those_of_a_loader(image, epoch, tmp_path):
    table = pa.table({"photo": FILES, "row": range(len(FILES))})
    pq.write_table(table.slice(0, 5), tmp_path / "a.parquet", row_group_size=2)
    pq.write_table(table.slice(5), tmp_path / "b.parquet")
    with fb.Loader(
        tmp_path, columns=["photo", "row"], decode={"photo": image}, batch_size=5, shuffle=fb.Shuffle(seed=17)
    ) as loader:
        for batch in loader.epoch(epoch):
            rows = batch["row"]
            files = [FILES[row] for row in rows]
            found = fb.decode_image(files, image, seed=17, epoch=epoch, rows=rows, column="photo")
            assert np.array_equal(found, batch["photo"])
    stored = fb.decode_image(FILES[4:], image, seed=17, epoch=epoch, rows=4, column="photo")
    assert np.array_equal(stored, fb.decode_image(FILES, image, seed=17, epoch=epoch, column="photo")[4:])


def test_views_and_images_in_their_own_sizes_are_those_of_a_loader(tmp_path):
    pq.write_table(pa.table({"image": FILES}), tmp_path / "a.parquet")
    views = fb.Views(g=(CROP, 2), l=FLOATS)
    batch = next(iter(fb.Loader(tmp_path, decode={"image": views}, batch_size=12, shuffle=None)))
    found = fb.decode_image(FILES, views)
    assert list(found) == ["g", "l"]
    assert found["g"].shape == (12, 2, 16, 16, 3)
    assert all(np.array_equal(found[name], batch[f"image.{name}"]) for name in found)
    alone = fb.decode_image(FILES[7], views, rows=7)
    assert np.array_equal(alone["g"], found["g"][7])
    assert np.array_equal(alone["l"], found["l"][7])
    ragged = fb.Image.fit(40).ragged()
    batch = next(iter(fb.Loader(tmp_path, decode={"image": ragged}, batch_size=12, shuffle=None)))
    own = fb.decode_image(FILES, ragged)
    assert len({one.shape for one in own}) > 1
    assert all(np.array_equal(one, batch["image"][at]) for at, one in enumerate(own))


@pytest.mark.parametrize("dtype", ["uint8", "uint16", "float16", "float32"])
@pytest.mark.parametrize("threads", [None, 1, 2, 7])
def test_a_batch_has_the_images_by_themselves_whatever_the_threads(dtype, threads):
    image = CROP.dtype(dtype).layout("NCHW")
    batch = fb.decode_image(FILES, image, seed=2**64 - 1, rows=5, threads=threads)
    alone = [fb.decode_image(file, image, seed=2**64 - 1, rows=5 + at) for at, file in enumerate(FILES)]
    assert (batch.shape, batch.dtype.name) == ((12, 3, 16, 16), dtype)
    assert np.array_equal(batch, np.stack(alone))
    assert not np.array_equal(batch, fb.decode_image(FILES, image, seed=3))
    assert fb.decode_image([], image).shape == (0, 3, 16, 16)
    own = fb.decode_image(FILES, threads=threads)
    assert all(np.array_equal(one, fb.decode_image(file)) for one, file in zip(own, FILES, strict=True))
    assert fb.decode_image([]) == []


def test_pixels_are_written_where_the_caller_says():
    files, image = FILES[:3], fb.Image.resize(8, 9).dtype("float32")
    out = np.full((3, 8, 9, 3), np.nan, np.float32)
    assert fb.decode_image(files, image, out=out) is out
    assert np.array_equal(out, fb.decode_image(files, image))
    own = np.zeros((30, 40, 3), np.uint8)
    fb.decode_image(files[0], out=own)
    assert np.array_equal(own, fb.decode_image(files[0]))


def test_a_ragged_image_has_its_own_size():
    image = fb.Image.fit(20).ragged()
    assert fb.decode_image(encoded(1), image).shape == (15, 20, 3)


def test_threads_decode_the_same():
    files = [encoded(seed, (64, 48), "JPEG") for seed in range(40)]
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(fb.decode_image, files))
        batches = list(pool.map(lambda _: fb.decode_image(files, CROP, threads=3), range(4)))
    assert all(np.array_equal(one, fb.decode_image(file)) for one, file in zip(together, files, strict=True))
    assert all(np.array_equal(batch, fb.decode_image(files, CROP)) for batch in batches)


def decoded_in_child(results) -> None:
    results.put(fb.decode_image(FILES, CROP, threads=2).sum())


def test_a_forked_child_has_threads_of_its_own():
    expected = fb.decode_image(FILES, CROP, threads=2).sum()
    fork = multiprocessing.get_context("fork")
    results = fork.SimpleQueue()
    child = fork.Process(target=decoded_in_child, args=(results,))
    child.start()
    child.join(PATIENCE)
    assert child.exitcode == 0
    assert results.get() == expected


def test_what_needs_a_loader_is_refused():
    image = fb.Image.resize(8, 8)
    for name, refused in [
        ("random_iou_crop", fb.Image.random_iou_crop(8, boxes="boxes")),
        ("of", image.of("image")),
        ("emit_geometry", image.emit_geometry()),
    ]:
        says = rf"^{name} for an image .*boxes, another column and geometry need a loader"
        for data in (FILES[0], FILES):
            for wanted in (refused, fb.Views(a=image, b=refused)):
                with pytest.raises(fb.InvalidError, match=says):
                    fb.decode_image(data, wanted)


def test_cells_of_a_batch_dicts_and_dictionaries_are_read_as_lists(tmp_path):
    expected = fb.decode_image(FILES, CROP, seed=3)
    pq.write_table(pa.table({"image": FILES}), tmp_path / "a.parquet")
    batch = next(iter(fb.Loader(tmp_path, batch_size=len(FILES))))
    dicts = [{"bytes": file, "path": None} for file in FILES]
    encoded = pa.array(FILES, pa.binary()).dictionary_encode()
    for files in (batch["image"], dicts, np.array(dicts, object), encoded, encoded.take(pa.array(range(12)))):
        assert np.array_equal(fb.decode_image(files, CROP, seed=3), expected)
    assert np.array_equal(fb.decode_image(dicts[0], CROP, seed=3), expected[0])
    shared = pa.DictionaryArray.from_arrays(pa.array([1, None, 1]), pa.array([None, FILES[0]]))
    assert len(fb.decode_image(shared, CROP, on_bad_row=fb.Skip(at_most=1), skipped=[])) == 2
    empty = pa.DictionaryArray.from_arrays(pa.array([None], pa.int8()), pa.array([], pa.binary()))
    with pytest.raises(fb.BadRowError, match="null where an image"):
        fb.decode_image(empty, CROP)
    for wrong in ([np.array([FILES[0]], object)], {"bytes": None}, [{"path": "a.png"}]):
        with pytest.raises(fb.InvalidError, match="data must be"):
            fb.decode_image(wrong, CROP)


BAD = [*FILES[:3], b"<html>", *FILES[3:6], None, FILES[6][:90]]


@pytest.mark.parametrize("of", [list, lambda files: pa.array(files, pa.binary())])
@pytest.mark.parametrize("threads", [1, 2])
def test_bad_images_are_raised_filled_or_left_out(of, threads):
    good = [file for at, file in enumerate(BAD) if at not in (3, 7, 8)]
    rows = [row for row in range(len(BAD)) if row not in (3, 7, 8)]
    with pytest.raises(fb.BadRowError, match=r"row 3: .*HTML.*on_bad_row") as raised:
        fb.decode_image(of(BAD), CROP, threads=threads)
    assert raised.value.row == 3
    skipped: list[fb.BadRowError] = []
    filled = fb.decode_image(of(BAD), CROP, threads=threads, on_bad_row="fill", skipped=skipped)
    assert [error.row for error in skipped] == [3, 7, 8]
    assert "null" in str(skipped[1])
    assert filled.shape[0] == len(BAD)
    assert not filled[[3, 7, 8]].any()
    assert np.array_equal(filled[rows], fb.decode_image(good, CROP, rows=rows))
    skipped.clear()
    kept = fb.decode_image(of(BAD), CROP, threads=threads, on_bad_row=fb.Skip(at_most=3), skipped=skipped)
    assert np.array_equal(kept, filled[rows])
    assert [error.row for error in skipped] == [3, 7, 8]
    with pytest.raises(fb.BadRowError, match=r"more bad images than the 2 that may be skipped") as raised:
        fb.decode_image(of(BAD), CROP, threads=threads, on_bad_row=fb.Skip(at_most=2), skipped=[])
    assert raised.value.row == 8


def test_bad_images_in_their_own_sizes_and_views_are_treated_alike():
    with pytest.raises(fb.BadRowError, match=r"row 3: "):
        fb.decode_image(BAD)
    filled = fb.decode_image(BAD, on_bad_row="fill", skipped=[])
    assert [one.shape[0] for one in filled] == [30, 30, 30, 0, 30, 30, 30, 0, 0]
    skipped: list[fb.BadRowError] = []
    kept = fb.decode_image(BAD, on_bad_row=fb.Skip(at_most=9), skipped=skipped)
    assert (len(kept), [error.row for error in skipped]) == (6, [3, 7, 8])
    assert all(np.array_equal(one, two) for one, two in zip(kept, filled[:3] + filled[4:7], strict=True))
    views = fb.Views(g=(CROP, 2), l=CROP)
    found = fb.decode_image(BAD, views, on_bad_row=fb.Skip(at_most=9), skipped=[])
    assert (found["g"].shape, found["l"].shape) == ((6, 2, 16, 16, 3), (6, 16, 16, 3))
    assert np.array_equal(found["l"][3:], fb.decode_image(BAD[4:7], views, rows=4)["l"])


def test_what_cannot_be_decoded_is_refused_with_its_place_and_the_next_move():
    image = fb.Image.resize(8, 8)
    with pytest.raises(fb.BadRowError, match="corrupt PNG"):
        fb.decode_image(encoded(1)[:200])
    with pytest.raises(fb.TooLargeError, match="max_pixels"):
        fb.decode_image(encoded(1), image.max_pixels(100))
    with pytest.raises(fb.InvalidError, match="not a path"):
        fb.decode_image("photograph.jpg")
    for wrong in (3, None, {}, [encoded(1), 7]):
        with pytest.raises(fb.InvalidError, match="data must be"):
            fb.decode_image(wrong, image)
    for wrong in (pa.array(["a"]), pa.table({"image": FILES}), pa.array([[b"a"]])):
        with pytest.raises(fb.InvalidError, match="not encoded images"):
            fb.decode_image(wrong, image)
    for seed in (-1, 2**64, True, "7"):
        with pytest.raises(fb.InvalidError, match="seed must be"):
            fb.decode_image(encoded(1), seed=seed)
    for rows in (-1, "7", [1], 2**70):
        with pytest.raises(fb.InvalidError, match="rows must be"):
            fb.decode_image(FILES, image, rows=rows)
    for threads in (0, 1025, True):
        with pytest.raises(fb.InvalidError, match="threads must be"):
            fb.decode_image(FILES, image, threads=threads)
    with pytest.raises(fb.InvalidError, match="image must be"):
        fb.decode_image(encoded(1), "resize")
    with pytest.raises(fb.InvalidError, match="normalize"):
        fb.decode_image(encoded(1), image.normalize((0.5,) * 3, (0.5,) * 3))
    frozen = np.zeros((8, 8, 3), np.uint8)
    frozen.flags.writeable = False
    strided = np.zeros((8, 8, 6), np.uint8)[..., ::2]
    for out in (np.zeros((8, 8, 3)), np.zeros((8, 9, 3), np.uint8), frozen, strided, []):
        with pytest.raises(fb.InvalidError, match="out must be"):
            fb.decode_image(encoded(1), image, out=out)
    with pytest.raises(fb.InvalidError, match="image"):
        fb.decode_image(FILES, out=strided)
    for on_bad_row in ("skip", 3, fb.Skip(at_most=3, refill=True)):
        with pytest.raises(fb.InvalidError, match="on_bad_row must be"):
            fb.decode_image(FILES, image, on_bad_row=on_bad_row, skipped=[])
    with pytest.raises(fb.InvalidError, match=r"got an array of the shape \[8, 9, 3\] and the type float64$"):
        fb.decode_image(encoded(1), image, out=np.zeros((8, 9, 3)))
    with pytest.raises(fb.InvalidError, match=r"^on_bad_row without skipped \(pass a list"):
        fb.decode_image(FILES, image, on_bad_row="fill")
    with pytest.raises(fb.InvalidError, match="single image"):
        fb.decode_image(FILES[0], image, on_bad_row="fill", skipped=[])
    with pytest.raises(fb.InvalidError, match="left out"):
        fb.decode_image(FILES, image, on_bad_row=fb.Skip(at_most=1), skipped=[], out=np.zeros((12, 8, 8, 3), np.uint8))


def bomb() -> bytes:
    """A JPEG whose header claims 3,600 x 3,600 pixels, 39 MB, and that has none of them."""
    file = bytearray(encoded(1, form="JPEG"))
    frame = file.index(b"\xff\xc0") + 5
    file[frame : frame + 4] = (3_600).to_bytes(2, "big") * 2
    return bytes(file)


def peak() -> int:
    """The most memory that this process has had, in bytes, since it was last reset."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) << 10 for line in lines if line.startswith("VmHWM"))


def test_memory_is_that_of_the_threads_whatever_the_headers_claim():
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        pytest.skip("the peak of memory cannot be reset here")
    files = [bomb() for _ in range(40)]
    before = peak()
    skipped: list[fb.BadRowError] = []
    assert fb.decode_image(files, on_bad_row=fb.Skip(at_most=40), skipped=skipped, threads=4) == []
    assert len(skipped) == 40
    assert fb.decode_image(files, CROP, on_bad_row="fill", skipped=[], threads=4).shape == (40, 16, 16, 3)
    # The headers of the files claim 1.5 GB of pixels together.
    assert peak() - before < 512 << 20


def foreign() -> list[Path]:
    data = Path(os.environ.get("FOREBAY_TEST_DATA", "absent"))
    forms = (".jpg", ".jpeg", ".png", ".bmp", ".gif", ".tif", ".tiff", ".webp")
    return sorted(path for path in data.rglob("*") if path.suffix.lower() in forms and path.stat().st_size < 200_000)


def test_foreign_files_have_the_same_pixels_or_the_same_error_as_in_a_loader(tmp_path):
    paths = foreign()
    if not paths:
        pytest.skip("FOREBAY_TEST_DATA has no images")
    files = [path.read_bytes() for path in paths]
    pq.write_table(pa.table({"image": files}), tmp_path / "a.parquet")
    skip = fb.Skip(at_most=len(files))
    loader = fb.Loader(tmp_path, decode={"image": CROP}, batch_size=len(files), shuffle=None, on_bad_row=skip)
    batch = next(iter(loader))
    skipped: list[fb.BadRowError] = []
    found = fb.decode_image(pa.array(files), CROP, on_bad_row=skip, skipped=skipped)
    assert np.array_equal(found, batch["image"])
    bad = {error.row: str(error) for error in skipped}
    assert set(bad) == {row.row for row in loader.skipped()}
    assert 0 < len(bad) < len(files)
    print(f"{len(found)} files alike, {len(bad)} bad")
