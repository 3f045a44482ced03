"""Feeds an accelerator from a store, with and without a cache on the node: the experiment that Alluxio
published for AlexNet.

    cargo build --release --workspace
    python examples/published/alluxio_steps.py [--scale 0.004]

Published: "Running Deep Learning Frameworks on Alluxio"
(https://docs.alluxio.io/os/user/stable/en/solutions/Deep-Learning.html) trains on ImageNet in S3 with TensorFlow's
benchmark and counts images/s. Of its models "AlexNet has relatively simpler architecture and therefore more likely to
result in an I/O bottleneck when storage becomes slower"; with the data cached beside the training, "Alluxio brings
nearly 2X performance improvement on an EC2 p2.8xlarge machine".

Here the accelerator is simulated: a step is a fixed time from batch in hand (64 images at `--accelerator`
images/s). The store is 30 ms away (p99 300 ms), and its link gives half of what the accelerator takes, or one
and a half times that. Each line is one process: images/s over the epochs after the first, and how busy the
accelerator was; the last line is the upper bound, the same files on a local disk. The cache keeps the files
of the images, as Alluxio does, and no pixels. It can add only what the link lacks: with half of the demand,
that is "nearly 2X".
"""

from __future__ import annotations

import json
import tempfile
import time

from common import (
    FAR,
    URL,
    apart,
    conditions,
    drawn,
    memory_for,
    middle,
    parser,
    sent,
    served,
    stepped,
    stored_bytes,
    table,
)

PUBLISHED_ROWS = 1_281_167  # ImageNet's training set
BATCH = 64


def work(url: str, cached: bool, memory: int, threads: int, epochs: int, step: float) -> dict[str, float]:
    """Trains for some epochs: images/s and busy share after the first, and the bytes that the store sent meanwhile."""
    import forebay as fb

    with (
        tempfile.TemporaryDirectory() as folder,
        fb.Loader(
            url,
            columns=["image", "label"],
            decode={"image": fb.Image.random_resized_crop(224).flip()},
            batch_size=BATCH,
            shuffle=fb.Shuffle(seed=17),
            threads=threads,
            memory=memory,
            cache=fb.DiskCache(f"{folder}/cache", max_bytes="20GB", tier="rows") if cached else None,
        ) as train,
    ):
        remote = url.startswith("s3:")
        for _ in stepped(train, step):
            pass
        before, began = sent() if remote else 0, time.perf_counter()
        steps = images = 0
        for _ in range(1, epochs):
            for batch in stepped(train, step):
                steps, images = steps + 1, images + len(batch["label"])
        took = time.perf_counter() - began
        return {
            "rate": images / took,
            "busy": steps * step / took,
            "sent": (sent() - before if remote else 0) / (epochs - 1),
        }


def main() -> None:
    built = parser(__doc__, scale=0.0002)
    built.add_argument("--epochs", type=int, default=3)
    built.add_argument("--accelerator", type=float, default=500, help="images it takes in a second")
    built.add_argument("--links", type=float, nargs="+", default=[0.5, 1.5], help="of what the accelerator takes")
    built.add_argument("--runs", type=int, default=1, help="in turns; medians are printed")
    built.add_argument("--one", help="for the script itself: the task of one process")
    options = built.parse_args()
    if options.one:
        print(json.dumps(work(*json.loads(options.one))))
        return
    rows = max(BATCH, round(PUBLISHED_ROWS * options.scale))
    with drawn(options.data, "imagenet", rows) as data:
        size = stored_bytes(data)
        memory = memory_for(size)
        demand = options.accelerator * size / rows / 1e6
        print(f"{rows:,} images of {size / rows / 1e3:.0f} KB, {size / 1e6:,.0f} MB;", end=" ")
        print(f"an accelerator of {options.accelerator:.0f} images/s takes {demand:.0f} MB/s;")
        conditions()
        found: dict[tuple[str, str], list[dict[str, float]]] = {}
        for _ in range(options.runs):
            for share in options.links:
                for cached in (False, True):
                    key = f"{share * demand:.0f} MB/s, {share:g} of that", "on the node" if cached else "none"
                    with served(options.server, data, *FAR, "--rate-mb", str(share * demand)) as environment:
                        task = [URL, cached, memory, options.threads, options.epochs, BATCH / options.accelerator]
                        found.setdefault(key, []).append(apart(task, environment))
            task = [str(data), False, memory, options.threads, options.epochs, BATCH / options.accelerator]
            found.setdefault(("a local disk", "none"), []).append(apart(task, {}))
    lines = []
    for (link, cache), runs in found.items():
        rates = [run["rate"] for run in runs]
        # Each ratio is of two runs made one after the other, when the machine was in the same state.
        times = [run["rate"] / plain["rate"] for run, plain in zip(runs, found[link, "none"])]
        busy = middle([100 * run["busy"] for run in runs], "{:.0f} %")
        remote = middle([run["sent"] / 1e6 for run in runs], "{:,.1f}")
        lines.append([link, cache, middle(rates), middle(times, "{:.2f}") if cache != "none" else "", busy, remote])
    table(["link", "cache"], ["images/s", "times uncached", "accelerator busy", "MB sent an epoch"], lines)


if __name__ == "__main__":
    main()
