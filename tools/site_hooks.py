"""What MkDocs does not do by itself for docs/: pages from the root of the repository, and links that leave docs/."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

#: Files of the root that are pages of the site.
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CHANGELOG.md": "changelog.md",
    "CONTRIBUTING.md": "contributing.md",
    "DESIGN.md": "design.md",
    "RELEASING.md": "releasing.md",
    "SECURITY.md": "security.md",
}

#: A relative link of Markdown: the text, the path and the anchor.
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\((?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?\)")

_FENCE = re.compile(r"^(```.*?^```)", re.DOTALL | re.MULTILINE)


def on_files(files: Files, config: MkDocsConfig) -> Files:
    root = Path(config.config_file_path).parent
    for source, page in PAGES.items():
        if (root / source).exists():
            files.append(File.generated(config, page, content=(root / source).read_text()))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Links to files of the repository lead to their page, or to the repository where they have none."""
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
    return "".join(part if part.startswith("```") else LINK.sub(resolved, part) for part in parts)
