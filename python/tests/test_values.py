"""The small values compare, hash, pickle, print as they are written, and refuse what can never work."""

from __future__ import annotations

import copy
import dataclasses
import logging
import pickle
from typing import Any

import pytest

import forebay as fb
from forebay.filters import to_json
from forebay.sizes import parse_bytes

IMAGES = {
    "forebay.Image.resize(8, 9)": fb.Image.resize(8, 9),
    "forebay.Image.random_resized_crop(224).flip(0.5)": fb.Image.random_resized_crop(224).flip(),
    "forebay.Image.random_resized_crop((2, 3), scale=(0.5, 1.0), ratio=(1.0, 2.0))": fb.Image.random_resized_crop(
        (2, 3), scale=(0.5, 1), ratio=(1, 2)
    ),
    'forebay.Image.center_crop(224, resize=240).dtype("float16").layout("NCHW")': fb.Image.center_crop(224, resize=240)
    .dtype("float16")
    .layout("NCHW"),
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


def test_sizes_are_read_as_people_write_them() -> None:
    assert parse_bytes("12GB", "memory") == 12 * 10**9
    assert parse_bytes("4GiB", "memory") == 4 << 30
    assert parse_bytes(" 1.5 kb ", "memory") == 1500
    assert parse_bytes("4g", "memory") == parse_bytes("4 GB", "memory") == 4 * 10**9
    assert fb.DiskCache("x", max_bytes="200g").max_bytes == 200 * 10**9
    assert parse_bytes("7", "memory") == parse_bytes(7, "memory") == parse_bytes("7B", "memory")


@pytest.mark.parametrize(
    ("environ", "shard"),
    [
        ({"RANK": "3", "WORLD_SIZE": "8"}, (3, 8)),
        ({"HOROVOD_RANK": "1", "HOROVOD_SIZE": "2"}, (1, 2)),
        ({"OMPI_COMM_WORLD_RANK": "1", "OMPI_COMM_WORLD_SIZE": "2"}, (1, 2)),
        ({"PMI_RANK": "1", "PMI_SIZE": "2"}, (1, 2)),
        ({"SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (1, 2)),
        # torchrun inside a SLURM job: two tasks, four processes each.
        ({"RANK": "5", "WORLD_SIZE": "8", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, (5, 8)),
        # Horovod sets its own and those of the MPI that it runs on.
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
    assert f"{name}={value}" in caplog.text


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        ({}, "torchrun, horovodrun, mpirun or srun"),
        ({"RANK": "1"}, "only RANK is set"),
        ({"RANK": "a", "WORLD_SIZE": "2"}, "RANK='a'"),
        ({"RANK": "2", "WORLD_SIZE": "2"}, "rank must be less than world"),
        ({"RANK": "0", "WORLD_SIZE": "8", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}, "SLURM says"),
        ({"RANK": "0", "WORLD_SIZE": "2", "PMI_RANK": "0", "PMI_SIZE": "3"}, "PMI says"),
    ],
)
def test_a_launcher_that_makes_no_sense_is_refused(environ: dict[str, str], says: str) -> None:
    with pytest.raises(fb.InvalidError, match=says):
        fb.Shard.from_env(environ)
