"""Trains up to step N with TensorFlow, and resumes there when run again with a larger N.

forebay synth photos --rows 400
python examples/resume_tensorflow.py photos 15; python examples/resume_tensorflow.py photos 25
"""

import json
import os
import sys

import tensorflow as tf

import forebay as fb

decode, steps = {"image": fb.Image.random_resized_crop(32).dtype("float32")}, int(sys.argv[2])
train = fb.Loader(sys.argv[1], decode=decode, batch_size=40, shuffle=fb.Shuffle(seed=17))
weights, step = tf.Variable(tf.zeros((32 * 32 * 3, 10))), tf.Variable(0)
checkpoint = tf.train.Checkpoint(weights=weights, step=step)
if os.path.exists("tf-run.json"):
    checkpoint.read("tf-run").expect_partial()
    train.load_state_dict(json.load(open("tf-run.json")))


@tf.function(reduce_retracing=True)
def train_step(images, labels):
    with tf.GradientTape() as tape:
        scores = tf.reshape(images, (-1, 32 * 32 * 3)) @ weights
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels, scores))
    weights.assign_sub(1e-6 * tape.gradient(loss, weights))
    step.assign_add(1)


while step < steps:
    for images, labels in fb.tf.batches(train, x="image", y="label"):
        train_step(images, labels)
        if step == steps:
            break
checkpoint.write("tf-run")
json.dump(at := train.state_dict(), open("tf-run.json", "w"))
print(f"trained to step {step.numpy()}, which is row {at['row']} of epoch {at['epoch']}")
