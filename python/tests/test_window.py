"""Windows of consecutive rows, compared with a plain Python version of Petastorm's NGram."""

from __future__ import annotations

import datetime
import io
import itertools
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import planned_batches, row_groups
from PIL import Image as Pillow

import forebay as fb

ROWS = 400
WINDOW = fb.Window({-1: ["n", "x"], 0: ["n"], 1: ["n", "vector", "name"]}, by="t", gap=3)


@pytest.fixture(scope="module")
def episodes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Writes rows 0 to 399 in two files with row groups of 37: times ascend within each episode, with gaps
    and equal values."""
    root = tmp_path_factory.mktemp("episodes")
    draws = np.random.default_rng(5)
    steps = draws.choice([0, 1, 2, 5], ROWS, p=[0.1, 0.6, 0.2, 0.1])
    table = pa.table(
        {
            "n": np.arange(ROWS),
            "t": np.cumsum(steps),
            "when": pa.array(np.cumsum(steps) * 1_000, pa.timestamp("ms")),
            "episode": [f"e{n // 45}" for n in range(ROWS)],
            "x": draws.standard_normal(ROWS).astype(np.float32),
            "vector": pa.array([[n, n / 2, -n] for n in range(ROWS)], pa.list_(pa.float32(), 3)),
            "name": [f"row {n}" for n in range(ROWS)],
            "tokens": [list(range(n % 4)) for n in range(ROWS)],
        }
    )
    pq.write_table(table.slice(0, 250), root / "a.parquet", row_group_size=37)
    pq.write_table(table.slice(250), root / "b.parquet", row_group_size=37)
    return root


def ngrams(rows: list[dict[str, Any]], length: int, by: str | None, gap: float | None, overlap: bool) -> list[list[int]]:
    """Returns the windows that ``petastorm.ngram.NGram.form_ngram`` forms from the rows of a row group, as row
    numbers."""
    found: list[list[int]] = []
    last = None
    for at in range(len(rows) - length + 1):
        window = rows[at : at + length]
        if by is not None:
            times = [row[by] for row in window]
            assert times == sorted(times)
            if not overlap and last is not None and times[0] <= last:
                continue
            if gap is not None and any(after - before > gap for before, after in itertools.pairwise(times)):
                continue
            last = times[-1]
        found.append([row["n"] for row in window])
    return found


def delivered(root: Path, window: fb.Window, **options: Any) -> list[list[int]]:
    loader = fb.Loader(root, samples=window, **{"columns": ["n"], "batch_size": 7} | options)
    return [row for batch in loader for row in batch["n"].tolist()]


def test_patterns_list_the_columns_of_an_offset(episodes: Path) -> None:
    named = fb.Window({-1: ["n", "x"], 0: ["x", "name", "n", "episode"]}, by="t")
    window = fb.Window({-1: ["n", "x"], 0: ["x", "n*", "[ex]*"]}, by="t")
    with (
        fb.Loader(episodes, samples=window, batch_size=9) as loader,
        fb.Loader(episodes, samples=named, columns=loader.columns, batch_size=9) as plain,
    ):
        assert set(loader.columns) == {"n", "x", "name", "episode"}
        assert loader.state_dict() == plain.state_dict()
        for batch, wanted in zip(loader, plain, strict=True):
            assert batch.to_arrow().equals(wanted.to_arrow())
            for offset in (-1, 0):
                found, of_names = window.at(batch, offset), named.at(wanted, offset)
                assert found.keys() == of_names.keys()
                assert all(np.array_equal(found[name], of_names[name]) for name in found)
    with fb.Loader(episodes, samples=fb.Window({0: ["*"]}), columns=["n", "x"]) as loader:
        assert loader.columns == ["n", "x"]
    with fb.Loader(episodes, samples=fb.Window({0: ["num*"], 1: ["n_*"]}), rename={"n": "num", "x": "n_x"}) as loader:
        assert loader.columns == ["num", "n_x"]
    with pytest.raises(fb.UnknownColumnError, match='"z\\*"'):
        fb.Loader(episodes, samples=fb.Window({0: ["z*"]}))
    with pytest.raises(fb.UnknownColumnError, match='an offset of the window: no column that is read matches "z\\*"'):
        fb.Loader(episodes, samples=fb.Window({0: ["z*", "n"]}), columns=["n"])


@pytest.mark.parametrize("length", [1, 2, 5, 12])
@pytest.mark.parametrize("gap", [None, 0, 1, 2, 5])
@pytest.mark.parametrize("overlap", [True, False])
def test_windows_are_petastorms(episodes: Path, length: int, gap: int | None, overlap: bool) -> None:
    window = fb.Window(length, by="t", gap=gap, overlap=overlap)
    expected = [one for rows in row_groups(episodes) for one in ngrams(rows, length, "t", gap, overlap)]
    if expected:
        assert delivered(episodes, window) == expected
    else:
        with pytest.raises(fb.InvalidError, match=f"no row group has {length} rows"):
            delivered(episodes, window)


def test_windows_within_an_episode(episodes: Path) -> None:
    by_episode = []
    for rows in row_groups(episodes):
        for episode in dict.fromkeys(row["episode"] for row in rows):
            by_episode += ngrams([row for row in rows if row["episode"] == episode], 4, "t", 2, True)
    assert delivered(episodes, fb.Window(4, by="t", gap=2, within="episode")) == by_episode
    seconds = fb.Window(4, by="when", gap=datetime.timedelta(seconds=2), within="episode")
    assert delivered(episodes, seconds) == by_episode
    assert delivered(episodes, fb.Window(4, by="when", gap=2_000, within="episode")) == by_episode


def test_windows_that_share_some_rows(episodes: Path) -> None:
    for overlap in (0, 1, 3):
        expected = [
            [row["n"] for row in rows[at : at + 5]]
            for rows in row_groups(episodes)
            for at in range(0, len(rows) - 4, 5 - overlap)
        ]
        assert delivered(episodes, fb.Window(5, overlap=overlap)) == expected


def test_rows_that_a_filter_selects_follow_each_other(episodes: Path) -> None:
    expected = []
    for rows in row_groups(episodes):
        expected += ngrams([row for row in rows if row["n"] % 3 == 0], 3, "t", 6, True)
    assert delivered(episodes, fb.Window(3, by="t", gap=6), filter=fb.col("n") % 3 == 0) == expected


def test_a_column_has_the_offsets_that_list_it(episodes: Path) -> None:
    loader = fb.Loader(episodes, samples=WINDOW, batch_size=16)
    assert loader.schema.names == ["n", "x", "vector", "name"]
    stored = pq.read_table(episodes)
    x, vector = stored["x"].to_numpy(), np.array(stored["vector"].to_pylist(), np.float32)
    for batch in loader:
        n = batch["n"]
        assert n.shape == (n.shape[0], 3)
        assert batch["x"].shape == (n.shape[0], 1)
        np.testing.assert_array_equal(batch["x"], x[n[:, :1]])
        assert batch["vector"].shape == (n.shape[0], 1, 3)
        np.testing.assert_array_equal(batch["vector"], vector[n[:, 2:]])
        assert batch["name"].tolist() == [[f"row {row}"] for row in n[:, 2]]
        at = WINDOW.at(batch, 1)
        assert list(at) == ["n", "vector", "name"]
        np.testing.assert_array_equal(at["vector"], vector[n[:, 2]])
        assert list(WINDOW.at(batch, 0)) == ["n"]
    every = next(iter(fb.Loader(episodes, samples=fb.Window(3), batch_size=4)))
    assert every["vector"].shape == (4, 3, 3)
    assert every["when"].shape == (4, 3)
    assert every["tokens"].tolist()[1] == [[0], [0, 1], [0, 1, 2]]
    assert [row.tolist() for row in fb.Window(3).at(every, 2)["tokens"]] == [[0, 1], [0, 1, 2], [], [0]]


def test_a_structure_has_its_fields_at_each_offset(tmp_path: Path) -> None:
    def cell(n: int) -> dict[str, Any]:
        return {"a": n, "b": f"b {n}", "c": list(range(n % 3)), "d": {"e": n / 2}}

    lists = [[{"x": n}] * (n % 3) for n in range(20)]
    table = {"n": range(20), "s": [cell(n) for n in range(20)], "l": pa.array(lists)}
    pq.write_table(pa.table(table), tmp_path / "t.parquet")
    for window, first in ((fb.Window(3), 0), (fb.Window({-1: ["n", "s", "l"], 0: ["l"], 1: ["s", "n", "l"]}), -1)):
        with fb.Loader(tmp_path, samples=window, batch_size=5) as loader:
            for batch in loader:
                for at, offset in enumerate(window.offsets):
                    if "n" not in (part := window.at(batch, offset)):
                        continue
                    start = batch["n"][:, 0]
                    assert part["n"].tolist() == [n + at for n in start]
                    found = part["s"]
                    assert found["a"].tolist() == part["n"].tolist()
                    assert found["b"].tolist() == [f"b {n}" for n in part["n"]]
                    assert [row.tolist() for row in found["c"]] == [list(range(n % 3)) for n in part["n"]]
                    assert found["d"]["e"].tolist() == [n / 2 for n in part["n"]]
                    assert [row["x"].tolist() for row in part["l"]] == [[n] * (n % 3) for n in part["n"]]
                    assert np.shares_memory(found["a"], batch["s"].values["a"])
            assert first == window.offsets[0]


def test_images_of_one_offset_are_decoded_alone(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    assert fb.main(["synth", str(photos), "--rows", "40", "--image", "32x24"]) == 0
    options: dict[str, Any] = {"decode": {"image": fb.Image.random_resized_crop(16).flip()}, "row_id": True}
    plain = fb.Loader(photos, columns=["image"], batch_size=40, **options)
    pixels = {row: one for batch in plain for row, one in zip(batch["row_id"].tolist(), batch["image"])}
    window = fb.Window({0: ["label"], 1: ["label"], 2: ["label", "image"]}, frames="alone")
    loader = fb.Loader(photos, samples=window, batch_size=8, epochs=1, **options)
    windows = 0
    for batch in loader:
        assert batch["image"].shape == (len(batch["label"]), 1, 16, 16, 3)
        for rows, images in zip(batch["row_id"].tolist(), batch["image"]):
            np.testing.assert_array_equal(images[0], pixels[rows[2]])
        windows += len(batch["label"])
    assert windows > 0
    assert loader.stats().to_dict()["stages"]["decode"]["items"] == windows


@pytest.mark.parametrize("world", [1, 2, 3])
@pytest.mark.parametrize("shuffle", [fb.Shuffle(seed=2, window_rows=100), fb.Shuffle.exact(3), fb.Shuffle.stored()])
def test_each_window_comes_once_and_the_plan_names_its_rows(
    episodes: Path, tmp_path: Path, world: int, shuffle: fb.Shuffle
) -> None:
    expected = sorted(one for rows in row_groups(episodes) for one in ngrams(rows, 3, "t", 3, True))
    for extra in ({}, {"cache": fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")}):
        ranks = [
            fb.Loader(
                episodes,
                samples=WINDOW,
                shuffle=shuffle,
                shard=fb.Shard(rank=rank, world=world),
                batch_size=8,
                row_id=True,
                row_mask=True,
                **extra,
            )
            for rank in range(world)
        ]
        for epoch in range(2):
            found = []
            for batch in planned_batches(ranks, epoch):
                assert batch["row_mask"].shape == (len(batch["n"]),)
                assert batch["row_id"].shape == (len(batch["n"]), 3)
                found += batch["n"][batch["row_mask"]].tolist()
            assert sorted(found) == expected


def test_a_state_resumes_at_the_next_window_on_any_world(episodes: Path) -> None:
    def made(rank: int, world: int, threads: int) -> fb.Loader:
        shard = fb.Shard(rank=rank, world=world)
        shuffle = fb.Shuffle(seed=2, window_rows=100, lanes=2)
        options: dict[str, Any] = {"shard": shard, "threads": threads, "shuffle": shuffle}
        return fb.Loader(episodes, samples=WINDOW, global_batch_size=24, **options)

    loader = made(0, 1, 2)
    states, steps = [], []
    for batch in loader:
        steps.append(sorted(batch["n"].tolist()))
        states.append(json.loads(json.dumps(loader.state_dict())))
    for at, state in enumerate(states[:-1]):
        ranks = [made(rank, 3, 1) for rank in range(3)]
        tails = []
        for rank in ranks:
            rank.load_state_dict(state)
            tails.append([batch["n"].tolist() for batch in rank])
        together = [sorted(row for tail in tails for row in tail[step]) for step in range(len(tails[0]))]
        assert together == steps[at + 1 :]
    other = fb.Loader(episodes, samples=fb.Window(3, by="t", gap=3), global_batch_size=24, shuffle=fb.Shuffle(seed=2))
    with pytest.raises(fb.StateMismatchError, match="samples"):
        other.load_state_dict(states[0])
    rows = fb.Loader(episodes, global_batch_size=24, shuffle=fb.Shuffle(seed=2))
    with pytest.raises(fb.StateMismatchError, match="this loader has rows"):
        rows.load_state_dict(states[0])


def test_the_state_alone_names_the_rows(episodes: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    loader = fb.Loader(episodes, samples=WINDOW, batch_size=4, shuffle=fb.Shuffle(seed=2), row_id=True)
    epoch = iter(loader)
    next(epoch)
    (tmp_path / "state.json").write_text(json.dumps(loader.state_dict()))
    following = next(epoch)
    assert fb.main(["which", str(episodes), "--state", str(tmp_path / "state.json"), "--json", "-"]) == 0
    rows = json.loads(capfd.readouterr().out)
    assert len(rows) == following["row_id"].size


def test_a_bad_row_leaves_out_its_windows(tmp_path: Path) -> None:
    values = [float(n) for n in range(20)]
    values[7] = None  # type: ignore[call-overload]
    pq.write_table(pa.table({"n": range(20), "x": values}), tmp_path / "t.parquet")
    options: dict[str, Any] = {"samples": fb.Window(3), "batch_size": 5}
    with fb.Loader(tmp_path, on_bad_row=fb.Skip(at_most=5), **options) as loader:
        found = [row for batch in loader for row in batch["n"].tolist()]
        assert found == [[n, n + 1, n + 2] for n in range(18) if not n <= 7 <= n + 2]
        assert {bad.row for bad in loader.skipped()} == {7}
    with pytest.raises(fb.ForebayError, match="at_most"):
        list(fb.Loader(tmp_path, on_bad_row=fb.Skip(at_most=2), **options))
    only = fb.Window({0: ["n", "x"], 2: ["n"]})
    with fb.Loader(tmp_path, on_bad_row=fb.Skip(at_most=5), samples=only) as loader:
        found = [row for batch in loader for row in batch["n"].tolist()]
    assert found == [[n, n + 2] for n in range(18) if n != 7], "the value of another row is not asked for"


def test_rows_that_do_not_ascend_are_an_error_with_their_place(tmp_path: Path) -> None:
    times = [0, 1, 2, 0, 1, 2]
    pq.write_table(pa.table({"t": times, "e": [1, 1, 1, 2, 2, 2]}), tmp_path / "t.parquet")
    with pytest.raises(fb.InvalidError, match=r't.parquet, row group 0, row 3, column "t": is less than .*within'):
        fb.Loader(tmp_path, samples=fb.Window(2, by="t"))
    assert len(fb.Loader(tmp_path, samples=fb.Window(2, by="t", within="e"), batch_size=1)) == 4


def test_what_the_columns_say_is_kept(episodes: Path, tmp_path: Path) -> None:
    large = tmp_path / "large"
    large.mkdir()
    count = 700_000
    times = np.random.default_rng(0).integers(0, 1 << 40, count).cumsum()
    pq.write_table(pa.table({"n": np.arange(count), "t": times}), large / "t.parquet", row_group_size=50_000)
    options = {"metadata_cache": str(tmp_path / "kept")}

    def made(gap: int) -> fb.Loader:
        window = fb.Window(4, by="t", gap=gap)
        return fb.Loader(large, samples=window, columns=["n"], batch_size=1000, storage_options=options)

    first = made(1 << 39)
    (kept,) = (tmp_path / "kept").rglob("*.rows")
    before = kept.stat().st_mtime_ns
    second = made(1 << 39)
    assert len(second) == len(first)
    assert kept.stat().st_mtime_ns == before
    made(1 << 38)
    assert len(list((tmp_path / "kept").rglob("*.rows"))) == 2


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fb.Window(0), "fields must be at least 1"),
        (lambda: fb.Window({}), "no column"),
        (lambda: fb.Window({0: "x"}), r"fields\[0\] must be a list"),
        (lambda: fb.Window({0: [1]}), "got 1 in it"),
        (lambda: fb.Window(3, gap=1), "pass by="),
        (lambda: fb.Window(3, by="t", gap=-1), "gap must be 0 or more"),
        (lambda: fb.Window(3, by="t", gap="1s"), "timedelta"),
        (lambda: fb.Window(3, overlap=3), "less than the 3 rows"),
        (lambda: fb.Window(3, by=4), "by must be the name"),
        (lambda: WINDOW.at({}, 5), "offsets -1 to 1, got 5"),
        (lambda: fb.Window({0: ["x"], 2: ["x"]}).at({"x": np.zeros((1, 2))}, 1), "offsets 0, 2, got 1"),
        (lambda: fb.Window({-3: ["x"], 0: ["x"], 1: ["x"]}).at({}, -1), "offsets -3, 0, 1, got -1"),
        (lambda: fb.Window(4, stride=5).at({}, 3), "offsets 0 to 15 in steps of 5, got 3"),
    ],
)
def test_a_window_that_cannot_be_meant_is_refused(make: Any, said: str) -> None:
    with pytest.raises(fb.InvalidError, match=said):
        make()


def test_a_loader_refuses_what_a_window_cannot_have(episodes: Path) -> None:
    def made(window: Any, **options: Any) -> fb.Loader:
        return fb.Loader(episodes, samples=window, **options)

    with pytest.raises(fb.InvalidError, match="samples must be a forebay.Window"):
        made(3)
    with pytest.raises(fb.UnknownColumnError, match="tt"):
        made(fb.Window(3, by="tt"))
    with pytest.raises(fb.InvalidError, match='"name": .*cannot order windows'):
        made(fb.Window(3, by="name"))
    with pytest.raises(fb.InvalidError, match='"t": .*the gap is a time'):
        made(fb.Window(3, by="t", gap=datetime.timedelta(seconds=1)))
    with pytest.raises(fb.InvalidError, match='"x": is read, but no offset'):
        made(fb.Window({0: ["n"], 1: ["n"]}), columns=["n", "x"])
    with pytest.raises(fb.InvalidError, match='"x": an offset of the window lists it'):
        made(fb.Window({0: ["n", "x"]}), columns=["n"])
    with pytest.raises(fb.InvalidError, match="transform_rows"):
        made(fb.Window(3), transform_rows=dict)


def test_a_window_is_a_value() -> None:
    window = fb.Window({1: ["y"], -1: ["x"]}, by="t", gap=datetime.timedelta(seconds=1), overlap=False)
    assert window == fb.Window({-1: ("x",), 1: ("y",)}, by="t", gap=datetime.timedelta(seconds=1), overlap=False)
    assert pickle.loads(pickle.dumps(window)) == window
    assert len({window, pickle.loads(pickle.dumps(window))}) == 1
    assert (window.length, list(window.offsets)) == (3, [-1, 0, 1])
    assert repr(fb.Window(4)) == "forebay.Window(4)"


def test_a_gap_of_floats_holds_to_their_precision(tmp_path: Path) -> None:
    for kind in (pa.float64(), pa.float32()):
        times = pa.array([at * 0.1 for at in range(1000)], kind)
        pq.write_table(pa.table({"time": times}), tmp_path / "t.parquet")
        with fb.Loader(tmp_path / "t.parquet", samples=fb.Window(16, by="time", gap=0.1), batch_size=5) as loader:
            assert len(loader) == 985 // 5


def test_images_in_their_own_shape_are_those_of_the_rows(tmp_path: Path) -> None:
    """Each row of a window has the image, the size and the boxes that it has without a window."""
    random = np.random.default_rng(3)
    cells = []
    for row in range(24):
        file = io.BytesIO()
        Pillow.fromarray(random.integers(0, 256, (20 + row % 5, 30 + row % 3, 3), np.uint8)).save(file, "PNG")
        cells.append(file.getvalue())
    boxes = pa.array([[[1, 2, 10, 12]] * (row % 3) for row in range(24)], pa.list_(pa.list_(pa.float32(), 4)))
    pq.write_table(pa.table({"image": cells, "boxes": boxes, "n": range(24)}), tmp_path / "a.parquet", row_group_size=12)
    image = fb.Image.fit(40, resize=26).flip()

    def read(image: fb.Image, **options: Any) -> list[fb.Batch]:
        decode = {"image": image, "boxes": fb.Boxes(of="image")}
        with fb.Loader(tmp_path, decode=decode, shuffle=fb.Shuffle(seed=4), batch_size=5, **options) as loader:
            return list(loader.epoch(1))

    alone = fb.Window(3, frames="alone")
    for wanted in (image, image.ragged()):
        rows = {
            int(n): (pixels, size, found)
            for batch in read(wanted)
            for n, pixels, size, found in zip(
                batch["n"], batch["image"], batch["image.size"], batch["boxes"], strict=True
            )
        }
        windows = 0
        for batch in read(wanted, samples=alone):
            if wanted is image:
                assert batch["image"].shape[1:] == (3, 40, 40, 3)
            assert batch["image.size"].shape[1:] == (3, 2)
            for at, numbers in enumerate(batch["n"]):
                windows += 1
                for place, n in enumerate(numbers):
                    pixels, size, found = rows[int(n)]
                    np.testing.assert_array_equal(batch["image"][at][place], pixels)
                    np.testing.assert_array_equal(batch["image.size"][at][place], size)
                    np.testing.assert_array_equal(batch["boxes"][at][place], found)
        assert windows == 20
    together = [batch["image"] for batch in read(image, samples=fb.Window(3))]
    assert any((batch["image"] != found).any() for batch, found in zip(read(image, samples=alone), together, strict=True))
