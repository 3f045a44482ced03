"""Trains up to step N with Ray Train, and resumes there when run again with a larger N.

forebay synth photos --rows 400
python examples/resume_ray.py photos 15
python examples/resume_ray.py photos 25
"""

import os
import sys

import ray.train
import torch
from ray.train.torch import TorchTrainer

import forebay as fb


def train_function(config):
    image = fb.Image.random_resized_crop(32).flip().dtype("float32").layout("NCHW")
    shard, shuffle = fb.ray.shard(), fb.Shuffle(seed=17)
    train = fb.Loader(config["photos"], decode={"image": image}, batch_size=40 // shard.world, shuffle=shuffle, shard=shard)
    model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))
    fb.ray.resume(train, lambda folder: model.load_state_dict(torch.load(f"{folder}/model.pt")))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-6)
    while True:
        for batch in fb.torch.batches(train):
            torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"]).backward()
            optimizer.step()
            optimizer.zero_grad()
            at = train.state_dict()
            if (step := at["epoch"] * 10 + at["row"] // 40) == config["steps"]:
                save = lambda folder: torch.save(model.state_dict(), f"{folder}/model.pt")  # noqa: E731
                return fb.ray.report({"step": step, "row": at["row"]}, train, save)


run = ray.train.RunConfig(name="ray-run", storage_path=os.getcwd())
config = {"photos": os.path.abspath(sys.argv[1]), "steps": int(sys.argv[2])}
found = TorchTrainer(train_function, train_loop_config=config, run_config=run).fit()
print(f"trained to step {found.metrics['step']}, which is row {found.metrics['row']} of its epoch")
