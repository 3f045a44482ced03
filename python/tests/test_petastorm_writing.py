"""``forebay.petastorm.write``: what a value may be, and the row and the field in the errors."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pytest

import forebay as fb
from forebay.petastorm import make_reader
from forebay.petastorm.codecs import CompressedImageCodec, NdarrayCodec, ScalarCodec
from forebay.petastorm.unischema import Unischema, UnischemaField

ID = UnischemaField("id", np.int64, (), ScalarCodec("LongType"), False)


def url_of(folder):
    return f"file://{folder}/data"


def of(dtype, codec, shape=(), nullable=True):
    return Unischema("S", [ID, UnischemaField("x", dtype, shape, codec, nullable)])


def scalar(dtype, kind):
    return of(dtype, ScalarCodec(kind))


UNFIT = [
    (scalar(np.int8, "ByteType"), 1.5, "1.5 is not a whole number"),
    (scalar(np.uint8, "ShortType"), 256, "256 is beyond uint8"),
    (scalar(np.int32, "IntegerType"), 1 << 31, "is beyond int32"),
    (scalar(np.int64, "LongType"), "7", "'7' is not a whole number"),
    (of(np.int16, None), "x", "'x' is not a whole number"),
    (of(np.int16, None), 0.5, "0.5 is not a whole number"),
    (scalar(np.float32, "FloatType"), 1e300, r"1e\+300 is beyond float32"),
    (scalar(np.bool_, "BooleanType"), "no", "'no' is neither true nor false"),
    (scalar(np.str_, "StringType"), 7, "expected a str, got int"),
    (of(np.str_, None), 7, "7 is not stored as string"),
    (of(np.bytes_, None), b"\xff", "is not stored as string"),
    (scalar(decimal.Decimal, "DecimalType"), decimal.Decimal("1.25"), r"1.25'\) is not stored as decimal128\(10, 0\)"),
    (scalar(decimal.Decimal, "DecimalType(4, 2)"), decimal.Decimal("123.4"), r"decimal128\(4, 2\)"),
    (scalar(np.datetime64, "DateType"), datetime.datetime(2020, 1, 1, 5), "has a time of day, and a DateType has none"),
    (scalar(np.datetime64, "DateType"), 5, "expected a date or a time, got int"),
    (scalar(np.datetime64, "TimestampType"), np.datetime64(1, "ns"), "more digits than microseconds"),
    (of(np.float32, NdarrayCodec(), (2,)), np.zeros(3, np.float32), "Unexpected dimensions"),
    (of(np.float32, NdarrayCodec(), (2,)), [0.0, 1.0], "expected an array of float32, got list"),
    (of(np.uint8, CompressedImageCodec("png"), (2, 2, 3)), np.zeros((2, 2), np.uint8), "Unexpected dimensions"),
    (of(np.int8, None, nullable=False), None, "not nullable"),
]


@pytest.mark.parametrize(("schema", "value", "why"), UNFIT)
@pytest.mark.parametrize("row_group_rows", [1, 100])
def test_a_value_that_does_not_fit_is_an_error_with_its_row_and_field(tmp_path, schema, value, why, row_group_rows):
    rows = [{"id": 0, "x": None}, {"id": 1, "x": None}, {"id": 2, "x": value}, {"id": 3, "x": None}]
    if not schema.x.nullable:
        rows = [{**row, "x": 1} if row["id"] != 2 else row for row in rows]
    with pytest.raises(fb.InvalidError, match=f"row 2, field 'x': .*({why})"):
        fb.petastorm.write(rows, schema, url_of(tmp_path), row_group_rows=row_group_rows)
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_row_of_other_fields_is_an_error_with_its_number(tmp_path):
    for row, why in (({"id": 1, "y": 2}, "y are not in the schema"), ({}, "id is not found"), (7, "each row is a dict")):
        with pytest.raises(fb.InvalidError, match=rf"row 1: .*{why}"):
            fb.petastorm.write([{"id": 0}, row], of(np.int8, None), url_of(tmp_path))


def test_the_value_of_a_folder_that_does_not_fit_is_an_error_with_its_row(tmp_path):
    schema = Unischema("S", [ID, UnischemaField("who", np.str_, (), None, False)])
    rows = [{"id": 0, "who": "a"}, {"id": 1, "who": 5}]
    with pytest.raises(fb.InvalidError, match="row 1, field 'who': 5 is not stored as string"):
        fb.petastorm.write(rows, schema, url_of(tmp_path), partition_columns=["who"])
    rows = [{"id": number, "who": "ab"[number % 2]} for number in range(4)]
    schema = Unischema("S", [*schema.fields.values(), UnischemaField("x", np.str_, (), None, True)])
    with pytest.raises(fb.InvalidError, match="row 2, field 'x'"):
        fb.petastorm.write(
            ({**row, "x": 7 if row["id"] == 2 else "x"} for row in rows),
            schema,
            url_of(tmp_path),
            partition_columns=["who"],
        )
    assert list(tmp_path.rglob("*.parquet")) == []


def test_a_decimal_has_its_digits_without_pyspark(tmp_path):
    codec = ScalarCodec("DecimalType(12, 4)")
    assert str(codec) == "ScalarCodec(DecimalType(12, 4))" == str(ScalarCodec("DecimalType( 12,4 )"))
    schema = of(decimal.Decimal, codec)
    values = [decimal.Decimal("12345678.9012"), decimal.Decimal(-1), None]
    fb.petastorm.write(({"id": at, "x": value} for at, value in enumerate(values)), schema, url_of(tmp_path))
    with make_reader(url_of(tmp_path), shuffle_row_groups=False) as reader:
        assert str(reader.schema.x.codec) == str(codec)
        assert [row.x for row in reader] == values


@pytest.mark.parametrize("name", ["IntegrType", "DecimalType(3)", "DecimalType(3, 4)", "DecimalType(39, 1)", ""])
def test_a_type_of_spark_that_does_not_exist_is_refused(name):
    with pytest.raises(fb.InvalidError, match="DecimalType"):
        ScalarCodec(name)


def test_times_may_be_those_of_numpy(tmp_path):
    fields = [
        UnischemaField("day", np.datetime64, (), ScalarCodec("DateType"), True),
        UnischemaField("at", np.datetime64, (), ScalarCodec("TimestampType"), True),
    ]
    rows = [
        {"id": 0, "day": np.datetime64("1969-12-31"), "at": np.datetime64("2020-01-02T03:04:05.678901")},
        {"id": 1, "day": datetime.datetime(2020, 1, 1), "at": np.datetime64("2020-01-02T03")},
        {"id": 2, "day": datetime.date(2020, 1, 1), "at": datetime.date(2020, 1, 2)},
        {"id": 3},
    ]
    fb.petastorm.write(rows, Unischema("S", [ID, *fields]), url_of(tmp_path))
    with make_reader(url_of(tmp_path), shuffle_row_groups=False) as reader:
        found = [(row.day, row.at) for row in reader]
    assert found[:3] == [
        (np.datetime64("1969-12-31"), np.datetime64("2020-01-02T03:04:05.678901")),
        (np.datetime64("2020-01-01"), np.datetime64("2020-01-02T03:00")),
        (np.datetime64("2020-01-01"), np.datetime64("2020-01-02T00:00")),
    ]
    assert found[3] == (None, None)
