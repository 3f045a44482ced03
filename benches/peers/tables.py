"""Prints the measurements as text for a terminal and as Markdown."""

import statistics

from turns.figures import middle, ratios, spread

DISTURBED = 0.25  # processors that others used, above which a run is marked
MIB = 2**20
# The unit of the workload replaces the second heading, "rate".
HEADS = [
    "",
    "rate",
    "least to most",
    "forebay is … times that",
    "mixed",
    "processor s per 1,000 rows",
    "… times forebay's",
    "first batch",
    "memory",
    "rows",
    "others",
]
PROCESSOR = "processor_seconds_per_1000_rows"


def header(report):
    return (
        f"{report['machine']}; {report['threads']} threads or workers each; medians of {report['runs']} runs in turns, "
        f"windows of {report['seconds']:g} s, data warm in the page cache; load before: {report['load_before']:.2f}"
    )


def delivered(runs, rows):
    """Describes the result of counting rows: all of them, how many too few or too many, or that no epoch
    ended in time."""
    counts = [count for run in runs for count in run["epochs"]]
    wrong = [count - rows for count in counts if count != rows]
    if not counts:
        return "not counted"
    return f"{max(wrong, key=abs):+,}" if wrong else "all"


def with_spread(ratio):
    return f"{statistics.median(ratio):.2f} ({spread(ratio, '{:.2f}')})"


def rows_of(work_rows, entries):
    """Yields the cells of each line: the fastest contestant first, those without a figure last."""
    first = next((entry["runs"] for entry in entries if entry["name"] == "forebay" and not entry["reason"]), [])
    done = [entry for entry in entries if not entry["reason"]]
    done.sort(key=lambda entry: -middle(entry["runs"], "rate"))
    for entry in done:
        runs = entry["runs"]
        compared = first and runs is not first
        foreign = max(run["foreign_processors"] for run in runs)
        yield entry["name"], [
            f"{middle(runs, 'rate'):,.0f}",
            spread([run["rate"] for run in runs]),
            with_spread(ratios(first, runs)) if compared else "",
            f"{runs[0]['mixed']:,}",
            f"{middle(runs, PROCESSOR):.3g}",
            with_spread(ratios(runs, first, PROCESSOR)) if compared else "",
            f"{middle(runs, 'first'):.2f} s",
            f"{middle(runs, 'peak') / MIB:,.0f} MiB",
            delivered(runs, work_rows),
            f"{foreign:.2f}" + ("!" if foreign > DISTURBED else ""),
        ]
    for entry in entries:
        if entry["reason"]:
            yield entry["name"], [entry["reason"]]


def text(work, entries):
    heads = [work.name, work.unit, *HEADS[2:]]
    lines = [(name, *cells) for name, cells in rows_of(work.rows, entries)]
    full = [line for line in lines if len(line) == len(heads)]
    widths = [max(len(line[at]) for line in [heads, *full]) for at in range(len(heads))]
    widths[0] = max(len(line[0]) for line in [heads, *lines])

    def shown(line):
        if len(line) == 2:
            return f"{line[0]:{widths[0]}}  {line[1]}"
        return "  ".join(f"{cell:{'<' if at == 0 else '>'}{widths[at]}}" for at, cell in enumerate(line))

    return "\n".join(["", f"{work.name}: {work.title}; {work.rows:,} rows", shown(heads), *map(shown, lines)])


def notes(report):
    """Returns one sentence for each contestant: versions, format, pixels."""
    found = {}
    for name, result in report["workloads"].items():
        for entry in result["contestants"]:
            if not entry["runs"]:
                continue
            fresh = {"reads": entry["reads"], "pixels": None, "conversions": {}, "versions": {}}
            note = found.setdefault(entry["name"], fresh)
            note["pixels"] = note["pixels"] or entry["pixels"]
            note["versions"] |= entry["runs"][0]["versions"]
            if entry["converted"] is not None:
                note["conversions"][name] = entry["converted"]
    lines = []
    for name, note in found.items():
        versions = ", ".join(f"{package} {number}" for package, number in note["versions"].items())
        took = ", ".join(f"{work} in {seconds:.0f} s" for work, seconds in note["conversions"].items())
        took = f" (converted: {took})" if took else ""
        images = f"; images by {note['pixels']}" if note["pixels"] else ""
        lines.append(f"{name}: reads {note['reads']}{took}{images}; {versions}")
    return "\n".join(["", *lines])


def markdown(report):
    from extras import text as extra

    lines = [header(report) + "."]
    for name, result in report["workloads"].items():
        lines += ["", f"**{name}**: {result['title']}; {result['rows']:,} rows", ""]
        heads = ["", result["unit"], *HEADS[2:]]
        lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        for contestant, cells in rows_of(result["rows"], result["contestants"]):
            cells = cells + [""] * (len(heads) - 1 - len(cells))
            lines.append(f"| {contestant} | " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    for name in ("handover", "memory"):
        if name in report:
            lines += ["", *(f"- {line.strip()}" for line in extra(name, report[name]).splitlines() if line.strip())]
    return "\n".join([*lines, "", *(f"- {line}" for line in notes(report).splitlines() if line)])
