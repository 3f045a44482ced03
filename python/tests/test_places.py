"""Locations of data: folders of several splits, a deleted working folder, few open files, and files that are
not Parquet."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE

import forebay as fb


def write(path: Path, rows: int = 5) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"id": pa.array(range(rows))}), path)
    return path


def script(code: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    """Runs a script in a process of its own."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)


def test_files_of_several_splits_are_read_with_a_warning(tmp_path: Path) -> None:
    for name in ("train-00000-of-00002", "train-00001-of-00002", "validation-00000-of-00001", "test-00000-of-00001"):
        write(tmp_path / "data" / f"{name}.parquet")
    with pytest.warns(
        RuntimeWarning, match=r"several splits: train \(2\), validation \(1\), test \(1\)\. .*/data/train"
    ):
        assert fb.Loader(tmp_path / "data").num_rows == 20
    with pytest.warns(RuntimeWarning, match="several splits"):
        assert fb.Dataset(f"{tmp_path}/data/*.parquet").num_rows == 20
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fb.Loader(f"{tmp_path}/data/train*.parquet").num_rows == 10
        named = [tmp_path / "data" / f"{name}-00000-of-00001.parquet" for name in ("validation", "test")]
        assert fb.Loader(named).num_rows == 10
    for split in ("train", "test"):
        write(tmp_path / "hive" / f"split={split}" / "a.parquet")
        write(tmp_path / "folders" / split / "a.parquet")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert fb.Loader(tmp_path / "hive", filter=fb.col("split") == "train").num_rows == 5
        assert fb.Loader([tmp_path / "folders" / "train", tmp_path / "folders" / "test"]).num_rows == 10
    with pytest.warns(
        RuntimeWarning,
        match=r'to read one split, pass split, such as "train", or name its files, such as .*/folders/train',
    ):
        fb.Dataset(tmp_path / "folders")
    ran = subprocess.run(
        [sys.executable, "-m", "forebay", "inspect", tmp_path / "data"], capture_output=True, text=True
    )
    assert "nothing to change" not in ran.stdout and "- " in ran.stdout and "several splits" in ran.stdout, ran


def test_a_whole_path_is_read_where_the_working_folder_was_deleted(tmp_path: Path) -> None:
    path = write(tmp_path / "a.parquet")
    code = """
import os, sys, tempfile
import forebay as fb
gone = tempfile.mkdtemp(); os.chdir(gone); os.rmdir(gone)
print(fb.Loader(sys.argv[1]).num_rows, fb.Dataset(sys.argv[2]).num_rows)
try: fb.Loader("x.parquet")
except Exception as error: print(type(error).__name__, error)
"""
    ran = script(code, path, f"{tmp_path}/*.parquet")
    first, second = ran.stdout.splitlines()
    assert first == "5 5", ran.stderr
    assert second.startswith("NotFoundError x.parquet: the working directory was deleted"), ran


def test_all_rows_come_with_few_open_files_or_the_limit_is_named_before_the_run(tmp_path: Path) -> None:
    for at in range(100):
        write(tmp_path / f"{at:03d}.parquet")
    code = """
import json, resource, sys
import forebay as fb
sources, limit = int(sys.argv[2]), int(sys.argv[3])
resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
made = [fb.Loader(sys.argv[1], shuffle=fb.Shuffle(seed=at)) for at in range(sources)]
loader = fb.Mix([(source, 1.0) for source in made], batch_size=240) if sources > 1 else made[0]
print(json.dumps(sum(batch.num_rows for batch in loader)))
"""
    for sources, limit in ((16, 1024), (16, 512), (1, 64)):
        ran = script(code, tmp_path, sources, limit)
        assert ran.returncode == 0, f"{sources} at {limit}: {ran.stderr[-500:]}"
        assert json.loads(ran.stdout) == 500 * sources, f"{sources} at {limit}"
    full = """
import resource, sys
import forebay as fb
data = fb.Dataset(sys.argv[1])
resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))
held = []
try:
    while True: held.append(open("/dev/null"))
except OSError: pass
try: fb.Loader(data)
except fb.IoError as error: del held; print(error)
"""
    ran = script(full, tmp_path)
    assert "this process cannot open more files: it may have 64 (allow it more with `ulimit -n`" in ran.stdout, ran


def test_a_state_of_other_files_names_those_that_are_new_or_changed(tmp_path: Path) -> None:
    for at in range(3):
        write(tmp_path / "t" / f"{at}.parquet", 40)
    loader = fb.Loader(tmp_path / "t", shuffle=fb.Shuffle(seed=1), batch_size=8)
    next(iter(loader))
    state = json.loads(json.dumps(loader.state_dict()))
    first = fb.Loader(tmp_path / "t", shuffle=fb.Shuffle(seed=1))
    mix = fb.Mix([(first, 1.0), (fb.Loader(tmp_path / "t"), 1.0)], batch_size=8)
    next(iter(mix))
    mixed = mix.state_dict()

    def refusal() -> str:
        with pytest.raises(fb.StateMismatchError) as caught:
            fb.Loader(tmp_path / "t", shuffle=fb.Shuffle(seed=1), batch_size=8).load_state_dict(state)
        return str(caught.value)

    shutil.copy(tmp_path / "t" / "1.parquet", tmp_path / "t" / "late.parquet")
    said = refusal()
    assert "saved with 3 files and 120 rows, here there are 4 files and 160 rows; added: late.parquet" in said
    assert "open the earlier files only" in said
    sources = [(fb.Loader(tmp_path / "t", shuffle=fb.Shuffle(seed=1)), 1.0), (fb.Loader(tmp_path / "t"), 1.0)]
    with pytest.raises(fb.StateMismatchError, match=r"late\.parquet.*source 0 of the mix"):
        fb.Mix(sources, batch_size=8).load_state_dict(mixed)
    (tmp_path / "t" / "late.parquet").unlink()
    write(tmp_path / "t" / "2.parquet", 41)
    assert "; changed: 2.parquet" in refusal()
    (tmp_path / "t" / "2.parquet").unlink()
    assert "; removed: 1 file" in refusal()
    assert len(json.dumps(state)) < 2_000


def test_a_filter_on_a_key_that_the_locations_name_says_which_folder_to_open(tmp_path: Path) -> None:
    paths = [write(tmp_path / "t" / f"day={day}" / "p.parquet") for day in "ab"]
    with pytest.raises(
        fb.ForebayError, match=rf"no column \"day\".*a folder above them is opened, such as {tmp_path}/t\)"
    ):
        fb.Loader(paths, filter=fb.col("day") == "a")
    assert fb.Loader(tmp_path / "t", filter=fb.col("day") == "a").num_rows == 5


def test_what_is_not_parquet_is_named_with_the_way_to_parquet(tmp_path: Path) -> None:
    (tmp_path / "cats").mkdir()
    (tmp_path / "cats" / "0.jpg").write_bytes(b"\xff\xd8\xff\xe0 and more")
    (tmp_path / "a.csv").write_text("a,b\n1,2\n3,4\n")
    (tmp_path / "a.jsonl").write_text('{"a": 1}\n{"a": 2}\n')
    for location, words in (
        (tmp_path / "cats", "it has 0.jpg; images are read from a column of Parquet files"),
        (f"{tmp_path}/cats/*.jpg", "images are read from a column"),
        (tmp_path / "a.csv", "CSV is not read: write it as Parquet first"),
        (tmp_path / "a.jsonl", "JSON is not read: write it as Parquet first"),
    ):
        with pytest.raises(fb.ForebayError) as caught:
            fb.Loader(location)
        assert words in str(caught.value)
        assert "copy the file again" not in str(caught.value)


def test_an_entry_of_an_index_that_is_damaged_does_not_blame_the_file(tmp_path: Path) -> None:
    xxhash = pytest.importorskip("xxhash")
    for at in range(4):
        write(tmp_path / f"p{at}.parquet")
    fb.Dataset(tmp_path).write_index()
    index = tmp_path / "_forebay_index"
    good = index.read_bytes()
    for at in range(72, len(good), max(1, len(good) // 100)):
        bad = bytearray(good)
        bad[at] ^= 0x10
        bad[8:16] = xxhash.xxh3_64_intdigest(bytes(bad[16:])).to_bytes(8, "little")
        index.write_bytes(bad)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            assert fb.Dataset(tmp_path).num_rows == 20
        assert all("_forebay_index" in str(one.message) for one in said), f"byte {at}"


def test_a_warning_points_at_the_line_of_the_program(tmp_path: Path) -> None:
    for split in ("train", "test"):
        write(tmp_path / "data" / f"{split}.parquet")
    folder = tmp_path / "data"
    for make in (
        lambda: fb.Dataset(folder),
        lambda: fb.Loader(folder, batch_size=2),
        lambda: fb.Mix([(folder, 1)], batch_size=2),
        lambda: fb.vocabularies(folder, ["id"]),
    ):
        with pytest.warns(RuntimeWarning, match="several splits") as caught:
            make()
        assert {(warning.filename, warning.lineno) for warning in caught} == {(__file__, make.__code__.co_firstlineno)}
