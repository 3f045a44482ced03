"""Runs a command until the other end of standard input is closed.

A server that is started through this script ends with the tests, however they end: when the tests or, after a
crash, the system close the pipe, the command and all its children are ended.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

# Seconds between asking the command to end and killing it.
GRACE = 3


def leave_with(command: subprocess.Popen[bytes]) -> None:
    os._exit(command.wait())


if __name__ == "__main__":
    os.setpgid(0, 0)
    command = subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL)
    threading.Thread(target=leave_with, args=(command,), daemon=True).start()
    sys.stdin.buffer.read()
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    os.killpg(0, signal.SIGTERM)
    time.sleep(GRACE)
    os.killpg(0, signal.SIGKILL)
