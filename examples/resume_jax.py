"""Trains up to step N with JAX, and resumes there when run again with a larger N.

forebay synth photos --rows 400
python examples/resume_jax.py photos 15
python examples/resume_jax.py photos 25
"""

import json
import os
import sys

import jax
import jax.numpy as jnp

import forebay as fb

photos, steps = sys.argv[1], int(sys.argv[2])
sharding = jax.sharding.NamedSharding(jax.sharding.Mesh(jax.devices(), ("data",)), jax.sharding.PartitionSpec("data"))
decode, shard = {"image": fb.Image.random_resized_crop(32).dtype("float32")}, fb.Shard.from_sharding(sharding)
train = fb.Loader(photos, decode=decode, batch_size=40, shuffle=fb.Shuffle(seed=17), shard=shard)


def loss(weights, images, labels):
    scores = jax.nn.log_softmax(images.reshape(len(images), -1) @ weights)
    return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()


gradient, weights, step = jax.jit(jax.grad(loss)), jnp.zeros((32 * 32 * 3, 10)), 0
if os.path.exists("jax-run.json"):
    saved = json.load(open("jax-run.json"))
    weights, step = jnp.array(saved["weights"]), saved["step"]
    train.load_state_dict(saved["loader"])
while step < steps:
    for batch in fb.jax.batches(train, sharding=sharding):
        weights, step = weights - 1e-6 * gradient(weights, batch["image"], batch["label"]), step + 1
        if step == steps:
            break
at = train.state_dict()
json.dump({"weights": weights.tolist(), "step": step, "loader": at}, open("jax-run.json", "w"))
print(f"trained to step {step}, which is row {at['row']} of epoch {at['epoch']}")
