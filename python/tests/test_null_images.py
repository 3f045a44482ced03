"""Null images, masks and tensors: the values in their place, the null masks, and the columns that belong to a null
image."""

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
HEIGHT, WIDTH = 20, 30
CELL = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def is_null(row: int) -> bool:
    return row % 7 in (0, 3)


def photograph(row: int) -> bytes:
    pixels = np.random.default_rng(row).integers(1, 256, (HEIGHT, WIDTH, 3), np.uint8)
    file = io.BytesIO()
    # No pixel is 0, so that no image looks like a slot of zeros.
    Pillow.fromarray(pixels).save(file, "JPEG", quality=95)
    return png(pixels) if row % 2 else file.getvalue()


def columns(with_nulls: bool = True) -> pa.Table:
    """Returns a table in which about one row in three has no image. With nulls, some other columns of these
    rows are null as well."""
    rows = range(ROWS)
    gone = [with_nulls and is_null(row) for row in rows]
    images = [None if gone[row] else photograph(row) for row in rows]
    classes = [png(np.full((HEIGHT, WIDTH), row % 250 + 1, np.uint8)) for row in rows]
    numbers = [np.arange(6, dtype=np.float32) + row + 1 for row in rows]
    return pa.table(
        {
            "id": pa.array(rows, pa.int64()),
            "image": pa.array(images, pa.binary()),
            "cell": pa.array([None if image is None else {"bytes": image, "path": "a"} for image in images], CELL),
            "boxes": pa.array([None if gone[row] and row % 2 else [[1.0, 2.0, 9.0, 9.0]] for row in rows]),
            "labels": pa.array([[row] for row in rows], pa.list_(pa.int32())),
            "label": pa.array([row % 3 for row in rows], pa.int64()),
            "points": pa.array([None if gone[row] and row % 2 else [[3.0, 4.0]] for row in rows]),
            "classes": pa.array([None if gone[row] and row % 2 else classes[row] for row in rows], pa.binary()),
            "raw": pa.array([None if gone[row] else numbers[row].tobytes() for row in rows], pa.binary()),
            "fixed": pa.array([None if gone[row] else numbers[row].tobytes() for row in rows], pa.binary(24)),
            "list": pa.array([None if gone[row] else numbers[row].tolist() for row in rows], pa.list_(pa.float32())),
            "lists": pa.array(
                [None if gone[row] else numbers[row].tolist() for row in rows], pa.list_(pa.float32(), 6)
            ),
        }
    )


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("nulls")
    pq.write_table(columns(), folder / "a.parquet", row_group_size=17)
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same table without nulls."""
    folder = tmp_path_factory.mktemp("whole")
    pq.write_table(columns(with_nulls=False), folder / "a.parquet", row_group_size=17)
    return folder


def rows(data: Path, decode: dict[str, Any], epoch: int = 0, **options: Any) -> dict[int, dict[str, Any]]:
    found: dict[int, dict[str, Any]] = {}
    names = ["id", *decode, *options.pop("more", [])]
    options = {"batch_size": 8, "columns": names, "shuffle": fb.Shuffle(seed=4), **options}
    with fb.Loader(data, decode=decode, **options) as loader:
        for batch in loader.epoch(epoch):
            for at, number in enumerate(batch["id"].tolist()):
                found[number] = {name: values[at] for name, values in batch.items()}
    return found


CROP = fb.Image.random_resized_crop((8, 12)).flip()


@pytest.mark.parametrize("column", ["image", "cell"])
def test_an_image_that_is_null_is_black_and_the_others_are_as_they_were(data: Path, whole: Path, column: str) -> None:
    for epoch in range(2):
        expected = rows(whole, {column: CROP}, epoch)
        found = rows(data, {column: CROP}, epoch, null_mask=[column])
        assert list(found) == list(expected) and sorted(found) == list(range(ROWS))
        for row, cells in found.items():
            assert cells[f"{column}.mask"] == (not is_null(row))
            want = np.zeros((8, 12, 3), np.uint8) if is_null(row) else expected[row][column]
            np.testing.assert_array_equal(cells[column], want)


def test_the_fill_is_the_number_that_is_delivered(data: Path, whole: Path) -> None:
    normal: dict[str, Any] = {"mean": (0.5, 0.4, 0.3), "std": (0.2, 0.2, 0.2)}
    images = {
        "uint8": (CROP, 114),
        "chw": (CROP.layout("NCHW"), 7),
        "uint16": (CROP.dtype("uint16"), 65_535),
        "float16": (CROP.dtype("float16").normalize(**normal), -1.5),
        "float32": (CROP.dtype("float32").normalize(**normal), float("nan")),
        "grey": (CROP.grayscale(), 1),
    }
    for name, (image, fill) in images.items():
        expected = rows(whole, {"image": image})
        found = rows(data, {"image": image}, fill_null={"im*": fill})
        for row, cells in found.items():
            assert "image.mask" not in cells
            want = np.full_like(expected[row]["image"], fill) if is_null(row) else expected[row]["image"]
            np.testing.assert_array_equal(cells["image"], want, err_msg=name)
    with fb.Loader(
        data, decode={"image": CROP.dtype("bfloat16")}, columns=["image"], fill_null={"image": 0.5}
    ) as loader:
        words = next(iter(loader)).to_arrow().column("image")
    assert set(words[0].as_py()) == {0x3F00}


def test_what_follows_a_null_image_is_empty_or_zero(data: Path, whole: Path) -> None:
    decode = {
        "image": CROP.emit_geometry(),
        "boxes": fb.Boxes(of="image", min_visible=1e-6, along=["labels"]),
        "points": fb.Keypoints(of="image"),
        "classes": fb.Mask(of="image"),
        "cell": fb.Image.resize(8, 12).of("image"),
    }
    more = ["labels"]
    expected = rows(whole, decode, more=more)
    for fills, ignored in (({}, 0), ({"classes": 255}, 255)):
        found = rows(data, decode, more=more, null_mask=["image", "cell"], fill_null=fills, threads=2)
        assert list(found) == list(expected)
        for row, cells in found.items():
            if not is_null(row):
                for name, value in expected[row].items():
                    np.testing.assert_array_equal(cells[name], value, err_msg=name)
                continue
            assert [len(cells[name]) for name in ("boxes", "labels", "points")] == [0, 0, 0]
            assert not cells["image"].any() and not cells["cell"].any() and not cells["image.geometry"].any()
            assert (cells["classes"] == ignored).all()


def test_images_in_their_own_size_are_empty_and_those_on_a_canvas_are_filled(data: Path, whole: Path) -> None:
    for image in (fb.Image.fit(16).ragged(), fb.Image.fit(16)):
        expected = rows(whole, {"image": image})
        found = rows(data, {"image": image}, null_mask=["image"], fill_null={"image": 9})
        for row, cells in found.items():
            if not is_null(row):
                np.testing.assert_array_equal(cells["image"], expected[row]["image"])
                continue
            assert cells["image.size"].tolist() == [0, 0]
            assert cells["image"].size == 0 or (cells["image"] == 9).all()
    with fb.Loader(data, decode={"image": fb.Image.fit(16).ragged()}, columns=["image"], null_mask=["image"]) as loader:
        assert next(iter(loader))["image"][0].shape == (0, 0, 3)


def test_a_mask_a_box_and_a_point_of_an_image_that_is_there_may_be_null(tmp_path: Path) -> None:
    table = columns(with_nulls=False).slice(0, 4)
    for name in ("boxes", "points", "classes"):
        column = table[name].combine_chunks()
        nulls = pa.array([False, True, False, True])
        gone = pa.array([None] * 4, column.type)
        table = table.set_column(table.column_names.index(name), name, pa.compute.if_else(nulls, gone, column))
    pq.write_table(table, tmp_path / "a.parquet")
    decode = {
        "image": fb.Image.resize(10, 10),
        "boxes": fb.Boxes(of="image"),
        "points": fb.Keypoints(of="image"),
        "classes": fb.Mask(of="image"),
    }
    masked = ["boxes", "points", "classes"]
    found = rows(tmp_path, decode, null_mask=masked, fill_null={"classes": 255})
    for row, cells in found.items():
        assert [cells[f"{name}.mask"] for name in masked] == [row % 2 == 0] * 3
        assert [len(cells[name]) for name in masked[:2]] == [1 - row % 2] * 2
        assert set(np.unique(cells["classes"])) == {255 if row % 2 else row + 1}
    for name, said in (
        ("boxes", "null where a list of boxes.*null_mask"),
        ("classes", "null where a mask.*fill_null.*null_mask"),
    ):
        rest = {other: spec for other, spec in decode.items() if other in ("image", name)}
        with pytest.raises(fb.BadRowError, match=rf'row 1, column "{name}": {said}'):
            rows(tmp_path, rest, shuffle=None)
    with pytest.raises(fb.InvalidError, match="fill_null gives a value for boxes.*null_mask delivers them empty"):
        rows(tmp_path, decode, fill_null={"boxes": 0})
    found = rows(tmp_path, decode, null_mask=["*"], fill_null={"*": 255})
    masks = {f"{name}.mask" for name in ("id", *decode)}
    assert all(masks <= set(cells) and (cells["classes"] == 255).all() == (row % 2 == 1) for row, cells in found.items())


def test_a_cell_with_a_path_alone_stays_a_bad_row(tmp_path: Path) -> None:
    image = photograph(1)
    cells = [None, {"bytes": None, "path": None}, {"bytes": None, "path": ""}, {"bytes": image, "path": None}]
    pq.write_table(pa.table({"image": pa.array(cells, CELL)}), tmp_path / "a.parquet")
    with fb.Loader(tmp_path, decode={"image": fb.Image.resize(4, 4)}, null_mask=["image"]) as loader:
        (batch,) = loader
        assert batch["image.mask"].tolist() == [False, False, False, True]
        assert not batch["image"][:3].any() and batch["image"][3].any()
    cells.insert(2, {"bytes": None, "path": "folder/b.png"})
    pq.write_table(pa.table({"image": pa.array(cells, CELL)}), tmp_path / "a.parquet")
    for options in ({"null_mask": ["image"]}, {"fill_null": {"image": 3}}):
        with fb.Loader(tmp_path, decode={"image": fb.Image.resize(4, 4)}, **options) as loader:
            with pytest.raises(fb.BadRowError, match=r'row 2, column "image".*only the path of an image is stored, "folder/b.png"'):
                list(loader)
        skip = fb.Skip(at_most=1)
        with fb.Loader(tmp_path, decode={"image": fb.Image.resize(4, 4)}, on_bad_row=skip, **options) as loader:
            assert [batch.num_rows for batch in loader] == [4] and len(loader.skipped()) == 1


@pytest.mark.parametrize("column", ["raw", "fixed", "list", "lists"])
def test_a_tensor_that_is_null_is_filled(data: Path, column: str) -> None:
    tensor = fb.Tensor("float32", (2, 3))
    for options, fill in (
        ({"null_mask": [column]}, 0.0),
        ({"fill_null": {column: -2.5}}, -2.5),
        ({"null_mask": ["*"], "fill_null": {column: float("inf")}}, float("inf")),
    ):
        found = rows(data, {column: tensor}, **options)
        assert len(found) == ROWS
        for row, cells in found.items():
            want = np.full((2, 3), fill) if is_null(row) else np.arange(6).reshape(2, 3) + row + 1
            np.testing.assert_array_equal(cells[column], want.astype(np.float32))
            assert cells.get(f"{column}.mask", not is_null(row)) == (not is_null(row))


def test_a_null_within_a_list_has_the_fill_or_is_a_bad_row(tmp_path: Path) -> None:
    lists = [[1, 2], [3, None], None, [None, None]]
    for kind in (pa.list_(pa.int16()), pa.list_(pa.int16(), 2)):
        pq.write_table(pa.table({"x": pa.array(lists, kind)}), tmp_path / "a.parquet")
        decode = {"x": fb.Tensor("int16", (2, 1))}
        with fb.Loader(tmp_path, decode=decode, fill_null={"x": 8}, null_mask=["x"]) as loader:
            (batch,) = loader
            assert batch["x"].reshape(4, 2).tolist() == [[1, 2], [3, 8], [8, 8], [8, 8]]
            assert batch["x.mask"].tolist() == [True, True, False, True]
        with fb.Loader(tmp_path, decode=decode, null_mask=["x"]) as loader:
            with pytest.raises(fb.BadRowError, match=r"row 1.*null where int16.*mask is for whole rows.*fill_null"):
                list(loader)
        with fb.Loader(tmp_path, decode=decode) as loader:
            with pytest.raises(fb.BadRowError, match=r"row 1.*null where int16.*fill_null"):
                list(loader)


def test_booleans_are_filled_as_well(tmp_path: Path) -> None:
    cells, lists = [b"\0\1", None], pa.array([None, [False, True]], pa.list_(pa.bool_()))
    pq.write_table(pa.table({"x": pa.array(cells, pa.binary()), "y": lists}), tmp_path / "a.parquet")
    tensor = fb.Tensor("bool", (2,))
    for fill in (0, 1):
        with fb.Loader(tmp_path, decode={"x": tensor, "y": tensor}, fill_null={"x": fill, "y": fill}) as loader:
            (batch,) = loader
            assert batch["x"].tolist() == [[False, True], [bool(fill)] * 2]
            assert batch["y"].tolist() == [[bool(fill)] * 2, [False, True]]


def test_an_error_for_a_null_names_both_options(data: Path) -> None:
    tensor = fb.Tensor("float32", (2, 3))
    for column, spec in (("image", CROP), ("cell", CROP), ("raw", tensor), ("list", tensor), ("lists", tensor)):
        with pytest.raises(fb.BadRowError, match=r"row 0, .*null where.*fill_null.*null_mask"):
            rows(data, {column: spec}, shuffle=None)


def test_a_fill_beyond_the_type_is_refused_when_the_loader_is_made(data: Path) -> None:
    tensor = fb.Tensor("float32", (2, 3))
    refused: list[tuple[dict[str, Any], Any]] = [
        ({"image": CROP}, 256),
        ({"image": CROP}, 0.5),
        ({"image": CROP}, "black"),
        ({"image": CROP.dtype("bfloat16")}, 3.4e38),
        ({"raw": tensor}, 1e39),
        ({"lists": tensor}, b"x"),
    ]
    for decode, fill in refused:
        (column,) = decode
        with pytest.raises(fb.InvalidError, match=f'column "{column}": fill_null value .* is not a value of type'):
            fb.Loader(data, columns=[column], decode=decode, fill_null={column: fill})


@pytest.mark.parametrize("tier", ["rows", "coefficients", "resized", "pixels"])
def test_a_cache_keeps_nulls(data: Path, tmp_path: Path, tier: Any) -> None:
    for image in (CROP, fb.Image.center_crop(16)):
        for column in ("image", "cell"):
            expected = rows(data, {column: image}, null_mask=[column])
            cache = fb.DiskCache(tmp_path, max_bytes="1GB", tier=tier)
            for _ in range(2):
                found = rows(data, {column: image}, null_mask=[column], cache=cache)
                assert list(found) == list(expected)
                for row, cells in found.items():
                    # Images that are cached in a smaller size have slightly different pixels.
                    if tier != "resized" or is_null(row):
                        np.testing.assert_array_equal(cells[column], expected[row][column])
                    assert cells[column].any() == (not is_null(row))
                    assert cells[f"{column}.mask"] == (not is_null(row))


def test_windows_have_a_mask_for_each_frame(data: Path, whole: Path) -> None:
    for frames in ("together", "alone"):
        window = fb.Window(5, overlap=False, frames=frames)
        options: dict[str, Any] = {
            "samples": window,
            "columns": ["id", "image"],
            "decode": {"image": CROP},
            "batch_size": 3,
        }
        with fb.Loader(data, null_mask=["image"], **options) as loader, fb.Loader(whole, **options) as other:
            for batch, expected in zip(loader, other, strict=True):
                assert batch["image"].shape[1:] == (5, 8, 12, 3) and batch["image.mask"].shape[1:] == (5,)
                nulls = np.vectorize(is_null)(batch["id"])
                assert (batch["image.mask"] == ~nulls).all() and not batch["image"][nulls].any()
                np.testing.assert_array_equal(batch["image"][~nulls], expected["image"][~nulls])


def test_other_samples_have_masks_too(data: Path) -> None:
    for samples in (fb.Sample(by="label"), fb.Bucket("labels", rows=4)):
        with fb.Loader(
            data,
            columns=["id", "image", "labels", "label"],
            decode={"image": CROP},
            null_mask=["image"],
            samples=samples,
        ) as loader:
            for batch in loader:
                nulls = np.vectorize(is_null)(batch["id"])
                assert (batch["image.mask"] == ~nulls).all() and not batch["image"][nulls].any()
                assert all(image.any() for image in batch["image"][~nulls])


def test_a_mix_of_sources_with_nulls(data: Path, whole: Path) -> None:
    sources = [
        fb.Loader(folder, columns=["id", "image"], decode={"image": CROP}, null_mask=["image"])
        for folder in (data, whole)
    ]
    with fb.Mix([(source, 1.0) for source in sources]) as mixed:
        masks = [batch["image.mask"] for batch in mixed.epoch(0)]
        assert np.concatenate(masks).sum() < sum(len(mask) for mask in masks)


def test_bad_rows_beside_nulls_are_still_left_out(tmp_path: Path) -> None:
    cells = [photograph(0), None, b"no image", None, photograph(1)]
    pq.write_table(pa.table({"id": range(5), "image": pa.array(cells, pa.binary())}), tmp_path / "a.parquet")
    for refill, want in ((False, [0, 1, 3, 4]), (True, [0, 1, 1, 3, 4])):
        skip = fb.Skip(at_most=1, refill=refill)
        with fb.Loader(tmp_path, decode={"image": CROP}, null_mask=["image"], on_bad_row=skip) as loader:
            (batch,) = loader
            assert batch["id"].tolist() == want and batch["image.mask"].tolist() == [row % 2 == 0 for row in want]
            assert not batch["image"][~batch["image.mask"]].any()


def test_a_column_without_nulls_is_all_there(whole: Path) -> None:
    with fb.Loader(whole, columns=["image", "cell"], decode={"image": CROP, "cell": CROP}, null_mask=["*"]) as loader:
        assert all(batch["image.mask"].all() and batch["cell.mask"].all() for batch in loader)
        with pickle.loads(pickle.dumps(loader)) as copy:
            assert copy.schema.names == ["image", "cell", "image.mask", "cell.mask"]
