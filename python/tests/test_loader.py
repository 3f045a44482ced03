"""Epochs, order, shares, states, filters and errors, through the Python interface."""

from __future__ import annotations

import copy
import datetime
import json
import pickle
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE, ROWS, ids, small

import forebay as fb
from forebay.adapters import Batches


def flat(batches: list[list[int]]) -> list[int]:
    return [row for batch in batches for row in batch]


def test_an_epoch_has_every_row_once_and_the_next_differs(plain: Path) -> None:
    with small(plain) as loader:
        first, second = ids(loader), ids(loader)
        assert len(first) == len(second) == len(loader) == 16
        assert sorted(flat(first)) == sorted(flat(second)) == list(range(ROWS))
        assert first != second
        assert ids(loader.epoch(1)) == second
        assert ids(loader.epoch(0)) == first
        assert loader.epoch(5).number == 5
    with small(plain, threads=1) as again:
        assert ids(again) == first


def test_order_without_a_shuffle_is_the_stored_one(plain: Path) -> None:
    with fb.Loader(plain, batch_size=100) as loader:
        assert flat(ids(loader)) == list(range(ROWS))
    with small(plain, shuffle=fb.Shuffle.exact(3)) as exact:
        assert sorted(flat(ids(exact))) == list(range(ROWS))


def test_a_data_set_is_a_path_a_string_a_glob_or_a_list(plain: Path) -> None:
    files = sorted(plain.iterdir())
    for urls in (plain, str(plain), f"{plain}/*.parquet", files, [str(file) for file in files], plain.as_uri()):
        with fb.Loader(urls, columns=["id"], batch_size=ROWS) as loader:
            assert list(next(iter(loader))) == ["id"]
            assert sorted(flat(ids(loader))) == list(range(ROWS))


def test_columns_come_in_the_order_asked_for(plain: Path) -> None:
    with fb.Loader(plain, columns=["name", "id"]) as loader:
        assert list(next(iter(loader))) == ["name", "id"]


def test_columns_are_matched_by_patterns(plain: Path, tmp_path: Path) -> None:
    with fb.Loader(plain) as loader:
        everything = loader.columns
    assert fb.Loader(plain, columns=["*"]).columns == everything
    assert fb.Loader(plain, columns=["n*", "*", "id"]).columns == [
        "name",
        *[name for name in everything if name not in ("name", "id")],
        "id",
    ]
    assert fb.Loader(plain, columns=["u?", "[if]*", "f*"]).columns == [
        *[name for name in everything if len(name) == 2 and name[0] == "u"],
        *[name for name in everything if name[0] in "if"],
    ]
    with pytest.raises(fb.UnknownColumnError, match="no column matches 'zz\\*'|no column matches \"zz"):
        fb.Loader(plain, columns=["zz*"])
    with pytest.raises(fb.InvalidError, match="listed twice"):
        fb.Loader(plain, columns=["id", "i*", "id"])
    pq.write_table(pa.table({"a*": [1], "ab": [2]}), tmp_path / "odd.parquet")
    assert fb.Loader(tmp_path / "odd.parquet", columns=["a*"]).columns == ["a*"]


def test_a_batch_converts_to_arrow(plain: Path) -> None:
    with fb.Loader(plain, batch_size=ROWS) as loader:
        (batch,) = loader
        table = batch.to_arrow()
        assert table.schema.names == loader.columns
        assert table["id"].to_pylist() == pq.read_table(plain)["id"].to_pylist()
        assert table["id"].to_numpy().ctypes.data == batch["id"].ctypes.data


def test_filters_are_those_of_pyarrow(plain: Path) -> None:
    import pyarrow.dataset as ds

    for filter in (
        [("id", "<", 100)],
        [("id", ">=", np.int64(100)), ("u8", "in", {1, 2, 3})],
        [[("name", "=", "row 7")], [("id", "not in", range(950)), ("flag", "==", True)]],
    ):
        want = ds.dataset(plain).to_table(filter=pq.filters_to_expression(filter))["id"].to_pylist()
        with fb.Loader(plain, columns=["id"], filter=filter, batch_size=7) as loader:
            assert flat(ids(loader)) == want
            assert len(loader) == -(-len(want) // 7)


def test_drop_last_leaves_full_batches(plain: Path) -> None:
    with small(plain, drop_last=True) as loader:
        assert len(loader) == ROWS // 64
        assert {len(batch) for batch in ids(loader)} == {64}


def test_reports_are_for_people_and_programs(plain: Path) -> None:
    with small(plain) as loader:
        plan = loader.plan(0)
        assert plan.to_dict()["steps"] == len(loader)
        assert "16 steps" in repr(plan)
        assert loader.plan() == plan
        next(iter(loader))
        stats = loader.stats()
        assert json.dumps(stats.to_dict())
        assert "fetch" in repr(stats)


def test_two_processes_share_an_epoch_as_two_lanes_do(plain: Path) -> None:
    """Two ranks take equal numbers of steps and deliver each row once. Their two batches of a step have the rows of
    one batch of a single process with two lanes."""
    script = (
        "import sys, json, forebay as fb\n"
        "loader = fb.Loader(sys.argv[1], batch_size=32, shuffle=fb.Shuffle(seed=17, window_rows=200),\n"
        "                   shard=fb.Shard.from_env())\n"
        "print(json.dumps([[batch['id'].tolist() for batch in loader] for _ in range(2)]))\n"
    )
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", script, str(plain)],
            env={"RANK": str(rank), "WORLD_SIZE": "2", "PATH": ""},
            stdout=subprocess.PIPE,
        )
        for rank in range(2)
    ]
    ranks = [json.loads(process.communicate(timeout=PATIENCE)[0]) for process in processes]
    with small(plain, batch_size=64, shuffle=fb.Shuffle(seed=17, window_rows=200, lanes=2)) as alone:
        for epoch in range(2):
            whole, halves = ids(alone.epoch(epoch)), [rank[epoch] for rank in ranks]
            assert len(halves[0]) == len(halves[1]) == len(whole)
            assert sorted(flat(halves[0]) + flat(halves[1])) == list(range(ROWS))
            for step, batch in enumerate(whole):
                assert sorted(halves[0][step] + halves[1][step]) == sorted(batch)


def test_a_state_taken_before_every_batch_gives_the_same_tail_in_a_new_process(photos: Path) -> None:
    """The state is resumed from JSON in another process with another number of threads, and gives the same
    bytes."""
    script = (
        "import sys, json, hashlib, forebay as fb\n"
        "for line in sys.stdin:\n"
        "    state = json.loads(line)\n"
        "    image = fb.Image.random_resized_crop(24).flip()\n"
        "    loader = fb.Loader(sys.argv[1], batch_size=24, decode={'image': image},\n"
        "                       shuffle=fb.Shuffle(seed=5, window_rows=100), threads=1)\n"
        "    loader.load_state_dict(state)\n"
        "    tail = [hashlib.sha256(b['image'].tobytes() + b['id'].tobytes()).hexdigest() for b in loader]\n"
        "    print(json.dumps([tail, loader.state_dict()]), flush=True)\n"
    )
    import hashlib

    image = fb.Image.random_resized_crop(24).flip()
    loader = fb.Loader(
        photos, batch_size=24, decode={"image": image}, shuffle=fb.Shuffle(seed=5, window_rows=100), threads=4
    )
    list(loader)
    epoch, states, hashes = iter(loader), [loader.state_dict()], []
    for batch in epoch:
        hashes.append(hashlib.sha256(batch["image"].tobytes() + batch["id"].tobytes()).hexdigest())
        states.append(loader.state_dict())
    assert len(hashes) == 11
    lines = "".join(json.dumps(state) + "\n" for state in states[:-1])
    assert len(json.dumps(states[-1])) < 64 << 10
    child = subprocess.run(
        [sys.executable, "-c", script, str(photos)], input=lines.encode(), capture_output=True, timeout=PATIENCE
    )
    assert child.returncode == 0, child.stderr.decode()
    for step, line in enumerate(child.stdout.splitlines()):
        tail, after = json.loads(line)
        assert tail == hashes[step:], f"resumed before batch {step}"
        assert after == states[-1]


def test_a_state_is_the_same_on_every_rank_and_serves_another_world(plain: Path) -> None:
    def rank(of: int, world: int, size: int) -> fb.Loader:
        shuffle = fb.Shuffle(seed=9, window_rows=200, lanes=2)
        return fb.Loader(plain, batch_size=size, shuffle=shuffle, shard=fb.Shard(rank=of, world=world))

    pair = [rank(0, 2, 50), rank(1, 2, 50)]
    seen: list[int] = []
    for loader in pair:
        epoch = iter(loader)
        for _ in range(3):
            seen += next(epoch)["id"].tolist()
    state = pair[0].state_dict()
    assert state == pair[1].state_dict()
    alone = rank(0, 1, 100)
    alone.load_state_dict(json.loads(json.dumps(state)))
    assert sorted(seen + flat(ids(alone))) == list(range(ROWS))


def test_a_state_ends_the_epochs_before_it(plain: Path) -> None:
    with small(plain) as loader:
        state = loader.state_dict()
        epoch = iter(loader)
        first = next(epoch)["id"].tolist()
        loader.load_state_dict(state)
        with pytest.raises(fb.ClosedError, match="iterate over the loader again"):
            next(epoch)
        assert next(iter(loader))["id"].tolist() == first


@pytest.mark.parametrize("change", [{"seed": 18}, {"fingerprint": "0" * 32}, {"version": 99}, {"epoch": "x"}, {}])
def test_a_state_that_does_not_belong_is_refused(plain: Path, change: dict[str, object]) -> None:
    with small(plain) as loader:
        state = loader.state_dict()
        for name, value in change.items():
            (state if name in state else state["order"])[name] = value
        with pytest.raises(fb.StateMismatchError):
            loader.load_state_dict(state if change else {"model": "weights"})
        with pytest.raises(fb.StateMismatchError):
            loader.load_state_dict({"x": object()})
        for wrong in (None, "{}", [("epoch", 1)]):
            with pytest.raises(fb.StateMismatchError, match="must be a dict, got"):
                loader.load_state_dict(wrong)  # type: ignore[arg-type]
        assert len(ids(loader)) == 16


def test_a_loader_pickles_by_its_arguments(plain: Path) -> None:
    with small(plain) as loader:
        want = ids(loader)
        for other in (pickle.loads(pickle.dumps(loader)), copy.copy(loader)):
            assert repr(other) == repr(loader)
            assert ids(other) == want
            other.close()


def rewritten(folder: Path, rows: int) -> None:
    pq.write_table(pa.table({"id": range(rows)}), folder / "a.parquet")


@pytest.mark.parametrize("make", [fb.Dataset, fb.Loader, lambda folder: fb.Loader(fb.Dataset(folder))])
def test_what_was_pickled_is_not_opened_over_files_that_changed(tmp_path: Path, make: Any) -> None:
    rewritten(tmp_path, 10)
    pickled = pickle.dumps(make(tmp_path))
    assert pickle.loads(pickled).num_rows == 10
    rewritten(tmp_path, 11)
    with pytest.raises(fb.StateMismatchError, match=r"have changed since it was pickled \(make a new forebay\.Dataset"):
        pickle.loads(pickled)
    rewritten(tmp_path, 10)
    assert pickle.loads(pickled).num_rows == 10


@pytest.mark.parametrize("urls", ["data", "./data/", "data/*.parquet", ["data/a.parquet"], Path("data")], ids=repr)
def test_a_relative_path_goes_on_meaning_the_files_that_were_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, urls: Any
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "elsewhere" / "data").mkdir(parents=True)
    rewritten(tmp_path / "data", 10)
    rewritten(tmp_path / "elsewhere" / "data", 99)
    monkeypatch.chdir(tmp_path)
    dataset, trace = fb.Dataset(urls), tmp_path / "trace.json"
    cache = fb.DiskCache("cache", max_bytes="1GB", tier="rows")
    loader = fb.Loader(urls, cache=cache, trace="trace.json")
    monkeypatch.chdir(tmp_path / "elsewhere")
    for loaders in (
        (loader, fb.Loader(dataset)),
        (copy.copy(loader), pickle.loads(pickle.dumps(loader)), fb.Loader(pickle.loads(pickle.dumps(dataset)))),
    ):
        trace.unlink(missing_ok=True)
        for opened in loaders:
            assert sum(map(len, ids(opened))) == 10
            opened.close()
        assert trace.exists()
    assert sorted(path.name for path in Path().iterdir()) == ["data"]


def test_a_filter_that_was_an_iterator_is_copied_too(plain: Path) -> None:
    with small(plain, filter=iter([("id", "<", 30)])) as loader, copy.copy(loader) as other:
        assert sorted(flat(ids(other))) == sorted(flat(ids(loader))) == list(range(30))


def test_repr_shows_the_arguments_and_no_secrets(plain: Path) -> None:
    with small(plain, decode={}) as loader:
        assert repr(loader) == (
            f"forebay.Loader({plain!r}, decode={{}}, batch_size=64, "
            "shuffle=forebay.Shuffle(seed=17, window_rows=200), threads=2)"
        )
    hidden = fb.Loader.__new__(fb.Loader)
    hidden._arguments = {**loader._arguments, "storage_options": {"aws_secret_access_key": "s3cr3t"}}
    assert "s3cr3t" not in repr(hidden)
    assert "aws_secret_access_key" in repr(hidden)


def test_repr_shows_no_secret_of_a_url(plain: Path) -> None:
    secret = "https://ann:hunter2@example.org/data/a.parquet?X-Amz-Signature=cafe"
    with small(plain) as loader:
        epoch = iter(loader)
        for urls in (secret, [secret, str(plain)]):
            loader._arguments["urls"] = urls
            for shown in (repr(loader), repr(epoch), repr(Batches(loader, dict)), f"{loader}"):
                assert "hunter2" not in shown
                assert "cafe" not in shown
                assert "example.org/data/a.parquet" in shown


def test_a_loader_is_no_data_set_of_rows(plain: Path) -> None:
    with small(plain) as loader:
        for searched in (loader, Batches(loader, dict)):
            with pytest.raises(TypeError, match=r"cannot be searched with `in`"):
                assert 7 not in searched
        assert loader.state_dict()["row"] == 0
        with pytest.raises(TypeError, match=r"takes the place of a DataLoader.*forebay\.torch\.batches"):
            loader[0]
        batch = next(iter(loader))
        for wrong in (0, slice(3), None):
            with pytest.raises(TypeError, match=r"a batch has columns by name, got .* \(pass a str\)"):
                batch[wrong]
        # Functions that move a batch to a device call its type with a dict, so this error names the adapter.
        with pytest.raises(TypeError, match=r"forebay\.torch\.batches"):
            type(batch)({"id": batch["id"]})


def test_names_from_a_file_are_spelled_out_where_a_terminal_would_obey(tmp_path: Path) -> None:
    name = "a\x1b[31m\u202eb"
    pq.write_table(pa.table({name: [1, 2]}), tmp_path / "x.parquet")
    with fb.Loader(tmp_path) as loader:
        batch = next(iter(loader))
        assert list(batch) == loader.schema.names == [name]
        with pytest.raises(fb.UnknownColumnError) as caught:
            batch["ab"]
        for shown in (repr(batch), repr(loader.schema), repr(batch.column(name)), str(caught.value)):
            assert shown.isprintable()
            assert r"\u{202e}" in shown


@pytest.mark.parametrize("nested", [False, True], ids=["flat", "in a list"])
def test_times_of_96_bits_that_spark_wrote_are_of_microseconds(tmp_path: Path, nested: bool) -> None:
    times = [datetime.datetime(9999, 12, 31, 23, 59, 59, 999999), None, datetime.datetime(1, 1, 1)]
    kind = pa.list_(pa.timestamp("us")) if nested else pa.timestamp("us")
    cells = pa.array([[time] for time in times] if nested else times, kind)
    stored = pa.table({"x": [1, 2, 3], "t": cells})
    options: Any = {"use_deprecated_int96_timestamps": True, "store_schema": False}
    with pq.ParquetWriter(tmp_path / "x.parquet", stored.schema, **options) as writer:
        writer.write_table(stored)
        writer.add_key_value_metadata({"org.apache.spark.version": "3.5.0"})
    for _ in range(2):
        with fb.Loader(tmp_path, batch_size=3) as loader:
            rows = pa.record_batch(next(iter(loader))).column("t")
            assert (rows.type.value_type if nested else rows.type) == pa.timestamp("us", "UTC")
            assert rows.cast(pa.large_list(kind.value_type) if nested else kind).to_pylist() == cells.to_pylist()
        fb.Dataset(tmp_path).write_index()


def test_times_of_96_and_of_64_bits_that_spark_wrote_are_one_column(tmp_path: Path) -> None:
    times = pa.array([datetime.datetime(2020, 5, 17, 1, 2, 3), None], pa.timestamp("us"))

    def write(name: str, column: pa.Array, spark: bool, **options: Any) -> None:
        schema = pa.schema([("t", column.type)])
        with pq.ParquetWriter(tmp_path / name, schema, store_schema=False, **options) as writer:
            writer.write_table(pa.table({"t": column}))
            if spark:
                writer.add_key_value_metadata({"org.apache.spark.version": "3.5.0"})

    write("a.parquet", times, True, use_deprecated_int96_timestamps=True)
    write("b.parquet", times.cast(pa.timestamp("us", "UTC")), True)
    with fb.Loader(tmp_path, batch_size=4, shuffle=None) as loader:
        rows = pa.record_batch(next(iter(loader)))["t"]
        assert rows.type == pa.timestamp("us", "UTC")
        assert rows.cast(pa.timestamp("us")).to_pylist() == times.to_pylist() * 2
    # Only the 96-bit times of Spark are known to be in UTC. Those of other writers have no zone.
    write("a.parquet", times, False, use_deprecated_int96_timestamps=True)
    for merge_schema in (False, True):
        with pytest.raises(fb.UnsupportedError, match="times without a zone cannot be compared"):
            fb.Loader(fb.Dataset(tmp_path, merge_schema=merge_schema), columns=["t"])


def test_next_moves_are_written_as_python_takes_them(tmp_path: Path, plain: Path) -> None:
    far = pa.table({"x": [1], "far": pa.array([datetime.datetime(3020, 5, 17)], pa.timestamp("us"))})
    pq.write_table(far, tmp_path / "x.parquet", use_deprecated_int96_timestamps=True, store_schema=False)
    with fb.Loader(tmp_path) as loader:
        with pytest.raises(fb.UnsupportedError, match=r"leave it out with columns=\[\.\.\.\]"):
            next(iter(loader))
    with pytest.raises(fb.InvalidError, match="leave out drop_last=True"):
        fb.Loader(plain, batch_size=1 << 20, drop_last=True)


@pytest.mark.parametrize("transform", [None, lambda batch: batch], ids=["bare", "transform"])
@pytest.mark.parametrize("taken", ["some", "all"])
@pytest.mark.parametrize(
    ("end", "says"),
    [
        (lambda loader, epoch: epoch.close(), "epoch 3 was ended: it was closed (iterate over the loader again)"),
        (lambda loader, epoch: iter(loader), "epoch 3 was ended: another epoch was started (a loader has one"),
        (
            lambda loader, epoch: loader.load_state_dict(loader.state_dict()),
            "epoch 3 was ended: a state was loaded (iterate over the loader again)",
        ),
        (lambda loader, epoch: loader.close(), "the loader was closed (build another)"),
    ],
    ids=["epoch", "another", "state", "loader"],
)
def test_an_epoch_says_why_it_was_ended(plain: Path, transform: Any, taken: str, end: Any, says: str) -> None:
    with small(plain, transform=transform) as loader:
        epoch = loader.epoch(3)
        next(epoch)
        if taken == "all":
            list(epoch)
        end(loader, epoch)
        # The error gives the first reason, also after the epoch was ended again.
        epoch.close()
        loader.close()
        for _ in range(2):
            with pytest.raises(fb.ClosedError) as caught:
                next(epoch)
            assert str(caught.value).startswith(says)


def test_no_epoch_follows_the_last_one(plain: Path) -> None:
    last = (1 << 64) - 2
    with small(plain, columns=["id"]) as loader:
        assert len(list(loader.epoch(last))) == 16
        state = loader.state_dict()
        assert (state["epoch"], state["row"]) == (last + 1, 0)
        for begin in (lambda: iter(loader), lambda: loader.epoch(last + 1)):
            with pytest.raises(fb.InvalidError, match="there is no epoch 18446744073709551615"):
                next(begin())
        with pytest.raises(fb.StateMismatchError, match="the last one is 18446744073709551614"):
            loader.load_state_dict({**state, "row": 64})
        with pytest.raises(fb.StateMismatchError):
            loader.load_state_dict({**state, "epoch": last + 2})
        loader.load_state_dict({**state, "epoch": last, "row": ROWS})
        assert loader.state_dict()["epoch"] == last + 1


def test_one_epoch_is_under_way_at_a_time(plain: Path) -> None:
    with small(plain) as loader:
        first = iter(loader)
        next(first)
        second = iter(loader)
        with pytest.raises(fb.ClosedError):
            for _ in first:
                pass
        assert len(list(second)) == 16


def test_bad_rows_raise_or_are_skipped(tmp_path: Path, photos: Path) -> None:
    table = pq.read_table(photos)
    images = table["image"].to_pylist()
    images[40] = b"<html>"
    images[77] = images[77][: len(images[77]) // 2]
    broken = table.set_column(0, "image", pa.array(images, pa.binary()))
    pq.write_table(broken, tmp_path / "broken.parquet", row_group_size=32)
    decode = {"image": fb.Image.resize(8, 8)}
    with fb.Loader(tmp_path, decode=decode) as loader:
        with pytest.raises(fb.BadRowError) as caught:
            list(loader)
        error = caught.value
        assert (Path(error.file or "").name, error.row_group, error.row, error.column) == (
            "broken.parquet",
            1,
            8,
            "image",
        )
        copied = pickle.loads(pickle.dumps(error))
        assert (str(copied), copied.row, type(copied)) == (str(error), 8, fb.BadRowError)
        with pytest.raises(fb.BadRowError):
            list(loader)
    with fb.Loader(tmp_path, decode=decode, on_bad_row=fb.Skip(at_most=2)) as loader:
        assert sorted(flat(ids(loader))) == [row for row in range(256) if row not in (40, 77)]
    with fb.Loader(tmp_path, decode=decode, on_bad_row=fb.Skip(at_most=1)) as loader, pytest.raises(fb.BadRowError):
        list(loader)


def refusals(plain: Path, tmp_path: Path) -> list[tuple[type[Exception], type[Exception], dict[str, object]]]:
    (tmp_path / "not.parquet").write_bytes(b"hello, this is no Parquet at all")
    return [
        (fb.NotFoundError, FileNotFoundError, {"urls": tmp_path / "nothing"}),
        (fb.CorruptError, ValueError, {"urls": tmp_path / "not.parquet"}),
        (fb.InvalidError, ValueError, {"urls": []}),
        (fb.InvalidError, ValueError, {"batch_size": 0}),
        (fb.InvalidError, ValueError, {"batch_size": "many"}),
        (fb.InvalidError, ValueError, {"memory": "much"}),
        (fb.InvalidError, ValueError, {"threads": 0}),
        (fb.InvalidError, ValueError, {"columns": "id"}),
        (fb.UnknownColumnError, KeyError, {"columns": ["idd"]}),
        (fb.UnknownColumnError, KeyError, {"filter": [("idd", "<", 3)]}),
        (fb.InvalidError, ValueError, {"filter": [("id", "<", "three")]}),
        (fb.UnknownColumnError, KeyError, {"decode": {"photo": fb.Image.resize(1, 1)}}),
        (fb.InvalidError, ValueError, {"decode": {"blob": "resize"}}),
        (fb.InvalidError, ValueError, {"decode": {"blob": fb.Image.resize(1, 1).normalize((0, 0, 0), (1, 1, 1))}}),
        (fb.InvalidError, ValueError, {"on_bad_row": "ignore"}),
        (fb.InvalidError, ValueError, {"shuffle": 17}),
        (fb.InvalidError, ValueError, {"shard": (0, 2)}),
        (fb.InvalidError, ValueError, {"transform": 3}),
        (fb.TooLargeError, ValueError, {"memory": "1kB", "shuffle": fb.Shuffle(seed=1, window_rows=500)}),
        (fb.InvalidError, ValueError, {"cache": "/nvme/forebay"}),
    ]


@pytest.mark.parametrize("case", range(20))
def test_what_can_never_work_is_refused_by_its_type(plain: Path, tmp_path: Path, case: int) -> None:
    ours, builtin, arguments = refusals(plain, tmp_path)[case]
    with pytest.raises(ours) as caught:
        fb.Loader(**{"urls": plain, **arguments})  # type: ignore[arg-type]
    assert isinstance(caught.value, builtin)
    assert isinstance(caught.value, fb.ForebayError)
    assert str(caught.value) == caught.value.message
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_closed_loader_says_so(plain: Path) -> None:
    loader = small(plain)
    epoch = iter(loader)
    next(epoch)
    loader.close()
    loader.close()
    with pytest.raises(fb.ClosedError):
        next(epoch)
    with pytest.raises(fb.ClosedError):
        next(iter(loader))
    assert len(loader) == 16
    assert len(loader.schema) > 0
    assert loader.state_dict()["row"] == 64
    assert loader.plan() is not None
    assert loader.stats() is not None


def test_the_program_is_there() -> None:
    with pytest.raises(fb.InvalidError, match=r"pass \['inspect', 'data'\]"):
        fb.main("inspect data")
    for command in ([sys.executable, "-m", "forebay"], [str(Path(sys.executable).with_name("forebay"))]):
        shown = subprocess.run([*command, "--version"], capture_output=True, text=True, timeout=PATIENCE)
        assert shown.returncode == 0
        assert shown.stdout.startswith("forebay ")
        assert subprocess.run([*command, "dance"], capture_output=True, timeout=PATIENCE).returncode == 2
