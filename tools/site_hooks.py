"""Extends MkDocs for docs/.

It adds pages from the root of the repository, repairs links that leave docs/, gives every page a place in the
navigation, and checks that the reference has all public names of the Python package.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

#: The files of the root that are pages of the site.
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security.md",
}

#: A relative link of Markdown: the text, the path and the anchor.
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")

#: A cross-reference of Sphinx in a docstring, after Markdown has turned its backquotes into code.
ROLE = re.compile(r":(?:class|meth|func|attr|mod|data|exc):<code>~?([^<]*)</code>")

#: A page of docs/ that a docstring names, after Markdown has turned its backquotes into code.
NAMED_PAGE = re.compile(r"<code>docs/([\w./-]+\.md)</code>")

#: A comment in the reference; the documentation of the public names that it lists takes its place.
NAMES = re.compile(r"^<!-- names: ([\w ]+) -->$", re.MULTILINE)

_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)


#: The section for pages of docs/ that the navigation does not list: they are for those who change the code.
REST = "Internals"


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Gives each page of docs/ a place in the navigation."""
    listed = set(_leaves(config.nav))
    docs = Path(config.docs_dir)
    rest = [path.relative_to(docs).as_posix() for path in sorted(docs.rglob("*.md"))]
    section = next(part[REST] for part in config.nav or [] if isinstance(part, dict) and REST in part)
    section.extend(page for page in rest if page not in listed)
    return config


def _leaves(nav: Any) -> Iterator[str]:
    if isinstance(nav, str):
        yield nav
    elif isinstance(nav, dict):
        for part in nav.values():
            yield from _leaves(part)
    else:
        for part in nav or []:
            yield from _leaves(part)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    root = Path(config.config_file_path).parent
    for source, page in PAGES.items():
        if (root / source).exists():
            files.append(File.generated(config, page, content=(root / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Changes links to files of the repository: to their page, or to the repository if they have none."""
    own = next((source for source, name in PAGES.items() if name == page.file.src_uri), None)
    folder = "" if own else posixpath.dirname(f"docs/{page.file.src_uri}")

    def resolved(link: re.Match[str]) -> str:
        text, path, anchor = link[1], link[2], link[3] or ""
        target = posixpath.normpath(posixpath.join(folder, path))
        if target in PAGES:
            uri = PAGES[target]
        elif target.startswith("docs/"):
            uri = target.removeprefix("docs/")
        else:
            return f"[{text}]({config.repo_url}/blob/main/{target}{anchor})"
        here = posixpath.dirname(page.file.src_uri) or "."
        return f"[{text}]({posixpath.relpath(uri, here)}{anchor})"

    parts = _FENCE.split(markdown)
    markdown = "".join(part if part.startswith("```") else LINK.sub(resolved, part) for part in parts)
    return _with_names(markdown, config) if NAMES.search(markdown) else markdown


def _with_names(markdown: str, config: MkDocsConfig) -> str:
    """Returns the reference with the documentation of all public names. Raises an error if it does not list one of
    them, except for the exceptions, which are in ``forebay.errors``."""
    public = _public(Path(config.config_file_path).parent / "python" / "forebay" / "__init__.py")
    listed = {name for names in NAMES.findall(markdown) for name in names.split()}
    listed |= set(re.findall(r"^::: forebay\.(\w+)$", markdown, re.MULTILINE))
    missing = sorted(name for name in public - listed if not name.endswith("Error") and not name.startswith("_"))
    if missing:
        raise PluginError(f"docs/reference/python.md has no place for {', '.join(missing)}")

    def directives(found: re.Match[str]) -> str:
        return "\n\n".join(f"::: forebay.{name}" for name in found[1].split() if name in public)

    return NAMES.sub(directives, markdown)


def _public(module: Path) -> set[str]:
    """Returns the names in ``__all__`` of a module."""
    for statement in ast.parse(module.read_text()).body:
        if isinstance(statement, ast.Assign) and ast.unparse(statement.targets[0]) == "__all__":
            return set(ast.literal_eval(statement.value))
    raise PluginError(f"{module} has no __all__")


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turns names of the package in docstrings into code, and names of pages into links."""

    def linked(named: re.Match[str]) -> str:
        target = files.get_file_from_path(named[1])
        if target is None:
            raise PluginError(f"{page.file.src_uri} names docs/{named[1]}, which does not exist")
        return f'<a href="{target.url_relative_to(page.file)}"><code>docs/{named[1]}</code></a>'

    return NAMED_PAGE.sub(linked, ROLE.sub(r"<code>\1</code>", html))
