"""HTML tables that show reports and data in notebooks, without scripts, fonts or other external resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .._forebay import Batch, Schema
    from ..types import StageDict, StatsDict

__all__: list[str] = []

_CELL = "padding:2px 8px;text-align:right;white-space:nowrap"
_NAME = "padding:2px 8px;text-align:left;white-space:nowrap"

#: Colours of the bars for working time and for waiting time.
_COLOURS = {"working": "#4c78a8", "waited": "#e45756"}


def table(stats: StatsDict) -> str:
    """The stages of ``Stats.to_dict()`` as an HTML table, with the verdict above."""
    waits, stages = stats["waits"], stats["stages"]
    rows: list[tuple[str, StageDict | None, float | None]] = [
        (name, stage, waits.get(name)) for name, stage in stages.items()
    ]
    rows.insert(2, ("memory", None, waits["memory"]))
    longest = max([1e-9, *(stage["working"] for stage in stages.values())])
    most = max([1e-9, *waits.values()])
    body = "".join(_row(name, stage, wait, longest, most) for name, stage, wait in rows if _happened(stage, wait))
    heads = ["stage", "items", "MB", "working s", "", "starved s", "blocked s", "waited for s", ""]
    head = "".join(f'<th style="{_NAME if place == 0 else _CELL}">{name}</th>' for place, name in enumerate(heads))
    times = stats["next"]
    shown = {"p50": times["p50"], "p99": times["p99"], "longest": times["max"], "first batch": times["first"]}
    next_line = ", ".join(f"{name} {seconds * 1e3:.2f} ms" for name, seconds in shown.items())
    return (
        f"<div><p><b>{escape(stats['verdict']['sentence'])}.</b></p>"
        f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
        f"<p>next(): {times['count']} batches, {next_line}</p></div>"
    )


def of_schema(names: Sequence[str], types: Sequence[str]) -> str:
    """Names and types of columns as an HTML table."""
    return _grid(["column", "type"], list(zip(names, types, strict=True)))


def of_batch(batch: Batch, types: Sequence[str]) -> str:
    """The columns of a batch as an HTML table."""
    return f"<div><p><b>Batch of {batch.num_rows:,} rows</b></p>{of_schema(list(batch), types)}</div>"


def of_facts(title: str, facts: Mapping[str, object], schema: Schema | None = None) -> str:
    """A title, a table of an object's ``facts`` and a table of its columns, as HTML."""
    rows = [(name.replace("_", " "), str(value)) for name, value in facts.items()]
    columns = "" if schema is None else schema._repr_html_()
    return f"<div><p><b>{escape(title)}</b></p>{_grid([], rows)}{columns}</div>"


def _grid(heads: Sequence[str], rows: Sequence[tuple[str, str]]) -> str:
    """An HTML table without colours of its own. It scrolls if it is wider than the page."""
    head = "".join(f'<th style="{_NAME}">{escape(name)}</th>' for name in heads)
    cells = ["".join(f'<td style="{_NAME}">{escape(cell)}</td>' for cell in row) for row in rows]
    body = "".join(f"<tr>{row}</tr>" for row in cells)
    table = f'<table style="border-collapse:collapse"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
    return f'<div style="max-width:100%;overflow-x:auto">{table}</div>'


def _happened(stage: StageDict | None, wait: float | None) -> bool:
    return bool(wait) or (stage is not None and bool(stage["items"] or stage["working"]))


def _row(name: str, stage: StageDict | None, wait: float | None, longest: float, most: float) -> str:
    if stage is None:
        cells = [""] * 6
    else:
        cells = [
            f"{stage['items']:,}",
            f"{stage['bytes'] / 1e6:,.1f}",
            f"{stage['working']:.3f}",
            _bar(stage["working"] / longest, _COLOURS["working"]),
            _seconds(stage["starved"]),
            _seconds(stage["blocked"]),
        ]
    cells += [_seconds(wait), "" if wait is None else _bar(wait / most, _COLOURS["waited"])]
    return (
        f'<tr><td style="{_NAME}">{escape(name.replace("_", " "))}</td>'
        + "".join(f'<td style="{_CELL}">{cell}</td>' for cell in cells)
        + "</tr>"
    )


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _bar(share: float, colour: str) -> str:
    """An HTML bar, which is 120 pixels wide for a ``share`` of 1."""
    width = round(120 * min(1.0, share))
    return f'<div style="width:120px"><div style="width:{width}px;height:0.8em;background:{colour}"></div></div>'
