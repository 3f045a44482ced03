"""Reads a Petastorm data set with Spark, as an RDD of decoded rows."""

from __future__ import annotations

from typing import Any

from ._stored import needed_schema
from .unischema import Unischema
from .utils import decode_row

__all__ = ["dataset_as_rdd"]


def dataset_as_rdd(
    dataset_url: str, spark_session: Any, schema_fields: Any = None, hdfs_driver: str = "libhdfs3"
) -> Any:
    """Returns an RDD of decoded rows, each a named tuple.

    Parameters
    ----------
    dataset_url : str
        The data set.
    spark_session : pyspark.sql.SparkSession
        The session.
    schema_fields : list of UnischemaField or str, optional
        The fields to read. Default: all.
    hdfs_driver : str
        Not needed.
    """
    schema = needed_schema(dataset_url, None)
    frame = spark_session.read.parquet(dataset_url)
    if schema_fields is not None:
        schema = schema.create_schema_view(schema_fields)
        frame = frame.select(*schema.fields)
    return frame.rdd.map(_Decoded(schema))


class _Decoded:
    """Turns a Spark row into a named tuple of decoded values."""

    def __init__(self, schema: Unischema) -> None:
        self._schema = schema

    def __call__(self, row: Any) -> Any:
        return self._schema.make_namedtuple(**decode_row(row.asDict(), self._schema))
