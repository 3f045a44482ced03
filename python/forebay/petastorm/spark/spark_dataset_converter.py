"""Writes a Spark DataFrame as Parquet once, to be read as a TensorFlow data set or by a PyTorch loader."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Callable
from typing import Any

from ...adapters.missing import missing

try:
    from pyspark.sql import SparkSession
except ImportError as error:
    raise missing("petastorm.spark", "Spark", "pyspark", error) from error

from ..fs_utils import normalize_dir_url
from ..reader import Reader, make_batch_reader
from ._horovod import check_rank
from ._written import delete, register_delete_dir_handler, written_once

__all__ = [
    "DEFAULT_ROW_GROUP_SIZE_BYTES",
    "SparkDatasetConverter",
    "TFDatasetContextManager",
    "TorchDatasetContextManager",
    "make_spark_converter",
    "register_delete_dir_handler",
]

DEFAULT_ROW_GROUP_SIZE_BYTES = 32 << 20

_CODECS = ("uncompressed", "bzip2", "gzip", "lz4", "snappy", "deflate")

#: The default number of threads that run the function of a ``transform_spec``.
_WORKERS = 4

_TF_BATCH_SIZE = 32


class SparkDatasetConverter:
    """A Spark DataFrame that was written as Parquet. It can be pickled, and used in other processes.

    Parameters
    ----------
    cache_dir_url : str
        The folder with the files.
    file_urls : list of str
        The files in this folder.
    dataset_size : int
        The number of rows, which is also the length of the converter.
    """

    PARENT_CACHE_DIR_URL_CONF = "petastorm.spark.converter.parentCacheDirUrl"

    def __init__(self, cache_dir_url: str, file_urls: list[str], dataset_size: int) -> None:
        self.cache_dir_url = cache_dir_url
        self.file_urls = file_urls
        self.dataset_size = dataset_size

    def __len__(self) -> int:
        return self.dataset_size

    def make_tf_dataset(
        self,
        batch_size: int | None = None,
        prefetch: int | None = None,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int | None = None,
        **petastorm_reader_kwargs: Any,
    ) -> TFDatasetContextManager:
        """A context whose value is a ``tf.data.Dataset`` of batches, each a named tuple of tensors.

        Parameters
        ----------
        batch_size : int, optional
            Rows of a batch. Default: 32.
        prefetch : int, optional
            Batches that TensorFlow prepares ahead. Default: TensorFlow decides.
        num_epochs : int, optional
            How often all rows are read. Default: without an end.
        workers_count : int, optional
            Threads for the function of ``transform_spec``. Default: 4.
        shuffling_queue_capacity : int, optional
            Rows of TensorFlow's shuffle buffer. Default: none.
        **petastorm_reader_kwargs
            More arguments of :func:`forebay.petastorm.make_batch_reader`.
        """
        arguments = _reader_arguments(petastorm_reader_kwargs, num_epochs, workers_count)
        return TFDatasetContextManager(self.file_urls, batch_size, prefetch, arguments, shuffling_queue_capacity)

    def make_torch_dataloader(
        self,
        batch_size: int = 32,
        num_epochs: int | None = None,
        workers_count: int | None = None,
        shuffling_queue_capacity: int = 0,
        data_loader_fn: Callable[..., Any] | None = None,
        **petastorm_reader_kwargs: Any,
    ) -> TorchDatasetContextManager:
        """A context whose value is a loader of PyTorch.

        Parameters
        ----------
        batch_size : int, default 32
            Rows of a batch.
        num_epochs, workers_count, **petastorm_reader_kwargs
            As for :meth:`make_tf_dataset`.
        shuffling_queue_capacity : int, default 0
            Rows of the loader's shuffle buffer.
        data_loader_fn : callable, optional
            Makes the loader from ``reader``, ``batch_size`` and ``shuffling_queue_capacity``. Default:
            :class:`forebay.petastorm.pytorch.DataLoader`.
        """
        arguments = _reader_arguments(petastorm_reader_kwargs, num_epochs, workers_count)
        return TorchDatasetContextManager(
            self.file_urls, batch_size, arguments, shuffling_queue_capacity, data_loader_fn
        )

    def delete(self) -> None:
        """Removes the files that were written."""
        delete(self.cache_dir_url)


class _ReaderContext:
    """A reader that is open within a ``with`` statement."""

    def __init__(self, urls: list[str], arguments: dict[str, Any]) -> None:
        self.parquet_file_url_list = urls
        self.petastorm_reader_kwargs = arguments

    def _opened(self) -> Reader:
        self.reader = make_batch_reader(self.parquet_file_url_list, **self.petastorm_reader_kwargs)
        return self.reader

    def __exit__(self, *exception: object) -> None:
        self.reader.stop()
        self.reader.join()


class TFDatasetContextManager(_ReaderContext):
    """The context that :meth:`SparkDatasetConverter.make_tf_dataset` returns."""

    def __init__(
        self,
        parquet_file_url_list: list[str],
        batch_size: int | None,
        prefetch: int | None,
        petastorm_reader_kwargs: dict[str, Any],
        shuffling_queue_capacity: int | None,
    ) -> None:
        super().__init__(parquet_file_url_list, petastorm_reader_kwargs)
        self.batch_size = batch_size
        self.prefetch = prefetch
        self.shuffling_queue_capacity = shuffling_queue_capacity

    def __enter__(self) -> Any:
        import tensorflow as tf

        from ..tf_utils import make_petastorm_dataset

        batches = make_petastorm_dataset(self._opened())
        size = self.batch_size or _TF_BATCH_SIZE
        if self.shuffling_queue_capacity:
            made = batches.unbatch().shuffle(self.shuffling_queue_capacity).batch(size)
        else:
            made = batches.apply(lambda one: one.rebatch(size))
        return made.prefetch(tf.data.AUTOTUNE if self.prefetch is None else self.prefetch)


class TorchDatasetContextManager(_ReaderContext):
    """The context that :meth:`SparkDatasetConverter.make_torch_dataloader` returns."""

    def __init__(
        self,
        parquet_file_url_list: list[str],
        batch_size: int,
        petastorm_reader_kwargs: dict[str, Any],
        shuffling_queue_capacity: int,
        data_loader_fn: Callable[..., Any] | None,
    ) -> None:
        super().__init__(parquet_file_url_list, petastorm_reader_kwargs)
        self.batch_size = batch_size
        self.shuffling_queue_capacity = shuffling_queue_capacity
        self.data_loader_fn = data_loader_fn

    def __enter__(self) -> Any:
        from ..pytorch import DataLoader

        make = self.data_loader_fn or DataLoader
        self.loader = make(
            reader=self._opened(),
            batch_size=self.batch_size,
            shuffling_queue_capacity=self.shuffling_queue_capacity,
        )
        return self.loader


def make_spark_converter(
    df: Any,
    parquet_row_group_size_bytes: int = DEFAULT_ROW_GROUP_SIZE_BYTES,
    compression_codec: str | None = None,
    dtype: str | None = "float32",
) -> SparkDatasetConverter:
    """Writes a DataFrame below the folder that the setting ``petastorm.spark.converter.parentCacheDirUrl`` names.

    A DataFrame with the same plan is written only once in a process. Its files are removed by
    :meth:`SparkDatasetConverter.delete`, or when the process ends; other files in the folder are kept.

    Parameters
    ----------
    df : pyspark.sql.DataFrame or str
        The rows to read, or the URL of existing Parquet files.
    parquet_row_group_size_bytes : int, default 32 MiB
        Bytes of a row group before it is compressed.
    compression_codec : str, optional
        ``"snappy"``, ``"gzip"``, ``"lz4"`` or ``"uncompressed"``, the default.
    dtype : {"float32", "float64"}, optional
        The type of all floats, and of vectors. None keeps the types of the columns.

    Returns
    -------
    SparkDatasetConverter
        The DataFrame that was written.

    Raises
    ------
    ValueError
        The setting is missing, or is not a URL.
    RuntimeError
        There is no such codec.
    """
    session = SparkSession.builder.getOrCreate()
    parent = _parent(session)
    if isinstance(df, str):
        url = _on_databricks(df)
    else:
        codec = (compression_codec or "uncompressed").lower()
        if codec not in _CODECS:
            raise RuntimeError(f"compression_codec should be None or one of the following values: {_CODECS}")
        url = written_once(df, parent, (parent, parquet_row_group_size_bytes, codec, dtype))
    found = session.read.parquet(url)
    return SparkDatasetConverter(url, list(found.inputFiles()), found.count())


def _parent(session: Any) -> str:
    """Returns the URL of the folder below which all DataFrames are written, as Spark's settings name it."""
    setting = SparkDatasetConverter.PARENT_CACHE_DIR_URL_CONF
    url = session.conf.get(setting, None)
    if url is None:
        raise ValueError(f"Please set the spark config {setting}.")
    url = normalize_dir_url(url)
    if not urllib.parse.urlparse(url).scheme:
        raise ValueError(
            f"ERROR! A scheme-less directory url ({url}) is no longer supported. "
            'Please prepend "file://" for local filesystem.'
        )
    return url


def _on_databricks(url: str) -> str:
    """Returns the URL of a folder. On Databricks it gets the form that both Spark and the reader can open."""
    if "DATABRICKS_RUNTIME_VERSION" not in os.environ:
        return url
    for beginning in ("dbfs:///", "dbfs:/"):
        if url.startswith(beginning) and not url.startswith("dbfs://h"):
            return "file:/dbfs/" + url[len(beginning) :]
    if url.startswith(("file:/dbfs/", "file:///dbfs/")):
        return url
    raise ValueError(
        "On databricks runtime, if `df` argument is a string, it must be a dbfs fuse path like 'file:/dbfs/xxx' or a "
        "dbfs path like 'dbfs:/xxx'."
    )


def _reader_arguments(given: dict[str, Any], num_epochs: int | None, workers_count: int | None) -> dict[str, Any]:
    check_rank(given)
    return {**given, "num_epochs": num_epochs, "workers_count": _WORKERS if workers_count is None else workers_count}
