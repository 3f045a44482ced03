"""Writes the pickles beside this file, of one schema with every kind of field.

    python write.py numpy1 0 2 4        with petastorm 0.13.1, pyspark 3.5, numpy 1.26
    python write.py numpy2 4            with pyspark 4.3, numpy 2.4, and unischema.py and codecs.py of the same petastorm
"""

import base64
import pickle
import sys
from decimal import Decimal
from pathlib import Path

import numpy as np
from petastorm.codecs import CompressedImageCodec, CompressedNdarrayCodec, NdarrayCodec, ScalarCodec
from petastorm.unischema import Unischema, UnischemaField
from pyspark.sql.types import ArrayType, DecimalType, IntegerType, LongType, TimestampType, VarcharType

FIELDS = [
    ("id", np.int64, (), ScalarCodec(LongType()), False),
    ("image", np.uint8, (None, None, 3), CompressedImageCodec("jpeg", 90), True),
    ("price", Decimal, (), ScalarCodec(DecimalType(12, 3)), False),
    ("array", np.float32, (None, 300, 70000, 2**40), NdarrayCodec(), False),
    ("packed", np.str_, (2,), CompressedNdarrayCodec(), False),
    ("plain", np.bool_, (), None, True),
    ("python", int, ()),
    ("swapped", np.dtype(">i8"), (3,), NdarrayCodec()),
    ("text", np.dtype("U5"), (3,), NdarrayCodec()),
    ("time", np.dtype("M8[ns]"), (3,), NdarrayCodec()),
    ("bytes", np.bytes_, (None,), NdarrayCodec()),
    ("when", np.datetime64, (), ScalarCodec(TimestampType())),
    ("numbers", np.int32, (np.int64(5), np.uint16(700)), NdarrayCodec(), np.True_),
    ("list", np.int32, (None,), ScalarCodec(ArrayType(IntegerType()))),
    ("short", np.str_, (), ScalarCodec(VarcharType(10))),
]

numpy, *protocols = sys.argv[1:]
schema = Unischema("All", [UnischemaField(*field) for field in FIELDS])
for protocol in protocols:
    text = base64.b64encode(pickle.dumps(schema, int(protocol))).decode()
    lines = [text[at : at + 100] for at in range(0, len(text), 100)]
    (Path(__file__).parent / f"{numpy}-protocol{protocol}.txt").write_text("\n".join(lines) + "\n")
