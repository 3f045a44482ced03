"""The processor time and the memory of this process and all its descendants, and the versions of packages."""

import os
import sys
import time
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

TICK = os.sysconf("SC_CLK_TCK")


def family():
    """Returns this process and all its descendants."""
    children = {}
    for entry in os.listdir("/proc"):
        try:
            stat = Path("/proc", entry, "stat").read_text() if entry.isdigit() else ""
        except OSError:  # it ended meanwhile
            continue
        if stat:
            children.setdefault(int(stat.rsplit(")", 1)[1].split()[1]), []).append(int(entry))
    found = [os.getpid()]
    for process in found:
        found += children.get(process, [])
    return found


def processors():
    """Returns the processor seconds used so far: by this process and its descendants, and by the whole machine."""
    ended = os.times()
    # The time of this process is not rounded to clock ticks, so that it is exact for short runs too.
    own = time.process_time() + ended.children_user + ended.children_system
    for process in family()[1:]:
        with suppress(OSError):
            fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()[11:15]
            own += sum(map(int, fields)) / TICK
    # The fields are user, nice and system, then idle and waiting, which do not count as work, then
    # interrupts.
    fields = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8]]
    return own, (sum(fields) - fields[3] - fields[4]) / TICK


def memory():
    """Returns two sums in bytes over this process and its descendants: their peak resident memory, where shared
    pages count in each process, and their present memory that no file backs, where they count once."""
    peak = own = 0
    for process in family():
        try:
            status = Path(f"/proc/{process}/status").read_text().splitlines()
            rollup = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        peak += sum(int(line.split()[1]) for line in status if line.startswith("VmHWM:"))
        own += sum(int(line.split()[1]) for line in rollup if line.startswith(("Pss_Anon:", "Pss_Shmem:")))
    return peak * 1024, own * 1024


def versions(packages):
    found = {"Python": ".".join(map(str, sys.version_info[:3]))}
    for package in packages:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "unknown"
    return found
