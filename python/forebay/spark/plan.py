"""Computes the identity of a Spark DataFrame, a hash of its query plan and of the files that the plan reads.

Two DataFrames with the same identity have the same rows, even in two programs. A plan has no identity, which
is an error, if its rows depend on something that is not in the plan: a table in memory, a clock, or a
function in another language than Python.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from ..errors import UnsupportedError

__all__: list[str] = []

#: Number of hexadecimal digits in an identity: half of a SHA-256, which is enough to be unique.
NAME_CHARACTERS = 32

#: The sources of a plan (its leaf nodes) whose rows depend only on the plan.
_KNOWN_LEAVES = {"Range", "OneRowRelation", "CTERelationRef"}

#: Patterns for the parts of a plan whose text does not determine their result and, below, for those whose
#: result differs each time.
_OPAQUE = re.compile(r"Scala(UDF|UDAF|Aggregator)|Hive\w*(UDF|Function)\w*|Typed\w+|DeserializeToObject|\w*InR")
_CLOCKS = re.compile(r"Current\w+|Now|LocalTimestamp|Uuid")

#: Pattern for the settings of Spark that do not change the rows of a plan.
_NEUTRAL_SETTINGS = re.compile(
    r"spark\.sql\.(warehouse|artifact|shuffle|adaptive|debug|execution|ui|files|session\.id)\b"
)
#: The settings of Spark that change the rows of a plan and whose default may depend on the machine or the
#: release. Their values are part of the identity even if they are not set.
_SETTINGS = ("spark.sql.session.timeZone", "spark.sql.ansi.enabled", "spark.sql.caseSensitive")

#: The setting for the number of list members in the text of a plan. By default Spark leaves out the members
#: after the 25th.
_FIELDS = "spark.sql.debug.maxToStringFields"
_ALL_FIELDS = str(2**31 - 1)


def name(frame: Any) -> str:
    """The identity of a DataFrame as text, which serves as the name of a folder.

    Raises
    ------
    UnsupportedError
        The plan has no identity.
    """
    execution = frame._jdf.queryExecution()
    plan = execution.analyzed()
    parts = [plan, *_sequence(plan.subqueriesAll())]
    found = hashlib.sha256()
    for said in _said(frame, plan, parts):
        found.update(f"{len(said)}:{said}".encode())
    return found.hexdigest()[:NAME_CHARACTERS]


def _said(frame: Any, plan: Any, parts: list[Any]) -> Iterator[str]:
    """Yields, as pieces of text, everything that the rows of a DataFrame depend on."""
    yield frame.schema.json()
    session = frame.sparkSession
    for key in _SETTINGS:
        yield f"{key}={session.conf.get(key)}"
    for key, value in sorted(_settings(session).items()):
        if key.startswith("spark.sql.") and key not in _SETTINGS and not _NEUTRAL_SETTINGS.match(key):
            yield f"{key}={value}"
    # The canonical plan numbers its columns in a fixed way. Both its text and its JSON are used, because each
    # has parts that the other leaves out.
    canonical = plan.canonicalized()
    yield _text(session, canonical)
    nodes = re.sub(r'"jvmId":"[^"]*"', "", canonical.toJSON())
    yield nodes
    classes = sorted(set(re.findall(r'"class":"[\w.$]*?(\w+)"', nodes)))
    for kind in classes:
        if _OPAQUE.fullmatch(kind):
            raise _refused(f"its plan has a {kind}, which does not say what it computes")
        if _CLOCKS.fullmatch(kind):
            raise _refused(f"its plan has a {kind}, which has another value each time")
    for part in parts:
        for leaf in _sequence(part.collectLeaves()):
            yield from _leaf(session, leaf)
        if "PythonUDF" in classes or "PythonUDAF" in classes:
            yield from _functions(part)


def _settings(session: Any) -> dict[str, str]:
    """All settings of a session. Spark 3.5 has no Python method for them."""
    pairs = _sequence(session.conf._jconf.getAll().toSeq())
    return {str(pair._1()): str(pair._2()) for pair in pairs}


def _text(session: Any, plan: Any) -> str:
    before = session.conf.get(_FIELDS, None)
    session.conf.set(_FIELDS, _ALL_FIELDS)
    try:
        return str(plan.toString())
    finally:
        if before is None:
            session.conf.unset(_FIELDS)
        else:
            session.conf.set(_FIELDS, before)


def _leaf(session: Any, leaf: Any) -> Iterator[str]:
    """Yields the texts that identify the data that a source (leaf node) of a plan reads: its options and
    files."""
    kind = leaf.getClass().getSimpleName()
    if kind in _KNOWN_LEAVES:
        return
    relation = leaf.relation() if kind == "LogicalRelation" else None
    if relation is None or relation.getClass().getSimpleName() != "HadoopFsRelation":
        raise _refused(f"it reads a {kind}, whose content has no identity that Spark knows")
    yield f"{leaf.schema().json()} {relation.fileFormat().getClass().getName()}"
    options = relation.options()
    for key in sorted(_sequence(options.keys().toSeq()), key=str):
        yield f"{key}={options.apply(key)}"
    nothing = getattr(getattr(session._jvm.scala.collection.immutable, "Nil$"), "MODULE$")
    files = []
    for partition in _sequence(relation.location().listFiles(nothing, nothing)):
        for file in _sequence(partition.files()):
            files.append((file.getPath().toString(), file.getLen(), file.getModificationTime()))
    yield json.dumps(sorted(files))


def _functions(node: Any) -> Iterator[str]:
    """Yields a hash of each pickled Python function in a plan. The pickle includes the values that the
    function captures."""
    for expression in _sequence(node.expressions()):
        yield from _functions_within(expression)
    for child in _sequence(node.children()):
        yield from _functions(child)


def _functions_within(expression: Any) -> Iterator[str]:
    if expression.getClass().getSimpleName() in ("PythonUDF", "PythonUDAF"):
        command = expression.func().command()
        if not isinstance(command, (bytes, bytearray)):  # a Seq[Byte]
            command = bytes(value % 256 for value in _sequence(command))
        yield hashlib.sha256(bytes(command)).hexdigest()
    for child in _sequence(expression.children()):
        yield from _functions_within(child)


def _sequence(of_scala: Any) -> list[Any]:
    return [of_scala.apply(at) for at in range(of_scala.length())]


def _refused(why: str) -> UnsupportedError:
    return UnsupportedError(
        f"the DataFrame cannot be named by its plan: {why} (pass name=..., and another one whenever its rows change)"
    )
