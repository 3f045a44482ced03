"""Clips: the images of a list or of a window become one value with one random draw, and keep the guarantees of rows."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import forebay as fb

ROWS = 48
SEED = 17
CROP = fb.Image.random_resized_crop(12, scale=(0.3, 1)).flip().color_jitter(0.4)
WHOLE = fb.Image.resize(6, 8)
# Images on a canvas, whose sizes are drawn.
SHORTEST = fb.Image.random_shortest_size([12, 18, 24], 36, fill=7).flip()
JITTER = fb.Image.scale_jitter((20, 24), scale_range=(0.4, 1.5), fill=9).flip()


def picture(row: int, number: int, form: str = "JPEG") -> bytes:
    coarse = np.random.default_rng((row, number)).integers(0, 256, (5, 6, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(coarse).resize((40, 30), Image.Resampling.BICUBIC).save(file, form, quality=92)
    return file.getvalue()


def length(row: int) -> int:
    return 1 + row * 5 % 7


CLIPS = [[picture(row, number) for number in range(length(row))] for row in range(ROWS)]
FRAMES = [picture(row, 0) for row in range(ROWS)]
PAIRS = [[picture(row, 0), picture(row, 1)] for row in range(ROWS)]
STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def write(folder, columns: dict[str, pa.Array]) -> str:
    table = pa.table({"id": pa.array(range(ROWS), pa.int64()), **columns})
    pq.write_table(table.slice(0, 20), folder / "a.parquet", row_group_size=8)
    pq.write_table(table.slice(20), folder / "b.parquet", row_group_size=8)
    return str(folder)


@pytest.fixture(scope="module")
def data(tmp_path_factory) -> str:
    lists = pa.array(CLIPS, pa.list_(pa.binary()))
    structs = [[{"bytes": image, "path": f"{at}.jpg"} for at, image in enumerate(clip)] for clip in CLIPS]
    columns = {
        "clip": lists,
        "large": pa.array(CLIPS, pa.large_list(pa.large_binary())),
        "struct": pa.array(structs, pa.list_(STRUCT)),
        "pair": pa.array(PAIRS, pa.list_(pa.binary(), 2)),
        "frame": pa.array(FRAMES, pa.binary()),
    }
    return write(tmp_path_factory.mktemp("clips"), columns)


def loader(data, **options) -> fb.Loader:
    shuffle = options.pop("shuffle", fb.Shuffle(seed=SEED, window_rows=16, lanes=4))
    return fb.Loader(data, shuffle=shuffle, **{"batch_size": 4} | options)


def by_id(batches, column: str = "clip") -> dict[int, np.ndarray]:
    found = {}
    for batch in batches:
        for at, row in enumerate(np.asarray(batch["id"]).reshape(len(batch["id"]), -1)[:, 0].tolist()):
            assert row not in found
            found[row] = np.array(batch[column][at])
    return found


def same(one: dict, other: dict) -> bool:
    return one.keys() == other.keys() and all(np.array_equal(one[row], other[row]) for row in one)


def even(frames: int, available: int) -> list[int]:
    return [(2 * at + 1) * available // (2 * frames) for at in range(frames)]


def alone(images: list[bytes], image: fb.Image, row: int, column: str, epoch: int = 0) -> np.ndarray:
    """Returns the images, each decoded by itself with the random draws of their row."""
    return fb.decode_image(images, image, seed=SEED, epoch=epoch, rows=[row] * len(images), column=column)


@pytest.mark.parametrize("column", ["clip", "large", "struct"])
@pytest.mark.parametrize("epoch", [0, 2])
def test_a_clip_has_its_images_with_the_draws_of_the_row(data, column, epoch):
    clip = fb.Clip(CROP, frames=4)
    found = by_id(loader(data, columns=["id", column], decode={column: clip}).epoch(epoch), column)
    assert len(found) == ROWS
    for row, pixels in found.items():
        images = [CLIPS[row][number] for number in even(4, length(row))]
        assert np.array_equal(pixels, alone(images, CROP, row, column, epoch)), row


def test_lists_of_one_length_and_of_different_lengths(data):
    decode = {"pair": fb.Clip(CROP), "clip": fb.Clip(CROP, at_most=7)}
    for batch in loader(data, columns=["id", "pair", "clip"], decode=decode):
        assert batch["pair"].shape == (4, 2, 12, 12, 3)
        assert isinstance(batch["clip"], fb.Ragged)
        for at, row in enumerate(batch["id"].tolist()):
            assert np.array_equal(batch["pair"][at], alone(PAIRS[row], CROP, row, "pair"))
            assert batch["clip"][at].shape == (length(row), 12, 12, 3)
            assert np.array_equal(batch["clip"][at], alone(CLIPS[row], CROP, row, "clip"))
    every = by_id(loader(data, columns=["id", "clip"], decode={"clip": fb.Clip(CROP, at_most=7, stride=3)}))
    assert all(np.array_equal(every[row], alone(CLIPS[row][::3], CROP, row, "clip")) for row in range(ROWS))


@pytest.mark.parametrize("dtype", ["uint8", "float32", "float16"])
def test_layouts_are_transposed(data, dtype):
    image = CROP.dtype(dtype)
    found = {}
    for layout in (None, "NTHWC", "NTCHW", "NCTHW"):
        clip = fb.Clip(image, frames=5, layout=layout)
        found[layout] = by_id(loader(data, columns=["id", "clip"], decode={"clip": clip}))
    assert found[None][0].shape == (5, 12, 12, 3)
    assert found["NCTHW"][0].shape == (3, 5, 12, 12)
    assert same(found[None], found["NTHWC"])
    assert same({row: clip.transpose(0, 3, 1, 2) for row, clip in found[None].items()}, found["NTCHW"])
    assert same({row: clip.transpose(3, 0, 1, 2) for row, clip in found[None].items()}, found["NCTHW"])
    first = fb.Clip(image.layout("NCHW"), frames=5)
    assert same(by_id(loader(data, columns=["id", "clip"], decode={"clip": first})), found["NTCHW"])


def test_images_that_draw_alone_differ_and_others_do_not(tmp_path):
    # Each list has one image several times.
    column = pa.array([[picture(row, 0)] * 6 for row in range(ROWS)], pa.list_(pa.binary()))
    data = write(tmp_path, {"clip": column})
    for draws, different in (("together", 1), ("alone", 6)):
        clips = by_id(loader(data, decode={"clip": fb.Clip(CROP, frames=6, draws=draws)}))
        counts = {len({frame.tobytes() for frame in clip}) for clip in clips.values()}
        assert counts == {different}


def test_random_images_depend_on_the_row_and_the_epoch_alone(data):
    """The test finds out which images of a list were chosen by comparing pixels."""
    known = {row: fb.decode_image(CLIPS[row], WHOLE) for row in range(ROWS)}

    def numbers(options, epoch, **more):
        clips = by_id(
            loader(data, columns=["id", "clip"], decode={"clip": fb.Clip(WHOLE, **options)}, **more).epoch(epoch)
        )
        return {
            row: [int(np.argmin([np.abs(frame.astype(int) - one).sum() for one in known[row]])) for frame in clip]
            for row, clip in clips.items()
        }

    random = {"frames": 2, "sampling": "random"}
    first = numbers(random, 0)
    assert first == numbers(random, 0, batch_size=7, threads=1)
    assert first != numbers(random, 1)
    for row, (one, two) in first.items():
        assert 0 <= one <= two < length(row)
        assert one <= (length(row) - 1) // 2
        assert two >= length(row) // 2
    dense = numbers({"frames": 3, "stride": 2, "sampling": "random"}, 0)
    for row, chosen in dense.items():
        expected = [min(chosen[0] + 2 * at, length(row) - 1) for at in range(3)]
        assert chosen == expected
    assert {chosen[0] for row, chosen in dense.items() if length(row) == 7} == {0, 1, 2}
    middle = numbers({"frames": 3, "stride": 2}, 0)
    assert all(chosen[0] == max(0, (length(row) - 5) // 2) for row, chosen in middle.items())


@pytest.mark.parametrize("frames", ["together", "alone"])
def test_a_clip_of_a_window_has_the_images_of_its_rows(data, frames):
    options = {"columns": ["id", "frame"], "samples": fb.Window(6, overlap=False, frames=frames)}
    plain = by_id(loader(data, decode={"frame": CROP}, **options), "frame")
    assert next(iter(plain.values())).shape == (6, 12, 12, 3)
    whole = by_id(loader(data, decode={"frame": fb.Clip(CROP)}, **options), "frame")
    assert same(whole, plain)
    some = by_id(loader(data, decode={"frame": fb.Clip(CROP, frames=4, layout="NCTHW")}, **options), "frame")
    assert same(some, {row: clip[even(4, 6)].transpose(3, 0, 1, 2) for row, clip in plain.items()})
    every = by_id(loader(data, decode={"frame": fb.Clip(CROP, stride=2)}, **options), "frame")
    assert same(every, {row: clip[::2] for row, clip in plain.items()})
    if frames == "together":
        own = by_id(loader(data, decode={"frame": fb.Clip(CROP, draws="alone")}, **options), "frame")
        options["samples"] = fb.Window(6, overlap=False, frames="alone")
        assert same(own, by_id(loader(data, decode={"frame": CROP}, **options), "frame"))
        assert not same(own, plain)


def test_a_window_with_a_stride_has_every_so_manyth_row(data):
    options = {"columns": ["id", "frame"], "decode": {"frame": WHOLE}}
    dense = {}
    for batch in loader(data, samples=fb.Window(5), **options):
        dense |= {ids[0]: (ids, clip) for ids, clip in zip(batch["id"].tolist(), batch["frame"], strict=True)}
    window = fb.Window(3, stride=2)
    assert (list(window.offsets), window.length) == ([0, 2, 4], 3)
    assert repr(window) == "forebay.Window(3, stride=2)"
    assert pickle.loads(pickle.dumps(window)) == window
    strided = loader(data, samples=window, **options)
    seen = 0
    for batch in strided:
        assert batch["frame"].shape[1:] == (3, 6, 8, 3)
        assert np.array_equal(window.at(batch, 4)["id"], batch["id"][:, 2])
        for ids, clip in zip(batch["id"].tolist(), batch["frame"], strict=True):
            assert ids == dense[ids[0]][0][::2]
            assert np.array_equal(clip, dense[ids[0]][1][::2])
            seen += 1
    assert seen == len(dense)
    clips = by_id(loader(data, columns=["id", "frame"], samples=window, decode={"frame": fb.Clip(WHOLE)}), "frame")
    assert same(clips, {row: clip[::2] for row, (_, clip) in dense.items()})
    with pytest.raises(fb.InvalidError, match="stride must be left out"):
        fb.Window({0: ["id"], 2: ["id"]}, stride=2)
    with pytest.raises(fb.InvalidError, match="less than the 5 rows"):
        fb.Window(3, stride=2, overlap=5)


@pytest.fixture(scope="module")
def sized(tmp_path_factory) -> str:
    """Writes images of differing sizes, with a box for each, in lists and in rows of their own."""
    lists = pa.array([[sized_picture(row, number) for number in range(length(row))] for row in range(ROWS)])
    frames = pa.array([sized_picture(row, 0) for row in range(ROWS)])
    boxes = pa.array([[[2.0, 3.0, 10.0, 9.0]]] * ROWS, pa.list_(pa.list_(pa.float32(), 4)))
    masks = pa.array([mask_of(sized_picture(row, 0)) for row in range(ROWS)])
    columns = {"clip": lists, "frame": frames, "boxes": boxes, "mask": masks}
    return write(tmp_path_factory.mktemp("sized"), columns)


def sized_picture(row: int, number: int) -> bytes:
    height, width = 14 + (row * 3 + number * 5) % 17, 15 + (row * 7 + number) % 16
    pixels = np.random.default_rng((row, number)).integers(0, 256, (height, width, 3), dtype=np.uint8)
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG")
    return file.getvalue()


def mask_of(picture: bytes) -> bytes:
    """Returns a mask of the size of a picture, with a class for each quarter."""
    width, height = Image.open(io.BytesIO(picture)).size
    classes = np.add.outer(np.arange(height) * 2 // height * 2, np.arange(width) * 2 // width).astype(np.uint8)
    file = io.BytesIO()
    Image.fromarray(classes).save(file, "PNG")
    return file.getvalue()


def size_of(picture: bytes) -> list[int]:
    width, height = Image.open(io.BytesIO(picture)).size
    return [height, width]


def test_images_of_a_clip_are_each_on_a_canvas_and_their_sizes_are_told(sized):
    fit = fb.Image.fit(32, fill=114)
    lists = [[sized_picture(row, number) for number in range(length(row))] for row in range(ROWS)]
    fixed = loader(sized, columns=["id", "clip"], decode={"clip": fb.Clip(fit, frames=4, layout="NCTHW")})
    assert fixed.columns == ["id", "clip", "clip.size"]
    for batch in fixed:
        assert batch["clip"].shape == (4, 3, 4, 32, 32)
        assert (batch["clip.size"].shape, batch["clip.size"].dtype) == ((4, 4, 2), np.int32)
        for row, clip, sizes in zip(batch["id"].tolist(), batch["clip"], batch["clip.size"].tolist(), strict=True):
            images = [lists[row][number] for number in even(4, length(row))]
            assert sizes == [size_of(image) for image in images]
            assert np.array_equal(clip.transpose(1, 2, 3, 0), alone(images, fit, row, "clip"))
            height, width = sizes[0]
            stored = np.asarray(Image.open(io.BytesIO(images[0])))
            assert np.array_equal(clip[:, 0, :height, :width].transpose(1, 2, 0), stored)
            assert (clip[:, 0, height:] == 114).all() and (clip[:, 0, :, width:] == 114).all()
    for batch in loader(sized, columns=["id", "clip"], decode={"clip": fb.Clip(fit, at_most=7)}):
        assert isinstance(batch["clip.size"], fb.Ragged)
        for row, clip, sizes in zip(batch["id"].tolist(), batch["clip"], batch["clip.size"], strict=True):
            assert sizes.tolist() == [size_of(image) for image in lists[row]]
            assert np.array_equal(clip, alone(lists[row], fit, row, "clip"))


@pytest.mark.parametrize("image", [SHORTEST, JITTER])
def test_a_clip_on_a_canvas_has_one_draw(data, image):
    """All stored images have one size, so equal draws give them one delivered size."""
    sizes = set()
    for draws in ("together", "alone"):
        counts = []
        for batch in loader(data, columns=["id", "clip"], decode={"clip": fb.Clip(image, at_most=7, draws=draws)}):
            for row, clip, drawn in zip(batch["id"].tolist(), batch["clip"], batch["clip.size"], strict=True):
                counts.append(len({tuple(size) for size in drawn.tolist()}))
                sizes |= {tuple(size) for size in drawn.tolist()}
                if draws == "together":
                    assert np.array_equal(clip, alone(CLIPS[row], image, row, "clip"))
        assert (max(counts) == 1) == (draws == "together")
    assert len(sizes) > 2


@pytest.mark.parametrize("frames", ["together", "alone"])
@pytest.mark.parametrize("image", [fb.Image.fit(32).flip(), JITTER, CROP])
def test_boxes_and_masks_follow_the_clip_of_a_window(sized, image, frames):
    window = fb.Window(4, overlap=False, frames=frames)
    follow = {"boxes": fb.Boxes(of="frame"), "mask": fb.Mask(of="frame")}
    options = {"columns": ["id", "frame", "boxes", "mask"], "samples": window}

    def delivered(decoded) -> dict[str, dict[int, np.ndarray]]:
        batches = list(loader(sized, decode={"frame": decoded, **follow}, **options))
        names = [name for name in batches[0] if name not in ("id", "boxes")]
        found = {name: by_id(batches, name) for name in names}
        boxes = (zip(batch["id"][:, 0].tolist(), batch["boxes"], strict=True) for batch in batches)
        return found | {"boxes": {row: np.stack([*of]) for each in boxes for row, of in each}}

    plain, clip = delivered(image), delivered(fb.Clip(image))
    assert plain.keys() == clip.keys()
    assert all(same(plain[name], clip[name]) for name in plain)
    some = delivered(fb.Clip(image, frames=2, layout="NCTHW"))
    assert same(
        some["frame"], {row: pixels[even(2, 4)].transpose(3, 0, 1, 2) for row, pixels in plain["frame"].items()}
    )
    assert same(some["boxes"], plain["boxes"]) and same(some["mask"], plain["mask"])
    if "frame.size" in plain:
        assert same(some["frame.size"], {row: sizes[even(2, 4)] for row, sizes in plain["frame.size"].items()})


def test_sizes_of_null_and_bad_images(tmp_path):
    clips: list = [[sized_picture(row, number) for number in range(2)] for row in range(ROWS)]
    clips[3], clips[5] = None, [None, sized_picture(5, 0)]
    options = {"shuffle": None, "batch_size": ROWS}
    data = write(tmp_path, {"clip": pa.array(clips, pa.list_(pa.binary()))})
    clip = {"clip": fb.Clip(fb.Image.fit(32, fill=7), frames=2)}
    batch = next(iter(loader(data, decode=clip, fill_null={"clip": 9}, **options)))
    assert batch["clip.size"][3].tolist() == [[0, 0], [0, 0]]
    assert batch["clip.size"][5].tolist() == [[0, 0], size_of(clips[5][1])]
    assert (batch["clip"][3] == 9).all() and (batch["clip"][5][0] == 9).all()
    batch = next(
        iter(loader(data, decode={"clip": fb.Clip(fb.Image.fit(32), at_most=2)}, null_mask=["clip"], **options))
    )
    assert [len(batch["clip.size"][row]) for row in (3, 4, 5)] == [0, 2, 2]
    with pytest.raises(fb.BadRowError, match=r'row 3, column "clip": null'):
        list(loader(data, decode=clip, **options))
    skipping = loader(data, decode=clip, on_bad_row=fb.Skip(at_most=2), **options)
    assert by_id(skipping).keys() == set(range(ROWS)) - {3, 5}
    assert len(skipping.skipped()) == 2


CASES = {
    "lists": ({"clip": fb.Clip(CROP, frames=3, sampling="random", layout="NCTHW")}, None, "clip"),
    "ragged": ({"clip": fb.Clip(CROP, at_most=7, draws="alone")}, None, "clip"),
    "windows": ({"frame": fb.Clip(CROP, frames=2, sampling="random")}, fb.Window(4, overlap=False), "frame"),
    "canvas": ({"clip": fb.Clip(SHORTEST, at_most=7)}, None, "clip"),
    "canvas of windows": ({"frame": fb.Clip(JITTER, frames=3)}, fb.Window(4, overlap=False), "frame"),
}


@pytest.fixture(params=CASES)
def case(request, data):
    decode, samples, column = CASES[request.param]
    return {"data": data, "columns": ["id", column], "decode": decode, "samples": samples}, column


def test_an_epoch_resumes_on_another_world(case):
    options, column = case
    expected = by_id(loader(**options).epoch(1), column)
    order = [batch["id"].tolist() for batch in loader(**options, batch_size=None, global_batch_size=4).epoch(1)]
    first = [
        loader(**options, batch_size=None, global_batch_size=4, shard=fb.Shard(rank=rank, world=2)) for rank in range(2)
    ]
    found: dict[int, np.ndarray] = {}
    ids = []
    for train in first:
        epoch = iter(train.epoch(1))
        found |= by_id([next(epoch), next(epoch)], column)
    state = first[0].state_dict()
    for rank in range(4):
        rest = loader(**options, batch_size=None, global_batch_size=4, shard=fb.Shard(rank=rank, world=4))
        rest.load_state_dict(state)
        batches = list(rest)
        ids.append([batch["id"].tolist() for batch in batches])
        later = by_id(batches, column)
        assert not later.keys() & found.keys()
        found |= later
    assert same(found, expected)
    # Each step has the same rows over all processes as on a single process.
    for step, rows in enumerate(zip(*ids, strict=True)):
        assert sorted(sum(rows, [])) == sorted(order[step + 2])


@pytest.mark.parametrize("tier", ["auto", "rows", "pixels", "coefficients"])
def test_caches_and_threads_change_nothing(case, tier, tmp_path):
    options, column = case
    expected = [by_id(loader(**options).epoch(epoch), column) for epoch in range(2)]
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="64MB", tier=tier)
    for threads in (1, 3):
        cached = loader(**options, cache=cache, threads=threads)
        assert all(same(by_id(cached.epoch(epoch), column), expected[epoch]) for epoch in range(2))


def test_denied_rows_rewind_and_mixes(case):
    options, column = case
    whole = loader(**options)
    expected = by_id(whole.epoch(0), column)
    places = whole.which(2, epoch=0)
    order = [np.asarray(batch["id"]).ravel().tolist() for batch in loader(**options).epoch(0)]
    assert len(places) == len(order[2])
    ids = [batch["row_id"] for batch in loader(**options, row_id=True).epoch(0)]
    denied = int(np.asarray(ids[1]).ravel()[0])
    row = int(np.asarray(order[1]).ravel()[0])
    without = by_id(loader(**options, deny=[denied]).epoch(0), column)
    assert row not in without
    same_windows = without.keys() & expected.keys()
    assert same({at: without[at] for at in same_windows}, {at: expected[at] for at in same_windows})
    assert len(same_windows) >= len(expected) - 2
    given = {name: value for name, value in options.items() if name != "data" and value is not None}
    sources = [(fb.Loader(options["data"], **given), 0.5) for _ in range(2)]
    with fb.Mix(sources, batch_size=4, stop="last", repeat=False) as mix:
        rows = sum((np.asarray(batch["id"]).reshape(len(batch["id"]), -1)[:, 0].tolist() for batch in mix), [])
    assert sorted(rows) == sorted([*expected, *expected])


def test_a_bad_image_makes_its_row_or_window_a_bad_one(tmp_path):
    clips = [list(clip) for clip in CLIPS]
    clips[9][2] = b"<html>"
    frames: list[bytes | None] = list(FRAMES)
    frames[21] = b"<html>"
    frames[30] = None
    columns = {"clip": pa.array(clips, pa.list_(pa.binary())), "frame": pa.array(frames, pa.binary())}
    data = write(tmp_path, columns)
    lists = {"columns": ["id", "clip"], "decode": {"clip": fb.Clip(CROP, at_most=7)}}
    with pytest.raises(fb.BadRowError, match=r"row 1, column \"clip\": image 2 of the list: .*HTML") as raised:
        list(loader(data, **lists, shuffle=None))
    assert (raised.value.row, raised.value.column) == (1, "clip")
    skipping = loader(data, **lists, on_bad_row=fb.Skip(at_most=1))
    assert by_id(skipping).keys() == set(range(ROWS)) - {9}
    assert len(skipping.skipped()) == 1
    windows = {"columns": ["id", "frame"], "samples": fb.Window(4, overlap=False)}
    clip = {"frame": fb.Clip(CROP, frames=4)}
    with pytest.raises(fb.BadRowError, match=r"row 1, column \"frame\": .*HTML"):
        list(loader(data, **windows, decode=clip, shuffle=None))
    found = by_id(loader(data, **windows, decode=clip, on_bad_row=fb.Skip(at_most=2)), "frame")
    plain = by_id(loader(data, **windows, decode={"frame": CROP}, on_bad_row=fb.Skip(at_most=2)), "frame")
    assert same(found, plain)
    assert len(found) == 10
    # A clip that does not have the bad image is good.
    few = by_id(loader(data, **windows, decode={"frame": fb.Clip(CROP, frames=1)}, fill_null={"frame": 0}), "frame")
    assert 20 in few


def test_nulls_and_empty_lists(tmp_path):
    clips: list = [list(clip) for clip in CLIPS]
    clips[3], clips[4], clips[5] = None, [], [None, picture(5, 0)]
    data = write(tmp_path, {"clip": pa.array(clips, pa.list_(pa.binary()))})
    options = {"shuffle": None, "batch_size": ROWS}
    skipped = loader(data, decode={"clip": fb.Clip(CROP, frames=2)}, on_bad_row=fb.Skip(at_most=3), **options)
    assert by_id(skipped).keys() == set(range(ROWS)) - {3, 4, 5}
    ragged = {"clip": fb.Clip(CROP, at_most=7)}
    batch = next(iter(loader(data, decode=ragged, null_mask=["clip"], **options)))
    assert [len(batch["clip"][row]) for row in (3, 4, 5)] == [0, 0, 2]
    assert np.flatnonzero(~batch["clip.mask"]).tolist() == [3]
    assert not batch["clip"][5][0].any()
    fixed = {"clip": fb.Clip(CROP, frames=2)}
    filled = loader(data, decode=fixed, fill_null={"clip": 9}, on_bad_row=fb.Skip(at_most=1), **options)
    found = by_id(filled)
    assert found.keys() == set(range(ROWS)) - {4}
    assert (found[3] == 9).all()
    assert (found[5][0] == 9).all()


def test_a_clip_is_that_of_torchvision(data):
    transforms = pytest.importorskip("torchvision.transforms")
    reference = transforms.Compose([transforms.Resize(28), transforms.CenterCrop(24)])
    clip = fb.Clip(fb.Image.center_crop(24, resize=28), frames=4)
    found = by_id(loader(data, columns=["id", "clip"], decode={"clip": clip}))
    for row, pixels in found.items():
        images = [Image.open(io.BytesIO(CLIPS[row][number])) for number in even(4, length(row))]
        expected = np.stack([np.asarray(reference(image)) for image in images]).astype(int)
        assert np.abs(pixels - expected).mean() < 1


def test_what_can_never_work_is_refused_with_the_next_move(data):
    for arguments, said in [
        ({"frames": 0}, "frames must be"),
        ({"frames": 2.5}, "frames must be"),
        ({"stride": True}, "stride must be"),
        ({"sampling": "uniform"}, "sampling must be"),
        ({"draws": "both"}, "draws must be"),
        ({"layout": "NHWC"}, "layout must be"),
    ]:
        with pytest.raises(fb.InvalidError, match=said):
            fb.Clip(CROP, **arguments)
    with pytest.raises(fb.InvalidError, match=r"image must be a forebay\.Image"):
        fb.Clip(fb.Views(a=CROP))
    for column, clip, said in [
        ("clip", fb.Clip(CROP), "with frames, or its most images with at_most"),
        ("clip", fb.Clip(CROP, frames=2, at_most=3), "leave one of them out"),
        ("clip", fb.Clip(CROP, at_most=3, layout="NCTHW"), "NCTHW for clips of different lengths"),
        ("clip", fb.Clip(CROP, at_most=3, sampling="random"), "without their number"),
        ("clip", fb.Clip(fb.Image.fit(8).ragged(), frames=2), "without a canvas"),
        ("clip", fb.Clip(fb.Image.random_iou_crop(8, boxes="b"), frames=2), "around boxes"),
        ("frame", fb.Clip(CROP, frames=2), "windows of rows as samples"),
        ("id", fb.Clip(CROP, frames=2), "not encoded images"),
    ]:
        with pytest.raises(fb.InvalidError, match=said):
            loader(data, columns=[column], decode={column: clip})
    following = {"frame": fb.Clip(CROP, draws="alone"), "pair": fb.Clip(CROP), "id": fb.Boxes(of="pair")}
    with pytest.raises(fb.InvalidError, match='follows column "pair", a clip of the images of one row'):
        loader(data, columns=["id", "frame", "pair"], decode=following, samples=fb.Window(2))
    following["id"] = fb.Boxes(of="frame")
    with pytest.raises(fb.InvalidError, match='follows column "frame", a clip whose images draw alone'):
        loader(data, columns=["id", "frame", "pair"], decode=following, samples=fb.Window(2))
    with pytest.raises(fb.BadRowError, match="more than the 3 of `?at_most"):
        list(loader(data, columns=["clip"], decode={"clip": fb.Clip(CROP, at_most=3)}))
    clip = fb.Clip(CROP, frames=2, stride=3, sampling="random", draws="alone", layout="NTCHW")
    assert pickle.loads(pickle.dumps(clip)) == clip
    assert repr(clip).endswith(", frames=2, stride=3, sampling='random', draws='alone', layout='NTCHW')")
    again = pickle.loads(pickle.dumps(loader(data, columns=["id", "clip"], decode={"clip": clip})))
    assert len(by_id(again)) == ROWS
