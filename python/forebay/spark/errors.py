"""Converts errors of Spark to errors of this package, whose messages have the cause without the stack traces
of Java and Python."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from ..errors import DeniedError, ForebayError, InvalidError, IoError

__all__: list[str] = []

#: The largest number of causes of a Java exception that are followed; an exception may be its own cause.
_MAX_CAUSES = 50

#: Patterns for the names of Java exceptions that become a DeniedError or an InvalidError.
_DENIED = re.compile(r"AccessControl|AccessDenied|Forbidden|Unauthorized|NotAuthorized")
_INVALID = re.compile(r"AnalysisException|ParseException|IllegalArgumentException|Unsupported\w*Exception")

#: The beginning of the text of an exception that a Python function raised in a worker process of Spark.
_TRACEBACK = "Traceback (most recent call last)"


@contextmanager
def told(doing: str, next_move: str, file: str | None = None) -> Iterator[None]:
    """A context that raises exceptions of Spark as errors of this package. Their messages have the failed
    action ``doing``, the cause, and ``next_move``, the advice for the user."""
    try:
        yield
    except ForebayError:
        raise
    except (Py4JError, PySparkException) as error:
        kind, cause = _cause(error)
        raise kind(f"{doing}: {cause} ({next_move})", file=file) from None


def _cause(error: Exception) -> tuple[type[ForebayError], str]:
    java = error.java_exception if isinstance(error, Py4JJavaError) else getattr(error, "_origin", None)
    if java is None:
        if _TRACEBACK in str(error):
            return InvalidError, _raised(str(error))
        # Only the first line is used, because Py4J and Spark append Java's stack trace.
        said = str(error).strip().splitlines()
        return IoError, f"{type(error).__name__}: {said[0]}" if said else type(error).__name__
    try:
        chain = [(one.getClass().getSimpleName(), str(one.getMessage() or "")) for one in _chain(java)]
    except Py4JError:
        return IoError, "Spark's JVM has ended"
    for _, text in chain:
        if _TRACEBACK in text:
            return InvalidError, _raised(text)
    names = [name for name, _ in chain]
    name, text = chain[-1]
    kind: type[ForebayError] = IoError
    if any(map(_DENIED.search, names)):
        kind = DeniedError
    elif any(map(_INVALID.fullmatch, names)):
        kind = InvalidError
    return kind, f"{name}: {_line(text)}" if text.strip() else name


def _chain(java: Any) -> Iterator[Any]:
    """Yields an exception of Java, its cause, the cause of that, and so on."""
    for _ in range(_MAX_CAUSES):
        if java is None:
            return
        yield java
        java = java.getCause()


def _raised(text: str) -> str:
    """The exception that a Python function of the DataFrame raised, and its place in the user's code, from
    the traceback in ``text``."""
    lines = text[text.rindex(_TRACEBACK) :].splitlines()[1:]
    # The traceback ends at the first empty line; Java's stack trace or other text of Spark follows.
    end = next((at for at, line in enumerate(lines) if not line.strip()), len(lines))
    own = [line.strip() for line in lines[:end] if not line.startswith((" ", "\t"))]
    places = re.findall(r'File "([^"]+)", line (\d+)', "\n".join(lines[:end]))
    where = f" at {places[-1][0]}, line {places[-1][1]}" if places else ""
    return f"a function of the DataFrame raised {own[-1] if own else 'an exception'}{where}"


def _line(text: str) -> str:
    return next(line.strip() for line in text.splitlines() if line.strip())
