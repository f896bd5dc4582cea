"""What tells spans apart besides their colour: patterns of areas, and the shapes of marks."""

from __future__ import annotations

from functools import cache

from htpy import Element, defs, path, pattern, rect, svg

from trainshed.ui.replica_history import Act, Sign

from .markup import Attributes, Markup, tag, titled

#: The lines of each pattern in a square of 8 px; acts without one are plain.
LINES: dict[Act, str] = {
    Act.QUEUED: "M4 3v2",
    Act.SCHEDULING: "M4 3v2",
    Act.SUSPENDED: "M2 2v4M6 2v4",
    Act.INIT: "M0 2h8M0 6h8",
    Act.IMAGE_PULL: "M-2 2l4-4M0 8l8-8M6 10l4-4",
    Act.PROGRAM_STARTUP: "M0 0l4 4 4-4M0 4l4 4 4-4",
    Act.STALLED: "M0 4h8M4 0v8",
    Act.RESTART: "M-2 6l4 4M0 0l8 8M6-2l4 4",
    Act.BACK_OFF: "M0 0l8 8M8 0l-8 8",
    Act.TEARDOWN: "M0 2h8M0 6h8",
    Act.EARLIER: "M-2 2l4-4M0 8l8-8M6 10l4-4",
}
#: What the words mean, for a reader who does not know them.
MEANINGS: dict[Act, str] = {
    Act.QUEUED: "it waits in a queue of Kueue",
    Act.SUSPENDED: "it has no pods until it is resumed",
    Act.SCHEDULING: "pods are created, and get nodes",
    Act.INIT: "init containers run",
    Act.IMAGE_PULL: "nodes pull images, and create containers",
    Act.PROGRAM_STARTUP: "the programs run, and are not ready or have not made a step yet",
    Act.RUNNING: "all replicas run",
    Act.STALLED: "all replicas run, and the training makes no progress",
    Act.RESTART: "a replica has failed, and not all run again",
    Act.BACK_OFF: "the kubelet waits before it starts the container again",
    Act.TERMINATING: "the pod is being deleted, and has time to end",
    Act.TEARDOWN: "the job ends or is suspended, and its pods still hold resources",
    Act.EARLIER: "it was before what is known: it ran, failed and started again",
}
LOST_MEANS = "training that was done again after a restart"
#: Training that was done again, and its pattern: a part of the time in which the job ran.
LOST_WORK, LOST_WORK_LINES = "lost-work", "M0 0l8 8M8 0l-8 8"
#: The shapes of marks around their point, in a square of 12 px; each differs in its outline, not only in colour.
SHAPES: dict[Sign, str] = {
    Sign.FAILED: "M-3.5-3.5l7 7M3.5-3.5l-7 7",
    Sign.SUCCEEDED: "M-4 0l3 3.5 5.5-7",
    Sign.DISRUPTED: "M1.5-5.5l-5 6.5h3.5l-1.5 4.5 5-6.5h-3.5z",
    Sign.STOPPED: "M-3-3h6v6h-6z",
    Sign.BEHIND: "M-4.5-3h9l-4.5 7z",
    Sign.RESTARTED: "M3.4-2.2a4 4 0 1 0 .6 3.4M4-5v3.2h-3.2",
}


@cache
def css_class(act: Act) -> str:
    """Return the class of an act: `act-image-pull`."""
    return "act-" + "".join(f"-{mark.lower()}" if mark.isupper() else mark for mark in act).removeprefix("-")


def sheet() -> Element:
    """Return the patterns, which a page with drawings needs once."""
    named = {**{css_class(act): lines for act, lines in LINES.items()}, LOST_WORK: LOST_WORK_LINES}
    return svg(".patterns", width=0, height=0, aria_hidden="true")[
        defs[
            (
                pattern(id=f"p-{name}", class_=name, patternUnits="userSpaceOnUse", width=8, height=8)[
                    rect(class_="ground", width=8, height=8), path(class_="lines", d=lines)
                ]
                for name, lines in named.items()
            )
        ]
    ]


def area(act: Act, place: Attributes, text: str = "") -> Markup:
    """Return an area in which this is done, at a place given by the attributes of a rectangle."""
    return _area(css_class(act), place, text, has_lines=act in LINES)


def lost_area(place: Attributes, text: str = "") -> Markup:
    """Return an area of training that was done again."""
    return _area(LOST_WORK, place, text, has_lines=True)


def _area(name: str, place: Attributes, text: str, *, has_lines: bool) -> Markup:
    fill = {"fill": f"url(#p-{name})"} if has_lines else {}
    return tag("rect", {"class": name, **fill, **place}, *((titled(text),) if text else ()))


def mark(sign: Sign, across: str, down: int, text: str = "") -> Markup:
    """Return a mark at a place, on a disc that sets it off from what is below."""
    parts = (tag("circle", {"class": "disc", "r": 7}), tag("path", {"class": f"sign sign-{sign}", "d": SHAPES[sign]}))
    place = {"x": across, "y": down, "width": 1, "height": 1, "overflow": "visible"}
    return tag("svg", {"class": "mark", **place}, *((titled(text),) if text else ()), *parts)
