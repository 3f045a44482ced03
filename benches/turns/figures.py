"""The machine's processor, and figures of the runs of a contestant."""

import os
import platform
import statistics
from pathlib import Path


def machine():
    """Returns the processor, as the system names it."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.split(":", 1)[1].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        model = platform.machine()
    return f"{os.cpu_count()} processors of {model}"


def spread(values, form="{:,.0f}"):
    return f"{form.format(min(values))} to {form.format(max(values))}"


def middle(runs, key):
    return statistics.median(run[key] for run in runs)


def ratios(first, runs, key="rate"):
    """Returns the first contestant's figure divided by another's, run by run."""
    return [one[key] / other[key] for one, other in zip(first, runs, strict=False)]
