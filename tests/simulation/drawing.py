"""Draws a schedule from a seed. Each seed knows only some of the words: what one fault hides another shows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from .lives import DISRUPTIONS, PULLS, REJECTIONS
from .orders import FIELDS, LEADERS, Order, order, setting
from .schedule import Schedule, Step

#: So many things happen at the most before all faults are lifted.
LONGEST = 60
#: And so many in this or that schedule: short ones are played sooner and shrink better, long ones go further.
LENGTHS = (6, 10, 20, LONGEST - 2)
#: How long after the one before something happens: in one breath, while requests are under way, soon, and much later.
PAUSES = ((0.0, 0.0), (0.001, 0.03), (0.03, 0.4), (0.4, 3.0), (3.0, 20.0), (20.0, 90.0))
WEIGHTS = (6, 8, 8, 6, 2, 1)
#: Draws the rest of a sentence.
Rest = Callable[[Random], Any]
#: Verbs of writes that may be answered wrongly, and how: before the server has carried it out, or after.
ANSWERS = (409, 429, 500, 503, 504, 403, 0)

LIVES: Mapping[str, Rest] = {
    "succeed": lambda _: None,
    "fail": lambda random: random.choice((1, 1, 2, 126, 127, 128, 130, 137, 139, 143, 255)),
    "oom": lambda _: 137,
    "reject": lambda random: random.choice(REJECTIONS),
    "disrupt": lambda random: random.choice(DISRUPTIONS),
    "restart in place": lambda random: random.choice((1, 137)),
    "unready": lambda _: None,
}
NODES: Mapping[str, Rest] = {
    "lose node": lambda _: None,
    "find node": lambda _: None,
    "stall": lambda random: random.choice(PULLS),
    "deaf kubelet": lambda random: random.choice((1.0, 10.0, 40.0)),
}
USERS: Mapping[str, Rest] = {
    "set": lambda random: random.getrandbits(32),
    "set some": lambda random: random.getrandbits(32),
    "annotate": lambda random: random.choice(("Auto", "Replica", "Role", "Job")),
    "delete": lambda random: random.choice(("Background", "Background", "Foreground", "Orphan")),
    "begin anew": lambda random: random.choice(("Background", "Foreground", "Orphan")),
    "delete pod": lambda random: random.choice((None, None, 0)),
    "delete service": lambda _: None,
    "end namespace": lambda _: None,
}
VANDALS: Mapping[str, Rest] = {
    "forge": lambda random: random.choice(("wipe", "restarts", "verdict", "attempts", "done")),
    "strip": lambda random: random.choice(("labels", "owner", "index")),
    "squat": lambda random: random.choice(("pods", "services")),
    "leave": lambda _: None,
    "impersonate": lambda _: None,
}
ANSWERING: Mapping[str, Rest] = {
    "answer": lambda random: (random.randint(1, 4), random.choice(ANSWERS), random.choice(("before", "after"))),
    "outage": lambda random: random.choice((0.5, 5.0, 20.0, 120.0)),
    "slow": lambda random: random.choice((0.2, 2.0, 9.0)),
    "quota": lambda random: random.choice((0, 1, 2, 3)),
    "no quota": lambda _: None,
}
WATCHES: Mapping[str, Rest] = {
    "cut": lambda _: None,
    "expire": lambda _: None,
    "delay": lambda random: random.choice((0.1, 1.0, 8.0, 30.0)),
    "repeat": lambda _: None,
    "hold": lambda _: None,
    "error": lambda random: random.choice((500, 410)),
    "old list": lambda random: random.randint(1, 20),
}
OPERATORS: Mapping[str, Rest] = {
    "kill": lambda random: random.choice((0.0, 0.5, 3.0, 20.0)),
    "die at": lambda random: (random.randint(1, 5), random.choice(("before", "after", "answered"))),
    "stop": lambda random: random.choice((0.0, 3.0)),
    "partition": lambda random: random.choice((1.0, 12.0, 40.0)),
    "leap": lambda random: random.choice((-600.0, -30.0, 30.0, 600.0)),
}
LEADERSHIP: Mapping[str, Rest] = {
    "freeze": lambda random: random.choice((5.0, 14.0, 60.0)),
    "usurp": lambda _: None,
}
#: Steps that delay no request. The operator reads a job before it makes pods for it, however late its watches are.
PROMPT = frozenset(("create", "kill", *LIVES, *NODES, *USERS, "quota", "no quota", *VANDALS, *WATCHES))
#: Families, and how often something of each happens beside the others.
FAMILIES = ((LIVES, 8), (NODES, 2), (USERS, 4), (VANDALS, 1), (ANSWERING, 3), (WATCHES, 3), (OPERATORS, 3))
#: The gang schedulers and the versions of MPIJob of variants, and the deadlines that a job of one may have.
GANGS = ("volcano", "volcano", "scheduler-plugins")
VERSIONS = ("v1", "v2beta1", "v2beta1", "v2beta1")
DEADLINES = (("trainshed.dev/force-delete-after", "1m"), ("trainshed.dev/startup-deadline", "90s"))


def draw(seed: int) -> Schedule:
    """The schedule of a seed, always the same."""
    random = Random(seed)
    operators = 2 if random.random() < 0.2 else 1
    words, weights = _vocabulary(random, operators)
    wanted = order(random, "a")
    steps = [Step(0.0, "create", how=wanted)]
    names = {"a": wanted}
    for _ in range(random.randint(3, random.choices(LENGTHS, (6, 4, 2, 1))[0])):
        if random.random() < 0.03 and "b" not in names:
            names["b"] = order(random, "b")
            steps.append(Step(_pause(random), "create", how=names["b"]))
            continue
        what = random.choices(list(words), weights)[0]
        steps.append(_told(Step(_pause(random), what, random.randint(0, 7), words[what](random)), names))
    return Schedule(seed, tuple(steps), operators, finish=random.random() < 0.5)


def draw_variant(seed: int) -> Schedule:
    """The schedule of a seed in another cluster: with a gang scheduler, MPIJob v2beta1, and deadlines for pods.

    In half of them nothing delays a request: the auditor then allows the operator a second from what it has read to
    what it does.
    """
    schedule, random = draw(seed), Random(f"variant {seed}")
    gang, mpi, prompt = random.choice(GANGS), random.choice(VERSIONS), random.random() < 0.5
    steps = []
    for step in schedule.steps:
        if step.what == "create":
            steps.append(replace(step, how=_variant(step.how, mpi, random)))
        elif not prompt or step.what in PROMPT:
            steps.append(step)
    operators = 1 if prompt else schedule.operators
    return replace(schedule, steps=tuple(steps), operators=operators, gang=gang, mpi=mpi)


def _variant(order: Order, mpi: str, random: Random) -> Order:
    annotations = (*order.annotations, *(one for one in DEADLINES if random.random() < 0.3))
    led = any(role in ("Chief", "Master", "Launcher") for role, _ in order.roles)
    none = led and random.random() < 0.2
    roles = tuple((role, 0 if none and role not in LEADERS else count) for role, count in order.roles)
    version = mpi if order.kind == "MPIJob" else "v1"
    return replace(order, roles=roles, annotations=annotations, version=version)


def _vocabulary(random: Random, operators: int) -> tuple[dict[str, Rest], list[float]]:
    """The words that this schedule knows, and how often each is used."""
    words: dict[str, Rest] = {}
    weights: list[float] = []
    families = (*FAMILIES, (LEADERSHIP, 2)) if operators > 1 else FAMILIES
    for family, weight in families:
        if family is not LIVES and random.random() < 0.45:
            continue
        known = [word for word in family if random.random() < 0.6] or [random.choice(list(family))]
        words |= {word: family[word] for word in known}
        weights += [weight / len(known)] * len(known)
    return words, weights


def _pause(random: Random) -> float:
    low, high = random.choices(PAUSES, WEIGHTS)[0]
    return round(random.uniform(low, high), 3)


def _told(step: Step, names: Mapping[str, Order]) -> Step:
    """What is about one job's fields is drawn here, so that the schedule says it in words."""
    known = list(names.values())
    wanted = known[step.which % len(known)]
    if step.what == "set":
        return Step(step.after, "set", step.which, setting(Random(step.how), wanted))
    if step.what == "set some":
        role, count = wanted.roles[step.how % len(wanted.roles)]
        more = count if role in LEADERS else step.how % 4
        return Step(step.after, "set", step.which, (f"{FIELDS[wanted.kind]}.{role}.replicas", more))
    return step
