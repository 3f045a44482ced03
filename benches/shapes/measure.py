"""Runs one contestant: `python measure.py TASK`, where TASK is a JSON object. The last line that it prints is
the result, another JSON object.

The first epoch warms up, and gives the time to the first batch. The timed part begins at the first batch of
the second epoch and ends at the first batch of a later one, after whole epochs: at both points a contestant
has prepared equally much ahead.
"""

import importlib
import itertools
import json
import os
import sys
import time
from collections import Counter
from pathlib import Path

from turns.usage import memory, processors, versions
from work import Work

STRIDE = 4_096  # values between two that are looked at


def arrays(batch):
    for column in batch.values():
        yield from column if isinstance(column, tuple) else (column,)


def columns(batch):
    """Counts the columns of each type."""
    values = (column[0] if isinstance(column, tuple) else column for column in batch.values())
    return dict(sorted(Counter(str(array.dtype) for array in values).items()))


def touched(batch):
    """Looks at a few values of each array, the same number for all contestants."""
    import numpy as np

    return sum(np.add.reduce(array.reshape(-1)[::STRIDE], dtype=np.float64) for array in arrays(batch))


def added_up(batch):
    """Returns the sum of all values of the batch."""
    import numpy as np

    values = (column[0] if isinstance(column, tuple) else column for column in batch.values())
    return sum(float(np.nansum(array, dtype=np.float64)) for array in values)


def measured(begin, work, seconds, check):
    """Measures the rate, the processor time, and the time from `begin()`, which opens the files, to the first
    batch.

    With `check`, it also adds up the values of the first epoch.
    """
    started = time.perf_counter()
    loader = begin()
    found, opened, rows, total = {}, None, 0, 0.0
    for number in itertools.count():
        for step, batch in enumerate(loader.epoch(number)):
            touched(batch)
            rows += work.batch
            if check and not number:
                total += added_up(batch)
            if step:
                continue
            now = time.perf_counter()
            if not number:
                found["first"] = now - started
                found["bytes_per_row"] = sum(array.nbytes for array in arrays(batch)) / work.batch
            elif opened is None:
                found["delivers"] = {"rows": rows - work.batch, "columns": columns(batch), "sum": total}
                opened, before, rows = now, processors(), 0
            elif now - opened >= seconds:
                own, machine = (after - at for after, at in zip(processors(), before, strict=True))
                found["rate"] = rows / (now - opened)
                found["processor_seconds_per_1000_rows"] = own / rows * 1_000
                found["foreign_processors"] = max(0.0, machine - own) / (now - opened)
                return found | {"epochs": number - 1, "held": loader.held()}
        if not found:
            raise ValueError("an epoch has no whole batch")


def main():
    task = json.loads(sys.argv[1])
    work = Work(**task["work"] | {"folder": Path(task["work"]["folder"])})
    contestant = importlib.import_module(f"loaders.{task['contestant']}")
    for name in contestant.NEEDS:
        importlib.import_module(name)
    result = measured(lambda: contestant.Loader(work), work, task["seconds"], task["check"])
    result |= {"peak": memory()[0], "versions": versions(contestant.PACKAGES) | contestant.built()}
    print("\n" + json.dumps(result), flush=True)
    # Exiting at once does not wait for the threads of an epoch under way.
    os._exit(0)


if __name__ == "__main__":
    main()
