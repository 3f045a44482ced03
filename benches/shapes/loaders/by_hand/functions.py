"""Runs a function of one row in processes. Each process reads all row groups, and makes every n-th batch if there
are n processes. A batch stays in memory that the process shares with the loop until the loop asks for the next one.
"""

import mmap
from itertools import count, cycle
from multiprocessing import get_context

import numpy as np
import row_functions

from loaders.by_hand.rows import Rows

SLOTS = 3  # batches of a process: one is used, one waits, one is made
SLOT = 1 << 22  # bytes of a batch
ALIGNED = 64


class Processes:
    def __init__(self, work):
        self.work = work
        self.makers = [Maker(work, number) for number in range(work.threads)]

    def held(self):
        return self.work.held

    def epoch(self, number):
        for maker in cycle(self.makers):
            batch = maker.receive()
            if batch is None:
                break
            yield batch
            maker.release()
        # Each other process also sends None at the end of the epoch.
        for other in self.makers:
            if other is not maker:
                other.receive()


class Maker:
    """A process that makes batches, as the loop sees it."""

    def __init__(self, work, number):
        # A forked process shares this memory, and has all modules imported already.
        context = get_context("fork")
        self.memory = mmap.mmap(-1, SLOTS * SLOT)
        self.pipe, end = context.Pipe()
        context.Process(target=run, args=(work, number, self.memory, end), daemon=True).start()
        for slot in range(SLOTS):
            self.pipe.send(slot)

    def receive(self):
        """Returns the next batch, or None at the end of an epoch."""
        made = self.pipe.recv()
        if made is None:
            return None
        self.slot, arrays = made
        return {name: view(self.memory, *array) for name, array in arrays.items()}

    def release(self):
        self.pipe.send(self.slot)


def run(work, number, memory, pipe):
    """Runs in the process number ``number``, and makes its batches, epoch after epoch."""
    rows = Rowwise(work)
    for epoch in count():
        for step, make in enumerate(rows.epoch(epoch)):
            if step % work.threads == number:
                slot = pipe.recv()
                pipe.send((slot, written(make(), memory, slot * SLOT)))
        pipe.send(None)


def written(batch, memory, place):
    """Copies arrays into shared memory from ``place`` on, and returns the type, shape and place of each one."""
    found = {}
    for name, array in batch.items():
        found[name] = array.dtype.str, array.shape, place
        view(memory, *found[name])[...] = array
        place += -(-array.nbytes // ALIGNED) * ALIGNED
    return found


def view(memory, dtype, shape, place):
    return np.ndarray(shape, dtype, memory, place)


class Rowwise(Rows):
    """Yields functions that make batches instead of batches, because each process makes only some of them."""

    def batches(self, table, rows):
        columns = dict(self.columns(table))
        return (lambda chosen=chosen: collated(columns, chosen) for chosen in self.steps(rows))


def collated(columns, chosen):
    """Applies the function to each chosen row, and returns the results as one array for each name."""
    cells = zip(*(column.take(chosen).tolist() for column in columns.values()), strict=True)
    results = [row_functions.normalised(dict(zip(columns, values, strict=True))) for values in cells]
    return {name: np.array([result[name] for result in results]) for name in results[0]}
