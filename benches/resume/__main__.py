"""Which trainers resume with each row exactly once, with forebay and with their own loader.

    python benches/resume [--trainers plain,keras] [--sources forebay] [--worlds 1,2] [--places middle]

Each case is two runs in processes of their own. The first saves checkpoints as its framework does and is killed by
SIGKILL two steps after one; the second, in one process, resumes from it and trains to the end of two epochs. The rows
that the steps noted are counted: those of the first run up to the checkpoint, and all of the second.
"""

import argparse
import collections
import importlib.util
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from loops import EPOCHS, PLACES, ROWS, STEPS, TRAINERS

LOOPS = Path(__file__).with_name("loops.py")

#: What each trainer needs, and what it is called in the table.
NEEDS = {
    "plain": ("torch", "plain loop"),
    "stateful": ("torchdata", "StatefulDataLoader"),
    "lightning": ("lightning", "Lightning"),
    "accelerate": ("accelerate", "Accelerate"),
    "transformers": ("transformers", "Transformers Trainer"),
    "keras": ("keras", "Keras fit"),
    "ray": ("ray", "Ray Train"),
    "spark": ("pyspark", "Spark TorchDistributor"),
}

#: Trainers that start their own processes.
STARTERS = ("ray", "spark")

#: Keras on PyTorch has no processes of its own.
WORLDS = {"keras": (1,)}

#: Seconds after which a run hangs.
PATIENCE = 180


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--trainers", default=",".join(TRAINERS))
    parser.add_argument("--sources", default="forebay,own")
    parser.add_argument("--worlds", default="1,2")
    parser.add_argument("--places", default=",".join(PLACES))
    given = parser.parse_args()
    print("| trainer | loader | processes | checkpoint | rows |")
    print("|---|---|---|---|---|")
    for trainer in given.trainers.split(","):
        package, called = NEEDS[trainer]
        for source in given.sources.split(","):
            for world in map(int, given.worlds.split(",")):
                for place in given.places.split(","):
                    if importlib.util.find_spec(package) is None:
                        said = f"not run: {package} is not installed"
                    elif world not in WORLDS.get(trainer, (1, 2)):
                        said = "not run: one process only"
                    else:
                        said = case(trainer, source, world, place)
                    where = "within an epoch" if place == "middle" else "after an epoch"
                    print(f"| {called} | {source} | {world} → 1 | {where} | {said} |", flush=True)


def case(trainer, source, world, place):
    """What became of the rows."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        table = pa.table({"id": pa.array(range(ROWS), pa.int64())})
        pq.write_table(table, folder / "rows.parquet", row_group_size=20)
        command = [trainer, source, place, str(folder / "rows.parquet"), str(folder)]
        codes, errors = run(command, world)
        if -signal.SIGKILL not in codes:
            return f"the first run failed: {errors}"
        codes, errors = run([*command, "--resume"], 1)
        if codes != [0]:
            return f"the second run failed: {errors}"
        saved = PLACES[place][0]
        return judged(steps(folder, "first", world)[:saved] + steps(folder, "second", 1))


def run(command, world):
    """The exit statuses of a run's processes, and the last line of what they said."""
    if command[0] in STARTERS:
        command, world = [*command, "--world", str(world)], 1
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    together = {"WORLD_SIZE": str(world), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = []
    for rank in range(world):
        of_rank = {**together, "RANK": str(rank), "LOCAL_RANK": str(rank)} if world > 1 else {}
        environ = {
            **os.environ,
            "KERAS_BACKEND": "torch",
            "CUDA_VISIBLE_DEVICES": "",
            "OMP_NUM_THREADS": "1",
            **of_rank,
        }
        process = subprocess.Popen(
            [sys.executable, str(LOOPS), *command],
            env=environ,
            cwd=command[4],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        processes.append(process)
    errors = ""
    try:
        for process in processes:
            said = process.communicate(timeout=PATIENCE)[1].strip().splitlines()
            errors = errors or (said[-1] if said and process.returncode else "")
    except subprocess.TimeoutExpired:
        errors = f"no end after {PATIENCE} s"
    finally:
        for process in processes:
            process.kill()
            process.wait()
    return [process.returncode for process in processes], errors


def steps(folder, phase, world):
    """The rows of each step, over all ranks."""
    logs = [(folder / f"{phase}-{rank}.jsonl").read_text().splitlines() for rank in range(world)]
    return [[row for line in lines for row in json.loads(line)] for lines in zip(*logs, strict=False)]


def judged(trained):
    """Whether each epoch has each row once; if not, how many were lost and how many repeated."""
    epochs = [sorted(row for step in trained[at : at + STEPS] for row in step) for at in range(0, len(trained), STEPS)]
    if epochs == [list(range(ROWS))] * EPOCHS:
        return "each exactly once in an epoch"
    count = collections.Counter(row for step in trained for row in step)
    lost = sum(max(EPOCHS - count[row], 0) for row in range(ROWS))
    repeated = sum(max(count[row] - EPOCHS, 0) for row in range(ROWS))
    if lost == repeated == 0:
        return "each once over both epochs, but not in each"
    return f"{lost} lost, {repeated} repeated"


if __name__ == "__main__":
    main()
