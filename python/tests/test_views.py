"""Several views of each image: their random values, the columns that follow them, and options that are refused."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import forebay as fb

ROWS = 40
CROP = fb.Image.random_resized_crop(24, scale=(0.3, 1)).flip()
VIEWS = fb.Views(
    g=(CROP.emit_geometry(), 2),
    l=(fb.Image.random_resized_crop(12, scale=(0.05, 0.4)).flip(), 3),
    weak=fb.Image.random_resized_crop(16).flip().emit_geometry(),
)
COLUMNS = ["image.g", "image.l", "image.weak"]


def picture(number: int, size: tuple[int, int] = (60, 44)) -> bytes:
    coarse = np.random.default_rng(number).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(coarse).resize(size, Image.Resampling.BICUBIC).save(file, "JPEG", quality=95)
    return file.getvalue()


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("views")
    for part in range(2):
        rows = range(part * ROWS // 2, (part + 1) * ROWS // 2)
        table = pa.table(
            {
                "id": pa.array(rows, pa.int64()),
                "image": pa.array([picture(row) for row in rows], pa.binary()),
                "boxes": pa.array([[[5.0, 6.0, 30.0, 40.0]]] * len(rows), pa.list_(pa.list_(pa.float32()))),
            }
        )
        pq.write_table(table, folder / f"{part}.parquet", row_group_size=5)
    return folder


def epoch(loader: fb.Loader, columns=COLUMNS) -> dict[int, list[np.ndarray]]:
    """Returns the views of each row by its id."""
    rows = {}
    for batch in loader:
        for at, row in enumerate(batch["id"].tolist()):
            rows[row] = [np.array(batch[name][at]) for name in columns]
    return rows


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(
        all(np.array_equal(a, b) for a, b in zip(one[row], other[row], strict=True)) for row in one
    )


def loader(data, views=VIEWS, **options) -> fb.Loader:
    options = {"shuffle": fb.Shuffle(seed=7), "batch_size": 7, "columns": ["id", "image"], **options}
    return fb.Loader(data, decode={"image": views}, **options)


def test_a_view_is_a_column_with_a_dimension_for_its_count(data):
    batch = next(iter(loader(data)))
    shapes = {name: batch[name].shape for name in batch if name != "id"}
    assert shapes == {
        "image.g": (7, 2, 24, 24, 3),
        "image.l": (7, 3, 12, 12, 3),
        "image.weak": (7, 16, 16, 3),
        "image.g.geometry": (7, 2, 8),
        "image.weak.geometry": (7, 8),
    }


def test_each_image_shows_what_its_geometry_says(data):
    columns = ["image.g", "image.weak", "image.g.geometry", "image.weak.geometry"]
    for row, (large, weak, of_large, of_weak) in epoch(loader(data), columns).items():
        file = Image.open(io.BytesIO(picture(row)))
        images = [*zip(large, of_large, strict=True), (weak, of_weak)]
        for pixels, (top, left, height, width, flipped, _, whole_height, whole_width) in images:
            assert (whole_width, whole_height) == file.size
            box = (left, top, left + width, top + height)
            expected = file.resize(pixels.shape[1::-1], Image.Resampling.BILINEAR, box=box)
            expected = np.asarray(expected, np.int16)[:, :: -1 if flipped else 1]
            assert np.abs(pixels - expected).mean() < 1
        assert not np.array_equal(of_large[0], of_large[1])


def test_the_draws_depend_on_row_epoch_and_view_alone(data, tmp_path):
    reference = epoch(loader(data))
    assert len(reference) == ROWS
    cached = loader(data, cache=fb.DiskCache(tmp_path / "cache", max_bytes="100MB", tier="coefficients"))
    assert same(epoch(loader(data, threads=1, batch_size=3)), reference)
    first, second = epoch(cached), epoch(cached)
    assert same(first, reference)
    assert not same(second, reference)
    ranks = [epoch(loader(data, shard=fb.Shard(rank=rank, world=2))) for rank in range(2)]
    assert same(ranks[0] | ranks[1], reference)
    # The view `weak` is the same when it is read alone.
    weak = fb.Views(weak=VIEWS.views["weak"][0])
    assert same(epoch(loader(data, weak), ["image.weak"]), {row: views[2:] for row, views in reference.items()})
    others = loader(data)
    next(iter(others))
    assert same(epoch(others), second)


@pytest.mark.parametrize("tier", ["pixels", "coefficients", "resized", "rows"])
def test_a_cache_gives_the_same_pixels(data, tmp_path, tier):
    plain = loader(data)
    cached = loader(data, cache=fb.DiskCache(tmp_path / tier, max_bytes="100MB", tier=tier))
    for _ in range(2):
        assert same(epoch(cached), epoch(plain))


def test_a_loader_resumes_with_the_same_views(data):
    train = loader(data)
    batches = iter(train)
    for _ in range(2):
        next(batches)
    state = train.state_dict()
    rest = [np.array(batch["image.l"]) for batch in batches]
    again = loader(data)
    again.load_state_dict(state)
    resumed = [np.array(batch["image.l"]) for batch in again]
    assert len(rest) == len(resumed) > 0
    assert all(np.array_equal(one, other) for one, other in zip(rest, resumed, strict=True))


def test_views_in_a_mix_are_the_same_on_any_number_of_threads(data):
    def mixed(threads):
        sources = [(loader(data, batch_size=None), 0.6), (loader(data, batch_size=None, shuffle=fb.Shuffle(seed=8)), 0.4)]
        batches = fb.Mix(sources, batch_size=6, threads=threads, stop="first", repeat=False)
        return [[batch["id"].copy(), *(np.array(batch[name]) for name in COLUMNS)] for batch in batches]

    one, two = mixed(1), mixed(2)
    assert len(one) == len(two) > 3
    assert all(np.array_equal(a, b) for rows in zip(one, two, strict=True) for a, b in zip(*rows, strict=True))


def test_boxes_follow_a_view_without_a_count(data):
    train = fb.Loader(
        data,
        decode={"image": VIEWS, "boxes": fb.Boxes(of="image.weak")},
        shuffle=fb.Shuffle(seed=7),
        batch_size=ROWS,
    )
    batch = next(iter(train))
    for at in range(ROWS):
        top, left, height, width, flipped, *_ = batch["image.weak.geometry"][at]
        across = np.clip((np.array([5, 30]) - left) * 16 / width, 0, 16)
        down = np.clip((np.array([6, 40]) - top) * 16 / height, 0, 16)
        across = 16 - across[::-1] if flipped else across
        expected = [across[0], down[0], across[1], down[1]]
        np.testing.assert_allclose(batch["boxes"][at][0], expected, atol=0.01)


def test_a_damaged_image_is_one_bad_row_and_a_null_may_be_filled(tmp_path):
    cells = [picture(0), b"not an image", None, picture(1)]
    pq.write_table(pa.table({"id": range(4), "image": pa.array(cells, pa.binary())}), tmp_path / "a.parquet")
    skipping = fb.Loader(tmp_path, decode={"image": VIEWS}, batch_size=4, on_bad_row=fb.Skip(at_most=5))
    batch = next(iter(skipping))
    assert batch["id"].tolist() == [0, 3]
    assert {len(batch[name]) for name in COLUMNS} == {2}
    filled = fb.Loader(
        tmp_path, decode={"image": VIEWS}, batch_size=4, on_bad_row=fb.Skip(at_most=5), fill_null={"image": 9}
    )
    batch = next(iter(filled))
    assert batch["id"].tolist() == [0, 2, 3]
    assert all((batch[name][1] == 9).all() for name in COLUMNS)


def test_views_are_a_value():
    assert repr(fb.Views(a=CROP, b=(CROP, 2))) == f"forebay.Views(a={CROP!r}, b=({CROP!r}, 2))"
    assert pickle.loads(pickle.dumps(VIEWS)) == VIEWS
    assert hash(fb.Views(a=CROP)) == hash(fb.Views(a=CROP))
    assert fb.Views(a=CROP) != fb.Views(a=(CROP, 1))
    assert dict(fb.Views(a=(CROP, 3)).views) == {"a": (CROP, 3)}
    with pytest.raises(AttributeError):
        VIEWS.other = 1


@pytest.mark.parametrize(
    ("views", "said"),
    [
        ({}, "at least one view"),
        ({"g": 3}, "g must be a forebay.Image, or an Image and a count such as \\(image, 2\\), got int"),
        ({"g": (CROP, 0)}, "the count of g must be at least 1, got 0"),
        ({"g": (CROP, 1.5)}, "the count of g must be an int, got 1.5"),
        ({"g": (CROP, True)}, "the count of g must be an int, got True"),
    ],
)
def test_what_is_not_a_view_is_refused(views, said):
    with pytest.raises(fb.InvalidError, match=said):
        fb.Views(**views)


@pytest.mark.parametrize(
    ("decode", "said"),
    [
        ({"image": fb.Views(a=CROP, b=CROP.grayscale())}, 'column "image.b": differs in grayscale'),
        ({"image": fb.Views(a=fb.Image.fit(8))}, 'column "image.a": keeps the shape of images'),
        ({"image": fb.Views(a=CROP.of("boxes"))}, 'column "image.a": follows another image'),
        ({"image": VIEWS, "boxes": fb.Boxes(of="image.g")}, 'follows "image.g", which has several images for each row'),
        ({"image": VIEWS, "boxes": fb.Boxes(of="image")}, 'several views are delivered .*such as "image.g"'),
        ({"image": VIEWS, "boxes": fb.Boxes(of="image.x")}, "image.x"),
        ({"boxes": VIEWS}, "not encoded images"),
        ({"picture": VIEWS}, 'there is no column "picture"|"picture"'),
        ({"image": fb.Views(g=(CROP.emit_geometry(), 2), **{"g.geometry": CROP})}, "has the name of another column"),
    ],
)
def test_views_that_cannot_work_are_refused(data, decode, said):
    with pytest.raises(fb.ForebayError, match=said):
        fb.Loader(data, decode=decode)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"fill_null": {"image.g": 0}}, r'fill_null names "image.g", a view of column "image" \(name "image": the option'),
        ({"null_mask": ["image.g"]}, r'null_mask names "image.g", a view of column "image" \(name "image": the option'),
        ({"rename": {"image.g": "x"}}, r'rename names "image.g", a view of column "image" \(rename "image", with which'),
    ],
)
def test_an_option_that_names_a_view_says_what_it_can_name(data, options, said):
    with pytest.raises(fb.InvalidError, match=said):
        fb.Loader(data, decode={"image": VIEWS}, **options)
    # The options work with the names that the errors advise.
    named = fb.Loader(data, rename={"image": "x"}, decode={"x": VIEWS}, fill_null={"x": 0}, null_mask=["x"])
    assert {"x.g", "x.mask"} <= set(named.columns)


def test_views_of_an_image_have_the_same_offsets_in_a_window(data):
    views = fb.Views(a=fb.Image.resize(12, 12), b=fb.Image.resize(8, 8))
    rows = {}
    for batch in fb.Loader(data, decode={"image": views}):
        rows.update(zip(batch["id"].tolist(), zip(batch["image.a"], batch["image.b"])))
    for listed in [["image"], ["image.a", "image.b"]]:
        window = fb.Window({-1: ["id"], 0: ["id", *listed]})
        batch = next(iter(fb.Loader(data, columns=["id", "image"], decode={"image": views}, samples=window, batch_size=4)))
        for row, (_, number) in enumerate(batch["id"].tolist()):
            assert np.array_equal(batch["image.a"][row, 0], rows[number][0])
            assert np.array_equal(batch["image.b"][row, 0], rows[number][1])
    for window in [{0: ["image.a"], 1: ["image.b"]}, {0: ["image.a", "image.b"], 1: ["image.b"]}]:
        with pytest.raises(fb.InvalidError, match='"image.b": the window lists it at other offsets than "image.a"'):
            fb.Loader(data, columns=["image"], decode={"image": views}, samples=fb.Window(window))


def test_torch_has_views_with_the_channels_last(data):
    torch = pytest.importorskip("torch")
    batch = next(iter(fb.torch.batches(loader(data), channels_last=True)))
    reference = next(iter(loader(data)))
    assert batch["image.g"].shape == (7, 2, 3, 24, 24)
    assert batch["image.g"][0].is_contiguous(memory_format=torch.channels_last)
    assert np.array_equal(np.moveaxis(batch["image.g"].numpy(), 2, -1), reference["image.g"])
    assert batch["image.weak"].shape == (7, 3, 16, 16)
    planes = fb.Views(a=(CROP.layout("NCHW"), 2))
    batch = next(iter(fb.torch.batches(loader(data, planes), channels_last=True)))
    assert batch["image.a"].shape == (7, 2, 3, 24, 24)
    assert batch["image.a"][0].is_contiguous(memory_format=torch.channels_last)
