"""The page of the stacks of a job: what each rank was doing when the page was asked to read it."""

from __future__ import annotations

from datetime import datetime

from htpy import Element, Node, button, details, div, form, fragment, h2, p, pre, section, span, strong, summary
from htpy import input as field

from trainshed.api.foreign_text import one_line
from trainshed.ui.model import JobFile, PageFrame, RanksAt
from trainshed.views.durations import human

from . import job_head
from .job_head import NOTHING, Query

#: What is said before stacks are read: of jobs in a cluster, and of those on this machine.
OF_CLUSTER = (
    "Shows the Python stack of each rank; the training continues. An ephemeral container with the capability "
    "SYS_PTRACE reads them in each pod, as with trainshed stacks; its entry stays in the pod until that is deleted. "
    "This takes some seconds, or a minute on a node that has to pull its image."
)
LOCAL = "Shows the Python stack of each rank, by py-spy; the training continues. This takes some seconds."


def page(file: JobFile, frame: PageFrame, query: Query = NOTHING) -> Element:
    """Return the page: the button, and what was read last."""
    return job_head.document(file, frame, job_head.STACKS, fragment[_button(file, frame), live(file, frame.now, query)])


def _button(file: JobFile, frame: PageFrame) -> Node:
    if file.deleted or file.status.over:
        return p(".hint")["The job is over: no rank does anything."]
    return section(".actions", aria_label="Read the stacks")[
        p(".hint")[LOCAL if frame.local else OF_CLUSTER],
        form(method="post", action=f"{file.address.path}{job_head.STACKS}")[
            field(type="hidden", name="csrf", value=frame.csrf),
            button(type="submit")[f"Read the stacks of {one_line(file.address.name)}"],
        ],
    ]


def live(file: JobFile, now: datetime, query: Query = NOTHING) -> Element:
    """Return what was read last."""
    del query
    found = file.stacks
    if found is None:
        return div("#live.job")[job_head.banner(file, now)]
    age = human((now - found.time).total_seconds())
    return div("#live.job")[
        job_head.banner(file, now),
        section(aria_labelledby="stacks-title")[
            h2("#stacks-title")["Stacks ", span(".unit")[f"read {age} ago"]],
            p(role="status")[found.headline] if found.headline else None,
            (p(".problem")[text] for text in (*found.problems, *found.advice)),
            map(_group, found.groups),
        ],
    ]


def _group(one: RanksAt) -> Element:
    more = len(one.frames) - len(one.important)
    return section(".stack")[
        p[strong[one.who], _waits(one) if one.waits else None],
        pre(tabindex="0", aria_label=f"Stack of {one.who}")["\n".join(one.important)],
        details[summary[f"All {len(one.frames)} frames"], pre(tabindex="0")["\n".join(one.frames)]] if more else None,
    ]


def _waits(one: RanksAt) -> str:
    return f" {'waits' if one.who.startswith('1 rank:') else 'wait'} for all others"
