"""The same rows, fields, types and shapes as Petastorm itself, value by value.

``FOREBAY_PETASTORM_PYTHON`` names an interpreter with Petastorm 0.13.1. Without it the tests are skipped.
"""

from __future__ import annotations

import decimal
import json
import os
import pickle
import subprocess
from pathlib import Path

import numpy as np
import pytest
from test_petastorm_loader import check as check_value
from test_petastorm_loader import of_all
from test_petastorm_rows import Kinds, kinds

import forebay as fb
from forebay.petastorm import make_batch_reader, make_reader
from forebay.petastorm.etl.rowgroup_indexers import SingleFieldIndexer
from forebay.petastorm.etl.rowgroup_indexing import build_rowgroup_index
from forebay.petastorm.predicates import in_pseudorandom_split
from forebay.petastorm.selectors import SingleIndexSelector
from forebay.petastorm.unischema import Unischema, UnischemaField, type_name

PYTHON = os.environ.get("FOREBAY_PETASTORM_PYTHON")
SCRIPT = Path(__file__).parent / "petastorm_original.py"
LEGACY = Path(os.environ.get("FOREBAY_TEST_DATA", "nowhere")) / "petastorm-legacy"

pytestmark = [
    pytest.mark.skipif(PYTHON is None, reason="FOREBAY_PETASTORM_PYTHON names no interpreter with Petastorm"),
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

#: The names that types have in another version of numpy.
NAMES = {"bool_": "bool", "string_": "bytes_", "unicode_": "str_"}


@pytest.fixture(scope="module")
def original(tmp_path_factory):
    """Calls functions of ``petastorm_original.py`` with Petastorm's interpreter."""
    out = tmp_path_factory.mktemp("original") / "out.pickle"

    def call(*calls):
        run = subprocess.run([PYTHON, SCRIPT, out], input=json.dumps(calls), capture_output=True, text=True)
        assert run.returncode == 0, run.stderr
        gave = pickle.loads(out.read_bytes())
        for one in gave:
            assert not isinstance(one, str), one
        return gave

    return call


@pytest.fixture(scope="module")
def written(original, tmp_path_factory):
    folder = tmp_path_factory.mktemp("written") / "data"
    folder.mkdir()
    original(["write", {"folder": str(folder), "count": 30}])
    return f"file://{folder}"


def check_schema(schema, fields):
    """Checks that the fields of two schemas are the same."""
    found = [
        (one.name, type_name(one.numpy_dtype), tuple(one.shape), bool(one.nullable)) for one in schema.fields.values()
    ]
    assert found == [(name, NAMES.get(kind, kind), tuple(shape), nullable) for name, kind, shape, nullable in fields]


def check(found, expected, name):
    """Checks that two values agree in type, shape and content."""
    if expected is None:
        assert found is None, name
        return
    assert found is not None, name
    if isinstance(expected, np.ndarray):
        assert isinstance(found, np.ndarray), name
        if found.dtype.kind == expected.dtype.kind == "M":
            # Old versions of pandas have only nanoseconds.
            expected = expected.astype(found.dtype)
        if found.dtype.kind == expected.dtype.kind == "U" and "None" in found:
            # pandas 3 turns a null into the text "nan".
            expected = np.where(expected == "nan", "None", expected)
            found = found.astype(expected.dtype)
        assert (found.dtype, found.shape) == (expected.dtype, expected.shape), name
        if found.dtype == object:
            for one, other in zip(found.flat, expected.flat, strict=True):
                assert type(one) is type(other) or one == other, name
                assert one == other, name
        else:
            np.testing.assert_array_equal(found, expected, name)
        return
    assert type(found).__name__ == type(expected).__name__, name
    if isinstance(expected, np.datetime64):
        assert found.dtype == expected.dtype, name
    if isinstance(expected, decimal.Decimal):
        assert found.as_tuple() == expected.as_tuple(), name
    assert found == expected or (found != found and expected != expected), name


def check_rows(url, gave, **options):
    expected, fields = gave
    with make_reader(url, shuffle_row_groups=False, **options) as reader:
        check_schema(reader.schema, fields)
        rows = [row._asdict() for row in reader]
    assert len(rows) == len(expected) > 0
    values = 0
    for row, other in zip(rows, expected, strict=True):
        assert list(row) == list(other)
        for name in row:
            check(row[name], other[name], name)
            values += 1
    return values


def check_loader(url, gave, **options):
    """Compares the values of ``fb.Loader`` itself, which returns text as objects."""
    expected, fields = gave
    as_stored = [name for name, value in options.get("decode", {}).items() if value is None]
    text = ("Decimal", "str_", "bytes_")
    masked = [
        name for name, kind, shape, nullable in fields if nullable and (shape or NAMES.get(kind, kind) not in text)
    ]
    batch = of_all(url, null_mask=[name for name in masked if name not in as_stored], **options)
    rows = {int(row["id"]): row for row in expected}
    values = 0
    for at, number in enumerate(batch["id"].tolist()):
        for name, value in rows.pop(number).items():
            if name in as_stored:
                continue
            is_there = batch[f"{name}.mask"][at] if name in masked else batch[name][at] is not None
            if not is_there:
                # Petastorm returns a null among floats as NaN.
                assert value is None or value != value, name
            else:
                check_value(batch, name, at, value)
            values += 1
    assert not rows
    return values


def check_batches(url, gave, keys=None, **options):
    expected, fields = gave
    with make_batch_reader(url, shuffle_row_groups=False, **options) as reader:
        check_schema(reader.schema, fields)
        batches = [batch._asdict() for batch in reader]
    assert len(batches) == len(expected) > 0
    values = 0
    for batch, other in zip(batches, expected, strict=True):
        assert list(batch) == list(other)
        for name in batch:
            # Petastorm delivers keys of folders as categories, and its threads may mix up the values of a key.
            if keys and name in keys:
                assert batch[name].tolist() == [keys[name](int(one)) for one in batch["id"]], name
            else:
                check(batch[name], other[name], name)
            values += len(batch[name])
    return values


OLD = [folder.name for folder in sorted(LEGACY.iterdir())] if LEGACY.is_dir() else []


@pytest.mark.parametrize("version", OLD)
def test_rows_and_batches_of_old_versions_are_the_same(original, version):
    url = f"file://{LEGACY / version}"
    rows, batches = both(original, url)
    assert check_rows(url, rows) == 100 * len(rows[1])
    assert check_loader(url, rows) == 100 * len(rows[1])
    assert check_batches(url, batches, keys={"partition_key": lambda id: f"p_{id // 10}"}) == 100 * len(batches[1])


def both(original, url):
    """Returns the rows and the batches that Petastorm's two readers deliver for a data set."""
    return original(*([kind, {"url": url, "shuffle_row_groups": False}] for kind in ("rows", "batches")))


def check_all(url, rows, batches):
    """Compares the rows, the batches and a loader over a data set that Petastorm wrote."""
    keys = {"part": lambda id: f"p {id % 2}", "number": lambda id: 7 + id % 2}
    for row in rows[0]:
        # Petastorm numbers the keys of folders on several threads and may mix up their values, so the right ones
        # are computed here.
        row.update({name: type(row[name])(value(int(row["id"]))) for name, value in keys.items()})
    assert check_rows(url, rows) == 30 * 36
    assert check_loader(url, rows, decode={"times": None}) == 30 * 35
    assert check_batches(url, batches, keys=keys) == 30 * 36


def test_rows_and_batches_of_every_codec_are_the_same(original, written):
    check_all(written, *both(original, written))


#: How versions before 0.8 pickled a schema.
PICKLES = {
    "0.4.3 on Python 2": {"protocol": 0, "restored": True},
    "0.6.0 on Python 3": {"protocol": 3, "restored": True},
    "0.7.6 on Python 2": {"protocol": 0, "restored": False},
    "0.7.6 on Python 3": {"protocol": 3, "restored": False},
}


@pytest.mark.parametrize("version", PICKLES)
def test_rows_and_batches_of_schemas_as_old_versions_pickled_them_are_the_same(original, version, tmp_path):
    original(["write", {"folder": str(tmp_path), "count": 30, "old": PICKLES[version]}])
    url = f"file://{tmp_path}"
    check_all(url, *both(original, url))


@pytest.mark.parametrize("fields", [["id"], ["p.*", "id"], ["any_.*"], ["part", "text"]])
def test_views_are_the_same(original, written, fields):
    (rows,) = original(["rows", {"url": written, "shuffle_row_groups": False, "schema_fields": fields}])
    with make_reader(written, shuffle_row_groups=False, schema_fields=fields) as reader:
        found = [row._asdict() for row in reader]
    for row, other in zip(found, rows[0], strict=True):
        assert sorted(row) == sorted(other)
        for name in row:
            check(row[name], other[name], name)


@pytest.mark.parametrize("field", ["id", "text", "part"])
def test_parts_of_a_split_are_the_same(original, written, field):
    fractions = [0.3, 0.3, 0.4]
    parts = original(
        *(["split", {"url": written, "fractions": fractions, "index": at, "field": field}] for at in range(3))
    )
    for at, part in enumerate(parts):
        with make_reader(written, predicate=in_pseudorandom_split(fractions, at, field)) as reader:
            assert sorted(str(getattr(row, field)) for row in reader) == part
    assert sum(map(len, parts)) == 30


def selections(original, url, asked):
    """Returns the ids that both packages give for each index and its values, and checks that they agree."""
    gave = original(*(["selected", {"url": url, "index": index, "values": values}] for index, values in asked))
    for (index, values), there in zip(asked, gave, strict=True):
        with make_reader(url, rowgroup_selector=SingleIndexSelector(index, values)) as reader:
            assert sorted(int(row.id) for row in reader) == there, (index, values)
    return gave


@pytest.mark.parametrize("version", OLD)
def test_row_groups_of_old_versions_are_selected_alike(original, version):
    asked = [("id", [2, 18]), ("sensor_name", ["test_sensor"]), ("string_array_nullable", ["7", "98"])]
    gave = selections(original, f"file://{LEGACY / version}", asked)
    assert 2 in gave[0] and len(gave[0]) < len(gave[1]) == 100


def test_petastorm_selects_row_groups_by_an_index_that_is_built_here(original, tmp_path):
    url = f"file://{tmp_path}/data"
    fb.petastorm.write(map(kinds, range(30)), Kinds, url, row_group_rows=4, file_rows=20)
    build_rowgroup_index(url, None, [SingleFieldIndexer("id", "id"), SingleFieldIndexer("by words", "words")])
    words = [str(kinds(28)["words"][0])]
    gave = selections(original, url, [("id", [3, 29]), ("by words", words)])
    assert gave[0] == [0, 1, 2, 3, 28, 29] and 28 in gave[1]


def test_batches_of_any_parquet_are_the_same(original, tmp_path):
    url = f"file://{tmp_path}"
    original(["plain", {"folder": str(tmp_path)}])
    (batches,) = original(["batches", {"url": url, "shuffle_row_groups": False}])
    assert check_batches(url, batches) == 20 * 18


def test_petastorm_reads_what_is_written_here(original, tmp_path):
    url = f"file://{tmp_path}/data"
    fb.petastorm.write(map(kinds, range(30)), Kinds, url, row_group_rows=7, file_rows=20)
    (rows,) = original(["rows", {"url": url, "shuffle_row_groups": False}])
    check_schema(Kinds, rows[1])
    assert len(rows[0]) == 30
    for row in rows[0]:
        expected = kinds(int(row["id"]))
        for name, value in row.items():
            if name == "price":
                assert value == expected[name]
            elif name == "photo":
                assert abs(value.astype(int) - expected[name]).max() <= 2
            elif isinstance(value, np.ndarray):
                check(value, expected[name], name)
            else:
                assert value == expected[name], name
    assert check_rows(url, rows) == 30 * len(Kinds.fields)


def test_petastorm_reads_folders_that_are_written_here(original, tmp_path):
    url = f"file://{tmp_path}/data"
    fields = [Kinds.id, Kinds.matrix, UnischemaField("day", np.int32, (), None, False)]
    schema = Unischema("Days", [*fields, UnischemaField("who", np.str_, (), None, False)])
    rows = [{"id": i, "matrix": kinds(i)["matrix"], "day": i % 3, "who": f"p {i % 2}"} for i in range(30)]
    fb.petastorm.write(rows, schema, url, partition_columns=["day", "who"], row_group_rows=3)
    (gave,) = original(["rows", {"url": url, "shuffle_row_groups": False}])
    found = {int(row["id"]): row for row in gave[0]}
    assert sorted(found) == list(range(30))
    for row in rows:
        for name, value in row.items():
            assert (found[row["id"]][name] == value).all() if name == "matrix" else found[row["id"]][name] == value
    with make_reader(url) as reader:
        here = {int(row.id): row._asdict() for row in reader}
    for number, row in found.items():
        for name, value in row.items():
            check(here[number][name], value, name)
