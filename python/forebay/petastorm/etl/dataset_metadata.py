"""Writes the Petastorm schema of a data set that a Spark job writes, and reads such schemas."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from .._files import ROW_GROUPS_KEY, SCHEMA_KEY, file_system, write_metadata
from .._stored import needed_schema, opened, url_of
from ..errors import PetastormMetadataError, PetastormMetadataGenerationError
from ..unischema import Unischema

__all__ = [
    "ROW_GROUPS_PER_FILE_KEY",
    "UNISCHEMA_KEY",
    "PetastormMetadataError",
    "PetastormMetadataGenerationError",
    "get_schema",
    "get_schema_from_dataset_url",
    "infer_or_load_unischema",
    "materialize_dataset",
]

UNISCHEMA_KEY = SCHEMA_KEY
ROW_GROUPS_PER_FILE_KEY = ROW_GROUPS_KEY

#: Settings of Spark's Parquet writer while a data set is written. They make the writer check the size of a
#: row group after only a few rows.
_SETTINGS = {
    "parquet.summary.metadata.level": "NONE",
    "parquet.block.size.row.check.min": "3",
    "parquet.row-group.size.row.check.min": "3",
}


@contextmanager
def materialize_dataset(
    spark: Any,
    dataset_url: str,
    schema: Unischema,
    row_group_size_mb: int | None = None,
    use_summary_metadata: bool = False,
    filesystem_factory: Callable[[], Any] | None = None,
) -> Iterator[None]:
    """A context for the Spark job that writes a data set; it adds the schema to the files when the job is
    done.

    Parameters
    ----------
    spark : pyspark.sql.SparkSession
        The session that writes.
    dataset_url : str
        The folder that the session writes.
    schema : Unischema
        The schema.
    row_group_size_mb : int, optional
        Size of a row group, in MiB.
    use_summary_metadata : bool, default False
        Whether Spark writes a summary of all footers as well.
    filesystem_factory : callable, optional
        Makes the file system of pyarrow or fsspec in which the schema is written.

    Raises
    ------
    PetastormMetadataGenerationError
        The job wrote no Parquet files.
    """
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    settings = dict(_SETTINGS)
    if use_summary_metadata:
        settings["parquet.summary.metadata.level"] = "ALL"
    if row_group_size_mb:
        settings["parquet.block.size"] = str(int(row_group_size_mb) << 20)
    before = {name: hadoop.get(name) for name in settings}
    for name, value in settings.items():
        hadoop.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            hadoop.unset(name) if value is None else hadoop.set(name, value)
    files, path = file_system(dataset_url, None if filesystem_factory is None else filesystem_factory())
    try:
        write_metadata(files, path.rstrip("/"), schema)
    except PetastormMetadataError as error:
        raise PetastormMetadataGenerationError(f"{dataset_url}: the schema was not written: {error}") from error


def get_schema(dataset: Any) -> Unischema:
    """Returns the schema of a data set.

    Parameters
    ----------
    dataset : str, forebay.Dataset or pyarrow.parquet.ParquetDataset
        The data set, or its URL.

    Raises
    ------
    PetastormMetadataError
        The data set has no schema.
    """
    return needed_schema(url_of(dataset), None)


def get_schema_from_dataset_url(
    dataset_url_or_urls: Any,
    hdfs_driver: str = "libhdfs3",
    storage_options: Mapping[str, Any] | None = None,
    filesystem: Any = None,
) -> Unischema:
    """Returns the schema of the data set at a URL. ``hdfs_driver`` and ``filesystem`` are not needed.

    Raises
    ------
    PetastormMetadataError
        The data set has no schema.
    """
    return needed_schema(dataset_url_or_urls, storage_options)


def infer_or_load_unischema(dataset: Any) -> Unischema:
    """Returns the schema of a data set, or infers one from its columns."""
    return opened(url_of(dataset), None).schema
