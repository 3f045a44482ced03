"""The pages of docs/: their Python and their commands run as written, on small data sets that are drawn here.

A page runs from top to bottom as one program. A block is left out if the line before it is ``<!-- not run:
why -->``. ``<!-- needs: torch -->`` names a module without which the page is skipped, or an attribute of
``forebay`` without which that block is skipped. ``<!-- block needs: torchdata -->`` names a module without
which that block is skipped. ``print(...)  # text`` gives the expected output.
"""

from __future__ import annotations

import builtins
import importlib
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from conftest import PATIENCE
from test_examples import environment

import forebay as fb

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"

DATA = {
    "photos": ["--rows", "200", "--image", "64x48"],
    "held-out": ["--rows", "60", "--image", "64x48", "--seed", "1"],
    "clicks": ["--rows", "2000", "--table"],
    "text": ["--rows", "300", "--tokens", "64"],
}

FENCE = re.compile(r"(?:<!-- (?P<mark>[^\n]*) -->\n)?^```(?P<language>python|sh)\n(?P<code>.*?)^```$", re.M | re.S)

#: A line that prints, with its expected output; a remark may follow after a colon.
SAYS = re.compile(r"^\s*print\(.*\)  # (.+)$")


class Block(NamedTuple):
    """A fenced block that runs."""

    language: str
    code: str
    #: The number of lines of the page before the block.
    lines: int
    #: A module, or an attribute of forebay, that the block needs.
    needs: str | None
    #: Whether the rest of the page runs without the block.
    alone: bool


def blocks(text: str) -> Iterator[Block]:
    for found in FENCE.finditer(text):
        kind, _, what = (found["mark"] or "").partition(": ")
        if kind == "not run":
            assert what, "say why the block is not run"
            continue
        needs = what if kind in ("needs", "block needs") else None
        alone = kind == "block needs" or (needs is not None and "." in needs)
        yield Block(found["language"], found["code"], text.count("\n", 0, found.start("code")), needs, alone)


PAGES = sorted(page for page in DOCS.rglob("*.md") if any(blocks(page.read_text())))


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("data")
    for name, options in DATA.items():
        assert fb.main(["synth", str(folder / name), *options]) == 0
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_page_runs_as_written(page: Path, data: Path, tmp_path: Path) -> None:
    modules = {block.needs for block in blocks(page.read_text()) if block.needs and not block.alone}
    environ: dict[str, str] | None = None
    for module in sorted(modules):
        environ = environment(module)
    for name in DATA:
        (tmp_path / name).symlink_to(data / name)
    command = [sys.executable, __file__, str(page)]
    ran = subprocess.run(command, cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=PATIENCE)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def test_every_link_between_pages_leads_somewhere() -> None:
    link = re.compile(r"\[[^\]]*\]\((?![a-z]+:|#)([^)#\s]+)(?:#[^)\s]*)?\)")
    for page in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")]:
        text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)
        broken = [path for path in link.findall(text) if not (page.parent / path).exists()]
        assert not broken, f"{page.relative_to(ROOT)}: {broken}"


@pytest.mark.parametrize("index", sorted(DOCS.glob("*/index.md")), ids=lambda index: index.parent.name)
def test_the_index_of_a_folder_and_the_site_list_its_pages(index: Path) -> None:
    pages = {page.name for page in index.parent.glob("*.md")} - {"index.md"}
    listed = set(re.findall(r"\]\(([\w-]+\.md)", index.read_text()))
    assert pages <= listed, f"{index.relative_to(ROOT)} does not list {sorted(pages - listed)}"
    nav = (ROOT / "mkdocs.yml").read_text()
    missing = sorted(page for page in pages if f"{index.parent.name}/{page}" not in nav)
    assert not missing, f"mkdocs.yml does not list {missing}"


def test_troubleshooting_names_messages_that_exist() -> None:
    sources = "".join(
        path.read_text()
        for folder, suffix in (("src", "rs"), ("crates", "rs"), ("python/src", "rs"), ("python/forebay", "py"))
        for path in (ROOT / folder).rglob(f"*.{suffix}")
    )
    # A sentence may be written on several lines: with a backslash in Rust, as adjacent strings in Python.
    sources = re.sub(r'\\\n\s*|"\s*\n\s*f?"', "", sources)
    page = (DOCS / "troubleshooting.md").read_text()
    tables = page.split("## Opening a data set")[1].split("## Slow")[0]
    messages = set(re.findall(r"^\| `([^`]+)`", tables, re.M)) - {"No such file or directory"}
    assert len(messages) > 30
    missing = sorted(message for message in messages if message not in sources)
    assert not missing, f"no source has {missing}"


def run(page: Path) -> None:
    """Runs the blocks of a page in this process, in the folder of the data sets."""
    text = page.read_text()
    lines = text.splitlines()
    printed: dict[int, str] = {}
    plain = builtins.print

    def noted(*values: Any, **options: Any) -> None:
        frame = sys._getframe(1)
        if frame.f_code.co_filename == str(page):
            printed.setdefault(frame.f_lineno, " ".join(map(str, values)))
        plain(*values, **options)

    names: dict[str, Any] = {"__name__": "__main__", "print": noted}
    for block in blocks(text):
        if block.needs and block.alone and not _has(block.needs):
            continue
        if block.language == "sh":
            for line in block.code.splitlines():
                command(line)
        else:
            exec(compile("\n" * block.lines + block.code, str(page), "exec"), names)
    for number, said in printed.items():
        wanted = SAYS.match(lines[number - 1])
        if wanted:
            assert wanted[1] == said or wanted[1].startswith(f"{said}: "), f"{page}:{number} prints {said}"


def _has(dotted: str) -> bool:
    if not dotted.startswith("forebay."):
        return find_spec(dotted) is not None
    value: Any = importlib.import_module("forebay")
    for name in dotted.split(".")[1:]:
        if not hasattr(value, name):
            return False
        value = getattr(value, name)
    return True


def command(line: str) -> None:
    """Runs a line of a shell block. Data that it draws replaces existing data."""
    words = shlex.split(line, comments=True)
    if not words:
        return
    assert words[0] == "forebay", line
    if words[1] == "synth" and Path(words[2]).is_symlink():
        Path(words[2]).unlink()
    ran = subprocess.run([sys.executable, "-m", *words], capture_output=True, text=True)
    assert ran.returncode == 0, f"{line}: {ran.stderr}{ran.stdout}"


if __name__ == "__main__":
    run(Path(sys.argv[1]))
