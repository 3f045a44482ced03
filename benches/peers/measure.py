"""Runs one contestant in this process: `python measure.py TASK`, where TASK is a JSON object. The last line
that it prints is the result, another JSON object.

The rate counts the rows of a time window, which opens a second after the first batch and continues over the ends
of epochs. The result also has the processor time and the memory of all processes of the contestant, the time to
the first batch without imports, and the processor time that other programs used meanwhile.
"""

import importlib
import itertools
import json
import os
import sys
import time
from dataclasses import replace
from pathlib import Path

from turns.usage import memory, processors, versions
from workloads import WORKLOADS

WARM_UP = 1.0  # seconds after the first batch: what was prepared before it is not counted


def verified(batch, work):
    """Returns the number type and shape of the delivered batch, and fails if they do not match the workload."""
    if work.column not in batch:
        raise ValueError(f"its batches have no column {work.column}")
    column = batch[work.column]
    dtype, shape = str(column.dtype).removeprefix("torch."), tuple(column.shape)
    turned = (work.cell[2], *work.cell[:2]) if work.kind == "images" else work.cell
    right = shape[1:] == turned if work.dtype else shape[1:] in (work.cell, turned)
    if work.kind == "images":
        right = right and dtype == (work.dtype or "uint8")
    if work.kind == "table":
        right = right and len(batch) == 40
    if not right or shape[0] > work.batch:
        raise ValueError(f"a batch of {work.name} has {len(batch)} columns, {work.column} is {dtype} {shape}")
    return f"{dtype} {shape}"


def measure(epoch, work, seconds, check):
    """Runs epochs until the window is over, and finishes the first epoch if that takes at most `check`
    seconds in all."""
    began = time.perf_counter()
    found = {"epochs": []}  # rows of each that came to its end
    opened, before, rows = None, None, 0
    for number in itertools.count():
        in_epoch = 0
        for batch in epoch(number):
            now = time.perf_counter()
            if "first" not in found:
                found |= {"first": now - began, "batch": verified(batch, work)}
            size = len(batch[work.column])
            in_epoch += size
            if "rate" in found:
                if found["epochs"] or now - began > check:
                    return found
            elif opened is not None:
                rows += size
                if now - opened >= seconds:
                    own, machine = (after - at for after, at in zip(processors(), before, strict=True))
                    found["rate"] = rows * work.per_row / (now - opened)
                    found["own_processors"] = own / (now - opened)
                    found["processor_seconds_per_1000_rows"] = own / rows * 1_000
                    found["foreign_processors"] = max(0.0, machine - own) / (now - opened)
            elif now - began - found["first"] >= WARM_UP:
                opened, before = now, processors()
        found["epochs"].append(in_epoch)
        if "rate" in found or "first" not in found:
            return found


def whole(epoch, work, epochs):
    """Runs whole epochs, and counts the rate from the first batch on, as `forebay bench` does."""
    opened, rows = None, 0
    for number in range(epochs):
        for batch in epoch(number):
            if opened is None:
                verified(batch, work)
                opened = time.perf_counter()
            else:
                rows += len(batch[work.column])
    return {"rate": rows * work.per_row / (time.perf_counter() - opened)}


def main():
    task = json.loads(sys.argv[1])
    changes = {"folder": Path(task["folder"]), "rows": task["rows"], **task.get("changes", {})}
    work = replace(WORKLOADS[task["work"]], **changes)
    peer = importlib.import_module(f"loaders.{task['peer']}")
    began = time.perf_counter()
    for name in peer.NEEDS:
        importlib.import_module(name)
    imported = time.perf_counter() - began
    converted = [Path(task["converted"])] if task["converted"] else []
    if task.get("convert"):
        began = time.perf_counter()
        peer.convert(work, *converted)
        result = {"seconds": time.perf_counter() - began}
    else:
        bare, _ = memory()
        epoch = peer.epochs(work, task["threads"], *converted, **task.get("settings", {}))
        if task.get("epochs"):
            result = whole(epoch, work, task["epochs"])
        else:
            result = measure(epoch, work, task["seconds"], task["check"])
        peak, own = memory()
        result["mixed"] = peer.mixed(work)
        result |= {"imports": imported, "bare": bare, "peak": peak, "own": own, "versions": versions(peer.PACKAGES)}
    print("\n" + json.dumps(result), flush=True)
    if hasattr(peer, "close"):
        peer.close()
    # Exiting at once lets the parent process end the workers of an interrupted epoch.
    os._exit(0)


if __name__ == "__main__":
    main()
