"""The documentation in the package: it is complete and uniform, and its examples run."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, get_args, get_origin, get_type_hints, is_typeddict

import pytest
from test_examples import environment

import forebay as fb
from forebay import types

#: The modules for frameworks, with the packages that each needs.
FRAMEWORKS = {
    "accelerate": "accelerate",
    "hf": "transformers",
    "jax": "jax",
    "keras": "keras",
    "lightning": "lightning",
    "mlflow": "mlflow",
    "petastorm": "pyarrow",
    "petastorm._shuffling": "torch",
    "petastorm.pytorch": "torch",
    "petastorm.spark": "pyspark",
    "petastorm.tf_utils": "tensorflow",
    "ray": "ray",
    "rich": "rich",
    "spark": "pyspark",
    "tf": "tensorflow",
    "torch": "torch",
    "tqdm": "tqdm",
}


def files() -> list[str]:
    """Returns the modules of the package, except those that run when they are imported, and the trainers."""
    folder = Path(fb.__file__).parent
    parts = [path.relative_to(folder).with_suffix("").parts for path in folder.rglob("*.py")]
    names = {".".join(part[:-1] if part[-1] == "__init__" else part) for part in parts}
    return sorted(name for name in names if name not in ("", "__main__") and "trainers" not in name)


MODULES = [name for name in files() if name.split(".")[0] not in FRAMEWORKS]
OF_FRAMEWORKS = [name for name in files() if name.split(".")[0] in FRAMEWORKS]
STUBS = ast.parse(Path(fb.__file__).with_name("_forebay.pyi").read_text())


def module(name: str, monkeypatch: pytest.MonkeyPatch | None = None) -> ModuleType:
    """Imports a module of the package. Skips the test with the framework's name if it is missing."""
    framework = FRAMEWORKS.get(".".join(name.split(".")[:2]), FRAMEWORKS.get(name.split(".")[0]))
    if framework is not None:
        environ = environment(framework)
        if "keras" not in sys.modules and monkeypatch is not None and "KERAS_BACKEND" in environ:
            monkeypatch.setenv("KERAS_BACKEND", environ["KERAS_BACKEND"])
    return importlib.import_module(f"forebay.{name}")


def documented_objects(where: ModuleType) -> Iterator[tuple[str, Any]]:
    """Yields a module, its public names and their public members, by name."""
    yield where.__name__, where
    for name in getattr(where, "__all__", []):
        value = getattr(where, name)
        if inspect.isclass(value):
            yield name, value
            # Compiled classes list their properties in a different order each time.
            for member, inner in sorted(vars(value).items()):
                if not member.startswith("_") and (callable(inner) or hasattr(inner, "__get__")):
                    yield f"{name}.{member}", getattr(inner, "__func__", inner)
        elif inspect.isroutine(value):
            yield name, value


def all_objects() -> dict[str, Any]:
    """Returns all documented objects outside of the modules of frameworks."""
    found: dict[str, Any] = {}
    for name in MODULES:
        found.update(documented_objects(module(name)))
    found.update(documented_objects(fb))
    return found


OBJECTS = all_objects()
WITH_EXAMPLES = [name for name, value in OBJECTS.items() if ">>>" in (inspect.getdoc(value) or "")]


def check_examples(name: str, text: str) -> None:
    test = doctest.DocTestParser().get_doctest(text, {}, name, None, 0)
    said: list[str] = []
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    runner.run(test, out=said.append)
    assert runner.failures == 0, "".join(said)
    assert runner.tries > 0


@pytest.mark.parametrize("name", WITH_EXAMPLES)
def test_an_example_prints_what_it_shows(name: str, documented: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(documented)
    text = inspect.getdoc(OBJECTS[name]) or ""
    if ">>> import jax" in text:
        pytest.importorskip("jax")
    check_examples(name, text)


@pytest.mark.parametrize("name", OF_FRAMEWORKS)
def test_the_examples_of_a_framework_run(name: str, documented: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    where = module(name, monkeypatch)
    monkeypatch.chdir(documented)
    for inner, value in documented_objects(where):
        text = inspect.getdoc(value) or ""
        # A class that derives from a class of the framework inherits its documentation.
        if ">>>" in text and not (inspect.isclass(value) and value.__doc__ is None):
            check_examples(inner, text)


def test_the_main_objects_have_examples() -> None:
    main = {"Loader", "Dataset", "Epoch", "Batch", "Image", "Schema", "Column", "Ragged", "Shuffle", "Shard", "Skip"}
    main |= {"DiskCache", "Plan", "Stats", "Batches", "forebay", "forebay.adapters", "forebay.errors", "forebay.types"}
    main |= {"Tensor"}
    assert main <= set(WITH_EXAMPLES)


def sections(text: str) -> dict[str, str]:
    """Returns the sections of a docstring in numpy's form."""
    parts = re.split(r"^(\w[\w ]*)\n-+\n", text, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def parameters(value: Any) -> list[str]:
    """Returns the names of the arguments that a user passes."""
    try:
        found = inspect.signature(value).parameters
    except (TypeError, ValueError):  # a property, or a class that has no constructor
        return []
    return [name for name in found if name not in ("self", "cls") and not name.startswith("_")]


def is_documented_call(name: str, value: Any) -> bool:
    """Whether a user passes the arguments of this call."""
    made_by_loaders = {"Batch", "SkippedRow", "Epoch", "Plan", "Pulled", "Schema", "Stats", "Image", "RowPlace"}
    made_by_loaders |= {"MixPlan", "SourcePlace"}
    if inspect.isclass(value):
        is_error = issubclass(value, BaseException)
        return name not in made_by_loaders and not is_error and not is_typeddict(value)
    return inspect.isroutine(value)


@pytest.mark.parametrize("name", OBJECTS)
def test_a_docstring_names_every_argument(name: str) -> None:
    value = OBJECTS[name]
    text = inspect.getdoc(value)
    assert text, f"{name} has no docstring"
    if is_documented_call(name, value) and not name.startswith("Batch."):
        named = sections(text).get("Parameters", "")
        names = [
            part.lstrip("*") for line in named.splitlines() if line[:1].strip() for part in re.split(r"[ ,:]+", line)
        ]
        missing = [argument for argument in parameters(value) if argument not in names]
        assert not missing, f"{name} says nothing of {missing}"


@pytest.mark.parametrize("name", OBJECTS)
def test_a_docstring_names_what_is_returned(name: str) -> None:
    value = OBJECTS[name]
    if not inspect.isfunction(value):
        return
    returned = value.__annotations__.get("return")
    found = sections(inspect.getdoc(value) or "")
    assert (returned == "None") or "Returns" in found or "Yields" in found


@pytest.mark.parametrize("cls", ["Batch", "Image", "Schema"])
def test_stubs_and_help_say_the_same(cls: str) -> None:
    (stub,) = (node for node in STUBS.body if isinstance(node, ast.ClassDef) and node.name == cls)
    assert inspect.getdoc(getattr(fb, cls)) == ast.get_docstring(stub)
    for node in stub.body:
        if isinstance(node, ast.FunctionDef) and not node.name.startswith("_"):
            assert inspect.getdoc(getattr(getattr(fb, cls), node.name)) == ast.get_docstring(node), node.name


def test_exceptions_are_in_two_places(plain: Path) -> None:
    assert "errors" in fb.__all__
    for name in fb.errors.__all__:
        assert getattr(fb.errors, name) is getattr(fb, name)
        assert name in fb.__all__
    with pytest.raises(fb.errors.UnknownColumnError):
        fb.Loader(plain, columns=["nothing"])


def fits(value: Any, kind: Any) -> bool:
    """Whether a JSON value has a type, with exactly the keys of a ``TypedDict``."""
    if is_typeddict(kind):
        if not isinstance(value, dict):
            return False
        hints = get_type_hints(kind)
        return kind.__required_keys__ <= set(value) <= set(hints) and all(fits(value[key], hints[key]) for key in value)
    if kind is Any:
        return True
    if get_origin(kind) is list:
        return isinstance(value, list) and all(fits(inner, get_args(kind)[0]) for inner in value)
    if get_origin(kind) is dict:
        return isinstance(value, dict) and all(fits(inner, get_args(kind)[1]) for inner in value.values())
    if get_args(kind):  # a union or a literal
        return any(value == one if isinstance(one, str) else fits(value, one) for one in get_args(kind))
    return isinstance(value, (int, float) if kind is float else kind)


def test_dicts_have_the_types_that_are_annotated(plain: Path, tmp_path: Path) -> None:
    for cache in (None, fb.DiskCache(tmp_path, max_bytes="1g", tier="rows")):
        with fb.Loader(
            plain, batch_size=64, cache=cache, shuffle=fb.Shuffle(seed=1), filter=[("id", "<", 500)]
        ) as loader:
            list(loader)
            assert fits(loader.state_dict(), types.StateDict)
            assert fits(loader.spec, types.SpecDict)
            assert fits(loader.plan().to_dict(), types.PlanDict)
            assert fits(loader.stats().to_dict(), types.StatsDict)
    assert not fits({**loader.plan().to_dict(), "more": 1}, types.PlanDict)
    assert not fits({**loader.plan().to_dict(), "steps": "1"}, types.PlanDict)
