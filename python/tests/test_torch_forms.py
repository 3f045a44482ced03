"""The forms in which tensors are delivered: types of floats, and images with channels last."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import forebay as fb

torch = pytest.importorskip("torch")

SIZE = 24


@pytest.fixture(scope="module")
def photos(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("forms") / "photos"
    fb.main(["synth", str(folder), "--rows", "12", "--image", "40x30"])
    return folder


def loader(folder: Path, image: fb.Image, **more: Any) -> fb.Loader:
    return fb.Loader(folder, decode={"image": image}, batch_size=4, shuffle=fb.Shuffle(seed=2), **more)


@pytest.mark.parametrize("layout", ["NHWC", "NCHW"])
@pytest.mark.parametrize("grey", [False, True])
def test_images_are_channels_last(photos: Path, layout: Any, grey: bool) -> None:
    image = fb.Image.resize(SIZE, SIZE + 8).layout(layout)
    image = image.grayscale() if grey else image
    with loader(photos, image) as train, loader(photos, image) as again:
        for batch, form in zip(again, fb.torch.batches(train, channels_last=True), strict=True):
            pixels = batch["image"] if layout == "NCHW" else batch["image"].transpose(0, 3, 1, 2)
            assert form["image"].shape == (4, 1 if grey else 3, SIZE, SIZE + 8)
            assert form["image"].is_contiguous(memory_format=torch.channels_last)
            np.testing.assert_array_equal(form["image"].numpy(), pixels)


def test_images_with_channels_last_are_not_copied(photos: Path) -> None:
    with loader(photos, fb.Image.resize(SIZE, SIZE)) as train:
        epoch = iter(train)
        batch = next(epoch)
        form = fb.torch._Form.of(train, None, channels_last=True)
        assert form(batch)["image"].data_ptr() == batch["image"].__array_interface__["data"][0]


def test_what_a_transform_made_of_an_image_stays(photos: Path) -> None:
    def planes(batch: dict[str, Any]) -> dict[str, Any]:
        return {"image": batch["image"].transpose(0, 3, 1, 2)[:, :1], "label": batch["label"]}

    with loader(photos, fb.Image.resize(SIZE, SIZE), transform=planes) as train:
        batch = next(iter(fb.torch.batches(train, channels_last=True)))
        assert batch["image"].shape == (4, 1, SIZE, SIZE)


def test_floats_have_the_type_that_is_asked_for(photos: Path) -> None:
    image = fb.Image.resize(SIZE, SIZE).dtype("float32")
    with loader(photos, image) as train, loader(photos, image) as again:
        whole = next(iter(fb.torch.batches(again)))
        batch = next(iter(fb.torch.batches(train, dtype=torch.bfloat16, channels_last=True)))
    assert batch["image"].dtype == torch.bfloat16
    assert batch["label"].dtype == whole["label"].dtype == torch.int64
    assert torch.equal(batch["image"], whole["image"].permute(0, 3, 1, 2).to(torch.bfloat16))


@pytest.mark.parametrize("context", ["fork", "spawn", "forkserver"])
def test_a_worker_of_a_data_loader_delivers_them_too(photos: Path, context: str) -> None:
    with loader(photos, fb.Image.resize(SIZE, SIZE).dtype("float32")) as train:
        data = fb.torch.dataset(train, dtype=torch.float16, channels_last=True)
        workers = torch.utils.data.DataLoader(data, batch_size=None, num_workers=1, multiprocessing_context=context)
        batches = list(workers)
        with loader(photos, fb.Image.resize(SIZE, SIZE).dtype("float32")) as again:
            expected = list(fb.torch.batches(again, dtype=torch.float16, channels_last=True))
    for batch, want in zip(batches, expected, strict=True):
        assert batch["image"].shape == (4, 3, SIZE, SIZE)
        assert torch.equal(batch["image"], want["image"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dtype": torch.int32}, "dtype must be a floating-point type of torch, got torch.int32"),
        ({"dtype": "float16"}, "dtype must be a floating-point type of torch, got 'float16'"),
        ({"channels_last": 1}, "channels_last must be True or False, got 1"),
        ({"ahead": -1}, "ahead must be"),
    ],
)
def test_what_is_no_form_is_refused(photos: Path, options: dict[str, Any], message: str) -> None:
    with loader(photos, fb.Image.resize(SIZE, SIZE)) as train, pytest.raises(fb.InvalidError, match=message):
        fb.torch.batches(train, **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_workers": 4}, "has no option num_workers.*threads of its own.*threads="),
        ({"batch_size": 32}, "has no option batch_size.*pass batch_size= to forebay.Loader"),
        ({"shuffle": True, "pin_memory": True}, r"has no option shuffle.*shuffle=forebay.Shuffle\(seed=...\)"),
        ({"collate_fn": list}, "has no option collate_fn.*collate="),
        ({"pin_memory": True}, "has no option pin_memory.*device="),
        ({"chanels_last": True}, "unexpected keyword argument 'chanels_last'"),
    ],
)
def test_options_of_a_data_loader_are_answered(photos: Path, options: dict[str, Any], message: str) -> None:
    with loader(photos, fb.Image.resize(SIZE, SIZE)) as train, pytest.raises(TypeError, match=message):
        fb.torch.batches(train, **options)
