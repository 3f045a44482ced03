"""Trains up to step N with the Trainer of Transformers, and resumes there when run again with a larger N.

forebay synth photos --rows 400
python examples/resume_transformers.py photos 15
python examples/resume_transformers.py photos 25
"""

import os
import sys

import torch
import transformers

import forebay as fb


class Classifier(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))

    def forward(self, image, label):
        scores = self.network(image)
        return {"loss": torch.nn.functional.cross_entropy(scores, label), "logits": scores}


photos, steps, resumes = sys.argv[1], int(sys.argv[2]), os.path.exists("transformers-run")
image = fb.Image.random_resized_crop(32).flip().dtype("float32").layout("NCHW")
train = fb.Loader(
    photos, columns=["image", "label"], decode={"image": image}, batch_size=40, shuffle=fb.Shuffle(seed=1)
)
args = transformers.TrainingArguments(
    "transformers-run", max_steps=steps, save_steps=5, learning_rate=1e-6, report_to=[], disable_tqdm=True
)
trainer = fb.hf.Trainer(Classifier(), args, train_dataset=train)
trained = trainer.train(resume_from_checkpoint=resumes)
position = train.state_dict()
print(f"trained to step {trained.global_step}, which is row {position['row']} of epoch {position['epoch']}")
