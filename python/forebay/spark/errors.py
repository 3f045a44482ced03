"""Converts errors of Spark to errors of this package: the message has the cause, without the stack traces of
two languages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException

from ..errors import DeniedError, ForebayError, InvalidError, IoError

__all__: list[str] = []

#: The longest chain of causes that is followed, because an exception may be its own cause.
_MAX_CAUSES = 50

#: Match names of Java's exceptions, which decide the class of the error.
_DENIED = re.compile(r"AccessControl|AccessDenied|Forbidden|Unauthorized|NotAuthorized")
_INVALID = re.compile(r"AnalysisException|ParseException|IllegalArgumentException|Unsupported\w*Exception")

#: Begins the text of an exception that a Python function raised in a worker.
_TRACEBACK = "Traceback (most recent call last)"


@contextmanager
def told(doing: str, next_move: str, file: str | None = None) -> Iterator[None]:
    """Raises exceptions of Spark as errors of this package, with the action, the cause and the next move."""
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
    """An exception of Java and the chain of its causes."""
    for _ in range(_MAX_CAUSES):
        if java is None:
            return
        yield java
        java = java.getCause()


def _raised(text: str) -> str:
    """The exception that a function of the DataFrame raised, from the last line of its traceback."""
    lines = text[text.rindex(_TRACEBACK) :].splitlines()[1:]
    # After the first empty line comes Java's stack trace or other text of Spark.
    end = next((at for at, line in enumerate(lines) if not line.strip()), len(lines))
    own = [line.strip() for line in lines[:end] if not line.startswith((" ", "\t"))]
    places = re.findall(r'File "([^"]+)", line (\d+)', "\n".join(lines[:end]))
    where = f" at {places[-1][0]}, line {places[-1][1]}" if places else ""
    return f"a function of the DataFrame raised {own[-1] if own else 'an exception'}{where}"


def _line(text: str) -> str:
    return next(line.strip() for line in text.splitlines() if line.strip())
