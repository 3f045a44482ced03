"""The entry point of the command line program ``forebay`` in the wheel; cargo installs the same program."""

from __future__ import annotations

import signal
import sys
from collections.abc import Sequence

from .. import _forebay
from ..errors import InvalidError

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line program and returns its exit status.

    Parameters
    ----------
    arguments : sequence of str, optional
        The arguments after the program's name. Default: the arguments of this process.

    Returns
    -------
    int
        0 for success, 1 if the command failed while it ran, 2 for bad usage or input, 130 if interrupted.

    Raises
    ------
    InvalidError
        ``arguments`` is one string.

    Examples
    --------
    >>> import forebay as fb
    >>> status = fb.main(["inspect", "data/train/"])  # doctest: +SKIP
    """
    if isinstance(arguments, str):
        raise InvalidError(f"arguments must be a list of str, got one str (pass {arguments.split()!r})")
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given == ["verify-trainer"]:
        # The compiled program starts Python with this argument to run trainers, whose frameworks are in
        # Python. The module is imported here, because no other command needs it.
        from .trainers import verify

        return verify.main()
    # The compiled program expects that Ctrl-C ends it at once, but Python's handler would only set a flag.
    try:
        before = signal.signal(signal.SIGINT, signal.SIG_DFL)
    except ValueError:  # not the main thread
        before = None
    try:
        # The arguments with which the program can start more processes of itself.
        again = [sys.executable, "-m", "forebay"] if sys.executable else []
        return _forebay.main(["forebay", *given], again)
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)
