"""Types of a bench's command-line arguments."""

import argparse


def count(text):
    """Parses a number of runs or threads: at least one, because there is no median of nothing."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 on")
    return int(text)
