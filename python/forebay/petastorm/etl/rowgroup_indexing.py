"""Builds the indexes of row groups that are stored in a data set, and reads them without unpickling."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from ...dataset import Dataset
from ...loader import Loader
from .._columns import readings
from .._files import file_system, metadata_value, row_group_counts, write_metadata_value
from .._groups import ROW_ID, Numbered
from .._pickled_index import PlainIndex, pickled, read
from .._rows import ROWS, RowMaker
from .._stored import opened, url_of
from ..errors import PetastormMetadataError
from ..unischema import Unischema
from .rowgroup_indexers import FieldNotNullIndexer, RowGroupIndexerBase, SingleFieldIndexer

__all__ = ["ROWGROUPS_INDEX_KEY", "build_rowgroup_index", "get_row_group_indexes"]

ROWGROUPS_INDEX_KEY = b"dataset-toolkit.rowgroups_index.v1"

_KINDS = {kind.__name__: kind for kind in (SingleFieldIndexer, FieldNotNullIndexer)}

#: Rows in a batch while rows are indexed.
_BATCH = 4096


def build_rowgroup_index(
    dataset_url: str, spark_context: Any, indexers: Sequence[RowGroupIndexerBase], hdfs_driver: str = "libhdfs3"
) -> None:
    """Builds the given indexes, and stores them beside the schema of a data set in place of earlier ones.

    Parameters
    ----------
    dataset_url : str
        The data set.
    spark_context : pyspark.SparkContext
        Not needed: forebay reads the fields.
    indexers : list of SingleFieldIndexer or FieldNotNullIndexer
        The indexes to build, which are still empty.
    hdfs_driver : str
        Not needed.

    Raises
    ------
    PetastormMetadataError
        The data set has no schema of Petastorm.
    ValueError
        A field is unknown, or an index is of a class of yours, which cannot be stored.
    """
    for indexer in indexers:
        if type(indexer) not in _KINDS.values():
            raise ValueError(
                f"an index of the class {type(indexer).__qualname__} cannot be stored with a data set (use "
                f"{' or '.join(_KINDS)})"
            )
    built = [indexer.index_name for indexer in indexers]
    twice = sorted({name for name in built if built.count(name) > 1})
    if twice:
        raise ValueError(f"two indexes have the name {twice[0]!r} (give each a name of its own)")
    if not indexers:
        raise ValueError("there is no index to build (pass a SingleFieldIndexer or a FieldNotNullIndexer)")
    stored = opened(dataset_url, None)
    names = {name for indexer in indexers for name in indexer.column_names}
    unknown = sorted(names - set(stored.schema.fields))
    if unknown:
        raise ValueError(f"there are no fields {', '.join(unknown)} (there are {', '.join(stored.schema.fields)})")
    view = Unischema("indexed", [field for name, field in stored.schema.fields.items() if name in names])
    reading, values = readings(stored, view)
    maker = RowMaker(values, tuple(view.fields), None)
    numbered = Numbered(stored.dataset)
    with Loader(stored.dataset, **reading.options(), batch_size=_BATCH, epochs=1, row_id=True) as loader:
        for batch in loader:
            rows = (dict(zip(view.fields, row, strict=True)) for row in maker(batch)[ROWS])
            numbers = numbered.of(batch[ROW_ID]).tolist()
            for number, group in itertools.groupby(zip(numbers, rows, strict=True), key=lambda pair: pair[0]):
                decoded = [row for _, row in group]
                for indexer in indexers:
                    indexer.build_index(decoded, number)
    plain = [
        PlainIndex(type(indexer).__name__, indexer.index_name, indexer.column_names[0], indexer._index_data)  # type: ignore[attr-defined]
        for indexer in indexers
    ]
    files, path = file_system(dataset_url)
    write_metadata_value(files, path.rstrip("/"), ROWGROUPS_INDEX_KEY, pickled(plain))


def check_files(url: str, dataset: Dataset) -> None:
    """Checks that a data set still has the number of files and row groups that were written, because its
    indexes describe only these.

    Raises
    ------
    PetastormMetadataError
        The data set has other files, or the stored numbers of row groups cannot be read.
    """
    files, path = file_system(url)
    try:
        counts = row_group_counts(files, path.rstrip("/"))
    except ValueError as error:
        raise PetastormMetadataError(
            f"{url}: the numbers of row groups in its files cannot be read: {error} (materialize_dataset writes them)"
        ) from error
    if counts is None:
        return
    written, found = (len(counts), sum(counts.values())), (dataset.num_files, dataset.num_row_groups)
    if written != found:
        raise PetastormMetadataError(
            f"{url}: {written[0]} files with {written[1]} row groups were written, and there are {found[0]} with "
            f"{found[1]}, for which no index holds (write the data set anew with materialize_dataset, and index it)"
        )


def get_row_group_indexes(dataset: Any) -> dict[str, Any]:
    """Returns the indexes that are stored in a data set, by name.

    Parameters
    ----------
    dataset : str, forebay.Dataset or pyarrow.parquet.ParquetDataset
        The data set, or its URL.

    Raises
    ------
    ValueError
        The data set has no indexes.
    PetastormMetadataError
        The indexes are damaged, or contain names that no index of Petastorm has.
    """
    url = url_of(dataset)
    files, path = file_system(url)
    stored = metadata_value(files, path.rstrip("/"), ROWGROUPS_INDEX_KEY)
    if stored is None:
        raise ValueError(f"{url}: there is no index of row groups (build_rowgroup_index makes one)")
    try:
        found = read(stored)
    except ValueError as error:
        raise PetastormMetadataError(
            f"{url}: the index of row groups cannot be read: {error} (build_rowgroup_index makes it anew)"
        ) from error
    indexes: dict[str, Any] = {}
    for one in found:
        indexes[one.name] = _KINDS[one.kind](one.name, one.column)
        indexes[one.name]._index_data = one.data
    return indexes
