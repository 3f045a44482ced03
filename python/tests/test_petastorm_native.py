"""The schema of Petastorm, as the compiled half returns it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from forebay import _forebay

KEY = b"dataset-toolkit.unischema.v1"

#: A schema as Petastorm pickles it, with an image, a number of Spark's DecimalType and an array.
PICKLE = (
    b"\x80\x02cpetastorm.unischema\nUnischema\n)\x81}(U\x05_nameU\x06PhotosU\x07_fieldsccollections\nOrderedDict\n)R("
    b"U\x05imagecpetastorm.unischema\nUnischemaField\n(U\x05imagecnumpy\nuint8\nNNK\x03\x87"
    b"cpetastorm.codecs\nCompressedImageCodec\n)\x81}(U\x0c_image_codecU\x05.jpegU\x08_qualityKPub\x89t\x81"
    b"U\x05pricecpetastorm.unischema\nUnischemaField\n(U\x05pricecdecimal\nDecimal\n)"
    b"cpetastorm.codecs\nScalarCodec\n)\x81}U\x0b_spark_typecpyspark.sql.types\nDecimalType\n)\x81}("
    b"U\tprecisionK\nU\x05scaleK\tU\x10hasPrecisionInfo\x88ubsb\x88t\x81"
    b"U\x05boxescpetastorm.unischema\nUnischemaField\n(U\x05boxescnumpy\nfloat32\nNK\x04\x86"
    b"cpetastorm.codecs\nNdarrayCodec\n)\x81\x89t\x81"
    b"uub."
)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    table = pa.table({"image": pa.array([b""], pa.binary())})
    pq.write_table(table, tmp_path / "a.parquet")
    return tmp_path


def put(folder: Path, pickle: bytes) -> None:
    schema = pa.schema([("image", pa.binary())], metadata={KEY: pickle})
    pq.write_metadata(schema, folder / "_common_metadata")


def test_a_schema_is_plain_values(photos: Path) -> None:
    assert _forebay.petastorm_schema(str(photos), {}) is None
    put(photos, PICKLE)
    assert _forebay.petastorm_schema(str(photos), {}) == (
        "Photos",
        [
            ("image", "uint8", (None, None, 3), ("image", "jpeg", 80), False),
            ("price", "Decimal", (), ("scalar", "DecimalType", 10, 9), True),
            ("boxes", "float32", (None, 4), ("ndarray",), False),
        ],
    )


def test_what_is_no_schema_is_refused_with_its_file(photos: Path) -> None:
    put(photos, b"\x80\x02cos\nsystem\n(U\x04trueto.")
    with pytest.raises(fb.UnsupportedError, match="os.system") as refused:
        _forebay.petastorm_schema(str(photos), {})
    assert str(photos / "_common_metadata") in str(refused.value)
    with pytest.raises(FileNotFoundError):
        _forebay.petastorm_schema(str(photos / "none"), {})
