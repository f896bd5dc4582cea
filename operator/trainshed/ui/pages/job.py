"""The page of one job: what has become of it, and why."""

from __future__ import annotations

from datetime import datetime

from htpy import Element, div, fragment, h1, h2, p, section

from trainshed.api.foreign_text import one_line
from trainshed.ui.model import JobFile, PageFrame

from . import layout


def page(file: JobFile, frame: PageFrame) -> Element:
    """Return the page of a job."""
    name = one_line(file.address.name)
    return layout.document(frame, name, fragment[h1[name], live(file, frame.now)])


def live(file: JobFile, now: datetime) -> Element:
    """Return the part of the page that changes with the job."""
    del now
    story = file.story
    return div("#live")[
        p(aria_live="polite")[layout.state(file.state), " ", story.headline if story else ""],
        (
            section[h2[chapter.title], (p[line] for line in chapter.lines)]
            for chapter in (story.chapters if story else ())
        ),
    ]
