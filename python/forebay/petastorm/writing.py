"""Data sets that Petastorm reads, written without Spark."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ..errors import InvalidError
from ..options.sizes import parse_bytes
from ._files import data_files, described, file_system
from ._inferred import pyarrow
from ._pickled import pickled
from ._spark_types import OF_NUMPY, SparkType, spark_type
from .codecs import ScalarCodec
from .unischema import Unischema, UnischemaField, encode_row, type_name

__all__ = ["write"]

#: Size of a row group before it is compressed: several of them are in memory where they are read.
ROW_GROUP_SIZE = "32MiB"

#: Types of Arrow, by the names of functions that make them.
_ARROW = {
    "ByteType": "int8",
    "ShortType": "int16",
    "IntegerType": "int32",
    "LongType": "int64",
    "FloatType": "float32",
    "DoubleType": "float64",
    "BooleanType": "bool_",
    "StringType": "string",
    "BinaryType": "binary",
    "DateType": "date32",
}


def write(
    rows: Iterable[Mapping[str, Any]],
    schema: Unischema,
    url: str,
    *,
    row_group_size: int | str = ROW_GROUP_SIZE,
    row_group_rows: int | None = None,
    file_rows: int | None = None,
    compression: str = "snappy",
    filesystem: Any = None,
) -> int:
    """Writes rows as a data set that Petastorm and ``make_reader`` read, without Spark.

    Parameters
    ----------
    rows : iterable of dict
        Values by field; fields that may be null may be missing. They are taken one at a time. If one cannot be
        written, what was written before it is removed.
    schema : Unischema
        The schema.
    url : str
        The folder, which must have no Parquet files yet.
    row_group_size : int or str, default "32MiB"
        Bytes of a row group before it is compressed.
    row_group_rows : int, optional
        Most rows of a row group. Default: as many as ``row_group_size`` allows.
    file_rows : int, optional
        Rows of a file. Default: one file has all of them.
    compression : str, default "snappy"
        As pyarrow names it.
    filesystem : pyarrow.fs.FileSystem, optional
        The file system, for stores that need more than a URL.

    Returns
    -------
    int
        How many rows were written.

    Raises
    ------
    InvalidError
        The folder has Parquet files, there are no rows, or an argument is malformed.
    ValueError
        A row does not comply with the schema.

    Examples
    --------
    >>> import tempfile
    >>> import forebay as fb
    >>> import numpy as np
    >>> from forebay.petastorm.codecs import NdarrayCodec
    >>> from forebay.petastorm.unischema import Unischema, UnischemaField
    >>> schema = Unischema("Points", [
    ...     UnischemaField("id", np.int64, ()),
    ...     UnischemaField("xyz", np.float32, (3,), NdarrayCodec()),
    ... ])
    >>> rows = ({"id": i, "xyz": np.full(3, i, np.float32)} for i in range(10))
    >>> fb.petastorm.write(rows, schema, f"file:{tempfile.mkdtemp()}/points")
    10
    """
    files, path = file_system(url, filesystem)
    files.create_dir(path, recursive=True)
    if data_files(files, path):
        raise InvalidError(f"{url} has Parquet files already (write to another folder)")
    sheet = arrow_schema(schema)
    # First, so that a schema that cannot be stored leaves no files.
    pickled(schema)
    size = parse_bytes(row_group_size, "row_group_size")
    counts: dict[str, int] = {}
    total = 0
    try:
        for number, of_file in enumerate(_cut(_cells(rows, schema), file_rows)):
            name = f"part-{number:05}.parquet"
            counts[name] = 0
            with (
                files.open_output_stream(posixpath.join(path, name)) as file,
                pyarrow().parquet.ParquetWriter(file, sheet, compression=compression) as writer,
            ):
                for group in _row_groups(of_file, size, row_group_rows):
                    writer.write_table(pyarrow().Table.from_pylist(group, sheet), row_group_size=len(group))
                    counts[name] += 1
                    total += len(group)
        if not counts:
            raise InvalidError("there are no rows to write")
        described(files, path, sheet, schema, counts)
    except BaseException:
        for name in counts:
            files.delete_file(posixpath.join(path, name))
        raise
    return total


def arrow_schema(schema: Unischema) -> Any:
    """The types in which the fields of a schema are stored."""
    arrow = pyarrow()
    return arrow.schema([arrow.field(field.name, _arrow(field), field.nullable) for field in schema.fields.values()])


def _arrow(field: UnischemaField) -> Any:
    arrow, kind = pyarrow(), _spark_type(field)
    if kind.name == "DecimalType":
        precision, scale = kind.arguments or (10, 0)
        return arrow.decimal128(precision, scale)
    if kind.name == "TimestampType":
        return arrow.timestamp("us", "UTC")
    if kind.name not in _ARROW:
        raise InvalidError(f"field {field.name!r} has the type {kind}, which is not written here (write it with Spark)")
    return getattr(arrow, _ARROW[kind.name])()


def _spark_type(field: UnischemaField) -> SparkType:
    if isinstance(field.codec, ScalarCodec):
        return spark_type(field.codec._spark_type)
    if field.codec is not None:
        return SparkType("BinaryType")
    name = OF_NUMPY.get(type_name(field.numpy_dtype))
    if name is None or field.shape != ():
        raise InvalidError(f"field {field.name!r} needs a codec: only numbers and text are stored without one")
    return SparkType(name)


def _cells(rows: Iterable[Mapping[str, Any]], schema: Unischema) -> Iterator[dict[str, Any]]:
    for row in rows:
        cells = encode_row(schema, dict(row))
        yield {name: bytes(cell) if isinstance(cell, bytearray) else cell for name, cell in cells.items()}


def _cut(rows: Iterator[dict[str, Any]], length: int | None) -> Iterator[Iterator[dict[str, Any]]]:
    """Rows as parts of so many, each of which is used up before the next one begins."""
    for first in rows:
        yield _first_of(first, rows, length)


def _first_of(first: dict[str, Any], rows: Iterator[dict[str, Any]], length: int | None) -> Iterator[dict[str, Any]]:
    yield first
    taken = 1
    while length is None or taken < length:
        following = next(rows, None)
        if following is None:
            return
        taken += 1
        yield following


def _row_groups(rows: Iterator[dict[str, Any]], size: int, length: int | None) -> Iterator[list[dict[str, Any]]]:
    group: list[dict[str, Any]] = []
    taken = 0
    for row in rows:
        group.append(row)
        taken += sum(len(cell) if isinstance(cell, (bytes, str)) else 8 for cell in row.values())
        if taken >= size or len(group) == length:
            yield group
            group, taken = [], 0
    if group:
        yield group
