"""Reads photographs from a distant object store for an accelerator that must not wait for them (workload W5).

    cargo build --release --workspace
    python benches/w5.py [--data DIR] [--rows 3000] [--runs 5] [--python petastorm=PATH] [forebay] [hf] [litdata] [petastorm]

The store is `fault-server`: 30 ms to the first byte (log-normal, p99 300 ms), 0.1 % of 503, a link of 1.5 times the
demand. The accelerator is simulated, as `forebay bench --step-ms` does: a step is a fixed time from batch in hand, and
what counts is the share of the time that it is busy, the first wait apart. Its step is chosen so that what a contestant
gives over a free link (no latency, no limit, no error; the same server on the same machine) is 1.3 times what it takes.

The peers meet two of them: forebay's, on forebay's link, and one as slow as they are, with a link to match. All read the
same Parquet files, take a random resized crop of 224 and flip, and deliver uint8 batches, each in a process of its own:

forebay    `forebay bench`, with a disk cache from the second epoch on
hf         Hugging Face `datasets`, streaming, shuffled through 1,000 rows; torch's DataLoader; Pillow
litdata    `StreamingDataset` over Parquet, shuffled; its DataLoader; Pillow. It keeps what it read on the local disk
petastorm  `make_batch_reader` with its thread pool and torch's BatchedDataLoader; Pillow

A peer that is not installed is skipped. One that needs packages of other versions can have another interpreter.
"""

import argparse
import io
import json
import math
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path

from turns.words import count

MARGIN = 1.3  # what a contestant can give over what the accelerator takes
LINK = 1.5  # what the link can give over what the accelerator takes
FAR = ["--first-byte-median-ms", "30", "--first-byte-p99-ms", "300", "--errors", "0.001:503"]
WINDOW = 1.0  # seconds over which the accelerator must be evenly busy
SHUFFLED = 1_000  # rows that a peer mixes
FREE_RUNS = 2  # over the free link; the fastest counts
NEEDS = {"forebay": [], "hf": ["datasets", "s3fs", "torch", "PIL"], "litdata": ["litdata", "polars", "torch", "PIL"],
         "petastorm": ["petastorm", "s3fs", "torch", "PIL"]}


# ---- contestants: each takes (url, the folder behind it, batch, threads, a folder of its own); epoch(number) gives batches ----


def crop(blob):
    """Takes a random resized crop and flips it: uint8, 224 x 224 x 3."""
    import numpy as np
    from PIL import Image

    image = Image.open(io.BytesIO(blob)).convert("RGB")
    width, height = image.size
    for _ in range(10):
        area = width * height * random.uniform(0.08, 1)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
        if 0 < w <= width and 0 < h <= height:
            break
    else:
        w = h = min(width, height)
    x, y = random.randint(0, width - w), random.randint(0, height - h)
    image = image.resize((224, 224), Image.BILINEAR, box=(x, y, x + w, y + h))
    return np.array(image.transpose(Image.FLIP_LEFT_RIGHT) if random.random() < 0.5 else image)


def cropped(row):
    return {"image": crop(row["image"]), "label": row["label"]}


def hf(url, photographs, batch, threads, folder):
    import datasets
    from torch.utils.data import DataLoader

    rows = datasets.load_dataset("parquet", data_files=f"{url}/*.parquet", split="train", streaming=True, cache_dir=folder)
    rows = rows.shuffle(seed=0, buffer_size=SHUFFLED).map(cropped)
    loader = DataLoader(rows, batch_size=batch, num_workers=threads, persistent_workers=True)

    def epoch(number):
        rows.set_epoch(number)
        return iter(loader)

    return epoch


def over_plain_http(worker):
    """Lets LitData's downloader use plain HTTP, for which it has no setting."""
    from litdata.streaming import downloader

    downloader._OBSTORE_CLIENT_OPTIONS["allow_http"] = "true"


def litdata(url, photographs, batch, threads, folder):
    import litdata as lit
    from litdata.streaming.item_loader import ParquetLoader

    # LitData would write its index beside the files, but this server does not accept writes.
    os.mkdir(f"{folder}/index")
    lit.index_parquet_dataset(photographs, f"{folder}/index")
    folders = {"cache_dir": f"{folder}/cache", "index_path": f"{folder}/index"}
    rows = lit.StreamingDataset(url, **folders, item_loader=ParquetLoader(), shuffle=True, transform=cropped)
    # LitData's Parquet loader does not survive a fork.
    loader = lit.StreamingDataLoader(
        rows, batch_size=batch, num_workers=threads, persistent_workers=True, multiprocessing_context="spawn",
        worker_init_fn=over_plain_http,
    )
    return lambda number: iter(loader)


def petastorm(url, photographs, batch, threads, folder):
    import numpy as np
    from petastorm import TransformSpec, make_batch_reader
    from petastorm.pytorch import BatchedDataLoader

    def transform(frame):
        frame["image"] = frame["image"].map(crop)
        return frame

    fields = [("image", np.uint8, (224, 224, 3), False)]
    spec = TransformSpec(transform, edit_fields=fields, selected_fields=["image", "label"])

    def epoch(number):
        with make_batch_reader(
            url, workers_count=threads, transform_spec=spec, num_epochs=1, shuffle_row_groups=True, seed=number
        ) as reader, BatchedDataLoader(reader, batch_size=batch, shuffling_queue_capacity=SHUFFLED) as loader:
            yield from loader

    return epoch


# ---- the simulated accelerator, for the peers ----


def train(epoch, epochs, step):
    """Takes the batches of some epochs, `step` seconds each; returns what `forebay bench` reports, computed
    in the same way."""
    laps = []  # (asked, in hand, over, first of its epoch, rows)
    for number in range(epochs):
        asked, first = time.perf_counter(), True
        for batch in epoch(number):
            got = time.perf_counter()
            time.sleep(max(0.0, got + step - time.perf_counter()))
            laps.append((asked, got, time.perf_counter(), first, len(batch["label"])))
            asked, first = time.perf_counter(), False
    start, end = laps[0][1], laps[-1][2]
    busy = [0.0] * int((end - start) / WINDOW)
    for _, got, *_ in laps:
        for at in range(len(busy)):
            busy[at] += max(0.0, min(got - start + step, (at + 1) * WINDOW) - max(got - start, at * WINDOW))
    waits = sorted(got - asked for asked, got, *_ in laps[1:])
    gaps = [got - asked for asked, got, _, first, _ in laps[1:] if first]
    return {
        "rows": sum(lap[4] for lap in laps),
        "rate": sum(lap[4] for lap in laps[1:]) / (end - laps[0][2]),
        "busy": step * len(laps) / (end - start),
        "worst": min(busy, default=None),
        "p999": waits[math.ceil(0.999 * len(waits)) - 1],
        "gap": max(gaps, default=None),
    }


def forebay(url, batch, threads, epochs, step, folder, program):
    """Returns what `forebay bench` reports."""
    command = [program, "bench", url, "--image", "image=rrc224", "--batch-size", str(batch), "--threads", str(threads)]
    command += ["--cache", f"{folder}/cache", "--cache-bytes", "1TB"] if epochs > 1 else []
    command += ["--epochs", str(epochs), "--seed", "1", "--json", "-"] + (["--step-ms", str(step * 1e3)] if step else [])
    report = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    simulated = report["accelerator"] or {"utilisation_min": 0.0, "ranks": [{"worst_second": None}]}
    return {
        "rows": report["rows"],
        "rate": report["rows_per_second"],
        "busy": simulated["utilisation_min"],
        "worst": simulated["ranks"][0]["worst_second"],
        "p999": report["next_ms"]["p99.9"] / 1e3,
        "gap": report["epoch_gap_ms"] and report["epoch_gap_ms"] / 1e3,
    }


# ---- the run ----


@contextmanager
def served(options, *words):
    """Starts a fault server with the photographs in its bucket; returns the environment that leads to it."""
    command = [options.server, "--folder", f"photos={options.data / 'w5'}", *words]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        yield {
            **os.environ,
            "AWS_ENDPOINT_URL": server.stdout.readline().strip(),
            "AWS_ACCESS_KEY_ID": "bench",
            "AWS_SECRET_ACCESS_KEY": "bench",
            "AWS_REGION": "us-east-1",
            "AWS_DEFAULT_REGION": "us-east-1",
        }
    finally:
        server.stdin.close()
        server.wait()


def one(name, options, words, epochs, step):
    """Runs a contestant in a process of its own, with a fresh server and a fresh folder."""
    with served(options, *words) as environment, tempfile.TemporaryDirectory() as folder:
        # Caches in the home folder would survive from earlier runs, and epoch 1 would be as fast as epoch 2.
        environment |= {"XDG_CACHE_HOME": folder, "HF_HOME": folder}
        where = ["s3://photos", str(options.data / "w5")]
        task = json.dumps([name, *where, options.batch, options.threads, epochs, step, folder, str(options.program)])
        command = [options.python.get(name, sys.executable), __file__, "--one", task]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True)
        if ran.returncode:
            sys.exit(f"{name}: {ran.stderr[-4000:]}")
        return json.loads(ran.stdout.splitlines()[-1])


def work(name, url, photographs, batch, threads, epochs, step, folder, program):
    """Runs a contestant in this process."""
    if name == "forebay":
        return forebay(url, batch, threads, epochs, step, folder, program)
    return train(globals()[name](url, photographs, batch, threads, folder), epochs, step)


def missing(name, python):
    find = "import importlib.util as u, json, sys; print(json.dumps([n for n in sys.argv[1:] if not u.find_spec(n)]))"
    return json.loads(subprocess.run([python, "-c", find, *NEEDS[name]], check=True, capture_output=True, text=True).stdout)


def contest(title, names, rates, options):
    """Runs each of `names` on its accelerator, in turns; `rates` has the rate of each."""
    runs = {name: [] for name in names}
    for _ in range(options.runs):
        for name in names:
            demand = rates[name] / MARGIN
            link = ["--rate-mb", str(LINK * demand * options.row_bytes / 1e6)]
            runs[name].append(one(name, options, [*FAR, *link], options.epochs, options.batch / demand))
    print(f"\n{title}: medians of {options.runs} runs in turns (and the worst)")
    for name, run in runs.items():
        demand = rates[name] / MARGIN
        lost = max(options.rows * options.epochs - found["rows"] for found in run)
        print(
            f"  {name:10} {options.batch / demand * 1e3:5.0f} ms a step, {demand:5,.0f} images/s: "
            f"busy {shown(run, 'busy', 100, min)} %, worst second {shown(run, 'worst', 100, min)} %, "
            f"next() p99.9 {shown(run, 'p999', 1e3, max)} ms, between epochs {shown(run, 'gap', 1e3, max)} ms"
            + (f", {lost} rows not delivered" if lost else "")
        )


def shown(run, key, unit, worst):
    values = [found[key] * unit for found in run if found[key] is not None]
    return f"{statistics.median(values):.1f} ({worst(values):.1f})" if values else "unknown"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    target = Path(os.environ.get("CARGO_TARGET_DIR", "target")) / "release"
    parser.add_argument("--data", type=Path, default=Path(".bench"))
    parser.add_argument("--rows", type=count, default=3000, help="where the photographs are not there yet; forebay's window is 10,000")
    parser.add_argument("--runs", type=count, default=5)
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--threads", type=count, default=2)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--program", type=Path, default=target / "forebay")
    parser.add_argument("--server", type=Path, default=target / "fault-server")
    parser.add_argument("--python", action="append", default=[], metavar="NAME=PATH", help="the interpreter of a peer")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    parser.add_argument("who", nargs="*", default=list(NEEDS))
    options = parser.parse_args()
    if options.one:
        print(json.dumps(work(*json.loads(options.one))))
        return
    options.python = dict(pair.split("=", 1) for pair in options.python)
    photographs = options.data / "w5"
    if not any(photographs.glob("*.parquet")):
        # There are several files, because the workers of some contestants share out files.
        words = ["--rows", str(options.rows), "--rows-per-file", "500", "--image", "500x375"]
        subprocess.run([options.program, "synth", photographs, *words], check=True)
    inspected = json.loads(subprocess.check_output([options.program, "inspect", photographs, "--json", "-"]))
    options.rows, options.row_bytes = inspected["rows"], inspected["file_bytes"] / inspected["rows"]
    names = []
    for name in options.who:
        lacks = missing(name, options.python.get(name, sys.executable))
        print(f"{name}: skipped, {', '.join(lacks)} not installed") if lacks else names.append(name)
    print(f"load before: {os.getloadavg()[0]:.2f}; {options.rows} photographs of {options.row_bytes / 1e3:.0f} KB")
    free = {name: [one(name, options, [], options.epochs, 0.0)["rate"] for _ in range(FREE_RUNS)] for name in names}
    rates = {name: max(runs) for name, runs in free.items()}
    for name, runs in free.items():
        print(f"  {name:10} over a free link {max(runs):6,.0f} images/s ({min(runs):,.0f} at least)")
    peers = [name for name in names if name != "forebay"]
    if "forebay" in names:
        contest("forebay's accelerator and link", names, dict.fromkeys(names, rates["forebay"]), options)
    if peers:
        contest("each peer's own accelerator and link", peers, rates, options)


if __name__ == "__main__":
    main()
