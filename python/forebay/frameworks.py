"""What the modules named for a framework say where it is not installed."""

from __future__ import annotations

__all__: list[str] = []


def missing(module: str, framework: str, package: str, error: ImportError) -> ImportError:
    """The error of a module whose framework could not be imported."""
    if error.name is None or error.name.partition(".")[0] != package:
        # It is installed, and lacks something itself, as Keras does without a backend.
        return ImportError(f"forebay.{module} needs {framework}, which cannot be imported: {error}")
    return ImportError(f"forebay.{module} needs {framework}, which is not installed (pip install {package})")
