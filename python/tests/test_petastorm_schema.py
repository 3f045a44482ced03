"""Schemas, codecs and predicates called by hand, and schemas that are written."""

from __future__ import annotations

import decimal
import json
import pickle

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from petastorm_schema import KEY, plain

import forebay as fb
from forebay.petastorm._schema import PlainField
from forebay.petastorm.codecs import (
    CompressedImageCodec,
    CompressedNdarrayCodec,
    DataframeColumnCodec,
    NdarrayCodec,
    ScalarCodec,
)
from forebay.petastorm.errors import DecodeFieldError, PetastormMetadataError
from forebay.petastorm.etl.dataset_metadata import (
    ROW_GROUPS_PER_FILE_KEY,
    get_schema,
    get_schema_from_dataset_url,
    infer_or_load_unischema,
)
from forebay.petastorm.fs_utils import FilesystemResolver, get_filesystem_and_path_or_paths, normalize_dir_url
from forebay.petastorm.predicates import in_pseudorandom_split, in_set
from forebay.petastorm.transform import TransformSpec, edit_field, transform_schema
from forebay.petastorm.unischema import (
    Unischema,
    UnischemaField,
    encode_row,
    insert_explicit_nulls,
    match_unischema_fields,
)
from forebay.petastorm.utils import decode_row

Things = Unischema(
    "Things",
    [
        UnischemaField("id", np.int64, (), ScalarCodec("LongType"), False),
        UnischemaField("maybe", np.str_, (), None, True),
        UnischemaField("matrix", np.float32, (None, 2), NdarrayCodec(), False),
        UnischemaField("price", decimal.Decimal, (), ScalarCodec("DecimalType"), True),
        UnischemaField("image", np.uint8, (4, 4), CompressedImageCodec("jpeg", 90), True),
        UnischemaField("packed", np.bool_, (3,), CompressedNdarrayCodec(), True),
    ],
)


def test_fields_are_attributes_and_in_order():
    assert list(Things.fields) == ["id", "maybe", "matrix", "price", "image", "packed"]
    assert Things.matrix.shape == (None, 2) and Things.matrix is Things.fields["matrix"]
    with pytest.raises(AttributeError, match="nothing"):
        _ = Things.nothing
    with pytest.warns(UserWarning, match="Can not create dynamic property"):
        assert callable(Unischema("Odd", [UnischemaField("make_namedtuple", np.int8, ())]).make_namedtuple)


def test_fields_are_equal_whatever_their_codecs_are():
    one, other = UnischemaField("a", np.int8, ()), UnischemaField("a", np.int8, (), ScalarCodec("ByteType"))
    assert one == other and hash(one) == hash(other) and len({one, other}) == 1
    assert one != UnischemaField("a", np.int16, ()) and one != UnischemaField("a", np.int8, (), None, True)


def test_a_schema_and_its_rows_can_be_pickled():
    again = pickle.loads(pickle.dumps(Things))
    assert again.fields == Things.fields and again.matrix == Things.matrix and str(again) == str(Things)
    assert "UnischemaField('price', Decimal, (), ScalarCodec(DecimalType()), True)" in str(Things)


def test_a_view_has_fields_by_value_and_by_pattern():
    assert list(Things.create_schema_view([Things.matrix, "i.*"]).fields) == ["matrix", "id", "image"]
    assert [field.name for field in match_unischema_fields(Things, ["ma.*"])] == ["maybe", "matrix"]
    assert match_unischema_fields(Things, []) == []
    with pytest.warns(UserWarning, match="only begin with: image"):
        assert [field.name for field in match_unischema_fields(Things, ["im"])] == []
    with pytest.raises(ValueError, match="must be either a string"):
        Things.create_schema_view([3])


def test_a_row_is_encoded_with_its_missing_fields_as_nulls():
    cells = encode_row(Things, {"id": np.int64(3), "matrix": np.ones((5, 2), np.float32)})
    assert list(cells) == list(Things.fields)
    assert cells["id"] == 3 and type(cells["id"]) is int and cells["maybe"] is None
    back = decode_row(cells, Things)
    assert back["matrix"].shape == (5, 2) and back["image"] is None and back["id"] == 3
    given = {"id": 3, "matrix": None}
    insert_explicit_nulls(Things, given)
    assert given["maybe"] is None and "price" in given


@pytest.mark.parametrize(
    ("row", "error", "message"),
    [
        ({"matrix": np.ones((1, 2), np.float32)}, ValueError, "id is not found"),
        ({"id": None, "matrix": np.ones((1, 2), np.float32)}, ValueError, "id is not nullable"),
        (
            {"id": 1, "matrix": np.ones((1, 2), np.float64)},
            ValueError,
            "Unexpected type of matrix: expected float32, got float64",
        ),
        (
            {"id": 1, "matrix": np.ones((1, 3), np.float32)},
            ValueError,
            r"Unexpected dimensions of matrix: expected \(None, 2\), got \(1, 3\)",
        ),
        ({"id": 1, "matrix": [[1, 2]]}, ValueError, "expected an array of float32, got list"),
        (
            {"id": [1], "matrix": np.ones((1, 2), np.float32)},
            TypeError,
            "Expected a scalar as the value of 'id', got list",
        ),
        ({"id": 1, "matrix": np.ones((1, 2), np.float32), "more": 1}, ValueError, "more are not in the schema"),
    ],
)
def test_a_row_that_does_not_fit_is_refused_with_its_field(row, error, message):
    with pytest.raises(error, match=message):
        encode_row(Things, row)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("codec", [NdarrayCodec(), CompressedNdarrayCodec()])
@pytest.mark.parametrize(
    "value",
    [
        np.arange(6, dtype=np.int16).reshape(2, 3),
        np.array(5.0),
        np.zeros((0, 4)),
        np.array(["ä", "long"]),
        np.array([b"x", b""]),
        np.array([True, False]),
        np.arange(4, dtype=">i4"),
        np.array(["2024-02-29"], "datetime64[D]"),
        np.array([1 + 2j]),
    ],
)
def test_arrays_of_any_type_and_order_come_back(codec, value, order):
    value = np.asarray(value, order=order)
    field = UnischemaField("x", value.dtype.type, (None,) * value.ndim, codec, False)
    cell = codec.encode(field, value)
    assert isinstance(cell, bytearray)
    back = codec.decode(field, cell)
    assert back.dtype == value.dtype and back.shape == value.shape and back.flags.writeable
    np.testing.assert_array_equal(back, value)


def test_objects_in_arrays_are_never_unpickled():
    import io

    file = io.BytesIO()
    np.save(file, np.array([{"a": 1}], object), allow_pickle=True)
    field = UnischemaField("x", np.float32, (None,), NdarrayCodec(), False)
    with pytest.raises(ValueError, match="never unpickled"):
        NdarrayCodec().decode(field, file.getvalue())
    file = io.BytesIO()
    np.savez_compressed(file, arr=np.array([{"a": 1}], object))
    with pytest.raises(ValueError):
        CompressedNdarrayCodec().decode(field, file.getvalue())


def test_a_cell_that_is_cut_off_is_an_error():
    field = UnischemaField("x", np.float32, (None,), NdarrayCodec(), False)
    cell = bytes(NdarrayCodec().encode(field, np.ones(9, np.float32)))
    for length in (0, 5, 12, 60, len(cell) - 1):
        with pytest.raises(Exception):  # noqa: B017  numpy has several
            NdarrayCodec().decode(field, cell[:length])
    with pytest.raises(DecodeFieldError, match='field "x"'):
        decode_row({"x": cell[:60]}, Unischema("S", [field]))


@pytest.mark.parametrize("shape", [(6, 5), (6, 5, 3)])
@pytest.mark.parametrize("dtype", [np.uint8, np.uint16])
def test_images_come_back_from_png(shape, dtype):
    if dtype is np.uint16 and len(shape) == 3:
        pytest.importorskip("cv2", reason="colours of 16 bits are encoded by OpenCV")
    codec = CompressedImageCodec("png")
    pixels = np.random.default_rng(1).integers(0, np.iinfo(dtype).max, shape, dtype)
    field = UnischemaField("x", dtype, shape, codec, False)
    np.testing.assert_array_equal(codec.decode(field, codec.encode(field, pixels)), pixels)


def test_images_of_jpeg_are_close_and_of_the_quality():
    ramp = np.broadcast_to(np.arange(64, dtype=np.uint8)[:, None], (64, 48)).copy()
    for pixels in (ramp, np.stack([ramp] * 3, axis=-1)):
        field = UnischemaField("x", np.uint8, pixels.shape, None, False)
        good, bad = CompressedImageCodec("jpeg", 95), CompressedImageCodec("jpeg", 10)
        assert len(bad.encode(field, pixels)) < len(good.encode(field, pixels))
        back = good.decode(field, good.encode(field, pixels))
        assert back.shape == pixels.shape and abs(back.astype(int) - pixels).max() < 6
    with pytest.raises(ValueError, match="has the shape"):
        good.encode(UnischemaField("x", np.uint8, (4, 4, 4), good, False), np.zeros((4, 4, 4), np.uint8))
    assert (str(good), good.image_codec) == ("CompressedImageCodec('jpeg', 95)", "jpeg")


def test_scalars_are_encoded_by_their_type_of_spark():
    field = UnischemaField("x", np.int32, (), None, False)
    assert type(ScalarCodec("IntegerType").encode(field, np.int32(3))) is int
    assert type(ScalarCodec("DoubleType").encode(field, np.float32(3))) is float
    assert ScalarCodec("BooleanType").encode(field, np.bool_(True)) is True
    assert ScalarCodec("IntegerType").encode(field, np.array(7)) == 7
    with pytest.raises(ValueError, match="expected a str"):
        ScalarCodec("StringType").encode(field, 3)
    with pytest.raises(ValueError, match="must be an empty tuple"):
        ScalarCodec("IntegerType").encode(field._replace(shape=(3,)), 3)
    assert ScalarCodec("IntegerType").decode(field, 3).dtype == np.int32


def test_a_function_makes_another_schema_of_one():
    spec = TransformSpec(None, [edit_field("id", np.float64, ()), edit_field("new", np.int8, (3,), True)], ["maybe"])
    made = transform_schema(Things, spec)
    assert list(made.fields) == ["matrix", "price", "image", "packed", "id", "new"]
    assert made.id.numpy_dtype is np.float64 and made.new.nullable and made.new.codec is None
    chosen = transform_schema(Things, TransformSpec(selected_fields=["price", "id"]))
    assert list(chosen.fields) == ["price", "id"]
    with pytest.warns(UserWarning, match="removed_fields.*nothing"):
        transform_schema(Things, TransformSpec(removed_fields=["nothing"]))
    with pytest.raises(ValueError, match="pass one of them"):
        TransformSpec(removed_fields=[], selected_fields=[])


def test_a_split_is_that_of_the_hash_of_text():
    # The MD5 of the text is taken as a number modulo 2**63 - 1; as a share of that, it is 0.183 for "1",
    # 0.994 for "2" and 0.014 for "3".
    part = in_pseudorandom_split([0.05, 0.2, 0.5], 1, "key")
    assert [part.do_include({"key": key}) for key in (1, np.int64(1), "1", 2, 3)] == [True, True, True, False, False]
    assert [in_pseudorandom_split([0.05], 0, "key").do_include({"key": key}) for key in "123"] == [False, False, True]
    with pytest.raises(ValueError, match="subset_index"):
        in_pseudorandom_split([0.5], 1, "key")
    with pytest.raises(ValueError, match="no field 'key'"):
        part.do_include({"other": 1})


@pytest.fixture
def written(tmp_path):
    url = f"file://{tmp_path}/data"
    rows = [{"id": i, "matrix": np.ones((i, 2), np.float32), "price": decimal.Decimal(i)} for i in range(10)]
    assert fb.petastorm.write(iter(rows), Things, url, row_group_rows=3, file_rows=5) == 10
    return tmp_path / "data"


def test_what_is_written_says_schema_and_row_groups(written):
    metadata = pq.read_schema(written / "_common_metadata").metadata
    assert json.loads(metadata[b"dataset-toolkit.num_row_groups_per_file.v1"]) == {
        "part-00000.parquet": 2,
        "part-00001.parquet": 2,
    }
    assert plain(metadata[KEY]) == (
        "Things",
        (
            PlainField("id", "int64", (), ("scalar", "LongType"), False),
            PlainField("maybe", "str_", (), None, True),
            PlainField("matrix", "float32", (None, 2), ("ndarray",), False),
            PlainField("price", "Decimal", (), ("scalar", "DecimalType", 10, 0), True),
            PlainField("image", "uint8", (4, 4), ("image", "jpeg", 90), True),
            PlainField("packed", "bool_", (3,), ("compressed_ndarray",), True),
        ),
    )
    assert b"\x80\x02cpetastorm.unischema\nUnischema\n" in metadata[KEY]
    stored = pq.read_schema(written / "part-00000.parquet")
    assert stored.types == [pa.int64(), pa.string(), pa.binary(), pa.decimal128(10, 0), pa.binary(), pa.binary()]


def test_row_groups_are_cut_by_size(tmp_path):
    schema = Unischema("S", [UnischemaField("x", np.uint8, (1000,), NdarrayCodec(), False)])
    rows = ({"x": np.zeros(1000, np.uint8)} for _ in range(10))
    fb.petastorm.write(rows, schema, f"file://{tmp_path}/data", row_group_size=2500)
    file = pq.ParquetFile(tmp_path / "data" / "part-00000.parquet")
    assert [file.metadata.row_group(at).num_rows for at in range(file.num_row_groups)] == [3, 3, 3, 1]


def test_values_of_columns_name_folders_on_request(tmp_path):
    schema = Unischema(
        "S",
        [
            UnischemaField("id", np.int64, (), None, False),
            UnischemaField("day", np.int32, (), None, True),
            UnischemaField("who", np.str_, (), None, False),
            UnischemaField("x", np.float32, (2,), NdarrayCodec(), False),
        ],
    )

    def row(number):
        day = number % 3 or None
        return {"id": number, "day": day, "who": f"a/b c={number % 2}", "x": np.full(2, number, np.float32)}

    url = f"file://{tmp_path}/data"
    options = {"partition_columns": ["day", "who"], "row_group_rows": 4, "file_rows": 6}
    assert fb.petastorm.write(map(row, range(50)), schema, url, **options) == 50
    files = sorted(str(file.relative_to(tmp_path / "data")) for file in tmp_path.rglob("*.parquet"))
    assert files[0] == "day=1/who=a%2Fb c%3D0/part-00000.parquet" and len(files) == 12
    assert files[-1] == "day=__HIVE_DEFAULT_PARTITION__/who=a%2Fb c%3D1/part-00001.parquet"
    counts = json.loads(pq.read_schema(tmp_path / "data/_common_metadata").metadata[ROW_GROUPS_PER_FILE_KEY])
    assert sorted(counts) == files and set(counts.values()) == {1, 2}
    assert pq.read_schema(tmp_path / "data" / files[0]).names == ["id", "x"]
    with fb.petastorm.make_reader(url) as reader:
        found = {int(one.id): one for one in reader}
    assert sorted(found) == list(range(50))
    for number, one in found.items():
        expected = row(number)
        assert (one.day, one.who, one.x.tolist()) == (expected["day"], expected["who"], expected["x"].tolist())


def test_folders_are_named_by_whole_numbers_text_and_days(tmp_path):
    url = f"file://{tmp_path}/data"
    rows = [{"id": 1, "matrix": np.ones((1, 2), np.float32), "price": decimal.Decimal(1)}]
    for columns, message in (
        (["nothing"], "partition_columns has 'nothing', which is not a field"),
        (["price"], "which cannot name folders"),
        (["id", "id"], "differing names"),
        ("id", "must be a list"),
    ):
        with pytest.raises(fb.InvalidError, match=message):
            fb.petastorm.write(rows, Things, url, partition_columns=columns)
    alone = Unischema("S", [UnischemaField("id", np.int64, (), None, False)])
    with pytest.raises(fb.InvalidError, match="has all fields"):
        fb.petastorm.write([{"id": 1}], alone, url, partition_columns=["id"])
    with pytest.raises(ValueError, match="not nullable"):
        fb.petastorm.write([*rows, {**rows[0], "id": None}], Things, url, partition_columns=["id"])
    assert list(tmp_path.rglob("*.parquet")) == []


def test_what_cannot_be_written_is_refused(tmp_path, written):
    class Mine(DataframeColumnCodec):
        def encode(self, unischema_field, value):
            return b""

    url = f"file://{tmp_path}/other"
    with pytest.raises(fb.InvalidError, match="has Parquet files already"):
        fb.petastorm.write([{"id": 1}], Things, f"file://{written}")
    with pytest.raises(fb.InvalidError, match="no rows"):
        fb.petastorm.write([], Things, url)
    with pytest.raises(fb.UnsupportedError, match="class of yours"):
        fb.petastorm.write([{"x": 1}], Unischema("S", [UnischemaField("x", np.int8, (), Mine(), False)]), url)
    with pytest.raises(ValueError, match="id is not found"):
        fb.petastorm.write([{"id": 1, "matrix": np.ones((1, 2), np.float32)}, {}], Things, url)
    assert list((tmp_path / "other").iterdir()) == []
    with pytest.raises(fb.InvalidError, match="'x' needs a codec"):
        fb.petastorm.write([{"x": 1}], Unischema("S", [UnischemaField("x", np.int8, (3,), None, False)]), url)


def test_the_schema_of_a_data_set_is_read_by_url_and_by_data_set(written):
    url = f"file://{written}"
    for schema in (
        get_schema_from_dataset_url(url),
        get_schema(url),
        get_schema(fb.Dataset(str(written))),
        get_schema(pq.ParquetDataset(str(written))),
        infer_or_load_unischema(url),
    ):
        assert schema.fields == Things.fields
        assert list(map(str, schema.fields.values())) != []
        assert {name: type(field.codec) for name, field in schema.fields.items()} == {
            name: type(field.codec) for name, field in Things.fields.items()
        }
    (written / "_common_metadata").unlink()
    with pytest.raises(PetastormMetadataError, match="there is no schema of Petastorm"):
        get_schema(url)
    assert infer_or_load_unischema(url)._name == "inferred_schema"
    with pytest.raises(OSError, match="No such file"):
        get_schema_from_dataset_url("file:///nowhere")


def test_file_systems_are_found_by_url(tmp_path):
    pytest.importorskip("fsspec")
    resolver = FilesystemResolver(f"file://{tmp_path}/x")
    assert resolver.get_dataset_path() == f"{tmp_path}/x" and resolver.parsed_dataset_url().scheme == "file"
    (tmp_path / "there").write_text("there")
    for made in (resolver.filesystem(), resolver.filesystem_factory()()):
        assert made.exists(f"{tmp_path}/there") and not made.exists(resolver.get_dataset_path())
    assert pickle.loads(pickle.dumps(resolver.filesystem_factory()))() == resolver.filesystem()
    with pytest.raises(RuntimeError, match="not pickled"):
        pickle.dumps(resolver)
    with pytest.raises(ValueError, match="scheme-less"):
        FilesystemResolver("/x")
    assert get_filesystem_and_path_or_paths([f"file://{tmp_path}/x", f"file://{tmp_path}/y"])[1] == [
        f"{tmp_path}/x",
        f"{tmp_path}/y",
    ]
    assert normalize_dir_url("file:///x/") == "file:///x"


def test_a_set_has_values_of_one_field():
    assert in_set([1, 2], "a").get_fields() == {"a"} and in_set([1, 2], "a").do_include({"a": np.int16(2)})
