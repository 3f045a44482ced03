"""Makes a ``tf.data.Dataset`` from a reader."""

from __future__ import annotations

import datetime
import decimal
import warnings
from calendar import timegm
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..adapters.missing import missing

try:
    import tensorflow as tf
except ImportError as error:
    raise missing("petastorm.tf_utils", "TensorFlow", "tensorflow", error) from error

from ..errors import UnsupportedError
from ._refused import absent
from .reader import Reader
from .unischema import UnischemaField, type_name

__all__ = ["date_to_nsec_from_epoch", "make_petastorm_dataset"]

tf_tensors = absent("tf_tensors")

#: The TensorFlow types for the numpy types that TensorFlow does not have, or has under another name.
_TYPES = {
    "uint16": "int32",
    "uint32": "int64",
    "bytes_": "string",
    "str_": "string",
    "Decimal": "string",
    "datetime64": "int64",
}

_NANOSECONDS = 1_000_000_000


def make_petastorm_dataset(reader: Reader) -> Any:
    """Returns a ``tf.data.Dataset`` of the reader's rows or batches, each a named tuple of tensors.

    Decimals become text, times become nanoseconds since 1970, and ``uint16`` and ``uint32`` become the next
    larger signed type. Under ``tf.distribute`` each worker makes its own reader, with ``cur_shard`` and
    ``shard_count``, because a strategy does not divide this data set.

    Parameters
    ----------
    reader : Reader
        The reader. Iterating over the data set again resets the reader, which takes longer than a reader that
        was made with ``num_epochs=`` for all passes.

    Returns
    -------
    tf.data.Dataset
        The data set.
    """

    def generated() -> Iterator[Any]:
        if reader.last_row_consumed:
            warnings.warn(
                "Running multiple iterations over make_petastorm_dataset is not recommend for performance issue: the "
                "reader is reset for another pass (pass num_epochs= to the reader, or use cache() of the data set)",
                stacklevel=2,
            )
            reader.reset()
        for row in reader:
            yield tuple(_sanitize_field_tf_types(row))

    signature = tuple(_spec(field, reader.batched_output) for field in reader.schema.fields.values())
    row_type = reader.schema._get_namedtuple()
    # The data set is of TensorFlow 1's class, because older scripts call methods that only this class has,
    # such as make_one_shot_iterator.
    kind = tf.compat.v1.data.Dataset
    made = kind.from_generator(generated, output_signature=signature).map(lambda *values: row_type(*values))
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return made.with_options(options)


def date_to_nsec_from_epoch(dt: Any) -> int:
    """Returns the nanoseconds from 1970 to a date."""
    return timegm(dt.timetuple()) * _NANOSECONDS


def _spec(field: UnischemaField, is_batched: bool) -> Any:
    sides = tuple(field.shape)
    return tf.TensorSpec((None, *sides) if is_batched else sides, _numpy_to_tf_dtypes(field.numpy_dtype))


def _numpy_to_tf_dtypes(numpy_dtype: Any) -> Any:
    """Returns the TensorFlow type for the values of a field."""
    name = type_name(numpy_dtype)
    try:
        return tf.dtypes.as_dtype(_TYPES.get(name, name))
    except TypeError:
        raise UnsupportedError(f"TensorFlow has no type for {numpy_dtype}") from None


def _sanitize_field_tf_types(sample: Any) -> Any:
    """Returns the row with values that TensorFlow accepts."""
    return type(sample)._make(map(_sanitized, sample._fields, sample))


def _sanitized(name: str, value: Any) -> Any:
    if value is None:
        raise RuntimeError(
            f'Encountered "{name}"=None. Tensorflow does not support None values as a tensor. '
            "Consider filtering out these rows using a predicate."
        )
    if isinstance(value, decimal.Decimal):
        return str(value.normalize())
    if isinstance(value, np.datetime64):
        return value.astype("datetime64[ns]").astype(np.int64)
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind == "M":
        return value.astype("datetime64[ns]").astype(np.int64)
    if value.dtype == np.uint16:
        return value.astype(np.int32)
    if value.dtype == np.uint32:
        return value.astype(np.int64)
    return _objects(value) if value.dtype == object and value.size else value


def _objects(values: Any) -> Any:
    """Converts an array of objects: dates become nanoseconds, decimals become text, others stay as they
    are."""
    first = values.flat[0]
    if isinstance(first, datetime.date):
        return np.array([date_to_nsec_from_epoch(one) for one in values.flat], np.int64).reshape(values.shape)
    if isinstance(first, decimal.Decimal):
        return np.array([str(one.normalize()) for one in values.flat], object).reshape(values.shape)
    return values
