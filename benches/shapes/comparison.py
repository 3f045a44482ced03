"""The ratios of a point's runs, for tables, picture and verdict alike."""

import statistics

from turns.figures import middle, ratios

PROCESSOR = "processor_seconds_per_1000_rows"


def faster(point):
    """Returns forebay's rate divided by that of the loop by hand, for each run."""
    return ratios(point["forebay"], point["by_hand"])


def cheaper(point):
    """Returns the processor time of the loop by hand divided by forebay's, for each run."""
    return ratios(point["by_hand"], point["forebay"], PROCESSOR)


MEASURES = {"rate": faster, "processor time": cheaper}


def times(point, measure):
    """Returns the median of a ratio over the runs of a point."""
    return statistics.median(MEASURES[measure](point))


def mixed(point, contestant):
    """Returns the number of rows that a contestant holds at once to mix them."""
    return min(point["rows"], point[contestant][0]["held"] * point["group"])


def speed(point, per_byte):
    """Returns forebay's own rows or bytes a second."""
    return middle(point["forebay"], "rate") * (point["forebay"][0]["bytes_per_row"] if per_byte else 1)


def measured(points):
    """Returns the points that have figures."""
    return {name: point for name, point in points.items() if not point["reason"]}
