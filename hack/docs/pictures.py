"""The pictures: the rules of the planner in order, and the states of a job from the table that tests use."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from itertools import pairwise

from support.audit.conditions import TRANSITIONS
from support.predictions import DAY, HOUR, MINUTE, assumed, pytorch
from trainshed.api.status import PRECEDENCE
from trainshed.plan.rules import RULES, Rule
from trainshed.ui.drawings import histogram
from trainshed.whatif.prediction import Predictor
from trainshed.whatif.sentences import drawn

from .drawing import Box, arrow, picture, words

#: The positions of the states. A new state without a position is an error.
PLACES = {
    "": Box(70, 170, 90),
    "Created": Box(230, 170),
    "Running": Box(410, 130),
    "Restarting": Box(590, 170),
    "Blocked": Box(410, 260),
    "Suspended": Box(270, 370),
    "Succeeded": Box(800, 120),
    "Failed": Box(800, 240),
}
INSIDE = ("Created", "Running", "Restarting", "Blocked")
AROUND = Box(410, 175, 530, 250)
CSS_CLASSES = {"Succeeded": "good", "Failed": "bad"}
RUNG = 46


def sentence(rule: Rule) -> str:
    """Return the first sentence of a rule's docstring, without its full stop."""
    return (inspect.getdoc(rule) or "").split("\n\n")[0].replace("\n", " ").removesuffix(".")


def rules() -> str:
    """Draw the rules from top to bottom; a rule is evaluated only if those above it do not apply."""
    parts = [words((40, 24), "at each reconcile, the first rule that applies decides", "small", "start")]
    boxes = [Box(110, 66 + RUNG * place, 140, 32) for place in range(len(RULES))]
    for rule, box in zip(RULES, boxes, strict=True):
        parts += [box.drawn(), words((box.x, box.y), rule.__name__, "mono")]
        parts.append(words((box.x + 90, box.y), sentence(rule), "", "start"))
    parts += [arrow(upper, lower) for upper, lower in pairwise(boxes)]
    return picture((1000, 60 + RUNG * len(RULES)), "The rules, in order", *parts)


def states() -> str:
    """Draw the states and their transitions; a transition that all states inside the dashed line have is drawn once."""
    assert set(TRANSITIONS) == {"", *PRECEDENCE} == set(PLACES), "a state has no position in the picture"
    shared = set.intersection(*(TRANSITIONS[state] for state in INSIDE)) - set(INSIDE)
    parts = [AROUND.drawn("group")]
    parts += [arrow(AROUND, PLACES[state]) for state in sorted(shared)]
    parts += list(_inside())
    parts += list(_outside(shared))
    for state, box in PLACES.items():
        parts += [box.drawn(CSS_CLASSES.get(state, "box")), words((box.x, box.y), state or "new", "mono")]
    note = "an arrow from the dashed line starts at every state inside it; the first stored state may be any"
    return picture((880, 440), "The states of a job", *parts, words((20, 425), note, "small", "start"))


def ends() -> str:
    """Draw when the runs of a small job end, as `trainshed whatif --picture` does."""
    job = pytorch(8, policy={"backoffLimit": 3})
    world = assumed(
        nodes=8,
        run_time=7 * DAY,
        mtbf=12 * DAY,
        checkpoint_every=2 * HOUR,
        checkpoint_cost=MINUTE,
        restart_cost=10 * MINUTE,
        program_failures=0.25,
        exit_code=137,
    )
    title, note, times, marks = drawn(Predictor(1).predict(job, world, 200))
    return histogram.draw(title, note, times, [histogram.TimeMark(*mark) for mark in marks])


def favicon() -> str:
    """Draw the icon of the site."""
    roof = "M2 14 L16 4 L30 14 V17 H2 Z M6 19 H9 V28 H6 Z M23 19 H26 V28 H23 Z M12 22 H20 V28 H12 Z"
    return f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32"><path fill="#3949ab" d="{roof}"/></svg>\n'


def _inside() -> Iterator[str]:
    for state in INSIDE:
        for other in INSIDE:
            if other != state and other in TRANSITIONS[state]:
                both = state in TRANSITIONS[other]
                far = abs(PLACES[state].x - PLACES[other].x) > 200
                yield arrow(PLACES[state], PLACES[other], aside=5 if both else 0, bend=-200 if far else 0)


def _outside(shared: set[str]) -> Iterator[str]:
    yield arrow(PLACES[""], PLACES["Created"])
    assert TRANSITIONS[""] == set(TRANSITIONS), "the first stored state may be any: the note says so"
    for state in sorted(shared):
        for other in sorted(TRANSITIONS[state] - {state}):
            yield arrow(PLACES[state], PLACES[other], aside=12)
