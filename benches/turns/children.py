"""Starts the process of a contestant, and ends everything that it leaves behind."""

import json
import os
import signal
import subprocess
import threading
from contextlib import suppress
from pathlib import Path

# The folder from which the processes of contestants import `turns`.
BENCHES = Path(__file__).parents[1]
# A script that prints which of the modules in its arguments are not installed.
FIND = """
import importlib.util, json, sys
tops = sorted({name.split(".")[0] for name in sys.argv[1:]})
print(json.dumps([top for top in tops if not importlib.util.find_spec(top)]))
"""
LONGEST = 160  # characters of a cause
# Contestants print few messages, and look for nothing on the network.
QUIET = {
    "TF_CPP_MIN_LOG_LEVEL": "3",
    "PYTHONWARNINGS": "ignore",
    "HF_HUB_OFFLINE": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
}
# Hides the GPU, for benches that do not measure it.
WITHOUT_GPU = {"CUDA_VISIBLE_DEVICES": ""}


class Failed(Exception):
    """A contestant gave no figure; the message says why."""


def missing(python, needs):
    """Returns the reason why a contestant cannot run; None if it can."""
    try:
        ran = subprocess.run([python, "-c", FIND, *needs], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return f"{python} does not run"
    lacks = json.loads(ran.stdout)
    return f"not installed: {', '.join(lacks)}" if lacks else None


def launch(python, script, task, limit, home, environment=WITHOUT_GPU):
    """Runs a script in a process of its own for at most `limit` seconds, and returns the result of the task."""
    home.mkdir(parents=True, exist_ok=True)
    # The caches of packages go to a folder of the bench, and not to the user's home folder.
    path = os.pathsep.join(filter(None, [str(BENCHES), os.environ.get("PYTHONPATH")]))
    own = {"PYTHONPATH": path, "XDG_CACHE_HOME": str(home), "HF_HOME": str(home / "hf")}
    child = subprocess.Popen(
        [python, script, json.dumps(task)],
        env=os.environ | QUIET | environment | own,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    # This waits until the child exits and not until its pipes end, because its workers keep them open.
    printed, told = [], []
    ended = drain(child, printed, told, limit)
    if not ended:
        raise Failed(f"no result within {limit:.0f} s")
    try:
        return json.loads(printed[-1])
    except (IndexError, ValueError):
        raise Failed(cause(told)) from None


def drain(child, printed, told, limit):
    """Collects what a child prints until it exits; returns false if it had to be stopped."""

    def read(pipe, lines):
        lines.extend(line for line in pipe if line.strip())

    pipes = (child.stdout, printed), (child.stderr, told)
    readers = [threading.Thread(target=read, args=pair, daemon=True) for pair in pipes]
    for reader in readers:
        reader.start()
    try:
        child.wait(limit)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGKILL)
        child.wait()
        for reader in readers:
            reader.join(10)


def cause(told):
    """Returns the last line that looks like an error message, cut to a length that fits in a table."""
    errors = [line for line in told if ": " in line and not line.startswith(" ")] or told
    return errors[-1].strip()[:LONGEST] if errors else "ended without a result"
