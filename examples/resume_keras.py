"""Trains with Keras, and can be killed at any time: started again, it resumes with the next batch that was not saved.

forebay synth photos --rows 400
KERAS_BACKEND=jax python examples/resume_keras.py photos
"""

import os
import sys

import keras

import forebay as fb


class Interrupt(keras.callbacks.Callback):
    """Ends the first run in its second epoch without notice, as if the machine had been taken away."""

    def on_train_batch_end(self, batch, logs=None):
        if not resumes and train.state_dict()["epoch"] == 1 and batch == 6:
            os._exit(1)


resumes = os.path.exists("keras-backup")
decode = {"image": fb.Image.random_resized_crop(32).flip()}
train = fb.Loader(sys.argv[1], decode=decode, batch_size=40, shuffle=fb.Shuffle(seed=17))
model = keras.Sequential(
    [
        keras.layers.Input((32, 32, 3)),
        keras.layers.Rescaling(1 / 255),
        keras.layers.Flatten(),
        keras.layers.Dense(10, activation="softmax"),
    ]
)
model.compile("adam", "sparse_categorical_crossentropy")
callbacks = [fb.keras.Resume(train, "keras-backup", every=5), Interrupt()]
model.fit(fb.keras.batches(train), epochs=2, verbose=0, callbacks=callbacks)
print(f"trained {int(model.optimizer.iterations)} steps in {train.state_dict()['epoch']} epochs")
