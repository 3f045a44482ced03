"""Runs a command for as long as somebody holds the other end of standard input.

A server that is started through it ends with the tests in whatever way they end: when the pipe is closed, by them or by
the system after a crash, the command and all that it started are ended too.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

# Seconds from asking to forcing.
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
