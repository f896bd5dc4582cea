"""What all pages of one job have: its name, the links to the others, and the banner of one that is gone."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from urllib.parse import urlencode

from htpy import Element, Node, a, div, fragment, h1, li, nav, p, span, ul

from trainshed.api.foreign_text import one_line
from trainshed.api.job_annotations import asks_for_decisions
from trainshed.ui.model import JobFile, PageFrame
from trainshed.views.durations import human
from trainshed.views.rows import metadata

from . import layout

#: The files that the pages of a job need besides those of all pages.
FILES = ("job.css", "uPlot.min.css", "uPlot.iife.min.js", "job.js")
#: The pages of a job, by the end of their paths; some are not of every job.
STACKS, DECISIONS = "/stacks", "/decisions"
PLACES = (
    ("Job", ""),
    ("Ranks", "/ranks"),
    ("Logs", "/logs"),
    ("Stacks", STACKS),
    ("Decisions", DECISIONS),
    ("YAML", "/yaml"),
)
#: What a URL says besides its path, by name.
Query = Mapping[str, str]
NOTHING: Query = MappingProxyType({})


def document(file: JobFile, frame: PageFrame, place: str, content: Node) -> Element:
    """Return a page of a job with its name and the links to the others; `place` is the end of its path."""
    address = file.address
    title = f"{address.name} · {address.kind} in {address.namespace}"
    return layout.document(frame, title, fragment[head(file, frame, place), content], extra=FILES)


def head(file: JobFile, frame: PageFrame, place: str) -> Element:
    """Return the name of a job, and the links to its pages."""
    address = file.address
    links = (
        li[a(href=f"{address.path}{end}", aria_current="page" if end == place else None)[name]]
        for name, end in PLACES
        if (end != STACKS or frame.reads_stacks)
        and (end != DECISIONS or place == DECISIONS or has_decisions(file, frame))
    )
    return div(".job-head")[
        p(".crumbs")[
            a(href="/")["Jobs"],
            span(aria_hidden="true")[" / "],
            a(href=f"/?{urlencode({'namespace': address.namespace})}")[one_line(address.namespace)],
            span(aria_hidden="true")[" / "],
            one_line(address.kind),
        ],
        h1[one_line(address.name)],
        nav(".tabs", aria_label="Pages of this job")[ul[links]],
    ]


def has_decisions(file: JobFile, frame: PageFrame) -> bool:
    """Return whether decisions are recorded as far as the job shows: it asks for it, or runs on this machine."""
    return frame.local is not None or asks_for_decisions(metadata(file.document))


def banner(file: JobFile, now: datetime) -> Element | None:
    """Return that a job is gone, and that what was seen of it stays readable here."""
    if file.deleted is None:
        return None
    gone = human((now - file.deleted).total_seconds())
    return p(".banner", role="status")[
        f"This job was deleted {gone} ago. The page shows it as it was seen last, until this server ends."
    ]
