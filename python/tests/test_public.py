"""Public objects are shown and pickled under the name that users import, wherever they are defined."""

from __future__ import annotations

import importlib
import inspect
import pickle
from typing import Any

import pytest

import forebay as fb


def things(door: str) -> dict[str, Any]:
    """Returns the classes and functions that a public module lists."""
    module = importlib.import_module(door)
    listed = {name: getattr(module, name) for name in module.__all__}
    return {name: thing for name, thing in listed.items() if inspect.isclass(thing) or inspect.isroutine(thing)}


@pytest.mark.parametrize("name", things("forebay"))
def test_a_public_thing_is_one_of_forebay(name: str) -> None:
    thing = getattr(fb, name)
    assert (thing.__module__, thing.__qualname__) == ("forebay", name)
    assert pickle.loads(pickle.dumps(thing)) is thing


@pytest.mark.parametrize("door", ["adapters", "keras", "lightning", "hf", "torch", "jax", "mlflow", "tqdm", "rich"])
def test_a_public_thing_is_one_of_its_door(door: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    try:
        found = things(f"forebay.{door}")
    except ImportError as error:
        pytest.skip(str(error))
    assert found
    for name, thing in found.items():
        assert (thing.__module__, thing.__qualname__) == (f"forebay.{door}", name)


def test_a_loader_over_a_data_set_is_made_in_one_way() -> None:
    assert not hasattr(fb.Dataset, "loader")
