"""The index of a folder: one process writes it, the next one uses it, and entries that no longer match their
file are not used."""

from __future__ import annotations

import shutil
import warnings
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROWS

import forebay as fb

NAME = "_forebay_index"


@pytest.fixture
def folder(plain: Path, tmp_path: Path) -> Path:
    """A copy of a data set of three files, which tests may change."""
    return Path(shutil.copytree(plain, tmp_path / "copy"))


def requests(dataset: fb.Dataset) -> int:
    with fb.Loader(dataset, columns=["id"]) as loader:
        return loader.stats().to_dict()["traffic"]["requests"]


def test_one_file_has_all_footers_and_is_not_data(folder: Path) -> None:
    before = fb.Dataset(folder)
    (report,) = before.write_index()
    assert (report["files"], report["files_read"]) == (3, 3)
    assert report["location"] == str(folder / NAME)
    assert report["bytes"] == (folder / NAME).stat().st_size
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        indexed = fb.Dataset(folder)
    assert (indexed.num_files, indexed.num_rows, indexed.fingerprint) == (3, ROWS, before.fingerprint)
    assert requests(indexed) == 1
    assert requests(fb.Dataset(folder, storage_options={"index": "off"})) == 3
    assert indexed.write_index()[0]["files_read"] == 0
    # Other programs ignore the index file.
    assert pq.read_table(folder).num_rows == ROWS


def test_a_file_that_was_written_again_is_read(folder: Path) -> None:
    fb.Dataset(folder).write_index()
    first = min(folder.glob("*.parquet"))
    table = pq.read_table(first)
    ids = table["id"]
    table = table.set_column(table.column_names.index("id"), "id", pa.array([-1] * len(ids), ids.type))
    pq.write_table(table, first)
    dataset = fb.Dataset(folder)
    assert requests(dataset) == 2
    with fb.Loader(dataset, columns=["id"], batch_size=len(ids)) as loader:
        assert set(next(iter(loader))["id"].tolist()) == {-1}


def test_one_that_cannot_be_used_is_a_warning(folder: Path) -> None:
    fb.Dataset(folder).write_index()
    content = bytearray((folder / NAME).read_bytes())
    content[-1] ^= 1
    (folder / NAME).write_bytes(content)
    with pytest.warns(RuntimeWarning, match=r"without the index: .*_forebay_index: it is damaged .*forebay index"):
        dataset = fb.Dataset(folder)
    assert dataset.num_rows == ROWS
    with pytest.warns(RuntimeWarning, match="it is damaged"):
        fb.Loader(folder).close()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fb.Dataset(folder, storage_options={"index": "off"})
        dataset.write_index()
        fb.Dataset(folder)


def test_an_index_is_of_a_folder(folder: Path) -> None:
    with pytest.raises(fb.InvalidError, match="open the folder itself"):
        fb.Dataset(sorted(folder.glob("*.parquet"))).write_index()
    with pytest.raises(fb.InvalidError, match='storage option "index" is not "on" or "off"'):
        fb.Dataset(folder, storage_options={"index": "perhaps"})
