"""Tables of random rows: each kind is a function of a generator and a number of rows."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

# Criteo's logs have 13 columns of numbers and 26 of categories: the share of nulls in each column of numbers,
# and the number of distinct values in each column of categories.
CLICK_NULLS = [0.45, 0.0, 0.21, 0.22, 0.03, 0.22, 0.04, 0.0005, 0.04, 0.45, 0.04, 0.76, 0.22]
# fmt: off
CLICK_VALUES = [
    1_460, 583, 8_000_000, 2_000_000, 305, 24, 12_517, 633, 3, 93_145, 5_683, 7_000_000, 3_194, 27, 14_992, 5_000_000,
    10, 5_652, 2_173, 4, 6_500_000, 18, 15, 286_181, 105, 142_572,
]
# fmt: on
COLUMNS_WITH_NULLS = 10  # of each type
TEXTS = tuple(f"value-{at:05d}-{'x' * (at % 7)}" for at in range(1_000))  # some longer than an Arrow view
TEXT_COLUMNS = 12
# fmt: off
WORDS = np.array([
    "a", "and", "at", "bird", "cat", "dog", "field", "grass", "in", "man", "near", "of", "on", "red", "sits", "small",
    "the", "two", "white", "woman",
])
# fmt: on
CAPTIONS = 5  # of each row
WORDS_OF_CAPTION = 10
OBJECTS = 12  # at most, in each row


def common_first(random, rows, values):
    """Draws numbers from 0 on: small ones are frequent and large ones rare, like words in a text."""
    numbers = np.exp(random.random(rows, np.float32) * np.float32(np.log1p(values)))
    return np.minimum(numbers, values).astype(np.int32) - 1


def clicks(random, rows):
    """Draws a label, 13 nullable numbers with a long tail, and 26 categories."""
    columns = {"label": random.integers(0, 2, rows, np.int32)}
    for at, share in enumerate(CLICK_NULLS, 1):
        numbers = np.floor(np.exp(2 + 1.5 * random.standard_normal(rows, np.float32)))
        columns[f"I{at}"] = pa.array(numbers, mask=random.random(rows, np.float32) < share)
    for at, values in enumerate(CLICK_VALUES, 1):
        columns[f"C{at}"] = common_first(random, rows, values)
    fields = [pa.field(name, pa.array(column).type, nullable=name[0] == "I") for name, column in columns.items()]
    return pa.table(columns, schema=pa.schema(fields))


def floats(columns):
    """Returns a function that draws columns of random float32."""

    def draw(random, rows):
        return pa.table({f"c{at}": random.random(rows, np.float32) for at in range(columns)})

    return draw


def integers(dtype):
    """Returns a function that draws one column of random integers."""
    limits = np.iinfo(dtype)
    return lambda random, rows: pa.table({"x": random.integers(limits.min, limits.max, rows, dtype)})


def fixed_lists(length):
    """Returns a function that draws lists of float32 of one length."""

    def draw(random, rows):
        return pa.table({"x": pa.FixedSizeListArray.from_arrays(random.random(rows * length, np.float32), length)})

    return draw


def offsets(random, rows, length):
    """Draws the offsets of rows that have between half and one and a half times ``length`` items."""
    lengths = random.integers(length // 2, length + length // 2, rows, endpoint=True)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)


def random_floats(random, size):
    return random.random(size, np.float32)


def random_bytes(random, size):
    return random.integers(0, 256, size, np.uint8)


def lists(length, values=random_floats):
    """Returns a function that draws lists of differing lengths."""

    def draw(random, rows):
        begin = offsets(random, rows, length)
        return pa.table({"x": pa.ListArray.from_arrays(begin, values(random, begin[-1]))})

    return draw


def binary(length):
    """Returns a function that draws random bytes of differing lengths."""

    def draw(random, rows):
        begin = offsets(random, rows, length)
        buffers = [None, pa.py_buffer(begin), pa.py_buffer(random.bytes(begin[-1]))]
        return pa.table({"x": pa.BinaryArray.from_buffers(pa.binary(), rows, buffers)})

    return draw


def fixed_binary(length):
    """Returns a function that draws random bytes of one length."""

    def draw(random, rows):
        buffers = [None, pa.py_buffer(random.bytes(rows * length))]
        return pa.table({"x": pa.FixedSizeBinaryArray.from_buffers(pa.binary(length), rows, buffers)})

    return draw


def tokens(length, vocabulary=50_257):
    """Returns a function that draws lists of equal length, in a column type that allows any length."""

    def draw(random, rows):
        begin = np.arange(rows + 1, dtype=np.int32) * length
        return pa.table({"x": pa.ListArray.from_arrays(begin, common_first(random, rows * length, vocabulary))})

    return draw


def with_nulls(share):
    """Returns a function that draws columns of float32 and of int64, with that share of nulls."""

    def draw(random, rows):
        def column(values):
            return pa.array(values, mask=random.random(rows, np.float32) < share if share else None)

        numbers = range(COLUMNS_WITH_NULLS)
        drawn = {f"f{at}": column(random.random(rows, np.float32)) for at in numbers}
        return pa.table(drawn | {f"i{at}": column(random.integers(0, 2**40, rows)) for at in numbers})

    return draw


def categories(random, rows):
    """Draws 20 columns of int32 that every encoding can hold."""
    return pa.table({f"c{at}": common_first(random, rows, 30_000) for at in range(20)})


def texts(random, rows):
    """Draws columns of categories as text, and a target."""
    texts = pa.array(TEXTS)
    columns = {f"c{at}": texts.take(random.integers(len(TEXTS), size=rows)) for at in range(TEXT_COLUMNS)}
    return pa.table(columns | {"y": random.standard_normal(rows, np.float32)})


def keys(random, rows):
    """Draws numbers, and a key with 100 values that are equally frequent and scattered."""
    columns = {f"f{at}": random.standard_normal(rows, np.float32) for at in range(10)}
    return pa.table(columns | {"key": (random.permutation(rows) * 100 // rows).astype(np.int32)})


def sorted_keys(random, rows):
    """Draws the same as `keys`, sorted by the key."""
    return keys(random, rows).sort_by("key")


def numbers_and_target(columns):
    """Returns a function that draws columns of normal float32, and an integer."""

    def draw(random, rows):
        drawn = {f"f{at}": random.standard_normal(rows, np.float32) for at in range(columns)}
        return pa.table(drawn | {"y": np.arange(rows)})

    return draw


def structures(random, rows):
    """Draws a number, and a structure of ten numbers that contains a structure of ten other numbers."""

    def ten(name, *more):
        arrays = [pa.array(random.standard_normal(rows, np.float32)) for _ in range(10)] + [array for _, array in more]
        return pa.StructArray.from_arrays(arrays, [*(f"{name}{at}" for at in range(10)), *(name for name, _ in more)])

    return pa.table({"y": np.arange(rows), "s": ten("a", ("t", ten("b")))})


def objects(random, rows):
    """Draws an id, and a list of up to a dozen boxes with a label and an area."""
    begin = np.concatenate([[0], np.cumsum(random.integers(0, OBJECTS, rows, endpoint=True))]).astype(np.int32)
    boxes = pa.FixedSizeListArray.from_arrays(random.random(4 * begin[-1], np.float32), 4)
    labels = random.integers(0, 80, begin[-1], np.int32)
    fields = [boxes, pa.array(labels), pa.array(random.random(begin[-1], np.float32))]
    items = pa.StructArray.from_arrays(fields, ["box", "label", "area"])
    return pa.table({"id": np.arange(rows), "objects": pa.ListArray.from_arrays(begin, items)})


def captions(random, rows):
    """Draws an id, and a list of five sentences."""
    words = WORDS[random.integers(len(WORDS), size=(rows * CAPTIONS, WORDS_OF_CAPTION))]
    begin = np.arange(rows + 1, dtype=np.int32) * CAPTIONS
    texts = pa.array([" ".join(sentence) for sentence in words.tolist()])
    return pa.table({"id": np.arange(rows), "captions": pa.ListArray.from_arrays(begin, texts)})


def doubles(random, rows):
    """Draws ten columns of float64 and ten of int64, whose integers also fit int32."""
    drawn = {f"f{at}": random.standard_normal(rows, np.float32).astype(np.float64) for at in range(10)}
    return pa.table(drawn | {f"i{at}": random.integers(0, 2**31, rows) for at in range(10)})


def documents(random, rows):
    """Draws lists of tokens, 8 to 2,048 in a list and about 500 on average, and their lengths."""
    lengths = np.minimum(8 + random.lognormal(5.9, 0.8, rows), 2_048).astype(np.int32)
    begin = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    return pa.table({"n": lengths, "tokens": pa.ListArray.from_arrays(begin, common_first(random, begin[-1], 50_257))})


def photographs(random, rows):
    """Draws JPEGs of 500x375 with `forebay synth`; their statistics are like those of photographs."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, "-m", "forebay", "synth", folder, "--rows", str(rows)]
        subprocess.run(words, check=True, capture_output=True)
        return pq.read_table(folder, columns=["image", "label"])
