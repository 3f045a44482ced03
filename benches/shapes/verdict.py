"""Lists the problems in the figures: points where forebay is not fast enough, and neighbouring points of an axis
whose speeds are too far apart."""

from itertools import pairwise

from comparison import MEASURES, measured, speed, times

ENOUGH = {"rate": 1.2, "processor time": 1.0}  # times pyarrow by hand
APART = 2.0  # times between neighbours of an axis
CHUNKS = "a chunk of a column costs the same however few values it has: it is found, opened and checked"
CELLS = "a cell of a few bytes costs the same whatever its width"
SHORT = "a cell of tens of bytes costs nearly as much as one of hundreds: it is found, measured and copied by itself"
ROWS = "the order of rows is worked out once for a row, of one column or of ten"
LEVELS = "each item of a list has its levels, which say where a list ends and what is null; bytes have none"
# Neighbouring points whose speeds are expected to differ more, and why.
REASONS = {
    ("row-groups", "10", "100"): CHUNKS,
    ("row-groups", "100", "1k"): CHUNKS,
    ("row-groups", "1k", "10k"): CHUNKS,
    ("columns", "1", "10"): ROWS,
    ("columns", "100", "1k"): CHUNKS,
    ("columns", "1k", "10k"): CHUNKS,
    ("widths", "int8", "int64"): CELLS,
    ("widths", "binary-50", "fixed-256"): SHORT,
    ("widths", "list-4k", "binary-5k"): LEVELS,
    ("widths", "binary-5k", "tokens"): LEVELS,
    ("widths", "list-2m", "binary-2m"): LEVELS,
    ("widths", "fixed-binary-2m", "bytes-2m"): LEVELS,
}


def slow(report):
    """Yields a line for each point and measure below the required ratio."""
    for name, axis in report["axes"].items():
        for at, point in measured(axis["points"]).items():
            for measure in MEASURES:
                if times(point, measure) < ENOUGH[measure]:
                    yield f"{name} {at}: {times(point, measure):.2f} times by {measure}"


def apart(report):
    """Returns the neighbours that are too far apart, each with the reason if there is one."""
    for name, axis in report["axes"].items():
        if axis["options"]:
            continue
        speeds = {at: speed(point, axis["per_byte"]) for at, point in measured(axis["points"]).items()}
        for left, right in pairwise(speeds):
            factor = max(speeds[left], speeds[right]) / min(speeds[left], speeds[right])
            if factor > APART:
                reason = REASONS.get((name, left, right), "no reason is known")
                yield f"{name} {left} and {right}: {factor:.1f} times; {reason}"


def failed(report, skipped=False):
    """Returns the points that have no figures; those whose packages are not installed are skipped."""
    for name, axis in report["axes"].items():
        for at, point in axis["points"].items():
            if point["reason"] and point["skipped"] == skipped:
                yield f"{name} {at}: {point['reason']}"


def text(report, figures=True):
    """Describes everything that is wrong; without `figures`, only the points that have none."""
    parts = {"Without figures": failed(report), "Skipped": failed(report, skipped=True)}
    if figures:
        least = " or ".join(f"{ratio} by {measure}" for measure, ratio in ENOUGH.items())
        parts[f"Below {least}, times pyarrow by hand"] = slow(report)
        parts[f"Neighbours of which forebay reads one more than {APART:g} times as fast"] = apart(report)
    lines = []
    for title, found in parts.items():
        found = list(found)
        lines += [f"{title}: {'none' if not found else len(found)}", *(f"- {line}" for line in found), ""]
    return "\n".join(lines).rstrip()
