"""Compares forebay with itself: what Python costs, and whether it keeps to small memory budgets."""

import json
import statistics
import subprocess
from dataclasses import replace

EPOCHS = {"w1": 2, "w2": 10}  # some seconds of each
BUDGETS = ["96MiB", "128MiB", "256MiB"]
# Settings that fit a budget of 96 MiB: batches and a window that are smaller than usual.
SMALL = {"batch": 32, "mixed": 200}
MIB = 2**20


def rust(work, options):
    """Returns the rows a second of `forebay bench`, which runs the Rust iterator over the same rows."""
    words = ["--image", "image=rrc224"] if work.kind == "images" else []
    words += ["--window-rows", work.mixed, "--batch-size", work.batch, "--threads", options.threads, "--seed", 1]
    command = [options.program, "bench", work.folder, *words, "--epochs", EPOCHS[work.name], "--json", "-"]
    ran = subprocess.run([str(word) for word in command], check=True, capture_output=True, text=True)
    return json.loads(ran.stdout)["rows_per_second"]


def handover(works, options, launched):
    """Returns, for each workload, the rates of Rust and Python, which take turns."""
    rates = {name: {"python": [], "rust": []} for name in works}
    for name, work in works.items():
        for _ in range(options.runs):
            rates[name]["python"].append(launched(work=work, epochs=EPOCHS[name])["rate"])
            rates[name]["rust"].append(rust(work, options))
    return rates


def memory(works, options, launched):
    """Returns, for each budget, the peak memory of whole epochs and the memory of the interpreter before
    them."""
    work = replace(works["w1"], **SMALL)
    small = {"epochs": 1, "changes": SMALL}
    found = {"data": sum(file.stat().st_size for file in work.folder.glob("*.parquet")), "budgets": {}}
    for budget in BUDGETS:
        runs = [launched(work=work, settings={"memory": budget}, **small) for _ in range(options.runs)]
        found["budgets"][budget] = [{"peak": run["peak"], "bare": run["bare"]} for run in runs]
    return found


WORKLOADS = {"handover": ["w1", "w2"], "memory": ["w1"]}
MEASURES = {"handover": handover, "memory": memory}


def text(name, found):
    lines = ["", f"{name}: " + {"handover": "the Python loop over the Rust iterator", "memory": "peak, w1"}[name]]
    if name == "handover":
        for work, rates in found.items():
            ratios = [python / rust for python, rust in zip(rates["python"], rates["rust"], strict=True)]
            python, rust = (statistics.median(rates[key]) for key in ("python", "rust"))
            lines.append(
                f"  {work}: Python {python:,.0f} rows/s, Rust {rust:,.0f} rows/s: "
                f"{statistics.median(ratios):.2f} times ({min(ratios):.2f} to {max(ratios):.2f})"
            )
    else:
        for budget, runs in found["budgets"].items():
            peak, bare = (statistics.median(run[key] for run in runs) / MIB for key in ("peak", "bare"))
            lines.append(
                f"  budget {budget}, data {found['data'] / MIB:.0f} MiB: peak {peak:.0f} MiB, "
                f"of which the interpreter with its imports {bare:.0f} MiB"
            )
    return "\n".join(lines)
