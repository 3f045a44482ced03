"""fb.Loader over data sets with a Petastorm schema, which says how columns are decoded."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from test_petastorm_rows import Kinds, kinds, kinds_url  # noqa: F401  a fixture

import forebay as fb
from forebay.petastorm import make_reader
from forebay.petastorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
from forebay.petastorm.unischema import Unischema, UnischemaField

LEGACY = Path(os.environ.get("FOREBAY_TEST_DATA", "nowhere")) / "petastorm-legacy"
OLD = [folder.name for folder in sorted(LEGACY.iterdir())] if LEGACY.is_dir() else []

KEY = b"dataset-toolkit.unischema.v1"


def folder_of(url):
    return url.removeprefix("file://")


def of_all(url, rows=1000, **options):
    """Returns all rows as one batch."""
    with fb.Loader(folder_of(url), batch_size=rows, epochs=1, **options) as loader:
        return next(iter(loader))


def written(folder, fields, rows, **options):
    fb.petastorm.write(iter(rows), Unischema("Written", fields), f"file://{folder}", **options)
    return str(folder)


def check(batch, name, at, expected):
    """Checks the value of a row, including type and shape if it is an array of numbers."""
    column = batch[name]
    if expected is None:
        assert not batch[f"{name}.mask"][at], name
        return
    assert batch[f"{name}.mask"][at] if f"{name}.mask" in batch else True, name
    value = column[at]
    if isinstance(expected, np.ndarray) and expected.dtype.kind not in "US":
        assert (np.asarray(value).dtype, np.shape(value)) == (expected.dtype, expected.shape), name
        np.testing.assert_array_equal(value, expected, name)
    elif isinstance(expected, np.ndarray):
        assert value.dtype == object and value.shape == expected.shape, name
        assert value.tolist() == expected.tolist(), name
    elif isinstance(expected, np.generic) and expected.dtype.kind not in "US":
        assert column.dtype == expected.dtype, name
        assert value == expected or (value != value and expected != expected), name
    else:
        assert value == expected, name


def check_rows(batch, rows):
    assert len(rows) == batch.num_rows > 0
    for at, row in enumerate(rows):
        for name, expected in row.items():
            check(batch, name, at, expected)


NULLABLE = [name for name, field in Kinds.fields.items() if field.nullable]


def test_columns_have_the_values_types_and_shapes_of_the_schema(kinds_url):  # noqa: F811
    batch = of_all(kinds_url, null_mask=NULLABLE)
    rows = [kinds(number) for number in range(30)]
    for row in rows:
        row["plain"], row["flag"] = np.float32(row["plain"]), np.bool_(row["flag"])
        photo = row.pop("photo")
        assert abs(batch["photo"][row["id"]].astype(int) - photo).max() <= 2
    check_rows(batch, rows)
    assert batch["matrix"].shape == (30, 2, 3) and batch["grey"].shape == (30, 6, 5)
    assert batch["photo"].shape == (30, 16, 24, 3)
    assert isinstance(batch["any_size"], fb.batch.ragged.Images)
    assert batch["any_size"].padded().shape == (30, 4, 3, 3)
    assert batch["open"].dtype == np.int16 and batch["open"].values.shape[1:] == (2,)


@pytest.mark.parametrize("threads", [1, 3])
def test_rows_are_the_same_in_any_batch_order_and_cache(kinds_url, tmp_path, threads):  # noqa: F811
    cache = fb.DiskCache(tmp_path / "cache", max_bytes="100MB", tier="rows")
    order = fb.Shuffle(seed=3)
    options = {"batch_size": 7, "threads": threads, "shuffle": order, "null_mask": NULLABLE, "cache": cache}
    with fb.Loader(folder_of(kinds_url), **options) as loader:
        for _ in range(2):
            found = []
            for batch in loader:
                for at, number in enumerate(batch["id"].tolist()):
                    expected = {
                        name: value for name, value in kinds(number).items() if name not in ("photo", "plain", "flag")
                    }
                    for name, value in expected.items():
                        check(batch, name, at, value)
                    found.append(number)
            assert sorted(found) == list(range(30))


def test_a_column_is_as_it_is_stored_where_decode_says_none(kinds_url):  # noqa: F811
    stored = pq.read_table(folder_of(kinds_url))
    batch = of_all(kinds_url, columns=["matrix", "small", "image"], decode={"matrix": None, "small": None})
    assert batch["matrix"].tolist() == stored["matrix"].to_pylist()
    assert batch["small"].dtype == np.int16 and batch["image"].shape == (30, 6, 5, 3)
    batch = of_all(kinds_url, decode={"*": None, "image": fb.Image.resize(2, 2)}, null_mask=["maybe"])
    assert batch["image"].shape == (30, 2, 2, 3) and batch["small"].dtype == np.int16
    assert batch["packed"].tolist() == stored["packed"].to_pylist()
    with fb.Loader(folder_of(kinds_url), decode={"*": None}) as loader:
        assert loader.spec["as_stored"] == {"*": True}


def test_options_of_the_user_come_before_the_schema(kinds_url):  # noqa: F811
    image = fb.Image.resize(3, 3).dtype("float32").layout("NCHW")
    batch = of_all(
        kinds_url,
        columns=["small", "image", "matrix", "packed", "words", "id"],
        decode={"image": image},
        cast={"small": "float32", "matrix": "float16"},
        pad={"packed": fb.Pad(5, value=-1)},
        encode={"words": fb.Hash(100)},
        fill_null={"words": "none"},
    )
    assert batch["image"].shape == (30, 3, 3, 3) and batch["image"].dtype == np.float32
    assert batch["small"].dtype == np.float32 and batch["small"][2] == 252
    assert batch["matrix"].dtype == np.float16 and batch["matrix"].shape == (30, 2, 3)
    np.testing.assert_array_equal(batch["matrix"][4], kinds(4)["matrix"].astype(np.float16))
    assert batch["packed"].shape == (30, 5)
    np.testing.assert_array_equal(batch["packed"][3], [*kinds(3)["packed"], -1, -1])
    assert batch["words"].dtype.kind == "i" and batch["words"].lengths[1] == 2


def test_names_that_are_delivered_are_those_of_the_options(kinds_url):  # noqa: F811
    batch = of_all(kinds_url, columns=["matrix", "open"], rename={"matrix": "m", "open": "o"}, null_mask=["o"])
    assert batch["m"].shape == (30, 2, 3) and batch["m"].dtype == np.float32
    check(batch, "o", 1, kinds(1)["open"])


def test_nulls_are_filled_masked_and_refused_as_everywhere(kinds_url):  # noqa: F811
    names = ["rare", "open", "words", "grey", "any_grey", "maybe"]
    batch = of_all(kinds_url, columns=names, fill_null={"*": 7, "words": "none"})
    for name in ("rare", "grey", "maybe"):
        assert (batch[name][3] == 7).all(), name
    for name in ("open", "words", "any_grey"):
        assert len(batch[name][3]) == 0, name
    batch = of_all(kinds_url, columns=names, null_mask=["*"])
    for name in names:
        assert batch[f"{name}.mask"].tolist() == [number % 3 > 0 for number in range(30)], name
        assert not np.any(batch[name][3]), name
    with pytest.raises(fb.BadRowError, match=r"row 0, column \"rare\": null where a tensor is needed"):
        of_all(kinds_url, columns=["rare"])
    with pytest.raises(fb.ForebayError, match="open"):
        of_all(kinds_url, columns=["open"])["open"]
    left = of_all(kinds_url, columns=["id", "rare", "open"], on_bad_row=fb.Skip(at_most=10))
    assert left["id"].tolist() == [number for number in range(30) if number % 3]


def test_arrays_of_any_rank_order_and_emptiness_are_what_was_written(tmp_path):
    rng = np.random.default_rng(1)
    fields = [
        UnischemaField("scalar", np.int32, (), NdarrayCodec(), True),
        UnischemaField("open2", np.float64, (None, None), NdarrayCodec(), False),
        UnischemaField("open3", np.uint8, (None, 2, None), CompressedNdarrayCodec(), False),
        UnischemaField("tail", np.float32, (None, 2, 3), NdarrayCodec(), False),
        UnischemaField("none", np.float32, (0,), NdarrayCodec(), False),
        UnischemaField("flags", np.bool_, (None,), CompressedNdarrayCodec(), False),
        UnischemaField("halves", np.float16, (None,), NdarrayCodec(), False),
        UnischemaField("names", np.str_, (2, None), NdarrayCodec(), False),
    ]

    def row(i):
        open3 = rng.integers(0, 9, (1 + i % 3, 2, 1 + i % 2), np.uint8)
        return {
            "scalar": np.array(i, np.int32) if i % 4 else None,
            "open2": np.asfortranarray(rng.random((2 + i % 2, 1 + i % 3))),
            "open3": open3,
            "tail": rng.random((i % 3, 2, 3), np.float32),
            "none": np.zeros(0, np.float32),
            "flags": rng.random(i % 4) > 0.5,
            "halves": rng.random(3).astype(np.float16)[: i % 3],
            "names": np.array([["é" * i] * (1 + i % 2), ["x"] * (1 + i % 2)]),
        }

    rows = [row(i) for i in range(12)]
    batch = of_all(f"file://{written(tmp_path / 'data', fields, rows)}", null_mask=["scalar"])
    for one in rows:
        one["scalar"] = None if one["scalar"] is None else one["scalar"][()]
    check_rows(batch, rows)
    assert batch["scalar"].dtype == np.int32
    assert batch["open2"].padded().shape == (12, 3, 3) and batch["tail"].padded().shape == (12, 2, 2, 3)
    assert [cut.shape for cut in batch["tail"][3:5]] == [(0, 2, 3), (1, 2, 3)]


@pytest.mark.parametrize("codec", [NdarrayCodec(), CompressedNdarrayCodec()])
@pytest.mark.parametrize("batch_size", [1, 10])
def test_sides_of_one_length_stay_where_an_array_has_no_values(tmp_path, codec, batch_size):
    shapes = {
        "tail": (np.float32, (None, 2, 4), [(0, 2, 4), (3, 2, 4)]),
        "within": (np.float32, (None, 2, None), [(0, 2, 0), (1, 2, 3)]),
        "head": (np.int16, (2, None, 4), [(2, 0, 4), (2, 1, 4)]),
        "text": (np.str_, (None, 2), [(0, 2), (1, 2)]),
        "bytes": (np.bytes_, (None, 2, 3), [(0, 2, 3), (2, 2, 3)]),
        "texts": (np.str_, (2, 3), [(2, 3), (2, 3)]),
    }
    kinds = {np.str_: "<U3", np.bytes_: "S3"}
    fields = [UnischemaField(name, dtype, shape, codec, True) for name, (dtype, shape, _) in shapes.items()]
    rows = [
        {name: np.zeros(sides[at], kinds.get(dtype, dtype)) for name, (dtype, _, sides) in shapes.items()}
        for at in range(2)
    ]
    folder = written(tmp_path / "data", fields, [*rows, {}])
    with fb.Loader(folder, batch_size=batch_size, null_mask=list(shapes)) as loader:
        batches = list(loader)
    for name, (_, _, sides) in shapes.items():
        found = [array.shape for batch in batches for array in batch[name]]
        assert found[:2] == sides, name
        if batch_size > 1:
            assert [array.shape for array in batches[0][name][:1]] == sides[:1], name
    assert batches[0]["tail"].padded().shape[2:] == (2, 4)
    if batch_size == 1:
        assert batches[0]["text"].padded().shape == (1, 0, 2)
        assert batches[0]["within"].padded().shape == (1, 0, 2, 0)


def test_bytes_that_are_stored_as_text_are_bytes(tmp_path):
    fields = [
        UnischemaField("id", np.int64, (), None, False),
        UnischemaField("bare", np.bytes_, (), None, True),
        UnischemaField("text", np.bytes_, (), ScalarCodec("StringType"), True),
        UnischemaField("word", np.str_, (), None, True),
    ]
    rows = [{"id": 0, "bare": b"a", "text": "b", "word": "c"}, {"id": 1}]
    folder = written(tmp_path / "data", fields, rows)
    with fb.Loader(folder, batch_size=2) as loader:
        batch = next(iter(loader))
    found = {name: batch[name].tolist() for name in ("bare", "text", "word")}
    assert found == {"bare": [b"a", None], "text": [b"b", None], "word": ["c", None]}
    with fb.Loader(folder, batch_size=2, fill_null={"bare": b"z"}, null_mask=["text"]) as loader:
        batch = next(iter(loader))
    assert batch["bare"].tolist() == [b"a", b"z"] and batch["text.mask"].tolist() == [True, False]
    with fb.Loader(folder, batch_size=2, decode={"bare": None}) as loader:
        assert next(iter(loader))["bare"].tolist() == ["a", None]
    with make_reader(f"file://{folder}", shuffle_row_groups=False) as reader:
        first, second = ([row.bare, row.text, row.word] for row in reader)
    assert first == [b"a", b"b", "c"] and [type(one) for one in first] == [np.bytes_, np.bytes_, np.str_]
    assert second == [None] * 3


def test_samples_of_several_rows_have_decoded_columns(kinds_url):  # noqa: F811
    batch = of_all(kinds_url, columns=["matrix", "packed", "id"], samples=fb.Window(3))
    assert batch["matrix"].shape[1:] == (3, 2, 3)
    np.testing.assert_array_equal(batch["matrix"][0][2], kinds(int(batch["id"][0][2]))["matrix"])


def test_an_image_that_is_not_as_the_schema_says_is_a_bad_row(tmp_path):
    rgb = UnischemaField("image", np.uint8, (4, 5, 3), CompressedImageCodec("png"), False)
    folder = Path(written(tmp_path / "data", [rgb], [{"image": np.zeros((4, 5, 3), np.uint8)}]))

    def encoded(shape, dtype=np.uint8):
        field = UnischemaField("image", dtype, shape, rgb.codec, False)
        return bytes(rgb.codec.encode(field, np.zeros(shape, dtype)))

    for cell, said in [
        (encoded((5, 4, 3)), "an image of 5 x 4 pixels where the schema says 4 x 5"),
        (encoded((4, 5)), "an image with one channel where the schema says 3 channels"),
        (encoded((4, 5), np.uint16), "an image with one channel where"),
        (b"text", "image"),
    ]:
        pq.write_table(pa.table({"image": [cell]}), folder / "part-00000.parquet")
        with pytest.raises(fb.BadRowError, match=said) as refused:
            of_all(f"file://{folder}")
        assert 'row 0, column "image"' in str(refused.value)


def test_what_has_no_column_is_refused_with_its_name_and_the_next_move(tmp_path):
    fields = [
        UnischemaField("id", np.int64, (), ScalarCodec("LongType"), False),
        UnischemaField("times", np.datetime64, (None,), NdarrayCodec(), False),
    ]
    rows = [{"id": 1, "times": np.array(["2024-02-29"], "datetime64[us]")}]
    folder = written(tmp_path / "data", fields, rows)
    with pytest.raises(fb.UnsupportedError) as refused:
        fb.Loader(folder)
    for said in (
        'column "times"',
        "datetime64[None] of NdarrayCodec()",
        "unit of time",
        'decode={"times": None}',
        "make_reader",
    ):
        assert said in str(refused.value), said
    with fb.Loader(folder, decode={"times": None}) as loader:
        assert isinstance(next(iter(loader))["times"][0], bytes)
    with fb.Loader(folder, columns=["id"]) as loader:
        assert next(iter(loader))["id"].tolist() == [1]


def test_folders_that_the_schema_has_as_text_say_how_to_read_them(tmp_path):
    fields = [
        UnischemaField("id", np.int64, (), ScalarCodec("LongType"), False),
        UnischemaField("part", np.str_, (), ScalarCodec("StringType"), False),
        UnischemaField("number", np.int32, (), ScalarCodec("IntegerType"), False),
    ]
    folder = Path(written(tmp_path / "data", fields, [{"id": 1, "part": "x", "number": 3}]))
    (folder / "part=007" / "number=3").mkdir(parents=True)
    pq.write_table(pa.table({"id": [1]}), folder / "part=007" / "number=3" / "a.parquet")
    (folder / "part-00000.parquet").unlink()
    with pytest.raises(fb.UnsupportedError, match="partition_types") as refused:
        fb.Loader(folder)
    assert 'column "part"' in str(refused.value)
    dataset = fb.Dataset(folder, partition_types={"part": "string"})
    with fb.Loader(dataset) as loader:
        batch = next(iter(loader))
    assert batch["part"].tolist() == ["007"] and batch["number"].dtype == np.int32


def test_a_schema_that_cannot_be_read_says_where_and_how_to_read_without_it(kinds_url, tmp_path):  # noqa: F811
    folder = tmp_path / "data"
    folder.mkdir()
    pq.write_table(pa.table({"x": [b"1"]}), folder / "a.parquet")
    broken = folder / "_common_metadata"
    schema = pa.schema([("x", pa.binary())], metadata={KEY: b"\x80\x02cos\nsystem\n(U\x04trueto."})
    pq.write_metadata(schema, broken)
    for error in (fb.UnsupportedError, fb.CorruptError):
        with pytest.raises(error) as refused:
            fb.Loader(folder)
        assert str(broken) in str(refused.value) and 'decode={"*": None}' in str(refused.value)
        with fb.Loader(folder, decode={"*": None}) as loader:
            assert next(iter(loader))["x"].tolist() == [b"1"]
        broken.write_bytes(broken.read_bytes()[:-9])
    broken.unlink()
    with fb.Loader(folder) as loader:
        assert next(iter(loader))["x"].tolist() == [b"1"]


def test_a_field_that_the_files_lack_and_a_column_that_the_schema_lacks_do_not_matter(kinds_url, tmp_path):  # noqa: F811
    folder = tmp_path / "data"
    folder.mkdir()
    stored = pq.read_table(folder_of(kinds_url)).select(["id", "matrix"])
    pq.write_table(stored.append_column("other", pa.array([b"x"] * 30)), folder / "a.parquet")
    (folder / "_common_metadata").write_bytes((Path(folder_of(kinds_url)) / "_common_metadata").read_bytes())
    batch = of_all(f"file://{folder}")
    assert batch["matrix"].shape == (30, 2, 3) and batch["other"][0] == b"x"


def test_a_glob_is_decoded_by_the_schema_of_its_folder(kinds_url):  # noqa: F811
    batch = of_all(f"{kinds_url}/*.parquet", columns=["matrix"])
    assert batch["matrix"].shape == (30, 2, 3)


@pytest.mark.parametrize("version", OLD)
def test_data_sets_of_old_versions_are_those_of_the_drop_in(version):
    url = f"file://{LEGACY / version}"
    with make_reader(url, shuffle_row_groups=False) as reader:
        rows = [row._asdict() for row in reader]
        nullable = [name for name, field in reader.schema.fields.items() if field.nullable]
    check_rows(of_all(url, null_mask=nullable), rows)


def test_a_batch_is_weighed_by_what_its_cells_unpack_to(tmp_path):
    field = UnischemaField("zeros", np.uint8, (None, None), CompressedNdarrayCodec(), False)
    zeros = np.zeros((4000, 4000), np.uint8)
    folder = written(tmp_path / "data", [field], [{"zeros": zeros}] * 6)
    with (
        fb.Loader(folder, batch_size=6, memory="256MB") as loader,
        pytest.raises(fb.TooLargeError, match="batch_size=2 may fit"),
    ):
        next(iter(loader))
    with fb.Loader(folder, batch_size=1, memory="256MB") as loader:
        assert [batch["zeros"][0].shape for batch in loader] == [(4000, 4000)] * 6


def test_inspect_tells_the_schema_and_its_codecs(kinds_url):  # noqa: F811
    command = [sys.executable, "-m", "forebay", "inspect", folder_of(kinds_url)]
    run = subprocess.run(command, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert 'Schema of Petastorm "Kinds"' in run.stdout
    for line in (
        "matrix    float32[2, 3]",
        "NdarrayCodec()",
        "any_size  uint8[None, None, 3]",
        "CompressedImageCodec('png', 80)",
    ):
        assert line in run.stdout, run.stdout
