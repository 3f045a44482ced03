"""make_reader: the rows of data sets with a Petastorm schema."""

from __future__ import annotations

import copy
import decimal
import functools
import itertools
import pickle
import subprocess
import sys
import types
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import forebay as fb
from forebay.petastorm import TransformSpec, make_reader
from forebay.petastorm._spark_types import SparkType
from forebay.petastorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
from forebay.petastorm.predicates import (
    PredicateBase,
    in_intersection,
    in_lambda,
    in_negate,
    in_pseudorandom_split,
    in_reduce,
    in_set,
)
from forebay.petastorm.unischema import Unischema, UnischemaField

Kinds = Unischema(
    "Kinds",
    [
        UnischemaField("id", np.int64, (), ScalarCodec("LongType"), False),
        UnischemaField("small", np.uint8, (), ScalarCodec("ShortType"), False),
        UnischemaField("maybe", np.int32, (), ScalarCodec("IntegerType"), True),
        UnischemaField("plain", np.float32, (), None, False),
        UnischemaField("name", np.str_, (), ScalarCodec("StringType"), True),
        UnischemaField("flag", np.bool_, (), ScalarCodec("BooleanType"), False),
        UnischemaField("price", decimal.Decimal, (), ScalarCodec(SparkType("DecimalType", 10, 2)), False),
        UnischemaField("matrix", np.float32, (2, 3), NdarrayCodec(), False),
        UnischemaField("rare", np.uint16, (2, 3), CompressedNdarrayCodec(), True),
        UnischemaField("open", np.int16, (None, 2), NdarrayCodec(), True),
        UnischemaField("packed", np.float64, (None,), CompressedNdarrayCodec(), False),
        UnischemaField("words", np.str_, (None,), NdarrayCodec(), True),
        UnischemaField("bytes", np.bytes_, (None,), NdarrayCodec(), False),
        UnischemaField("image", np.uint8, (6, 5, 3), CompressedImageCodec("png"), False),
        UnischemaField("grey", np.uint16, (6, 5), CompressedImageCodec("png"), True),
        UnischemaField("any_size", np.uint8, (None, None, 3), CompressedImageCodec("png"), False),
        UnischemaField("any_grey", np.uint16, (None, None), CompressedImageCodec("png"), True),
        UnischemaField("photo", np.uint8, (16, 24, 3), CompressedImageCodec("jpeg", 90), False),
    ],
)


def kinds(number: int) -> dict:
    """Returns a row with fields of all kinds. Its values depend only on its number."""
    rng = np.random.default_rng(number)
    some = number % 3
    return {
        "id": number,
        "small": np.uint8(250 + number % 6),
        "maybe": np.int32(number) if some else None,
        "plain": np.float32(number / 7),
        "name": f"row {number}" if some else None,
        "flag": bool(number % 2),
        "price": decimal.Decimal(number) / 100,
        "matrix": rng.random((2, 3), np.float32) if number % 2 else np.asfortranarray(rng.random((2, 3), np.float32)),
        "rare": rng.integers(0, 1 << 16, (2, 3), np.uint16) if some else None,
        "open": rng.integers(-9, 9, (number % 4, 2), np.int16) if some else None,
        "packed": rng.random(number % 5),
        "words": np.array(["", "ä", "word" * number][: 1 + some]) if some else None,
        "bytes": np.array([b"a", b"bc"][:some], "S2"),
        "image": rng.integers(0, 256, (6, 5, 3), np.uint8),
        "grey": rng.integers(0, 1 << 16, (6, 5), np.uint16) if some else None,
        "any_size": rng.integers(0, 256, (2 + some, 3, 3), np.uint8),
        "any_grey": rng.integers(0, 1 << 16, (2 + some, 3), np.uint16) if some else None,
        "photo": np.full((16, 24, 3), number, np.uint8),
    }


@pytest.fixture(scope="module")
def kinds_url(tmp_path_factory):
    """30 rows of all kinds, in 2 files of row groups of 7 rows."""
    url = f"file://{tmp_path_factory.mktemp('kinds')}/data"
    assert fb.petastorm.write(map(kinds, range(30)), Kinds, url, row_group_rows=7, file_rows=20) == 30
    return url


Small = Unischema(
    "Small",
    [
        UnischemaField("id", np.int64, (), ScalarCodec("LongType"), False),
        UnischemaField("label", np.int32, (), ScalarCodec("IntegerType"), True),
        UnischemaField("text", np.str_, (), ScalarCodec("StringType"), False),
    ],
)


@pytest.fixture(scope="module")
def small_url(tmp_path_factory):
    """200 rows of numbers and text, in 3 files of row groups of 10 rows."""
    url = f"file://{tmp_path_factory.mktemp('small')}/data"
    rows = ({"id": i, "label": i % 7 if i % 5 else None, "text": f"t{i % 4}"} for i in range(200))
    fb.petastorm.write(rows, Small, url, row_group_rows=10, file_rows=75)
    return url


def ids(url, **options):
    with make_reader(url, **options) as reader:
        return [int(row.id) for row in reader]


def test_values_of_every_codec_come_back(kinds_url):
    with make_reader(kinds_url, shuffle_row_groups=False) as reader:
        rows = list(reader)
    assert [row.id for row in rows] == list(range(30))
    for row in rows:
        expected = kinds(int(row.id))
        for name, field in Kinds.fields.items():
            value = getattr(row, name)
            if expected[name] is None:
                assert value is None, name
            elif name == "photo":
                assert value.shape == (16, 24, 3) and abs(value.astype(int) - int(row.id)).max() <= 2
            elif isinstance(field.codec, ScalarCodec) or field.codec is None:
                assert type(value) is field.numpy_dtype and value == expected[name], name
            else:
                assert value.dtype == expected[name].dtype and value.shape == expected[name].shape, name
                np.testing.assert_array_equal(value, expected[name], name)


def test_a_row_is_a_named_tuple_of_the_schema(small_url):
    with make_reader(small_url, shuffle_row_groups=False) as reader:
        row = next(reader)
        assert row._fields == ("id", "label", "text") and row == (0, None, "t0")
        assert isinstance(reader, fb.petastorm.reader.Reader) and not reader.batched_output
        assert list(reader.schema.fields) == ["id", "label", "text"]
        assert type(row) is type(reader.schema.make_namedtuple(id=1, label=2, text=""))


@pytest.mark.parametrize(
    ("schema_fields", "names"),
    [
        (["id"], ["id"]),
        (["i.*", "text"], ["id", "text"]),
        ([Small.text, Small.id], ["text", "id"]),
        ([Small.text, "id"], ["text", "id"]),
    ],
)
def test_fields_are_chosen_by_name_pattern_and_value(small_url, schema_fields, names):
    with make_reader(small_url, schema_fields=schema_fields) as reader:
        assert next(reader)._fields == tuple(names)


def test_fields_that_do_not_exist_are_refused(small_url):
    with pytest.raises(RuntimeError, match="No fields matching"):
        make_reader(small_url, schema_fields=["nothing"])
    with pytest.raises(ValueError, match="does not belong"):
        make_reader(small_url, schema_fields=[UnischemaField("nothing", np.int8, ())])


def test_row_groups_come_in_random_order_and_their_rows_as_stored(small_url):
    found = ids(small_url, seed=5)
    assert sorted(found) == list(range(200)) and found != list(range(200))
    runs = np.split(np.array(found), np.flatnonzero(np.diff(found) != 1) + 1)
    # The 200 rows are in 21 row groups, in files of 75, 75 and 50 rows. A run is longer than a row group if two
    # neighbours follow one another.
    assert 12 < len(runs) <= 21 and all(run[0] % 75 % 10 == 0 for run in runs)


def test_rows_of_a_row_group_come_in_random_order_on_request(small_url):
    found = ids(small_url, seed=5, shuffle_row_groups=False, shuffle_rows=True)
    assert found != list(range(200))
    cut = [*range(0, 75, 10), *range(75, 150, 10), *range(150, 200, 10), 200]
    for low, high in itertools.pairwise(cut):
        assert sorted(found[low:high]) == list(range(low, high))
    both = ids(small_url, seed=5, shuffle_rows=True)
    assert sorted(both) == list(range(200)) and (np.diff(both) != 1).sum() > 100


@pytest.mark.parametrize("options", [{}, {"shuffle_rows": True}, {"shuffle_rows": True, "shuffle_row_groups": False}])
def test_a_seed_decides_the_order(small_url, options):
    assert ids(small_url, seed=3, **options) == ids(small_url, seed=3, **options) != ids(small_url, seed=4, **options)
    assert ids(small_url, **options) != ids(small_url, **options)


def test_pieces_of_row_groups_are_shuffled(small_url):
    found = ids(small_url, seed=1, shuffle_row_drop_partitions=5)
    assert sorted(found) == list(range(200)) and (np.diff(found) != 1).sum() > 60


def test_epochs_follow_one_another_each_in_its_own_order(small_url):
    found = ids(small_url, seed=1, num_epochs=3)
    epochs = [found[at : at + 200] for at in (0, 200, 400)]
    assert all(sorted(epoch) == list(range(200)) for epoch in epochs) and epochs[0] != epochs[1] != epochs[2]


def test_epochs_without_a_number_never_end(small_url):
    with make_reader(small_url, num_epochs=None) as reader:
        counted = Counter(int(next(reader).id) for _ in range(1000))
    assert set(counted.values()) == {5}


def test_a_reader_is_reset_after_its_last_row_only(small_url):
    with make_reader(small_url, seed=1) as reader:
        next(reader)
        with pytest.raises(NotImplementedError, match="after its last row"):
            reader.reset()
        assert len(list(reader)) == 199 and reader.last_row_consumed
        assert list(reader) == []
        reader.reset()
        assert not reader.last_row_consumed and len(list(reader)) == 200
        assert reader.diagnostics["output_queue_size"] >= 0 and "stages" in reader.diagnostics


def test_threads_share_a_reader(small_url):
    with make_reader(small_url) as reader, ThreadPoolExecutor(8) as threads:
        rows = list(threads.map(lambda _: next(reader), range(200)))
    assert sorted(int(row.id) for row in rows) == list(range(200))


def test_a_reader_that_was_stopped_gives_nothing(small_url):
    with make_reader(small_url) as reader:
        next(reader)
    with pytest.raises(RuntimeError, match="has stopped"):
        next(reader)
    with pytest.raises(NotImplementedError, match="that was stopped cannot be reset"):
        reader.reset()


def test_a_reader_stays_in_its_process(small_url):
    with make_reader(small_url) as reader:
        for take in (pickle.dumps, copy.copy):
            with pytest.raises(TypeError, match="make one in each process"):
                take(reader)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers_count": -1}, "workers_count must be an int of at least 0, got -1"),
        ({"seed": -1}, "seed must be an int of at least 0, got -1"),
        ({"seed": "a"}, "seed must be an int of at least 0, got 'a'"),
        ({"schema_fields": "id"}, "schema_fields must be None, or a list"),
        ({"schema_fields": ["("]}, "is not a regular expression"),
    ],
)
def test_an_argument_that_makes_no_sense_is_named(small_url, options, message):
    with pytest.raises(ValueError, match=message):
        make_reader(small_url, **options)


def test_a_function_that_returns_no_row_is_named(small_url):
    reader = make_reader(small_url, transform_spec=TransformSpec(lambda row: None), reader_pool_type="dummy")
    with reader, pytest.raises(TypeError, match="the function of the TransformSpec must return a dict, got NoneType"):
        next(reader)


@pytest.mark.parametrize("world", [1, 2, 3, 7, 50])
def test_shards_have_each_row_once_and_differ_by_one_row(small_url, world):
    shares = [ids(small_url, cur_shard=rank, shard_count=world) for rank in range(world)]
    assert sorted(sum(shares, [])) == list(range(200))
    assert max(map(len, shares)) - min(map(len, shares)) <= 1
    assert shares == [ids(small_url, cur_shard=rank, shard_count=world) for rank in range(world)]


def test_shards_are_equal_on_request(small_url):
    shares = [ids(small_url, cur_shard=rank, shard_count=7, shards="equal") for rank in range(7)]
    assert {len(share) for share in shares} == {29} and set(sum(shares, [])) == set(range(200))
    # Equal shares of 5 rows over 2 ranks repeat one row, also if all rows are in one row group.
    few = {"predicate": in_set(range(5), "id"), "shard_count": 2, "shards": "equal"}
    assert [len(ids(small_url, cur_shard=rank, **few)) for rank in range(2)] == [3, 3]


def test_row_groups_are_shuffled_in_about_as_many_pieces_as_asked_for():
    from forebay.petastorm._order import _piece

    assert [_piece(10, pieces) for pieces in (2, 3, 5, 8, 10, 99)] == [5, 4, 2, 1, 1, 1]


def test_more_shards_than_rows_are_an_error_before_anything_is_read(small_url):
    said = "1000 shards need as many rows, and there are 200 .Number of row-groups in the dataset: 21"
    with pytest.raises(fb.petastorm.NoDataAvailableError, match=said):
        make_reader(small_url, cur_shard=0, shard_count=1000)
    with pytest.raises(fb.petastorm.NoDataAvailableError, match="need as many row groups, and there are 21"):
        make_reader(small_url, cur_shard=0, shard_count=50, shards="row_groups")


def test_diagnostics_count_what_was_taken(small_url):
    with make_reader(small_url) as reader:
        assert reader.diagnostics["items_consumed"] == reader.diagnostics["output_queue_size"] == 0
        next(reader)
        assert reader.diagnostics["items_consumed"] == 1 and not reader.diagnostics["zmq_copy_buffers"]


@pytest.mark.parametrize("shards", ["rows", "equal"])
def test_a_shard_without_a_row_is_an_error(small_url, shards):
    options = {"predicate": in_set(range(3), "id"), "shards": shards}
    assert len(ids(small_url, cur_shard=0, shard_count=3, **options)) == 1
    with pytest.raises(fb.petastorm.NoDataAvailableError, match="4 shards need as many rows, and there are 3"):
        ids(small_url, cur_shard=0, shard_count=4, **options)


def test_shards_are_whole_row_groups_on_request(small_url):
    shares = [ids(small_url, cur_shard=rank, shard_count=3, shards="row_groups") for rank in range(3)]
    assert sorted(sum(shares, [])) == list(range(200))
    # Each rank gets every third row group, counted through all files.
    begins = [*range(0, 75, 10), *range(75, 150, 10), *range(150, 200, 10)]
    ends = [*begins[1:], 200]
    for rank, share in enumerate(shares):
        expected = [row for low, high in zip(begins[rank::3], ends[rank::3]) for row in range(low, high)]
        assert sorted(share) == expected
    with pytest.raises(fb.petastorm.NoDataAvailableError, match="50 shards need as many row groups"):
        ids(small_url, cur_shard=0, shard_count=50, shards="row_groups")


@pytest.mark.parametrize("shard", [{"cur_shard": 0}, {"shard_count": 2}, {"cur_shard": "0", "shard_count": 2}])
def test_a_shard_needs_its_number_and_their_count(small_url, shard):
    with pytest.raises(ValueError, match="must both be ints"):
        make_reader(small_url, **shard)


class Odd(PredicateBase):
    def get_fields(self):
        return {"id"}

    def do_include(self, values):
        return values["id"] % 2 == 1


LABELS = {i: i % 7 if i % 5 else None for i in range(200)}


@pytest.mark.parametrize(
    ("predicate", "included"),
    [
        (in_set([1, 3, 199, 1000], "id"), lambda i: i in (1, 3, 199)),
        (in_set(["t1", "t2"], "text"), lambda i: i % 4 in (1, 2)),
        (in_set([2, None], "label"), lambda i: LABELS[i] in (2, None)),
        (in_negate(in_set([2], "label")), lambda i: LABELS[i] != 2),
        (in_reduce([in_set([2], "label"), in_set(["t1"], "text")], all), lambda i: LABELS[i] == 2 and i % 4 == 1),
        (in_reduce([in_set([2], "label"), in_set(["t1"], "text")], any), lambda i: LABELS[i] == 2 or i % 4 == 1),
        (
            in_negate(in_reduce([in_set([2], "label"), in_set(["t1"], "text")], any)),
            lambda i: not (LABELS[i] == 2 or i % 4 == 1),
        ),
        (in_reduce([in_set([2], "label"), Odd()], lambda found: sum(found) == 1), lambda i: (LABELS[i] == 2) != i % 2),
        (in_lambda(["id", "text"], lambda i, text: i > 150 and text == "t0"), lambda i: i > 150 and i % 4 == 0),
        (in_lambda(["id"], lambda i, least: i > least, 190), lambda i: i > 190),
        (Odd(), lambda i: i % 2 == 1),
    ],
)
@pytest.mark.parametrize("fields", [None, ["id"]])
def test_predicates_select_the_rows_for_which_they_hold(small_url, predicate, included, fields):
    found = ids(small_url, predicate=predicate, schema_fields=fields)
    assert sorted(found) == [i for i in range(200) if included(i)]


def test_a_predicate_sees_decoded_values(kinds_url):
    assert sorted(ids(kinds_url, predicate=in_intersection([b"bc"], "bytes"))) == list(range(2, 30, 3))
    assert sorted(ids(kinds_url, predicate=in_lambda(["open"], lambda open: open is None))) == list(range(0, 30, 3))


def test_parts_of_a_split_are_disjoint_and_complete(small_url):
    fractions = [0.5, 0.2, 0.3]
    parts = [ids(small_url, predicate=in_pseudorandom_split(fractions, at, "id")) for at in range(3)]
    assert sorted(sum(parts, [])) == list(range(200)) and [len(part) for part in parts] == [109, 37, 54]


def test_shards_share_what_a_predicate_selects(small_url):
    shares = [ids(small_url, predicate=Odd(), cur_shard=rank, shard_count=3) for rank in range(3)]
    assert sorted(sum(shares, [])) == list(range(1, 200, 2)) and {len(share) for share in shares} <= {33, 34}


def test_no_row_at_all_is_a_warning(small_url):
    for predicate in (in_set([1000], "id"), in_lambda(["id"], lambda i: False)):
        with pytest.warns(UserWarning, match="No matching data"):
            assert ids(small_url, predicate=predicate) == []


@pytest.mark.parametrize(
    ("predicate", "message"), [(in_set([1], "nothing"), "not valid schema names"), (lambda row: True, "PredicateBase")]
)
def test_a_predicate_of_other_fields_or_classes_is_refused(small_url, predicate, message):
    with pytest.raises(ValueError, match=message):
        ids(small_url, predicate=predicate)


def test_filters_select_rows(small_url):
    assert ids(small_url, filters=[("id", "<", 20), ("text", "=", "t1")], shuffle_row_groups=False) == [1, 5, 9, 13, 17]


def double(row):
    row["id"] = row["id"] * 2
    row["length"] = len(row["text"])
    return row


EDITS = [("id", np.int64, (), False), ("length", np.int32, (), False)]


@pytest.mark.parametrize("pool", ["dummy", "thread", "process"])
def test_a_function_makes_other_rows(small_url, pool):
    spec = TransformSpec(double, edit_fields=EDITS, removed_fields=["text"])
    with make_reader(
        small_url, transform_spec=spec, shuffle_row_groups=False, reader_pool_type=pool, workers_count=2
    ) as reader:
        rows = list(reader)
    assert rows[0]._fields == ("label", "id", "length")
    assert [row.id for row in rows] == list(range(0, 400, 2)) and {row.length for row in rows} == {2}


def test_a_function_that_cannot_be_pickled_runs_in_threads(small_url, caplog):
    spec = TransformSpec(lambda row: {**row, "id": -row["id"]})
    with make_reader(small_url, transform_spec=spec, reader_pool_type="process", workers_count=1) as reader:
        assert sum(row.id for row in reader) == -sum(range(200))
    assert "runs in threads" in caplog.text


def test_a_function_that_other_processes_cannot_import_runs_in_threads(small_url, caplog, monkeypatch):
    module = types.ModuleType("module_of_a_notebook")
    exec("def negated(row):\n    return {**row, 'id': -row['id']}", vars(module))
    monkeypatch.setitem(sys.modules, module.__name__, module)
    for function in (module.negated, functools.partial(module.negated)):
        caplog.clear()
        spec = TransformSpec(function)
        with make_reader(small_url, transform_spec=spec, reader_pool_type="process", workers_count=1) as reader:
            assert sum(row.id for row in reader) == -sum(range(200))
        assert "cannot import its module, module_of_a_notebook (define it at the top level" in caplog.text


def test_a_function_of_a_program_that_is_no_file_runs_in_threads(small_url):
    program = f"""
from forebay.petastorm import TransformSpec, make_reader

def negated(row):
    return {{**row, "id": -row["id"]}}

spec = TransformSpec(negated)
with make_reader({small_url!r}, transform_spec=spec, reader_pool_type="process", workers_count=1) as reader:
    print(sum(row.id for row in reader))
"""
    run = subprocess.run([sys.executable, "-"], input=program, capture_output=True, text=True)
    assert (run.returncode, run.stdout) == (0, f"{-sum(range(200))}\n"), run.stderr
    assert "runs in threads" in run.stderr


def test_fields_are_selected_and_removed_without_a_function(small_url):
    with make_reader(small_url, transform_spec=TransformSpec(selected_fields=["text", "id"])) as reader:
        assert next(reader)._fields == ("text", "id")
    with make_reader(small_url, transform_spec=TransformSpec(removed_fields=["text", "id"])) as reader:
        assert next(reader)._fields == ("label",)


def test_a_function_may_return_arrays_of_any_shape(small_url):
    spec = TransformSpec(
        lambda row: {"x": np.zeros(int(row["id"]) % 3)},
        edit_fields=[("x", np.float64, (None,), False)],
        removed_fields=["id", "label", "text"],
    )
    with make_reader(small_url, transform_spec=spec, shuffle_row_groups=False) as reader:
        assert [len(row.x) for row in reader] == [i % 3 for i in range(200)]


def test_a_function_that_returns_other_fields_is_an_error(small_url):
    with make_reader(small_url, transform_spec=TransformSpec(double)) as reader:
        with pytest.raises(TypeError, match="not in its edit_fields: length"):
            next(reader)
    with make_reader(small_url, transform_spec=TransformSpec(lambda row: {})) as reader:
        with pytest.raises(TypeError, match="did not return the fields id"):
            next(reader)


def test_a_folder_of_a_cache_is_used_and_never_removed(small_url, tmp_path):
    (tmp_path / "mine.txt").write_text("mine")
    options = {"cache_type": "local-disk", "cache_location": str(tmp_path), "cache_size_limit": 10 << 20}
    assert sorted(ids(small_url, **options)) == list(range(200)) == sorted(ids(small_url, **options))
    assert (tmp_path / "mine.txt").read_text() == "mine" and len(list(tmp_path.iterdir())) > 1


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"cache_type": "mars"}, ValueError, "Unknown cache_type"),
        ({"cache_type": "local-disk"}, ValueError, "cache_size_limit"),
        ({"reader_pool_type": "mars"}, ValueError, "Unknown reader_pool_type"),
        ({"num_epochs": 0}, ValueError, "num_epochs must be"),
        ({"rowgroup_selector": object()}, ValueError, "derived from RowGroupSelectorBase"),
        ({"shards": "halves"}, ValueError, "shards must be one of"),
        ({"schema_fields": 3}, ValueError, "schema_fields must be"),
        ({"shuffle_row_drop_partitions": 0}, ValueError, "at least 1"),
    ],
)
def test_arguments_are_checked_by_name(small_url, options, error, message):
    with pytest.raises(error, match=message):
        make_reader(small_url, **options)


@pytest.mark.parametrize(
    ("url", "message"),
    [("/data", "scheme-less"), ([], "non-empty"), (["file:///a", "s3://b/a"], "same scheme"), (3, "must be a str")],
)
def test_urls_are_checked(url, message):
    with pytest.raises(ValueError, match=message):
        make_reader(url)


def test_an_image_of_another_size_than_its_field_is_an_error(tmp_path):
    written = Unischema("Any", [UnischemaField("image", np.uint8, (None, None, 3), CompressedImageCodec("png"), False)])
    url = f"file://{tmp_path}/data"
    fb.petastorm.write([{"image": np.zeros((4, 5, 3), np.uint8)}], written, url)
    with make_reader(url) as reader:
        assert next(reader).image.shape == (4, 5, 3)
    fixed = Unischema("Fixed", [UnischemaField("image", np.uint8, (8, 5, 3), CompressedImageCodec("png"), False)])
    (tmp_path / "data" / "_common_metadata").unlink()
    from forebay.petastorm._files import file_system, write_metadata

    write_metadata(*file_system(url), fixed)
    with make_reader(url) as reader:
        with pytest.raises(fb.petastorm.errors.DecodeFieldError, match="4 x 5 pixels"):
            next(reader)
