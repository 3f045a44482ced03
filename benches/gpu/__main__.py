"""Trains real models on a GPU: how busy the loader keeps it, and how the loader scales with threads.

    python benches/gpu PHOTOS [--turns 3] [--seconds 30] [--only train] [--models resnet50,vit_b_16]
    python benches/gpu PHOTOS --only threads [--counts 1,2,4,8,16] [--table TABLE]
    python benches/gpu PHOTOS --device cpu --models resnet18 --batch 8 --seconds 5 --turns 1     a rehearsal without a GPU

PHOTOS is a folder that `forebay synth PHOTOS --rows 6000 --image 500x375` draws, or any with `image` and `label`; TABLE one of
`forebay synth TABLE --rows 4000000 --table`.

train     torchvision's models from a random start, bf16, `torch.compile`, SGD; each loader in a process of its own, in turns. *synthetic*
          is one batch that stays on the device: the most that the model can take. *busy* is NVML's utilisation, sampled ten times a
          second (`pip install nvidia-ml-py`), *waited* the share of the time in which the loop had no batch.
threads   photographs, photographs from coefficients in a warm cache, and rows of a table, by number of threads, without a training;
          *of linear* is the rate over that of one thread, by the number of threads.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from turns import children, figures
from turns.words import count

RUN = Path(__file__).with_name("run.py")
LOADERS = {"synthetic": "synthetic", "forebay": "forebay", "torch": "DataLoader"}
NEEDS = ["forebay", "torch", "torchvision", "pyarrow", "PIL"]
#: The most seconds that a run may spend outside its timed part: imports, compiling the model, starting workers.
BESIDE = 600
#: The most seconds of a run that only loads, without training a model.
SECONDS = 5


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", type=Path)
    parser.add_argument("--only", choices=["train", "threads"])
    parser.add_argument("--turns", type=count, default=3)
    parser.add_argument("--seconds", type=count, default=30)
    parser.add_argument("--models", default="resnet50,vit_b_16")
    parser.add_argument("--batch", type=count, default=256)
    all_processors = len(os.sched_getaffinity(0))
    parser.add_argument("--threads", type=count, default=all_processors, help="of forebay, and workers of DataLoader")
    parser.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    parser.add_argument("--counts", default="1,2,4,8,16")
    parser.add_argument("--table", type=Path)
    given = parser.parse_args()
    if not any(given.photos.glob("*.parquet")):
        raise SystemExit(f"{given.photos} has no Parquet file: forebay synth {given.photos} --rows 6000 --image 500x375")
    print(f"{figures.machine()}, {given.turns} turns")
    if given.only != "threads":
        lacks = children.missing(sys.executable, NEEDS)
        if lacks:
            raise SystemExit(lacks)
        for model in given.models.split(","):
            train(model, given)
    if given.only != "train":
        threads(given)


def train(model, given):
    """Prints one table, in which each loader feeds the same model."""
    runs = {loader: [] for loader in LOADERS}
    task = {
        "photos": str(given.photos.resolve()),
        "model": model,
        "batch": given.batch,
        "seconds": given.seconds,
        "threads": given.threads,
        "device": given.device,
    }
    with tempfile.TemporaryDirectory() as home:
        for _ in range(given.turns):
            for loader, found in runs.items():
                try:
                    limit = BESIDE + 2 * given.seconds
                    found.append(children.launch(sys.executable, RUN, task | {"loader": loader}, limit, Path(home), {}))
                except children.Failed as failed:
                    print(f"{loader}: {failed}", file=sys.stderr)
    shown = next((run for found in runs.values() for run in found), None)
    if shown is None:
        raise SystemExit(1)
    print(f"\n{model}, batches of {given.batch}, {given.threads} threads or workers, {shown['device']}")
    print("| loader | images/s | least to most | of synthetic | busy | waited | next() p99 ms | processor ms/image |")
    print("|---|---:|---|---:|---:|---:|---:|---:|")
    most = figures.middle(runs["synthetic"], "rate") if runs["synthetic"] else None
    for loader, found in runs.items():
        if found:
            print(line(LOADERS[loader], found, most))


def line(called, found, most):
    rate = figures.middle(found, "rate")
    share = f"{rate / most:.1%}" if most else ""
    busy = [run["busy"] for run in found if run["busy"] is not None]
    cells = [
        called,
        f"{rate:,.0f}",
        figures.spread([run["rate"] for run in found]),
        share,
        f"{statistics.median(busy):.1%}" if busy else "not known",
        f"{figures.middle(found, 'waited'):.1%}",
        f"{figures.middle(found, 'p99') * 1e3:.2f}",
        f"{figures.middle(found, 'processors') * 1e3:.2f}",
    ]
    return f"| {' | '.join(cells)} |"


def threads(given):
    """Prints one table of rates by number of threads; each turn runs all of them once."""
    counts = [int(text) for text in given.counts.split(",")]
    photos = [given.photos, "--image", "image=rrc224", "--batch-size", 64]
    with tempfile.TemporaryDirectory() as cache:
        kept = ["--cache", cache, "--cache-bytes", "50GB", "--cache-tier", "coefficients"]
        what = {"photographs": photos, "from coefficients": [*photos, *kept]}
        if given.table:
            what["rows of a table"] = [given.table, "--batch-size", 8192]
        bench([*photos, *kept, "--epochs", 1])
        seconds = min(given.seconds, SECONDS)
        rates = {(name, number): [] for name in what for number in counts}
        for _ in range(given.turns):
            for (name, number), found in rates.items():
                found.append(bench([*what[name], "--threads", number, "--seconds", seconds])["rows_per_second"])
    print("\n| threads | " + " | ".join(f"{name}, rows/s | of linear" for name in what) + " |")
    print("|---:|" + "---:|" * (2 * len(what)))
    for number in counts:
        cells = []
        for name in what:
            one, rate = (statistics.median(rates[name, threads]) for threads in (counts[0], number))
            cells += [f"{rate:,.0f}", f"{rate / (one * number / counts[0]):.2f}"]
        print(f"| {number} | " + " | ".join(cells) + " |")


def bench(words):
    """Returns the report of `forebay bench`."""
    command = [sys.executable, "-m", "forebay", "bench", *map(str, words), "--seed", "1", "--json", "-"]
    printed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(printed[printed.index("{") :])


if __name__ == "__main__":
    main()
