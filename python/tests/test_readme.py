"""The Python in README.md runs as written."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import PATIENCE
from test_examples import environment

README = Path(__file__).resolve().parents[2] / "README.md"


def block(framework: str) -> str:
    """Returns the block that imports ``framework``."""
    found = re.findall(r"^```python\n(.*?)^```", README.read_text(), re.DOTALL | re.MULTILINE)
    (code,) = (code for code in found if f"import {framework}\n" in code)
    return str(code)


@pytest.mark.parametrize("framework", ["torch", "keras"])
def test_the_block_runs_and_is_short(framework: str, drawn: Path) -> None:
    code = block(framework)
    assert len([line for line in code.splitlines() if line.strip()]) <= 16, "about fifteen lines"
    command, environ = [sys.executable, "-c", code], environment(framework)
    done = subprocess.run(command, cwd=drawn, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    assert "loss" in done.stdout
