"""The view of a cluster: the operator's health, the jobs that need attention, devices in use, and queues."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime

import htpy as h
import msgspec

from trainshed.api.foreign_text import one_line
from trainshed.fit.amounts import shown
from trainshed.plan.messages.phrases import plural
from trainshed.ui.cluster_reading import ClusterFile, ClusterQueue, LocalQueue, not_answered, not_permitted
from trainshed.ui.device_use import Devices
from trainshed.ui.model import STALLED, JobFile, PageFrame
from trainshed.views import rows
from trainshed.views.diagnosis import Diagnosis, Verdict

from . import layout

#: The states in which a job needs attention, the worst first, and the most jobs that are named.
NEEDING, MOST_JOBS = ("Failed", STALLED, "Blocked", "Restarting"), 20
#: The states that look as verdicts do, the worst first.
STATES = {Verdict.FAILED: "Failed", Verdict.WARNING: "Blocked", Verdict.UNKNOWN: "Created", Verdict.OK: "Succeeded"}
#: What is said before anything was read.
READING = "The cluster is being looked at: this takes a few seconds."
#: The width of a bar.
BAR = 100


class NeedyJob(msgspec.Struct, frozen=True):
    """A job that needs attention, and what to do about it: that of `trainshed explain`."""

    file: JobFile
    advice: tuple[str, ...]


class ClusterView(msgspec.Struct, frozen=True):
    """What the view shows; `needing` are all jobs that need attention by state, `needy` the worst of them.

    `has_operator` is whether there is one to look at: a run on this machine has none. `is_known` is whether all jobs
    were read once.
    """

    cluster: ClusterFile
    devices: Sequence[Devices]
    needy: Sequence[NeedyJob]
    needing: Counter[str]
    has_operator: bool = True
    is_known: bool = True


def needing(files: Iterable[JobFile]) -> Counter[str]:
    """Return how many jobs are in each state in which they need attention."""
    return Counter(file.state for file in files if file.state in NEEDING)


def page(view: ClusterView, frame: PageFrame) -> h.Element:
    """Return the page of the cluster."""
    content = h.fragment[h.h1["Cluster"], live(view, frame.now)]
    return layout.document(frame, "Cluster", content, current="/cluster", extra=("cluster.css",))


def live(view: ClusterView, now: datetime) -> h.Element:
    """Return the content of the page, which changes while it is open."""
    missing = filter(None, (not_permitted(view.cluster), not_answered(view.cluster)))
    return h.div("#live.cluster")[
        (h.p(".quiet")[text] for text in missing),
        _jobs(view, now),
        _devices(view.devices) if view.is_known else None,
        _health(view.cluster, now) if view.has_operator else None,
        _queues(view.cluster),
    ]


def _jobs(view: ClusterView, now: datetime) -> h.Element:
    total = view.needing.total()
    return h.section(aria_labelledby="needy-title")[
        h.h2("#needy-title")["Jobs that need attention"],
        [
            h.ol(".needy")[(_needy(one, now) for one in view.needy)],
            total > len(view.needy)
            and h.p(".quiet")[
                f"and {total - len(view.needy)} more: ",
                (
                    h.a(href=f"/?state={state}")[f"{number} {state} "]
                    for state, number in sorted(view.needing.items(), key=lambda item: NEEDING.index(item[0]))
                ),
            ],
        ]
        if total
        else h.p(".quiet")[
            "None." if view.is_known else "The jobs are not known yet: the API server has not answered."
        ],
    ]


def _needy(one: NeedyJob, now: datetime) -> h.Element:
    file, address = one.file, one.file.address
    decisive = file.status.decisive
    return h.li(id=f"needy:{address.namespace}/{address.kind}/{address.name}")[
        h.p(".needy-head")[
            layout.state(file.state),
            " ",
            h.a(href=address.path)[one_line(address.name)],
            " ",
            h.span(".kind")[f"{one_line(address.kind)} · {one_line(address.namespace)}"],
            " ",
            h.span(".quiet")[layout.ago(decisive.changed, now)] if decisive else None,
        ],
        h.p(".needy-why")[one_line(rows.why(file.status, file.document), rows.MOST_MESSAGE)],
        (h.p(".needy-advice")[text] for text in one.advice),
    ]


def _devices(found: Sequence[Devices]) -> h.Element:
    return h.section(aria_labelledby="devices-title")[
        h.h2("#devices-title")["GPUs and other devices"],
        [_resource(one) for one in found]
        if found
        else h.p(".quiet")["No job requests devices, and no node that you may look at offers any."],
    ]


def _resource(one: Devices) -> h.Element:
    offered = "" if one.offered is None else f" of {one.offered:,} that nodes offer" if one.offered else ""
    waits = f"; pods wait for {one.waiting:,} more" if one.waiting else ""
    waits += "; no node offers any" if one.offered == 0 else ""
    uses = sorted(one.by_namespace.items(), key=lambda item: (-item[1].in_use, -item[1].waiting, item[0]))
    name = one_line(one.resource)
    return h.div(".device")[
        h.h3[name],
        h.p[f"Jobs use {one.in_use:,}{offered}{waits}."],
        _bar(one.in_use, one.waiting, one.offered),
        h.table(".devices")[
            h.caption(".unseen")[f"{name} by namespace"],
            h.thead[
                h.tr[
                    h.th(scope="col")["Namespace"],
                    (h.th(".number", scope="col")[text] for text in ("In use", "Waiting", "Jobs")),
                ]
            ],
            h.tbody[
                (
                    h.tr[
                        h.th(scope="row")[h.a(href=f"/?namespace={namespace}")[one_line(namespace)]],
                        (h.td(".number")[f"{number:,}" if number else ""] for number in (u.in_use, u.waiting, u.jobs)),
                    ]
                    for namespace, u in uses
                )
            ],
        ]
        if uses
        else None,
    ]


def _bar(in_use: int, waiting: int, offered: int | None) -> h.Element | None:
    """Return a bar of what is in use and what is waited for, against what is offered."""
    whole = max(offered or 0, in_use + waiting)
    if not whole:
        return None
    first, second = (BAR * part / whole for part in (in_use, waiting))
    parts = [h.rect(".in-use", x="0", y="0", width=f"{first:.2f}", height="8")]
    if waiting:
        parts.append(h.rect(".wanted", x=f"{first:.2f}", y="0", width=f"{second:.2f}", height="8"))
    if offered and offered < whole:
        parts.append(h.rect(".limit", x=f"{BAR * offered / whole:.2f}", y="0", width="0.5", height="8"))
    found: h.Element = h.svg(".device-bar", viewBox=f"0 0 {BAR} 8", preserveAspectRatio="none", aria_hidden="true")[
        parts
    ]
    return found


def _health(cluster: ClusterFile, now: datetime) -> h.Element:
    found = [one for one in cluster.health if one.verdict is not Verdict.UNKNOWN]
    bad = [one for one in found if one.verdict is not Verdict.OK]
    good = [one for one in found if one.verdict is Verdict.OK]
    bad.sort(key=lambda one: list(STATES).index(one.verdict))
    return h.section(aria_labelledby="health-title")[
        h.h2("#health-title")["Operator"],
        h.p(".quiet")[READING] if cluster.read is None else None,
        h.ul(".health")[map(_diagnosis, bad)] if bad else None,
        h.details(id="health-good", open=not bad)[
            h.summary[f"{plural(len(good), 'check')} {'is' if len(good) == 1 else 'are'} OK"],
            h.ul(".health")[map(_diagnosis, good)],
        ]
        if good
        else None,
        h.p(".quiet")["Looked at ", layout.ago(cluster.read, now), " ago, as trainshed doctor does."]
        if cluster.read
        else None,
    ]


def _diagnosis(found: Diagnosis) -> h.Element:
    colour, shape = layout.STATES[STATES[found.verdict]]
    return h.li[
        h.svg(class_=f"shape {colour}", viewBox="0 0 16 16", width="12", height="12", aria_hidden="true")[
            h.path(d=shape)
        ],
        h.span(class_=f"verdict {colour}")[found.verdict.value],
        h.b[found.part],
        h.span[one_line(found.message)],
    ]


def _queues(cluster: ClusterFile) -> h.Element | None:
    if not cluster.local_queues and not cluster.cluster_queues:
        return None
    return h.section(aria_labelledby="queues-title")[
        h.h2("#queues-title")["Queues"],
        _cluster_queues(cluster.cluster_queues) if cluster.cluster_queues else None,
        _local_queues(cluster.local_queues) if cluster.local_queues else None,
    ]


def _cluster_queues(found: Sequence[ClusterQueue]) -> h.Element:
    return h.table[
        h.caption["ClusterQueues"],
        _head(("ClusterQueue", "Waiting", "Admitted", "Used of quota", "")),
        h.tbody[
            (
                h.tr[
                    h.th(scope="row")[one_line(queue.name)],
                    h.td(".number")[f"{queue.waiting:,}"],
                    h.td(".number")[f"{queue.admitted:,}"],
                    h.td[(_quota(queue, index) for index in range(len(queue.quotas)))],
                    h.td(".why")[one_line(queue.problem)],
                ]
                for queue in found
            )
        ],
    ]


def _quota(queue: ClusterQueue, index: int) -> h.Element:
    quota = queue.quotas[index]
    used, nominal = (shown(quota.resource, amount) for amount in (quota.used, quota.nominal))
    return h.div(".quota")[f"{used} of {nominal} {one_line(quota.resource)} ", h.span(".quiet")[one_line(quota.flavor)]]


def _local_queues(found: Sequence[LocalQueue]) -> h.Element:
    return h.table[
        h.caption["LocalQueues"],
        _head(("LocalQueue", "Waiting", "Admitted", "ClusterQueue", "")),
        h.tbody[
            (
                h.tr[
                    h.th(scope="row")[one_line(queue.name), " ", h.span(".kind")[one_line(queue.namespace)]],
                    h.td(".number")[f"{queue.waiting:,}"],
                    h.td(".number")[f"{queue.admitted:,}"],
                    h.td[one_line(queue.cluster_queue)],
                    h.td(".why")[f"stopped ({one_line(queue.stopped)})" if queue.stopped else ""],
                ]
                for queue in found
            )
        ],
    ]


def _head(names: Sequence[str]) -> h.Element:
    numbers = ("Waiting", "Admitted")
    return h.thead[
        h.tr[(h.th(scope="col", class_="number" if name in numbers else None)[name or "Why"] for name in names)]
    ]
