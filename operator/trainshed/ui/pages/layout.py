"""The document around every page, and the parts that pages share: states, times, notices."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from htpy import (
    Element,
    Node,
    a,
    body,
    div,
    fragment,
    h1,
    head,
    header,
    html,
    li,
    link,
    main,
    meta,
    nav,
    p,
    path,
    script,
    span,
    svg,
    ul,
)
from htpy import time as time_element
from htpy import title as title_element

from trainshed.api.coerce import format_time
from trainshed.api.foreign_text import one_line
from trainshed.ui.model import DELETED, QUEUED, STALLED, Notice, PageFrame
from trainshed.views.durations import human

#: The colour class of each state, and its shape in a square of 16: a disc, a tick, a cross, a triangle and so on, so
#: that no state is known by its colour alone.
STATES: dict[str, tuple[str, str]] = {
    "Running": ("running", "M8 2a6 6 0 1 1 0 12a6 6 0 0 1 0-12z"),
    "Succeeded": ("succeeded", "M2.2 8.6l1.7-1.7l2.7 2.7l5.6-6l1.7 1.6l-7.2 7.8z"),
    "Failed": (
        "failed",
        "M3.5 2L8 6.5l4.5-4.5 1.5 1.5L9.5 8l4.5 4.5-1.5 1.5L8 9.5 3.5 14 2 12.5 6.5 8 2 3.5z",
    ),
    "Restarting": ("waiting", "M8 2a6 6 0 1 0 6 6h-2a4 4 0 1 1-4-4v3l5-4l-5-4z"),
    "Blocked": ("waiting", "M8 1.5L15 14H1z"),
    STALLED: ("waiting", "M3 2h10v2L9.5 8L13 12v2H3v-2L6.5 8L3 4z"),
    "Suspended": ("idle", "M4 2h3v12H4zM9 2h3v12H9z"),
    QUEUED: ("idle", "M2 3h12v2H2zM2 7h12v2H2zM2 11h12v2H2z"),
    "Created": ("idle", "M8 2a6 6 0 1 1 0 12a6 6 0 0 1 0-12zM8 4a4 4 0 1 0 0 8a4 4 0 0 0 0-8z"),
    DELETED: ("idle", "M2 7h12v2H2z"),
}
#: What a state looks like that has no entry.
OTHER = ("idle", "M8 2a6 6 0 1 1 0 12a6 6 0 0 1 0-12zM8 4a4 4 0 1 0 0 8a4 4 0 0 0 0-8z")
#: The pages that the head of every page links to.
PLACES = (("Jobs", "/"), ("Cluster", "/cluster"))
#: The files that every page loads; others are named by the page that needs them.
SCRIPTS, STYLES = ("idiomorph.min.js", "page.js"), ("style.css",)


def document(frame: PageFrame, title: str, content: Node, *, current: str = "", extra: Sequence[str] = ()) -> Element:
    """Return a whole page. `current` is the path in the head that it belongs to, `extra` are further static files."""
    files = (*STYLES, *extra, *SCRIPTS)
    return html(lang="en")[
        head[
            meta(charset="utf-8"),
            meta(name="viewport", content="width=device-width, initial-scale=1"),
            meta(name="color-scheme", content="light dark"),
            title_element[f"{one_line(title)} · Trainshed"],
            link(rel="icon", href="/static/favicon.svg", type="image/svg+xml"),
            (link(rel="stylesheet", href=f"/static/{name}") for name in files if name.endswith(".css")),
            (script(src=f"/static/{name}", defer=True) for name in files if name.endswith(".js")),
        ],
        body(data_live=frame.live or None, data_ended=_ended(frame))[
            a(".skip", href="#main")["Skip to the content"],
            _head(frame, current),
            main(id="main", tabindex="-1")[notices(frame.notices), content],
        ],
    ]


def _head(frame: PageFrame, current: str) -> Element:
    shown = PLACES[:1] if frame.local else PLACES
    places = (li[a(href=to, aria_current="page" if to == current else None)[name]] for name, to in shown)
    namespace = "" if frame.local else f" · {one_line(frame.namespace) or 'all namespaces'}"
    return header(".top")[
        div[
            a(".brand", href="/")["Trainshed"],
            nav(aria_label="Pages")[ul[places]],
            span(".place")[one_line(frame.place, 128), namespace],
            span("#link.link", role="status", aria_live="polite"),
        ]
    ]


def _ended(frame: PageFrame) -> str:
    """Return what a page says once its server has gone away."""
    return f"ended: start {frame.program} again" if frame.program else "ended: load the page again"


def notices(found: Sequence[Notice]) -> Element:
    """Return what is said above the content, announced when it changes."""
    return div("#notices", role="status", aria_live="polite")[
        (p(class_=f"notice {notice.kind}")[one_line(notice.text)] for notice in found)
    ]


def message(frame: PageFrame, title: str, *texts: Node) -> Element:
    """Return a page that only says something."""
    return document(frame, title, fragment[h1[title], (p[text] for text in texts)])


def link_to(path: str, text: str) -> Element:
    """Return a link within the page."""
    return a(href=path)[one_line(text)]


def state(text: str) -> Element:
    """Return a state: its shape, its colour and its word."""
    colour, shape = STATES.get(text, OTHER)
    return span(class_=f"state {colour}")[
        svg(".shape", viewBox="0 0 16 16", width="12", height="12", aria_hidden="true")[path(d=shape)],
        one_line(text, 64),
    ]


def warning() -> Element:
    """Return what is shown beside a state that will not stay as it is."""
    colour, shape = STATES["Blocked"]
    return span(class_=f"state warning {colour}")[
        svg(".shape", viewBox="0 0 16 16", width="12", height="12", aria_hidden="true")[path(d=shape)], "Warning"
    ]


def colour_of(text: str) -> str:
    """Return the class of the colour of a state."""
    return STATES.get(text, OTHER)[0]


def ago(when: datetime | None, now: datetime, element: str | None = None) -> Element | str:
    """Return how long ago something was, with the exact time where the pointer is; empty if it is not known.

    `element` is an id by which the text can be replaced later.
    """
    if when is None:
        return ""
    exact = format_time(when)
    return time_element(id=element, datetime=exact, title=exact)[human((now - when).total_seconds())]


def at(when: datetime | None) -> Element | str:
    """Return a time in UTC to the second; empty if it is not known."""
    if when is None:
        return ""
    exact = format_time(when)
    return time_element(datetime=exact, title=exact)[exact.removesuffix("Z").replace("T", " ")]
