"""A data set that is opened once: its properties, its samples, and the loaders that share it."""

from __future__ import annotations

import copy
import json
import os
import pickle
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import ROWS, ids

import forebay as fb


def test_a_data_set_says_what_it_consists_of(plain: Path, table: pa.Table) -> None:
    dataset = fb.Dataset(plain)
    assert (dataset.num_rows, dataset.num_files, dataset.num_row_groups) == (ROWS, 3, 13)
    assert dataset.columns == dataset.schema.names == table.column_names
    with fb.Loader(plain) as loader:
        assert dataset.fingerprint == loader.state_dict()["fingerprint"]
        assert pa.schema(loader.schema).names == pa.schema(dataset.schema).names


def test_metadata_is_that_of_the_first_file(tmp_path: Path) -> None:
    for name in "ab":
        table = pa.table({"id": [1]}).replace_schema_metadata({"dataset": json.dumps({"name": name})})
        pq.write_table(table, tmp_path / f"{name}.parquet")
    assert json.loads(fb.Dataset(tmp_path).metadata["dataset"]) == {"name": "a"}
    assert fb.Dataset(tmp_path / "b.parquet").metadata["dataset"] == '{"name": "b"}'


def test_a_sample_is_the_first_rows_with_images_encoded_unless_decoded(photos: Path) -> None:
    dataset = fb.Dataset(photos)
    batch = dataset.sample()
    assert batch["id"].tolist() == [0, 1, 2, 3, 4]
    assert all(value.startswith(b"\xff\xd8") for value in batch["image"])
    decoded = dataset.sample(3, columns=["image"], decode={"image": fb.Image.resize(8, 9)})
    assert list(decoded) == ["image"]
    assert decoded["image"].shape == (3, 8, 9, 3)


def test_a_sample_is_no_longer_than_the_data_set(plain: Path) -> None:
    dataset = fb.Dataset(plain)
    assert dataset.sample(10 * ROWS, columns=["id"])["id"].tolist() == list(range(ROWS))
    for rows in (0, -1, True, "5"):
        with pytest.raises(fb.InvalidError, match="rows must be"):
            dataset.sample(rows)  # type: ignore[arg-type]
    with pytest.raises(fb.UnknownColumnError, match="id"):
        dataset.sample(columns=["idd"])


def test_a_data_set_without_rows_has_no_sample(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    dataset = fb.Dataset(tmp_path)
    assert (dataset.num_rows, dataset.num_files, dataset.num_row_groups) == (0, 1, 0)
    with pytest.raises(fb.InvalidError, match="no rows"):
        dataset.sample()


def test_loaders_share_what_was_read_of_a_data_set(plain: Path) -> None:
    dataset = fb.Dataset(plain)
    with fb.Loader(dataset, filter=[("id", "<", 900)]) as train, fb.Loader(dataset, filter=[("id", ">=", 900)]) as val:
        assert (train.num_rows, val.num_rows) == (900, 100)
        rows = [row for loader in (train, val) for batch in ids(loader) for row in batch]
        assert rows == list(range(ROWS))
        train.close()
        assert sum(map(len, ids(val))) == 100
    # The files were listed once: both loaders report the time and the bytes of opening.
    assert train.stats().to_dict()["stages"]["list"] == val.stats().to_dict()["stages"]["list"]


def test_a_data_set_outlives_its_loaders_and_they_outlive_it(plain: Path) -> None:
    dataset = fb.Dataset(plain)
    with fb.Loader(dataset, batch_size=100) as loader:
        del dataset
        assert len(ids(loader)) == 10


def test_files_that_are_gone_are_not_looked_for_again(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": range(10)}), tmp_path / "a.parquet")
    dataset = fb.Dataset(tmp_path)
    (tmp_path / "a.parquet").unlink()
    assert fb.Loader(dataset).num_rows == 10
    with pytest.raises(fb.NotFoundError):
        fb.Dataset(tmp_path)


def test_a_forked_child_reads_the_data_set_of_its_parent(plain: Path) -> None:
    dataset = fb.Dataset(plain)
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if dataset.sample(3)["id"].tolist() == [0, 1, 2] else 1)
        finally:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_a_data_set_is_copied_as_itself_and_pickles_by_its_arguments(plain: Path) -> None:
    dataset = fb.Dataset([plain], storage_options={})
    assert copy.copy(dataset) is copy.deepcopy(dataset) is dataset
    assert pickle.loads(pickle.dumps(dataset)).fingerprint == dataset.fingerprint
    with fb.Loader(dataset, batch_size=100) as loader, pickle.loads(pickle.dumps(loader)) as other:
        assert ids(other) == ids(loader)


def test_storage_options_belong_to_the_data_set(plain: Path) -> None:
    with pytest.raises(fb.InvalidError, match=r"pass storage_options to forebay\.Dataset"):
        fb.Loader(fb.Dataset(plain), storage_options={"key": "hunter2"})


def test_repr_is_short_and_shows_no_secret(plain: Path) -> None:
    dataset = fb.Dataset(plain, storage_options={})
    assert repr(dataset) == f"<forebay.Dataset {str(plain)!r}: 1,000 rows, 3 files>"
    secret = "https://ann:hunter2@example.org/data/a.parquet?X-Amz-Signature=cafe"
    dataset._storage_options = {"aws_secret_access_key": "s3cr3t"}
    with fb.Loader(dataset) as loader:
        for urls in (secret, [secret, str(plain)]):
            dataset._urls = urls
            for shown in (repr(dataset), str(dataset), repr(loader), f"{dataset}"):
                assert not any(word in shown for word in ("hunter2", "cafe", "s3cr3t"))
                assert "example.org/data/a.parquet" in shown


def test_what_is_not_a_location_is_refused_as_a_loader_refuses_it(tmp_path: Path) -> None:
    with pytest.raises(fb.InvalidError, match="urls must be"):
        fb.Dataset(3)  # type: ignore[arg-type]
    with pytest.raises(fb.NotFoundError):
        fb.Dataset(tmp_path / "nothing")
    with pytest.raises(fb.InvalidError, match="UTF-8"):
        fb.Dataset(os.fsdecode(b"caf\xe9.parquet"))


def test_what_is_open_already_is_not_opened_again(plain: Path) -> None:
    dataset = fb.Dataset(plain)
    with fb.Loader(dataset) as loader:
        for door, given, says in (
            (fb.Dataset, dataset, r"got a forebay\.Dataset \(it is open already: use it as it is, or pass it to"),
            (fb.Dataset, [dataset], r"urls\[0\] must be a str or a path, got Dataset \(to read several .* locations"),
            (fb.Loader, [dataset, dataset], r"urls\[0\] must be a str or a path, got Dataset"),
            (fb.Loader, loader, r"got a forebay\.Loader \(iterate over it"),
            (fb.Loader, dataset.sample(1), r"got a forebay\.Batch \(it is in memory already"),
        ):
            with pytest.raises(fb.InvalidError, match=says):
                door(given)  # type: ignore[arg-type]


def test_a_loader_says_its_rows_columns_and_batch_size(plain: Path) -> None:
    def double(batch: dict[str, object]) -> dict[str, object]:
        return {"doubled": batch["id"], "again": batch["id"]}

    arguments = {"columns": ["f32", "id"], "filter": [("id", "<", 500)], "transform": double, "batch_size": 50}
    with fb.Loader(plain, **arguments, shard=fb.Shard(rank=1, world=2)) as loader:  # type: ignore[arg-type]
        assert (loader.num_rows, loader.columns, loader.batch_size, len(loader)) == (500, ["f32", "id"], 50, 5)
        assert loader.plan().to_dict()["rows"] == 250
    with fb.Loader(plain) as loader:
        assert (loader.num_rows, loader.batch_size) == (ROWS, 32)
