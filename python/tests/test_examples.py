"""Every example runs on a few synthetic photographs, and prints what it promises."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from conftest import PATIENCE

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
SERVER = Path(os.environ.get("CARGO_TARGET_DIR", EXAMPLES.parent / "target")) / "release" / "fault-server"


def environment(framework: str | None = None) -> dict[str, str]:
    """Returns this process's environment, with a backend chosen for Keras. Skips the test if the framework is not
    installed."""
    environ = dict(os.environ)
    if framework is not None and find_spec(framework) is None:
        pytest.skip(f"{framework} is not installed")
    if framework == "keras":
        backends = [name for name in ("jax", "torch", "tensorflow") if find_spec(name)]
        if not backends:
            pytest.skip("Keras has no backend here: jax, torch or tensorflow")
        environ.setdefault("KERAS_BACKEND", backends[0])
    return environ


def run(example: str, *arguments: str, cwd: Path, framework: str | None = None) -> str:
    """Returns the output of an example."""
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example), *arguments],
        cwd=cwd,
        env=environment(framework),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_every_example_has_a_test() -> None:
    own = Path(__file__).read_text()
    examples = [path.relative_to(EXAMPLES) for path in EXAMPLES.rglob("*.py") if path.name != "common.py"]
    missing = [str(path) for path in examples if f'("{path}"' not in own]
    assert not missing


def test_the_numpy_classifier_learns(drawn: Path) -> None:
    text = run("numpy_classifier.py", "photos", "held-out", "--epochs", "4", cwd=drawn)
    rows = [line.split() for line in text.splitlines() if re.match(r" +\d", line)]
    losses = [float(row[4]) for row in rows]
    assert len(losses) == 4
    assert losses[-1] < 0.7 * losses[0], text
    assert int(rows[-1][5].rstrip("%")) > 30, text


def test_two_ranks_share_an_epoch(drawn: Path) -> None:
    assert "together: 400 rows, each exactly once" in run("ranks.py", "photos", cwd=drawn)


def test_an_adapter_of_ones_own_delivers_plain_dicts(drawn: Path) -> None:
    text = run("custom_adapter.py", "photos", cwd=drawn)
    assert "step 6: dict of 16 rows, 400 delivered" in text
    assert "64 labels: 0 rows delivered before, 64 after" in text


def test_keras_fits(drawn: Path) -> None:
    text = run("keras_fit.py", "photos", "held-out", "--epochs", "2", "--size", "64", cwd=drawn, framework="keras")
    assert "val_accuracy" in text


@pytest.mark.parametrize(
    ("example", "framework", "said"),
    [
        ("resume_dataloader.py", "torchdata", "trained steps 15 to 25,"),
        ("resume_lightning.py", "lightning", "trained to step 25, which is row 200 of epoch 2"),
        ("resume_accelerate.py", "accelerate", "trained to step 25, which is row 200 of epoch 2"),
        ("resume_transformers.py", "transformers", "trained to step 25, which is row 200 of epoch 2"),
        ("resume_ray.py", "ray", "trained to step 25, which is row 200 of its epoch"),
        ("resume_jax.py", "jax", "trained to step 25, which is row 200 of epoch 2"),
        ("resume_tensorflow.py", "tensorflow", "trained to step 25, which is row 200 of epoch 2"),
        ("resume_spark.py", "pyspark", "trained to step 25, which is row 2000 of epoch 2"),
    ],
)
def test_a_trainer_resumes_where_it_stopped(
    drawn: Path, tmp_path: Path, example: str, framework: str, said: str
) -> None:
    data = "clicks" if framework == "pyspark" else "photos"
    for steps in ("15", "25"):
        text = run(example, str(drawn / data), steps, cwd=tmp_path, framework=framework)
    assert said in text


def test_keras_resumes_where_it_was_killed(drawn: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError):
        run("resume_keras.py", str(drawn / "photos"), cwd=tmp_path, framework="keras")
    assert (tmp_path / "keras-backup" / "resume.json").exists()
    text = run("resume_keras.py", str(drawn / "photos"), cwd=tmp_path, framework="keras")
    assert "trained 20 steps in 2 epochs" in text


def test_torch_resumes_where_it_was_interrupted(drawn: Path, tmp_path: Path) -> None:
    checkpoint = tmp_path / "run.pt"
    both = ("held-out", "--batch-size", "16", "--size", "64", "--checkpoint", str(checkpoint), "--every", "5")
    first = run("torch_imagenet.py", *both, "--stop-after", "5", cwd=drawn, framework="torch")
    assert "epoch 0, step 5: loss" in first
    assert checkpoint.exists()
    second = run("torch_imagenet.py", *both, cwd=drawn, framework="torch")
    assert "resumed after step 5" in second
    assert "epoch 1, step 14: loss" in second
    checkpoint.unlink()
    straight = run("torch_imagenet.py", *both, cwd=drawn, framework="torch")
    # The rest of an interrupted run equals the run that was not interrupted.
    assert loss(second, 14) == pytest.approx(loss(straight, 14), abs=2e-3)


def loss(text: str, step: int) -> float:
    found = re.search(rf"step {step}: loss ([\d.]+)", text)
    assert found, text
    return float(found[1])


# ---- the published experiments, at a scale too small for meaningful figures ----


def test_a_cache_beside_petastorms_takes_nothing_from_the_store(tmp_path: Path) -> None:
    text = run("published/petastorm_cache.py", "--scale", "0.02", "--epochs", "2", *far(), cwd=tmp_path)
    remote = {(library, cache): float(sent) for library, cache, *_, sent in figures(text)}
    assert remote["forebay", "none"] > 1
    assert remote["forebay", "auto"] == remote["forebay", "pixels"] == 0
    assert ("petastorm", "local-disk") in remote or "petastorm: left out" in text


def test_what_is_cached_on_the_node_is_not_fetched(tmp_path: Path) -> None:
    few = ("--scale", "0.0003", "--epochs", "2", "--links", "1.5")
    lines = figures(run("published/alluxio_steps.py", *few, *far(), cwd=tmp_path))
    assert [cache for _, cache, *_ in lines] == ["none", "on the node", "none"]
    assert float(lines[0][-1]) > 1
    assert float(lines[1][-1]) == 0
    # A simulated accelerator takes no more than its rate.
    assert all(0 < float(line[2]) <= 500 and int(line[4].rstrip(" %")) <= 100 for line in lines)


def test_small_images_are_those_that_one_decodes_by_hand(tmp_path: Path) -> None:
    # The script itself compares the sums of pixels and labels of all loaders.
    lines = figures(run("published/small_images.py", "--scale", "0.01", "--epochs", "1", cwd=tmp_path))
    assert {name for _, name, *_ in lines} == {"by hand", "by hand, pool", "forebay", "forebay, pixels"}
    assert [line[0] for line in lines] == ["MNIST, 600"] * 4 + ["CIFAR-10, 500"] * 4


def test_ranks_share_a_store_and_a_cache(tmp_path: Path) -> None:
    text = run("published/rank_shares.py", "--scale", "0.02", "--worlds", "1", "2", *far(), cwd=tmp_path)
    assert "each of 612 rows exactly once over the ranks" in text
    for ranks, cache, *_, first, second in figures(text):
        # Ranks that share a cache fetch little more than one epoch, and nothing in the second one. Without a cache
        # both epochs are fetched, but some of the second one may be prefetched during the first.
        alone = float(first) + float(second) > 1.95
        assert (float(first) < 1.2 and float(second) == 0) if cache == "shared" else alone, ranks


def far() -> tuple[str, ...]:
    """Returns the options for a distant store. Skips the test if the fault server was not built."""
    if not SERVER.exists():
        pytest.skip(f"no {SERVER} (build it with cargo build --release --workspace)")
    return ("--server", str(SERVER))


def figures(text: str) -> list[list[str]]:
    """Returns the rows of a Markdown table, without its head."""
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return rows[2:]
