"""The bench of shapes runs, and both of its contestants deliver the same rows; the GPU bench is rehearsed
without a GPU, and the bench of costs on few ranks."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import PATIENCE
from PIL import Image as Pillow

import forebay as fb

BENCHES = Path(__file__).resolve().parents[2] / "benches"
SHAPES = BENCHES / "shapes"
LEGEND = 2  # dots that are no point


def test_forebay_and_the_loop_by_hand_deliver_the_same_at_every_point(tmp_path: Path) -> None:
    picture = tmp_path / "shapes.svg"
    command = [sys.executable, str(SHAPES), "--check", "--data", str(tmp_path), "--svg", str(picture)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    assert "Without figures: none" in ran.stdout
    axes = ran.stdout.count("\n|  ")  # the heads of the tables
    points = len(re.findall(r"^\| \S", ran.stdout, re.M))
    skipped = re.findall(r"^- (.*: \S+ is not installed)$", ran.stdout, re.M)
    for point in skipped:
        print(f"skipped: {point}")
    assert axes == 14 and points == 85
    assert picture.read_text().count("<circle") == LEGEND + 2 * (points - len(skipped))


def test_a_training_runs_with_each_loader_and_loaders_by_threads(tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    photos, table = tmp_path / "photos", tmp_path / "table"
    for words in ([photos, "--rows", 24, "--image", "64x48"], [table, "--rows", 20_000, "--table"]):
        subprocess.run([sys.executable, "-m", "forebay", "synth", *map(str, words)], check=True, capture_output=True)
    words = ["--device", "cpu", "--models", "resnet18", "--batch", 2, "--seconds", 1, "--turns", 1, "--threads", 1]
    words += ["--counts", "1,2", "--table", table]
    command = [sys.executable, str(BENCHES / "gpu"), str(photos), *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    trained = re.findall(r"^\| (synthetic|forebay|DataLoader) \| ([\d,]+) \|", ran.stdout, re.M)
    assert [loader for loader, _ in trained] == ["synthetic", "forebay", "DataLoader"], ran.stdout
    assert re.findall(r"^\| (\d+) \| [\d,]+ \| [\d.]+ \| [\d,]+ \| ", ran.stdout, re.M) == ["1", "2"], ran.stdout


def test_views_and_clips_are_compared_with_torchvision(tmp_path: Path) -> None:
    pytest.importorskip("torchvision")
    for number in range(3):
        pixels = np.random.default_rng(number).integers(0, 256, (60, 90, 3), np.uint8)
        Pillow.fromarray(pixels).save(tmp_path / f"{number}.png")
    words = ["--turns", 1, "--seconds", 0.2, "--threads", 1, "--rows", 64]
    command = [sys.executable, str(BENCHES / "views"), str(tmp_path), *map(str, words)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    ratios = re.findall(r"^\| ([^|]*) \| [\d,]+ \| [\d.]+ \| ([\d.]+) \| ", ran.stdout, re.M)
    assert {ratios[first][1] for first in (0, 3, 5)} == {"1.00"}, ran.stdout
    assert [name for name, _ in ratios] == [
        *("one crop to 224", "2 crops to 224, 8 to 96", "the same, torchvision"),
        *("SimCLR, 2 views", "the same, torchvision", "16 rows", "a clip of 16 images"),
    ]


def test_orders_are_compared_by_the_most_expensive_rank_of_a_step(tmp_path: Path) -> None:
    command = [sys.executable, str(BENCHES / "balance.py"), "even", "--ranks", "4", "--rows", "128"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stdout[-2000:] + ran.stderr[-2000:]
    found = re.findall(r"^\| 4 \| ([^|]*) \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|", ran.stdout, re.M)
    tokens = {order: float(ratio) for order, ratio, *_ in found}
    assert tokens["forebay, balance="] < 1.1 < 1.3 < tokens["random"], ran.stdout
    # One process gets the rows of a step by lane, as the ranks of the bench would.
    lengths = np.random.default_rng(1).integers(1, 100, 4 * 640, np.int32)
    pq.write_table(pa.table({"length": lengths}), tmp_path / "a.parquet", row_group_size=64)
    options = {"shuffle": fb.Shuffle(seed=17, lanes=4), "global_batch_size": 32, "balance": "length"}
    ranks = [fb.Loader(tmp_path, shard=fb.Shard(rank=rank, world=4), **options).epoch(1) for rank in range(4)]
    for step, *batches in zip(fb.Loader(tmp_path, **options).epoch(1), *ranks, strict=True):
        of_ranks = [batch["length"].tolist() for batch in batches]
        assert step["length"].reshape(4, 8).tolist() == of_ranks
