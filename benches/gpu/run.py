"""Runs one training: steps of a model on the batches of one loader, and the time that they waited."""

import io
import itertools
import json
import statistics
import sys
import threading
import time

import torch
import torchvision
from torchvision.transforms import v2
from turns import usage

SIDE = 224
CLASSES = 1000
SEED = 17
#: Steps before the clock starts, in which the model is compiled, workers start, and batches that were made
# ahead are used up.
BEFORE = 20
#: Seconds between two readings of the device's utilisation.
LOOK = 0.1
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)


class Photos(torch.utils.data.Dataset):
    """All photographs, still encoded, as a data set for torch's DataLoader."""

    def __init__(self, folder):
        import pyarrow.parquet as pq

        table = pq.read_table(folder, columns=["image", "label"])
        self.images, self.labels = table["image"].combine_chunks(), table["label"].to_numpy()
        self.crop = v2.Compose([v2.RandomResizedCrop(SIDE, antialias=True), v2.RandomHorizontalFlip(), v2.PILToTensor()])

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, row):
        from PIL import Image

        image = Image.open(io.BytesIO(self.images[row].as_py())).convert("RGB")
        return self.crop(image), int(self.labels[row])


def forebay(task):
    import forebay as fb

    loader = fb.Loader(
        task["photos"],
        columns=["image", "label"],
        decode={"image": fb.Image.random_resized_crop(SIDE).flip()},
        batch_size=task["batch"],
        shuffle=fb.Shuffle(seed=SEED),
        drop_last=True,
        threads=task["threads"],
    )
    while True:
        for batch in fb.torch.batches(loader, device=task["device"]):
            yield batch["image"].permute(0, 3, 1, 2), batch["label"]


def dataloader(task):
    cuda = task["device"] == "cuda"
    loader = torch.utils.data.DataLoader(
        Photos(task["photos"]),
        batch_size=task["batch"],
        shuffle=True,
        drop_last=True,
        num_workers=task["threads"],
        persistent_workers=True,
        pin_memory=cuda,
    )
    while True:
        for images, labels in loader:
            yield images.to(task["device"], non_blocking=True), labels.to(task["device"], non_blocking=True)


def synthetic(task):
    images = torch.randint(0, 256, (task["batch"], 3, SIDE, SIDE), dtype=torch.uint8, device=task["device"])
    labels = torch.randint(0, CLASSES, (task["batch"],), device=task["device"])
    return itertools.repeat((images, labels))


LOADERS = {"forebay": forebay, "torch": dataloader, "synthetic": synthetic}


class Training:
    """A model from a random start, which is the same for all loaders."""

    def __init__(self, task):
        torch.manual_seed(SEED)
        self.device = task["device"]
        form = torch.channels_last
        model = torchvision.models.get_model(task["model"], num_classes=CLASSES).to(self.device, memory_format=form)
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
        self.mean, self.std = (
            torch.tensor(values, device=self.device).view(1, 3, 1, 1) * 255 for values in (MEAN, STD)
        )
        self.model = torch.compile(model) if self.device == "cuda" else model

    def step(self, images, labels):
        images = (images.float() - self.mean) / self.std
        with torch.autocast(self.device, torch.bfloat16, enabled=self.device == "cuda"):
            logits = self.model(images.contiguous(memory_format=torch.channels_last))
            loss = torch.nn.functional.cross_entropy(logits, labels.long() % CLASSES)
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        self.optimizer.step()
        return loss


class Device(threading.Thread):
    """Samples the utilisation of the device; it has no samples where NVML or a device is missing."""

    def __init__(self, device):
        super().__init__(daemon=True)
        self.samples, self.ended = [], threading.Event()
        self.is_known = device == "cuda"
        if self.is_known:
            try:
                torch.cuda.utilization()
            except (ModuleNotFoundError, RuntimeError) as error:
                print(f"NVML: {error}", file=sys.stderr)
                self.is_known = False

    def run(self):
        while self.is_known and not self.ended.wait(LOOK):
            self.samples.append(torch.cuda.utilization() / 100)

    def busy(self):
        self.ended.set()
        self.join()
        return statistics.mean(self.samples) if self.samples else None


def main():
    task = json.loads(sys.argv[1])
    cuda = task["device"] == "cuda"
    if cuda and not torch.cuda.is_available():
        raise SystemExit("error: torch sees no GPU: --device cpu rehearses without one")
    settle = torch.cuda.synchronize if cuda else lambda: None
    training, batches = Training(task), LOADERS[task["loader"]](task)
    before = BEFORE if cuda else 2
    for batch in itertools.islice(batches, before):
        training.step(*batch)
    settle()
    device = Device(task["device"])
    device.start()
    worked, waits, begun = usage.processors()[0], [], time.perf_counter()
    while time.perf_counter() - begun < task["seconds"]:
        asked = time.perf_counter()
        batch = next(batches)
        waits.append(time.perf_counter() - asked)
        # `item()` waits for the end of the step: while the loop then waits for a batch, the device waits too.
        training.step(*batch).item()
    settle()
    took = time.perf_counter() - begun
    images = len(waits) * task["batch"]
    print(json.dumps({
        "rate": images / took,
        "busy": device.busy(),
        "waited": sum(waits) / took,
        "p99": sorted(waits)[int(0.99 * (len(waits) - 1))],
        "processors": (usage.processors()[0] - worked) / images,
        "device": torch.cuda.get_device_name() if cuda else "no GPU: a rehearsal",
    }))


if __name__ == "__main__":
    main()
