"""What may be done to a job from its page, if the page was started so that it may."""

from __future__ import annotations

from htpy import Element, button, details, div, form, fragment, h2, p, section, summary
from htpy import input as field

from trainshed.api.foreign_text import one_line
from trainshed.ui.model import DELETED, QUEUED, JobFile, PageFrame

from . import layout

#: What is done, what the button says, and what becomes of the pods.
ACTIONS = {
    "suspend": ("Suspend", "Deletes the pods of the job, until it is resumed."),
    "resume": ("Resume", "Creates the pods of the job again."),
    "restart": ("Restart", "Replaces all pods of the job; it begins from its last checkpoint, if it writes any."),
    "delete": ("Delete", "Deletes the job with its pods. It cannot be undone."),
}
#: The states in which an action has a sense.
OVER = ("Succeeded", "Failed")


def offered(file: JobFile) -> list[str]:
    """Return the actions that make sense in the state of a job."""
    if file.state == DELETED:
        return []
    if file.state in OVER:
        return ["delete"]
    return ["resume", "delete"] if file.state in ("Suspended", QUEUED) else ["suspend", "restart", "delete"]


def forms(file: JobFile, frame: PageFrame) -> Element | None:
    """Return a form for each action, each behind a second click; None if the page changes nothing.

    Each has an id, so that what a reader has opened does not become another action when the state changes.
    """
    if not frame.may_change:
        return None
    names = offered(file)
    if not names:
        return section("#actions", aria_label="Actions")
    return section("#actions.actions", aria_label="Actions")[
        h2["Actions"],
        div[
            (
                details(id=f"action-{name}")[
                    summary[ACTIONS[name][0]],
                    form(method="post", action=f"{file.address.path}/{name}")[
                        field(type="hidden", name="csrf", value=frame.csrf),
                        p[ACTIONS[name][1]],
                        button(type="submit", class_=name)[f"{ACTIONS[name][0]} {one_line(file.address.name)}"],
                    ],
                ]
                for name in names
            )
        ],
    ]


def refusal(file: JobFile, frame: PageFrame, text: str) -> Element:
    """Return the page that says why an action was not carried out."""
    name = one_line(file.address.name)
    back = layout.link_to(file.address.path, f"Back to {name}")
    return layout.message(frame, f"{name} is not changed", one_line(text), fragment[back])
