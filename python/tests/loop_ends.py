"""Ends the training loop over one framework in each possible way, and checks that nothing is left over and
that the next epoch is right.

It runs in a process without any other loader, because it counts threads, children, files and shared memory.
"""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

import forebay as fb

ROWS = 1_000

#: Makes the batches of a loader.
Batches = Callable[[fb.Loader], Iterable[Any]]


class Mine(Exception):
    """The exception that a step raises."""


class Ends:
    """Ends the loop over the ``batches`` of ``data``, whose files have ``folder`` in their paths.

    ``data`` may be a function that opens a data set, because an open data set has threads.
    """

    def __init__(self, data: Any, folder: str, batches: Batches, **options: Any) -> None:
        self.data, self.folder, self.batches = data, folder, batches
        shuffle = fb.Shuffle(seed=5, window_rows=200)
        self.options = {"columns": ["id"], "batch_size": 50, "shuffle": shuffle, "threads": 2, **options}
        self.before = set(os.listdir("/dev/shm"))
        #: Whether all shared memory that the process has open is forebay's.
        self.counts_memory = True
        self.children: list[str] = []
        self.whole: list[list[int]] = []

    def run(self, *, forks: bool = True, interrupts: bool = True) -> None:
        """Runs all ends, except those that the framework does not survive."""
        self.all_of_an_epoch()
        # These children belong to the framework, such as a resource tracker.
        self.children = self.left()[1]
        ends = [self.early, self.exception, self.two_at_once]
        for end in ends + [self.fork] * forks + [self.interrupt] * interrupts:
            self.nothing_left()
            end()
        self.nothing_left()

    def loader(self, **more: Any) -> fb.Loader:
        data = self.data() if callable(self.data) else self.data
        return fb.Loader(data, **{**self.options, **more})

    def rows(self, batches: Iterable[Any]) -> list[int]:
        return [row for batch in batches for row in rows(batch)]

    def is_whole(self, train: fb.Loader) -> bool:
        return sorted(self.rows(self.batches(train))) == list(range(ROWS))

    def all_of_an_epoch(self) -> None:
        with self.loader() as train:
            self.whole = [rows(batch) for batch in self.batches(train)]
            assert sorted(sum(self.whole, [])) == list(range(ROWS))
            assert self.is_whole(train)

    def early(self) -> None:
        """Leaves the loop at the first batch, in the middle and near the end of an epoch."""
        with self.loader() as train:
            for stop in (1, 7, 19):
                for at, batch in enumerate(self.batches(train), 1):  # noqa: B007  it is dropped below
                    if at == stop:
                        break
                del batch
            assert self.is_whole(train)

    def exception(self) -> None:
        """An exception in the loop is raised unchanged."""
        with self.loader() as train:
            try:
                for _ in self.batches(train):
                    raise Mine
            except Mine:
                pass
            assert self.is_whole(train)

    def two_at_once(self) -> None:
        with self.loader() as train, self.loader(shuffle=fb.Shuffle(seed=6)) as other:
            both = list(zip(self.batches(train), self.batches(other), strict=True))
            assert [rows(one) for one, _ in both] == self.whole
            assert sorted(self.rows(two for _, two in both)) == list(range(ROWS))

    def fork(self) -> None:
        """A forked child of the loop does not hang, and neither does its parent."""
        with self.loader() as train:
            stream = iter(self.batches(train))
            next(stream)
            child = os.fork()
            if child == 0:
                try:
                    next(stream)
                    os._exit(3)
                except fb.ClosedError:
                    os._exit(7)
                except BaseException:
                    os._exit(4)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
            assert len(self.rows(stream)) == 950

    def interrupt(self) -> None:
        """Sends Ctrl-C while the loop waits for a batch."""
        slow = threading.Event()

        def wait(batch: Any) -> Any:
            slow.wait(600)
            return {"id": batch["id"]}

        with self.loader(transform=wait) as train:
            began = time.monotonic()
            try:
                threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
                for _ in self.batches(train):
                    raise AssertionError("a batch came")
                raise AssertionError("an epoch without a batch")
            except KeyboardInterrupt:
                took = time.monotonic() - began
            assert took < 300, took
            slow.set()
            assert self.is_whole(train)

    def left(self) -> tuple[list[str], list[str], list[str], list[str]]:
        """Returns the threads, children, open files and segments of shared memory."""
        gc.collect()
        names = []
        for entry in os.listdir("/proc/self/task"):
            try:
                with open(f"/proc/self/task/{entry}/comm") as name:
                    names.append(name.read().strip())
            except OSError:  # it ended
                continue
        threads = sorted(name for name in names if name.startswith("forebay"))
        threads += [thread.name for thread in threading.enumerate() if "forebay" in thread.name]
        with open(f"/proc/self/task/{os.getpid()}/children") as children:
            ours = children.read().split()
        # Other programs of the machine have segments too.
        shared = [name for name in os.listdir("/dev/shm") if str(os.getpid()) in name and name not in self.before]
        files = []
        for number in os.listdir("/proc/self/fd"):
            try:
                target = os.readlink(f"/proc/self/fd/{number}")
            except OSError:
                continue
            if self.folder in target or (self.counts_memory and ("memfd" in target or "/dev/shm" in target)):
                files.append(target)
        return threads, ours, shared, files

    def nothing_left(self) -> None:
        deadline = time.monotonic() + 120
        while True:
            threads, children, shared, files = self.left()
            if not (threads or set(children) - set(self.children) or shared or files):
                return
            if time.monotonic() > deadline:
                raise AssertionError((threads, children, shared, files))
            time.sleep(0.02)


def rows(batch: Any) -> list[int]:
    """Returns the ids of a batch."""
    batch = batch[0] if isinstance(batch, tuple) else batch["id"]
    return np.asarray(batch).tolist()  # type: ignore[no-any-return]
