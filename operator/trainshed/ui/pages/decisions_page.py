"""The page of the decisions about a job: one at a time, with a slider through all of them."""

from __future__ import annotations

from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec
from htpy import (
    Element,
    Node,
    a,
    button,
    code,
    dd,
    div,
    dl,
    dt,
    form,
    fragment,
    h2,
    label,
    nav,
    option,
    p,
    section,
    select,
    span,
)
from htpy import input as field

from trainshed.api.foreign_text import one_line
from trainshed.decisions.steps import NONE_ABOUT_POD, Step, clock
from trainshed.ui.model import JobFile, PageFrame
from trainshed.views.rows import with_namespace

from . import job_head
from .job_head import DECISIONS

#: What the address says: a place of the slider, the number of a decision, and a pod.
STEP, DECISION, POD = "step", "decision", "pod"
#: The most digits of a number in an address, and characters of the name of a pod (that of a DNS subdomain).
MOST_DIGITS, LONGEST_POD = 9, 253
ASK = "kubectl annotate {job} trainshed.dev/record=Decisions"


class ShownDecisions(msgspec.Struct, frozen=True):
    """The last decisions about a job as steps, or those about a pod, of which `left` are left out; all is printable.

    `pods` may be chosen, `answers` say how the chosen pod went, and `problem` why there are no decisions.
    """

    steps: tuple[Step, ...] = ()
    left: int = 0
    pods: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()
    problem: str = ""


def pod_of(query: Mapping[str, str]) -> str:
    """Return the pod that an address names; empty for all."""
    return one_line(query.get(POD, ""))[:LONGEST_POD]


def place_of(found: ShownDecisions, query: Mapping[str, str]) -> int:
    """Return the index of the step that an address means: the last one if it says nothing that is there."""
    last = len(found.steps) - 1
    if (step := _number(query.get(STEP, ""))) is not None:
        return min(max(step - 1, 0), last)
    if (n := _number(query.get(DECISION, ""))) is not None:
        return max((place for place, step in enumerate(found.steps) if step.n <= n), default=0)
    return last


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() and len(text) <= MOST_DIGITS else None


def query_of(step: Step, pod: str) -> str:
    """Return the query of the address of a step, which stays when more decisions come, or the oldest go."""
    return f"?{urlencode({DECISION: str(step.n)} | ({POD: pod} if pod else {}))}"


def page(file: JobFile, frame: PageFrame, found: ShownDecisions, query: Mapping[str, str]) -> Element:
    """Return the page of the step that the query means."""
    pod, place = pod_of(query), place_of(found, query)
    content = div(".job")[
        job_head.banner(file, frame.now),
        p(".problem")[found.problem] if found.problem else None,
        _choice(file, found, place, pod),
        _step(file, found, place, pod) if found.steps else None,
        p[NONE_ABOUT_POD] if not (found.steps or found.answers or found.problem) else None,
        section(aria_label="What became of the pod")[(p(".problem")[answer] for answer in found.answers)]
        if found.answers
        else None,
    ]
    return job_head.document(file, frame, DECISIONS, content)


def hint(file: JobFile, frame: PageFrame) -> Element | None:
    """Return, for a job that does not ask for it, how its decisions are recorded; None if they are, or it is gone."""
    if frame.local or file.deleted or job_head.has_decisions(file, frame):
        return None
    return p(".hint")[
        "The operator records its decisions about jobs that ask for it: ",
        code[ASK.format(job=one_line(with_namespace(file.document)))],
        ". If it records those about all jobs, ",
        a(href=f"{file.address.path}{DECISIONS}")["Decisions"],
        " has them.",
    ]


def _choice(file: JobFile, found: ShownDecisions, place: int, pod: str) -> Element | None:
    """Return the choice of a pod, which stays at the decision that is shown."""
    names = [*found.pods, *([pod] if pod and pod not in found.pods else [])]
    if not names:
        return None
    return form(".filters.visits", method="get", action=f"{file.address.path}{DECISIONS}")[
        field(type="hidden", name=DECISION, value=str(found.steps[place].n)) if found.steps else None,
        label[
            span["Pod"],
            select(name=POD)[
                option(value="")["all"],
                (option(value=name, selected=name == pod)[one_line(name)] for name in names),
            ],
        ],
        button(type="submit")["Show"],
    ]


def _step(file: JobFile, found: ShownDecisions, place: int, pod: str) -> Node:
    step, count, path = found.steps[place], len(found.steps), f"{file.address.path}{DECISIONS}"
    where = f"step {place + 1} of {count}"
    return fragment[
        form(".slider.visits", method="get", action=path)[
            field(type="hidden", name=POD, value=pod) if pod else None,
            label(for_="slider")["Step"],
            field(
                id="slider",
                type="range",
                name=STEP,
                min="1",
                max=str(count),
                value=str(place + 1),
                aria_valuetext=f"{where}, {clock(step.time)}",
            ),
            button(type="submit")["Show"],
        ],
        nav("#turns.turns", aria_label="Steps")[
            _turn("Previous", path, found.steps[place - 1] if place else None, pod),
            span(".quiet")[where],
            _turn("Next", path, found.steps[place + 1] if place + 1 < count else None, pod),
        ],
        div("#decision.decision", role="status")[
            h2[f"Decision {step.n} ", span(".unit")[clock(step.time)]],
            dl[
                _lines("Note", step.notes),
                _lines("Fact", step.facts),
                _lines("Rule", (": ".join(filter(None, (step.rule, step.why))),)),
                _lines("Action", step.actions),
            ],
        ],
        p(".hint")[f"{found.left:,} earlier ones are not shown here: trainshed replay shows all."]
        if found.left
        else None,
    ]


def _turn(text: str, path: str, step: Step | None, pod: str) -> Element:
    """Return the link to another step; where there is none it stays, so that who uses the keyboard keeps the place."""
    if step is None:
        return a(role="link", tabindex="0", aria_disabled="true")[text]
    return a(href=f"{path}{query_of(step, pod)}")[text]


def _lines(title: str, sentences: tuple[str, ...]) -> Element | None:
    return div[dt[title], dd[(p[sentence] for sentence in sentences)]] if sentences else None
