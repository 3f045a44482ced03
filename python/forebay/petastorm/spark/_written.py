"""Writes Spark DataFrames as Parquet, each one once in a process, and removes the files on request or when
the process ends."""

from __future__ import annotations

import atexit
import datetime
import logging
import threading
import uuid
from collections.abc import Callable
from typing import Any, NamedTuple

from pyspark.sql import DataFrame, SparkSession

from ...spark import columns as spark_columns
from ...spark.errors import told

__all__: list[str] = []

_LOG = logging.getLogger("forebay")

#: The names that Parquet writers use for compression codecs, if they differ from Spark's names.
_OF_PARQUET = {"lz4": "lz4_raw"}


class _Written(NamedTuple):
    """A DataFrame that this process wrote."""

    plan: Any
    options: tuple[Any, ...]
    url: str


_written: list[_Written] = []
_lock = threading.Lock()
_delete_handler: Callable[[str], None] | None = None


def written_once(frame: DataFrame, parent: str, options: tuple[Any, ...]) -> str:
    """Returns the URL of a DataFrame's Parquet files. They are written unless this process has written a
    DataFrame with the same query plan and options already."""
    plan = frame._jdf.queryExecution().analyzed()
    with _lock:
        for one in _written:
            if one.options == options and one.plan.sameResult(plan):
                return one.url
        url = _write(frame, parent, *options[1:])
        _written.append(_Written(plan, options, url))
    return url


def _write(frame: DataFrame, parent: str, row_group_size: int, codec: str, dtype: str | None) -> str:
    """Writes a DataFrame into a new folder, which is removed when the process ends."""
    if dtype not in (None, "float32", "float64"):
        raise ValueError(f"dtype {dtype} is not supported. Use 'float32' or 'float64'")
    now = datetime.datetime.now().strftime("%Y%m%d%H%M%S")
    url = f"{parent}/{now}-appid-{frame.sparkSession.sparkContext.applicationId}-{uuid.uuid4()}"
    converted = spark_columns.converted(frame, dtype)
    options = {"compression": _OF_PARQUET.get(codec, codec), "parquet.block.size": row_group_size}
    with told(f"{url}: Spark cannot write the DataFrame", "correct it, or see Spark's log", url):
        converted.write.options(**options).parquet(url)
    atexit.register(_delete_at_exit, url)
    return url


def _delete_at_exit(url: str) -> None:
    try:
        _delete(url)
    except Exception as error:
        _LOG.warning("%s could not be removed: %s", url, error)


def _delete(url: str) -> None:
    if _delete_handler is not None:
        _delete_handler(url)
        return
    session = SparkSession.getActiveSession() or SparkSession.builder.getOrCreate()
    path = session._jvm.org.apache.hadoop.fs.Path(url)
    with told(f"{url}: the folder cannot be removed", "remove it yourself", url):
        path.getFileSystem(session._jsparkSession.sessionState().newHadoopConf()).delete(path, True)


def register_delete_dir_handler(handler: Callable[[str], None] | None) -> None:
    """Sets the function that removes a folder by its URL. None restores the default, Spark's file systems."""
    global _delete_handler
    _delete_handler = handler


def delete(url: str) -> None:
    """Removes the files that were written at a URL, and forgets them."""
    with _lock:
        _written[:] = [one for one in _written if one.url != url]
    _delete(url)
