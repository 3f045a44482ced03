"""The rows of a step, and rows and steps that are left out."""

from __future__ import annotations

import copy
import datetime
import json
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 130


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    """A data set of rows 0 to 129 in two files with row groups of 20."""
    root = tmp_path / "numbers"
    root.mkdir()
    table = pa.table({"n": np.arange(ROWS), "url": [f"https://a.example/{n}" for n in range(ROWS)]})
    pq.write_table(table.slice(0, 70), root / "a.parquet", row_group_size=20)
    pq.write_table(table.slice(70), root / "b.parquet", row_group_size=20)
    return root


def made(root: Path, **options: Any) -> fb.Loader:
    return fb.Loader(root, **{"batch_size": 8, "shuffle": fb.Shuffle(seed=3, lanes=4), "row_id": True} | options)


def value_at(place: fb.RowPlace) -> int:
    """Returns the value that pyarrow reads at a place."""
    return pq.ParquetFile(place.file).read_row_group(place.row_group, ["n"])["n"][place.row].as_py()


def test_the_plan_names_the_rows_that_come(numbers: Path) -> None:
    ranks = [made(numbers, shard=fb.Shard(rank=rank, world=2)) for rank in range(2)]
    steps = len(ranks[0])
    for epoch in range(2):
        for rank, loader in enumerate(ranks):
            for step, batch in enumerate(loader.epoch(epoch)):
                other = ranks[1 - rank]
                places = other.which(step, epoch=epoch, rank=rank)
                assert [value_at(place) for place in places] == batch["n"].tolist()
                assert [place.row_id for place in places] == batch["row_id"].tolist()
                assert places == loader.which(epoch * steps + step)
    with pytest.raises(fb.InvalidError, match=f"there is no step {steps}"):
        ranks[0].which(steps, epoch=0)
    with pytest.raises(fb.InvalidError, match="which\\(0, epoch=1\\)"):
        ranks[0].which(epoch=1)
    with pytest.raises(fb.InvalidError, match="rank"):
        ranks[0].which(0, rank=2)


def test_what_comes_next_is_known_after_each_batch(numbers: Path) -> None:
    loader = made(numbers)
    batches = iter(loader)
    for _ in range(len(loader)):
        following = loader.which()
        assert [place.row_id for place in following] == next(batches)["row_id"].tolist()


def test_a_row_id_is_found_again(numbers: Path) -> None:
    dataset = fb.Dataset(numbers)
    for batch in made(numbers):
        for n, number in zip(batch["n"].tolist(), batch["row_id"], strict=True):
            row_id = fb.RowId(number)
            assert value_at(row_id.place(dataset)) == n
            assert row_id == row_id.place(dataset).row_id == pickle.loads(pickle.dumps(row_id))
    assert repr(fb.RowId(7)) == "forebay.RowId(7)" and str(fb.RowId(7)) == "7" and json.dumps(fb.RowId(7)) == "7"
    with pytest.raises(fb.InvalidError, match="has no row 7"):
        fb.RowId(7).place(dataset)
    assert made(numbers, columns=["n"]).columns == ["n", "row_id"]
    with pytest.raises(fb.InvalidError, match="rename"):
        made(numbers, rename={"n": "row_id"})
    with pytest.raises(fb.InvalidError, match="row_id must be True or False"):
        made(numbers, row_id=1)


def rows(loader: fb.Loader) -> list[int]:
    return sorted(n for batch in loader for n in batch["n"].tolist())


def test_denied_rows_never_come_and_all_others_once(numbers: Path, tmp_path: Path) -> None:
    ids = {n: i for batch in made(numbers) for n, i in zip(batch["n"].tolist(), batch["row_id"].tolist(), strict=True)}
    left = [n for n in range(ROWS) if n not in (5, 77)]
    text, urls = tmp_path / "rows.txt", tmp_path / "urls.txt"
    text.write_text(f"# bad\n{ids[5]}  # a.parquet\n\n{ids[77]}\n")
    urls.write_text("https://a.example/5\nhttps://a.example/77\n")
    pq.write_table(pa.table({"row_id": [ids[5], ids[77]]}), tmp_path / "rows.parquet")
    pq.write_table(pa.table({"n": pa.array([5, 77], pa.int16())}), tmp_path / "n.parquet")
    for deny in (
        [ids[5], fb.RowId(ids[77])],
        np.array([ids[5], ids[77]]),
        iter([ids[77], ids[5]]),
        text,
        str(tmp_path / "rows.parquet"),
        {"n": [5, np.int64(77)]},
        {"url": str(urls)},
        {"n": tmp_path / "n.parquet"},
        {"url": {"https://a.example/5"}, "n": [77]},
        [ids[5], {"n": [77]}],
        [[ids[5]], {"n": [77]}],
        [np.array([ids[5]]), {ids[77]}],
        # A tensor yields its elements in this form.
        list(map(np.array, [ids[5], ids[77]])),
        [text, urls and {"url": urls}],
    ):
        loader = made(numbers, deny=deny)
        assert rows(loader) == left
        assert loader.num_rows == len(left)
        assert rows(pickle.loads(pickle.dumps(loader))) == left
    ranks = [made(numbers, deny=text, shard=fb.Shard(rank=rank, world=3)) for rank in range(3)]
    assert sorted(n for loader in ranks for n in rows(loader)) == left
    # The file is read only once.
    loader = made(numbers, deny=text)
    text.write_text("")
    assert rows(copy.copy(loader)) == left
    assert "deny=<2 rows>" in repr(loader)


@pytest.mark.parametrize(
    ("deny", "message"),
    [
        (7, "deny must be a list of row ids"),
        (b"x", "deny must be a list of row ids"),
        ([1.5], "deny must have row ids"),
        ([True], "which is not a row id"),
        ([1 << 63], "which is not a row id"),
        ({1: [2]}, "names of columns as keys"),
        ({"n": 7}, "must be a list of values or the file of one"),
        ({"n": [float("nan")]}, "must be finite"),
        ({"m": [1]}, 'no column "m"'),
        ({"n": list(range(ROWS))}, "deny"),
        ("nothing.txt", "nothing.txt"),
    ],
)
def test_what_can_never_be_denied_is_refused(numbers: Path, deny: Any, message: str) -> None:
    with pytest.raises(fb.ForebayError, match=message):
        made(numbers, deny=deny)


def test_lists_that_name_no_rows_are_refused_with_a_next_move(numbers: Path, tmp_path: Path) -> None:
    texts = tmp_path / "ids.parquet"
    for column in (pa.array(["1"]), pa.array([1.5]), pa.array([True]), pa.array([[1]])):
        pq.write_table(pa.table({"row_id": column}), texts)
        with pytest.raises(fb.InvalidError, match=r'column "row_id" has type .*row ids are integers: give a column of these'):
            made(numbers, deny=str(texts))
    two = tmp_path / "two.txt"
    for text in ("1 2\n", "1\r2\r"):
        two.write_text(text)
        with pytest.raises(fb.InvalidError, match=r'line 1: ".*" is not a row id'):
            made(numbers, deny=str(two))
    for deny, move in (("none.txt", "name a file with a row id"), ({"url": "https"}, "or give the values as a list")):
        with pytest.raises(fb.NotFoundError, match=move):
            made(numbers, deny=deny)
    with pytest.raises(fb.InvalidError, match="valid Unicode"):
        made(numbers, deny={"url": ["\ud800"]})


def test_rows_that_are_not_there_are_a_warning(numbers: Path) -> None:
    loader = made(numbers, deny=[1, 2])
    with pytest.warns(RuntimeWarning, match="2 of the rows that `deny` lists are not in this data set"):
        assert rows(loader) == list(range(ROWS))


def test_steps_are_passed_over_and_the_state_knows(numbers: Path) -> None:
    whole = [[batch["n"].tolist() for batch in made(numbers).epoch(epoch)] for epoch in range(2)]
    steps = len(whole[0])
    loader = made(numbers, skip_steps=[(3, 5), (steps + 1, steps + 2)])
    found = [[batch["n"].tolist() for batch in loader.epoch(epoch)] for epoch in range(2)]
    assert found == [whole[0][:3] + whole[0][5:], whole[1][:1] + whole[1][2:]]
    batches = iter(loader.epoch(0))
    next(batches)
    resumed = made(numbers)
    resumed.load_state_dict(json.loads(json.dumps(loader.state_dict())))
    assert [batch["n"].tolist() for batch in resumed] == found[0][1:]
    for ranges, message in (
        ([(4, 4)], "range from 4 to 4"),
        ([4], "list of pairs of ints"),
        ("4-5", "list of pairs"),
        ([(0, steps)], "no step of epoch 0"),
        ([(-1, 2)], "range from -1 to 2"),
    ):
        with pytest.raises(fb.InvalidError, match=message):
            made(numbers, skip_steps=ranges)


@pytest.mark.parametrize(("world", "batch_size"), [(1, 8), (3, 4), (8, 3), (8, 16)])
def test_each_row_counts_once_over_all_ranks(numbers: Path, world: int, batch_size: int) -> None:
    counted = [
        n
        for rank in range(world)
        for batch in made(numbers, shard=fb.Shard(rank=rank, world=world), batch_size=batch_size, row_mask=True)
        for n in batch["n"][batch["row_mask"]].tolist()
    ]
    assert sorted(counted) == list(range(ROWS))


VALUES: dict[str, tuple[pa.Array, list[str]]] = {
    "uint64": (pa.array([0, 2**63, 2**64 - 1], pa.uint64()), ["9223372036854775808", "18446744073709551615"]),
    "float32": (pa.array([0.5, 0.1, -2.0], pa.float32()), []),
    "float64": (pa.array([0.5, 0.1, -2.0]), ["0.1", "-2"]),
    "bool": (pa.array([False, True, True]), ["true"]),
    "date": (pa.array([0, 18_000, -1], pa.date32()), ["2019-04-14", "1969-12-31"]),
    "time": (pa.array([0, 1_500_000, -1], pa.timestamp("us")), ["1970-01-01T00:00:01.500000", "1969-12-31T23:59:59.999999"]),
    "zone": (pa.array([0, 1_500, -1], pa.timestamp("ms", "UTC")), ["1970-01-01T00:00:01.5Z", "1969-12-31T23:59:59.999Z"]),
    "text": (pa.array(["a", "b", "c"]), ["b", "c"]),
    "bytes": (pa.array([b"a", b"b", b"c"]), ["b", "c"]),
}


@pytest.mark.parametrize("kind", VALUES)
def test_a_file_of_values_has_any_that_a_filter_compares(tmp_path: Path, kind: str) -> None:
    values, lines = VALUES[kind]
    data, listed, text = (tmp_path / name for name in ("data.parquet", "list.parquet", "list.txt"))
    pq.write_table(pa.table({"id": [0, 1, 2], "u": values}), data)
    pq.write_table(pa.table({"u": values.slice(1)}), listed)
    text.write_text("".join(f"{line}\r\n" for line in lines), encoding="utf-8-sig")
    for list_ in (listed, text)[: 1 + bool(lines)]:
        with fb.Loader(data, deny={"u": list_}) as loader:
            assert next(iter(loader))["id"].tolist() == [0]


def test_a_file_of_values_that_is_none_is_named(tmp_path: Path) -> None:
    data, listed = tmp_path / "data.parquet", tmp_path / "list.parquet"
    pq.write_table(pa.table({"id": [0, 1, 2], "u": [0, 1, 2]}), data)
    for column, said in (
        (pa.array([[1]]), "deny: a list of values has type list<int64>.*can be listed"),
        (pa.array([1.0, float("nan")]), "deny: a list of values has NaN"),
        (pa.array([b"\xff"]), "deny: a list of values has type binary.*text in UTF-8"),
        (pa.array([datetime.time(1)]), "deny: a list of values has type time"),
    ):
        pq.write_table(pa.table({"u": column}), listed)
        with pytest.raises(fb.InvalidError, match=rf'list\.parquet.*, column "u": {said}'):
            fb.Loader(data, deny={"u": listed})
    with pytest.raises(fb.UnknownColumnError, match=r"list\.parquet.*: deny: .*id"):
        fb.Loader(data, deny={"id": listed})
    with pytest.raises(fb.UnknownColumnError, match="deny: "):
        fb.Loader(data, deny={"v": ["x"]})
    with pytest.raises(fb.InvalidError, match='deny: the column has type int64, which a filter cannot compare with "x"'):
        fb.Loader(data, deny={"u": ["x"]})


def test_rows_that_were_skipped_become_a_list_to_deny(tmp_path: Path) -> None:
    cells = [b"no image"] * 3
    pq.write_table(pa.table({"image": pa.array(cells, pa.binary()), "n": range(3)}), tmp_path / "bad.parquet")

    def loader(**options: Any) -> fb.Loader:
        decode = {"image": fb.Image.resize(8, 8)}
        return fb.Loader(tmp_path / "bad.parquet", decode=decode, on_bad_row=fb.Skip(at_most=5), **options)

    saved = tmp_path / "bad.txt"
    first = loader(filter=fb.col("n") < 2)
    with pytest.raises(fb.BadRowError, match="no row of this rank"):
        list(first)
    skipped = first.skipped(save=saved)
    assert [tuple(row)[1:4] for row in skipped] == [(0, 0, "image"), (0, 1, "image")]
    file, *_, cause = skipped[0]
    assert file.endswith("bad.parquet") and cause == skipped[0].cause
    again = pickle.loads(pickle.dumps(skipped[0]))
    assert again == skipped[0] and again.row_id == skipped[0].row_id
    second = loader(deny=saved)
    with pytest.raises(fb.BadRowError, match="no row of this rank"):
        list(second)
    assert [row.row for row in second.skipped(save=saved)] == [2]
    listed = [line.split()[0] for line in saved.read_text().splitlines() if not line.startswith("#")]
    assert listed == [str(row.row_id) for row in [*skipped, *second.skipped()]]
    second.skipped(save=saved)
    assert len(saved.read_text().splitlines()) == 4
    with pytest.raises(fb.InvalidError, match="deny"):
        loader(deny=saved)

    # A link is followed, a list keeps its permissions, and a file that is not a list is left unchanged.
    saved.chmod(0o600)
    link = tmp_path / "link.txt"
    link.symlink_to(saved)
    third = loader()
    with pytest.raises(fb.BadRowError, match="no row of this rank"):
        list(third)
    third.skipped(save=link)
    assert link.is_symlink()
    assert saved.stat().st_mode & 0o777 == 0o600
    other = tmp_path / "other.json"
    other.write_text("{}")
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, message in ((other, "line 1"), (pipe, "is not a file"), (tmp_path / "new.parquet", "name it .txt")):
        with pytest.raises(fb.InvalidError, match=message):
            third.skipped(save=path)
    assert other.read_text() == "{}"
    with pytest.raises(fb.IoError, match=r"no/list.txt: .* \(name a file in a folder that can be written to\)"):
        third.skipped(save=tmp_path / "no" / "list.txt")


#: A hash of the numbers of all rows in the first two epochs, in their order. tests/loaders/pinned.rs has the
# same one.
PINNED = 0x579989A0


def test_the_order_is_the_same_in_python_in_the_program_and_for_years(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table = tmp_path / "numbers.parquet"
    pq.write_table(pa.table({"id": np.arange(3_000)}), table, row_group_size=100)
    shuffle = fb.Shuffle(seed=17, window_rows=500, lanes=3)
    for threads in (1, 2, 8):
        loader = fb.Loader(table, batch_size=32, shuffle=shuffle, threads=threads)
        epochs = [[batch["id"] for batch in loader.epoch(number)] for number in range(2)]
        assert zlib.crc32(np.concatenate(sum(epochs, [])).tobytes()) == PINNED
    state = tmp_path / "state.json"
    state.write_text(json.dumps(loader.state_dict()))
    for step in (0, 40, 93):
        options = ["--state", str(state), "--epoch", "1", "--step", str(step), "--json", "-"]
        assert fb.main(["which", str(table), *options]) == 0
        places = json.loads(capfd.readouterr().out)
        assert [100 * place["row_group"] + place["row"] for place in places] == epochs[1][step].tolist()


@pytest.mark.parametrize("worlds", [(8, 2, 8, 3), (1, 5, 13), (4, 7, 1)])
def test_a_step_keeps_its_rows_on_any_number_of_ranks(numbers: Path, worlds: tuple[int, ...]) -> None:
    def ranks(world: int, state: fb.types.StateDict | None) -> list[fb.Loader]:
        made_ = [
            made(numbers, batch_size=None, global_batch_size=13, shard=fb.Shard(rank=rank, world=world))
            for rank in range(world)
        ]
        for rank in made_:
            if state is not None:
                rank.load_state_dict(state)
        return made_

    whole = [sorted(batch["n"].tolist()) for batch in ranks(1, None)[0]]
    assert sum(map(len, whole)) == ROWS
    state, steps = None, []
    for world in worlds:
        loaders = ranks(world, state)
        epochs = [iter(loader) for loader in loaders]
        for _ in range(2):
            batches = [next(epoch)["n"] for epoch in epochs]
            assert max(map(len, batches)) <= loaders[0].batch_size == -(-13 // world)
            steps.append(sorted(np.concatenate(batches).tolist()))
        state = json.loads(json.dumps(loaders[-1].state_dict()))
        assert state["split"] == {"global_batch_size": 13, "world": world, "drop_last": False}
    assert steps == whole[: len(steps)]


def test_a_global_batch_is_instead_of_a_batch(numbers: Path) -> None:
    with pytest.raises(fb.InvalidError, match="batch_size and global_batch_size were given"):
        fb.Loader(numbers, batch_size=4, global_batch_size=8)
    with pytest.raises(fb.InvalidError, match="global_batch_size is 2, for 3 ranks"):
        fb.Loader(numbers, global_batch_size=2, shard=fb.Shard(rank=0, world=3))
    with pytest.raises(fb.InvalidError, match="global_batch_size must be an int"):
        fb.Loader(numbers, global_batch_size=2.5)
    loader = fb.Loader(numbers, global_batch_size=10, shard=fb.Shard(rank=0, world=3))
    assert (loader.batch_size, loader.spec["global_batch_size"]) == (4, 10)
    assert pickle.loads(pickle.dumps(loader)).spec == loader.spec
    assert fb.Loader(numbers).batch_size == 32


def test_rows_are_denied_from_a_step_on_within_an_epoch(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": pa.array(range(100))}), tmp_path / "t.parquet", row_group_size=20)

    def made(**options: Any) -> fb.Loader:
        return fb.Loader(tmp_path, batch_size=10, shuffle=fb.Shuffle(seed=3), **options)

    with made() as loader:
        whole = [batch["x"].tolist() for batch in loader]
        bad = loader.which(6, epoch=0)[:4]
    with made() as loader:
        epoch = iter(loader)
        assert [next(epoch)["x"].tolist() for _ in range(5)] == whole[:5]
        state = loader.state_dict()
    with made(deny_from={5: bad}) as cleaned:
        cleaned.load_state_dict(state)
        rest = [batch["x"].tolist() for batch in cleaned]
    assert rest == [whole[5], whole[6][4:], *whole[7:]]
    with pytest.raises(fb.InvalidError, match="deny_from must be a dict of rows by step"):
        made(deny_from=bad)
    with pytest.raises(fb.InvalidError, match="deny_from has values of a column"):
        made(deny_from={5: {"x": [3]}})
