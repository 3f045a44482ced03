"""The measurements in Markdown, one table for each axis."""

import statistics

from comparison import cheaper, faster, mixed
from turns.figures import middle, spread

MIB = 2**20
HEADS = [
    "",
    "rows mixed: forebay",
    "by hand",
    "rows/s: forebay",
    "by hand",
    "times the rate",
    "spread",
    "times less processor time",
    "spread",
    "first batch, s: forebay",
    "by hand",
    "memory, MiB: forebay",
    "by hand",
    "others",
]


def header(report):
    return (
        f"{report['machine']}; {report['threads']} threads each; medians of {report['runs']} runs in turns, of whole "
        f"epochs in {report['seconds']:g} s or more, warm in the page cache; load before: {report['load_before']:.2f}"
    )


def cells(name, point):
    if point["reason"]:
        return [name, point["reason"], *[""] * (len(HEADS) - 2)]
    both = [point["forebay"], point["by_hand"]]
    ratios = [faster(point), cheaper(point)]
    return [
        name,
        *(f"{mixed(point, contestant):,}" for contestant in ("forebay", "by_hand")),
        *(f"{middle(runs, 'rate'):,.0f}" for runs in both),
        *(cell for ratio in ratios for cell in (f"{statistics.median(ratio):.2f}", spread(ratio, "{:.2f}"))),
        *(f"{middle(runs, 'first'):.2f}" for runs in both),
        *(f"{middle(runs, 'peak') / MIB:,.0f}" for runs in both),
        f"{max(run['foreign_processors'] for runs in both for run in runs):.2f}",
    ]


def table(points):
    """Returns a Markdown table with a line for each point, padded so that a terminal shows aligned columns."""
    lines = [HEADS, *(cells(name, point) for name, point in points.items())]
    complete = [line for line in lines if line[2]]
    widths = [max(len(line[at]) for line in complete) for at in range(len(HEADS))]

    def shown(line):
        return "| " + " | ".join(f"{cell:{'>' if at else '<'}{widths[at]}}" for at, cell in enumerate(line)) + " |"

    rule = "|" + "|".join("-" * (width + 1) + (":" if at else "-") for at, width in enumerate(widths)) + "|"
    head, *body = map(shown, lines)
    return "\n".join([head, rule, *body])


def versions(report):
    """Returns the versions of all packages that took part."""
    points = [point for axis in report["axes"].values() for point in axis["points"].values()]
    runs = [run for point in points for run in point["forebay"] + point["by_hand"]]
    found = {package: number for run in runs for package, number in run["versions"].items()}
    return ", ".join(f"{package} {number}" for package, number in found.items())


def markdown(report):
    lines = [f"{header(report)}; {versions(report)}."]
    for name, axis in report["axes"].items():
        lines += ["", f"**{name}**: {axis['title']}", "", table(axis["points"])]
    return "\n".join(lines)
