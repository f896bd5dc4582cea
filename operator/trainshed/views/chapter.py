"""The form of what is said about a job at length: a headline, and chapters of lines."""

from __future__ import annotations

import msgspec


class Chapter(msgspec.Struct, frozen=True):
    """A part of the story: a title, and printable lines."""

    title: str
    lines: tuple[str, ...]


class Story(msgspec.Struct, frozen=True):
    """The story of a job: one sentence, and the parts that there are."""

    headline: str
    chapters: tuple[Chapter, ...]
