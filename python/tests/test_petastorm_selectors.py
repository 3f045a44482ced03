"""An index of the data set selects row groups. It is built here, and is read without unpickling."""

from __future__ import annotations

import decimal
import os
import pickle
import random
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import forebay as fb
from forebay.petastorm import make_batch_reader, make_reader
from forebay.petastorm._pickled_index import PlainIndex, pickled, read
from forebay.petastorm.codecs import NdarrayCodec, ScalarCodec
from forebay.petastorm.errors import NoDataAvailableError, PetastormMetadataError
from forebay.petastorm.etl import RowGroupIndexerBase
from forebay.petastorm.etl.dataset_metadata import ROW_GROUPS_PER_FILE_KEY
from forebay.petastorm.etl.rowgroup_indexers import FieldNotNullIndexer, SingleFieldIndexer
from forebay.petastorm.etl.rowgroup_indexing import (
    ROWGROUPS_INDEX_KEY,
    build_rowgroup_index,
    get_row_group_indexes,
)
from forebay.petastorm.selectors import (
    IntersectIndexSelector,
    RowGroupSelectorBase,
    SingleIndexSelector,
    UnionIndexSelector,
)
from forebay.petastorm.unischema import Unischema, UnischemaField

LEGACY = Path(os.environ.get("FOREBAY_TEST_DATA", "nowhere")) / "petastorm-legacy"
OLD = [folder.name for folder in sorted(LEGACY.iterdir())] if LEGACY.is_dir() else []

Indexed = Unischema(
    "Indexed",
    [
        UnischemaField("id", np.int64, (), ScalarCodec("LongType"), False),
        UnischemaField("name", np.str_, (), ScalarCodec("StringType"), True),
        UnischemaField("words", np.str_, (None,), NdarrayCodec(), True),
        UnischemaField("day", np.str_, (), ScalarCodec("StringType"), False),
    ],
)


def row(number):
    return {
        "id": number,
        "name": None if number < 20 else f"name {number % 7}",
        "words": None if number % 5 == 0 else np.array([f"w{number}", f"w{number + 1}"]),
        "day": f"d_{number // 40}",
    }


INDEXES = [("id", "id"), ("by name", "name"), ("words", "words"), ("day", "day")]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    """A data set of 100 rows in row groups of 10, in folders of days, with indexes."""
    url = f"file://{tmp_path_factory.mktemp('indexed')}/data"
    fb.petastorm.write(map(row, range(100)), Indexed, url, partition_columns=["day"], row_group_rows=10)
    build(url)
    return url


def build(url):
    indexers = [SingleFieldIndexer(*one) for one in INDEXES]
    build_rowgroup_index(url, None, [*indexers, FieldNotNullIndexer("has name", "name")])


def ids(url, selector, **options):
    with make_reader(url, rowgroup_selector=selector, **options) as reader:
        return sorted(int(one.id) for one in reader)


def tens(*numbers):
    return [10 * number + at for number in numbers for at in range(10)]


@pytest.mark.parametrize(
    ("selector", "groups"),
    [
        (SingleIndexSelector("id", [2, 18]), (0, 1)),
        (SingleIndexSelector("id", [np.int64(99), 1000]), (9,)),
        (SingleIndexSelector("words", ["w10"]), (0,)),
        (SingleIndexSelector("words", ["w12"]), (1,)),
        (SingleIndexSelector("day", ["d_1"]), (4, 5, 6, 7)),
        (SingleIndexSelector("has name", [None]), (2, 3, 4, 5, 6, 7, 8, 9)),
        (IntersectIndexSelector([SingleIndexSelector("day", ["d_0"]), SingleIndexSelector("id", [5, 55])]), (0,)),
        (UnionIndexSelector([SingleIndexSelector("day", ["d_2"]), SingleIndexSelector("id", [5])]), (0, 8, 9)),
        (UnionIndexSelector([SingleIndexSelector("by name", [""]), SingleIndexSelector("id", [31])]), (3,)),
    ],
)
def test_row_groups_with_a_value_are_read_whole(url, selector, groups):
    assert ids(url, selector) == tens(*groups)
    with pytest.warns(UserWarning, match="as they are stored"):
        reader = make_batch_reader(url, rowgroup_selector=selector, shuffle_row_groups=False)
    with reader:
        assert [batch.id.tolist() for batch in reader] == [tens(group) for group in groups]


def test_a_selection_goes_with_predicates_filters_and_epochs(url):
    selector = SingleIndexSelector("day", ["d_0"])
    assert ids(url, selector, filters=[("id", ">", 37)]) == [38, 39]
    predicate = fb.petastorm.predicates.in_lambda(["id"], lambda id: id % 10 == 3)
    assert ids(url, selector, predicate=predicate) == [3, 13, 23, 33]
    assert ids(url, selector, num_epochs=2) == sorted(2 * tens(0, 1, 2, 3))


@pytest.mark.parametrize("shards", ["rows", "row_groups"])
def test_what_is_selected_is_shared_out(url, shards):
    selector = SingleIndexSelector("day", ["d_1"])
    parts = [ids(url, selector, shards=shards, cur_shard=at, shard_count=2) for at in range(2)]
    assert sorted(parts[0] + parts[1]) == tens(4, 5, 6, 7) and [len(part) for part in parts] == [20, 20]
    if shards == "row_groups":
        assert parts[0] == tens(4, 6)
        with pytest.raises(NoDataAvailableError, match="5 shards need as many row groups, and there are 4"):
            ids(url, selector, shards=shards, cur_shard=0, shard_count=5)


def test_nothing_selected_is_no_row(url):
    with pytest.warns(UserWarning, match="no row is selected"):
        assert ids(url, SingleIndexSelector("id", [-1])) == []


def test_a_selector_of_a_users_own_sees_the_indexes(url):
    class Least(RowGroupSelectorBase):
        def get_index_names(self):
            return ["id"]

        def select_row_groups(self, index_dict):
            index = index_dict["id"]
            return index.get_row_group_indexes(min(index.indexed_values))

    assert ids(url, Least()) == tens(0)


def test_indexes_are_read_and_stored_in_the_place_of_earlier_ones(tmp_path):
    url = f"file://{tmp_path}/data"
    fb.petastorm.write(map(row, range(30)), Indexed, url, row_group_rows=10)
    before = pq.read_schema(tmp_path / "data/_common_metadata").metadata
    build(url)
    after = pq.read_schema(tmp_path / "data/_common_metadata").metadata
    assert {name: value for name, value in after.items() if name != ROWGROUPS_INDEX_KEY} == before
    found = get_row_group_indexes(url)
    assert list(found) == [*(name for name, _ in INDEXES), "has name"]
    assert found["id"].indexed_values == list(range(30)) and found["id"].get_row_group_indexes(12) == {1}
    assert found["has name"].get_row_group_indexes() == {2} and found["words"].get_row_group_indexes("none") == set()
    assert found["by name"].column_names == ["name"] and found["by name"].index_name == "by name"
    build_rowgroup_index(url, None, [FieldNotNullIndexer("words", "words")])
    assert list(get_row_group_indexes(fb.Dataset(tmp_path / "data"))) == ["words"]


def test_what_cannot_be_selected_is_refused_with_its_reason(url, tmp_path):
    bare, selector = f"file://{tmp_path}/bare", SingleIndexSelector("id", [1])
    fb.petastorm.write(map(row, range(30)), Indexed, bare, row_group_rows=10)
    for urls, given, message in [
        (url, object(), "derived from RowGroupSelectorBase"),
        (url, SingleIndexSelector("day", ["d_0"]), None),
        (url, SingleIndexSelector("name", ["a"]), r"there is no index name \(there are by name, day"),
        ([url, bare], selector, "needs the URL of one data set, got 2"),
        ([url], selector, None),
        (bare, selector, "there is no index of row groups .build_rowgroup_index makes one"),
    ]:
        if message is None:
            make_reader(urls, rowgroup_selector=given).stop()
            continue
        with pytest.raises(ValueError, match=message):
            make_reader(urls, rowgroup_selector=given)
    with pytest.raises(ValueError, match="UnionIndexSelector needs a selector"):
        UnionIndexSelector([])


def test_an_index_of_other_files_is_refused(tmp_path):
    url = f"file://{tmp_path}/data"
    fb.petastorm.write(map(row, range(50)), Indexed, url, row_group_rows=10, file_rows=30)
    build(url)
    (tmp_path / "data" / sorted(path.name for path in (tmp_path / "data").glob("*.parquet"))[1]).unlink()
    with pytest.raises(PetastormMetadataError, match="2 files with 5 row groups were written, and there are 1 with 3"):
        ids(url, SingleIndexSelector("id", [45]))


def test_an_index_does_not_hold_for_files_that_were_added(tmp_path):
    url = f"file://{tmp_path}/data"
    fb.petastorm.write(map(row, range(50)), Indexed, url, row_group_rows=10)
    build(url)
    fb.petastorm.write(map(row, range(100, 110)), Indexed, f"file://{tmp_path}/other", row_group_rows=10)
    shutil.copy(next((tmp_path / "other").glob("*.parquet")), tmp_path / "data" / "a.parquet")
    with pytest.raises(PetastormMetadataError, match="1 files with 5 row groups were written, and there are 2 with 6"):
        ids(url, SingleIndexSelector("id", [45]))
    files = tmp_path / "data" / "_common_metadata"
    schema = pq.read_schema(files)
    pq.write_metadata(schema.with_metadata({**schema.metadata, ROW_GROUPS_PER_FILE_KEY: b"{"}), files)
    with pytest.raises(PetastormMetadataError, match="row groups in its files cannot be read"):
        ids(url, SingleIndexSelector("id", [45]))


def test_what_cannot_be_indexed_is_refused(url, tmp_path):
    class Mine(RowGroupIndexerBase):
        index_name, column_names, indexed_values = "mine", ("id",), ()

        def get_row_group_indexes(self, value_key):
            return set()

        def build_index(self, decoded_rows, piece_index):
            return None

        def __add__(self, other):
            return self

    with pytest.raises(ValueError, match="of the class .*Mine cannot be stored"):
        build_rowgroup_index(url, None, [Mine()])
    with pytest.raises(ValueError, match="two indexes have the name 'a'"):
        build_rowgroup_index(url, None, [SingleFieldIndexer("a", "id"), SingleFieldIndexer("a", "name")])
    with pytest.raises(ValueError, match="there is no index to build"):
        build_rowgroup_index(url, None, [])
    with pytest.raises(ValueError, match="there are no fields nothing"):
        build_rowgroup_index(url, None, [SingleFieldIndexer("a", "nothing")])
    pq.write_table(pq.read_table(tmp_path.parent / url.removeprefix("file://")).select(["id"]), tmp_path / "a.parquet")
    with pytest.raises(PetastormMetadataError, match="there is no _common_metadata"):
        build_rowgroup_index(f"file://{tmp_path}", None, [SingleFieldIndexer("id", "id")])


def test_indexes_of_one_field_are_added():
    one, other = SingleFieldIndexer("a", "a"), SingleFieldIndexer("a", "a")
    one.build_index([{"a": 1}, {"a": None}], 0)
    other.build_index([{"a": 1}, {"a": np.array([[2, 3]])}], 1)
    assert (one + other).get_row_group_indexes(1) == {0, 1} and one.get_row_group_indexes(3) == {1}
    there, also = FieldNotNullIndexer("b", "a"), FieldNotNullIndexer("b", "a")
    there.build_index([{"a": None}], 0)
    also.build_index([{"a": None}, {"a": 0}], 1)
    assert (there + also).get_row_group_indexes() == {1}
    with pytest.raises(TypeError, match="cannot be added to FieldNotNullIndexer"):
        one + there
    with pytest.raises(ValueError, match="of the fields"):
        one + SingleFieldIndexer("a", "b")


def test_every_kind_of_value_comes_back_from_a_pickle():
    values = [0, -1, 2**40, 2**70, 1.5, True, "text", "", b"bytes", decimal.Decimal("1.50")]
    data = {value: {at, 70_000} for at, value in enumerate(values)}
    plain = [PlainIndex("SingleFieldIndexer", "one", "a", data), PlainIndex("FieldNotNullIndexer", "two", "b", {3})]
    assert read(pickled(plain)) == plain


@pytest.mark.parametrize("version", OLD)
def test_indexes_of_old_versions_are_read(version):
    url = f"file://{LEGACY / version}"
    found = get_row_group_indexes(url)
    assert sorted(found["id"].indexed_values) == list(range(100))
    groups = {next(iter(found["id"].get_row_group_indexes(number))) for number in (2, 18)}
    chosen = [number for number in range(100) if found["id"].get_row_group_indexes(number) <= groups]
    assert ids(url, SingleIndexSelector("id", [2, 18])) == chosen and {2, 18} <= set(chosen)
    word = found["string_array_nullable"].indexed_values[0]
    groups = found["string_array_nullable"].get_row_group_indexes(word)
    chosen = [number for number in range(100) if found["id"].get_row_group_indexes(number) <= groups]
    assert ids(url, SingleIndexSelector("string_array_nullable", [word])) == chosen != []


class Call:
    """An object whose pickle calls a function when it is loaded."""

    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


OPCODES = b"\x80\x02}X\x01\x00\x00\x00a"


@pytest.mark.parametrize(
    "stored",
    [
        pickle.dumps({"a": Call(exec, "raise SystemExit(3)")}),
        pickle.dumps({"a": Call(eval, "1 / 0")}, 2),
        pickle.dumps({"a": Call(os.system, "touch /tmp/forebay-was-here")}),
        pickle.dumps({"a": Call(getattr, Call(getattr, "", "__class__"), "__base__")}, 4),
        pickle.dumps({"a": np.array([object()])}),
        pickle.dumps({"a": SingleFieldIndexer("a", "a")}),
        pickle.dumps({"a": Call(pickle.loads, b"")}),
        OPCODES + b"cnumpy\ndtype\nX\x01\x00\x00\x00O\x85Rs.",
        OPCODES + b"cnumpy.testing._private.utils\nrunstring\n(X\x01\x00\x00\x00a}tRs.",
        OPCODES + b"cpetastorm.etl.rowgroup_indexers\nsys\n)\x81s.",
        OPCODES + b"\x8b\x00\x00\x00\x7fs.",
        OPCODES + b"\x8d\x00\x00\x00\x00\x00\x01\x00\x00s.",
        OPCODES + b"(" * 100_000 + b"t" * 100_000 + b"s.",
        OPCODES + b"cbuiltins\nset\n](" + b"K\x01" * 1000 + b"e\x85q\x00R" + b"0" * 8 + b"s.",
        OPCODES + b"Q.",
        b"\x80\x02}.\x00"[:3],
        b"",
        b"\x80\x02N.",
    ],
)
def test_nothing_of_a_foreign_pickle_is_named_or_called(stored):
    with pytest.raises(ValueError):
        read(stored)


def test_a_value_that_is_named_again_and_again_is_an_error():
    long = b"c__builtin__\nset\nq\x00](" + b"K\x01" * 5000 + b"e\x85q\x01R"
    stored = b"\x80\x02" + long + b"h\x00h\x01R" * 5000 + b"."
    with pytest.raises(ValueError, match="too often"):
        read(stored)


@pytest.mark.filterwarnings("ignore:invalid escape")
def test_a_damaged_index_is_an_error_or_an_index(url):
    metadata = pq.read_schema(Path(url.removeprefix("file://")) / "_common_metadata").metadata
    stored, draws = metadata[ROWGROUPS_INDEX_KEY], random.Random(0)
    errors = 0
    for _ in range(2000):
        mutant = bytearray(stored)
        for _ in range(draws.randint(1, 4)):
            mutant[draws.randrange(len(mutant))] = draws.randrange(256)
        try:
            read(bytes(mutant[: draws.choice([len(mutant), draws.randrange(len(mutant))])]))
        except ValueError:
            errors += 1
    assert errors > 1000


def test_a_damaged_index_is_named_with_its_data_set(url, tmp_path):
    from forebay.petastorm._files import file_system, write_metadata_value

    url = f"file://{tmp_path}/data"
    fb.petastorm.write(map(row, range(10)), Indexed, url)
    write_metadata_value(*file_system(url), ROWGROUPS_INDEX_KEY, b"\x80\x02cos\nsystem\n.")
    with pytest.raises(PetastormMetadataError, match="/data: the index of row groups cannot be read: it names os.system"):
        make_reader(url, rowgroup_selector=SingleIndexSelector("id", [1]))
