"""The steps of adapters: pull, convert, hand over, and the same steps through one class."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import ids, small

import forebay as fb
from forebay import adapters
from forebay.adapters import Batches, Pulled, check_loader, columns, pick


def numpy_batches(loader: fb.Loader) -> Batches[dict[str, Any]]:
    """The adapter of the documentation."""

    def convert(batch: fb.Batch) -> dict[str, Any]:
        return {name: array(value) for name, value, _ in columns(batch)}

    def array(value: Any) -> Any:
        return value.padded(fill=0) if isinstance(value, fb.Ragged) else np.array(value)

    return Batches(loader, convert)


def test_an_adapter_of_ones_own_delivers_each_batch_once_and_counts_it(plain: Path) -> None:
    with small(plain) as train, small(plain) as again:
        adapted = numpy_batches(train)
        assert len(adapted) == len(train)
        for batch, own in zip(again, adapted, strict=True):
            assert type(own) is dict
            assert list(own) == list(batch)
            assert own["id"].tolist() == batch["id"].tolist()
            assert not np.shares_memory(own["id"], batch["id"])
            assert own["words"].tolist() == batch["words"].padded().tolist()
            assert train.state_dict() == again.state_dict()
        assert [own["id"].tolist() for own in adapted] == ids(again)
        assert [own["id"].tolist() for own in adapted.epoch(0)] == ids(again.epoch(0))


def test_a_batch_counts_when_it_is_handed_over_and_not_when_it_is_pulled(plain: Path) -> None:
    with small(plain) as train:
        epoch = iter(train)
        first, second = epoch.pull(), epoch.pull()
        assert isinstance(first, Pulled)
        assert isinstance(second, Pulled)
        assert train.state_dict()["row"] == 0
        epoch.hand_over(first)
        assert train.state_dict()["row"] == 64
        # Handing a batch over counts all batches before it as well.
        third = epoch.pull()
        assert third is not None
        epoch.hand_over(third)
        assert train.state_dict()["row"] == 3 * 64
        assert len(list(epoch)) == len(train) - 3
        assert epoch.pull() is None


@pytest.mark.parametrize("transform", [None, lambda batch: batch], ids=["bare", "transform"])
def test_a_batch_counts_for_the_loader_that_it_was_pulled_from(plain: Path, transform: Any) -> None:
    with small(plain, transform=transform) as one, small(plain, batch_size=32, transform=transform) as other:
        pulled, epoch = iter(one).pull(), iter(other)
        assert pulled is not None
        with pytest.raises(ValueError) as caught:
            epoch.hand_over(pulled)
        assert repr(one) in str(caught.value) and repr(other) in str(caught.value)
        with pytest.raises(ValueError) as caught:
            Batches(one, dict).over(epoch)
        assert repr(one) in str(caught.value) and repr(other) in str(caught.value)
        assert one.state_dict()["row"] == other.state_dict()["row"] == 0
        for wrong in (None, pulled.batch):
            with pytest.raises(fb.InvalidError, match=r"pulled must be what pull\(\) returned, got"):
                epoch.hand_over(wrong)  # type: ignore[arg-type]
        with pytest.raises(fb.InvalidError, match=r"epoch must be a forebay\.Epoch, got int"):
            Batches(one, dict).over(3)  # type: ignore[arg-type]


def test_what_was_pulled_is_what_a_transform_made(plain: Path) -> None:
    with small(plain, transform=lambda batch: {"double": batch["id"] * 2}) as train, small(plain) as again:
        pulled = iter(train).pull()
        assert pulled is not None
        assert pulled.batch["double"].tolist() == (next(iter(again))["id"] * 2).tolist()
        assert [column for _, _, column in columns(pulled.batch)] == [None]


def test_the_batches_of_an_epoch_that_was_begun_go_on_where_it_is(plain: Path) -> None:
    with small(plain) as train, small(plain) as again:
        epoch = iter(train)
        next(epoch)
        rest = [batch["id"].tolist() for batch in Batches(train, dict).over(epoch)]
        assert rest == ids(again)[1:]
        with pytest.raises(fb.ClosedError):
            next(epoch)


def test_an_epoch_is_outdated_once_a_state_is_loaded(plain: Path) -> None:
    with small(plain) as train:
        epoch = iter(train)
        assert not epoch.outdated
        train.load_state_dict(train.state_dict())
        assert epoch.outdated
        with pytest.raises(fb.ClosedError, match="a state was loaded"):
            epoch.pull()
        assert not iter(train).outdated


def test_an_epoch_does_not_begin_before_its_first_batch_is_asked_for(plain: Path) -> None:
    with small(plain) as train, small(plain) as again:
        adapted = Batches(train, lambda batch: batch["id"].tolist())
        iter(adapted)
        gc.collect()
        assert next(iter(adapted)) == ids(again)[0]


def test_columns_of_a_batch_come_with_what_speaks_dlpack(plain: Path) -> None:
    with small(plain) as train:
        for name, value, column in columns(next(iter(train))):
            assert column is not None
            assert column.name == name
            assert len(column) == len(value) == 64


def test_a_selection_keeps_its_structure() -> None:
    batch = {"a": 1, "b": 2}
    assert pick(batch, "a") == 1
    assert pick(batch, ["a", "b"]) == [1, 2]
    assert pick(batch, ("a", {"x": "b"})) == (1, {"x": 2})
    assert pick(batch, lambda batch: batch["b"] * 10) == 20
    with pytest.raises(fb.InvalidError, match="picked by a name, a function, or a list, tuple or dict of them, got 3"):
        pick(batch, {"x": 3})


def test_only_a_loader_is_taken_for_one(plain: Path) -> None:
    with small(plain) as train:
        assert check_loader(train) is train
    for other in ("https://ann:hunter2@host/x", None, fb.Dataset(plain)):
        with pytest.raises(fb.InvalidError, match=r"expected a forebay\.Loader, got") as caught:
            check_loader(other)
        assert "hunter2" not in str(caught.value)


def test_the_module_is_public_and_complete() -> None:
    assert "adapters" in fb.__all__
    for name in adapters.__all__:
        assert getattr(adapters, name).__module__.startswith("forebay.")


def test_what_can_never_work_is_refused_when_it_is_made(plain: Path) -> None:
    loader = fb.Loader(plain, batch_size=10)
    wrongs: list[dict[str, Any]] = [{"ahead": -1}, {"ahead": "2"}, {"ahead": None}, {"finish": 3}, {"copied": "x"}]
    for wrong in wrongs:
        with pytest.raises(fb.InvalidError, match=f"^{next(iter(wrong))} must be"):
            fb.adapters.Batches(loader, lambda batch: batch, **wrong)
    with pytest.raises(fb.InvalidError, match="convert must be callable, got int"):
        fb.adapters.Batches(loader, 3)  # type: ignore[arg-type]


@pytest.mark.parametrize("end", ["another epoch", "a state", "close"])
def test_batches_that_wait_are_not_handed_over_once_their_epoch_has_ended(plain: Path, end: str) -> None:
    loader = fb.Loader(plain, batch_size=2)
    state = loader.state_dict()
    batches = iter(fb.adapters.Batches(loader, lambda batch: batch, ahead=3))
    next(batches)
    if end == "another epoch":
        later = iter(loader)
    elif end == "a state":
        loader.load_state_dict(state)
    else:
        loader.close()
    with pytest.raises(fb.ClosedError):
        next(batches)
    if end == "a state":
        assert loader.state_dict() == state
    if end == "another epoch":
        assert len(list(later)) == len(loader)
