"""Many columns as one matrix."""

from __future__ import annotations

import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 300
ORDERED = fb.Shuffle(seed=3)


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """A table with 40 columns of float32, two of other types, and row numbers, in several row groups."""
    folder = tmp_path_factory.mktemp("wide")
    numbers = np.arange(ROWS * 40, dtype="float32").reshape(ROWS, 40)
    columns = {f"I{at}": numbers[:, at] for at in range(40)}
    columns |= {"age": np.arange(ROWS, dtype="int16"), "flag": np.arange(ROWS) % 3 == 0, "id": np.arange(ROWS)}
    for part in range(2):
        rows = slice(part * ROWS // 2, (part + 1) * ROWS // 2)
        half = pa.table({name: values[rows] for name, values in columns.items()})
        pq.write_table(half, folder / f"{part}.parquet", row_group_size=40)
    return folder, columns


def matrix(columns, names, ids, dtype="float32"):
    return np.stack([columns[name][ids] for name in names], axis=1).astype(dtype)


def test_columns_are_one_matrix_in_the_order_of_the_list_and_the_schema(table):
    folder, columns = table
    loader = fb.Loader(
        folder, columns=["id"], stack={"x": fb.Stack(["I3", "I1*", "age"], dtype="float32")}, shuffle=ORDERED
    )
    names = ["I3", "I1", *(f"I{at}" for at in range(10, 20)), "age"]
    assert loader.columns == ["id", "x"]
    seen = []
    for batch in loader:
        assert batch["x"].dtype == np.float32 and batch["x"].flags["C_CONTIGUOUS"]
        assert np.array_equal(batch["x"], matrix(columns, names, batch["id"]))
        seen += batch["id"].tolist()
    assert sorted(seen) == list(range(ROWS))


def test_the_rest_is_delivered_as_it_is(table):
    folder, _ = table
    loader = fb.Loader(folder, stack={"x": fb.Stack(["I*"]), "a": fb.Stack(["flag"])})
    batch = next(iter(loader))
    assert loader.columns == ["age", "id", "a", "x"]
    assert (batch["x"].shape, batch["a"].shape, batch["a"].dtype) == ((32, 40), (32, 1), np.bool_)
    assert batch.to_arrow().schema.names == ["age", "id", "a", "x"]
    assert loader.spec["stack"] == {"x": {"columns": ["I*"]}, "a": {"columns": ["flag"]}}


def test_the_order_and_the_position_are_those_without_a_stack(table):
    folder, columns = table
    stack = {"x": fb.Stack(["I*"])}
    plain = [batch["id"].tolist() for batch in fb.Loader(folder, columns=["id"], shuffle=ORDERED)]
    loader = fb.Loader(folder, columns=["id"], stack=stack, shuffle=ORDERED)
    epoch = iter(loader)
    first = [next(epoch)["id"].tolist() for _ in range(3)]
    resumed = pickle.loads(pickle.dumps(fb.Loader(folder, columns=["id"], stack=stack, shuffle=ORDERED)))
    resumed.load_state_dict(loader.state_dict())
    rest = list(resumed)
    assert first + [batch["id"].tolist() for batch in rest] == plain
    for batch in rest:
        assert np.array_equal(batch["x"], matrix(columns, [f"I{at}" for at in range(40)], batch["id"]))


def test_a_cache_has_the_columns_as_they_are_stored(table, tmp_path):
    folder, columns = table
    cache = fb.DiskCache(tmp_path, max_bytes="100MB", tier="rows")
    options = {"columns": ["id"], "shuffle": ORDERED, "cache": cache}
    for dtype in ("float32", "float16", "float32"):
        loader = fb.Loader(folder, stack={"x": fb.Stack(["I[0-9]"], dtype=dtype)}, **options)
        for batch in loader:
            expected = matrix(columns, [f"I{at}" for at in range(10)], batch["id"], dtype)
            assert np.array_equal(batch["x"], expected)
        loader.close()


def test_windows_have_one_side_more(table):
    folder, columns = table
    loader = fb.Loader(folder, columns=["id"], stack={"x": fb.Stack(["I*"])}, samples=fb.Window(4), batch_size=8)
    batch = next(iter(loader))
    assert batch["x"].shape == (8, 4, 40)
    names = [f"I{at}" for at in range(40)]
    for window, ids in zip(batch["x"], batch["id"], strict=True):
        assert np.array_equal(window, matrix(columns, names, ids))


def test_sources_of_a_mix_have_stacks(table):
    folder, columns = table
    loaders = [fb.Loader(folder, columns=["id"], stack={"x": fb.Stack(["I1", "I2"])}) for _ in range(2)]
    for batch in fb.Mix([(loaders[0], 0.5), (loaders[1], 0.5)], batch_size=16):
        assert np.array_equal(batch["x"], matrix(columns, ["I1", "I2"], batch["id"]))


def test_frameworks_take_it_as_any_tensor(table):
    torch = pytest.importorskip("torch")
    folder, columns = table
    loader = fb.Loader(folder, columns=["id"], stack={"x": fb.Stack(["I*"])})
    batch = next(iter(fb.torch.batches(loader)))
    assert batch["x"].shape == (32, 40) and batch["x"].dtype == torch.float32
    assert np.array_equal(batch["x"].numpy(), matrix(columns, [f"I{at}" for at in range(40)], batch["id"].numpy()))


def test_rows_and_functions_see_it(table):
    folder, columns = table
    loader = fb.Loader(
        folder,
        columns=["id"],
        stack={"x": fb.Stack(["I1", "I2"])},
        transform_rows=lambda row: {"sum": row["x"].sum(), "id": row["id"]},
    )
    batch = next(iter(loader))
    assert np.array_equal(batch["sum"], matrix(columns, ["I1", "I2"], batch["id"]).sum(axis=1))


@pytest.fixture
def holes(tmp_path):
    path = tmp_path / "holes.parquet"
    pq.write_table(pa.table({"a": [1, 2, 3], "b": [1.5, None, 3.5], "c": ["x", "y", "x"]}), path)
    return path


def test_a_null_is_an_error_that_names_its_column(holes):
    loader = fb.Loader(holes, stack={"x": fb.Stack(["a", "b"], dtype="float32")})
    with pytest.raises(fb.BadRowError, match=r'row 1, column "b".*null where a value is stacked.*fill_null'):
        next(iter(loader))
    skipping = fb.Loader(holes, stack={"x": fb.Stack(["a", "b"], dtype="float32")}, on_bad_row=fb.Skip(at_most=1))
    assert next(iter(skipping))["x"].tolist() == [[1, 1.5], [3, 3.5]]


@pytest.mark.parametrize("name", ["x", "b", "[ab]"])
def test_a_value_or_a_mask_stands_for_nulls(holes, name):
    options = {"columns": [], "stack": {"x": fb.Stack(["a", "b"], dtype="float32")}}
    filled = next(iter(fb.Loader(holes, fill_null={name: -1}, **options)))
    assert filled["x"].tolist() == [[1, 1.5], [2, -1], [3, 3.5]]
    masked = next(iter(fb.Loader(holes, null_mask=[name], **options)))
    assert masked["x"].tolist() == [[1, 1.5], [2, 0], [3, 3.5]]
    assert masked["x.mask"].tolist() == [[True, True], [True, False], [True, True]]
    assert list(masked) == ["x", "x.mask"]


ALIKE = 50


@pytest.fixture
def alike(tmp_path):
    """A file with columns of one type in row groups of 30 rows, and their values by row and column."""
    values = np.arange(120 * ALIKE, dtype="int32").reshape(120, ALIKE)

    def write(changed=None, **options):
        cells = values.astype(object)
        for (row, column), value in (changed or {}).items():
            cells[row, column] = value
        columns = {f"c{at:02}": pa.array(list(cells[:, at]), pa.int32()) for at in range(ALIKE)}
        columns["id"] = np.arange(120)
        pq.write_table(pa.table(columns), tmp_path / "a.parquet", row_group_size=30, **options)
        return tmp_path / "a.parquet"

    return write, values


def rows_of(loader, name="x"):
    """Returns the rows of a matrix by their ids."""
    return {row: cells for batch in loader for row, cells in zip(batch["id"].tolist(), batch[name], strict=True)}


def test_a_null_among_many_columns_is_found_where_it_is(alike):
    write, values = alike
    path = write({(7, 3): None, (95, 41): None, (95, 44): None})
    options = {"columns": ["id"], "stack": {"x": fb.Stack(["c*"])}, "shuffle": ORDERED}
    with pytest.raises(fb.BadRowError, match=r'row group (0, row 7, column "c03"|3, row 5, column "c41").*null where'):
        list(fb.Loader(path, **options))
    skipping = fb.Loader(path, on_bad_row=fb.Skip(at_most=2), **options)
    found = rows_of(skipping)
    assert sorted(found) == [row for row in range(120) if row not in (7, 95)]
    assert all(np.array_equal(cells, values[row]) for row, cells in found.items())
    assert skipping.stats().to_dict()["skipped_rows"] == 2
    filled = rows_of(fb.Loader(path, fill_null={"x": 0, "c41": 9}, **options))
    assert (filled[7][3], filled[95][41], filled[95][44], filled[95][42]) == (0, 9, 0, values[95, 42])
    batches = list(fb.Loader(path, null_mask=["x"], **options))
    masks = np.concatenate([batch["x.mask"] for batch in batches])
    ids = np.concatenate([batch["id"] for batch in batches])
    assert sorted((int(ids[row]), int(column)) for row, column in np.argwhere(~masks)) == [(7, 3), (95, 41), (95, 44)]


def test_a_value_among_many_columns_that_does_not_fit_is_found_where_it_is(alike):
    write, values = alike
    path = write({(64, 49): 70_000})
    options = {"columns": ["id"], "stack": {"x": fb.Stack(["c*"], dtype="int16")}, "shuffle": ORDERED}
    with pytest.raises(fb.BadRowError, match=r'row group 2, row 4, column "c49".*70000 has no place in int16'):
        list(fb.Loader(path, **options))
    found = rows_of(fb.Loader(path, on_bad_row=fb.Skip(at_most=1), **options))
    assert sorted(found) == [row for row in range(120) if row != 64]
    assert all(np.array_equal(cells, values[row]) for row, cells in found.items())


def test_a_damaged_row_group_costs_its_rows_alone(alike):
    write, values = alike
    path = write(use_dictionary=False, compression="none")
    chunk = pq.ParquetFile(path).metadata.row_group(1).column(20)
    with open(path, "r+b") as file:
        file.seek(chunk.data_page_offset)
        file.write(bytes([0xFF] * 8))
    for shuffle in (None, ORDERED):
        skip = fb.Skip(at_most=30)
        loader = fb.Loader(path, columns=["id"], stack={"x": fb.Stack(["c*"])}, shuffle=shuffle, on_bad_row=skip)
        found = rows_of(loader)
        assert sorted(found) == [*range(30), *range(60, 120)]
        assert all(np.array_equal(cells, values[row]) for row, cells in found.items())


def test_codes_are_stacked(holes):
    loader = fb.Loader(holes, columns=["a"], encode={"c": fb.Vocabulary(["x", "y"])}, stack={"k": fb.Stack(["c"])})
    assert next(iter(loader))["k"].tolist() == [[0], [1], [0]]


def test_a_stack_has_its_type_whatever_other_options_make_of_its_columns(holes):
    codes = {"c": fb.Vocabulary(["x", "y"])}
    plain = fb.Loader(holes, columns=["a"], encode=codes, stack={"k": fb.Stack(["c"])})
    wide = fb.Loader(holes, columns=["a"], encode=codes, stack={"k": fb.Stack(["c", "a"], dtype="int64")})
    for narrow, both in zip(plain, wide, strict=True):
        assert both["k"].dtype == np.int64
        assert (both["k"][:, 0] == narrow["k"][:, 0]).all()
    cast = fb.Loader(holes, columns=["c"], stack={"x": fb.Stack(["a"], dtype="float32")}, cast={"a": "int32"})
    assert next(iter(cast))["x"].dtype == np.float32
    pq.write_table(pa.table({"a": [1, 200]}), holes)
    small = fb.Loader(holes, stack={"x": fb.Stack(["a"], dtype="int8")}, cast={"a": "int32"})
    with pytest.raises(fb.BadRowError, match=r'row 1, column "a".*200 has no place in int8'):
        next(iter(small))


def test_a_stack_has_stored_names_and_other_options_delivered_ones(holes):
    stack = {"x": fb.Stack(["a", "b"])}
    loader = fb.Loader(
        holes, columns=["c"], rename={"a": "one"}, stack=stack, cast={"one": "float64"}, fill_null={"b": 0}
    )
    batch = next(iter(loader))
    assert batch["x"].dtype == np.float64 and batch["x"].tolist() == [[1, 1.5], [2, 0], [3, 3.5]]


def test_values_that_do_not_fit_are_bad_rows(holes):
    loader = fb.Loader(holes, columns=["a"], stack={"x": fb.Stack(["b"], dtype="int8")}, fill_null={"x": 0})
    with pytest.raises(fb.BadRowError, match=r'row 0, column "b".*1\.5 has no place in int8'):
        next(iter(loader))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"stack": {"x": fb.Stack(["a", "b"])}}, r'"b".*holds float64, but "a" holds int64.*dtype'),
        ({"stack": {"x": fb.Stack(["c"])}}, r'"c".*is stacked in "x", but holds string'),
        ({"stack": {"x": fb.Stack(["z*"])}}, r"stack: no column that is read matches \"z\*\""),
        ({"stack": {"x": fb.Stack(["d"])}}, r'no column "d"'),
        ({"stack": {"x": fb.Stack(["a"]), "y": fb.Stack(["[ab]"])}}, r'"a".*stacked in "x" and in "y"'),
        ({"stack": {"c": fb.Stack(["a"])}}, r'"c".*has the name of a column'),
        ({"stack": {"x": fb.Stack(["a", "a"])}}, r'lists column "a" twice'),
        ({"stack": {"x": fb.Stack(["a"])}, "cast": {"x": "int8"}}, r"cast names \"x\", which is a stack"),
        (
            {"stack": {"x": fb.Stack(["a"])}, "samples": fb.Pack("a", 4)},
            r"`stack` was given, but the samples are packs",
        ),
        ({"stack": {"x": ["a"]}}, r"stack\['x'\] must be a forebay.Stack, got list"),
    ],
)
def test_stacks_that_cannot_be_made_are_refused(holes, options, message):
    with pytest.raises((fb.InvalidError, fb.UnknownColumnError), match=message):
        fb.Loader(holes, **options)


def test_a_stack_shows_itself_and_checks_its_arguments():
    assert repr(fb.Stack(("a", "I*"), dtype=np.float16)) == "forebay.Stack(['a', 'I*'], dtype='float16')"
    assert fb.Stack(["a"]) == fb.Stack(("a",))
    for columns in ("a", [], [1], {"a"}):
        with pytest.raises(fb.InvalidError, match="columns"):
            fb.Stack(columns)
    with pytest.raises(fb.InvalidError, match="dtype"):
        fb.Stack(["a"], dtype="text")


def test_a_column_of_lists_is_refused_by_its_stored_type_whatever_the_dtype(tmp_path):
    pq.write_table(pa.table({"l": [[1], [2]]}), tmp_path / "a.parquet")
    for dtype in (None, "float32"):
        with pytest.raises(fb.InvalidError, match=r"holds list<int64> .*leave it out, or decode it as a tensor"):
            fb.Loader(tmp_path, stack={"x": fb.Stack(["l"], dtype=dtype)})
