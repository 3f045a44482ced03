"""A Parquet data set: the files that were found and the footers that were read."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from . import _forebay
from .columns.options import by_column, decoding
from .errors import InvalidError, StateMismatchError, warn_caller
from .index_exchange import opened_together
from .one_pass import OnePass
from .options.checks import names, whole
from .options.iceberg import located
from .options.locations import locations, shown
from .options.storage import hub_part, key_types, store_options, table_version
from .reports import notebook

if TYPE_CHECKING:
    from datetime import datetime

    from .columns.tensor import Tensor
    from .types import Location

__all__ = ["Dataset"]


class Dataset:
    """A Parquet data set, opened once: its files are listed and their footers read.

    Loaders over the same data set share its footers and its connections, for instance a loader for training
    and one for validation with another filter or other image operations. No rows are read before a batch is
    requested.

    A relative path starts at the working directory of the process when the data set is opened. A pickled data
    set has absolute paths. Unpickling opens the files anew, and raises :class:`StateMismatchError` if they
    have changed.

    Parameters
    ----------
    urls : str, os.PathLike or iterable of them
        A path, URL or glob, or a list of them. Folders are searched for Parquet files. Files are ordered by
        their paths, whatever the order of the list.
    storage_options : mapping of str, optional
        Credentials and settings of the store, by the names that pandas and fsspec use.
    merge_schema : bool, default False
        Read files whose columns differ: a column that a file lacks is null there, and values are read in the
        narrowest type that can hold the values of all files. By default, a column whose type differs between
        files in more than its encoding is refused when it is read. The order of the columns may always
        differ.
    partition_types : mapping from str to str, optional
        Types of the keys of ``key=value`` folders: ``"string"``, ``"int8"`` to ``"uint64"``, ``"float32"``,
        ``"float64"``, ``"bool"``, ``"date"`` or ``"timestamp"`` (microseconds, without a zone); types of
        numpy and pyarrow as well. Default: ``int64`` if all values of a key are whole numbers, else text.
    version : int or str, optional
        The version of the Delta table at the location; of an Iceberg table the number of a snapshot, or a branch or
        tag. Default: the newest.
    timestamp : str or datetime.datetime, optional
        The newest version that the table had at this time: ``"2024-05-17T12:30:00Z"``, ``"2024-05-17"``.
        A time without a zone is UTC.
    split : str, optional
        The split to open, such as ``"train"``, of a folder that is laid out like a data set of the Hugging Face hub,
        there or anywhere else. The front matter of its ``README.md`` may list the files of each split. Otherwise
        names decide: ``train-00000-of-00005.parquet`` before folders ``train/`` before words such as
        ``my-train.parquet``; without such names all files are the split ``"train"``. Default: the files of all splits.
    config : str, optional
        The configuration of such a folder: one that its ``README.md`` lists, else a folder in it. Default: with
        ``split``, the default configuration of the ``README.md`` or its only one; else all files.
    index : bytes, optional
        The footers that another process of the run has read, as :meth:`index` returned them there. The files
        are listed, and only footers of files that are not in the index, or differ from it, are read.

    Raises
    ------
    NotFoundError
        A location matches no Parquet file.
    CorruptError
        A file is not Parquet, or is damaged; or the ``index`` is damaged.
    UnsupportedError
        A file is encrypted, or belongs to a table format that is not supported.
    InvalidError
        An argument is malformed, or the schemas of the files differ.
    DeniedError, IoError
        The store refuses access, or cannot be reached.

    Warns
    -----
    RuntimeWarning
        The folder's index (:meth:`write_index`) cannot be used, or ``index`` belongs to other files: all
        footers are read then.

    Examples
    --------
    >>> import forebay as fb
    >>> dataset = fb.Dataset("data/train/")
    >>> dataset
    <forebay.Dataset 'data/train/': 256 rows, 1 file>
    >>> dataset.columns
    ['image', 'label', 'id']
    >>> train = fb.Loader(dataset, filter=[("id", "<", 200)], shuffle=fb.Shuffle(seed=17))
    >>> val = fb.Loader(dataset, filter=[("id", ">=", 200)])
    >>> train.num_rows, val.num_rows
    (200, 56)
    """

    def __init__(
        self,
        urls: Location | Iterable[Location],
        *,
        storage_options: Mapping[str, Any] | None = None,
        merge_schema: bool = False,
        partition_types: Mapping[str, Any] | None = None,
        version: int | str | None = None,
        timestamp: str | datetime | None = None,
        split: str | None = None,
        config: str | None = None,
        index: bytes | None = None,
    ) -> None:
        if not isinstance(index, (bytes, bytearray, memoryview, type(None))):
            raise InvalidError(f"index must be bytes that index() returned, got {type(index).__qualname__}")
        table = table_version(version, timestamp)
        given = None if index is None else bytes(index)
        part = hub_part(split, config)
        self._open(urls, storage_options, merge_schema, partition_types, table, None, given, part=part)

    def _open(
        self,
        urls: Any,
        storage_options: Mapping[str, Any] | None,
        merge_schema: bool,
        partition_types: Mapping[str, Any] | None,
        table: tuple[str | None, str | None],
        filter: str | None,
        index: bytes | None = None,
        hand_on: bool = False,
        versions: Mapping[str, str] | None = None,
        part: tuple[str | None, str | None] = (None, None),
        only: list[str] | None = None,
    ) -> None:
        if not isinstance(merge_schema, bool):
            raise InvalidError(f"merge_schema must be True or False, got {merge_schema!r}")
        self._merge_schema = merge_schema
        self._filter = filter
        self._partition_types = key_types(partition_types)
        self._part = part
        self._only = only
        urls, self._storage_options = located(urls, storage_options)
        self._urls = urls if isinstance(urls, (str, os.PathLike)) else locations(urls)
        self._native = _forebay.Dataset(
            locations(self._urls),
            store_options(self._storage_options),
            filter,
            merge_schema,
            self._partition_types,
            index,
            hand_on,
            *table,
            dict(versions or {}),
            *part,
            only,
        )
        warning = self._native.take_warning()
        if warning is not None:
            warn_caller(warning)

    @property
    def version(self) -> int | None:
        """The version of a Delta table, or the snapshot of an Iceberg table; ``None`` for plain files.

        >>> import forebay as fb
        >>> fb.Dataset("data/train/").version is None
        True
        """
        return self._native.version()

    @property
    def schema(self) -> _forebay.Schema:
        """Names and types of the stored columns, images still encoded.

        ``pyarrow.schema(dataset.schema)`` converts it.
        """
        return self._native.schema()

    @property
    def columns(self) -> list[str]:
        """Names of the stored columns, in stored order."""
        return self._native.schema().names

    @property
    def num_rows(self) -> int:
        """Number of rows in all files."""
        return self._native.rows()

    @property
    def num_files(self) -> int:
        """Number of Parquet files, including files without rows."""
        return self._native.files()

    @property
    def num_row_groups(self) -> int:
        """Number of row groups in all files, without empty row groups.

        In a table whose footers are read with the rows, each file counts as one row group.
        """
        return self._native.row_groups()

    @property
    def metadata(self) -> dict[str, str]:
        """Key-value metadata in the footer of the first file; values are often JSON.

        Empty for a table whose footers are read with the rows of the files.
        """
        return self._native.metadata()

    @property
    def class_names(self) -> dict[str, list[str]]:
        """The names of classes by column, as Hugging Face's ``datasets`` declares them in the metadata: the class
        ``i`` of the column is ``class_names[column][i]``.

        A column of lists has the names of its items. A field of a structure is ``"objects.category"``. If a file has
        more classes at the end of its list than others, all of them are listed. Empty if the metadata declares no
        class.

        Raises
        ------
        InvalidError
            Files have other names for a class.
        """
        return self._class_names(str)

    def _class_names(self, delivered_as: Callable[[str], str | None]) -> dict[str, list[str]]:
        """The names of classes by the names of columns that ``delivered_as`` returns, without the columns for which
        that is ``None``."""
        names, refused = self._native.classes()
        for column, error in refused.items():
            if delivered_as(column) is not None:
                raise InvalidError(error)
        renamed = ((delivered_as(column), classes) for column, classes in names.items())
        return {column: classes for column, classes in renamed if column is not None}

    @property
    def fingerprint(self) -> str:
        """Identifies content and order of the data set, wherever it is stored: a hash in hexadecimal.

        It depends on footers, relative paths and columns. A saved state belongs to one fingerprint.
        """
        return self._native.fingerprint()

    def sample(
        self,
        rows: int = 5,
        *,
        columns: Iterable[str] | None = None,
        decode: Mapping[str, _forebay.Image | Tensor | None] | None = None,
    ) -> _forebay.Batch:
        """The first rows, in stored order.

        Parameters
        ----------
        rows : int, default 5
            Rows to read, at least 1. The batch has fewer if the data set has fewer.
        columns : iterable of str, optional
            Names of the columns to read. Default: all of them.
        decode : mapping from str to Image, Tensor or None, optional
            How to decode columns. Default: images stay encoded, as ``bytes``; columns are decoded as a schema of
            Petastorm says, unless they are None here.

        Returns
        -------
        Batch
            A mapping from column name to numpy array.

        Raises
        ------
        InvalidError
            ``rows`` is not an int of at least 1, or the data set has no rows.
        UnknownColumnError
            There is no such column.
        UnsupportedError
            A column has a type that cannot be delivered (leave it out with ``columns``).

        Examples
        --------
        >>> import forebay as fb
        >>> dataset = fb.Dataset("data/train/")
        >>> dataset.sample(3)["label"]
        array([0, 1, 2])
        >>> dataset.sample(2, decode={"image": fb.Image.resize(32, 32)})["image"].shape
        (2, 32, 32, 3)
        """
        count = min(whole(rows, "rows", 1), self.num_rows)
        if count == 0:
            raise InvalidError(f"{self!r} has no rows to sample (check its locations)")
        spec = {
            "columns": None if columns is None else names(columns),
            **decoding(by_column(decode, "decode") or {}),
            "batch_size": count,
        }
        with OnePass(self._native, spec) as batches:
            return next(batches)

    def write_index(self) -> list[dict[str, Any]]:
        """Writes the footers of all files of the folder into one file in it, ``_forebay_index``.

        A process that opens the folder later reads this file, and only the footers of files that were added
        or changed since. Footers that are in the index already are not read again. Other readers of Parquet
        ignore the file because of its name. ``storage_options={"index": "off"}`` opens a folder without its
        index.

        Returns
        -------
        list of dict
            For each folder that was opened: the ``location`` of the index, the number of ``files`` whose
            footers are in it, the number of ``files_read`` to write it, the bytes of these footers as
            ``footer_bytes``, and the ``bytes`` of the index.

        Raises
        ------
        InvalidError
            The data set was opened from files or a glob, not from a folder.
        DeniedError, IoError
            The folder cannot be written to.
        DatasetChangedError
            A file has changed since the data set was opened, and its footer had to be read for the index.

        Examples
        --------
        >>> import forebay as fb
        >>> fb.Dataset("data/train/").write_index()[0]["files"]
        1
        >>> fb.Dataset("data/train/").num_rows
        256
        """
        written: list[dict[str, Any]] = json.loads(self._native.write_index())
        return written

    def index(self) -> bytes:
        """The footers of the files as bytes, for other processes that open the same files.

        ``fb.Dataset(urls, index=...)`` lists the files, and reads none of these footers. :meth:`together`
        sends the bytes through the store of a launcher; any other broadcast works too, such as ``comm.bcast``
        of mpi4py.

        Returns
        -------
        bytes
            The index: about 100 bytes for each file, and more for files with many columns or row groups.

        Raises
        ------
        DatasetChangedError
            A file has changed since the data set was opened, and its footer had to be read again.
        IoError
            A footer cannot be read again.

        Examples
        --------
        >>> import forebay as fb
        >>> index = fb.Dataset("data/train/").index()
        >>> fb.Dataset("data/train/", index=index).num_rows
        256
        """
        return self._native.index()

    @classmethod
    def together(
        cls,
        urls: Location | Iterable[Location],
        store: Any,
        *,
        rank: int,
        timeout: float = 600,
        storage_options: Mapping[str, Any] | None = None,
        merge_schema: bool = False,
        partition_types: Mapping[str, Any] | None = None,
        version: int | str | None = None,
        timestamp: str | datetime | None = None,
        split: str | None = None,
        config: str | None = None,
    ) -> Dataset:
        """Opens a data set in all processes of a run; only one process reads the footers.

        Rank 0 opens the data set and puts its index into the store of the launcher. The other ranks wait for
        the index, list the files, and read no footer. Each rank checks that it has found the same data set as
        rank 0.

        Parameters
        ----------
        urls : str, os.PathLike or iterable of them
            The data set, given by the same text on all ranks: the key in the store depends on this text.
        store : object with ``set(key, value)`` and ``get(key)``
            The store, which takes and returns bytes: a ``torch.distributed.TCPStore``, a ``FileStore``, the
            store of a process group, or another object. ``get`` waits for the key, or returns ``None`` while
            the key is absent.
        rank : int
            The rank of this process, from 0.
        timeout : float, default 600
            Seconds that the other ranks wait for rank 0.
        storage_options, merge_schema, partition_types, version, timestamp, split, config
            The options of :class:`Dataset`.

        Returns
        -------
        Dataset
            The open data set, for :class:`Loader`.

        Raises
        ------
        IoError
            Rank 0 could not open the data set (the message has the reason) or did not open it within
            ``timeout``; or the store cannot be reached.
        DatasetChangedError
            This rank found other files, or other content, than rank 0.
        ForebayError
            Opening the data set failed; see :class:`Dataset`.

        Examples
        --------
        >>> import forebay as fb
        >>> import torch.distributed as dist
        >>> store = dist.HashStore()
        >>> first = fb.Dataset.together("data/train/", store, rank=0)
        >>> second = fb.Dataset.together("data/train/", store, rank=1)
        >>> first.fingerprint == second.fingerprint
        True
        """
        options: dict[str, Any] = {
            "storage_options": storage_options,
            "merge_schema": merge_schema,
            "partition_types": partition_types,
            "version": version,
            "timestamp": timestamp,
            "split": split,
            "config": config,
        }
        return opened_together(
            urls,
            store,
            rank,
            timeout,
            reads=lambda: cls._for_others(urls, dict(options)),
            takes=lambda index: cls(urls, index=index, **options),
        )

    @classmethod
    def _for_others(cls, urls: Any, options: dict[str, Any]) -> Dataset:
        """Opens a data set that keeps its footers for :meth:`index`."""
        dataset = cls.__new__(cls)
        table = table_version(options.pop("version", None), options.pop("timestamp", None))
        part = hub_part(options.pop("split", None), options.pop("config", None))
        dataset._open(urls, **options, table=table, filter=None, hand_on=True, part=part)
        return dataset

    def __copy__(self) -> Dataset:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Dataset:
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        place, types, table = self._place(), self._partition_types, (None, None)
        options = (self._storage_options, self.fingerprint, self._merge_schema, types, table, None)
        return opened, (place["urls"], *options, place.get("versions"), self._part, self._only)

    def _absolute(self) -> Any:
        """The locations as absolute paths, which a process with another working directory can open."""
        absolute = self._native.locations()
        if absolute == locations(self._urls):
            return self._urls
        return absolute[0] if isinstance(self._urls, (str, os.PathLike)) else absolute

    def _place(self) -> dict[str, Any]:
        """The locations, and the versions of tables, with which a process in another working directory can
        open the same data set."""
        versions = {location: version for location, _, version in self._native.tables()}
        return {"urls": self._absolute(), **({"versions": versions} if versions else {})}

    def _repr_html_(self) -> str:
        facts = {"rows": self.num_rows, "files": self.num_files, "row groups": self.num_row_groups}
        return notebook.of_facts(repr(self).strip("<>"), facts, self.schema)

    def __repr__(self) -> str:
        safe = shown(self._urls)
        where = repr(os.fspath(safe)) if isinstance(safe, (str, os.PathLike)) else _several(safe)
        files = "1 file" if self.num_files == 1 else f"{self.num_files:,} files"
        return f"<forebay.Dataset {where}: {self.num_rows:,} rows, {files}>"


def _several(urls: list[str]) -> str:
    more = len(urls) - 1
    return repr(urls[0]) + (f" and {more} more" if more else "")


def refuse_options(urls: Any, **options: Any) -> None:
    """Raises an error if options for opening are given although ``urls`` is a :class:`Dataset`, which is
    open."""
    for name, given in options.items():
        if isinstance(urls, Dataset) and given is not None and given is not False:
            raise InvalidError(f"{name} and a Dataset were given (pass {name} to forebay.Dataset)")


def opened(
    urls: Any,
    storage_options: dict[str, Any] | None,
    fingerprint: str | None,
    merge_schema: bool = False,
    partition_types: Mapping[str, Any] | None = None,
    table: tuple[str | None, str | None] = (None, None),
    filter: str | None = None,
    versions: Mapping[str, str] | None = None,
    part: tuple[str | None, str | None] = (None, None),
    only: list[str] | None = None,
) -> Dataset:
    """Opens a data set, without the folders that ``filter`` excludes. With ``only``, it has only the files at these
    relative paths. If a ``fingerprint`` is given, as for a data set that was pickled, the files must still have it."""
    dataset = Dataset.__new__(Dataset)
    dataset._open(
        urls, storage_options, merge_schema, partition_types, table, filter, versions=versions, part=part, only=only
    )
    if fingerprint not in (None, dataset.fingerprint):
        raise StateMismatchError(
            f"the files of {dataset!r} have changed since it was pickled "
            "(make a new forebay.Dataset or forebay.Loader, or put the old files back)"
        )
    return dataset
