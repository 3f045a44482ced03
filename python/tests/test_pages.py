"""The documentation agrees with the code: paths and names in it exist, and its numbers are those of the code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import forebay as fb

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
DESIGN = DOCS / "design"

#: The design pages with a bounded length; the log of attempts is not one of them.
REASONS = sorted(page for page in DESIGN.glob("*.md") if page.name != "tried.md")

#: A path in a page is checked if it begins with one of these folders.
ROOTS = ("src", "crates", "python", "tests", "docs", "tools", "benches", "examples")

#: The source folders in which short paths of pages, such as ``shard/deal``, are looked up.
SOURCES = ("src", "crates", "python")

#: Files that a reader creates to follow an example.
EXAMPLES = {"src/column/clip.rs"}

CODE = re.compile(r"`([^`\n]+)`")
PATH = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?")


def text(path: str) -> str:
    return (ROOT / path).read_text()


def number(path: str, name: str) -> int:
    """Returns the value of a Rust constant, which may contain a shift."""
    found = re.search(rf"const {name}: \w+ = ([\d_]+)(?: << (\d+))?;", text(path))
    assert found, f"{path} has no constant {name}"
    return int(found[1].replace("_", "")) << int(found[2] or 0)


def table(page: str, heading: str) -> list[list[str]]:
    """Returns the cells of the first table with this heading, without its head."""
    lines = page.splitlines()
    at = next(at for at, line in enumerate(lines) if line.startswith("|") and heading in line)
    rows = []
    for line in lines[at + 2 :]:
        if not line.startswith("|"):
            break
        rows.append([cell.strip() for cell in line.strip("|").split(" | ")])
    return rows


def paths(page: str) -> set[str]:
    """Returns the paths of the repository that a page names in code."""
    page = re.sub(r"^```.*?^```", "", page, flags=re.M | re.S)
    return {code for code in CODE.findall(page) if PATH.fullmatch(code) and code.split("/")[0] in ROOTS}


@pytest.mark.parametrize(
    "page",
    sorted(page for page in [*DOCS.rglob("*.md"), *ROOT.glob("*.md")] if paths(page.read_text())),
    ids=lambda page: str(page.relative_to(ROOT)),
)
def test_the_paths_that_a_page_names_exist(page: Path) -> None:
    missing = [path for path in paths(page.read_text()) - EXAMPLES if not (ROOT / path).exists()]
    assert not missing, f"{page.relative_to(ROOT)} names {missing}"


def test_the_tests_that_keep_the_promises_exist() -> None:
    rows = re.findall(r"^\| [A-Z]\d+ \|.*$", text("docs/promises.md"), re.M)
    assert len(rows) > 40
    for row in rows:
        named = re.search(r"`([\w./-]+\.(?:rs|py))` `(\w+)`", row)
        if named is None:
            assert re.search(r"\| `(?:tools/|make )", row), f"no test in {row}"
            continue
        kind = r"#\[test\]\n(?:#\[.*\]\n)*fn" if named[1].endswith(".rs") else "def"
        assert re.search(rf"^{kind} {named[2]}\(", text(named[1]), re.M), f"{named[1]} has no test {named[2]}"


@pytest.mark.parametrize("page", sorted(DESIGN.glob("*.md")), ids=lambda page: page.name)
def test_the_short_paths_of_design_exist(page: Path) -> None:
    files = [str(path.relative_to(ROOT)) for root in SOURCES for path in (ROOT / root).rglob("*.rs")]
    short = {code for code in CODE.findall(page.read_text()) if re.fullmatch(r"[a-z_]+(?:/[a-z_]+)+", code)}
    for path in short:
        found = any(f"/{path}.rs" in file or f"/{path}/" in file for file in files)
        assert found or (ROOT / path).exists(), f"{page.name} names {path}"


def test_the_pages_of_design_are_short_and_listed() -> None:
    size = sum(page.stat().st_size for page in REASONS)
    assert size <= 45 << 10, (
        f"docs/design has {size} bytes: what was tried goes into tried.md, what a reader does not need goes"
    )
    listed = re.findall(r"\]\((\w[\w-]*\.md)\)", (DESIGN / "index.md").read_text())
    assert sorted({*listed, "index.md"}) == sorted(page.name for page in DESIGN.glob("*.md"))
    nav = text("mkdocs.yml")
    assert all(f"design/{page.name}" in nav for page in DESIGN.glob("*.md"))


def test_architecture_and_the_changelog_are_short() -> None:
    assert len(text("ARCHITECTURE.md").split()) <= 2500
    assert (ROOT / "CHANGELOG.md").stat().st_size <= 5 << 10


def test_architecture_has_the_crates_of_the_workspace() -> None:
    manifests = [ROOT / "Cargo.toml", *ROOT.glob("crates/*/Cargo.toml"), ROOT / "python" / "Cargo.toml"]
    names = {
        (re.search(r'^\[package\]\n(?:.*\n)*?name = "([\w-]+)"', manifest.read_text(), re.M) or [""])[1]: manifest
        for manifest in manifests
    }
    listed = {row[0].strip("`"): row[1].strip("`") for row in table(text("ARCHITECTURE.md"), "| crate |")}
    assert listed.keys() == names.keys()
    for name, manifest in names.items():
        folder = (ROOT / listed[name]).resolve()
        assert manifest.parent in (folder, folder.parent), f"{name} is not in {listed[name]}"


def test_architecture_has_the_floors_that_are_checked() -> None:
    source = text("tests/house/floors.rs").split("const FLOORS")[1].split("\n];")[0]
    floors = [set(re.findall(r'"(\w+)"', line)) for line in re.findall(r"&\[[^\]]*\],", source)]
    rows = table(text("ARCHITECTURE.md"), "| floor | modules |")
    assert [int(row[0]) for row in rows] == list(range(len(floors), 0, -1))
    for row in rows:
        listed = {Path(path).stem for path in CODE.findall(row[1])}
        assert listed == floors[int(row[0]) - 1]


def test_architecture_names_the_files_of_the_library_that_wait() -> None:
    awaiting = {
        str(path.relative_to(ROOT))
        for path in (ROOT / "src").rglob("*.rs")
        if re.search(r"\.await\b", path.read_text().split("mod tests {")[0]) and "tests" not in str(path)
    }
    assert awaiting, "no file of the library waits"
    part = text("ARCHITECTURE.md").split("## The one async boundary")[1].split("\n## ")[0]
    listed = [path.removesuffix(".rs") for path in paths(part)]
    missing = [file for file in awaiting if not any(file.startswith(path) for path in listed)]
    assert not missing, f"ARCHITECTURE.md says nothing of {missing}"


def test_architecture_names_the_threads() -> None:
    sources = "".join(
        path.read_text()
        for root, suffix in (("src", "rs"), ("python/src", "rs"), ("python/forebay", "py"))
        for path in (ROOT / root).rglob(f"*.{suffix}")
    )
    for row in table(text("ARCHITECTURE.md"), "| thread |"):
        for name in CODE.findall(row[0]):
            assert f'"{name.removesuffix("N")}' in sources, f"no thread is called {name}"


def methods(path: str, trait: str) -> set[str]:
    """Returns the methods of a Rust trait."""
    body = re.search(rf"trait {trait}\b.*?\n}}", text(path), re.S)
    assert body, f"{path} has no trait {trait}"
    return set(re.findall(r"^    fn (\w+)", body[0], re.M))


def test_extending_has_every_method_of_a_codec() -> None:
    page = text("docs/extending.md")
    kinds = [row[0].strip("`") for row in table(page, "| trait |")]
    assert kinds == ["Gather", "FollowImage", "DecodeCells", "DrawNumbers", "StackColumns"]
    assert "one of five traits" in page and "five kinds" in text("docs/design/batches.md")
    said: dict[str, set[str]] = {kind: set() for kind in kinds}
    for method, of, *_ in table(page, "| method | of |"):
        named = CODE.findall(of)
        for kind in (kind for kind in kinds if kind in named):
            said[kind].add(method.strip("`"))
    for kind in kinds:
        assert said[kind] == methods("src/column/codec.rs", kind), kind


def test_extending_has_every_method_of_the_other_traits() -> None:
    page = text("docs/extending.md")
    options = page.split("## An option of a column")[1].split("\n## ")[0]
    assert {row[0].strip("`") for row in table(options, "| method |")} == methods("src/column/option.rs", "ColumnOption")
    formats = page.split("## A table format")[1].split("\n## ")[0]
    for method in methods("crates/store/src/source/tables/format.rs", "TableFormat"):
        assert f"`{method}()`" in formats
    samples = page.split("## A kind of sample")[1]
    for method in methods("src/samples.rs", "SampleKind"):
        assert re.search(rf"^\* `{method}\(", samples, re.M), method


def test_numbers_of_the_guide_are_those_of_the_code() -> None:
    rows = number("src/loader/spec.rs", "BATCH_SIZE")
    assert f"a batch has {rows} rows" in text("docs/guide/first-loader.md")
    assert f"| `--batch-size` | {rows} |" in text("docs/guide/program.md")
    memory = text("docs/guide/memory.md")
    least, most = (number("src/loader/sizing.rs", name) for name in ("MIN_AHEAD", "MAX_AHEAD"))
    assert number("src/loader/sizing.rs", "AHEAD_DIVISOR") == 8 and number("src/loader/sizing.rs", "BATCHES_DIVISOR") == 2
    assert f"| batches made ahead | an eighth: {least} to {most} batches |" in memory
    images = number("crates/image/src/workspace.rs", "MIN_BYTES") >> 20
    assert f"a quarter, at least {images} MiB" in memory
    beside = re.search(r"const BESIDE: u64 = (\d+) \* MIB;", text("crates/cli/tests/memory.rs"))
    assert beside
    for page in ("docs/guide/memory.md", "docs/index.md"):
        assert f"at most {beside[1]} MiB beyond" in text(page)


def test_versions_and_extras_of_install_are_those_of_the_manifests() -> None:
    rust = re.search(r'^rust-version = "([\d.]+)"', text("Cargo.toml"), re.M)
    project = text("python/pyproject.toml")
    python = re.search(r'^requires-python = ">=([\d.]+)"', project, re.M)
    assert rust and python
    for page in ("README.md", "docs/guide/install.md"):
        assert f"Rust {rust[1]} or later" in text(page) and f"Python {python[1]} or later" in text(page)
    extras = re.findall(r"^(\w+) = \[", project.split("[project.optional-dependencies]")[1].split("\n[")[0], re.M)
    named = re.findall(r"`\[(\w+)\]`", text("docs/guide/install.md"))
    assert sorted(named) == sorted(extras)
    features = text("Cargo.toml").split("[features]")[1].split("\n[")[0]
    listed = {row[0].strip("`") for row in table(text("docs/reference/rust.md"), "| feature |")}
    assert listed == set(re.findall(r"^(\w+) = \[", features, re.M)) - {"default"}


def test_the_figures_of_the_readme_are_those_of_performance() -> None:
    readme, performance = text("README.md"), text("docs/performance.md")
    chart = readme.split("```text\n")[1].split("```")[0].splitlines()
    rates = [int(line.split("  ")[-2].replace(",", "")) for line in chart]
    row = next(row for row in table(performance, "| photographs | forebay") if row[0] == "quality 85")
    measured = [int(cell.split(" ")[0].replace(",", "")) for cell in row[1:5]]
    assert sorted(rates, reverse=True) == rates and sorted(rates) == sorted(measured)
    for line, rate in zip(chart, rates, strict=True):
        assert line.count("█") == round(40 * rate / rates[0]), line
    figures = table(readme, "| loader | processor s for 1,000 images |")
    assert len(figures) > 5
    for loader, seconds, times in figures:
        assert re.search(rf"^\| {re.escape(loader)}[^|]*\| {seconds} \| {times} ?\|", performance, re.M), loader


def test_the_commands_are_those_of_the_program(capfd: pytest.CaptureFixture[str]) -> None:
    assert fb.main(["--help"]) == 0
    commands = set(re.findall(r"^  ([a-z]+)  ", capfd.readouterr().out, re.M)) - {"help", "forebay"}
    listed = set(re.findall(r"`forebay ([a-z]+)", text("docs/guide/program.md").split("\n## ")[0]))
    assert commands, "the program lists its commands"
    assert listed == commands, "docs/guide/program.md lists the commands"
    released = text("CHANGELOG.md").split("The program `forebay`:")[1].split("\n-")[0]
    assert set(CODE.findall(released)) == commands
