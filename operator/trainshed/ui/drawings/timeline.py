"""The timeline of a job: a row for the job, for each limit ahead, and for each replica, over one axis of time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import timedelta
from itertools import groupby
from math import ceil

from htpy import (
    Element,
    Node,
    a,
    abbr,
    caption,
    details,
    div,
    fragment,
    g,
    li,
    line,
    p,
    span,
    strong,
    summary,
    svg,
    table,
    tbody,
    td,
    th,
    thead,
    tr,
    ul,
)
from markupsafe import escape

from trainshed.plan.messages.phrases import plural
from trainshed.ui.job_history import Ahead, History
from trainshed.ui.replica_history import Act, Mark, Row, Span
from trainshed.views.durations import exact, human

from . import axis, patterns
from .axis import Scale
from .markup import Markup, tag, titled

#: The height of a row, of its bars and of the axis in px.
ROW, BAR, AXIS = 24, 12, 24
#: A job with more replicas shows only so many rows, the worst and some that are well, and one for all others.
MOST_ROWS, WORST, SOME = 64, 24, 4
#: The lines below every row, which the axis has.
GRID = tag("use", {"href": "#timeline-grid"})
#: The class of the row of a replica that is behind, and what its name says of it besides the sign.
STRAGGLER, BEHIND = "straggler", span(".unseen")[" is behind"]
#: The share of the time so far that is shown of the future, at most; the least; and that of limits further away.
FUTURE, MARGIN, BEYOND = 0.8, 0.02, 0.1
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
    """Return the rows that are shown, in their order, and those that are summed up.

    Of a large job these are the worst, and with few of them some that are well to compare them with.
    """
    if len(rows) <= MOST_ROWS:
        return rows, ()
    worst = sorted(range(len(rows)), key=lambda place: _goodness(rows[place]))[:WORST]
    troubled = sum(not rows[place].is_well for place in worst)
    shown = set(worst[: troubled + SOME])
    return [rows[place] for place in sorted(shown)], [row for place, row in enumerate(rows) if place not in shown]


def _goodness(row: Row) -> tuple[bool, bool, int, int]:
    """Return by what rows are sorted, the worst first; leading replicas come before others that do as well."""
    return row.is_well, row.ready and not row.is_well, -len(row.marks), row.replica.index


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


def _row(name: Node, node: str, drawing: Markup, does: Node, css: str = "") -> Element:
    return tr(class_=css or None)[
        th(".replica", scope="row")[name],
        td(".node", title=node or None)[node],
        td(".plot")[drawing],
        td(".does", title=does if isinstance(does, str) and does else None)[does],
    ]


def _plot(label: str, *children: Markup) -> Markup:
    attributes = {"class": "bars", "height": ROW, "width": "100%", "role": "img", "aria-label": label}
    return tag("svg", attributes, GRID, *children)


def _job(history: History, scale: Scale) -> Element:
    spans, marks = history.spans[-MOST_SPANS:], history.marks[-MOST_SPANS:]
    last = spans[-1] if spans else None
    does = f"{last.act} {human(last.seconds)}" if last and last.lasts else ""
    bars, signs = [_bar(scale, one) for one in spans], [_mark(scale, one) for one in marks]
    drawing = _plot(_label_of("The job", spans, marks), *bars, *signs)
    return _row("job", "", drawing, does, "whole-job")


def _limit(history: History, scale: Scale, ahead: Ahead) -> Element:
    """Return the row of a limit: a dashed line from now on, with an arrow if it is further away than is shown."""
    left = human((ahead.time - history.now).total_seconds())
    text = f"in {left}: {ahead.text}"
    drawing = _plot(f"{ahead.name} {text}", _ahead(history, scale, ahead))
    return _row(
        ahead.name, "", drawing, f"▲ {text}" if ahead.warns else text, "limit warns" if ahead.warns else "limit"
    )


def _ahead(history: History, scale: Scale, ahead: Ahead) -> Markup:
    begin = scale.at(min(history.now, scale.end))
    end, is_beyond = scale.at(ahead.time), ahead.time > scale.end
    middle = ROW // 2
    tip = tag("path", {"class": "tip", "d": "M-7-4l6 4-6 4z" if is_beyond else "M0-6v12"})
    return tag(
        "g",
        {"class": "ahead"},
        titled(f"{ahead.name}, {ahead.time:%d %b %H:%M:%S} UTC: {ahead.text}"),
        tag("line", {"x1": f"{begin}%", "x2": f"{end}%", "y1": middle, "y2": middle}),
        tag("svg", {"x": f"{end}%", "y": middle, "overflow": "visible", "width": 1, "height": 1}, tip),
    )


def _rows(history: History, scale: Scale, rows: Sequence[Row]) -> Iterator[Element]:
    role = rows[0].replica.role if rows else ""
    for row in rows:
        css = "" if row.replica.role == role else "first-of-role"
        role = row.replica.role
        css = f"{css} {STRAGGLER}".strip() if row.behind else css
        yield _row(name_of(row), row.node, plot_of(history, scale, row), doing(row), css)


def name_of(row: Row) -> Node:
    """Return the name of a replica, with a sign before that of one that is behind."""
    return fragment[span(".late", aria_hidden="true")["▼ "], row.name, BEHIND] if row.behind else row.name


def doing(row: Row) -> Node:
    """Return what a replica does, and that it is behind; screen readers have read that with its name."""
    return fragment[span(".late", aria_hidden="true")["▼ behind "], does(row)] if row.behind else does(row)


def plot_of(history: History, scale: Scale, row: Row) -> Markup:
    """Return what a replica did, and what its pod has ahead."""
    spans, marks = row.spans[-MOST_SPANS:], row.marks[-MOST_SPANS:]
    ahead = next((one for one in history.ahead if one.replica == row.replica), None)
    return _plot(
        _label_of(row.name, spans, marks),
        *[_bar(scale, one) for one in spans],
        *_other_nodes(scale, row, spans),
        *[_mark(scale, one) for one in marks],
        *((_ahead(history, scale, ahead),) if ahead else ()),
    )


def _other_nodes(scale: Scale, row: Row, spans: Sequence[Span]) -> Iterator[Markup]:
    """Yield the nodes of attempts that were not on the node of the row, each on the longest bar of its attempt."""
    elsewhere = [one for one in spans if one.node not in ("", row.node)]
    for _, same in groupby(elsewhere, key=lambda one: (one.attempt, one.node)):
        longest = max(same, key=lambda one: one.seconds)
        width = scale.width(longest.begin, longest.end)
        place = {"x": f"{scale.at(longest.begin)}%", "y": (ROW - BAR) // 2, "width": f"{width}%", "height": BAR}
        text = Markup(f'<text x="4" y="{BAR - 2}">{escape(longest.node)}</text>')  # nosec B704 - escaped
        yield tag("svg", {"class": "other-node", **place}, text)


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


def _bar(scale: Scale, one: Span) -> Markup:
    at, width = scale.at(one.begin), max(HAIR, scale.width(one.begin, one.end))
    place = {"x": f"{at}%", "y": (ROW - BAR) // 2, "width": f"{width}%", "height": BAR}
    return patterns.area(one.act, place, one.text)


def _mark(scale: Scale, one: Mark) -> Markup:
    return patterns.mark(one.sign, f"{scale.at(one.time)}%", ROW // 2, f"{one.time:%H:%M:%S} {one.text}")


def _label_of(name: str, spans: Sequence[Span], marks: Sequence[Mark]) -> str:
    """Return a drawing in words, for screen readers."""
    parts = [f"{one.act} for {exact(one.seconds)}" for one in spans[-12:]]
    return f"{name}: {', '.join((*parts, *(one.text for one in marks[-3:]))) or 'nothing yet'}"


def _sum(scale: Scale, rows: Sequence[Row], link: str) -> Element:
    """Return the row of the replicas that have none: in each slot of time, how many did what, from below."""
    states = Counter(row.state for row in rows)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common(4))
    drawing = _plot(f"{plural(len(rows), 'other replica')}: {counts}", *_stacked(scale, rows))
    return _row(a(href=link)[f"{len(rows)} others"], "", drawing, counts, "others")


def _stacked(scale: Scale, rows: Sequence[Row]) -> Iterator[Markup]:
    counts: list[Counter[Act]] = [Counter() for _ in range(SLOTS)]
    for row in rows:
        for one in row.spans:
            first, last = int(scale.at(one.begin) * SLOTS / 100), ceil(scale.at(one.end) * SLOTS / 100)
            for slot in range(first, min(max(last, first + 1), SLOTS)):
                counts[slot][one.act] += 1
    at = 0
    for found, same in groupby(counts):
        width, low = sum(1 for _ in same), float(ROW - 2)
        for act, count in sorted(found.items(), key=lambda item: item[0] is not Act.RUNNING):
            height = round((ROW - 4) * min(1.0, count / max(len(rows), found.total())), 2)
            low -= height
            place = {"x": f"{100 * at / SLOTS:.3f}%", "width": f"{100 * width / SLOTS:.3f}%"}
            room = {"y": f"{low:.2f}", "height": f"{height}"}
            yield patterns.area(act, place | room, f"{count} of {len(rows)}: {act}")
        at += width


def legend(history: History) -> Element:
    """Return what the bars and marks of a timeline mean, those that it has."""
    acts = dict.fromkeys(one.act for row in history.rows for one in row.spans)
    acts |= dict.fromkeys(one.act for one in history.spans)
    signs = dict.fromkeys(one.sign for row in history.rows for one in row.marks)
    signs |= dict.fromkeys(one.sign for one in history.marks)
    return span(".legend")[
        (span[key(act), " ", abbr(title=patterns.MEANINGS[act])[act], " "] for act in Act if act in acts),
        (
            span[
                svg(".key", width=16, height=16, aria_hidden="true")[patterns.mark(sign, "8", 8)],
                f" {sign} ",
            ]
            for sign in signs
        ),
    ]


def meanings(history: History) -> Element:
    """Return what the words of the legend mean, for readers who cannot point at them."""
    acts = {one.act for row in history.rows for one in row.spans} | {one.act for one in history.spans}
    return details(".values")[
        summary["What these words mean"],
        ul(".meanings")[(li[strong[act], f": {patterns.MEANINGS[act]}"] for act in Act if act in acts)],
    ]


def key(act: Act) -> Element:
    """Return the swatch of an act."""
    place = {"x": 1, "y": 3, "width": 14, "height": 10}
    return svg(".key", width=16, height=16, aria_hidden="true")[patterns.area(act, place)]


def times(history: History) -> Element:
    """Return the spans and marks as a table: what the drawing shows where the pointer is."""
    found = [("job", one) for one in history.spans]
    found += [(row.name, one) for row in history.rows for one in row.spans]
    cut = len(found) - MOST_TIMES
    return details(".values")[
        summary["Times as a table"],
        div(".scrolls", tabindex="0")[
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
