"""Splits and configurations of folders that are laid out like data sets of the Hugging Face hub, on the local disk and
from a hub, and the names of classes in their metadata."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import warnings
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from servers import hub

import forebay as fb

CLASSES = ["airplane", "automobile", "bird"]

CARD = """---
license: mit
dataset_info:
  config_name: plain_text
configs:
- config_name: plain_text
  data_files:
  - split: train
    path: plain_text/train-*
  - split: test
    path: plain_text/test-*
  default: true
- config_name: small
  data_files:
  - split: train
    path: [small/a.parquet, "small/more/*.parquet"]
---
# A data set
"""

FILES = {
    "plain_text/train-00000-of-00002.parquet": [0, 1],
    "plain_text/train-00001-of-00002.parquet": [2],
    "plain_text/test-00000-of-00001.parquet": [3, 4],
    "small/a.parquet": [5],
    "small/more/b.parquet": [6],
    "small/c.parquet": [7],
}


def write(folder: Path, files: dict[str, list[int]], card: str | None = None) -> Path:
    label = {"_type": "ClassLabel", "names": CLASSES}
    features = {
        "id": {"dtype": "int64", "_type": "Value"},
        "label": label,
        "labels": {"_type": "List", "feature": label},
        "objects": {"category": [label], "area": {"dtype": "int64", "_type": "Value"}},
    }
    metadata = {"huggingface": json.dumps({"info": {"features": features}})}
    for name, ids in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        columns = {
            "id": ids,
            "label": [n % 3 for n in ids],
            "labels": [[n % 3] for n in ids],
            "objects": [{"category": [n % 3], "area": n} for n in ids],
        }
        pq.write_table(pa.table(columns).replace_schema_metadata(metadata), path)
    if card is not None:
        (folder / "README.md").write_text(card)
    return folder


def ids(urls: Any, **options: Any) -> list[int]:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with fb.Loader(urls, columns=["id"], **options) as loader:
            return [number for batch in loader for number in batch["id"].tolist()]


def test_the_card_lists_the_files_of_each_split(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", FILES, CARD)
    assert ids(folder, split="train") == [0, 1, 2]
    assert ids(folder, split="test", config="plain_text") == [3, 4]
    assert ids(folder, split="train", config="small") == [5, 6]
    with pytest.warns(RuntimeWarning, match=r"several splits: train \(2\), test \(1\)\."):
        assert fb.Dataset(folder, config="plain_text").num_rows == 5
    dataset = fb.Dataset(folder, split="train")
    assert dataset.num_files == 2
    again = pickle.loads(pickle.dumps(dataset))
    assert again.num_files == 2 and again.fingerprint == dataset.fingerprint
    with fb.Loader(folder, split="test") as loader, pickle.loads(pickle.dumps(loader)) as copy:
        assert copy.num_rows == 2 and "split='test'" in repr(loader)
    with fb.Mix([(fb.Loader(folder, split=of, columns=["id"]), 1) for of in ("train", "test")]) as mix:
        assert sorted(next(iter(mix))["id"].tolist()) == [0, 1, 3, 4]
        with pickle.loads(pickle.dumps(mix)) as copy:
            assert len(copy) == len(mix)
    refused: list[tuple[dict[str, Any], str]] = [
        ({"split": "dev"}, r'README.md: .*no split "dev" \(the splits are train, test\)'),
        ({"split": "train", "config": "large"}, r'no configuration "large" \(it has plain_text, small\)'),
        ({"split": "train[:10%]"}, "split must be the name of one split.*row_fraction"),
        ({"split": "train+test"}, "split must be the name of one split"),
        ({"config": 3}, "config must be a name such as 'default', got 3"),
    ]
    for options, said in refused:
        with pytest.raises(fb.InvalidError, match=said):
            fb.Loader(folder, **options)
    for location in (
        folder / "plain_text" / "*.parquet",
        [folder / "plain_text", folder / "small"],
        folder / "small" / "a.parquet",
    ):
        with pytest.raises(fb.InvalidError, match="choose among the files of (one|a) folder"):
            fb.Loader(location, split="train")
    with pytest.raises(fb.InvalidError, match="split and a Dataset were given"):
        fb.Loader(dataset, split="train")


def test_without_a_card_the_names_of_files_and_folders_show_the_split(tmp_path: Path) -> None:
    sharded = {"data/train-00000-of-00001.parquet": [0], "data/extra-00000-of-00001-a8f.parquet": [1]}
    folder = write(tmp_path / "sharded", sharded)
    assert ids(folder, split="train") == [0] and ids(folder, split="extra") == [1]
    folders = write(tmp_path / "folders", {"train/a.parquet": [0], "dev/a.parquet": [1], "dev/train.parquet": [2]})
    assert ids(folders, split="validation") == [1, 2] and ids(folders, split="train") == [0]
    words = write(
        tmp_path / "words", {"my_train_1.parquet": [0], "my_test.parquet": [1], "latest.parquet": [2]}, "# Hi"
    )
    assert ids(words, split="train") == [0] and ids(words, split="test") == [1]
    plain = write(tmp_path / "plain", {"a.parquet": [0], "b.parquet": [1]}, "---\nlicense: mit\n---\n")
    assert ids(plain, split="train") == [0, 1]
    with pytest.raises(fb.InvalidError, match='show no split "test" .*by a glob'):
        fb.Loader(plain, split="test")
    converted = write(
        tmp_path / "converted",
        {"de/train/0000.parquet": [0], "en/train/0000.parquet": [1], "en/partial-test/0000.parquet": [2]},
    )
    assert ids(converted, split="train", config="en") == [1] and ids(converted, split="test", config="en") == [2]
    with pytest.raises(fb.InvalidError, match=r'split "train" are in several folders: de, en \(choose one .*config'):
        fb.Loader(converted, split="train")
    with pytest.raises(fb.InvalidError, match=r"and no such folder \(the folders with Parquet files are de, en\)"):
        fb.Loader(converted, split="train", config="fr")
    # All files together cause a warning, which says how to read one split.
    with pytest.warns(RuntimeWarning, match=r'to read one split, pass split, such as "train", or name its files'):
        fb.Dataset(words)


def test_a_card_that_cannot_be_used_is_an_error_with_its_place(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", {"train.parquet": [0]}, "---\nconfigs: [\n---\n")
    with pytest.raises(fb.InvalidError, match=r"README.md: .*YAML .* is malformed.*by a glob"):
        fb.Loader(folder, split="train")
    (folder / "README.md").write_text(CARD)
    with pytest.raises(
        fb.NotFoundError, match=r"README.md: the card lists plain_text/train-\*, which is no Parquet file"
    ):
        fb.Loader(folder, split="train")
    os.remove(folder / "README.md")
    assert ids(folder, split="train") == [0]


def test_a_data_set_of_the_hub_is_read_by_its_split_and_its_state_resumes_locally(tmp_path: Path) -> None:
    folder = write(tmp_path / "shelf", FILES, CARD)
    shuffle = fb.Shuffle(seed=3, lanes=1)
    with hub.serve(folder, tmp_path / "hub") as store:
        options: dict[str, Any] = {"split": "train", "shuffle": shuffle, "batch_size": 1}
        with fb.Loader(store.root, storage_options={**store.options, "allow_http": "true"}, **options) as there:
            under_way = iter(there)
            first = next(under_way)["id"].tolist()
            state = there.state_dict()
            rest = [batch["id"].tolist() for batch in under_way]
            assert there.class_names["label"] == CLASSES
    with fb.Loader(folder, **options) as here:
        here.load_state_dict(state)
        assert [batch["id"].tolist() for batch in here] == rest
    assert sorted([*first, *(number for batch in rest for number in batch)]) == [0, 1, 2]


def test_the_names_of_classes_are_those_of_the_metadata(tmp_path: Path) -> None:
    folder = write(tmp_path / "data", {"a.parquet": [0, 1, 2]})
    dataset = fb.Dataset(folder)
    assert dataset.class_names == {"label": CLASSES, "labels": CLASSES, "objects.category": CLASSES}
    with fb.Loader(dataset, columns=["label", "id"], rename={"label": "target"}) as loader:
        assert loader.class_names == {"target": CLASSES}
        batch = next(iter(loader))
        assert [loader.class_names["target"][code] for code in batch["target"]] == CLASSES
    with fb.Mix([(fb.Loader(folder, columns=["label"]), 1)]) as mix:
        assert mix.class_names == {"label": CLASSES}
    for metadata in ({}, {"huggingface": "["}, {"huggingface": '{"info": {"features": [1]}}'}):
        other = tmp_path / "other.parquet"
        pq.write_table(pa.table({"x": [1]}).replace_schema_metadata(metadata), other)
        assert fb.Dataset(other).class_names == {}
    shutil.rmtree(folder)


def test_files_with_other_names_for_a_class_are_refused_with_both_files(tmp_path: Path) -> None:
    folder = tmp_path / "data"

    def add(name: str, rows: int = 2, **names: list[str]) -> None:
        features = {column: {"_type": "ClassLabel", "names": of} for column, of in names.items()}
        metadata = {"huggingface": json.dumps({"info": {"features": features}})}
        folder.mkdir(exist_ok=True)
        table = pa.table({"label": [0, 1], "kind": [0, 0]}).replace_schema_metadata(metadata)
        pq.write_table(table[:rows], folder / f"{name}.parquet")

    add("a", label=["cat", "dog"], kind=["x"])
    add("b", label=["cat", "dog", "owl"])
    # A file without rows has no row of a class.
    add("0", rows=0, label=["owl", "dog"])
    assert fb.Dataset(folder).class_names == {"label": ["cat", "dog", "owl"], "kind": ["x"]}
    add("c", label=["dog", "cat"], kind=["x"])
    dataset = fb.Dataset(folder)
    said = (
        r'c.parquet, column "label": class 0 is "dog", and "cat" in .*b.parquet .*write them with the same ClassLabel'
    )
    with pytest.raises(fb.InvalidError, match=said):
        dataset.class_names  # noqa: B018
    with fb.Loader(dataset, columns=["label"]) as loader, pytest.raises(fb.InvalidError, match=said):
        loader.class_names  # noqa: B018
    with fb.Loader(dataset, columns=["kind"]) as loader:
        assert loader.class_names == {"kind": ["x"]}
    with fb.Loader(dataset, columns=["label"], rename={"label": "target"}) as loader:
        with pytest.raises(fb.InvalidError, match=said):
            loader.class_names  # noqa: B018


def test_a_card_may_have_aliases_beside_its_configurations(tmp_path: Path) -> None:
    card = "---\ntags: &tags [a]\nkeywords: *tags\n" + CARD.removeprefix("---\n")
    folder = write(tmp_path / "data", FILES, card)
    assert ids(folder, split="test") == [3, 4]
    (folder / "README.md").write_text("---\nconfigs:\n- config_name: x\n  data_files: []\n---\n")
    with pytest.raises(fb.InvalidError, match='configuration "x" of the card lists no file of split "train"'):
        fb.Loader(folder, split="train")
    (folder / "README.md").write_text("---\na: &a []\nconfigs: *a\n---\n")
    with pytest.raises(fb.InvalidError, match='its "configs" have an alias'):
        fb.Loader(folder, split="train")
