"""The entry of a version in CHANGELOG.md: notes for people, and changes for Artifact Hub."""

from __future__ import annotations

import re

ENTRY = r"^## \[{version}\] - (?P<date>.+)\n(?P<text>(?:(?!## \[).*\n?)*)"
DATE = re.compile(r"\d{4}-\d\d-\d\d")
#: Artifact Hub's words for the parts of an entry are the same, in lower case.
PART = re.compile(r"^### (Added|Changed|Deprecated|Removed|Fixed|Security)\n((?:(?!###? ).*\n?)*)", re.MULTILINE)
LINK = re.compile(r"\[([^\]]+)\]\((?!https?:)([^)]+)\)")


def entry(changelog: str, version: str) -> str:
    """Return the text below the heading of a version; raises `ValueError` if there is none, or no date in it."""
    found = re.search(ENTRY.format(version=re.escape(version)), changelog, re.MULTILINE)
    if found is None or not found["text"].strip():
        raise ValueError(f"CHANGELOG.md has no entry for {version}")
    if not DATE.fullmatch(found["date"]):
        raise ValueError(f"CHANGELOG.md has no date for {version}, but {found['date']}")
    return found["text"].strip() + "\n"


def notes(changelog: str, version: str, tree: str) -> str:
    """Return the entry with links into the tree of the version, whose URL is `tree`."""
    return LINK.sub(lambda link: f"[{link[1]}]({tree}/{link[2]})", entry(changelog, version))


def changes(text: str) -> list[dict[str, str]]:
    """Return what an entry says in the form of Artifact Hub: a kind and a sentence without links for each item."""
    return [
        {"kind": kind.lower(), "description": LINK.sub(r"\1", " ".join(item.split()))}
        for kind, part in PART.findall(text)
        for item in re.split(r"^- ", part, flags=re.MULTILINE)[1:]
    ]
