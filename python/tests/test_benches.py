"""The bench of shapes runs, and both of its contestants deliver the same."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SHAPES = Path(__file__).resolve().parents[2] / "benches" / "shapes"
LEGEND = 2  # dots that are no point


def test_forebay_and_the_loop_by_hand_deliver_the_same_at_every_point(tmp_path: Path) -> None:
    picture = tmp_path / "shapes.svg"
    command = [sys.executable, str(SHAPES), "--check", "--data", str(tmp_path), "--svg", str(picture)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert "Without figures: none" in ran.stdout
    axes = ran.stdout.count("\n|  ")  # the heads of the tables
    points = len(re.findall(r"^\| \S", ran.stdout, re.M))
    assert axes == 6 and points > 40
    assert picture.read_text().count("<circle") == LEGEND + 2 * points
