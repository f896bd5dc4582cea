"""The timeline of a job: a row for the job, for each limit ahead, and for each replica, over one axis of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from datetime import timedelta
from itertools import groupby

from htpy import (
    Element,
    a,
    caption,
    details,
    div,
    g,
    line,
    p,
    path,
    span,
    summary,
    svg,
    table,
    tbody,
    td,
    th,
    thead,
    title,
    tr,
    use,
)

from trainshed.plan.messages.phrases import plural
from trainshed.ui.job_history import Ahead, History
from trainshed.ui.replica_history import Act, Mark, Row, Span
from trainshed.views.durations import exact, human

from . import axis, patterns
from .axis import Scale

#: The height of a row, of its bars and of the axis in px.
ROW, BAR, AXIS = 24, 12, 24
#: A job with more replicas shows only this number of rows, the worst first, and one for all others.
MOST_ROWS, WORST = 64, 24
#: The share of the time so far that is shown of the future, at most; the least; and that of limits further away.
FUTURE, MARGIN, BEYOND = 0.5, 0.02, 0.1
#: The least width of a bar in percent, and the slots of the row that sums replicas up.
HAIR, SLOTS = 0.15, 120
#: The most spans and marks of a row, and rows of the table of times: a hostile job has no more.
MOST_SPANS, MOST_TIMES = 200, 500


def scale_of(history: History) -> Scale:
    """Return what is shown: all of the past, and of the future the next limits as far as they are near."""
    past = max(timedelta(seconds=1), history.end - history.begin)
    if history.over:
        return Scale(history.begin, history.end + past * MARGIN)
    near = [one.time for one in history.ahead if one.time - history.now <= past * FUTURE]
    beyond = history.now + past * (BEYOND if len(near) < len(history.ahead) else MARGIN)
    return Scale(history.begin, max(beyond, *(time + past * MARGIN for time in near)) if near else beyond)


def draw(history: History, link: str = "") -> Element:
    """Return the timeline; `link` leads to one with all replicas, empty to show all of them here."""
    scale = scale_of(history)
    chosen, others = chosen_rows(history.rows) if link else (history.rows, ())
    return table(".timeline")[
        caption(".unseen")["What the job and its replicas did and when"],
        thead[_head(history)],
        tbody[
            _job(history, scale),
            (_limit(history, scale, one) for one in history.ahead if one.replica is None),
            _rows(history, scale, chosen),
            _sum(scale, others, link) if others else None,
        ],
    ]


def chosen_rows(rows: Sequence[Row]) -> tuple[Sequence[Row], Sequence[Row]]:
    """Return the rows that are shown, in their order, and those that are summed up."""
    if len(rows) <= MOST_ROWS:
        return rows, ()
    worst = sorted(range(len(rows)), key=lambda place: _goodness(rows[place]))[:WORST]
    shown = set(worst)
    return [rows[place] for place in sorted(shown)], [row for place, row in enumerate(rows) if place not in shown]


def _goodness(row: Row) -> tuple[bool, bool, int, int]:
    """Return by what rows are sorted, the worst first; leading replicas come before others that do as well."""
    return row.is_well, row.ready, -len(row.marks), row.replica.index


def axis_of(history: History) -> Element:
    """Return the axis of the rows of a table, in its head."""
    scale = scale_of(history)
    return svg(".axis", height=AXIS, width="100%", aria_hidden="true")[
        g(id="timeline-grid")[axis.lines(scale, ROW), None if history.over else _now(history, scale)],
        axis.labels(scale, AXIS),
    ]


def _head(history: History) -> Element:
    return tr[
        th(".replica", scope="col")["Replica"],
        th(".node", scope="col")["Node"],
        th(".plot", scope="col")[span(".unseen")["Time in UTC"], axis_of(history)],
        th(".does", scope="col")["State"],
    ]


def _now(history: History, scale: Scale) -> Element:
    place = f"{scale.at(history.now)}%"
    return line(class_="now", x1=place, x2=place, y1=0, y2=ROW)


def _row(name: str | Element, node: str, drawing: Element, does: str | Element, css: str = "") -> Element:
    return tr(class_=css or None)[
        th(".replica", scope="row")[name],
        td(".node", title=node or None)[node],
        td(".plot")[drawing],
        td(".does", title=does if isinstance(does, str) and does else None)[does],
    ]


def _plot(label: str, *children: Iterable[Element] | Element | None) -> Element:
    return svg(".bars", height=ROW, width="100%", role="img", aria_label=label)[
        use(href="#timeline-grid", y=0), *children
    ]


def _job(history: History, scale: Scale) -> Element:
    spans, marks = history.spans[-MOST_SPANS:], history.marks[-MOST_SPANS:]
    last = spans[-1] if spans else None
    does = f"{last.act} {human(last.seconds)}" if last and last.lasts else ""
    drawing = _plot(
        _told("The job", spans, marks), (_bar(scale, one) for one in spans), (_mark(scale, one) for one in marks)
    )
    return _row("job", "", drawing, does, "whole-job")


def _limit(history: History, scale: Scale, ahead: Ahead) -> Element:
    """Return the row of a limit: a dashed line from now on, with an arrow if it is further away than is shown."""
    left = human((ahead.time - history.now).total_seconds())
    text = f"in {left}: {ahead.text}"
    return _row(ahead.name, "", _plot(f"{ahead.name} {text}", _ahead(history, scale, ahead)), text, "limit")


def _ahead(history: History, scale: Scale, ahead: Ahead) -> Element:
    begin = scale.at(min(history.now, scale.end))
    end, is_beyond = scale.at(ahead.time), ahead.time > scale.end
    middle = ROW // 2
    tip = path(class_="tip", d="M-7-4l6 4-6 4z" if is_beyond else "M0-6v12")
    return g(class_="ahead")[
        title[f"{ahead.name}, {ahead.time:%d %b %H:%M:%S} UTC: {ahead.text}"],
        line(x1=f"{begin}%", x2=f"{end}%", y1=middle, y2=middle),
        svg(x=f"{end}%", y=middle, overflow="visible", width=1, height=1)[tip],
    ]


def _rows(history: History, scale: Scale, rows: Sequence[Row]) -> Iterator[Element]:
    role = rows[0].replica.role if rows else ""
    for row in rows:
        css = "" if row.replica.role == role else "first-of-role"
        role = row.replica.role
        yield _row(row.name, row.node, plot_of(history, scale, row), does(row), css)


def plot_of(history: History, scale: Scale, row: Row) -> Element:
    """Return what a replica did, and what its pod has ahead."""
    spans, marks = row.spans[-MOST_SPANS:], row.marks[-MOST_SPANS:]
    ahead = next((one for one in history.ahead if one.replica == row.replica), None)
    return _plot(
        _told(row.name, spans, marks),
        (_bar(scale, one) for one in spans),
        (_mark(scale, one) for one in marks),
        _ahead(history, scale, ahead) if ahead else None,
    )


def does(row: Row) -> str:
    """Return what a replica does, in a few words: `ImagePull 5m: pytorch: ErrImagePull`."""
    last = row.last
    if last and last.lasts:
        note = f": {last.note}" if last.note and last.act is not Act.RUNNING else ""
        again = f", restarted {plural(row.restarts, 'time')}" if row.restarts else ""
        return f"{last.act} {human(last.seconds)}{again}{note}"
    if row.pod is not None and row.pod.over:
        return row.marks[-1].text if row.marks else row.state
    return {"Gone": "no pod", "NotCreated": "not created"}.get(row.state, row.state)


def _bar(scale: Scale, one: Span) -> Element:
    at, width = scale.at(one.begin), max(HAIR, scale.width(one.begin, one.end))
    attributes: dict[str, str | int] = {"x": f"{at}%", "y": (ROW - BAR) // 2, "width": f"{width}%", "height": BAR}
    return patterns.area(one.act, attributes, title[one.text])


def _mark(scale: Scale, one: Mark) -> Element:
    return svg(class_="mark", x=f"{scale.at(one.time)}%", y=ROW // 2, overflow="visible", width=1, height=1)[
        title[f"{one.time:%H:%M:%S} {one.text}"], patterns.shape(one.sign)
    ]


def _told(name: str, spans: Sequence[Span], marks: Sequence[Mark]) -> str:
    """Return a drawing in words, for those who do not see it."""
    parts = [f"{one.act} for {exact(one.seconds)}" for one in spans[-12:]]
    return f"{name}: {', '.join((*parts, *(one.text for one in marks[-3:]))) or 'nothing yet'}"


def _sum(scale: Scale, rows: Sequence[Row], link: str) -> Element:
    """Return the row of the replicas that have none: in each slot of time, how many did what, from below."""
    states = Counter(row.state for row in rows)
    told = ", ".join(f"{count} {state}" for state, count in states.most_common(4))
    drawing = _plot(f"{plural(len(rows), 'other replica')}: {told}", _stacked(scale, rows))
    return _row(a(href=link)[f"{len(rows)} others"], "", drawing, told, "others")


def _stacked(scale: Scale, rows: Sequence[Row]) -> Iterator[Element]:
    counts: list[Counter[Act]] = [Counter() for _ in range(SLOTS)]
    for row in rows:
        for one in row.spans:
            first, last = int(scale.at(one.begin) * SLOTS / 100), int(scale.at(one.end) * SLOTS / 100)
            for slot in range(first, min(max(last, first + 1), SLOTS)):
                counts[slot][one.act] += 1
    at = 0
    for found, same in groupby(counts):
        width, low = sum(1 for _ in same), float(ROW - 2)
        for act, count in sorted(found.items(), key=lambda item: item[0] is not Act.RUNNING):
            height = round((ROW - 4) * min(1.0, count / max(len(rows), found.total())), 2)
            low -= height
            place: dict[str, str | int] = {"x": f"{100 * at / SLOTS:.3f}%", "width": f"{100 * width / SLOTS:.3f}%"}
            attributes: dict[str, str | int] = {"y": f"{low:.2f}", "height": f"{height}"}
            yield patterns.area(act, place | attributes, title[f"{count} of {len(rows)}: {act}"])
        at += width


def legend(history: History) -> Element:
    """Return what the bars and marks of a timeline mean, those that it has."""
    acts = dict.fromkeys(one.act for row in history.rows for one in row.spans)
    acts |= dict.fromkeys(one.act for one in history.spans)
    signs = dict.fromkeys(one.sign for row in history.rows for one in row.marks)
    signs |= dict.fromkeys(one.sign for one in history.marks)
    return span(".legend")[
        (span[key(act), f" {act} "] for act in Act if act in acts),
        (
            span[
                svg(".key", width=16, height=16, aria_hidden="true")[
                    svg(x=8, y=8, overflow="visible", width=1, height=1)[patterns.shape(sign)]
                ],
                f" {sign} ",
            ]
            for sign in signs
        ),
    ]


def key(act: Act) -> Element:
    """Return the swatch of an act."""
    attributes: dict[str, str | int] = {"x": 1, "y": 3, "width": 14, "height": 10}
    return svg(".key", width=16, height=16, aria_hidden="true")[patterns.area(act, attributes)]


def times(history: History) -> Element:
    """Return the spans and marks as a table: what the drawing shows to those who point at it."""
    found = [("job", one) for one in history.spans]
    found += [(row.name, one) for row in history.rows for one in row.spans]
    cut = len(found) - MOST_TIMES
    return details(".values")[
        summary["Times as a table"],
        div(".scrolls", tabindex="0", role="region", aria_label="Times as a table")[
            table[
                caption(".unseen")["What the job and its replicas did and when"],
                thead[tr[(th(scope="col")[name] for name in ("Replica", "What", "From", "To", "Length", "Note"))]],
                tbody[(_time_row(name, one) for name, one in found[:MOST_TIMES])],
            ]
        ],
        p(".hint")[f"and {cut} more"] if cut > 0 else None,
    ]


def _time_row(name: str, one: Span) -> Element:
    ends = "now" if one.lasts else f"{one.end:%H:%M:%S}"
    return tr[
        th(scope="row")[name],
        td[str(one.act)],
        td(".time")[f"{one.begin:%d %b %H:%M:%S}"],
        td(".time")[ends],
        td(".number")[exact(one.seconds)],
        td(".message")[one.note],
    ]
