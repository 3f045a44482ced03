"""Trains a small convolutional network with PyTorch, and resumes where it was interrupted.

    forebay synth photos --rows 5000
    python examples/torch_imagenet.py photos --checkpoint run.pt
    python examples/torch_imagenet.py photos --checkpoint run.pt    # after Ctrl-C: continues at the same step

Under torchrun each process takes its share, and any process's checkpoint serves all of them, on any number of
processes that keeps the global batch:

    torchrun --nproc-per-node 2 examples/torch_imagenet.py photos --batch-size 32 --checkpoint run.pt
"""

from __future__ import annotations

import argparse
import os
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import forebay as fb
import forebay.torch

MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


def main() -> None:
    arguments = parse()
    shard = join()
    device = torch.device("cuda", local_rank()) if torch.cuda.is_available() else torch.device("cpu")
    torch.manual_seed(0)
    model = network(arguments.classes).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    trained = DistributedDataParallel(model) if shard.world > 1 else model

    image = fb.Image.random_resized_crop(arguments.size).flip().normalize(MEAN, STD).dtype("float32").layout("NCHW")
    with fb.Loader(
        arguments.photos,
        columns=["image", "label"],
        decode={"image": image},
        batch_size=arguments.batch_size,
        shuffle=fb.Shuffle(seed=17, lanes=arguments.lanes),
        shard=shard,
    ) as train:
        step = resume(arguments.checkpoint, model, optimizer, train)
        last = arguments.epochs * len(train)
        if arguments.stop_after is not None:
            last = min(last, step + arguments.stop_after)
        while step < last:
            for batch in forebay.torch.batches(train, device=device):
                loss = nn.functional.cross_entropy(trained(batch["image"]), batch["label"])
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                step += 1
                if shard.rank == 0 and (step % arguments.every == 0 or step == last):
                    print(f"epoch {(step - 1) // len(train)}, step {step}: loss {loss.item():.3f}", flush=True)
                    save(arguments.checkpoint, model, optimizer, train, step)
                if step == last:
                    break
        if shard.rank == 0:
            print(train.stats())
    if shard.world > 1:
        dist.destroy_process_group()


def join() -> fb.Shard:
    """Returns this process's share of the rows: all of them, unless a launcher started it."""
    if "WORLD_SIZE" not in os.environ:
        return fb.Shard(rank=0, world=1)
    dist.init_process_group("nccl" if torch.cuda.is_available() else "gloo")
    return fb.Shard.from_env()


def local_rank() -> int:
    return int(os.environ.get("LOCAL_RANK", 0))


def network(classes: int) -> nn.Module:
    layers: list[nn.Module] = []
    channels = 3
    for wider in (16, 32, 64, 128):
        layers += [nn.Conv2d(channels, wider, 3, stride=2, padding=1), nn.GroupNorm(4, wider), nn.ReLU()]
        channels = wider
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))


def save(path: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, train: fb.Loader, step: int) -> None:
    """Saves the model together with the loader's position, which counts exactly the rows that the model has seen."""
    if path is None:
        return
    whole = {
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "loader": train.state_dict(),
        "step": step,
    }
    unfinished = path.with_suffix(".tmp")
    torch.save(whole, unfinished)
    unfinished.replace(path)


def resume(path: Path | None, model: nn.Module, optimizer: torch.optim.Optimizer, train: fb.Loader) -> int:
    """Restores the checkpoint, if there is one, and returns the number of steps that were taken before it."""
    if path is None or not path.exists():
        return 0
    saved = torch.load(path, map_location="cpu", weights_only=True)
    model.load_state_dict(saved["model"])
    optimizer.load_state_dict(saved["optimizer"])
    train.load_state_dict(saved["loader"])
    print(f"resumed after step {saved['step']}", flush=True)
    return int(saved["step"])


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("photos", help="folder, URL or glob of the training set")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=64, help="of one process")
    parser.add_argument("--size", type=int, default=224, help="side of an image in pixels")
    parser.add_argument("--classes", type=int, default=10)
    parser.add_argument("--lanes", type=int, help="fixes the order for other numbers of processes")
    parser.add_argument("--checkpoint", type=Path)
    parser.add_argument("--every", type=int, default=10, help="steps between two checkpoints")
    parser.add_argument("--stop-after", type=int, metavar="STEPS", help="end early, as if interrupted")
    return parser.parse_args()


if __name__ == "__main__":
    main()
