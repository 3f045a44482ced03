"""Trains up to step N under Accelerate, and resumes there when run again with a larger N.

forebay synth photos --rows 400
accelerate launch examples/resume_accelerate.py photos 15
accelerate launch examples/resume_accelerate.py photos 25
"""

import os
import sys

import torch
from accelerate import Accelerator

import forebay as fb

photos, steps = sys.argv[1], int(sys.argv[2])
accelerator = Accelerator()
image = fb.Image.random_resized_crop(32).flip().dtype("float32").layout("NCHW")
shard = fb.Shard(rank=accelerator.process_index, world=accelerator.num_processes)
train = fb.Loader(photos, decode={"image": image}, batch_size=40, shuffle=fb.Shuffle(seed=17), shard=shard)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))
model, optimizer = accelerator.prepare(model, torch.optim.SGD(model.parameters(), lr=1e-6))
accelerator.register_for_checkpointing(train)
if os.path.exists("accelerate"):
    accelerator.load_state("accelerate")
position = train.state_dict()
step = position["epoch"] * len(train) + position["row"] // (40 * shard.world)
while step < steps:
    for batch in fb.accelerate.batches(train, accelerator):
        accelerator.backward(torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"]))
        optimizer.step()
        optimizer.zero_grad()
        step += 1
        if step == steps:
            break
accelerator.save_state("accelerate")
position = train.state_dict()
accelerator.print(f"trained to step {step}, which is row {position['row']} of epoch {position['epoch']}")
