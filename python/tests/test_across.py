"""Windows and packs across row-group and file borders, compared with plain Python over the rows in order."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import planned_batches

import forebay as fb

Row = dict[str, Any]


def write(root: Path, seed: int, files: int = 3, keys: bool = False, **options: Any) -> Path:
    """Writes files with row groups of 1 to 40 rows. ``n`` counts all rows; ``t`` ascends within each episode,
    with gaps and equal values; some rows have no ``t``, or no episode."""
    draws = np.random.default_rng(seed)
    n, episode, left, time = 0, -1, 0, 0
    for at in range(files):
        folder = root / (f"run={at // 2}" if keys else ".")
        folder.mkdir(parents=True, exist_ok=True)
        rows: list[Row] = []
        sizes = draws.integers(1, 41, draws.integers(2, 8))
        for _ in range(sizes.sum()):
            if left == 0:
                episode, left, time = episode + 1, int(draws.integers(1, 120)), int(draws.integers(0, 1000))
            time += int(draws.choice([0, 1, 2, 5], p=[0.1, 0.65, 0.2, 0.05]))
            rows.append(
                {
                    "n": n,
                    "t": None if draws.random() < 0.02 else time,
                    "episode": None if draws.random() < 0.01 else f"episode {episode}",
                    "x": float(draws.standard_normal()),
                    "name": f"row {n}" * int(draws.integers(1, 4)),
                    "tokens": [n] * int(draws.integers(0, 9)),
                }
            )
            n, left = n + 1, left - 1
        table = pa.Table.from_pylist(rows)
        with pq.ParquetWriter(folder / f"{at}.parquet", table.schema, **options) as writer:
            start = 0
            for size in sizes:
                writer.write_table(table.slice(start, size), row_group_size=size)
                start += size
    return root


@functools.cache
def sequences(root: Path, across: str) -> list[list[Row]]:
    """Returns the sequences of rows in which windows may begin and end."""
    return list(read(root, across))


def read(root: Path, across: str) -> Iterator[list[Row]]:
    before: Any = None
    together: list[Row] = []
    for path in sorted(root.rglob("*.parquet")):
        file = pq.ParquetFile(path)
        for group in range(file.num_row_groups):
            border = {"row_group": (path, group), "file": path, "dataset": path.parent}[across]
            if before not in (None, border):
                yield together
                together = []
            before = border
            together = together + file.read_row_group(group).to_pylist()
    yield together


def windows(
    rows: list[Row],
    length: int,
    by: str | None = None,
    gap: float | None = None,
    within: str | None = None,
    overlap: int | None = None,
) -> list[list[int]]:
    """Returns the row numbers of each window."""
    stretches: list[list[Row]] = [[]]
    for row in rows:
        last = stretches[-1][-1:]
        if any(name is not None and row[name] is None for name in (by, within)):
            stretches.append([])
            continue
        if last and (
            (within is not None and row[within] != last[0][within])
            or (by is not None and gap is not None and row[by] - last[0][by] > gap)
        ):
            stretches.append([])
        stretches[-1].append(row)
    found = []
    for stretch in stretches:
        start = 0
        while start + length <= len(stretch):
            found.append([row["n"] for row in stretch[start : start + length]])
            start += 1 if overlap is None else length - overlap
            while overlap == 0 and by is not None and 0 < start < len(stretch) and stretch[start][by] == stretch[start - 1][by]:
                start += 1
    return found


def split(rows: list[Row], length: int) -> list[list[int]]:
    """Returns the tokens of all rows, one after the other, in packs."""
    tokens = [token for row in rows for token in row["tokens"]]
    packs = [tokens[start : start + length] for start in range(0, len(tokens), length)]
    return [pack + [-1] * (length - len(pack)) for pack in packs]


def expected(root: Path, window: fb.Window, keep: Any = lambda row: True) -> list[list[int]]:
    overlap = None if window.overlap is True else int(window.overlap)
    found = []
    for rows in sequences(root, window.across):
        kept = [row for row in rows if keep(row)]
        found += windows(kept, window.length, window.by, window.gap, window.within, overlap)  # type: ignore[arg-type]
    return found


def numbers(loader: Any) -> list[list[int]]:
    return [row for batch in loader for row in batch["n"].tolist()]


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(tmp_path_factory.mktemp("across"), 3)


@pytest.mark.parametrize("across", ["row_group", "file", "dataset"])
@pytest.mark.parametrize("seed", range(4))
def test_windows_are_those_of_the_rows_one_after_the_other(tmp_path: Path, seed: int, across: Any) -> None:
    write(tmp_path, seed, files=4, keys=seed % 2 == 1)
    draws = np.random.default_rng(seed)
    for length in (1, 2, int(draws.integers(3, 12)), int(draws.integers(40, 90))):
        for options in (
            {"within": "episode"},
            {"by": "t", "within": "episode", "gap": int(draws.integers(1, 5))},
            {"by": "t", "within": "episode", "overlap": False},
            {"overlap": int(draws.integers(0, length))},
            {},
        ):
            window = fb.Window(length, across=across, **options)
            wanted = expected(tmp_path, window)
            if wanted:
                assert numbers(fb.Loader(tmp_path, samples=window, columns=["n"], batch_size=9)) == wanted
            else:
                with pytest.raises(fb.InvalidError, match=f"has {length} rows that make a window"):
                    fb.Loader(tmp_path, samples=window, columns=["n"])


@pytest.mark.parametrize("across", ["file", "dataset"])
@pytest.mark.parametrize("world", [1, 3])
@pytest.mark.parametrize("shuffle", [fb.Shuffle(seed=2, window_rows=60), fb.Shuffle.exact(3), fb.Shuffle.stored()])
def test_each_window_comes_once_and_the_plan_names_its_rows(
    root: Path, tmp_path: Path, shuffle: fb.Shuffle, world: int, across: Any
) -> None:
    window = fb.Window({-5: ["n"], 0: ["n", "x", "name", "tokens"], 20: ["n"]}, by="t", within="episode", across=across)
    wanted = sorted([rows[0], rows[5], rows[25]] for rows in expected(root, window))
    stored = {row["n"]: row for rows in sequences(root, "dataset") for row in rows}
    for extra in ({}, {"cache": fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")}):
        ranks = [
            fb.Loader(
                root,
                samples=window,
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
                found += batch["n"][batch["row_mask"]].tolist()
                at = window.at(batch, 0)
                for n, x, name, tokens in zip(at["n"], at["x"], at["name"], at["tokens"]):
                    row = stored[int(n)]
                    assert (x, name[0] if isinstance(name, list) else name) == (row["x"], row["name"])
                    assert list(tokens) == row["tokens"]
            assert sorted(found) == wanted


def test_rows_that_are_left_out_do_not_separate_others(root: Path) -> None:
    window = fb.Window(7, within="episode", across="dataset")
    options: dict[str, Any] = {"samples": window, "batch_size": 5}
    keep = fb.Loader(root, filter=fb.col("n") % 3 != 0, **options)
    assert numbers(keep) == expected(root, window, lambda row: row["n"] % 3 != 0)
    last = [rows[-1]["n"] for rows in sequences(root, "row_group")]
    denied = fb.Loader(root, deny={"n": last}, **options)
    assert numbers(denied) == expected(root, window, lambda row: row["n"] not in last)


def test_files_of_folders_with_other_keys_do_not_follow_each_other(tmp_path: Path) -> None:
    write(tmp_path, 8, files=4, keys=True)
    window = fb.Window(6, across="dataset")
    wanted = expected(tmp_path, window)
    for batch in fb.Loader(tmp_path, samples=window, batch_size=1):
        assert batch["n"].tolist() == [wanted.pop(0)]
        assert len(set(batch["run"].ravel().tolist())) == 1
    assert not wanted


@pytest.mark.parametrize("kind", ["window", "pack"])
def test_a_state_resumes_at_the_next_sample_on_any_world(root: Path, kind: str) -> None:
    samples: Any = fb.Window({0: ["n"], 9: ["n"]}, by="t", within="episode", across="dataset")
    if kind == "pack":
        samples = fb.Pack("tokens", 20, across="dataset")
    column = "n" if kind == "window" else "tokens"

    def made(rank: int, world: int, threads: int) -> fb.Loader:
        shuffle = fb.Shuffle(seed=2, window_rows=50, lanes=2)
        options: dict[str, Any] = {"threads": threads, "shard": fb.Shard(rank=rank, world=world)}
        return fb.Loader(root, samples=samples, global_batch_size=6, shuffle=shuffle, **options)

    loader = made(0, 1, 2)
    states, steps = [], []
    for batch in loader:
        steps.append(sorted(batch[column].tolist()))
        states.append(json.loads(json.dumps(loader.state_dict())))
    assert len(steps) > 6
    for at in range(0, len(states) - 2, 2):
        tails = []
        for rank in range(3):
            resumed = made(rank, 3, 1)
            resumed.load_state_dict(states[at])
            tails.append([batch[column].tolist() for batch in resumed])
        together = [sorted(row for tail in tails for row in tail[step]) for step in range(len(steps) - at - 2)]
        assert together == steps[at + 1 : -1]
        assert len({len(tail) for tail in tails}) == 1
    with pytest.raises(fb.StateMismatchError, match="samples"):
        other = fb.Window(10, by="t", within="episode") if kind == "window" else fb.Pack("tokens", 20)
        shuffle = fb.Shuffle(seed=2, window_rows=50, lanes=2)
        fb.Loader(root, samples=other, global_batch_size=6, shuffle=shuffle).load_state_dict(states[0])


@pytest.mark.parametrize("across", ["row_group", "file", "dataset"])
@pytest.mark.parametrize("length", [1, 37, 400])
def test_packs_are_those_of_all_tokens_one_after_the_other(root: Path, across: Any, length: int) -> None:
    wanted = [pack for rows in sequences(root, across) for pack in split(rows, length)]
    loader = fb.Loader(root, samples=fb.Pack("tokens", length, value=-1, across=across), batch_size=4)
    found, positions = [], []
    for batch in loader:
        found += batch["tokens"].tolist()
        positions += batch["position_ids"].tolist()
    assert found == wanted
    for pack, ids in zip(found, positions):
        for at, (token, position) in enumerate(zip(pack, ids)):
            assert position == (0 if at == 0 or token != pack[at - 1] else ids[at - 1] + 1)


@pytest.mark.parametrize("world", [1, 2])
def test_each_pack_comes_once_and_the_plan_names_its_rows(root: Path, tmp_path: Path, world: int) -> None:
    wanted = sorted(pack for rows in sequences(root, "dataset") for pack in split(rows, 64))
    for extra in ({}, {"cache": fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="rows")}):
        found = []
        for rank in range(world):
            loader = fb.Loader(
                root,
                samples=fb.Pack("tokens", 64, value=-1, across="dataset"),
                batch_size=3,
                shuffle=fb.Shuffle(seed=4, window_rows=50),
                shard=fb.Shard(rank=rank, world=world),
                row_mask=True,
                **extra,
            )
            for epoch in range(2):
                for step, batch in enumerate(loader.epoch(epoch)):
                    places = loader.which(step, epoch=epoch)
                    groups = [pq.ParquetFile(place.file).read_row_group(place.row_group) for place in places]
                    rows = [group["n"][place.row].as_py() for group, place in zip(groups, places)]
                    assert rows == [n for pack in batch["tokens"].tolist() for n in dict.fromkeys(pack) if n >= 0]
                    if epoch == 1:
                        found += batch["tokens"][batch["row_mask"]].tolist()
        assert sorted(found) == wanted


def test_row_groups_that_are_not_in_order_are_an_error_with_their_place(tmp_path: Path) -> None:
    pq.write_table(pa.table({"t": [5, 6, 1, 2], "e": [1, 1, 2, 2]}), tmp_path / "a.parquet", row_group_size=2)
    pq.write_table(pa.table({"t": [0, 1, 2], "e": [3, 3, 3]}), tmp_path / "b.parquet")
    assert len(fb.Loader(tmp_path, samples=fb.Window(2, by="t"), batch_size=1)) == 4
    with pytest.raises(fb.InvalidError, match=r"a.parquet, row group 1, row 0.*row group before.*across"):
        fb.Loader(tmp_path, samples=fb.Window(2, by="t", across="file"))
    assert len(fb.Loader(tmp_path, samples=fb.Window(2, by="t", within="e", across="dataset"), batch_size=1)) == 4
    pq.write_table(pa.table({"t": [1, 2], "e": [2, 2]}), tmp_path / "a.parquet")
    with pytest.raises(fb.InvalidError, match=r"b.parquet, row group 0, row 0.*order of their paths"):
        fb.Loader(tmp_path, samples=fb.Window(2, by="t", across="dataset"))


def test_a_bad_row_leaves_out_the_windows_of_the_row_group_before(tmp_path: Path) -> None:
    values = [float(n) for n in range(30)]
    values[10] = None  # type: ignore[call-overload]
    pq.write_table(pa.table({"n": range(30), "x": values}), tmp_path / "t.parquet", row_group_size=10)
    window = fb.Window(4, across="file")
    with fb.Loader(tmp_path, samples=window, on_bad_row=fb.Skip(at_most=5), batch_size=5) as loader:
        assert numbers(loader) == [[n, n + 1, n + 2, n + 3] for n in range(27) if not n <= 10 <= n + 3]
        assert {(bad.row_group, bad.row) for bad in loader.skipped()} == {(1, 0)}


def test_a_row_group_that_is_damaged_leaves_out_all_windows_with_its_rows(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"n": np.arange(3000), "x": np.random.default_rng(0).standard_normal(3000)})
    pq.write_table(table, path, row_group_size=1000, compression="none", use_dictionary=False)
    start = pq.ParquetFile(path).metadata.row_group(1).column(1).data_page_offset
    data = bytearray(path.read_bytes())
    data[start : start + 8] = b"\xff" * 8
    path.write_bytes(data)
    window = fb.Window(3, across="file")
    with pytest.raises(fb.CorruptError, match="row group 1"):
        numbers(fb.Loader(tmp_path, samples=window, columns=["n", "x"]))
    with fb.Loader(tmp_path, samples=window, on_bad_row=fb.Skip(at_most=2000), batch_size=50) as loader:
        wanted = [n for n in range(2998) if not (998 <= n < 2000)]
        # A batch whose windows were all left out is filled with another window, which then occurs several times.
        assert list(dict.fromkeys(row[0] for row in numbers(loader))) == wanted


def test_only_the_pages_of_the_first_rows_are_read_twice(tmp_path: Path) -> None:
    def fetched(name: str, rows: int, groups: int, across: Any, **options: Any) -> int:
        (folder := tmp_path / name).mkdir(exist_ok=True)
        table = pa.table({"n": np.arange(rows * groups), "x": np.random.default_rng(1).standard_normal(rows * groups)})
        options = {"row_group_size": rows, "data_page_size": 8 << 10, "use_dictionary": False, "compression": "none"} | options
        pq.write_table(table, folder / "t.parquet", **options)
        window = fb.Window(16, overlap=8, across=across)
        with fb.Loader(folder, samples=window, batch_size=4096, epochs=1) as loader:
            found = [row[0] for batch in loader for row in batch["n"].tolist()]
            bytes_fetched: int = loader.stats().to_dict()["stages"]["fetch"]["bytes"]
        starts = range(0, rows * groups - 15, 8) if across == "file" else range(0, rows - 15, 8)
        assert found[: len(starts)] == list(starts)
        return bytes_fetched

    small = {index: fetched("small", 20_000, 6, "file", write_page_index=index) for index in (False, True)}
    once = fetched("small", 20_000, 6, "row_group", write_page_index=True)
    assert small[True] < 1.2 * once
    assert small[False] > 1.6 * once, "without an index small columns are read whole"
    once = fetched("large", 150_000, 3, "row_group")
    assert fetched("large", 150_000, 3, "file") < 1.1 * once, "of large ones the headers of pages say where they are"
    compressed: dict[str, Any] = {"use_dictionary": ["n"], "compression": "zstd", "data_page_version": "2.0"}
    once = fetched("large", 200_000, 3, "row_group", **compressed)
    assert fetched("large", 200_000, 3, "file", **compressed) < 1.8 * once


def test_images_of_the_row_group_after_are_decoded_as_they_are_alone(tmp_path: Path) -> None:
    photos = tmp_path / "photos"
    assert fb.main(["synth", str(photos), "--rows", "40", "--image", "32x24", "--rows-per-group", "7"]) == 0
    options: dict[str, Any] = {"decode": {"image": fb.Image.random_resized_crop(16).flip()}, "row_id": True}
    plain = fb.Loader(photos, columns=["image"], batch_size=40, **options)
    pixels = {row: one for batch in plain for row, one in zip(batch["row_id"].tolist(), batch["image"])}
    window = fb.Window({0: ["label"], 9: ["label", "image"]}, across="dataset", frames="alone")
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="1GiB", tier="pixels")
    for extra in ({}, {"cache": cache}):
        loader = fb.Loader(photos, samples=window, batch_size=8, **options, **extra)
        for epoch in range(2):
            count = 0
            for batch in loader.epoch(epoch):
                if epoch == 0:
                    for rows, images in zip(batch["row_id"].tolist(), batch["image"]):
                        np.testing.assert_array_equal(images[0], pixels[rows[9]])
                count += len(batch["label"])
            assert count == 40 - 9


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: fb.Window(3, across="files"), "across must be 'row_group', 'file' or 'dataset', got 'files'"),
        (lambda: fb.Window(3, across=True), "across must be"),
        (lambda: fb.Pack("x", 3, across=1), "across must be"),
        (lambda: fb.Pack("x", 3, split=False, across="file"), "across='file' is for lists that are split"),
    ],
)
def test_how_far_samples_run_on_is_checked(make: Any, said: str) -> None:
    with pytest.raises(fb.InvalidError, match=said):
        make()


def test_how_far_samples_run_on_is_part_of_a_value() -> None:
    window = fb.Window(3, across="file")
    assert window != fb.Window(3) and hash(window) == hash(fb.Window(3, across="file"))
    assert repr(window) == "forebay.Window(3, across='file')"
    assert repr(fb.Pack("x", 8, across="dataset")) == "forebay.Pack(['x'], 8, across='dataset')"
