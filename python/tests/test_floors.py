"""Each module of the package imports only from lower floors, also inside functions and for type checking.

A room is a folder of the package, or a file beside the folders. A floor is a group of rooms.
"""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

PYTHON = Path(__file__).parent.parent
PACKAGE = PYTHON / "forebay"

#: The rooms by floor, the lowest first. Rooms on one floor do not import one another.
FLOORS = (
    # Modules that all others use, and the compiled half.
    ("_level", "at_exit", "choices", "errors", "public"),
    ("_forebay",),
    # The values that a user passes: their checks, options, and the modules for rows and columns.
    ("options",),
    ("launcher_store",),
    ("batch", "columns", "filters", "index_exchange", "one_pass", "sharding"),
    ("samples", "transforms"),
    ("types",),
    # The data set, and the modules that need one.
    ("reports",),
    ("dataset",),
    ("categories", "rows", "data_versions"),
    # The loader.
    ("spec",),
    ("epoch",),
    ("prepare",),
    ("loader",),
    ("mix",),
    # Frameworks.
    ("adapters",),
    ("jax", "keras", "mlflow", "rich", "spark", "tf", "torch", "tqdm"),
    ("accelerate", "hf", "lightning", "ray"),
    # The interface of another library, which uses all of these.
    ("petastorm",),
    # The program, and the package that users import.
    ("program",),
    ("forebay",),
    ("__main__",),
)

#: Imports from a higher floor, each with its reason.
EXCUSED = {
    # The compiled module creates columns. Since Python 3.12 a method gives their buffer, and only a class that
    # is written in Python can define it.
    ("forebay._forebay", "forebay.batch.column"),
}


def test_each_room_has_one_floor():
    listed = [room for floor in FLOORS for room in floor]
    assert sorted(listed) == sorted({room(module) for module in modules(PACKAGE)})


def test_a_room_imports_from_lower_floors_only():
    assert upwards(drawing(PACKAGE)) == EXCUSED


def test_no_files_import_each_other_in_a_circle():
    assert circles(drawing(PACKAGE), EXCUSED) == []


@pytest.mark.parametrize(
    "line",
    [
        "from ..loader import Loader",
        "def late():\n    from ..loader import Loader",
        "if TYPE_CHECKING:\n    from ..loader import Loader",
        "import forebay.loader",
        "from .. import loader",
    ],
)
def test_an_import_upwards_is_found(line, tmp_path):
    copy = copied(tmp_path)
    file = copy / "options" / "checks.py"
    file.write_text(f"{file.read_text()}\n{line}\n")
    arrows = drawing(copy)
    assert upwards(arrows) == {*EXCUSED, ("forebay.options.checks", "forebay.loader")}
    assert any("forebay.options.checks" in circle for circle in circles(arrows, EXCUSED))


def test_a_circle_inside_a_room_is_found(tmp_path):
    copy = copied(tmp_path)
    file = copy / "options" / "checks.py"
    file.write_text(f"{file.read_text()}\nfrom . import sizes\n")
    assert circles(drawing(copy), EXCUSED) == [["forebay.options.checks", "forebay.options.sizes"]]


def test_what_the_compiled_half_imports_by_name_is_there():
    # Matches an import of a module by Rust code, and the attribute that the code then takes from it.
    named = re.compile(r'(?:\.import\(|MODULE: &str = )"(forebay[\w.]*)"(?:\)\?\s*\.(?:getattr|call_method1)\("(\w+)")?')
    found = {hit for file in PYTHON.glob("src/**/*.rs") for hit in named.findall(file.read_text())}
    assert {module for module, _ in found} == {
        "forebay.batch.column",
        "forebay.batch.ragged",
        "forebay.errors",
        "forebay.reports.notebook",
    }
    for module, name in found:
        assert not name or hasattr(import_module(module), name), f"{module} has no {name}"


def modules(package: Path) -> dict[str, Path]:
    """Returns the files of the package by the names of their modules."""
    found = {}
    for path in (*package.rglob("*.py"), *package.rglob("*.pyi")):
        parts = ("forebay", *path.relative_to(package).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def room(module: str) -> str:
    """Returns the folder of a module, or its own name; the package itself is the room ``forebay``."""
    return module.split(".")[1] if "." in module else module


def drawing(package: Path) -> set[tuple[str, str]]:
    """Returns pairs of a module and a module that it imports, wherever the import stands in its file."""
    known = modules(package)
    return {(module, other) for module, path in known.items() for other in imported(module, path, known)}


def imported(module: str, path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Returns the modules of the package that a file imports."""
    inside = module.split(".") if path.stem == "__init__" else module.split(".")[:-1]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (name.name for name in node.names if name.name in known)
        elif isinstance(node, ast.ImportFrom):
            base = inside[: len(inside) + 1 - node.level] if node.level else []
            source = ".".join([*base, *filter(None, [node.module])])
            named = {f"{source}.{name.name}" for name in node.names}
            yield from named & known.keys()
            # An imported name that is not itself a module is defined in the module that it comes from.
            if source in known and named - known.keys():
                yield source


def upwards(arrows: set[tuple[str, str]]) -> set[tuple[str, str]]:
    """Returns the imports from another room that is not on a lower floor."""
    floor_of = {room: number for number, floor in enumerate(FLOORS) for room in floor}
    rooms = {(one, other): (room(one), room(other)) for one, other in arrows}
    return {arrow for arrow, (one, other) in rooms.items() if one != other and floor_of[one] <= floor_of[other]}


def circles(arrows: set[tuple[str, str]], excused: set[tuple[str, str]]) -> list[list[str]]:
    """Returns the groups of modules that import one another in a circle, directly or through others."""
    leads: dict[str, set[str]] = {}
    for one, other in arrows - excused:
        leads.setdefault(one, set()).add(other)

    def reached(start: str) -> set[str]:
        seen: set[str] = set()
        waiting = [start]
        while waiting:
            for other in leads.get(waiting.pop(), set()) - seen:
                seen.add(other)
                waiting.append(other)
        return seen

    reach = {module: reached(module) for module in leads}
    in_one = {module: {other for other in reach[module] if module in reach.get(other, set())} for module in leads}
    return [list(circle) for circle in sorted({tuple(sorted(found)) for found in in_one.values() if found})]


def copied(folder: Path) -> Path:
    """Copies the sources of the package to another folder."""
    return Path(shutil.copytree(PACKAGE, folder / "forebay", ignore=shutil.ignore_patterns("*.so", "__pycache__")))
