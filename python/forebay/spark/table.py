"""Recognises DataFrames of Spark that read one version of a Delta or Iceberg table unchanged."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from py4j.java_gateway import is_instance_of

__all__: list[str] = []

_RELATION = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"

#: The nodes of a plan that do not change rows. They may change columns, which are compared separately.
_SAME = {"SubqueryAlias", "Project"}

#: Matches the class that lists the files of a Delta table; its name differs between releases of Delta.
_INDEX = re.compile(r"(Tahoe|PreparedDelta)\w*")

#: The class of Iceberg's tables in Spark and, below, the class of Iceberg tables that hold the user's rows
#: and not metadata.
_SPARK_TABLE = "org.apache.iceberg.spark.source.SparkTable"
_BASE_TABLE = "org.apache.iceberg.BaseTable"

#: The options of a read that choose Iceberg's snapshot and, below, the options that do not change the rows.
_OF_SNAPSHOTS = {"snapshot-id", "tag", "branch", "as-of-timestamp"}
_SAME_ROWS = {"path", "split-size", "lookback", "file-open-cost", "vectorization-enabled", "batch-size", "locality"}


class TableVersion(NamedTuple):
    """A table at one version: the version number of a Delta table, or the snapshot id of an Iceberg table."""

    url: str
    version: int


def version_of(frame: Any) -> TableVersion | None:
    """The table and version that a DataFrame reads without a change; ``None`` if it does anything else."""
    whole = plan = frame._jdf.queryExecution().analyzed()
    while _name(plan) in _SAME:
        plan = plan.child()
    # The ids of the columns are compared, because a computed column has a new id, even under a stored name.
    if whole.output().mkString(",") != plan.output().mkString(","):
        return None
    if _name(plan) == "LogicalRelation":
        return _of_delta(frame, plan)
    return _of_iceberg(frame, plan) if _name(plan) == "DataSourceV2Relation" else None


def _of_delta(frame: Any, plan: Any) -> TableVersion | None:
    # Delta's relation has an anonymous class that extends HadoopFsRelation, so the name cannot be compared.
    if not _is(frame, plan.relation(), _RELATION):
        return None
    index = plan.relation().location()
    if not _INDEX.fullmatch(_name(index)) or not index.partitionFilters().isEmpty():
        return None
    snapshot = index.snapshotAtAnalysis()
    if list(snapshot.schema().fieldNames()) != list(frame.columns):
        return None
    path = index.deltaLog().dataPath().toString()
    return TableVersion(path, int(snapshot.version()))


def _of_iceberg(frame: Any, plan: Any) -> TableVersion | None:
    of_spark = plan.table()
    if str(of_spark.getClass().getName()) != _SPARK_TABLE:
        return None
    table = of_spark.table()
    # Iceberg shows its metadata (files, snapshots, partitions) as tables too, which have other classes.
    if not _is(frame, table, _BASE_TABLE) or list(of_spark.schema().fieldNames()) != list(frame.columns):
        return None
    # With this setting Spark may read a branch of the table instead: one whose changes are audited before
    # they are published.
    if frame.sparkSession.conf.get("spark.wap.branch", None) is not None:
        return None
    snapshot = _snapshot(of_spark, table, plan.options())
    if snapshot is None:
        return None
    # If a table keeps its metadata in another folder, the metadata file is named instead of the table's
    # folder.
    elsewhere = table.properties().get("write.metadata.path") is not None
    url = table.operations().current().metadataFileLocation() if elsewhere else table.location()
    return TableVersion(str(url), snapshot)


def _snapshot(of_spark: Any, table: Any, options: Any) -> int | None:
    """The id of the Iceberg snapshot that Spark reads; ``None`` if Spark does not read the rows of one
    snapshot."""
    names = {str(name) for name in options.keySet()}
    chosen = names & _OF_SNAPSHOTS
    # With other options, such as a start and an end snapshot, Spark reads changes and not the rows of a
    # snapshot.
    if names - _OF_SNAPSHOTS - _SAME_ROWS or len(chosen) > 1:
        return None
    if of_spark.snapshotId() is not None:
        return int(of_spark.snapshotId())
    if "snapshot-id" in chosen:
        return int(options.get("snapshot-id"))
    if "as-of-timestamp" in chosen:
        until = int(options.get("as-of-timestamp"))
        earlier = [int(entry.snapshotId()) for entry in table.history() if int(entry.timestampMillis()) <= until]
        return earlier[-1] if earlier else None
    reference = options.get(chosen.pop()) if chosen else of_spark.branch()
    snapshot = table.currentSnapshot() if reference is None else table.snapshot(reference)
    return None if snapshot is None else int(snapshot.snapshotId())


def _is(frame: Any, thing: Any, of: str) -> bool:
    return bool(is_instance_of(frame.sparkSession._sc._gateway, thing, of))


def _name(thing: Any) -> str:
    return str(thing.getClass().getSimpleName())
