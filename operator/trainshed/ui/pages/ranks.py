"""The page of the ranks of a job: each replica with its node, its state, its restarts and what it did when."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from urllib.parse import urlencode

from htpy import Element, Node, a, caption, div, fragment, h2, p, section, span, strong, table, tbody, td, th, thead, tr

from trainshed.plan.facts import Facts
from trainshed.plan.messages.phrases import plural
from trainshed.ui import job_history
from trainshed.ui.drawings import patterns, timeline
from trainshed.ui.drawings.axis import Scale
from trainshed.ui.job_history import History
from trainshed.ui.model import JobFile, PageFrame
from trainshed.ui.replica_history import Row
from trainshed.ui.seen_facts import facts_of, lives_of

from . import job_head
from .job_head import NOTHING, Query

#: The columns by which the table can be sorted, with the texts of their heads.
SORTS = {"replica": "Replica", "node": "Node", "state": "State", "restarts": "Restarts"}
#: The most rows: a job may have more replicas than a browser shows at once.
MOST_ROWS = 1_000
#: What stands for the node of a replica that has none.
NOWHERE = "no node"
#: The chapters of the story that say which ranks are behind or lag.
LAG_CHAPTERS = ("Training", "Stalled")


def page(file: JobFile, frame: PageFrame, query: Query = NOTHING) -> Element:
    """Return the page; `sort` in the query is one of `SORTS`."""
    return job_head.document(file, frame, "/ranks", fragment[patterns.sheet(), live(file, frame.now, query)])


def live(file: JobFile, now: datetime, query: Query = NOTHING) -> Element:
    """Return the part of the page that changes with the job."""
    sort = query.get("sort", "")
    lives = lives_of(file.pods)
    facts = facts_of(file, file.deleted or now, lives)
    found = job_history.history(facts, lives) if facts else None
    return div("#live.job.ranks-page")[
        job_head.banner(file, now),
        _training(file),
        _ranks(file, facts, found, sort if sort in SORTS else "replica") if facts and found else None,
    ]


def _training(file: JobFile) -> Element | None:
    chapters = file.story.chapters if file.story else ()
    lines = [line for one in chapters if one.title in LAG_CHAPTERS for line in one.lines]
    return section(aria_label="Training")[(p[line] for line in lines)] if lines else None


def _ranks(file: JobFile, facts: Facts, found: History, sort: str) -> Element:
    rows = sorted(found.rows, key=_order(sort, facts))
    more = len(rows) - MOST_ROWS
    states = Counter(row.state for row in rows)
    counts = ", ".join(f"{count} {state}" for state, count in states.most_common())
    return section(aria_labelledby="ranks-title")[
        h2("#ranks-title")[plural(len(rows), "replica"), span(".unit")[f" {counts}"]],
        timeline.legend(found),
        table(".timeline.ranks", role="table")[
            caption(".unseen")["The replicas of the job, their nodes and what they did when, in UTC"],
            thead(role="rowgroup")[_head(file, found, sort)],
            _bodies(found, timeline.scale_of(found), rows[:MOST_ROWS], sort),
        ],
        p(".hint")[f"and {more} more"] if more > 0 else None,
    ]


def _order(sort: str, facts: Facts) -> Callable[[Row], tuple[object, ...]]:
    """Return by what rows are sorted; the rest of the order is that of roles and indexes."""
    places = {row: place for place, row in enumerate(facts.framework.roles)}

    def usual(row: Row) -> tuple[object, ...]:
        return places.get(row.replica.role, len(places)), row.replica.index

    def key(row: Row) -> tuple[object, ...]:
        if sort == "node":
            return node_of(row) == NOWHERE, node_of(row), *usual(row)
        if sort == "state":
            return not row.behind, row.is_well, row.ready, row.state, *usual(row)
        return (-_restarts(row), *usual(row)) if sort == "restarts" else usual(row)

    return key


def node_of(row: Row) -> str:
    """Return the node of a replica's pod."""
    return row.node or NOWHERE


def _restarts(row: Row) -> int:
    """Return how often a replica began again, as far as is known: in its pod, and with another one."""
    attempts = {one.attempt for one in row.spans}
    return row.restarts + max(0, len(attempts) - 1)


def _head(file: JobFile, found: History, sort: str) -> Element:
    heads = {name: _sorted_by(file, name, sort) for name in SORTS}
    return tr(role="row")[
        th(".replica", scope="col", role="columnheader", aria_sort="ascending" if sort == "replica" else None)[
            heads["replica"]
        ],
        th(".node", scope="col", role="columnheader", aria_sort="ascending" if sort == "node" else None)[heads["node"]],
        th(
            ".restarts.number", scope="col", role="columnheader", aria_sort="descending" if sort == "restarts" else None
        )[heads["restarts"]],
        th(".plot", scope="col", role="columnheader")[span(".unseen")["Time in UTC"], timeline.axis_of(found)],
        th(".does", scope="col", role="columnheader", aria_sort="ascending" if sort == "state" else None)[
            heads["state"]
        ],
    ]


def _sorted_by(file: JobFile, name: str, sort: str) -> Node:
    link = f"{file.address.path}/ranks?{urlencode({'sort': name})}"
    return a(href=link, aria_current="true" if name == sort else None)[SORTS[name]]


def _bodies(found: History, scale: Scale, rows: Sequence[Row], sort: str) -> Iterator[Element]:
    """Yield the rows, those of a node together where they are sorted by it."""
    if sort != "node":
        yield tbody(role="rowgroup")[(_row(found, scale, row) for row in rows)]
        return
    for node, group in groupby(rows, key=node_of):
        members = list(group)
        troubled = sum(not row.is_well for row in members)
        trouble = f", {troubled} of them with a failure or behind" if troubled else ""
        yield tbody(role="rowgroup")[
            tr(".group", role="row")[
                th(colspan="5", scope="rowgroup", role="rowheader")[
                    strong[node], f" {plural(len(members), 'replica')}{trouble}"
                ]
            ],
            (_row(found, scale, row) for row in members),
        ]


def _row(found: History, scale: Scale, row: Row) -> Element:
    restarts = _restarts(row)
    return tr(class_=timeline.STRAGGLER if row.behind else None, role="row")[
        th(".replica", scope="row", role="rowheader")[timeline.name_of(row)],
        td(".node", role="cell")[node_of(row)],
        td(".restarts.number", role="cell")[str(restarts) if restarts else ""],
        td(".plot", role="cell")[timeline.plot_of(found, scale, row)],
        td(".does", title=timeline.does(row), role="cell")[timeline.doing(row)],
    ]
