"""Words of a bench's command line."""

import argparse


def count(text):
    """A number of runs or threads: at least one, or there would be nothing to take the median of."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)
