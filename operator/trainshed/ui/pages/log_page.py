"""The view of logs: which replicas and which lines, and the last lines of all of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import datetime

import htpy as h
import msgspec

from trainshed.api.foreign_text import one_line
from trainshed.plan.messages.phrases import plural
from trainshed.ui.log_filters import MOST_LINES, SWITCHES, WITHOUT_SCRIPT, LogFilters
from trainshed.ui.model import JobFile, PageFrame
from trainshed.ui.replica_logs import RawLine

from . import job_head, layout, log_rows

#: The numbers of lines to choose from, and the replicas that the form names.
CHOICES, MOST_NAMED = (WITHOUT_SCRIPT, 2_000, MOST_LINES), 512
#: What the switches of the form are called.
NAMES = dict(zip(SWITCHES, ("regular expression", "run before the last restart", "times"), strict=True))
#: The id of the element that has the lines, and of that which says what they are.
LINES, STATE = "log", "log-state"


class LogView(msgspec.Struct, frozen=True):
    """What the view shows: `replicas` are all that there are, `said` what is to be said besides, in sentences.

    `path` is that of the view, and `wrong` what is wrong with the expression.
    """

    path: str
    replicas: tuple[str, ...]
    filters: LogFilters
    lines: tuple[RawLine, ...] = ()
    said: tuple[str, ...] = ()
    wrong: str = ""

    @property
    def shown(self) -> log_rows.ReplicaColours:
        """The colours of the replicas."""
        return log_rows.ReplicaColours.of(self.replicas)


def page(file: JobFile, view: LogView, frame: PageFrame) -> h.Element:
    """Return the page of the logs of a job."""
    title = f"Logs of {one_line(file.address.name)}"
    parts = h.fragment[job_head.head(file, frame, "/logs"), banner(file, frame.now), content(view)]
    return layout.document(frame, title, parts, extra=("job.css", "logs.css", "logs.js"))


def banner(file: JobFile, now: datetime) -> h.Element:
    """Return the place where it is said that the job is gone."""
    return h.div("#log-banner")[job_head.banner(file, now)]


def content(view: LogView) -> h.Fragment:
    """Return the content of the page, which a script can keep up to date."""
    query = view.filters.query
    marks = " ".join(("log", *(["with-times"] if view.filters.times else [])))
    return h.fragment[
        _form(view),
        state(view.said, view.wrong, counted(view, len(view.lines))),
        h.section(
            f"#{LINES}",
            class_=marks,
            role="log",
            aria_live="off",
            aria_label="Output of the replicas",
            tabindex="0",
            data_live=f"{view.path}/live",
            data_query=query,
        )[log_rows.html(view.lines, view.shown)],
    ]


def state(said: Iterable[str], wrong: str, counted: str) -> h.Element:
    """Return what is said about the lines: how many, which replicas are not there, and what could not be read."""
    return h.div(f"#{STATE}.log-state", role="status")[
        wrong and h.p(".wrong")[wrong], (h.p[sentence] for sentence in said), counted and h.p(".quiet")[counted]
    ]


def counted(view: LogView, number: int) -> str:
    """Return how many lines of how many replicas are shown."""
    filters = view.filters
    if not number:
        return "" if view.said else "No line has this text." if filters.text else "No line is there yet."
    most = filters.lines
    lines = f"The last {most:,} lines" if number >= most else "1 line" if number == 1 else f"{number:,} lines"
    return f"{lines} of {plural(len(set(filters.replicas) or set(view.replicas)), 'replica')}"


def _form(view: LogView) -> h.Element:
    filters = view.filters
    return h.form("#log-form.log-form", method="get", action=view.path, role="search", aria_label="Lines of the logs")[
        h.div(".log-form-row")[
            h.label(".field")[
                h.span["Filter"],
                h.input(type="search", name="text", value=filters.text, autocomplete="off", spellcheck="false"),
            ],
            _replicas(view.replicas, filters.replicas),
            h.label(".field")[
                h.span["Lines"],
                h.select(name="lines")[(_choice(number, filters.lines) for number in _numbers(filters.lines))],
            ],
            h.button(".primary", type="submit")["Show"],
        ],
        h.div(".log-form-row")[
            (
                h.label(".switch")[h.input(type="checkbox", name=name, checked=getattr(filters, name)), " ", text]
                for name, text in NAMES.items()
            ),
            h.span("#log-tools.log-tools", hidden=True)[
                h.label(".field")[
                    h.span["Find"], h.input("#log-find", type="search", autocomplete="off", spellcheck="false")
                ],
                h.output("#log-found.quiet", for_="log-find"),
                h.button("#log-back", type="button", aria_label="The match before")["↑"],
                h.button("#log-on", type="button", aria_label="The next match")["↓"],
                h.button("#log-follow", type="button", aria_pressed="true")["Follow"],
            ],
        ],
        filters.container and h.input(type="hidden", name="container", value=filters.container),
    ]


def _numbers(now: int) -> list[int]:
    return sorted({*CHOICES, now})


def _choice(number: int, now: int) -> h.Element:
    return h.option(value=str(number), selected=number == now)[f"{number:,}"]


def _replicas(names: Sequence[str], chosen: Sequence[str]) -> h.Element:
    some = f"Replicas: {len(chosen)} of {len(names)}" if chosen else f"Replicas: all {len(names)}"
    named = dict.fromkeys((*names[:MOST_NAMED], *chosen))
    colours = log_rows.ReplicaColours.of(names).colours
    return h.details(".log-replicas")[
        h.summary[some],
        h.div(".log-choices", role="group", aria_label="Replicas")[
            (
                h.label[
                    h.input(type="checkbox", name="replica", value=name, checked=name in chosen),
                    h.b(class_=f"who who-{colours.get(name, 0)}")[name],
                ]
                for name in named
            )
        ],
    ]
