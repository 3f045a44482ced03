"""Trains up to step N with Lightning, and resumes there when run again with a larger N.

forebay synth photos --rows 400
python examples/resume_lightning.py photos 15
python examples/resume_lightning.py photos 25
"""

import os
import sys

import lightning
import torch

import forebay as fb


class Classifier(lightning.LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.network = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(3 * 32 * 32, 10))

    def training_step(self, batch, index):
        return torch.nn.functional.cross_entropy(self.network(batch["image"]), batch["label"])

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=1e-6)


photos, steps = sys.argv[1], int(sys.argv[2])
decode = {"image": fb.Image.random_resized_crop(32).flip().dtype("float32").layout("NCHW")}
data = fb.lightning.DataModule(
    train=lambda shard: fb.Loader(photos, decode=decode, batch_size=40, shuffle=fb.Shuffle(seed=17), shard=shard)
)
trainer = lightning.Trainer(max_steps=steps, logger=False, enable_progress_bar=False, enable_checkpointing=False)
trainer.fit(Classifier(), data, ckpt_path="lightning.ckpt" if os.path.exists("lightning.ckpt") else None)
trainer.save_checkpoint("lightning.ckpt")
position = data.state_dict()["train"]
print(f"trained to step {trainer.global_step}, which is row {position['row']} of epoch {position['epoch']}")
