"""The command line program, which is the same as the one that cargo installs."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from . import _forebay

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the program and returns its exit status.

    Args:
        arguments: What follows the program's name. Default: those of this process.
    """
    given = sys.argv[1:] if arguments is None else list(arguments)
    # The program expects Ctrl-C to end it at once; Python would only take a note.
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    except ValueError:  # not the main thread
        before = None
    try:
        return _forebay.main(["forebay", *given])
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
