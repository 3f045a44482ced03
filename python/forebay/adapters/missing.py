"""The errors that modules such as ``forebay.torch`` raise if their framework is not installed."""

from __future__ import annotations

from importlib.util import find_spec

__all__: list[str] = []

#: The backends of Keras, by the names of their packages.
_BACKENDS = ("torch", "jax", "tensorflow")


def too_old_keras(version: str) -> ImportError:
    """The error for an installed Keras that is older than Keras 3."""
    return ImportError(
        f"forebay.keras needs Keras 3, and Keras {version} is installed (pip install 'keras>=3', or pass "
        "forebay.tf.dataset(loader, x=..., y=...) to its fit, which works with Keras 2)"
    )


def missing(module: str, framework: str, package: str, error: ImportError) -> ImportError:
    """The error for ``forebay.<module>``, which could not import its framework; it says what to install."""
    if error.name is None or error.name.partition(".")[0] != package:
        # The framework is installed, but cannot import a package that it needs itself.
        lacking = (error.name or "").partition(".")[0]
        if package == "keras" and lacking in _BACKENDS:
            moves = [f"pip install {lacking}"]
            for other in _BACKENDS:
                if other != lacking and find_spec(other):
                    moves.insert(0, f"set the environment variable KERAS_BACKEND={other} before Python imports keras")
                    break
            return ImportError(
                f"forebay.{module} needs {framework}, whose backend {lacking} is not installed ({', or '.join(moves)})"
            )
        return ImportError(f"forebay.{module} needs {framework}, which cannot be imported: {error}")
    return ImportError(f"forebay.{module} needs {framework}, which is not installed (pip install {package})")
