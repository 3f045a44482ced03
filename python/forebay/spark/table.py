"""DataFrames of Spark that are one version of a Delta table, and nothing else."""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from py4j.java_gateway import is_instance_of

__all__: list[str] = []

_RELATION = "org.apache.spark.sql.execution.datasources.HadoopFsRelation"

#: Nodes of a plan that change no rows. Columns are compared apart.
_SAME = {"SubqueryAlias", "Project"}

#: The class of the files of a Delta table, by the beginnings of its names in several releases.
_INDEX = re.compile(r"(Tahoe|PreparedDelta)\w*")


class DeltaVersion(NamedTuple):
    """One version of a Delta table."""

    url: str
    version: int


def version_of(frame: Any) -> DeltaVersion | None:
    """The version of a Delta table that a DataFrame is; ``None`` if it is anything else."""
    whole = plan = frame._jdf.queryExecution().analyzed()
    while _name(plan) in _SAME:
        plan = plan.child()
    if _name(plan) != "LogicalRelation":
        return None
    # Delta's relation is of a class without a name, which extends this one.
    if not is_instance_of(frame.sparkSession._sc._gateway, plan.relation(), _RELATION):
        return None
    index = plan.relation().location()
    if not _INDEX.fullmatch(_name(index)) or not index.partitionFilters().isEmpty():
        return None
    snapshot = index.snapshotAtAnalysis()
    # A column that was computed has another number, also under the same name.
    if whole.output().mkString(",") != plan.output().mkString(","):
        return None
    if list(snapshot.schema().fieldNames()) != list(frame.columns):
        return None
    path = index.deltaLog().dataPath().toString()
    return DeltaVersion(path, int(snapshot.version()))


def _name(thing: Any) -> str:
    return str(thing.getClass().getSimpleName())
