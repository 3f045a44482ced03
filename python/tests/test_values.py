"""The small values compare, hash and pickle, print as they are written, and refuse arguments that can never
work."""

from __future__ import annotations

import copy
import dataclasses
import json
import logging
import pickle
from typing import Any, get_args

import numpy as np
import pytest

import forebay as fb
from forebay import _forebay, types
from forebay.filters.terms import to_json
from forebay.options.sizes import parse_bytes

IMAGES = {
    "forebay.Image.resize(8, 9)": fb.Image.resize(8, 9),
    "forebay.Image.random_resized_crop(224).flip(0.5)": fb.Image.random_resized_crop(224).flip(),
    "forebay.Image.random_resized_crop((2, 3), scale=(0.5, 1.0), ratio=(1.0, 2.0))": fb.Image.random_resized_crop(
        (2, 3), scale=(0.5, 1), ratio=(1, 2)
    ),
    'forebay.Image.center_crop(224, resize=240).dtype("float16").layout("NCHW")': fb.Image.center_crop(224, resize=240)
    .dtype("float16")
    .layout("NCHW"),
    "forebay.Image.fit((4, 5), resize=3, fill=(0.5, 0.25, 114.0))": fb.Image.fit(
        (4, 5), resize=3, fill=(0.5, 0.25, 114)
    ),
    'forebay.Image.resize(4, 4).random_rotation((-15.0, 15.0), "bilinear", (1, 2, 3))': fb.Image.resize(
        4, 4
    ).random_rotation(15, "bilinear", (1, 2, 3)),
    "forebay.Image.resize(4, 4).grayscale().exif_orientation()": fb.Image.resize(4, 4)
    .grayscale()
    .exif_orientation(True),
    'forebay.Image.resize(4, 4).normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)).dtype("float32")': fb.Image.resize(4, 4)
    .dtype("float32")
    .normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25)),
    'forebay.Image.resize(4, 4).normalize((0.485, 0.45, 0.4), (0.229, 0.2, 0.2)).dtype("float32")': fb.Image.resize(
        4, 4
    )
    .normalize((0.485, 0.45, 0.4), (0.229, 0.2, 0.2))
    .dtype("float32"),
    "forebay.Image.resize(4, 4).flip(0.5).vertical_flip(0.25).emit_geometry()": fb.Image.resize(4, 4)
    .emit_geometry()
    .vertical_flip(0.25)
    .flip(),
    'forebay.Image.resize(8, 9).of("image")': fb.Image.resize(8, 9).of("image"),
    "forebay.Image.resize(64, 64).color_jitter(0.4, 0.3, 0.0, 0.1, p=0.8).random_grayscale(0.2)"
    ".gaussian_blur(23, (0.1, 2.0), p=0.5).random_erasing(0.25, (0.02, 0.33), (0.3, 3.3), (0.0, 0.0, 0.0))": (
        fb.Image.resize(64, 64)
        .color_jitter(0.4, 0.3, hue=0.1, p=0.8)
        .random_grayscale(0.2)
        .gaussian_blur(23, p=0.5)
        .random_erasing(0.25)
    ),
    'forebay.Image.resize(8, 9).rand_augment(2, 9, 31, interpolation="bilinear", fill=(7, 7, 7)).random_invert(0.25)'
    ".random_posterize(4, 0.5).random_solarize(128.0, 0.5).random_adjust_sharpness(2.0, 0.5).random_equalize(0.1)": (
        fb.Image.resize(8, 9)
        .rand_augment(interpolation="bilinear", fill=7)
        .random_invert(0.25)
        .random_posterize(4)
        .random_solarize(128)
        .random_adjust_sharpness(2)
        .random_equalize(0.1)
    ),
    'forebay.Image.resize(8, 9).auto_augment("svhn", interpolation="nearest", fill=(0, 0, 0))': (
        fb.Image.resize(8, 9).auto_augment("svhn")
    ),
    'forebay.Image.resize(8, 9).trivial_augment_wide(7, interpolation="nearest", fill=(1, 2, 3))': (
        fb.Image.resize(8, 9).trivial_augment_wide(7, fill=(1, 2, 3))
    ),
}
VALUES = [
    *IMAGES.values(),
    fb.Shuffle(seed=17),
    fb.Shuffle(seed=17, window_rows=100, lanes=2),
    fb.Shuffle.exact(17),
    fb.Shuffle.exact(17, lanes=2),
    fb.Shuffle.stored(),
    fb.Shuffle.stored(lanes=4),
    fb.Shard(rank=3, world=8),
    fb.Skip(at_most=3),
    fb.Boxes(of="image"),
    fb.Boxes(of="image", format="xywh", normalized=True, min_visible=0.25, along=["labels", "is_crowd"]),
    fb.Boxes(of="image", center_visible=True, along=["labels"]),
    fb.Boxes(of="image", min_size=2, along=["labels"]),
    fb.Keypoints(of="image"),
    fb.Keypoints(of="image", numbers=3),
    fb.Mask(of="image"),
    fb.Mask(of="image", dtype="uint16"),
    fb.DiskCache("/nvme/forebay", max_bytes="200GB"),
    fb.DiskCache("/nvme/for'ebay", max_bytes="200g", tier="pixels"),
]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_values_compare_hash_pickle_and_print(value: object) -> None:
    for other in (pickle.loads(pickle.dumps(value)), copy.deepcopy(value), eval(repr(value), {"forebay": fb})):
        assert other == value
        assert hash(other) == hash(value)
        assert repr(other) == repr(value)
    assert all(value != other for other in VALUES if other is not value)


@pytest.mark.parametrize(
    ("value", "changes", "same"),
    [
        (fb.Shuffle.exact(1), {"seed": 2}, fb.Shuffle.exact(2)),
        (fb.Shuffle.exact(1, lanes=2), {"lanes": 4}, fb.Shuffle.exact(1, lanes=4)),
        (fb.Shuffle.stored(), {"lanes": 4}, fb.Shuffle.stored(lanes=4)),
        (fb.Shuffle(seed=1, window_rows=5), {"seed": 2}, fb.Shuffle(seed=2, window_rows=5)),
        (fb.Shard(rank=1, world=4), {"rank": 2}, fb.Shard(rank=2, world=4)),
        (fb.Skip(at_most=3), {"at_most": 4}, fb.Skip(at_most=4)),
        (
            fb.DiskCache("a", max_bytes="1GB", tier="pixels"),
            {"max_bytes": "2GB"},
            fb.DiskCache("a", max_bytes=2 * 10**9, tier="pixels"),
        ),
    ],
    ids=repr,
)
def test_a_value_with_something_replaced_keeps_the_rest(value: Any, changes: dict[str, Any], same: object) -> None:
    assert dataclasses.replace(value) == value
    changed = dataclasses.replace(value, **changes)
    assert (changed, repr(changed), hash(changed)) == (same, repr(same), hash(same))
    if hasattr(copy, "replace"):  # from Python 3.13
        assert copy.replace(value, **changes) == same


@pytest.mark.parametrize("code", IMAGES)
def test_an_image_prints_as_it_is_written(code: str) -> None:
    assert repr(IMAGES[code]) == code


def test_values_are_frozen() -> None:
    with pytest.raises(AttributeError):
        fb.Shuffle(seed=1).seed = 2  # type: ignore[misc]
    with pytest.raises(AttributeError):
        fb.Image.resize(1, 1).flips = 2  # type: ignore[attr-defined]
    with pytest.raises(TypeError):
        fb.Shard(0, 1)  # type: ignore[misc]


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: fb.Shard(rank=8, world=8), "ranks run from 0 to 7"),
        (lambda: fb.Shard(rank=0, world=0), "world must be at least 1"),
        (lambda: fb.Shuffle(seed=-1), "seed"),
        (lambda: fb.Shuffle(seed=1 << 64), "64 bits"),
        (lambda: fb.Shuffle(seed=0.5), "seed must be an int, got 0.5"),  # type: ignore[arg-type]
        (lambda: fb.Shuffle(seed=1, window_rows=0), "window_rows"),
        (lambda: dataclasses.replace(fb.Shuffle.exact(1), window_rows=5), "has no window"),
        (lambda: dataclasses.replace(fb.Shuffle.stored(), seed=5), "has no seed"),
        (lambda: fb.Shuffle(seed=1, mixing="none"), "mixing must be 'window', 'exact' or 'stored'"),  # type: ignore[arg-type]
        (lambda: fb.Shuffle(seed=1, lanes=1 << 32), "32 bits"),
        (lambda: fb.Shard(rank=0, world=1 << 32), "32 bits"),
        (lambda: fb.DiskCache(b"x", max_bytes=1), "path must be a str or a path, got bytes"),  # type: ignore[arg-type]
        (lambda: fb.Skip(at_most=-1), "at_most"),
        (lambda: fb.Image.resize(1, 1).dtype("int7"), "int7"),
        (lambda: fb.Image.resize(1, 1).layout("HCWN"), "HCWN"),
        (
            lambda: fb.DiskCache("x", max_bytes="200 parsecs"),
            "max_bytes must be a size, got '200 parsecs' .*'12GB' or '12g'.*'4GiB'",
        ),
        (lambda: parse_bytes(0, "memory"), "memory must be at least 1 byte"),
        (lambda: parse_bytes("", "memory"), "memory must be a size, got ''"),
        (lambda: to_json([("a", "~", 1)]), "must be one of =, .*, got '~'"),
        (lambda: to_json([("a", "<", 10**5000)]), r"from -2\*\*63 to 2\*\*64 - 1, got an int of 16610 bits"),
        (lambda: fb.Shuffle(seed=10**5000), "seed must fit 64 bits, got an int of 16610 bits"),
        (lambda: fb.Skip(at_most=-(10**5000)), "at_most must be at least 0, got an int of 16610 bits"),
        (lambda: parse_bytes(10**5000, "memory"), "fit 64 bits, got an int of 16610 bits"),
        (lambda: to_json([]), "pass None"),
        (lambda: to_json("a > 1"), "filter must be a list, got 'a > 1'"),
        (lambda: to_json([("a", "in", "bc")]), "needs a list of values"),
        (lambda: to_json([("a", "<", float("nan"))]), "nan"),
        (lambda: to_json([("a", "<", None)]), "None"),
    ],
)
def test_what_can_never_work_is_refused(make: object, says: str) -> None:
    with pytest.raises(fb.InvalidError, match=says):
        make()  # type: ignore[operator]


WRONG: Any = fb  # called with what its types do not allow
CROP, RESIZE = WRONG.Image.random_resized_crop, WRONG.Image.resize
SIDES = "an int from 1 to 65535"
EXTENTS = "size must be an int from 1 to 65535, or a height and a width of them, got"
RANGES = "must be two finite numbers above 0, the smaller one first, got"
NAN, INF = float("nan"), float("inf")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: RESIZE(-1, 3), f"height must be {SIDES}, got -1"),
        (lambda: RESIZE(3, 0), f"width must be {SIDES}, got 0"),
        (lambda: RESIZE(3, 1 << 16), f"width must be {SIDES}, got 65536"),
        (lambda: RESIZE(3, 1 << 70), f"width must be {SIDES}, got {1 << 70}"),
        (lambda: RESIZE("3", 3), f"height must be {SIDES}, got '3'"),
        (lambda: RESIZE(3.0, 3), f"height must be {SIDES}, got 3.0"),
        (lambda: RESIZE(True, 3), f"height must be {SIDES}, got True"),
        (lambda: RESIZE(None, 3), f"height must be {SIDES}, got None"),
        (lambda: RESIZE("9" * 500, 3), f"height must be {SIDES}, got '{'9' * 99}..."),
        (lambda: CROP((3, 3, 3)), f"{EXTENTS} (3, 3, 3)"),
        (lambda: CROP((3, 0)), f"{EXTENTS} (3, 0)"),
        (lambda: CROP(0), f"{EXTENTS} 0"),
        (lambda: CROP("224"), f"{EXTENTS} '224'"),
        (lambda: CROP("22"), f"{EXTENTS} '22'"),
        (lambda: CROP({3, 4}), f"{EXTENTS} {{3, 4}}"),
        (lambda: CROP(3, scale=1), f"scale {RANGES} 1"),
        (lambda: CROP(3, scale=(1, 0.5)), f"scale {RANGES} (1, 0.5)"),
        (lambda: CROP(3, scale=(0, 1)), f"scale {RANGES} (0, 1)"),
        (lambda: CROP(3, scale=("0.1", 1)), f"scale {RANGES} ('0.1', 1)"),
        (lambda: CROP(3, scale=(NAN, 1)), f"scale {RANGES} (nan, 1)"),
        (lambda: CROP(3, ratio=(1, INF)), f"ratio {RANGES} (1, inf)"),
        (lambda: CROP(3, ratio=(1, 2, 3)), f"ratio {RANGES} (1, 2, 3)"),
        (lambda: WRONG.Image.center_crop(-3), f"{EXTENTS} -3"),
        (lambda: WRONG.Image.center_crop(3, resize=0), f"resize must be {SIDES}, got 0"),
        (lambda: WRONG.Image.center_crop(300), "a centre crop of 300x300 from a shorter side of 256"),
        (lambda: RESIZE(3, 3).flip(1.5), "p must be a number from 0 to 1, got 1.5"),
        (lambda: RESIZE(3, 3).flip(NAN), "p must be a number from 0 to 1, got nan"),
        (lambda: RESIZE(3, 3).flip("0.5"), "p must be a number from 0 to 1, got '0.5'"),
        (lambda: RESIZE(3, 3).flip(True), "p must be a number from 0 to 1, got True"),
        (lambda: RESIZE(3, 3).flip(None), "p must be a number from 0 to 1, got None"),
        (lambda: RESIZE(3, 3).normalize(0, 1), "mean must be three finite numbers, got 0"),
        (lambda: RESIZE(3, 3).normalize((0, 0, 0), 1), "std must be three finite numbers above 0, got 1"),
        (lambda: RESIZE(3, 3).normalize((0, 0, NAN), (1, 1, 1)), "mean must be three finite numbers, got (0, 0, nan)"),
        (lambda: RESIZE(3, 3).normalize((0, 0, 1e99), (1, 1, 1)), "mean must be three finite numbers, got"),
        (
            lambda: RESIZE(3, 3).normalize((0, 0, 0), (1, 1, 0)),
            "std must be three finite numbers above 0, got (1, 1, 0)",
        ),
        (lambda: RESIZE(3, 3).normalize((0, 0, 0), (1, 1, 1e-99)), "std must be three finite numbers above 0, got"),
        (lambda: RESIZE(3, 3).normalize("123", (1, 1, 1)), "mean must be three finite numbers, got '123'"),
        (
            lambda: RESIZE(3, 3).dtype(np.float64),
            "dtype must be 'uint8', 'uint16', 'float16', 'bfloat16' or 'float32', got <class",
        ),
        (lambda: RESIZE(3, 3).dtype(None), "dtype must be 'uint8', 'uint16', 'float16', 'bfloat16' or 'float32', got None"),
        (lambda: RESIZE(3, 3).dtype(32), "dtype must be 'uint8', 'uint16', 'float16', 'bfloat16' or 'float32', got 32"),
        (lambda: RESIZE(3, 3).dtype("flaot32"), 'unknown dtype "flaot32" (did you mean "float32"?)'),
        (lambda: RESIZE(3, 3).layout(3), "layout must be 'NHWC' or 'NCHW', got 3"),
        (lambda: RESIZE(3, 3).exif_orientation("no"), "apply must be True or False, got 'no'"),
        (lambda: RESIZE(3, 3).max_pixels(0), "pixels must be an int of at least 1 that fits 64 bits, got 0"),
        (lambda: RESIZE(3, 3).max_pixels(1e6), "pixels must be an int of at least 1 that fits 64 bits, got 1000000.0"),
        (lambda: WRONG.Shuffle(seed="17"), "seed must be an int, got '17'"),
        (lambda: WRONG.Shuffle(seed=1, window_rows=1e6), "window_rows must be an int, got 1000000.0"),
        (lambda: WRONG.Shuffle(seed=1, lanes="8"), "lanes must be an int, got '8'"),
        (
            lambda: WRONG.Shuffle(seed=1, mixing=["window"]),
            "mixing must be 'window', 'exact' or 'stored', got ['window']",
        ),
        (lambda: WRONG.Shard(rank="0", world=2), "rank must be an int, got '0'"),
        (lambda: WRONG.Shard(rank=0, world=None), "world must be an int, got None"),
        (lambda: WRONG.Shard.from_env({"RANK": [1], "WORLD_SIZE": "2"}), "RANK=[1] and WORLD_SIZE='2' are not a rank"),
        (lambda: WRONG.Skip(at_most="3"), "at_most must be an int, got '3'"),
        (lambda: WRONG.DiskCache("x", max_bytes=1e9), "max_bytes must be a size, got 1000000000.0"),
        (
            lambda: WRONG.DiskCache("x", max_bytes=1, tier=["rows"]),
            "tier must be 'auto', 'rows', 'coefficients', 'resized' or 'pixels', got",
        ),
    ],
)
def test_an_argument_is_refused_by_its_name_with_what_is_allowed_and_what_was_given(make: Any, says: str) -> None:
    with pytest.raises(fb.InvalidError) as caught:
        make()
    assert str(caught.value).startswith(says)
    assert str(caught.value) == caught.value.message


def test_an_image_takes_what_frameworks_and_numpy_write() -> None:
    assert CROP([3, 4]) == CROP(np.array([3, 4])) == CROP((np.int64(3), 4)) == CROP((3, 4))
    assert CROP(3, scale=[0.5, 1]) == CROP(3, scale=np.array([0.5, 1.0])) == CROP(3, scale=(0.5, 1.0))
    mean, std = np.array([0.5, 0.5, 0.5]), [0.25, 0.25, np.float32(0.25)]
    assert RESIZE(3, 3).normalize(mean, std) == RESIZE(3, 3).normalize((0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    for dtype in (np.float32, np.dtype("float32"), np.dtype(">f4")):
        assert RESIZE(3, 3).dtype(dtype) == RESIZE(3, 3).dtype("float32")
    assert RESIZE(3, 3).dtype(np.uint8) == RESIZE(3, 3)
    assert RESIZE(3, 3).flip(np.float32(0.5)) == RESIZE(3, 3).flip()


def test_names_of_options_are_those_of_the_library() -> None:
    for literal, names in (
        (types.Across, _forebay.ACROSS),
        (types.BoxFormat, _forebay.BOX_FORMATS),
        (types.CacheTier, _forebay.CACHE_TIERS),
        (types.FilterOperator, _forebay.FILTER_OPERATORS),
        (types.Interpolation, _forebay.INTERPOLATIONS),
        (types.KeptEnd, _forebay.KEPT_ENDS),
        (types.PadSide, _forebay.PAD_SIDES),
        (types.Resampling, _forebay.RESAMPLINGS),
        (types.MaskType, _forebay.MASK_TYPES),
        (types.Mixing, _forebay.MIXINGS),
        (types.PixelLayout, _forebay.PIXEL_LAYOUTS),
        (types.PixelType, _forebay.PIXEL_TYPES),
        (types.TensorFormat, _forebay.TENSOR_FORMATS),
        (types.TensorType, _forebay.TENSOR_TYPES),
    ):
        assert get_args(literal) == names


def test_sizes_are_read_as_people_write_them() -> None:
    assert parse_bytes("12GB", "memory") == 12 * 10**9
    assert parse_bytes("4GiB", "memory") == parse_bytes("4Gi", "memory") == parse_bytes("4 gi", "memory") == 4 << 30
    assert parse_bytes("4096", "memory") == parse_bytes(4096, "memory") == parse_bytes("4Ki", "memory") == 4096
    assert parse_bytes(" 1.5 kb ", "memory") == 1500
    assert parse_bytes("4g", "memory") == parse_bytes("4 GB", "memory") == 4 * 10**9
    assert fb.DiskCache("x", max_bytes="200g").max_bytes == 200 * 10**9
    assert parse_bytes("7", "memory") == parse_bytes(7, "memory") == parse_bytes("7B", "memory")


def tf_config(job: Any, index: Any, **counts: int) -> str:
    """Returns the environment variable of a TensorFlow cluster, as its launchers write it."""
    cluster = {name: [f"host:{port}" for port in range(count)] for name, count in counts.items()}
    return json.dumps({"cluster": cluster, "task": {"type": job, "index": index}})


@pytest.mark.parametrize(
    ("environ", "shard"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8)),
        ({"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2"}, (1, 2)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (1, 2)),
        ({"JAX_PROCESS_ID": "1", "JAX_NUM_PROCESSES": "2"}, (1, 2)),
        ({"TF_CONFIG": tf_config("worker", 1, worker=3)}, (1, 3)),
        # The chief comes before the workers.
        ({"TF_CONFIG": tf_config("chief", 0, chief=1, worker=3)}, (0, 4)),
        ({"TF_CONFIG": tf_config("worker", 1, chief=1, worker=3, evaluator=1)}, (2, 4)),
        ({"TF_CONFIG": tf_config("worker", "2", master=1, worker=3)}, (3, 4)),
        # A TF_CONFIG without a cluster sets no rank, so the other variables are used.
        ({"RANK": "1", "WORLD_SIZE": "2", "TF_CONFIG": "{}"}, (1, 2)),
        ({"TPU_WORKER_ID": "1", "TPU_WORKER_HOSTNAMES": "a,b"}, (1, 2)),
        (
            {
                "TPU_WORKER_ID": "1",
                "TPU_WORKER_HOSTNAMES": "a,b",
                "MEGASCALE_SLICE_ID": "2",
                "MEGASCALE_NUM_SLICES": "3",
            },
            (5, 6),
        ),
        # PMIx sets a rank but no world size, so the variables of the launcher are used.
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2", "PMIX_RANK": "1"}, (1, 2)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2", "PMIX_RANK": "1"}, (1, 2)),
        ({"RANK": "5", "WORLD_SIZE": "8", "SLURM_PROCID": "1", "SLURM_NTASKS": "2", "PMIX_RANK": "1"}, (5, 8)),
        # A SLURM step with two tasks runs in a job with eight tasks.
        (
            {
                "SLURM_PROCID": "1",
                "SLURM_NTASKS": "8",
                "SLURM_STEP_NUM_TASKS": "2",
                "SLURM_JOB_ID": "7",
                "SLURM_STEP_ID": "0",
            },
            (1, 2),
        ),
        # torchrun runs in the script of a SLURM job with eight tasks, without srun, so SLURM_PROCID is 0.
        (
            {
                "RANK": "3",
                "WORLD_SIZE": "8",
                "SLURM_PROCID": "0",
                "SLURM_NTASKS": "8",
                "SLURM_JOB_ID": "7",
            },
            (3, 8),
        ),
        # torchrun sets the rank on each of two nodes. TF_CONFIG describes the nodes and may list a parameter server.
        ({"RANK": "3", "WORLD_SIZE": "4", "TF_CONFIG": tf_config("worker", 1, worker=2)}, (3, 4)),
        ({"RANK": "3", "WORLD_SIZE": "4", "TF_CONFIG": tf_config("worker", 1, worker=2, ps=1)}, (3, 4)),
        # torchrun runs inside a SLURM job: two tasks, four processes each.
        ({"RANK": "5", "WORLD_SIZE": "8", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (5, 8)),
        # Horovod sets its own variables, and the MPI that it runs on sets others.
        (
            {
                "HOROVOD_RANK": "1",
                "HOROVOD_SIZE": "2",
                "OMPI_COMM_WORLD_RANK": "1",
                "OMPI_COMM_WORLD_SIZE": "2",
            },
            (1, 2),
        ),
    ],
)
def test_a_launcher_says_which_shard(
    environ: dict[str, str], shard: tuple[int, int], caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, logger="forebay"):
        assert fb.Shard.from_env(environ) == fb.Shard(rank=shard[0], world=shard[1])
    name, value = next(iter(environ.items()))
    assert f"{name}={'' if name == 'TF_CONFIG' else value}" in caplog.text


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, "torchrun, horovodrun, mpirun or srun"),
        ({"RANK": "1"}, "only RANK is set"),
        ({"RANK": "a", "WORLD_SIZE": "2"}, "RANK='a'"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "rank must be less than world"),
        ({"RANK": "0", "WORLD_SIZE": "8", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, "SLURM says"),
        ({"RANK": "0", "WORLD_SIZE": "2", "PMI_RANK": "0", "PMI_SIZE": "3"}, "PMI says"),
        (
            {"RANK": "0", "WORLD_SIZE": "2", "TF_CONFIG": tf_config("worker", 1, worker=2)},
            "torchrun says RANK=0 WORLD_SIZE=2, but TensorFlow says TF_CONFIG=worker:1 of 2",
        ),
        ({"JAX_PROCESS_ID": "0", "JAX_NUM_PROCESSES": "2", "PMI_RANK": "1", "PMI_SIZE": "2"}, "JAX says .* but PMI says"),
        ({"PMIX_RANK": "1"}, "PMIX_RANK=1, but no variable says how many"),
        ({"PMIX_RANK": "1", "PMI_RANK": "0", "PMI_SIZE": "2"}, "PMI says .* but PMIx says PMIX_RANK=1"),
        ({"SLURM_PROCID": "0", "SLURM_NTASKS": "8", "SLURM_JOB_ID": "7"}, "SLURM_NTASKS=8, .* with srun"),
        ({"TF_CONFIG": "{"}, "TF_CONFIG must be a text such as .*correct it"),
        ({"TF_CONFIG": "[]"}, "TF_CONFIG must be a text such as"),
        ({"TF_CONFIG": tf_config("worker", 3, worker=3)}, "task 3 of 'worker', but its cluster has 3 of worker"),
        ({"TF_CONFIG": tf_config(None, None, worker=3)}, "task None of None, but its cluster has 3 of worker"),
        ({"TF_CONFIG": tf_config("evaluator", 0, worker=3)}, "the evaluator, .*Shard[(]rank=0, world=1[)]"),
        ({"TF_CONFIG": tf_config("worker", 0, worker=3, ps=1)}, "has parameter servers, and this process is its worker"),
        ({"TPU_WORKER_ID": "2", "TPU_WORKER_HOSTNAMES": "a,b"}, "TPU_WORKER_ID=2, but TPU_WORKER_HOSTNAMES has 2"),
    ],
)
def test_a_launcher_that_makes_no_sense_is_refused(environ: dict[str, str], says: str) -> None:
    with pytest.raises(fb.InvalidError, match=says):
        fb.Shard.from_env(environ)
