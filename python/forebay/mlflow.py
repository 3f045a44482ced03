"""Logs the data sets of a run to MLflow, which then shows on which tables and versions a model was trained.

Examples
--------
>>> import forebay as fb
>>> train = fb.Loader("data/train/", columns=["label"], batch_size=64)
>>> (logged,) = fb.mlflow.datasets(train)
>>> logged.name, logged.profile["num_rows"]
('train', 256)
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any

from .adapters.missing import missing
from .dataset import Dataset, opened
from .errors import InvalidError, StateMismatchError
from .loader import Loader
from .options.locations import shown

try:
    from mlflow.data.dataset import Dataset as _Logged
    from mlflow.data.dataset_source import DatasetSource
    from mlflow.data.dataset_source_registry import register_dataset_source
    from mlflow.types.schema import AnyType, Array, ColSpec, DataType, Schema
except ImportError as error:
    raise missing("mlflow", "MLflow", "mlflow", error) from error

__all__ = ["LoggedDataset", "Source", "datasets"]

_LONG = DataType.long
#: The MLflow types of numbers by numpy type, such as ``u4`` for unsigned integers of 4 bytes. Types that are
#: missing here become ``integer`` or ``float``.
_NUMBERS = {"b1": DataType.boolean, "i8": _LONG, "u4": _LONG, "u8": _LONG, "f8": DataType.double}


class Source(DatasetSource):  # type: ignore[misc]  # MLflow has no types
    """The origin of a logged data set: its locations, and the version of each table.

    ``mlflow.data.get_source(run.inputs.dataset_inputs[0])`` returns it once ``forebay.mlflow`` was imported.
    Credentials are not part of it.
    """

    def __init__(self, saved: Mapping[str, Any]) -> None:
        self._saved = dict(saved)

    @property
    def locations(self) -> list[str]:
        """The paths and URLs that were opened."""
        return list(self._saved["locations"])

    @property
    def versions(self) -> dict[str, int]:
        """The version of each table by its location: the number of a Delta table's version, or of an Iceberg
        table's snapshot. Empty for plain files."""
        return {location: _number(version) for location, version in self._saved["versions"].items()}

    @property
    def fingerprint(self) -> str:
        """The fingerprint of the data set: see :attr:`forebay.Dataset.fingerprint`."""
        return str(self._saved["fingerprint"])

    def load(self, storage_options: Mapping[str, Any] | None = None) -> Dataset:
        """Opens the data set as it was logged.

        Parameters
        ----------
        storage_options : mapping of str, optional
            Credentials and settings of the store; see :class:`forebay.Dataset`.

        Returns
        -------
        Dataset
            The same files, at the same versions.

        Raises
        ------
        StateMismatchError
            The files have changed since they were logged.
        NotFoundError, DeniedError
            A version or a location is gone, or cannot be read.
        """
        urls: Any = self.locations[0] if len(self.locations) == 1 else self.locations
        options = None if storage_options is None else dict(storage_options)
        saved, filter = self._saved, self._saved.get("filter")
        merge, types = saved.get("merge_schema", False), saved.get("partition_types")
        dataset = opened(urls, options, None, merge, types, (None, None), filter, saved["versions"] or None)
        if dataset.fingerprint != self.fingerprint:
            raise StateMismatchError(
                f"{dataset!r} has other files than when it was logged (open it with forebay.Dataset to read what it "
                "has now, or put the old files back)"
            )
        return dataset

    def to_dict(self) -> dict[str, Any]:
        """The source in JSON types."""
        return dict(self._saved)

    @classmethod
    def from_dict(cls, source_dict: dict[Any, Any]) -> Source:
        """The source that :meth:`to_dict` returned."""
        return cls(source_dict)

    @staticmethod
    def _get_source_type() -> str:
        return "forebay"

    @staticmethod
    def _can_resolve(raw_source: Any) -> bool:
        return False

    @classmethod
    def _resolve(cls, raw_source: Any) -> Source:
        raise NotImplementedError("forebay.mlflow.datasets makes sources")


class LoggedDataset(_Logged):  # type: ignore[misc]  # MLflow has no types
    """A data set for ``mlflow.log_input``: :func:`datasets` makes it."""

    def __init__(self, dataset: Dataset, saved: Mapping[str, Any], name: str, profile: Mapping[str, Any]) -> None:
        self._columns, self._profile = _schema(dataset), dict(profile)
        super().__init__(Source(saved), name, dataset.fingerprint)

    def _compute_digest(self) -> str:
        return str(self.source.fingerprint)

    @property
    def schema(self) -> Schema:
        """The stored columns, in the types of MLflow."""
        return self._columns

    @property
    def profile(self) -> dict[str, Any]:
        """``num_rows``, ``num_files`` and ``fingerprint`` of the data set, the number of ``selected_rows`` in an
        epoch of the loader, and the ``version`` of the table. Unknown values are left out."""
        return dict(self._profile)

    def to_dict(self) -> dict[str, str]:
        """Everything that MLflow logs, as text."""
        columns = json.dumps({"mlflow_colspec": self._columns.to_dict()})
        return {**super().to_dict(), "schema": columns, "profile": json.dumps(self._profile)}


def datasets(data: Loader | Dataset, *, name: str | None = None) -> list[LoggedDataset]:
    """The data sets of a loader for MLflow's log, one for each source of a mix.

    Log them once a run has begun::

        with mlflow.start_run():
            for dataset in fb.mlflow.datasets(train):
                mlflow.log_input(dataset, context="training")

    MLflow then shows locations, versions of tables, columns and rows with the run, and finds runs by the digest, which
    is the fingerprint of the data set. A loader with ``follow=`` has other versions in later epochs: log them at the
    beginning of each.

    Parameters
    ----------
    data : Loader, Mix or Dataset
        The loader or data set that the run reads.
    name : str, optional
        The name of the data sets in MLflow; those of a mix also get the number of their source. Default: the last part
        of the first location.

    Returns
    -------
    list of LoggedDataset
        Data sets for ``mlflow.log_input``, at the versions that are read now.

    Raises
    ------
    InvalidError
        ``data`` is something else, or ``name`` is not a str.

    Examples
    --------
    >>> import forebay as fb
    >>> (logged,) = fb.mlflow.datasets(fb.Dataset("data/val/"), name="validation")
    >>> logged.source.versions, logged.digest == fb.Dataset("data/val/").fingerprint
    ({}, True)
    """
    if name is not None and not isinstance(name, str):
        raise InvalidError(f"name must be a str, got {type(name).__qualname__}")
    if isinstance(data, Dataset):
        return [_logged(data, name, None)]
    if not isinstance(data, Loader):
        raise InvalidError(f"data must be a forebay.Loader, Mix or Dataset, got {type(data).__qualname__}")
    sources = data._datasets
    if not data._is_mix:
        return [_logged(sources[0], name, data.num_rows)]
    names = [None if name is None else f"{name}-{number}" for number in range(len(sources))]
    return [_logged(dataset, name, None) for dataset, name in zip(sources, names, strict=True)]


def _logged(dataset: Dataset, name: str | None, selected: int | None) -> LoggedDataset:
    place = shown(dataset._absolute())
    locations = [os.fspath(place)] if isinstance(place, (str, os.PathLike)) else [os.fspath(one) for one in place]
    versions = {shown(location): version for location, _, version in dataset._native.tables()}
    saved: dict[str, Any] = {"locations": locations, "versions": versions, "fingerprint": dataset.fingerprint}
    options = ("merge_schema", "partition_types", "filter")
    saved |= {name: value for name in options if (value := getattr(dataset, f"_{name}"))}
    profile: dict[str, Any] = {name: getattr(dataset, name) for name in ("num_rows", "num_files", "fingerprint")}
    if selected is not None:
        profile["selected_rows"] = selected
    if len(versions) == 1:
        profile["version"] = _number(next(iter(versions.values())))
    last = locations[0].partition("?")[0].rstrip("/").rpartition("/")[2]
    return LoggedDataset(dataset, saved, name or last or "dataset", profile)


def _number(version: str) -> int:
    """The number in the text of a table version, such as 7 in ``7`` or ``7@2``; an ``@`` begins a schema
    id."""
    return int(version.partition("@")[0])


def _schema(dataset: Dataset) -> Schema:
    # Parquet schemas rarely rule out nulls, so no column is declared as required.
    layout = dataset.schema.layout()
    return Schema([ColSpec(_type(kind, of, shape), name=name, required=False) for name, kind, of, shape in layout])


def _type(kind: str, element: str | None, shape: tuple[int | None, ...]) -> Any:
    """The MLflow type for a column: ``kind`` is its form in a batch, ``element`` the numpy type of its
    numbers."""
    if kind == "text":
        return DataType.string
    if kind == "bytes":
        return DataType.binary
    if kind not in ("dense", "ragged") or element is None:
        return AnyType()
    number = element.lstrip("<>|=")
    if number[0] == "M":
        of_one = DataType.datetime
    elif number[0] in "iu":
        of_one = _NUMBERS.get(number, DataType.integer)
    else:
        of_one = _NUMBERS.get(number, DataType.float)
    return Array(of_one) if shape else of_one


register_dataset_source(Source)
