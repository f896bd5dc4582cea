"""The page of all jobs: the worst first, each with its state, its progress and why it is as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from urllib.parse import urlencode

import msgspec
from htpy import (
    Element,
    Node,
    a,
    button,
    caption,
    div,
    form,
    fragment,
    h1,
    label,
    li,
    option,
    p,
    progress,
    select,
    span,
    table,
    tbody,
    td,
    th,
    thead,
    tr,
    ul,
)
from htpy import input as field

from trainshed.api.foreign_text import one_line
from trainshed.ui.drawings.sparkline import sparkline
from trainshed.ui.model import DELETED, QUEUED, STALLED, JobFile, PageFrame
from trainshed.ui.samples import main_metric, values_of
from trainshed.views import rows as views_rows
from trainshed.views.durations import age as human_age

from . import layout

#: What stands for the state of a job that will not stay in it.
WARNED = "Warning"
#: The states from the one that needs attention most.
WORST_FIRST = (
    *("Failed", STALLED, "Blocked", "Restarting", WARNED, "Pending", "Created"),
    *("Running", QUEUED, "Suspended", "Succeeded", DELETED),
)
SORTS = {"worst": "Worst first", "newest": "Newest first", "name": "Name", "progress": "Progress"}
#: The most jobs of the page, and characters of a filter: one page of all jobs of a large cluster takes seconds to draw.
MOST_ROWS, MOST_CHARACTERS = 500, 253
#: Before all jobs.
LONG_AGO = datetime(1970, 1, 1, tzinfo=UTC)
#: The columns, with those that are numbers.
COLUMNS = ("State", "Job", "Ready", "Restarts", "Progress", "Goodput", "Age", "Why")
NUMBERS = ("Ready", "Restarts", "Goodput", "Age")


class Filters(msgspec.Struct, frozen=True):
    """Which jobs are shown, and in which order; what is empty does not matter."""

    namespace: str = ""
    kind: str = ""
    state: str = ""
    text: str = ""
    sort: str = ""

    def query(self, **changes: str) -> str:
        """Return them as the query of a URL, with changes; empty if all are empty."""
        values = {name: value for name, value in msgspec.structs.asdict(self).items() if value} | changes
        found = urlencode({name: value for name, value in values.items() if value})
        return f"?{found}" if found else ""


def filters_of(query: Mapping[str, str]) -> Filters:
    """Return the filters of a URL; `ns` is the Kubeflow dashboard's word for the namespace."""
    values = {name: text[:MOST_CHARACTERS] for name, text in query.items()}
    sort = values.get("sort", "")
    return Filters(
        values.get("namespace", values.get("ns", "")),
        values.get("kind", "").lower(),
        values.get("state", ""),
        values.get("text", "").strip(),
        sort if sort in SORTS else "",
    )


def chosen(files: Iterable[JobFile], filters: Filters) -> list[JobFile]:
    """Return the jobs that pass the filters, in their order; deleted ones only if they are asked for."""
    found = [file for file in _candidates(files, filters) if _in_state(file, filters.state)]
    found.sort(key=lambda file: views_rows.identity(file.document)[::-1])
    match filters.sort:
        case "newest":
            found.sort(key=lambda file: views_rows.created(file.document) or LONG_AGO, reverse=True)
        case "progress":
            found.sort(key=lambda file: -_percentage(file))
        case "name":
            pass
        case _:
            found.sort(key=_changed, reverse=True)
            found.sort(key=lambda file: _rank(WARNED if file.warns else file.state))
    return found


def _candidates(files: Iterable[JobFile], filters: Filters) -> list[JobFile]:
    """Return the jobs that pass all filters but that of the state, of which the counts are."""
    words = filters.text.lower().split()
    return [
        file
        for file in files
        if (not filters.namespace or file.address.namespace == filters.namespace)
        and (not filters.kind or file.address.kind == filters.kind)
        and (not words or _has(file, words))
    ]


def _has(file: JobFile, words: Sequence[str]) -> bool:
    address = file.address
    why = views_rows.why(file.status, file.document)
    text = f"{address.namespace}/{address.kind}/{address.name} {file.state} {why}".lower()
    return all(word in text for word in words)


def _in_state(file: JobFile, state: str) -> bool:
    return file.state == state if state else file.deleted is None


def _rank(state: str) -> int:
    return WORST_FIRST.index(state) if state in WORST_FIRST else len(WORST_FIRST)


def _changed(file: JobFile) -> datetime:
    decisive = file.status.decisive
    return decisive.changed if decisive else views_rows.created(file.document) or LONG_AGO


def _percentage(file: JobFile) -> int:
    found = file.status.trainer.percentage if file.status.trainer else None
    return -1 if found is None else found


def page(files: Sequence[JobFile], filters: Filters, frame: PageFrame) -> Element:
    """Return the page of jobs."""
    content = fragment[
        h1["Jobs"],
        _search(files, filters),
        counts(files, filters),
        content_of(files, filters, frame.now, is_known=frame.is_known),
    ]
    return layout.document(frame, "Jobs", content, current="/")


def content_of(files: Sequence[JobFile], filters: Filters, now: datetime, *, is_known: bool = True) -> Element:
    """Return the table of the jobs that pass the filters, or that there are none."""
    found = chosen(files, filters)
    return div("#content")[
        table(".jobs", role="table")[
            caption(".unseen")["Jobs, with their states, and why they have them"],
            thead(role="rowgroup")[
                tr(role="row")[(th(role="columnheader", scope="col", class_=_class(name))[name] for name in COLUMNS)]
            ],
            tbody("#rows", role="rowgroup")[(row(file, now) for file in found[:MOST_ROWS])],
        ],
        beside(files, passed=len(found), is_known=is_known),
    ]


def _class(column: str) -> str:
    return f"{column.lower()} number" if column in NUMBERS else column.lower()


def row(file: JobFile, now: datetime) -> Element:
    """Return the row of a job; its id is that of its address."""
    address = file.address
    cells = dict(
        zip(
            views_rows.header(namespaces=True, wide=True),
            views_rows.row(file.document, now, namespaces=True, wide=True),
            strict=True,
        )
    )
    ready, restarts = cells["READY"], cells["RESTARTS"]
    return tr(
        id=address.element, role="row", class_=f"job {'waiting' if file.warns else layout.colour_of(file.state)}"
    )[
        td(".state", role="cell")[layout.state(file.state), file.warns and layout.warning()],
        th(".job", role="rowheader", scope="row")[
            a(href=address.path)[one_line(address.name)],
            span(".kind")[f"{one_line(address.kind)} · {cells['NAMESPACE']}"],
        ],
        td(".ready.number", role="cell", data_label="Ready")["" if ready == views_rows.NONE else ready],
        td(".restarts.number", role="cell", data_label="Restarts")["" if restarts == "0" else restarts],
        td(".progress", role="cell")[_progress(file, cells["PROGRESS"])],
        td(".goodput.number", role="cell", data_label="Goodput")[_given(cells["GOODPUT"])],
        td(".age.number", role="cell", data_label="Age")[
            layout.ago(views_rows.created(file.document), now, f"age:{address.element}")
        ],
        td(".why", role="cell")[cells["WHY"]],
    ]


def _given(text: str) -> str:
    return "" if text == views_rows.NONE else text


def _progress(file: JobFile, text: str) -> Node:
    report = file.status.trainer
    metric = main_metric(file.samples)
    drawn = sparkline(values_of(file.samples, metric), f"{one_line(metric)} over time") if metric else None
    bar = report and report.percentage is not None
    return fragment[
        progress(max="100", value=str(report.percentage), aria_label="progress") if report and bar else None,
        span(".text")[_given(text)],
        drawn,
    ]


def counts(files: Sequence[JobFile], filters: Filters) -> Element:
    """Return how many jobs there are in each state, as links that filter by it."""
    candidates = _candidates(files, filters)
    found = Counter(file.state for file in candidates)
    total = sum(file.deleted is None for file in candidates)
    states = sorted(found, key=_rank)
    return ul("#counts.counts", aria_label="Jobs by state")[
        _count("All", str(total), filters.query(state=""), is_chosen=not filters.state),
        (
            _count(
                layout.state(one),
                str(found[one]),
                filters.query(state="" if one == filters.state else one),
                is_chosen=one == filters.state,
            )
            for one in states
        ),
    ]


def _count(what: Node, count: str, query: str, *, is_chosen: bool) -> Element:
    return li[a(href=f"/{query}", aria_current="true" if is_chosen else None)[what, " ", span[count]]]


def beside(files: Sequence[JobFile], *, passed: int, is_known: bool = True) -> Element:
    """Return that no job passes the filters, and what to do about it, or how many of those that do are not shown."""
    if passed > MOST_ROWS:
        return div("#empty")[p[f"The first {MOST_ROWS} of {passed} jobs are shown. The filters find the others."]]
    if passed:
        return div("#empty")
    if not is_known:
        return div("#empty")[p["The jobs are not known yet: the API server has not answered."]]
    if not any(file.deleted is None for file in files):
        return div("#empty")[p["There are no jobs here yet. ", "trainshed submit creates them."]]
    return div("#empty")[p["No job passes these filters. ", a(href="/")["Show all jobs"]]]


def _search(files: Sequence[JobFile], filters: Filters) -> Element:
    namespaces = sorted({file.address.namespace for file in files} | ({filters.namespace} - {""}))
    kinds = sorted({file.address.kind for file in files} | ({filters.kind} - {""}))
    return form("#filters.filters", method="get", action="/", role="search")[
        filters.state and field(type="hidden", name="state", value=filters.state),
        label[span["Text"], field(type="search", name="text", value=filters.text, placeholder="name or reason")],
        _choice("Namespace", "namespace", {one: one for one in namespaces}, filters.namespace),
        _choice("Kind", "kind", {one: one for one in kinds}, filters.kind),
        _choice("Order", "sort", {key: SORTS[key] for key in list(SORTS)[1:]}, filters.sort, SORTS["worst"]),
        button(type="submit")["Show"],
    ]


def _choice(title: str, name: str, values: Mapping[str, str], current: str, default: str = "all") -> Element:
    return label[
        span[title],
        select(name=name)[
            option(value="")[default],
            (option(value=one, selected=one == current)[one_line(text)] for one, text in values.items()),
        ],
    ]


def ages(files: Iterable[JobFile], now: datetime) -> dict[str, str]:
    """Return the texts that change without the jobs, by the ids of their elements."""
    return {f"age:{file.address.element}": human_age(views_rows.created(file.document), now) for file in files}
