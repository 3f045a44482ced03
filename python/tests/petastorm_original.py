"""Runs Petastorm itself on data sets, with an interpreter that has it, for the tests to compare with.

``petastorm_original.py OUT`` reads a list of calls as JSON from standard input, and pickles their results to
OUT, in order. A call is ``[function, arguments]``.
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings


def rows(url, **options):
    """Returns the rows of ``make_reader`` as dicts, and the fields of its schema."""
    from petastorm import make_reader

    with make_reader(url, reader_pool_type="dummy", **options) as reader:
        return [row._asdict() for row in reader], fields(reader.schema)


def batches(url, **options):
    """Returns the batches of ``make_batch_reader`` as dicts, and the fields of its schema."""
    from petastorm import make_batch_reader

    with make_batch_reader(url, reader_pool_type="dummy", **options) as reader:
        # Petastorm returns key columns as pandas categories.
        made = [{name: _array(column) for name, column in batch._asdict().items()} for batch in reader]
        return made, fields(reader.schema)


def _array(column):
    return column.astype(object) if hasattr(column, "categories") else column


def split(url, fractions, index, field):
    """Returns the ids of the rows in one part of a split."""
    from petastorm import make_reader
    from petastorm.predicates import in_pseudorandom_split

    predicate = in_pseudorandom_split(fractions, index, field)
    with make_reader(url, reader_pool_type="dummy", predicate=predicate) as reader:
        return sorted(str(getattr(row, field)) for row in reader)


def selected(url, index, values):
    """Returns the ids of the rows in the row groups that an index selects."""
    from petastorm import make_reader
    from petastorm.selectors import SingleIndexSelector

    selector = SingleIndexSelector(index, values)
    with make_reader(url, reader_pool_type="dummy", rowgroup_selector=selector, schema_fields=["id"]) as reader:
        return sorted(int(row.id) for row in reader)


def fields(schema):
    return [
        (one.name, one.numpy_dtype.__name__, tuple(one.shape), bool(one.nullable)) for one in schema.fields.values()
    ]


def write(folder, count, old=None):
    """Writes rows of every codec with Petastorm's own codecs and pickles, without a Spark job.

    With ``old`` the schema is pickled as in an older version: see ``_old_pickle``.
    """
    import decimal
    import os

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    import pyspark.sql.types as T
    from petastorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
    from petastorm.unischema import Unischema, UnischemaField, insert_explicit_nulls

    schema = Unischema(
        "Written",
        [
            UnischemaField("id", np.int64, (), ScalarCodec(T.LongType()), False),
            UnischemaField("byte", np.int8, (), ScalarCodec(T.ByteType()), True),
            UnischemaField("small", np.uint8, (), ScalarCodec(T.ShortType()), False),
            UnischemaField("maybe", np.int32, (), ScalarCodec(T.IntegerType()), True),
            UnischemaField("far", np.uint16, (), ScalarCodec(T.IntegerType()), False),
            UnischemaField("real", np.float32, (), ScalarCodec(T.FloatType()), True),
            UnischemaField("double", np.float64, (), None, True),
            UnischemaField("flag", np.bool_, (), ScalarCodec(T.BooleanType()), True),
            UnischemaField("text", np.str_, (), ScalarCodec(T.StringType()), True),
            UnischemaField("bare", np.str_, (), None, True),
            UnischemaField("price", decimal.Decimal, (), ScalarCodec(T.DecimalType(10, 3)), True),
            UnischemaField("day", np.datetime64, (), ScalarCodec(T.DateType()), True),
            UnischemaField("at", np.datetime64, (), ScalarCodec(T.TimestampType()), True),
            UnischemaField("matrix", np.float32, (2, 3), NdarrayCodec(), False),
            UnischemaField("fortran", np.float64, (3, 2), NdarrayCodec(), True),
            UnischemaField("half", np.float16, (4,), NdarrayCodec(), False),
            UnischemaField("bools", np.bool_, (3,), NdarrayCodec(), True),
            UnischemaField("scalar_array", np.int32, (), NdarrayCodec(), True),
            UnischemaField("open", np.int16, (None, 2), NdarrayCodec(), True),
            UnischemaField("words", np.str_, (None,), NdarrayCodec(), True),
            UnischemaField("strings", np.bytes_, (None,), NdarrayCodec(), False),
            UnischemaField("times", np.datetime64, (None,), NdarrayCodec(), True),
            UnischemaField("packed", np.uint32, (2, 2), CompressedNdarrayCodec(), True),
            UnischemaField("packed_open", np.float64, (None,), CompressedNdarrayCodec(), False),
            UnischemaField("packed_words", np.str_, (2,), CompressedNdarrayCodec(), True),
            UnischemaField("png", np.uint8, (7, 5, 3), CompressedImageCodec("png"), True),
            UnischemaField("png16", np.uint16, (7, 5, 3), CompressedImageCodec("png"), False),
            UnischemaField("grey", np.uint8, (7, 5), CompressedImageCodec("png"), True),
            UnischemaField("grey16", np.uint16, (7, 5), CompressedImageCodec("png"), False),
            UnischemaField("any_png", np.uint8, (None, None, 3), CompressedImageCodec("png"), True),
            UnischemaField("any_grey16", np.uint16, (None, None), CompressedImageCodec("png"), True),
            UnischemaField("jpeg", np.uint8, (32, 48, 3), CompressedImageCodec("jpeg", 92), True),
            UnischemaField("grey_jpeg", np.uint8, (32, 48), CompressedImageCodec("jpeg", 92), True),
            UnischemaField("any_jpeg", np.uint8, (None, None, 3), CompressedImageCodec("jpeg", 92), True),
            UnischemaField("part", np.str_, (), ScalarCodec(T.StringType()), False),
            UnischemaField("number", np.int32, (), ScalarCodec(T.IntegerType()), False),
        ],
    )
    made = [_row(number) for number in range(count)]
    keys = ("part", "number")
    files = {}
    for row in made:
        insert_explicit_nulls(schema, row)
        cells = {}
        for name, field in schema.fields.items():
            value = row[name]
            if value is not None and field.codec:
                value = field.codec.encode(field, value)
            elif isinstance(value, np.generic):
                value = value.tolist()
            cells[name] = bytes(value) if isinstance(value, bytearray) else value
        files.setdefault(tuple(cells.pop(key) for key in keys), []).append(cells)
    kinds = {
        "ByteType": pa.int8(),
        "ShortType": pa.int16(),
        "IntegerType": pa.int32(),
        "LongType": pa.int64(),
        "FloatType": pa.float32(),
        "BooleanType": pa.bool_(),
        "StringType": pa.string(),
        "BinaryType": pa.binary(),
        "DecimalType": pa.decimal128(10, 3),
        "DateType": pa.date32(),
        "TimestampType": pa.timestamp("us"),
    }
    no_codec = {"double": pa.float64(), "bare": pa.string()}
    sheet = pa.schema(
        [
            pa.field(name, no_codec[name] if field.codec is None else kinds[type(field.codec.spark_dtype()).__name__])
            for name, field in schema.fields.items()
            if name not in keys
        ]
    )
    counts = {}
    for values, cells in files.items():
        relative = os.path.join(*(f"{key}={value}" for key, value in zip(keys, values)), "part-0.parquet")
        path = os.path.join(folder, relative)
        os.makedirs(os.path.dirname(path))
        pq.write_table(pa.Table.from_pylist(cells, sheet), path, row_group_size=4)
        counts[relative] = -(-len(cells) // 4)
    if old is not None:
        said = {
            b"dataset-toolkit.unischema.v1": _old_pickle(schema, **old),
            b"dataset-toolkit.num_row_groups_per_file.v1": json.dumps(counts).encode(),
        }
        pq.write_metadata(sheet.with_metadata(said), os.path.join(folder, "_common_metadata"))
        return
    from petastorm import utils
    from petastorm.etl import dataset_metadata as metadata

    dataset = pq.ParquetDataset(folder, use_legacy_dataset=True, validate_schema=False)
    metadata._generate_unischema_metadata(dataset, schema)
    dataset = pq.ParquetDataset(folder, use_legacy_dataset=True, validate_schema=False)
    utils.add_to_dataset_metadata(dataset, metadata.ROW_GROUPS_PER_FILE_KEY, json.dumps(counts))


def _old_pickle(schema, protocol, restored):
    """Pickles the schema as versions until 0.7 did: on Python 2 with protocol 0 and the numpy names of that
    time, on Python 3 with protocol 3. With ``restored`` the fields are named tuples that PySpark has
    replaced; otherwise they are unchanged."""
    import io

    import pyspark.serializers
    from petastorm.unischema import UnischemaField

    class Pickler(pickle.Pickler):
        def reducer_override(self, thing):
            if restored and type(thing) is UnischemaField:
                return pyspark.serializers._restore, ("UnischemaField", UnischemaField._fields, tuple(thing))
            return NotImplemented

    out = io.BytesIO()
    Pickler(out, protocol).dump(schema)
    pickled = out.getvalue()
    if protocol == 0:
        for new, before in ((b"str_", b"unicode_"), (b"bytes_", b"string_")):
            pickled = pickled.replace(b"cnumpy\n" + new + b"\n", b"cnumpy\n" + before + b"\n")
    return pickled


def _row(number):
    import datetime
    import decimal

    import numpy as np

    rng = np.random.RandomState(number)
    day = datetime.date(1969, 12, 30) + datetime.timedelta(days=number)
    at = datetime.datetime(1969, 12, 30, 1, 2, 3, 456789) + datetime.timedelta(hours=7 * number)
    ramp = np.add.outer(np.arange(32) * 5, np.arange(48) * 2).astype(np.uint8) // 2 + np.uint8(number)
    photo = np.stack([ramp, ramp[::-1], ramp.T.reshape(32, 48)], axis=-1)
    row = {
        "id": number,
        "byte": np.int8(number - 5),
        "small": np.uint8(200 + number),
        "maybe": np.int32(-number),
        "far": np.uint16(60000 + number),
        "real": np.float32(number / 3),
        "double": number / 3,
        "flag": number % 2 == 0,
        "text": "ä" * number,
        "bare": f"bare {number}",
        "price": decimal.Decimal(number) / 8,
        "day": day,
        "at": at,
        "matrix": rng.rand(2, 3).astype(np.float32),
        "fortran": np.asfortranarray(rng.rand(3, 2)),
        "half": rng.rand(4).astype(np.float16),
        "bools": rng.rand(3) > 0.5,
        "scalar_array": np.array(number, np.int32),
        "open": rng.randint(-9, 9, (number % 4, 2)).astype(np.int16),
        "words": np.array(["", "ä", "word" * number]),
        "strings": np.array([b"", b"x" * number]),
        "times": np.array([at, at], "datetime64[us]"),
        "packed": rng.randint(0, 1 << 31, (2, 2)).astype(np.uint32),
        "packed_open": rng.rand(number % 5),
        "packed_words": np.array(["one", "two" * number]),
        "png": rng.randint(0, 256, (7, 5, 3)).astype(np.uint8),
        "png16": rng.randint(0, 1 << 16, (7, 5, 3)).astype(np.uint16),
        "grey": rng.randint(0, 256, (7, 5)).astype(np.uint8),
        "grey16": rng.randint(0, 1 << 16, (7, 5)).astype(np.uint16),
        "any_png": rng.randint(0, 256, (1 + number % 5, 4, 3)).astype(np.uint8),
        "any_grey16": rng.randint(0, 1 << 16, (3, 1 + number % 7)).astype(np.uint16),
        "jpeg": photo,
        "grey_jpeg": ramp,
        "any_jpeg": photo[: 8 + number % 9],
    }
    # These columns have no nulls. The times in ``at`` have none because Petastorm raises an error for them.
    always = ("at", "id", "small", "far", "matrix", "half", "strings", "packed_open", "png16", "grey16")
    if number % 3 == 0:
        row = {name: value if name in always else None for name, value in row.items()}
    return {**row, "part": f"p {number % 2}", "number": 7 + number % 2}


def plain(folder):
    """Writes Parquet files without a Petastorm schema, of the types that it can read."""
    import datetime
    import decimal

    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    for file in range(2):
        some = [None if 4 <= i < 6 else i for i in range(10)]
        table = pa.table(
            {
                "id": pa.array(range(file * 10, file * 10 + 10), pa.int64()),
                "i8": pa.array(some, pa.int8()),
                "u8": pa.array(some, pa.uint8()),
                "i16": pa.array(some, pa.int16()),
                "i32": pa.array(some, pa.int32()),
                "f32": pa.array(some, pa.float32()),
                "f64": pa.array(some, pa.float64()),
                "flag": pa.array([None if i is None else i > 3 for i in some]),
                "text": pa.array([None if i is None else "ä" * i for i in some]),
                "bytes": pa.array([None if i is None else b"x" * i for i in some]),
                "fixed": pa.array([None if i is None else b"%02d" % i for i in some], pa.binary(2)),
                "day": pa.array([None if i is None else datetime.date(1970, 1, 1 + i) for i in some]),
                "at": pa.array(
                    [None if i is None else datetime.datetime(1970, 1, 1, i) for i in some], pa.timestamp("us")
                ),
                "at_ms": pa.array([datetime.datetime(1970, 1, 1, i) for i in range(10)], pa.timestamp("ms")),
                "price": pa.array([None if i is None else decimal.Decimal(i) / 8 for i in some], pa.decimal128(9, 3)),
                "ints": pa.array([[i, -i] for i in range(10)], pa.list_(pa.int32())),
                "floats": pa.array([[i / 3, None, 0] for i in range(10)], pa.list_(pa.float32())),
                "words": pa.array([[str(i), "w"] for i in range(10)]),
            }
        )
        pq.write_table(table, f"{folder}/{file}.parquet", row_group_size=4)
    assert np


CALLS = {"rows": rows, "batches": batches, "split": split, "selected": selected, "write": write, "plain": plain}

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    import pyarrow
    import pyspark.serializers

    if not hasattr(pyarrow, "register_default_serialization_handlers"):
        # Petastorm imports this function in versions before 0.8, but calls it only for process pools.
        pyarrow.register_default_serialization_handlers = None
    if not hasattr(pyspark.serializers, "_restore"):
        # Old versions of PySpark pickled a named tuple as a call of this function, which later ones lack.
        import petastorm.unischema

        def _restore(name, names, values):
            return getattr(petastorm.unischema, name)(*values)

        _restore.__module__, _restore.__qualname__ = pyspark.serializers.__name__, "_restore"
        pyspark.serializers._restore = _restore
    gave = []
    for function, arguments in json.load(sys.stdin):
        try:
            gave.append(CALLS[function](**arguments))
        except Exception as error:
            gave.append(error.__class__.__name__ + ": " + str(error))
    with open(sys.argv[1], "wb") as out:
        pickle.dump(gave, out, protocol=4)
