"""The data sets that a run logs to MLflow.

MLflow is imported by this interpreter, or by the one that FOREBAY_MLFLOW_PYTHON names.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE

import forebay as fb

LOGS = """
import json, os, sys
import mlflow
import forebay as fb
folder = sys.argv[1]
mlflow.set_tracking_uri("file:" + os.path.join(folder, "runs"))
def logged(*datasets):
    with mlflow.start_run() as run:
        for dataset in datasets:
            mlflow.log_input(dataset, context="training")
    return mlflow.get_run(run.info.run_id).inputs.dataset_inputs
table, plain = os.path.join(folder, "table"), os.path.join(folder, "plain")
loader = fb.Loader(table, version=0, columns=["id"], filter=[("id", "<", 3)], batch_size=2)
mix = fb.Mix([(table, 1), (fb.Loader(plain), 1)], batch_size=2)
said = {}
for name, data in {"loader": loader, "mix": mix, "dataset": fb.Dataset(plain)}.items():
    said[name] = []
    for one in logged(*fb.mlflow.datasets(data, name="named" if name == "mix" else None)):
        source = mlflow.data.get_source(one)
        again = source.load()
        said[name].append({
            "name": one.dataset.name, "digest": one.dataset.digest, "type": one.dataset.source_type,
            "profile": json.loads(one.dataset.profile), "schema": json.loads(one.dataset.schema)["mlflow_colspec"],
            "locations": source.locations, "versions": source.versions, "fingerprint": again.fingerprint,
            "version": again.version, "rows": again.num_rows,
        })
    said[name].sort(key=lambda one: one["name"])
source = logged(*fb.mlflow.datasets(fb.Dataset(plain)))[0]
os.rename(os.path.join(plain, "a.parquet"), os.path.join(plain, "b.parquet"))
try:
    mlflow.data.get_source(source).load()
except fb.StateMismatchError as error:
    said["changed"] = str(error)
try:
    fb.mlflow.datasets("plain")
except fb.InvalidError as error:
    said["refused"] = str(error)
print(json.dumps(said))
"""


def interpreter() -> str:
    named = os.environ.get("FOREBAY_MLFLOW_PYTHON")
    if named is None and find_spec("mlflow") is None:
        pytest.skip("MLflow is not installed, and FOREBAY_MLFLOW_PYTHON names no Python with it")
    return named or sys.executable


def test_a_run_logs_its_data_sets_with_the_versions_of_tables(tmp_path: Path) -> None:
    python = interpreter()
    table = tmp_path / "table"
    (table / "_delta_log").mkdir(parents=True)
    protocol = {"protocol": {"minReaderVersion": 1, "minWriterVersion": 2}}
    columns = {"type": "struct", "fields": [{"name": "id", "type": "long", "nullable": True, "metadata": {}}]}
    metadata = {"id": "t", "format": {"provider": "parquet", "options": {}}, "schemaString": json.dumps(columns)}
    first: list[dict[str, Any]] = [protocol, {"metaData": {**metadata, "partitionColumns": [], "configuration": {}}}]
    for version in range(2):
        pq.write_table(pa.table({"id": range(5)}), table / f"{version}.parquet")
        size = (table / f"{version}.parquet").stat().st_size
        add = {"path": f"{version}.parquet", "partitionValues": {}, "size": size, "modificationTime": 1}
        actions = [*([] if version else first), {"add": {**add, "dataChange": True}}]
        text = "".join(json.dumps(action) + "\n" for action in actions)
        (table / "_delta_log" / f"{version:020}.json").write_text(text)
    plain = tmp_path / "plain"
    plain.mkdir()
    of_plain = pa.table(
        {"id": [1, 2], "text": ["a", "b"], "vector": pa.array([[1.0, 2.0]] * 2, pa.list_(pa.float32(), 2))}
    )
    pq.write_table(of_plain, plain / "a.parquet")
    environ = {**os.environ, "PYTHONPATH": str(Path(fb.__file__).parents[1]), "MLFLOW_ALLOW_FILE_STORE": "true"}
    words = [python, "-c", LOGS, str(tmp_path)]
    done = subprocess.run(words, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr[-3_000:]
    said = json.loads(done.stdout.strip().splitlines()[-1])

    (loader,) = said["loader"]
    fingerprint = fb.Dataset(table, version=0).fingerprint
    assert (loader["name"], loader["digest"], loader["type"]) == ("table", fingerprint, "forebay")
    assert (loader["locations"], loader["versions"]) == ([str(table)], {str(table): 0})
    assert (loader["fingerprint"], loader["version"], loader["rows"]) == (fingerprint, 0, 5)
    counts = {"num_rows": 5, "num_files": 1, "selected_rows": 3, "version": 0}
    assert loader["profile"] == {**counts, "fingerprint": fingerprint}
    assert loader["schema"] == [{"type": "long", "name": "id", "required": False}]

    of_table, of_folder = said["mix"]
    assert (of_table["name"], of_folder["name"]) == ("named-0", "named-1")
    assert (of_table["version"], of_table["rows"]) == (1, 10)
    assert (of_folder["versions"], of_folder["version"]) == ({}, None)

    (dataset,) = said["dataset"]
    assert dataset["digest"] == dataset["fingerprint"] == of_folder["fingerprint"]
    kinds = {column["name"]: column["type"] for column in dataset["schema"]}
    assert kinds == {"id": "long", "text": "string", "vector": "array"}
    assert "has other files than when it was logged" in said["changed"]
    assert "data must be a forebay.Loader, Mix or Dataset, got str" in said["refused"]
