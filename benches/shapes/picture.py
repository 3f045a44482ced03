"""Draws the picture: one panel for each axis, with both ratios at each of its points."""

import math
from html import escape
from itertools import pairwise

import verdict
from comparison import MEASURES, measured, times

ENOUGH = verdict.ENOUGH["rate"]
COLUMNS = 2
PANEL = (520, 300)
# The margins of a panel around the plot.
LEFT, RIGHT, TOP, BOTTOM = 44, 32, 34, 92
HEAD = 34  # above the panels
TICKS = [0.25, 0.5, 1, 2, 4, 8, 16, 32, 64]
CLASSES = {"rate": "first", "processor time": "second"}
RULES = {1.0: "even", ENOUGH: "enough"}
STYLE = """
svg { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, sans-serif; }
text { fill: #5d6670; } .title { fill: #1c2126; font-weight: 600; }
.grid, .even, .enough { stroke: #8a94a0; } .grid { stroke-opacity: 0.25; } .enough { stroke-dasharray: 4 4; }
.line { stroke-width: 2; } .spread { stroke-width: 1.5; stroke-opacity: 0.5; }
.first { stroke: #1f6fb2; fill: #1f6fb2; } .second { stroke: #c8611b; fill: #c8611b; }
@media (prefers-color-scheme: dark) {
  text { fill: #9aa4ae; } .title { fill: #e8eaed; }
  .first { stroke: #66aee8; fill: #66aee8; } .second { stroke: #f0974f; fill: #f0974f; }
}
"""


class Scale:
    """Maps a ratio to a height on a logarithmic scale, which all panels share so that they can be compared."""

    def __init__(self, values):
        self.low = max(tick for tick in TICKS if tick <= min([0.8, *values]) or tick == TICKS[0])
        self.high = min(tick for tick in TICKS if tick >= max([ENOUGH, *values]) or tick == TICKS[-1])

    def height(self, value):
        share = math.log(max(value, self.low) / self.low) / math.log(self.high / self.low)
        return PANEL[1] - BOTTOM - min(share, 1.0) * (PANEL[1] - TOP - BOTTOM)

    def ticks(self):
        return [tick for tick in TICKS if self.low <= tick <= self.high]


def drawn(report):
    """Returns the whole picture as SVG text."""
    axes = {name: axis | {"points": measured(axis["points"])} for name, axis in report["axes"].items()}
    points = [point for axis in axes.values() for point in axis["points"].values()]
    scale = Scale([value for point in points for ratio in MEASURES.values() for value in ratio(point)])
    width, height = COLUMNS * PANEL[0], HEAD + -(-len(axes) // COLUMNS) * PANEL[1]
    panels = []
    for at, axis in enumerate(axes.values()):
        x, y = at % COLUMNS * PANEL[0], HEAD + at // COLUMNS * PANEL[1]
        panels += [f'<g transform="translate({x} {y})">', *panel(axis, scale), "</g>"]
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">',
            "<title>forebay over pyarrow by hand, along each axis</title>",
            f"<style>{STYLE}</style>",
            *legend(),
            *panels,
            "</svg>\n",
        ]
    )


def legend():
    texts = {"rate": "times the rate of pyarrow by hand", "processor time": "times less processor time"}
    for at, (measure, text) in enumerate(texts.items()):
        x = LEFT + at * 260
        yield f'<circle class="{CLASSES[measure]}" cx="{x}" cy="16" r="4"/><text x="{x + 10}" y="20">{text}</text>'


def panel(axis, scale):
    """Draws one axis: rules, the names of its points, and a line for each ratio with the spread of the runs."""
    right = PANEL[0] - RIGHT
    yield f'<text class="title" x="{LEFT}" y="20">{escape(axis["title"])}</text>'
    for tick in scale.ticks():
        y = scale.height(tick)
        yield f'<line class="grid" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
        yield f'<text x="{LEFT - 8}" y="{y:.1f}" dy="0.35em" text-anchor="end">{tick:g}</text>'
    for value, kind in RULES.items():
        y = scale.height(value)
        yield f'<line class="{kind}" x1="{LEFT}" x2="{right}" y1="{y:.1f}" y2="{y:.1f}"/>'
    yield f'<text x="{right + 4}" y="{scale.height(ENOUGH):.1f}" dy="0.35em">{ENOUGH}</text>'
    points = axis["points"]
    gap = (right - LEFT) / max(1, len(points))
    places = {at: LEFT + (number + 0.5) * gap for number, at in enumerate(points)}
    for at, x in places.items():
        y = PANEL[1] - BOTTOM + 16
        yield f'<text x="{x:.1f}" y="{y}" text-anchor="end" transform="rotate(-35 {x:.1f} {y})">{escape(at)}</text>'
    for measure, ratios in MEASURES.items():
        kind = CLASSES[measure]
        middles = {at: scale.height(times(point, measure)) for at, point in points.items()}
        for one, other in pairwise(points):
            ends = f'x1="{places[one]:.1f}" y1="{middles[one]:.1f}" x2="{places[other]:.1f}" y2="{middles[other]:.1f}"'
            yield f'<line class="line {kind}" {ends}/>'
        for at, point in points.items():
            x, values = places[at], ratios(point)
            low, high = scale.height(min(values)), scale.height(max(values))
            tip = escape(f"{at}: {times(point, measure):.2f} times, {measure}")
            yield f'<line class="spread {kind}" x1="{x:.1f}" x2="{x:.1f}" y1="{low:.1f}" y2="{high:.1f}"/>'
            yield f'<circle class="{kind}" cx="{x:.1f}" cy="{middles[at]:.1f}" r="3.5"><title>{tip}</title></circle>'
