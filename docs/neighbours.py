"""MkDocs hook: add pages for linked files outside docs/, and fail if a page requests external content."""
# ruff: noqa: INP001 - mkdocs loads it by its path

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parent.parent
#: The folder of the site for files outside docs/.
SHELF = "repository/"
LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)(#[^)\s]*)?(?=\))")
#: HTML that makes a browser request external content.
FETCHED = re.compile(r"<(?:script|img|link|iframe)\b[^>]*\b(?:src|href)=[\"']?(?:https?:)?//[^>]*>")
#: The syntax highlighting of a file, by its suffix.
LANGUAGES = {".py": "python", ".yaml": "yaml", ".toml": "toml", ".sh": "sh"}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for every file of the repository that a page links to, directly or indirectly."""
    found = {f"docs/{file.src_uri}": ROOT / "docs" / file.src_uri for file in files if file.is_documentation_page()}
    todo = list(found)
    while todo:
        for name in _targets(todo.pop()):
            if name not in found and not name.startswith("docs/"):
                found[name] = ROOT / name
                files.append(File.generated(config, _shelved(name), content=_page(ROOT / name)))
                todo += [name] if name.endswith(".md") else []
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Return the text with its links rewritten for the site."""
    del config, files
    source = page.file.src_uri
    home = source.removeprefix(SHELF) if source.startswith(SHELF) else f"docs/{source}"
    if not home.endswith(".md") or not (ROOT / home).is_file():
        return markdown

    def moved(link: re.Match[str]) -> str:
        name = _resolved(home, link[1])
        there = name.removeprefix("docs/") if name.startswith("docs/") else _shelved(name)
        return posixpath.relpath(there, posixpath.dirname(source) or ".") + (link[2] or "")

    return LINK.sub(moved, markdown)


def on_post_page(output: str, page: Page, config: MkDocsConfig) -> str:
    """Return the page unchanged; raise PluginError if it requests external content."""
    del config
    if found := FETCHED.search(output):
        raise PluginError(f"{page.file.src_uri} requests external content: {found[0]}")
    return output


def _targets(name: str) -> Iterator[str]:
    path = ROOT / name
    for link in LINK.finditer(path.read_text(encoding="utf-8")):
        yield _resolved(name, link[1])


def _resolved(home: str, link: str) -> str:
    """Return the path from the root of the repository; for a folder with a README, the README."""
    name = posixpath.normpath(posixpath.join(posixpath.dirname(home), link))
    return f"{name}/README.md" if (ROOT / name / "README.md").is_file() else name


def _shelved(name: str) -> str:
    return f"{SHELF}{name}" if name.endswith(".md") else f"{SHELF}{name}.md"


def _page(path: Path) -> str:
    """Return a page with the content of a file, or the list of files of a folder. A missing file is an error."""
    name = path.relative_to(ROOT).as_posix()
    if path.suffix == ".md":
        return path.read_text(encoding="utf-8")
    head = f"---\nsearch:\n  exclude: true\n---\n\n# {path.name}\n\n`{name}`\n\n"
    if path.is_dir():
        return head + "".join(f"- `{child.name}`\n" for child in sorted(path.iterdir()))
    return f"{head}``````{LANGUAGES.get(path.suffix, 'text')}\n{path.read_text(encoding='utf-8')}\n``````\n"
