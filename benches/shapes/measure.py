"""Runs one contestant: `python measure.py TASK`, where TASK is a JSON object with one or more pieces of work.
The last line that it prints is the list of their results, each another JSON object.

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

import digest
from turns.usage import memory, processors, versions
from work import Work

STRIDE = 4_096  # values between two that are looked at


def arrays(batch):
    """Yields the arrays of a batch; texts that are objects of Python have none."""
    for column in batch.values():
        for array in column if isinstance(column, tuple) else (column,):
            if getattr(array, "dtype", None) not in (None, object):
                yield array


def columns(batch):
    """Counts the columns of each type."""
    values = (column[0] if isinstance(column, tuple) else column for column in batch.values())
    return dict(sorted(Counter(str(getattr(array, "dtype", object.__name__)) for array in values).items()))


def touched(batch):
    """Looks at a few values of each array, the same number for all contestants."""
    import numpy as np

    return sum(np.add.reduce(array.reshape(-1)[::STRIDE], dtype=np.float64) for array in arrays(batch))


def measured(begin, seconds, check):
    """Measures the rate, the processor time, and the time from `begin()`, which opens the files, to the first
    batch.

    With `check`, it also adds up the values of the first epoch.
    """
    started = time.perf_counter()
    loader = begin()
    found, opened, rows, total = {}, None, 0, Counter()
    for number in itertools.count():
        for step, batch in enumerate(loader.epoch(number)):
            touched(batch)
            here = digest.rows(batch)
            rows += here
            if check and not number:
                total.update(digest.sums(batch))
            if step:
                continue
            now = time.perf_counter()
            if not number:
                found["first"] = now - started
                found["bytes_per_row"] = sum(array.nbytes for array in arrays(batch)) / here
            elif opened is None:
                found["delivers"] = {"rows": rows - here, "columns": columns(batch), "sums": total}
                opened, before, rows = now, processors(), 0
            elif now - opened >= seconds:
                own, machine = (after - at for after, at in zip(processors(), before, strict=True))
                found["rate"] = rows / (now - opened)
                found["processor_seconds_per_1000_rows"] = own / rows * 1_000
                found["foreign_processors"] = max(0.0, machine - own) / (now - opened)
                return found | {"epochs": number - 1, "held": loader.held()}
        if not found:
            raise ValueError("an epoch has no whole batch")


def result(contestant, work, task):
    """Returns the figures of a piece of work, or the reason why there are none."""
    try:
        found = measured(lambda: contestant.Loader(work), task["seconds"], task["check"])
    except ModuleNotFoundError as error:
        return {"skipped": f"{error.name} is not installed"}
    except Exception as error:
        return {"failed": f"{type(error).__name__}: {error}"}
    return found | {"peak": memory()[0], "versions": versions(contestant.PACKAGES) | contestant.built()}


def main():
    task = json.loads(sys.argv[1])
    contestant = importlib.import_module(f"loaders.{task['contestant']}")
    for name in contestant.NEEDS:
        importlib.import_module(name)
    works = [Work(**work | {"folder": Path(work["folder"])}) for work in task["works"]]
    print("\n" + json.dumps([result(contestant, work, task) for work in works]), flush=True)
    # Exiting at once does not wait for the threads of an epoch under way.
    os._exit(0)


if __name__ == "__main__":
    main()
