"""The report of a job as one HTML file: no script, nothing from the network, fit to be kept, mailed and printed."""

from __future__ import annotations

from functools import cache

from htpy import (
    Element,
    Node,
    body,
    caption,
    dd,
    div,
    dl,
    dt,
    footer,
    fragment,
    h1,
    h2,
    head,
    html,
    main,
    meta,
    p,
    pre,
    section,
    style,
    table,
    tbody,
    td,
    th,
    thead,
    tr,
)
from htpy import title as title_element
from markupsafe import Markup
from msgspec.structs import replace

from trainshed.api.foreign_text import inert
from trainshed.api.job_record import ended_at
from trainshed.views import post_mortem
from trainshed.views.chapter import Chapter
from trainshed.views.post_mortem import Table

from . import job_history
from .drawings import curves, patterns, time_bar, timeline
from .listening import STATIC
from .pages import layout
from .pages.story_chapter import chapter
from .report_content import JobReport, cause_tables, first_tables, last_tables, made, spec_text
from .seen_facts import facts_of, lives_of

#: Nothing is loaded, whatever is in the file; the style is a part of it.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
DARK = "(prefers-color-scheme: dark)"
#: The columns whose cells may be broken anywhere, and take the room that there is.
LONG = ("Image", "Message", "Variables of the user")


def as_html(report: JobReport) -> str:
    """Return the whole file."""
    page = html(lang="en")[
        head[
            meta(charset="utf-8"),
            meta(http_equiv="Content-Security-Policy", content=POLICY),
            meta(name="viewport", content="width=device-width, initial-scale=1"),
            meta(name="color-scheme", content="light dark"),
            meta(name="referrer", content="no-referrer"),
            title_element[f"{report.title}: {report.headline}"],
            style[_css()],
        ],
        body(".report")[patterns.sheet(), main[_content(report)], footer[p[made(report)]]],
    ]
    return inert(f"{page}\n")


@cache
def _css() -> Markup:
    """Return the rules of the pages and those of reports, which paper shows in the light.

    They are files of this package, and close no element.
    """
    texts = ((STATIC / name).read_text(encoding="utf-8") for name in ("style.css", "job.css", "report.css"))
    return Markup("\n".join(texts).replace(DARK, f"screen and {DARK}"))  # noqa: S704 # nosec B704 - not from outside


def _content(report: JobReport) -> Node:
    return fragment[
        h1[report.title],
        div(".headline")[layout.state(post_mortem.state(report.file.document, report.file.status)), p[report.headline]],
        (p(".remark")[remark] for remark in report.remarks),
        (_pairs(one) for one in first_tables(report)),
        _story(report.chapters),
        _timeline(report),
        (_pairs(one) if one.header == ("", "") else _table(one) for one in cause_tables(report)),
        section[h2["Last lines of the container"], pre[report.message]] if report.message else None,
        _time(report),
        _training(report),
        (_table(one) for one in last_tables(report)),
        section(".spec")[h2["Spec"], pre[text]] if (text := spec_text(report)) else None,
    ]


def _pairs(found: Table) -> Element | None:
    """Return a table of two columns as a list of names and values."""
    if not found.rows:
        return None
    return section(".pairs")[h2[found.title], dl[(div[dt[name], dd[value]] for name, value in found.rows)]]


def _table(found: Table) -> Element | None:
    if not found.rows:
        return None
    return section[
        h2[found.title],
        div(".scrolls")[
            table[
                caption(".unseen")[found.title],
                thead[tr[(th(scope="col")[name] for name in found.header)]],
                tbody[(_row(found.header, cells) for cells in found.rows)],
            ]
        ],
    ]


def _row(names: tuple[str, ...], cells: tuple[str, ...]) -> Element:
    """Return a row; narrow screens show its cells below each other, with the names of their columns."""
    first, *others = zip(names, cells, strict=True)
    return tr[
        th(scope="row", data_label=first[0])[first[1]],
        (td(class_="long" if name in LONG else None, data_label=name)[cell] for name, cell in others),
    ]


def _story(found: tuple[Chapter, ...]) -> Element | None:
    if not found:
        return None
    return section(".story")[h2["What happened"], dl[map(chapter, found)]]


def _timeline(report: JobReport) -> Element | None:
    """Return what the job did and when; from a record only the job itself, as its pods are not known."""
    file, until = report.file, (ended_at(report.file.document) or report.now) if report.from_record else report.now
    facts = facts_of(file, until)
    if facts is None:
        return None
    found = job_history.history(facts, lives_of(file.pods))
    if report.from_record:
        found = replace(found, rows=(), ahead=(), over=True)
    if not (found.spans or found.rows):
        return None
    return section(".timeline-section")[
        h2["Timeline"], timeline.draw(found), timeline.legend(found), timeline.times(found)
    ]


def _time(report: JobReport) -> Element | None:
    drawing = time_bar.draw(report.file.status, report.file.status.completion or report.now)
    return section[h2["Where the time went"], drawing] if drawing else None


def _training(report: JobReport) -> Element | None:
    found = curves.curves(report.file.samples)
    if not found:
        return None
    return section(".training")[
        h2["Training"], div(".curves")[map(curves.draw, found)], curves.values(report.file.samples)
    ]
