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

import os
import re
import uuid
from collections.abc import Mapping
from typing import Any

from . import spark_plan
from .dataset import Dataset
from .errors import InvalidError, IoError, UnsupportedError
from .frameworks import missing

try:
    import pyspark.sql as sql
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import functions
    from pyspark.sql.types import UserDefinedType
except ImportError as error:
    raise missing("spark", "Spark", "pyspark", error) from error

__all__ = ["dataset"]

#: The file that Spark adds when all others of a folder are complete.
COMPLETE = "_SUCCESS"

#: Size of a row group. Several are in the window of each process, and Spark's own 128 MiB would fill a small one.
ROW_GROUP_BYTES = 32 << 20

#: What a folder may be called.
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


def dataset(
    frame: Any,
    cache_url: str | os.PathLike[str],
    *,
    name: str | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Dataset:
    """A DataFrame as a data set: Spark writes it as Parquet the first time, and later calls find it there.

    The folder is named by the plan of the DataFrame and by the path, size and time of each file that it reads, so that
    the same program finds what it wrote, and another selection, another function or a file that changed is written
    anew. A plan that does not determine its rows is refused unless ``name`` is given.

    Call it in the driver, and pass the result to the training function: each process opens the same files, and refuses
    them if they are others. Only complete folders are used, so that a driver that is killed while it writes leaves one
    that is never read. Nothing is removed: delete the folders that are no longer needed.

    Parameters
    ----------
    frame : pyspark.sql.DataFrame
        What to train on. All of its rows are written, in Spark's order.
    cache_url : str or os.PathLike
        Folder for the data sets, which Spark's executors and the training processes reach: a path on one machine or on
        a shared file system, or a URL such as ``s3://acme/prepared`` or ``hdfs://...``.
    name : str, optional
        Name of the folder, for a DataFrame whose plan does not determine its rows, such as one of a table in memory. Two
        DataFrames of one name are taken for the same. Default: the plan's hash.
    storage_options : mapping of str, optional
        Credentials and settings of the store, for forebay; see :class:`forebay.Dataset`. Spark has its own.

    Returns
    -------
    Dataset
        What was written. A pickled one is opened where it is unpickled.

    Raises
    ------
    InvalidError
        ``frame`` is not a DataFrame of classic Spark, is a stream, or ``name`` cannot be the name of a folder.
    UnsupportedError
        The plan does not determine the rows, or a column holds vectors of ``pyspark.ml``.
    IoError
        The folder cannot be made; or not all rows that Spark wrote are found: ``cache_url`` is another folder for the
        executors.

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
    folder = _Folder(frame.sparkSession, os.fspath(cache_url), spark_plan.name(frame) if name is None else name)
    found = folder.complete()
    if found is None:
        found = _write(frame, folder, storage_options)
    return Dataset(found, storage_options=storage_options)


def _check(frame: Any, name: str | None) -> None:
    if not isinstance(frame, sql.DataFrame) or not hasattr(frame, "_jdf"):
        raise InvalidError(
            f"frame must be a DataFrame of classic Spark, got {type(frame).__module__}.{type(frame).__qualname__} "
            "(Spark Connect does not show its plans; write it with frame.write.parquet(...) and pass the URL)"
        )
    if frame.isStreaming:
        raise InvalidError("frame is a stream, which has no end (write it to a table, and pass a DataFrame of that)")
    if name is not None and not (isinstance(name, str) and _NAME.fullmatch(name)):
        raise InvalidError(f"name must be letters, digits, dots, dashes and underscores, got {name!r}")
    for field in frame.schema.fields:
        if isinstance(field.dataType, UserDefinedType):
            raise UnsupportedError(
                f"column {field.name!r} is a {field.dataType.typeName()} of Spark, which Parquet does not have (convert "
                "vectors with pyspark.ml.functions.vector_to_array, or leave it out with frame.drop)"
            )


def _write(frame: Any, folder: _Folder, storage_options: Mapping[str, Any] | None) -> str:
    """Writes to a folder of this call's own. If another call was quicker, its folder counts."""
    folder.make()
    own = folder.new()
    written = sql.Observation()
    try:
        options = {
            "parquet.block.size": ROW_GROUP_BYTES,
            # The sign of completeness, whatever the session says.
            "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true",
        }
        counted = frame.observe(written, functions.count(functions.lit(1)).alias("rows"))
        counted.write.options(**options).parquet(own)
        url = folder.url(own)
        rows, there = written.get["rows"], Dataset(url, storage_options=storage_options).num_rows
        if rows != there:
            raise IoError(
                f"{url}: Spark wrote {rows} rows, and {there} are there (cache_url must be a folder that the executors "
                "and this process share)"
            )
        first = folder.complete() or url
    except BaseException:
        folder.remove(own)
        raise
    if first != url:
        folder.remove(own)
    return first


class _Folder:
    """The folder of one plan, as Spark's file systems reach it: it has a folder of each call that wrote it."""

    def __init__(self, session: Any, cache_url: str, name: str) -> None:
        self._hadoop = session._jvm.org.apache.hadoop.fs
        settings = session._jsparkSession.sessionState().newHadoopConf()
        self._is_local = not _URL.match(cache_url)
        if self._is_local:
            cache_url = f"file://{os.path.abspath(cache_url)}"
        elif cache_url.startswith("s3:") and settings.get("fs.s3.impl") is None:
            # Hadoop's own connector has another scheme. forebay reads both.
            cache_url = f"s3a:{cache_url[3:]}"
        self._at = f"{cache_url.rstrip('/')}/{name}"
        path = self._hadoop.Path(self._at)
        self._files = path.getFileSystem(settings)

    def complete(self) -> str | None:
        """The folder that was completed first, as forebay reads it."""
        at = self._hadoop.Path(self._at)
        if not self._files.exists(at):
            return None
        found = []
        for status in self._files.listStatus(at):
            sign = self._hadoop.Path(status.getPath(), COMPLETE)
            if status.isDirectory() and self._files.exists(sign):
                found.append((self._files.getFileStatus(sign).getModificationTime(), status.getPath().getName()))
        return self.url(f"{self._at}/{min(found)[1]}") if found else None

    def make(self) -> None:
        """Makes the folder, unless it is there."""
        try:
            cause = "" if self._files.mkdirs(self._hadoop.Path(self._at)) else "the file system refuses it"
        except Py4JJavaError as error:
            cause = str(error.java_exception.toString())
        if cause:
            raise IoError(
                f"{self._at}: the folder cannot be made: {cause} (cache_url must be a folder that Spark may write to)",
                file=self.url(self._at),
            )

    def new(self) -> str:
        """A folder that no other call writes to."""
        return f"{self._at}/{uuid.uuid4().hex}"

    def url(self, folder: str) -> str:
        """A folder as forebay reads it."""
        return folder.removeprefix("file://") if self._is_local else folder

    def remove(self, folder: str) -> None:
        """Removes the folder of a call, and that of the plan if no other is in it."""
        self._files.delete(self._hadoop.Path(folder), True)
        at = self._hadoop.Path(self._at)
        if self._files.exists(at) and not len(self._files.listStatus(at)):
            self._files.delete(at, True)
