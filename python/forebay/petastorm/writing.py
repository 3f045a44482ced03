"""Writes data sets that Petastorm can read, without Spark."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from ..errors import InvalidError
from ..options.sizes import parse_bytes
from ._cells import Cells
from ._files import data_files, described, file_system
from ._folders import Folders, Form, Keys
from ._pickled import pickled
from ._sheet import arrow_schema
from .unischema import Unischema

__all__ = ["write"]

#: The default size of a row group before compression; it is small, because readers hold several row groups.
ROW_GROUP_SIZE = "32MiB"


def write(
    rows: Iterable[Mapping[str, Any]],
    schema: Unischema,
    url: str,
    *,
    row_group_size: int | str = ROW_GROUP_SIZE,
    row_group_rows: int | None = None,
    file_rows: int | None = None,
    partition_columns: Sequence[str] = (),
    compression: str = "snappy",
    filesystem: Any = None,
) -> int:
    """Writes rows as a data set that Petastorm and ``make_reader`` can read, without Spark.

    Parameters
    ----------
    rows : iterable of dict
        Values by field; nullable fields may be missing. Rows are taken one at a time. If a row cannot be
        written, the files that were written before it are removed.
    schema : Unischema
        The schema.
    url : str
        The folder, which must have no Parquet files yet.
    row_group_size : int or str, default "32MiB"
        Size of a row group in bytes, before it is compressed.
    row_group_rows : int, optional
        The largest number of rows in a row group. Default: as many as ``row_group_size`` allows.
    file_rows : int, optional
        Rows of a file. Default: one file has all of them.
    partition_columns : sequence of str, optional
        Fields of whole numbers, text or dates whose values become the names of folders, such as ``day=3``.
        Each folder has files of its own, one of which is open while rows are written.
    compression : str, default "snappy"
        The compression codec, by its name in pyarrow.
    filesystem : pyarrow.fs.FileSystem, optional
        The file system to write to, for stores that need more than a URL.

    Returns
    -------
    int
        The number of rows that were written.

    Raises
    ------
    InvalidError
        The folder has Parquet files, there are no rows, an argument is malformed, or a row does not comply with the
        schema: the error says which row and which field.

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
    keys = Keys.of(partition_columns, schema, sheet)
    form = Form(
        keys.without(sheet),
        compression,
        parse_bytes(row_group_size, "row_group_size"),
        row_group_rows,
        file_rows,
    )
    cells = Cells(schema)
    # Pickling the schema here raises an error before files are written, if the schema cannot be stored.
    pickled(schema)
    with Folders(files, path, form) as folders:
        for number, row in enumerate(rows):
            name, stored = keys.taken_from(cells.of(row, number), number)
            folders.add(name, stored, number)
        folders.finish()
        if not folders.row_groups:
            raise InvalidError("there are no rows to write (pass at least one)")
        described(files, path, form.sheet, schema, folders.row_groups)
    return folders.rows
