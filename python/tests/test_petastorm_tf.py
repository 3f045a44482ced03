"""TensorFlow data sets over readers."""

from __future__ import annotations

import datetime
import decimal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from forebay.petastorm import TransformSpec, make_batch_reader, make_reader
from forebay.petastorm.codecs import CompressedImageCodec, NdarrayCodec, ScalarCodec
from forebay.petastorm.unischema import Unischema, UnischemaField

tf = pytest.importorskip("tensorflow")

from forebay.petastorm.tf_utils import make_petastorm_dataset, tf_tensors  # noqa: E402

Things = Unischema(
    "Things",
    [
        UnischemaField("id", np.int64, (), ScalarCodec("LongType"), False),
        UnischemaField("far", np.uint16, (), ScalarCodec("IntegerType"), False),
        UnischemaField("name", np.str_, (), ScalarCodec("StringType"), False),
        UnischemaField("price", decimal.Decimal, (), ScalarCodec("DecimalType"), False),
        UnischemaField("open", np.uint32, (None, 2), NdarrayCodec(), False),
        UnischemaField("words", np.str_, (None,), NdarrayCodec(), False),
        UnischemaField("image", np.uint8, (4, 5, 3), CompressedImageCodec("png"), False),
    ],
)


@pytest.fixture(scope="module")
def rows_url(tmp_path_factory):
    url = f"file://{tmp_path_factory.mktemp('tf')}/rows"
    rows = (
        {
            "id": i,
            "far": np.uint16(65000 + i),
            "name": f"row {i}",
            "price": decimal.Decimal(i) * 10,
            "open": np.full((i % 3, 2), 4_000_000_000, np.uint32),
            "words": np.array(["a", "b" * i]),
            "image": np.full((4, 5, 3), i, np.uint8),
        }
        for i in range(20)
    )
    fb.petastorm.write(rows, Things, url, row_group_rows=6)
    return url


@pytest.fixture(scope="module")
def batches_url(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tf")
    table = pa.table(
        {
            "id": np.arange(20),
            "text": [f"t{i}" for i in range(20)],
            "pair": [[i / 2, i] for i in range(20)],
            "day": [datetime.date(1970, 1, 1 + i) for i in range(20)],
            "at": pa.array([datetime.datetime(1970, 1, 1, i) for i in range(20)], pa.timestamp("us")),
        }
    )
    pq.write_table(table, folder / "a.parquet", row_group_size=6)
    return f"file://{folder}"


def test_rows_are_named_tuples_of_tensors_with_their_shapes(rows_url):
    with make_reader(rows_url, shuffle_row_groups=False) as reader:
        dataset = make_petastorm_dataset(reader)
        assert dataset.element_spec.image.shape == (4, 5, 3) and dataset.element_spec.open.shape.as_list() == [None, 2]
        rows = list(dataset)
    assert len(rows) == 20 and type(rows[0])._fields == tuple(Things.fields)
    for number, row in enumerate(rows):
        assert (row.id.numpy(), row.far.numpy(), row.far.dtype) == (number, 65000 + number, tf.int32)
        assert (
            row.name.numpy() == f"row {number}".encode() and decimal.Decimal(row.price.numpy().decode()) == number * 10
        )
        assert row.open.shape == (number % 3, 2) and row.open.dtype == tf.int64
        assert row.words.numpy().tolist() == [b"a", b"b" * number] and (row.image.numpy() == number).all()


def test_batches_are_named_tuples_of_tensors(batches_url):
    with make_batch_reader(batches_url, shuffle_row_groups=False) as reader:
        batches = list(make_petastorm_dataset(reader))
    assert [len(batch.id) for batch in batches] == [6, 6, 6, 2]
    assert batches[0].text.numpy().tolist() == [b"t0", b"t1", b"t2", b"t3", b"t4", b"t5"]
    assert batches[0].pair.shape == (6, 2) and batches[1].day.numpy()[0] == 6 * 86400 * 10**9
    assert batches[0].at.numpy()[3] == 3 * 3600 * 10**9


def test_a_second_pass_resets_the_reader_with_a_warning(batches_url):
    with make_batch_reader(batches_url, schema_fields=["id"]) as reader:
        dataset = make_petastorm_dataset(reader)
        assert sum(len(batch.id) for batch in dataset) == 20
        with pytest.warns(UserWarning, match="the reader is reset"):
            assert sum(len(batch.id) for batch in dataset) == 20


def test_a_data_set_has_the_methods_of_tensorflow_1(batches_url):
    with make_batch_reader(batches_url, schema_fields=["id"], shuffle_row_groups=False) as reader:
        iterator = make_petastorm_dataset(reader).unbatch().batch(4).make_one_shot_iterator()
        assert iterator.get_next().id.numpy().tolist() == [0, 1, 2, 3]


def test_keras_trains_on_it(batches_url):
    spec = TransformSpec(
        lambda frame: frame.assign(x=[np.asarray(pair, np.float32) for pair in frame["pair"]]),
        edit_fields=[("x", np.float32, (2,), False)],
        selected_fields=["x", "id"],
    )
    with make_batch_reader(batches_url, transform_spec=spec, num_epochs=None) as reader:
        dataset = make_petastorm_dataset(reader).unbatch().batch(5).map(lambda row: (row.x, row.id))
        model = tf.keras.Sequential([tf.keras.layers.Dense(1)])
        model.compile("sgd", "mse")
        history = model.fit(dataset, steps_per_epoch=8, epochs=2, verbose=0)
    assert len(history.history["loss"]) == 2


def test_a_strategy_divides_no_data_set_of_a_reader(batches_url):
    with make_batch_reader(batches_url, schema_fields=["id"]) as reader:
        dataset = make_petastorm_dataset(reader)
        policy = dataset.options().experimental_distribute.auto_shard_policy
        assert policy == tf.data.experimental.AutoShardPolicy.OFF


def test_nulls_and_what_is_left_out_are_refused(tmp_path):
    schema = Unischema("S", [UnischemaField("x", np.int32, (), ScalarCodec("IntegerType"), True)])
    fb.petastorm.write([{"x": None}], schema, f"file://{tmp_path}/nulls")
    with make_reader(f"file://{tmp_path}/nulls") as reader:
        with pytest.raises(tf.errors.OpError, match='Encountered "x"=None'):
            list(make_petastorm_dataset(reader))
    with pytest.raises(fb.UnsupportedError, match=r"tf_tensors.*make_petastorm_dataset"):
        tf_tensors(None)
