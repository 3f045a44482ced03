"""MixUp and CutMix on batches, by torchvision's formulas, on any number of ranks."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb
from forebay._forebay import blend_with_previous
from forebay.transforms.mixup import _blended, _cut

ROWS, SIDE, CLASSES = 48, 12, 5


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Raw images in which each pixel value is the number of the row."""
    folder = tmp_path_factory.mktemp("mixup")
    cells = [bytes([row]) * (SIDE * SIDE * 3) for row in range(ROWS)]
    labels = [row % CLASSES for row in range(ROWS)]
    pq.write_table(
        pa.table({"image": cells, "label": labels, "id": range(ROWS)}), folder / "a.parquet", row_group_size=16
    )
    return folder


def loader(data: Path, transform: Any, batch_size: int = 6, dtype: str = "float32", **options: Any) -> fb.Loader:
    raw: Any = fb.Image.resize(SIDE, SIDE).raw((SIDE, SIDE, 3))
    decode = {"image": raw.dtype(dtype)}
    options = {"shuffle": fb.Shuffle(seed=5, lanes=4), **options}
    return fb.Loader(data, decode=decode, transform=transform, batch_size=batch_size, **options)


def lams(batches: list[Any]) -> list[float]:
    """Returns the mixing factor of each batch. It is read from the label of a row whose partner has another class."""
    found = []
    for batch in batches:
        own, other = batch["id"] % CLASSES, np.roll(batch["id"], 1) % CLASSES
        at = int(np.argmax(own != other))
        found.append(float(batch["label"][at, own[at]]))
        for row, (mine, its) in enumerate(zip(own, other, strict=True)):
            expected = np.zeros(CLASSES)
            expected[mine] += found[-1]
            expected[its] += 1 - found[-1]
            np.testing.assert_allclose(batch["label"][row], expected, atol=1e-6)
    return found


def test_mixup_is_the_formula(data: Path) -> None:
    mix = fb.MixUp(num_classes=CLASSES, mixup_alpha=0.8)
    with loader(data, mix) as train:
        batches = list(train.epoch(0))
    for batch, lam in zip(batches, lams(batches), strict=True):
        level = (lam * batch["id"] + (1 - lam) * np.roll(batch["id"], 1)) / 255
        np.testing.assert_allclose(
            batch["image"], np.broadcast_to(level[:, None, None, None], batch["image"].shape), atol=1e-6
        )
        assert batch["label"].dtype == np.float32
    assert len({round(lam, 6) for lam in lams(batches)}) == len(batches)
    with loader(data, mix, dtype="uint8") as train:
        for batch, lam in zip(train.epoch(0), lams(batches), strict=True):
            level = np.rint(lam * batch["id"] + (1 - lam) * np.roll(batch["id"], 1))
            assert np.abs(batch["image"][:, 0, 0, 0] - level).max() <= 1
            assert batch["image"].dtype == np.uint8


def test_images_of_8_bits_are_the_rounded_sum_to_the_bit() -> None:
    random = np.random.default_rng(2)
    images = random.integers(0, 256, (5, 37, 11, 3), np.uint8)
    for lam in (0.0, 0.25, 0.3, 0.5, 0.77, 1.0):
        own, other = np.float32(lam), np.float32(1 - lam)
        for batch in (images, images.transpose(0, 2, 1, 3), images[::2], images[:1], images[:0]):
            expected = np.rint(own * batch.astype(np.float32) + other * np.roll(batch, 1, axis=0).astype(np.float32))
            mixed = _blended(batch, lam)
            np.testing.assert_array_equal(mixed, expected)
            assert mixed.dtype == np.uint8 and mixed.shape == batch.shape
    for wrong in (images[:, ::2], images.astype(np.int8), images[:4], images):
        with pytest.raises(fb.InvalidError, match="two contiguous arrays of uint8 with one shape"):
            blend_with_previous(images, wrong, 0.5, 0.5)


def timms_box(height: int, width: int, lam: float, place: tuple[float, float]) -> tuple[int, int, int, int]:
    """The box of timm's ``rand_bbox``, whose centre is at these shares of the image."""
    ratio = np.sqrt(1 - lam)
    cut_height, cut_width = int(height * ratio), int(width * ratio)
    down, across = int(place[1] * height), int(place[0] * width)
    top, bottom = (int(np.clip(down + half, 0, height)) for half in (-(cut_height // 2), cut_height // 2))
    left, right = (int(np.clip(across + half, 0, width)) for half in (-(cut_width // 2), cut_width // 2))
    return top, bottom, left, right


def test_a_box_is_timms() -> None:
    random = np.random.default_rng(4)
    for _ in range(300):
        lam, across, down = random.random(3)
        images = np.zeros((2, 23, 17, 3), np.uint8)
        images[1] = 255
        cut, share = _cut(images, lam, (across, down), "image")
        top, bottom, left, right = timms_box(23, 17, lam, (across, down))
        expected = np.zeros_like(images[0])
        expected[top:bottom, left:right] = 255
        np.testing.assert_array_equal(cut[0], expected)
        assert share == 1 - (bottom - top) * (right - left) / (23 * 17)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
def test_cutmix_has_the_exact_area(data: Path, layout: Any) -> None:
    raw: Any = fb.Image.resize(SIDE, SIDE).raw((SIDE, SIDE, 3)).layout(layout)
    mix = fb.MixUp(num_classes=CLASSES, mixup_alpha=0, cutmix_alpha=1.0)
    areas = set()
    with fb.Loader(data, decode={"image": raw}, transform=mix, batch_size=6, shuffle=fb.Shuffle(seed=5)) as train:
        batches = [batch for epoch in range(4) for batch in train.epoch(epoch)]
    for batch, lam in zip(batches, lams(batches), strict=True):
        images = batch["image"] if layout == "NHWC" else batch["image"].transpose(0, 2, 3, 1)
        own = images[..., 0] == batch["id"][:, None, None]
        assert (images == images[..., :1]).all()
        assert (own | (images[..., 0] == np.roll(batch["id"], 1)[:, None, None])).all()
        np.testing.assert_allclose(own.mean(axis=(1, 2)), lam, atol=1e-6)
        box = np.argwhere(~own[0])
        if len(box):
            height, width = box.max(axis=0) - box.min(axis=0) + 1
            assert len(box) == height * width
        areas.add(len(box))
    assert len(areas) > 8


def test_the_same_batch_as_torchvisions(data: Path) -> None:
    """Compares with torchvision's functions, which are given the same factor and box."""
    torch = pytest.importorskip("torch")
    v2 = pytest.importorskip("torchvision.transforms.v2")
    labels = torch.arange(6) % CLASSES
    images = torch.rand(6, 3, SIDE, SIDE)
    for alphas, reference in [
        ((0.4, 0), v2.MixUp(alpha=0.4, num_classes=CLASSES)),
        ((0, 0.7), v2.CutMix(alpha=0.7, num_classes=CLASSES)),
    ]:
        mix = fb.MixUp(num_classes=CLASSES, mixup_alpha=alphas[0], cutmix_alpha=alphas[1])
        batches: list[Any] = []

        def keep(batch: Any, mix: Any = mix, batches: list[Any] = batches) -> Any:
            batch["image"], batch["label"] = images.numpy(), labels.numpy()
            batches.append(mix(batch))
            return {"id": batch["id"]}

        with loader(data, keep) as train:
            list(train.epoch(0))
        for batch in batches:
            own = float(batch["label"][1, 1])
            params: dict[str, Any] = {"lam": own}
            if alphas[1]:
                changed = np.argwhere((batch["image"][0] != images[0].numpy()).any(axis=0))
                (top, left), (bottom, right) = (
                    (changed.min(axis=0), changed.max(axis=0) + 1) if len(changed) else ((0, 0), (0, 0))
                )
                params = {"box": (left, top, right, bottom), "lam_adjusted": own}
            params |= {"labels": labels, "batch_size": 6}
            np.testing.assert_allclose(batch["image"], reference.transform(images, params), atol=1e-6)
            np.testing.assert_allclose(batch["label"], reference.transform(labels, params), atol=1e-6)


def test_factors_are_those_of_the_step_on_any_world_and_after_a_resume(data: Path) -> None:
    mix = fb.MixUp(num_classes=CLASSES, mixup_alpha=0.6, cutmix_alpha=1.0)
    both = fb.MixUp(num_classes=CLASSES, mixup_alpha=0.6, cutmix_alpha=1.0, p=0.5)

    def of_world(world: int, transform: Any, state: Any = None, **options: Any) -> list[list[float]]:
        each = []
        for rank in range(world):
            with loader(data, transform, 12 // world, shard=fb.Shard(rank=rank, world=world), **options) as train:
                if state is not None:
                    train.load_state_dict(state)
                each.append(lams(list(train if state is not None else train.epoch(1))))
        return each

    # The factor of a CutMix step follows from the area of its box, and all ranks cut the same box.
    (alone,) = of_world(1, mix)
    for world in (2, 4):
        for other in of_world(world, mix):
            np.testing.assert_allclose(other, alone, atol=1e-6)
    (workers,) = of_world(1, mix, transform_workers=fb.Workers(2, threads=True))
    assert workers == alone
    (some,) = of_world(1, both)
    assert 0 < sum(lam == 1 for lam in some) < len(some) or len(some) < 3
    with loader(data, mix, 6, shard=fb.Shard(rank=0, world=2)) as train:
        epoch = iter(train.epoch(1))
        next(epoch)
        state = train.state_dict()
    for world in (1, 3):
        for other in of_world(world, mix, state):
            np.testing.assert_allclose(other, alone[1:], atol=1e-6)


def test_each_row_is_there_once_and_labels_are_smoothed(data: Path) -> None:
    mix = fb.MixUp(num_classes=CLASSES, mixup_alpha=0.3, label_smoothing=0.1, p=0.0)
    assert pickle.loads(pickle.dumps(mix)) == mix
    with loader(data, mix, batch_size=7) as train:
        batches = list(train.epoch(0))
    assert sorted(np.concatenate([batch["id"] for batch in batches]).tolist()) == list(range(ROWS))
    for batch in batches:
        np.testing.assert_allclose(batch["label"].sum(axis=1), 1, atol=1e-6)
        np.testing.assert_allclose(batch["label"].max(axis=1), 0.92, atol=1e-6)
        np.testing.assert_allclose(batch["image"][:, 0, 0, 0] * 255, batch["id"], atol=1e-4)


def test_text_and_undecoded_images_are_named_with_the_option_that_turns_them_into_numbers(tmp_path: Path) -> None:
    table = pa.table({"image": [b"jpeg"] * 4, "label": ["cat", "dog"] * 2, "pixels": [[[1, 2, 3]]] * 4})
    pq.write_table(table, tmp_path / "a.parquet")
    for mix, said in [
        (fb.MixUp(num_classes=5), r"'image' holds undecoded images .*decode=\{'image': forebay\.Image\.\.\.\}\)"),
        (fb.MixUp(num_classes=5, image="pixels"), "'pixels' is not an array of numbers of one shape, but Ragged"),
        (fb.MixUp(num_classes=5, image="label"), r"'label' holds text .*encode=\{'label': forebay\.Vocabulary"),
    ]:
        with fb.Loader(tmp_path, transform=mix, shuffle=fb.Shuffle(seed=1), batch_size=4) as train:
            with pytest.raises(fb.InvalidError, match=said):
                list(train.epoch(0))


def test_what_can_never_work_is_refused(data: Path) -> None:
    wrong: Any = fb.MixUp
    for options, said in [
        ({"num_classes": 1}, "num_classes must be an int of at least 2, got 1"),
        ({"num_classes": 5, "mixup_alpha": -1}, "mixup_alpha must be a finite number of at least 0, got -1"),
        ({"num_classes": 5, "mixup_alpha": 0}, "both alphas 0"),
        ({"num_classes": 5, "p": 2}, "p must be a number from 0 to 1, got 2"),
    ]:
        with pytest.raises(fb.InvalidError, match=said):
            wrong(**options)
    for mix, said in [
        (fb.MixUp(num_classes=4), "label 4 in column 'label' with num_classes=4"),
        (fb.MixUp(num_classes=5, label="class"), "no column 'class' in the batch"),
        (fb.MixUp(num_classes=5, label="image"), "labels are whole numbers"),
        (fb.MixUp(num_classes=5, mixup_alpha=0, cutmix_alpha=1, image="id"), "CutMix needs batches of images"),
    ]:
        with loader(data, mix, 48) as train, pytest.raises(fb.InvalidError, match=said):
            list(train.epoch(0))
    with loader(data, lambda batch: {"x": fb.rng(batch, all_ranks=True).random(6)}) as train:
        assert not np.array_equal(*[batch["x"] for batch in train.epoch(0)][:2])
    with pytest.raises(fb.InvalidError, match="all_ranks is for a batch"):
        list(loader(data, None, transform_rows=lambda row: {"x": fb.rng(row, all_ranks=True).random()}))
