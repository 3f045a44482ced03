"""Finds, starts and ends the servers that are separate programs."""

from __future__ import annotations

import os
import random
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

PROJECT = Path(__file__).resolve().parents[3]
TOOLS = PROJECT / ".tools"
GUARD = Path(__file__).with_name("guard.py")

# Seconds that a server may take to answer; the slowest takes three on two idle cores, far more on busy ones.
PATIENCE = 300
# These ports are lower than those that Linux (from 32768) and macOS (from 49152) choose for programs.
FIRST_PORT, LAST_PORT = 15_000, 32_000
# Seconds between two checks of the server.
PAUSE = 0.05
# Ports that `free_port` has returned: it never returns one twice, even if no server listens on it yet.
given: set[int] = set()


def find(name: str, program: str, *places: Path) -> str:
    """Returns the path of a program, from ``places`` or from ``PATH``. Skips the test if it is not installed."""
    for place in [*places, Path(sys.executable).parent]:
        if (place / program).is_file():
            return str(place / program)
    if found := shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin"])):
        return found
    pytest.skip(f"{name} is not installed (tools/setup servers)")


def free_port() -> int:
    """Returns a port that nobody listens on, and that the system does not choose for a program that asks for any.

    The processes of pytest-xdist, gw0 and so on, choose from different ports.
    """
    process = int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    processes = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1"))
    while True:
        port = random.SystemRandom().randrange(FIRST_PORT + process, LAST_PORT, processes)
        if port in given:
            continue
        with socket.socket() as probe:
            # Connections of the previous test may still be closing.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        given.add(port)
        return port


@contextmanager
def running(command: Sequence[str], port: int, folder: Path) -> Iterator[None]:
    """Keeps a server running that listens on ``port``; its output goes to ``folder``."""
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / "log"
    with log.open("wb") as said:
        guard = subprocess.Popen(
            [sys.executable, str(GUARD), *command],
            stdin=subprocess.PIPE,
            stdout=said,
            stderr=subprocess.STDOUT,
            cwd=folder,
        )
    try:
        deadline = time.monotonic() + PATIENCE
        while not listens(port):
            if guard.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"{command[0]} does not answer; it said: {log.read_text(errors='replace')}")
            time.sleep(PAUSE)
        yield
    finally:
        assert guard.stdin is not None
        guard.stdin.close()
        guard.wait(timeout=PATIENCE)


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True


def files(folder: Path) -> Iterator[tuple[str, Path]]:
    """Yields all files below a folder, each with its name relative to the folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield path.relative_to(folder).as_posix(), path


def post(url: str, body: bytes) -> None:
    request = urllib.request.Request(url, body, {"Content-Type": "application/octet-stream"})
    urllib.request.urlopen(request).close()
