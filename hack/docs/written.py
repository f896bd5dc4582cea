"""The generated files of docs/, and the generated parts of its pages, which are between two comments."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path

from . import drill_picture, kinds, page_pictures, pictures, reference, replay_picture, run_picture, tables

DOCS = Path(__file__).resolve().parents[2] / "docs"
#: A part of a page: `<!-- written: function part -->`, the text, and `<!-- end -->`.
PART = re.compile(r"<!-- written: (\w+) ?([^ ]*) -->\n.*?<!-- end -->", re.DOTALL)
PICTURES: Mapping[str, Callable[[], str]] = {
    "rules.svg": pictures.rules,
    "states.svg": pictures.states,
    "favicon.svg": pictures.favicon,
    "drill.svg": drill_picture.drill,
    "replay.svg": replay_picture.replay,
    "run.svg": run_picture.local_run,
    "whatif.svg": pictures.ends,
    "page-jobs.svg": page_pictures.list_of_jobs,
    "page-job.svg": page_pictures.one_job,
}
PARTS: Mapping[str, Callable[[str], str]] = {
    "rules": tables.rules,
    "flags": tables.flags,
    "losses": tables.losses,
    "fields": reference.fields,
    "glance": kinds.glance,
    "goals": kinds.goals,
    "example": kinds.example,
    "environment": kinds.environment,
}


def wanted() -> dict[Path, str]:
    """Return the expected text of every generated file of docs/; raise KeyError for an unknown part."""
    pages = {path: path.read_text() for path in sorted(DOCS.rglob("*.md"))}
    drawn = {DOCS / "pictures" / name: draw() for name, draw in PICTURES.items()}
    return drawn | {path: PART.sub(_part, text) for path, text in pages.items() if PART.search(text)}


def stale() -> dict[Path, str]:
    """Return the files whose text is not up to date, with the expected text."""
    return {path: text for path, text in wanted().items() if not path.exists() or path.read_text() != text}


def _part(found: re.Match[str]) -> str:
    what, of = found.groups()
    head = f"<!-- written: {what} {of} -->" if of else f"<!-- written: {what} -->"
    return f"{head}\n{PARTS[what](of).strip()}\n<!-- end -->"
