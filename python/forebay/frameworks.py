"""What the modules named for a framework say where it is not installed."""

from __future__ import annotations

__all__: list[str] = []


def missing(module: str, framework: str, install: str) -> ImportError:
    """The error of a module whose framework is not installed."""
    return ImportError(f"forebay.{module} needs {framework}, which is not installed (pip install {install})")
