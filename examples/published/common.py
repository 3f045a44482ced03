"""Helpers that the published experiments share: data that is made once, a remote store, and a table.

It needs only the standard library, so that a contestant with another interpreter can import it too.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

# The delays to the first byte, a median and a 99th percentile that are typical of an object store in the same
# region.
FAR = ["--first-byte-median-ms", "30", "--first-byte-p99-ms", "300"]
BUCKET = "data"
URL = f"s3://{BUCKET}"


def parser(description: str | None, scale: float) -> argparse.ArgumentParser:
    """Returns a parser with the options that all experiments have; `scale` is the share of the published size
    that runs quickly."""
    built = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).resolve().parents[2] / "target"))
    built.add_argument("--scale", type=float, default=scale, help=f"of the published number of rows (default {scale})")
    built.add_argument("--data", type=Path, help="keep what is drawn here, for other runs (default: nowhere)")
    built.add_argument("--threads", type=int, default=min(2, os.cpu_count() or 1))
    built.add_argument("--server", type=Path, default=target / "release" / "fault-server", help="program of the store")
    return built


@contextmanager
def drawn(folder: Path | None, name: str, rows: int, *words: str) -> Iterator[Path]:
    """Yields the folder of a data set; `forebay synth` makes the data set if it does not exist yet."""
    with tempfile.TemporaryDirectory() as temporary:
        path = Path(folder or temporary) / f"{name}-{rows}"
        if not any(path.glob("*.parquet")):
            command = [sys.executable, "-m", "forebay", "synth", str(path), "--rows", str(rows), *words]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        yield path


def stored_bytes(data: Path) -> int:
    return sum(file.stat().st_size for file in data.glob("*.parquet"))


def memory_for(size: int) -> int:
    """Returns a memory limit for a loader, so low that a data set of `size` bytes is not kept for later epochs.

    The published data sets were larger than memory. The data sets made here are smaller, and without the limit
    the loader would read them only once.
    """
    return min(4 << 30, max(128 << 20, 4 * size))


# ---- the store ----


@contextmanager
def served(server: Path, data: Path, *words: str) -> Iterator[dict[str, str]]:
    """Serves `data` as the bucket of a store; returns the environment that leads to it. See `fault-server
    --help`."""
    if not server.exists():
        sys.exit(f"{server}: not there (build it with cargo build --release --workspace, or say --server)")
    command = [str(server), "--folder", f"{BUCKET}={data}", *words]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    try:
        yield {
            "AWS_ENDPOINT_URL": process.stdout.readline().strip(),
            "AWS_ACCESS_KEY_ID": "experiment",
            "AWS_SECRET_ACCESS_KEY": "experiment",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        process.stdin.close()
        process.wait()


def sent() -> int:
    """Returns the bytes that the store has sent so far, by its own count."""
    with urllib.request.urlopen(os.environ["AWS_ENDPOINT_URL"] + "/_stats") as answer:
        return int(json.load(answer)["bytes_sent"])


# ---- processes ----


def apart(task: Sequence[Any], environment: dict[str, str], python: str = sys.executable) -> Any:
    """Returns the answer of this script to `--one TASK`, run in a process and with cache folders of its own."""
    with tempfile.TemporaryDirectory() as home:
        # Caches in the home folder would survive from earlier runs, and epoch 1 would be as fast as epoch 2.
        environ = {**os.environ, **environment, "XDG_CACHE_HOME": home}
        command = [python, sys.argv[0], "--one", json.dumps(task)]
        ran = subprocess.run(command, env=environ, capture_output=True, text=True)
    if ran.returncode:
        sys.exit(f"{task[0]}: {ran.stderr[-4000:]}")
    return json.loads(ran.stdout.splitlines()[-1])


def missing(modules: Iterable[str], python: str = sys.executable) -> list[str]:
    """Returns those of `modules` that an interpreter does not have."""
    if python == sys.executable:
        return [name for name in modules if importlib.util.find_spec(name) is None]
    find = "import importlib.util as u, json, sys; print(json.dumps([n for n in sys.argv[1:] if not u.find_spec(n)]))"
    found: list[str] = json.loads(subprocess.check_output([python, "-c", find, *modules], text=True))
    return found


# ---- the accelerator, and the output ----


def stepped(batches: Iterable[Any], seconds: float) -> Iterator[Any]:
    """Yields `batches`, and holds each for as long as a simulated accelerator takes for a step."""
    for batch in batches:
        over = time.perf_counter() + seconds
        yield batch
        time.sleep(max(0.0, over - time.perf_counter()))


def table(names: Sequence[str], figures: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Prints a Markdown table: the labels of each row, and its figures."""
    print("|", " | ".join([*names, *figures]), "|")
    print("|" + "---|" * len(names) + "---:|" * len(figures))
    for row in rows:
        print("|", " | ".join(row), "|")


def middle(values: Sequence[float], form: str = "{:,.0f}") -> str:
    """Returns the median, and the spread where there is one."""
    shown = form.format(statistics.median(values))
    low, high = form.format(min(values)), form.format(max(values))
    return shown if low == high else f"{shown} ({low} to {high})"


def conditions() -> None:
    """Prints the conditions under which the figures were measured."""
    load = os.getloadavg()[0]
    print(f"{os.cpu_count()} processors, load {load:.1f} before the run, Python {sys.version.split()[0]}\n")
