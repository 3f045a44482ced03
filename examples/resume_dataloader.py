"""Trains up to step N through torchdata's StatefulDataLoader, and resumes there when run again with a larger N.

forebay synth photos --rows 400
python examples/resume_dataloader.py photos 15
python examples/resume_dataloader.py photos 25
"""

import os
import sys

import torch
from torchdata.stateful_dataloader import StatefulDataLoader

import forebay as fb

photos, steps = sys.argv[1], int(sys.argv[2])
image = fb.Image.random_resized_crop(32).flip().dtype("float32").layout("NCHW")
train = fb.Loader(photos, decode={"image": image}, batch_size=40, shuffle=fb.Shuffle(seed=17))
batches = StatefulDataLoader(fb.torch.dataset(train), batch_size=None, num_workers=1)
model = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))
optimizer, begun = torch.optim.SGD(model.parameters(), lr=1e-6), 0
if os.path.exists("dataloader.pt"):
    saved = torch.load("dataloader.pt", weights_only=False)
    model.load_state_dict(saved["model"])
    batches.load_state_dict(saved["batches"])
    begun = saved["step"]
step = begun
while step < steps:
    for batch in batches:
        loss = torch.nn.functional.cross_entropy(model(batch["image"]), batch["label"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        if step == steps:
            break
torch.save({"model": model.state_dict(), "batches": batches.state_dict(), "step": step}, "dataloader.pt")
print(f"trained steps {begun} to {step}, the last one with loss {loss.item():.3f}")
