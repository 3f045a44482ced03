"""Rows drawn by weight, in Python."""

from __future__ import annotations

import itertools
import json
import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import forebay as fb

ROWS = 400
KINDS = np.array(["rare", "some", "many"])[np.searchsorted([20, 100], np.arange(ROWS), side="right")]


@pytest.fixture(scope="module")
def animals(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of 20 rows of class 0, 80 of class 1 and 300 of class 2, shuffled into two files with row
    groups of 30."""
    root = tmp_path_factory.mktemp("animals")
    order = np.random.default_rng(3).permutation(ROWS)
    table = pa.table(
        {
            "id": order,
            "label": np.searchsorted([20, 100], order, side="right").astype(np.int32),
            "kind": KINDS[order].tolist(),
            "weight": (order % 5).astype(np.float64),
            "holes": pa.array([None if one == 7 else 1.0 for one in order.tolist()]),
            "minus": np.where(order == 9, -1.0, 1.0),
        }
    )
    pq.write_table(table.slice(0, 250), root / "a.parquet", row_group_size=30)
    pq.write_table(table.slice(250), root / "b.parquet", row_group_size=30)
    return root


def drawn(loader: Any, name: str = "id") -> Counter[Any]:
    """Counts how often each value occurs in the next epoch."""
    return Counter(value for batch in loader for value in batch[name].tolist())


def made(root: Path, sample: fb.Sample, **options: Any) -> fb.Loader:
    options = {"columns": ["id", "label"], "batch_size": 10, "shuffle": fb.Shuffle(seed=17), **options}
    return fb.Loader(root, samples=sample, **options)


def test_classes_come_alike(animals: Path) -> None:
    loader = made(animals, fb.Sample(by="label"), drop_last=True)
    assert len(loader) == 40
    for _ in range(3):
        counts = drawn(loader, "label")
        assert sum(counts.values()) == ROWS and set(counts.values()) <= {133, 134}
    # Each row of the rarest class is delivered six or seven times.
    loader = made(animals, fb.Sample(by="kind"))
    assert {times for row, times in drawn(loader).items() if row < 20} == {6, 7}


def test_without_replacement_classes_have_the_rows_of_the_rarest(animals: Path) -> None:
    loader = made(animals, fb.Sample(by="label", replacement=False))
    epochs = [drawn(loader) for _ in range(3)]
    for rows in epochs:
        assert len(rows) == 60 and set(rows.values()) == {1}
        assert sum(row < 20 for row in rows) == 20
    assert epochs[0].keys() != epochs[1].keys(), "other rows of the other classes in each epoch"


def test_weights_of_classes_are_those_of_their_rows(animals: Path) -> None:
    loader = made(animals, fb.Sample({"rare": 4, "some": 1}, by="kind", others=0, rows=320))
    counts = drawn(loader, "label")
    assert counts == {0: 160, 1: 160}
    loader = made(animals, fb.Sample({0: 1, 1: 0, 2: 0}, by="label", rows=1000), batch_size=64)
    assert set(drawn(loader).values()) == {50}


def test_a_column_holds_weights(animals: Path) -> None:
    loader = made(animals, fb.Sample("weight", rows=800))
    for row, times in drawn(loader).items():
        assert times == row % 5
    alone = made(animals, fb.Sample("weight", replacement=False, rows=320))
    assert set(drawn(alone).values()) == {1}, "all rows with a weight"


def test_rows_are_drawn_of_those_that_are_selected(animals: Path) -> None:
    loader = made(animals, fb.Sample(by="label"), filter=fb.col("id") < 100, batch_size=25)
    assert drawn(loader, "label") == {0: 50, 1: 50}
    denied = made(animals, fb.Sample(by="label"), deny={"id": list(range(20))})
    assert drawn(denied, "label") == {1: 190, 2: 190}


def test_repeats_of_a_row_are_apart(animals: Path) -> None:
    loader = made(animals, fb.Sample(by="label"), shuffle=fb.Shuffle.exact(3))
    repeated = sum(10 - len(set(batch["id"].tolist())) for batch in loader)
    # A third of the delivered rows come from 20 rows and the others from 380, so about a tenth of them are
    # repeats within a batch of ten.
    assert repeated < 60
    # In stored order, the 30 rows of a row group include few of the rarest class, and each of these is
    # delivered six or seven times.
    stored = made(animals, fb.Sample(by="label"), shuffle=None)
    order = [row for batch in stored for row in batch["id"].tolist()]
    assert sum(one == after for one, after in itertools.pairwise(order)) < 8


@pytest.mark.parametrize("samples", [fb.Sample(by="kind"), fb.Sample("weight", rows=300, replacement=False)], ids=repr)
def test_a_state_resumes_on_other_ranks(animals: Path, samples: fb.Sample) -> None:
    def loader(rank: int, world: int, threads: int) -> fb.Loader:
        return made(
            animals, samples, batch_size=None, global_batch_size=12, shard=fb.Shard(rank=rank, world=world), threads=threads,
            shuffle=fb.Shuffle(seed=5, window_rows=90, lanes=2), row_id=True,
        )

    whole = loader(0, 1, 2)
    drawn(whole)
    states, steps = [], []
    for batch in whole:
        states.append(json.dumps(whole.state_dict()))
        steps.append(batch["id"].tolist())
        places = whole.which(len(steps) - 1, epoch=1)
        assert [place.row_id for place in places] == [fb.RowId(one) for one in batch["row_id"].tolist()]
    for at in (1, 13):
        ranks = [loader(rank, 3, 1) for rank in range(3)]
        for rank in ranks:
            rank.load_state_dict(json.loads(states[at - 1]))
        tails = [[batch["id"].tolist() for batch in rank] for rank in ranks]
        together = [sorted(sum(rows, [])) for rows in zip(*tails)]
        assert together == [sorted(step) for step in steps[at:]]


def test_a_state_is_of_one_sample(animals: Path) -> None:
    state = made(animals, fb.Sample(by="label")).state_dict()
    made(animals, fb.Sample(by="label")).load_state_dict(state)
    for other in (fb.Sample(by="kind"), fb.Sample(by="label", seed=3), fb.Sample({0: 1}, by="label", others=1)):
        with pytest.raises(fb.StateMismatchError, match="samples"):
            made(animals, other).load_state_dict(state)


def test_the_column_is_read_once(animals: Path, tmp_path: Path) -> None:
    big = pa.table({"x": np.random.default_rng(0).integers(0, 1 << 60, 1 << 20), "c": np.arange(1 << 20) % 3})
    pq.write_table(big, tmp_path / "big.parquet", row_group_size=1 << 17)
    cache = tmp_path / "kept"
    options: dict[str, Any] = {"storage_options": {"metadata_cache": str(cache)}, "columns": ["c"], "shuffle": None}
    first = fb.Loader(tmp_path / "big.parquet", samples=fb.Sample("x", rows=5000), **options)
    kept = list(cache.rglob("*.rows"))
    assert len(kept) == 1
    again = fb.Loader(tmp_path / "big.parquet", samples=fb.Sample("x", rows=5000), **options)
    assert drawn(first, "c") == drawn(again, "c")
    fb.Loader(tmp_path / "big.parquet", samples=fb.Sample("x", rows=70, replacement=False), **options)
    assert list(cache.rglob("*.rows")) == kept, "whatever is made of the weights"


def test_a_row_that_comes_again_is_drawn_anew(animals: Path) -> None:
    def noise(row: dict[str, Any]) -> dict[str, Any]:
        return {"id": row["id"], "noise": fb.rng(row).random()}

    loader = made(animals, fb.Sample({"rare": 1}, by="kind", others=0, rows=60), transform_rows=noise, threads=1)
    seen = [(row, noise) for batch in loader for row, noise in zip(batch["id"].tolist(), batch["noise"].tolist())]
    assert len(seen) == 60 and len({row for row, _ in seen}) == 20
    assert len({noise for _, noise in seen}) == 60


def test_a_row_that_comes_again_has_another_crop(tmp_path: Path) -> None:
    from io import BytesIO

    from PIL import Image

    pixels = np.random.default_rng(1).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    png = BytesIO()
    Image.fromarray(pixels).save(png, "png")
    pq.write_table(pa.table({"image": [png.getvalue()] * 3, "id": [0, 1, 2]}), tmp_path / "t.parquet")
    loader = fb.Loader(
        tmp_path / "t.parquet", samples=fb.Sample(by="id", rows=12), batch_size=12,
        decode={"image": fb.Image.random_resized_crop(16)},
    )
    for _ in range(2):
        images = next(iter(loader))["image"]
        assert len({image.tobytes() for image in images}) == 12


@pytest.mark.parametrize(
    ("build", "said"),
    [
        (lambda: fb.Sample(), "pass by=..."),
        (lambda: fb.Sample("balanced"), "pass by=..."),
        (lambda: fb.Sample({0: 1.0}), "without their column"),
        (lambda: fb.Sample("weight", by="label"), '"balanced" or a mapping'),
        (lambda: fb.Sample(by=3), "by must be the name"),
        (lambda: fb.Sample({0: -1}, by="x"), "finite number of at least 0"),
        (lambda: fb.Sample({0: float("nan")}, by="x"), "finite number of at least 0"),
        (lambda: fb.Sample({0: "a"}, by="x"), "must be a number"),
        (lambda: fb.Sample({1.5: 1}, by="x"), "a class must be"),
        (lambda: fb.Sample(by="x", others=1), "others is the weight"),
        (lambda: fb.Sample(by="x", rows=0), "rows must be at least 1"),
        (lambda: fb.Sample(by="x", replacement=2), "True or False"),
    ],
)
def test_what_can_never_work_is_refused(build: Any, said: str) -> None:
    with pytest.raises(fb.InvalidError, match=said.replace("...", r"\.\.\.")):
        build()


@pytest.mark.parametrize(
    ("sample", "said"),
    [
        (fb.Sample({0: 1}, by="label"), r"row \d+, column \"label\".*is [12], a class without a weight"),
        (fb.Sample({0: 0}, by="label", others=0), "weight 0"),
        (fb.Sample({7: 1}, by="label", others=0), "no row has a weight above 0"),
        (fb.Sample(by="weight"), "cannot name classes"),
        (fb.Sample("kind"), "cannot be weights"),
        (fb.Sample("holes"), r"column \"holes\".*is null"),
        (fb.Sample("minus"), r"column \"minus\".*is -1"),
        (fb.Sample("weight", replacement=False, rows=321), "320 have a weight above 0"),
        (fb.Sample(by="nothing"), "nothing"),
    ],
    ids=repr,
)
def test_data_that_says_no_weights_is_an_error_with_its_place(animals: Path, sample: fb.Sample, said: str) -> None:
    with pytest.raises(fb.ForebayError, match=said):
        made(animals, sample)


def test_a_class_that_no_row_has_is_a_warning(animals: Path) -> None:
    with pytest.warns(RuntimeWarning, match='no selected row has 1 of the classes that have a weight: "cat"'):
        loader = made(animals, fb.Sample({"rare": 1, "some": 1, "many": 1, "cat": 1}, by="kind"))
        next(iter(loader))


def test_a_sample_is_a_value() -> None:
    for sample in (fb.Sample(by="x"), fb.Sample({"a": 1, True: 2}, by="x", others=3, rows=9), fb.Sample("w", seed=1)):
        assert pickle.loads(pickle.dumps(sample)) == sample
        assert hash(sample) == hash(pickle.loads(pickle.dumps(sample)))
        assert eval(repr(sample), {"forebay": fb}) == sample
