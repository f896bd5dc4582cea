"""The parts of a job's page that are tables and lists: conditions, Events, progress, and commands to copy."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from datetime import datetime

from htpy import Element, caption, code, dd, div, dl, dt, h2, li, p, section, span, table, tbody, td, th, thead, tr, ul
from htpy import progress as progress_bar

from trainshed.api.foreign_text import one_line
from trainshed.api.objects import JOB_NAME_LABEL, Phase
from trainshed.api.status import Condition, ConditionType, Status
from trainshed.ui.model import JobFile, LocalPlace, PageFrame
from trainshed.ui.seen_facts import lives_of
from trainshed.views import rows as view_rows
from trainshed.views.durations import human

from . import layout

#: The most Events that are shown, the newest first.
MOST_EVENTS = 200
#: Where stacks are read, on a page that does and on one that does not.
STACKS_HERE = "The page Stacks reads what each rank is doing."
STACKS_ELSEWHERE = (
    "The stacks are read by an ephemeral container in each pod, which stays in its list: this page reads them if it "
    "was started with --allow-actions."
)
#: The most characters of a command.
MOST_COMMAND = 4_096


def conditions(file: JobFile) -> Element | None:
    """Return the conditions as a table; None if there are none."""
    found = file.status.conditions
    if not found:
        return None
    names = ("Type", "Status", "Reason", "Since", "Message")
    return section(aria_labelledby="conditions-title")[
        h2("#conditions-title")["Conditions"],
        div(".scrolls", tabindex="0")[
            table(".conditions")[
                caption(".unseen")["Conditions of the job"],
                thead[tr[(th(scope="col")[name] for name in names)]],
                tbody[(_condition(one) for one in found)],
            ]
        ],
    ]


def _condition(one: Condition) -> Element:
    return tr(class_=None if one.true else "untrue")[
        th(scope="row")[str(one.type)],
        td[str(one.true)],
        td[one_line(one.reason)],
        td(".time")[layout.at(one.changed)],
        td(".message")[one_line(one.message)],
    ]


def events(file: JobFile, now: datetime) -> Element:
    """Return the Events as a table, the newest first."""
    newest = sorted(file.events, key=view_rows.event_time, reverse=True)
    rows = view_rows.of_events(newest[:MOST_EVENTS], now)
    names = ("Last seen", "Count", "Type", "Reason", "Object", "Message")
    content: Element = p(".hint")["There are no Events: they are kept for an hour as a rule."]
    if rows:
        content = div(".scrolls", tabindex="0")[
            table(".events")[
                caption(".unseen")["Events about the job and its pods"],
                thead[tr[(th(scope="col")[name] for name in names)]],
                tbody[(_event(cells) for cells in rows)],
            ]
        ]
    more = len(newest) - MOST_EVENTS
    return section("#events", aria_labelledby="events-title")[
        h2("#events-title")["Events"], content, p(".hint")[f"and {more} more"] if more > 0 else None
    ]


def _event(cells: tuple[str, ...]) -> Element:
    seen, count, kind, reason, about, message = cells
    return tr(class_="warning" if kind == "Warning" else None)[
        td(".time")[seen],
        td(".number")[count],
        td(".time")[span(".mark", aria_hidden="true")["▲ " if kind == "Warning" else ""], kind],
        td[reason],
        td(".name")[about],
        td(".message")[message],
    ]


def progress(status: Status) -> Element | None:
    """Return how far a training is, as a bar and in numbers; None without a report."""
    report = status.trainer
    if report is None:
        return None
    left = report.remaining_seconds if status.trains else None
    pace = None if status.true(ConditionType.STALLED) else report.steps_per_second
    total = f" of {report.total_steps:,}" if report.total_steps else ""
    pairs = (
        (
            "Step",
            f"{report.step:,}{total}" if report.step is not None else "",
        ),
        ("Epoch", f"{report.epoch:g}" if report.epoch is not None else ""),
        ("Pace", f"{pace:g} steps/s" if pace else ""),
        ("Remaining", human(left) if left is not None else ""),
        ("Last report", layout.at(report.updated)),
    )
    return div(".progress")[
        progress_bar(max="100", value=str(report.percentage), aria_label="Progress")[f"{report.percentage} %"]
        if report.percentage is not None
        else None,
        span(".percentage")[f"{report.percentage} %"] if report.percentage is not None else None,
        dl(".figures")[(div[dt[name], dd[value]] for name, value in pairs if value)],
    ]


def commands(file: JobFile, frame: PageFrame) -> Element | None:
    """Return commands about the job, for a terminal: of a cluster, or of a run on this machine; None if none helps."""
    found = _local_commands(file, frame.local) if frame.local else _cluster_commands(file)
    if not found:
        return None
    return section(".commands", aria_labelledby="commands-title")[
        h2("#commands-title")["In a terminal"],
        ul[(li[span[text], code(tabindex="0", data_copy=True)[command]] for text, command in found)],
        p(".hint")[STACKS_HERE if frame.reads_stacks else STACKS_ELSEWHERE] if _any_runs(file) else None,
    ]


def _local_commands(file: JobFile, local: LocalPlace) -> Sequence[tuple[str, str]]:
    name = view_rows.name_of(file.document)
    found = (
        ("Logs of all replicas", f"tail -n +1 -F {shlex.quote(local.logs)}/{shlex.quote(name)}-*.log"),
        ("A report, once the run has ended", f"{local.report} {shlex.quote(name)} -o {shlex.quote(name)}.html"),
        ("The same run again", local.again),
    )
    return [(text, one_line(command, MOST_COMMAND)) for text, command in found]


def _cluster_commands(file: JobFile) -> Sequence[tuple[str, str]]:
    job = one_line(view_rows.with_namespace(file.document))
    name, _, namespace = job.partition(" -n ")
    selector = f"{JOB_NAME_LABEL}={name.partition('/')[2]}"
    there = [one.pod for one in lives_of(file.pods) if one.removed is None]
    started = [one for pod in there for one in pod.containers if one.started or one.exit_code is not None or one.before]
    found = (
        ("What happened", f"trainshed explain {job}", file.deleted is None),
        ("Logs of all replicas", f"trainshed logs {job} -f", bool(started)),
        ("What each rank is doing: its Python stack", f"trainshed stacks {job}", _any_runs(file)),
        ("All that the API server has", f"kubectl describe {name} -n {namespace}", file.deleted is None),
        ("Its pods", f"kubectl get pods -n {namespace} -l {selector} -o wide", bool(there)),
    )
    return [(text, command) for text, command, has_sense in found if has_sense]


def _any_runs(file: JobFile) -> bool:
    """Return whether a pod runs, of which there are stacks."""
    return any(one.removed is None and one.pod.phase is Phase.RUNNING for one in lives_of(file.pods))
