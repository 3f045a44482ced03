"""The random draws for the images of a row: columns draw independently unless one follows another, and the
frames of a window draw together."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import png

import forebay as fb

ROWS = 60
VIEW = fb.Image.random_resized_crop(24).flip().vertical_flip().color_jitter(0.5, 0.5, 0.2, 0.1)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, a copy of each in full size and in half size, and masks; the rows form six clips of ten rows."""
    folder = tmp_path_factory.mktemp("draws")
    random = np.random.default_rng(3)
    pictures = [np.kron(random.integers(0, 256, (8, 10, 3), np.uint8), np.ones((8, 8, 1), np.uint8)) for _ in range(ROWS)]
    image = [png(picture) for picture in pictures]
    half = [png(picture[::2, ::2]) for picture in pictures]
    mask = [png(picture[..., 0]) for picture in pictures]
    table = {"image": image, "again": image, "half": half, "mask": mask, "t": list(range(ROWS))}
    table["clip"] = [row // 10 for row in range(ROWS)]
    table["boxes"] = [[[8.0, 8.0, 40.0, 32.0]]] * ROWS
    table["half_boxes"] = [[[4.0, 4.0, 20.0, 16.0]]] * ROWS
    pq.write_table(pa.table(table), folder / "a.parquet", row_group_size=20)
    return folder


def batch(data: Path, decode: dict[str, Any], **options: Any) -> fb.Batch:
    options = {"batch_size": ROWS, **options}
    with fb.Loader(data, decode=decode, **options) as loader:
        return next(iter(loader))


def alike(left: Any, right: Any) -> int:
    return sum(bool((a == b).all()) for a, b in zip(left, right))


def test_columns_draw_alone(data: Path) -> None:
    view = VIEW.emit_geometry()
    made = batch(data, {"image": view, "again": view})
    assert alike(made["image"], made["again"]) == 0
    assert alike(made["image.geometry"], made["again.geometry"]) == 0


def test_what_a_column_draws_depends_on_its_stored_name_alone(data: Path) -> None:
    alone = batch(data, {"image": VIEW})
    beside = batch(data, {"image": VIEW, "again": VIEW}, columns=["again", "image"])
    renamed = batch(data, {"photo": VIEW}, columns=["image"], rename={"image": "photo"})
    swapped = batch(data, {"again": VIEW, "image": VIEW}, rename={"image": "again", "again": "image"})
    for other in (beside["image"], renamed["photo"], swapped["again"]):
        np.testing.assert_array_equal(alone["image"], other)


def test_an_image_that_follows_is_shown_as_the_other_one(data: Path) -> None:
    decode = {
        "image": VIEW.emit_geometry(),
        "again": VIEW.of("image").emit_geometry(),
        "half": fb.Image.resize(12, 12).of("again").emit_geometry(),
        "boxes": fb.Boxes(of="image"),
        "half_boxes": fb.Boxes(of="half"),
        "mask": fb.Mask(of="again"),
    }
    made = batch(data, decode)
    np.testing.assert_array_equal(made["image"], made["again"])
    np.testing.assert_array_equal(made["image.geometry"], made["again.geometry"])
    whole, half = made["image.geometry"], made["half.geometry"]
    np.testing.assert_allclose(whole[:, :4] / 2, half[:, :4], atol=1e-4)
    np.testing.assert_array_equal(whole[:, 4:6], half[:, 4:6])
    np.testing.assert_allclose(made["boxes"].values / 2, made["half_boxes"].values, atol=1e-4)
    of_image = batch(data, {"image": VIEW, "mask": fb.Mask(of="image")})
    np.testing.assert_array_equal(made["mask"], of_image["mask"])


@pytest.mark.parametrize("tier", ["pixels", "coefficients", "auto"])
def test_a_cache_keeps_nothing_that_was_drawn(data: Path, tmp_path: Path, tier: Any) -> None:
    decode = {"image": fb.Image.random_resized_crop(24).flip(), "half": fb.Image.resize(12, 12).of("image")}
    truth = [batch["half"].copy() for batch in fb.Loader(data, decode=decode, batch_size=20, epochs=2)]
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GB", tier=tier)
    cached = fb.Loader(data, decode=decode, batch_size=20, epochs=2, cache=cache)
    for epoch in range(2):
        for at, made in enumerate(cached):
            if epoch == 0:
                np.testing.assert_allclose(made["half"].astype(int), truth[at].astype(int), atol=2)
    other = fb.Loader(data, decode={**decode, "image": decode["image"].vertical_flip(1.0)}, batch_size=20, cache=cache)
    files = fb.Loader(data, decode={**decode, "image": decode["image"].vertical_flip(1.0)}, batch_size=20)
    for kept, file in zip(other, files):
        np.testing.assert_allclose(kept["half"].astype(int), file["half"].astype(int), atol=2)


@pytest.mark.parametrize(
    ("decode", "said"),
    [
        ({"image": VIEW.of("image")}, "follows itself"),
        ({"image": VIEW.of("again"), "again": VIEW.of("image")}, "in a circle"),
        ({"image": VIEW.of("nothing")}, "no column 'nothing'|there is no column"),
        ({"image": VIEW.of("again")}, "not decoded to pixels"),
        ({"image": VIEW.of("t"), "again": VIEW}, "not decoded to pixels"),
        ({"image": VIEW, "again": fb.Image.center_crop(24).of("image")}, "a crop or a canvas of its own"),
        ({"image": VIEW, "again": fb.Image.resize(8, 8).flip(1.0).of("image")}, "a flip of its own"),
        ({"image": VIEW, "again": fb.Image.resize(8, 8).random_rotation(9).of("image")}, "a rotation of its own"),
    ],
)
def test_what_cannot_be_followed_is_refused(data: Path, decode: dict[str, Any], said: str) -> None:
    with pytest.raises(fb.ForebayError, match=said):
        batch(data, decode)


def test_the_name_of_a_column_is_a_text() -> None:
    with pytest.raises(fb.InvalidError, match="of must be the name"):
        VIEW.of(3)  # type: ignore[arg-type]


def clips(data: Path, **options: Any) -> tuple[Any, fb.Batch]:
    window = fb.Window(10, by="t", within="clip", overlap=False, **options)
    decode = {"image": VIEW.emit_geometry(), "boxes": fb.Boxes(of="image"), "mask": fb.Mask(of="image")}
    made = batch(data, decode, columns=["image", "boxes", "mask"], samples=window, batch_size=6)
    return made["image.geometry"], made


def test_the_frames_of_a_window_draw_together(data: Path) -> None:
    geometry, made = clips(data)
    assert all((clip == clip[0]).all() for clip in geometry)
    assert len({clip.tobytes() for clip in geometry}) == 6
    for clip in made["boxes"]:
        assert all((frame == clip[0]).all() for frame in clip)
    plain = batch(data, {"image": VIEW.emit_geometry()}, columns=["image"])["image.geometry"]
    np.testing.assert_array_equal(geometry[:, 0], plain[::10])


def test_frames_that_are_alone_draw_as_rows_do(data: Path) -> None:
    geometry, made = clips(data, frames="alone")
    plain = batch(data, {"image": VIEW.emit_geometry(), "mask": fb.Mask(of="image")}, columns=["image", "mask"])
    np.testing.assert_array_equal(geometry.reshape(ROWS, -1), plain["image.geometry"])
    np.testing.assert_array_equal(made["image"].reshape(plain["image"].shape), plain["image"])
    np.testing.assert_array_equal(made["mask"].reshape(plain["mask"].shape), plain["mask"])


def test_windows_draw_the_same_on_any_number_of_ranks_and_after_a_resume(data: Path) -> None:
    def loader(**options: Any) -> fb.Loader:
        window = fb.Window(4, by="t", across="dataset")
        decode = {"image": VIEW.emit_geometry()}
        shuffle = fb.Shuffle(seed=5)
        return fb.Loader(
            data, samples=window, columns=["image"], decode=decode, shuffle=shuffle, row_id=True, **options
        )

    def seen(batches: Any) -> dict[int, bytes]:
        pairs = ((made["row_id"], made["image.geometry"]) for made in batches)
        return {int(rows[0]): clip.tobytes() for ids, clips in pairs for rows, clip in zip(ids, clips)}

    truth = seen(loader(batch_size=8, epochs=1))
    assert len(set(truth.values())) == len(truth) > 40
    ranks = [seen(loader(batch_size=3, epochs=1, shard=fb.Shard(rank=rank, world=2))) for rank in range(2)]
    assert {**ranks[0], **ranks[1]} == truth
    first = loader(batch_size=8, epochs=1)
    batches = iter(first)
    before = seen([next(batches) for _ in range(3)])
    state = first.state_dict()
    resumed = loader(batch_size=8, epochs=1)
    resumed.load_state_dict(state)
    assert {**before, **seen(resumed)} == truth


def test_frames_are_named() -> None:
    with pytest.raises(fb.InvalidError, match="frames must be"):
        fb.Window(3, frames="each")  # type: ignore[arg-type]
    assert repr(fb.Window(3, frames="alone")) == "forebay.Window(3, frames='alone')"
    assert fb.Window(3, frames="alone") != fb.Window(3)
