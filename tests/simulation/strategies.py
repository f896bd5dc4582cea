"""Hypothesis strategies for schedules: what users create and change, and which faults are injected when.

A schedule uses only some of the words, as one fault can hide another. Everything is drawn so that it shrinks: to fewer
steps, to shorter pauses, to one operator in a plain cluster, and to the first value of each list below.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import yaml
from hypothesis import strategies as st

from .nodes import DISRUPTIONS, IMAGE_ERRORS, REJECTIONS
from .schedule import (
    ON_DISRUPTION,
    QUEUE_NAME,
    RECORD,
    REPLICA_SPECS,
    SCOPE,
    SERVICES,
    TRACK_RESULTS,
    JobRequest,
    Schedule,
    Setting,
    Step,
)

Draw = st.DrawFn
Values = st.SearchStrategy[Any]
CRDS = Path(__file__).parents[2] / "crds"
#: The largest number of steps after the first, and the smallest number in a schedule.
LONGEST, LEAST = 58, (0, 3, 3, 3, 4, 5, 10)
#: Milliseconds from the step before: at once, while requests are in flight, soon, and much later. Listed by weight.
PAUSES = (
    *((0, 0),) * 6,
    *((1, 30),) * 8,
    *((30, 400),) * 8,
    *((400, 3_000),) * 6,
    *((3_000, 20_000),) * 2,
    (20_000, 90_000),
)
#: The values of integer fields that a schema does not bound.
NUMBERS = (0, 0, 1, 1, 2, 3, 5, 30)
#: The optional and the required roles of each kind, and the roles of one replica at most.
ROLES = {
    "TFJob": (("Chief", "PS", "Worker", "Evaluator"), ()),
    "PyTorchJob": (("Master", "Worker"), ()),
    "XGBoostJob": (("Worker",), ("Master",)),
    "PaddleJob": (("Master", "Worker"), ()),
    "JAXJob": ((), ("Worker",)),
    "MPIJob": (("Worker",), ("Launcher",)),
}
SINGLE = ("Chief", "Master", "Launcher", "Evaluator")
RESTARTS = ("Never", "OnFailure", "ExitCode", "Always")
DEADLINES = (("trainshed.dev/force-delete-after", "1m"), ("trainshed.dev/startup-deadline", "90s"))
PROPAGATION = ("Background", "Foreground", "Orphan")


def _one_of(*values: Any) -> Values:
    return st.sampled_from(values)


NOTHING = st.none()
#: The words of steps by their object, each with its argument and its weight.
PODS: Mapping[str, Values] = {
    "succeed": NOTHING,
    "fail": _one_of(1, 1, 2, 126, 127, 128, 130, 137, 139, 143, 255),
    "oom": st.just(137),
    "reject": _one_of(*REJECTIONS),
    "disrupt": _one_of(*DISRUPTIONS),
    "restart container": _one_of(1, 137),
    "not ready": NOTHING,
}
NODES: Mapping[str, Values] = {
    "lose node": NOTHING,
    "recover nodes": NOTHING,
    "image error": _one_of(*IMAGE_ERRORS),
    "delay terminations": _one_of(1.0, 10.0, 40.0),
}
USERS: Mapping[str, Values] = {
    "set field": NOTHING,  # drawn by `_setting`
    "set replicas": NOTHING,
    "set scope": _one_of("Auto", "Replica", "Role", "Job"),
    "set services": _one_of("Replica", "Job"),
    "create": NOTHING,
    "delete job": _one_of(*PROPAGATION),
    "recreate job": _one_of(*PROPAGATION),
    "delete pod": _one_of(None, None, 0),
    "delete service": NOTHING,
    "delete namespace": NOTHING,
}
INTERFERENCE: Mapping[str, Values] = {
    "forge status": _one_of("wipe", "restarts", "verdict", "attempts", "done"),
    "remove metadata": _one_of("labels", "owner", "index"),
    "occupy name": _one_of("pods", "services"),
    "delete foreign objects": NOTHING,
    "create foreign pod": NOTHING,
    "change record": _one_of("delete", "change"),
}
RESPONSES: Mapping[str, Values] = {
    "fail write": st.tuples(st.integers(1, 4), _one_of(409, 429, 500, 503, 504, 403, 0), _one_of("before", "after")),
    "outage": _one_of(0.5, 5.0, 20.0, 120.0),
    "slow responses": _one_of(0.2, 2.0, 9.0),
    "fail record": st.tuples(_one_of(409, 429, 500, 503, 504, 403, 0), _one_of("before", "after")),
    "quota": _one_of(0, 1, 2, 3),
    "no quota": NOTHING,
}
WATCHES: Mapping[str, Values] = {
    "break watch": NOTHING,
    "compact": NOTHING,
    "delay watches": _one_of(0.1, 1.0, 8.0, 30.0),
    "duplicate events": NOTHING,
    "pause watch": NOTHING,
    "watch error": _one_of(500, 410),
    "stale list": st.integers(1, 20),
}
OPERATORS: Mapping[str, Values] = {
    "kill": _one_of(0.0, 0.5, 3.0, 20.0),
    "kill at write": st.tuples(st.integers(1, 5), _one_of("before", "after", "answered")),
    "kill at record": _one_of("before", "after", "answered"),
    "stop": _one_of(0.0, 3.0),
    "partition": _one_of(1.0, 12.0, 40.0),
    "step clock": _one_of(-600.0, -30.0, 30.0, 600.0),
}
LEADERSHIP: Mapping[str, Values] = {"freeze": _one_of(5.0, 14.0, 60.0), "delete lease": NOTHING}
GROUPS = ((PODS, 32), (NODES, 8), (USERS, 16), (INTERFERENCE, 4), (RESPONSES, 12), (WATCHES, 12), (OPERATORS, 12))
WORDS: Mapping[str, Values] = {word: how for group, _ in (*GROUPS, (LEADERSHIP, 0)) for word, how in group.items()}
#: The steps that delay no request: watches may be late, but the operator reads a job before it creates pods for it,
#: unless it is new.
PROMPT = frozenset((*PODS, *NODES, *USERS, "quota", "no quota", *INTERFERENCE, *WATCHES, "kill"))


@st.composite
def schedules(draw: Draw) -> Schedule:
    """Draw a schedule; every second one has a gang scheduler, deadlines for pods, or MPIJob v2beta1.

    In half of these nothing delays a request: the auditor then allows the operator one second from an event to its
    reaction.
    """
    special = draw(st.booleans())
    prompt = special and draw(st.booleans())
    operators = 2 if not prompt and draw(_percent(20)) else 1
    gang = draw(_one_of("volcano", "volcano", "scheduler-plugins")) if special else ""
    mpi = draw(_one_of("v1", "v2beta1", "v2beta1", "v2beta1")) if special else "v1"
    jobs = [_job(draw, "a", mpi, special=special)]
    if draw(_percent(20)):
        jobs.append(_job(draw, "b", mpi, special=special))
    words = _vocabulary(draw, operators)
    steps = draw(st.lists(_steps(words, jobs), min_size=draw(st.sampled_from(LEAST)), max_size=LONGEST))
    kept = (step for step in steps if not prompt or step.what in PROMPT)
    seed, finish = draw(st.integers(0, 2**32 - 1)), draw(st.booleans())
    return Schedule(seed, (Step(0.0, "create", how=jobs[0]), *kept), operators, finish, gang, mpi)


def _vocabulary(draw: Draw, operators: int) -> list[str]:
    """Draw the words of a schedule, each repeated by its weight."""
    words: list[str] = []
    for group, weight in (*GROUPS, (LEADERSHIP, 8)) if operators > 1 else GROUPS:
        if group is not PODS and draw(_percent(45)):
            continue
        known = [word for word in group if not draw(_percent(40))] or [draw(st.sampled_from(list(group)))]
        words += [word for word in known for _ in range(max(1, weight // len(known)))]
    return words


@st.composite
def _steps(draw: Draw, words: Sequence[str], jobs: Sequence[JobRequest]) -> Step:
    """Draw one step; what is set in a job is drawn here, so that the schedule contains it."""
    low, high = draw(st.sampled_from(PAUSES))
    after = draw(st.integers(low, high)) / 1000
    what, which = draw(st.sampled_from(words)), draw(st.integers(0, 7))
    job = jobs[which % len(jobs)]
    if what == "create":
        return Step(after, what, which, jobs[-1])
    if what == "set field":
        return Step(after, what, which, draw(settings_of(job)))
    if what == "set replicas":
        return Step(after, "set field", which, draw(_replicas(job, 3)))
    return Step(after, what, which, draw(WORDS[what]))


@st.composite
def job_requests(draw: Draw, name: str = "a") -> JobRequest:
    """Draw a small job."""
    return _job(draw, name, "v1", special=False)


def _job(draw: Draw, name: str, mpi: str, *, special: bool) -> JobRequest:
    kind = draw(st.sampled_from(list(ROLES)))
    optional, required = ROLES[kind]
    roles = [*required, *(role for role in optional if draw(st.booleans()))]
    if not set(roles) & {"Chief", "Master", "Launcher", "Worker"}:
        roles.append("Worker")  # one role decides whether the job succeeds
    none = special and roles[0] in ("Chief", "Master", "Launcher") and draw(_percent(20))
    counts = tuple((role, _count(draw, role, none=none)) for role in roles)
    known = dict(fields(kind))
    policy = [path for path in known if path.startswith("runPolicy.") and path.count(".") == 1]
    policy = [path for path in policy if path != "runPolicy.suspend" and draw(_percent(30))]
    spec = [(path, draw(values(known[path]))) for path in known if "." not in path and draw(_percent(30))]
    if kind == "PyTorchJob" and roles == ["Worker"] and draw(_percent(30)):
        spec += [("elasticPolicy.minReplicas", 1), ("elasticPolicy.maxReplicas", 4)]
    return JobRequest(
        kind,
        name,
        counts,
        restart=draw(st.sampled_from(RESTARTS)),
        policy=tuple((path.partition(".")[2], draw(values(known[path]))) for path in policy),
        spec=tuple(spec),
        annotations=tuple(_annotations(draw, special=special)),
        version=mpi if kind == "MPIJob" else "v1",
    )


def _count(draw: Draw, role: str, *, none: bool) -> int:
    if role in SINGLE:
        return 1
    return 0 if none else draw(_one_of(1, 1, 2, 2, 3))


def _annotations(draw: Draw, *, special: bool) -> Iterator[Setting]:
    if draw(_percent(40)):
        yield SCOPE, draw(_one_of("Replica", "Role", "Job"))
    if draw(_percent(10)):
        yield ON_DISRUPTION, "Fail"
    if draw(_percent(15)):
        yield TRACK_RESULTS, "true"
    if draw(_percent(20)):
        yield QUEUE_NAME, "research"
    if draw(_percent(25)):
        yield SERVICES, "Job"
    if draw(_percent(12)):
        yield RECORD, "Decisions"
    for deadline in DEADLINES if special else ():
        if draw(_percent(30)):
            yield deadline


@st.composite
def settings_of(draw: Draw, job: JobRequest) -> Setting:
    """Draw a change of one field of a job's spec, often of its replicas or of `suspend`."""
    what = draw(_one_of(*("field",) * 6, *("replicas",) * 7, *("suspend",) * 6, "restartPolicy"))
    if what == "replicas":
        return draw(_replicas(job, 4))
    if what == "suspend":
        return "runPolicy.suspend", draw(st.booleans())
    if what == "restartPolicy":
        role, _ = draw(st.sampled_from(job.roles))
        return f"{REPLICA_SPECS[job.kind]}.{role}.restartPolicy", draw(st.sampled_from(RESTARTS))
    path, schema = draw(st.sampled_from(fields(job.kind)))
    return path, draw(values(schema))


@st.composite
def _replicas(draw: Draw, job: JobRequest, most: int) -> Setting:
    role, _ = draw(st.sampled_from(job.roles))
    return f"{REPLICA_SPECS[job.kind]}.{role}.replicas", 1 if role in SINGLE else draw(st.integers(0, most))


def values(schema: Mapping[str, Any]) -> Values:
    """Return the values that a schema allows; small ones, where it has no bounds."""
    if "enum" in schema:
        return st.sampled_from([value for value in schema["enum"] if value])
    if schema["type"] == "boolean":
        return st.booleans()
    return st.sampled_from([max(number, schema.get("minimum", 0)) for number in NUMBERS])


@functools.cache
def fields(kind: str) -> tuple[tuple[str, dict[str, Any]], ...]:
    """Return the paths of a job's fields that are enums, booleans or integers, each with its schema, from the CRD."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    crd = yaml.load((CRDS / f"kubeflow.org_{kind.lower()}s.yaml").read_text(), loader)
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    return tuple(_leaves("", schema))


def _leaves(path: str, schema: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    if path.endswith(("ReplicaSpecs", "elasticPolicy", "managedBy")):
        return
    for name, found in schema.get("properties", {}).items():
        yield from _leaves(f"{path}.{name}" if path else name, found)
    if "enum" in schema or schema.get("type") in ("boolean", "integer"):
        yield path, schema


@functools.cache
def _percent(chance: int) -> st.SearchStrategy[bool]:
    """Return a strategy that is true with this chance, and shrinks to false."""
    return st.integers(0, 99).map(lambda number: number >= 100 - chance)
