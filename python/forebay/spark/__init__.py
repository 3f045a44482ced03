"""DataFrames of Spark: written as Parquet once, and read by all processes of a ``TorchDistributor``.

Examples
--------
>>> import forebay as fb
>>> from pyspark.sql import SparkSession
>>> setup = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
>>> spark = setup.config("spark.driver.host", "127.0.0.1").getOrCreate()
>>> clicks = spark.range(1_000).selectExpr("id", "id % 10 AS label").where("label < 5")
>>> train = fb.spark.dataset(clicks, "prepared/")
>>> train.num_rows
500
>>> loader = fb.Loader(train, batch_size=125)
>>> len(loader)
4
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import re
import uuid
from collections.abc import Mapping
from typing import Any, NamedTuple

from ..adapters.missing import missing
from ..dataset import Dataset
from ..errors import ForebayError, InvalidError, IoError, UnsupportedError
from ..options.sizes import parse_bytes

try:
    import pyspark.sql as sql
    from pyspark.sql import functions
except ImportError as error:
    raise missing("spark", "Spark", "pyspark", error) from error

from . import columns as spark_columns
from . import plan as spark_plan
from . import table as spark_table
from .errors import told
from .folder import Folder

__all__ = ["Written", "dataset"]

_LOG = logging.getLogger("forebay")

#: Default size of a row group. The shuffle window of each process should have several row groups, and a row
#: group of Spark's default, 128 MiB, would fill a small window alone.
ROW_GROUP_SIZE = "32MiB"

#: The largest size of a row group that Spark accepts, in bytes.
_MAX_ROW_GROUP_SIZE = (1 << 31) - 1

#: The compression codecs that Spark writes and forebay reads; "uncompressed" is another name of "none".
_COMPRESSIONS = ("gzip", "lz4_raw", "none", "snappy", "uncompressed", "zstd")

#: Matches the names that a user may give a folder.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

#: Number of characters of the hash that tells apart data sets of one name that differ in columns or options.
_FORM_CHARACTERS = 12


class Written(Dataset):
    """The data set that :func:`dataset` wrote: a :class:`forebay.Dataset` that can be deleted.

    Unpickling makes a plain data set of it, because only Spark's driver process deletes data sets.
    """

    _folder: Folder | None = None
    _urls: str

    def delete(self) -> None:
        """Removes the files of the data set, and the folder with its name if it holds no other data set.

        No process may be reading the files. If another call of :func:`dataset` returned the same data set, it
        is removed too. If the files do not exist, or the data set is a table that was not copied, nothing
        happens.

        Raises
        ------
        IoError, DeniedError
            Spark cannot remove the folder.

        Examples
        --------
        >>> import forebay as fb
        >>> from pyspark.sql import SparkSession
        >>> spark = SparkSession.builder.getOrCreate()
        >>> train = fb.spark.dataset(spark.range(10), "prepared/")
        >>> train.delete()
        """
        url = self._urls
        if self._folder is None:
            return
        with told(f"{url}: the data set cannot be deleted", "remove the folder yourself", url):
            self._folder.remove_complete(url)


class _Options(NamedTuple):
    """The options with which a DataFrame is written."""

    row_group_size: int
    compression: str | None

    @classmethod
    def of(cls, row_group_size: Any, compression: Any) -> _Options:
        size = parse_bytes(row_group_size, "row_group_size")
        if size > _MAX_ROW_GROUP_SIZE:
            raise InvalidError(f"row_group_size must be less than 2 GiB, got {row_group_size!r}")
        if compression is not None and compression not in _COMPRESSIONS:
            known = ", ".join(map(repr, _COMPRESSIONS))
            raise InvalidError(f"compression must be one of {known}, got {compression!r}")
        return cls(size, compression)

    def for_spark(self) -> dict[str, Any]:
        # Spark must write the file _SUCCESS, which marks a complete folder, even if the session turned it
        # off.
        named = {
            "parquet.block.size": self.row_group_size,
            "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true",
            "compression": self.compression,
        }
        return {name: value for name, value in named.items() if value is not None}


def dataset(
    frame: Any,
    cache_url: str | os.PathLike[str],
    *,
    name: str | None = None,
    dtype: Any = None,
    row_group_size: int | str = ROW_GROUP_SIZE,
    compression: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Written:
    """Makes a data set of a DataFrame: Spark writes it as Parquet the first time, and later calls find the
    files.

    If a DataFrame only reads a Delta or Iceberg table, the table itself is opened, at the version or snapshot
    that the DataFrame shows, and nothing is written. If ``dtype`` or ``name`` is given, the DataFrame is
    written nevertheless.

    The name of the folder depends on the plan of the DataFrame, and on the path, size and time of each file
    that the plan reads. So the same program finds the folder that it wrote, and a DataFrame with another
    selection, another function or a changed file is written anew. If the plan does not determine the rows, as
    for a DataFrame that was made from Python rows, each call writes the DataFrame anew and logs a warning to
    the logger ``forebay``, unless ``name`` is given.

    Vectors of ``pyspark.ml`` become arrays, in which the zeros of sparse vectors are written out.

    Call this function in the driver, and pass the result to the training function: each process opens the
    same files, and raises an error if they have changed. Only complete folders are used: the folder of a
    driver that is killed while it writes is never read. No folder is removed before :meth:`Written.delete` is
    called.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        The rows to train on. All rows are written, in Spark's order.
    cache_url : str or os.PathLike
        Folder for the data sets, which Spark's executors and the training processes must be able to reach: a
        path on one machine or on a shared file system, or a URL such as ``s3://acme/prepared`` or
        ``hdfs://...``.
    name : str, optional
        Name of the folder, for a DataFrame whose plan does not determine its rows, such as a table in memory.
        Two DataFrames with the same name and the same columns count as the same data set. Default: the hash
        of the plan.
    dtype : "float32" or "float64", optional
        The type of all floats and doubles, also within arrays and structures, and of vectors. Default: types
        are not changed, and vectors are ``float64``.
    row_group_size : int or str, default "32MiB"
        Size of a row group in bytes, before compression.
    compression : str, optional
        ``"snappy"``, ``"gzip"``, ``"zstd"``, ``"lz4_raw"`` or ``"uncompressed"``. Default: the codec of the
        session, which is ``"snappy"`` unless it is configured otherwise.
    storage_options : mapping of str, optional
        Credentials and settings of the store, for forebay; see :class:`forebay.Dataset`. Spark uses its own
        settings.

    Returns
    -------
    Written
        The data set that was written, or the table. A process that unpickles it opens the same files.

    Raises
    ------
    InvalidError
        ``frame`` is a stream, or is not a DataFrame of classic Spark; another argument is malformed; or a
        Python function in the DataFrame raises an exception.
    UnsupportedError
        A column has a user-defined type that is not a vector.
    IoError, DeniedError
        Spark cannot read the DataFrame or write the folder; or not all rows that Spark wrote are found,
        because ``cache_url`` names a different folder on the executors' machines.

    Examples
    --------
    >>> import forebay as fb
    >>> from pyspark.sql import SparkSession
    >>> spark = SparkSession.builder.getOrCreate()
    >>> train = fb.spark.dataset(spark.range(1_000), "prepared/")
    >>> train.num_rows, train.columns
    (1000, ['id'])
    """
    _check(frame, name)
    if not isinstance(cache_url, (str, os.PathLike)):
        raise InvalidError(f"cache_url must be a path or URL of a folder, got {type(cache_url).__qualname__}")
    options, dtype = _Options.of(row_group_size, compression), spark_columns.precision(dtype)
    with told("the DataFrame cannot be read", "correct it, or see Spark's log"):
        if frame.isStreaming:
            raise InvalidError(
                "frame is a stream, which has no end (write it to a table, and pass a DataFrame of that)"
            )
        table = spark_table.version_of(frame) if name is None and dtype is None else None
    if table is not None:
        return Written(table.url, version=table.version, storage_options=storage_options)
    with told("the DataFrame cannot be read", "correct it, or see Spark's log"):
        converted = spark_columns.converted(frame, dtype)
        named = _name(frame) if name is None else name
        form = _form(converted, options)
    with told(f"{os.fspath(cache_url)}: Spark cannot use the folder", "cache_url must be a folder that Spark reaches"):
        folder = Folder(frame.sparkSession, os.fspath(cache_url), named, form)
        found = folder.complete()
    if found is None:
        found = _write(converted, folder, options, storage_options)
    written = Written(found, storage_options=storage_options)
    written._folder = folder
    return written


def _check(frame: Any, name: str | None) -> None:
    if not isinstance(frame, sql.DataFrame) or not hasattr(frame, "_jdf"):
        raise InvalidError(
            f"frame must be a DataFrame of classic Spark, got {type(frame).__module__}.{type(frame).__qualname__} "
            "(Spark Connect does not show its plans; write it with frame.write.parquet(...) and pass the URL)"
        )
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise InvalidError(f"name must be letters, digits, dots, dashes and underscores, got {name!r}")


def _name(frame: Any) -> str:
    """The name for a folder: the hash of the DataFrame's plan, or a unique name if the plan has no
    identity."""
    try:
        return spark_plan.name(frame)
    except UnsupportedError as error:
        said = "the DataFrame is written anew by each call, and a state of the one before does not fit: %s"
        _LOG.warning(said, error)
        return f"unnamed-{uuid.uuid4().hex}"


def _form(frame: Any, options: _Options) -> str:
    """A hash of the columns and the options for writing, which tells apart different data sets of one
    name."""
    said = json.dumps([frame.schema.json(), *options])
    return hashlib.sha256(said.encode()).hexdigest()[:_FORM_CHARACTERS]


def _write(frame: Any, folder: Folder, options: _Options, storage_options: Mapping[str, Any] | None) -> str:
    """Writes the DataFrame to a new folder, and returns the URL of the complete folder to use. If another
    call completed its folder first, that is the folder of the other call."""
    folder.make()
    own = folder.new()
    url = folder.url(own)
    written = sql.Observation()
    try:
        with told(f"{url}: Spark cannot write the DataFrame", "correct it, or see Spark's log", url):
            counted = frame.observe(written, functions.count(functions.lit(1)).alias("rows"))
            counted.write.options(**options.for_spark()).parquet(own)
            rows = written.get["rows"]
        there = Dataset(url, storage_options=storage_options).num_rows
        if rows != there:
            raise IoError(
                f"{url}: Spark wrote {rows} rows, but {there} are in the files (cache_url must be a folder "
                "that the executors "
                "and this process share)"
            )
        with told(f"{url}: Spark cannot list the folder", "cache_url must be a folder that Spark reaches", url):
            first = folder.complete() or url
        if first != url:
            _remove(folder, own, url)
    except BaseException:
        _remove(folder, own, url)
        raise
    return first


def _remove(folder: Folder, own: str, url: str) -> None:
    """Removes a folder that is not needed. If it cannot be removed, the error is only logged, so that it does
    not hide an earlier error."""
    try:
        with told(f"{url}: Spark cannot remove what it wrote", "remove the folder yourself", url):
            folder.remove(own)
    except ForebayError as error:
        _LOG.warning("%s", error)
