"""What the replicas of a job do or wait for, in sentences: those that do the same together."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence

import msgspec

from trainshed.api.coerce import as_mapping, as_sequence, parse_text
from trainshed.api.indexes import Indexes
from trainshed.api.job import Document, Replica
from trainshed.api.objects import Phase, Pod
from trainshed.api.status import ConditionType
from trainshed.plan import start_order
from trainshed.plan.facts import Facts
from trainshed.plan.failures import IMAGE_REASONS
from trainshed.plan.messages import replica_failures, replica_problems
from trainshed.plan.messages.phrases import plural
from trainshed.plan.waiting import CRASH_LOOP, CREATING, ERROR_DELAY, Problem, problem

from .durations import human
from .rows import event_time

#: The reasons with which pods have no room, and how schedulers name a resource that is short.
UNPLACED, INSUFFICIENT = ("Unschedulable", "WaitingForPodGroup"), re.compile(r"[Ii]nsufficient ([\w./-]+)", re.ASCII)
#: The reasons of Events with which the kubelet says why a pod has no volumes or no network.
SET_UP_FAILURES = ("FailedMount", "FailedAttachVolume", "FailedCreatePodSandBox")
#: Characters of indexes, nodes by name, and lines that are shown.
ROOM, NODES, LINES = 60, 3, 12


class Doing(msgspec.Struct, frozen=True):
    """What a replica does: `key` is the same for those that are named together, with the text of the first."""

    key: tuple[str, ...]
    before: str
    after: str = ""


def lines(facts: Facts) -> Iterator[str]:
    """Yield what the replicas do."""
    found = list(_present(facts))
    yield from found[:LINES]
    if len(found) > LINES:
        yield f"and {plural(len(found) - LINES, 'more group')} of replicas"
    for role in () if _idle(facts) else facts.groups:
        if count := len(facts.missing.of(role)):
            yield f"{count} {counted(role, count)} {'has' if count == 1 else 'have'} no pod{_withheld(facts, role)}"


def _idle(facts: Facts) -> bool:
    """Return whether no pods are created for the job as it is."""
    status, job = facts.status, facts.job
    is_stopped = status.over or status.true(ConditionType.SUSPENDED) or job.policy.suspend
    return is_stopped or job.deleting or job.policy.managed_elsewhere


def _present(facts: Facts) -> Iterator[str]:
    """Yield what those with a pod do: those of one role together, and then roles that do the same."""
    groups: dict[tuple[str, ...], list[tuple[Replica, Pod, Doing]]] = defaultdict(list)
    old = {facts.replicas_by_pod[pod.name]: pod for pod in facts.stale}
    for replica, pod in (facts.current | old).items():
        doing = (GONE if _idle(facts) else OLD) if replica in old else _doing(facts, replica, pod)
        groups[replica.role, *doing.key].append((replica, pod, doing))
    roles: dict[tuple[str, str], list[list[tuple[Replica, Pod, Doing]]]] = defaultdict(list)
    for members in groups.values():
        roles[members[0][2].before, members[0][2].after].append(members)
    for (before, after), found in roles.items():
        nodes = list(dict.fromkeys(pod.node for members in found for _, pod, _ in members if pod.node))
        where = f" on {', '.join(nodes)}" if len(nodes) <= NODES else f" on {len(nodes)} nodes"
        names = ", ".join(_named([replica for replica, _, _ in members]) for members in found)
        does = before if sum(map(len, found)) == 1 else before.replace("has ", "have ", 1)
        yield f"{names}: {does}{where if nodes else ''}{after}"


#: What a pod of an earlier attempt does, and one of a job that gets no new pods.
OLD, GONE = Doing(("old",), "being deleted", ", to be replaced"), Doing(("old",), "being deleted")


def _doing(facts: Facts, replica: Replica, pod: Pod) -> Doing:
    if pod.deleting:
        late = (facts.now - pod.deletion_timestamp).total_seconds() if pod.deletion_timestamp else 0
        return Doing(("deleting",), "being deleted", f", for {human(late)} after its grace period" if late > 0 else "")
    if pod.over:
        return _ended(facts, replica, pod)
    found = problem(facts, replica, pod)
    if found and found.reason == CREATING and facts.now < found.since + min(found.delay, ERROR_DELAY):
        found = None  # each pod is without network, volumes and image for some seconds
    if found and not found.aside:
        return _waiting(facts, found)
    beside = f"; beside it, {found.message}" if found else ""
    if facts.is_ready(pod):
        return Doing(("ready", beside), "running", beside)
    if found := _ended_in_place(facts, pod):
        return Doing(("ended", found.reason), "not running", f": {found.message}; the kubelet starts it again")
    does, after = ("starting", beside) if pod.phase is Phase.PENDING else ("running", f", not ready{beside}")
    return Doing((does, beside), does, after)


def _ended(facts: Facts, replica: Replica, pod: Pod) -> Doing:
    """Return how a pod ended; of the job that has failed who failed first: others end because of that."""
    if pod.phase is Phase.SUCCEEDED:
        return Doing((pod.phase,), "has succeeded")
    first = facts.status.failure.replica if facts.status.failure and facts.status.over else ""
    if not first or first not in map(str, facts.current):
        return Doing((pod.phase,), "has failed")
    after = "" if first == str(replica) else f", after {first} had failed"
    return Doing((pod.phase, after), "has failed", after)


def _ended_in_place(facts: Facts, pod: Pod) -> Problem | None:
    """Return why the framework's own container does not run at the moment, which the kubelet starts again."""
    own = facts.own_container(pod)
    last = replica_failures.last_end(own) if own and own.exit_code else None
    if own is None or last is None:
        return None
    return Problem(CRASH_LOOP, replica_problems.crash_loop(own, last), last.finished or facts.now)


def _waiting(facts: Facts, found: Problem) -> Doing:
    since = human((facts.now - found.since).total_seconds())
    reason = "" if found.reason in found.message else f" ({found.reason})"
    return Doing(("waiting", found.container, found.reason), "waiting", f" for {since}{reason}: {found.message}")


def not_set_up(facts: Facts) -> Pod | None:
    """Return a pod whose volumes or network are not there although it has had time; None without one."""
    for replica, pod in facts.current.items():
        found = problem(facts, replica, pod) if not pod.over and not pod.deleting else None
        is_late = found and found.delay == ERROR_DELAY and facts.now >= found.since + found.delay
        if found and is_late and found.reason == CREATING:
            return pod
    return None


def without_image(facts: Facts) -> tuple[str, str]:
    """Return a node that cannot pull an image, and a replica that runs it on another one; empty if there is none.

    Where a replica on the same node runs it, the node is not the cause.
    """
    running: dict[str, dict[str, str]] = defaultdict(dict)
    for replica, pod in facts.current.items():
        for container in pod.containers if not pod.over else ():
            if container.started:
                running[_image(facts, replica, container.name)][pod.node] = str(replica)
    for replica, pod in facts.current.items():
        found = problem(facts, replica, pod) if pod.node and not pod.over and not pod.deleting else None
        if found and found.reason in IMAGE_REASONS:
            others = running.get(_image(facts, replica, found.container), {})
            if others and pod.node not in others:
                return pod.node, next(iter(others.values()))
    return "", ""


def _image(facts: Facts, replica: Replica, container: str) -> str:
    """Return the image that the template has for a container; the kubelet may report it by another name."""
    spec = as_mapping(facts.group(replica).template.get("spec"))
    listed = [as_mapping(one) for part in ("containers", "initContainers") for one in as_sequence(spec.get(part))]
    return next((parse_text(one.get("image")) for one in listed if one.get("name") == container), "")


def set_up_failure(events: Iterable[Document]) -> str:
    """Return what the kubelet has said last about volumes or the network of a pod; `events` are those about the pod."""
    found = [
        (event_time(one), parse_text(one.get("message"))) for one in events if one.get("reason") in SET_UP_FAILURES
    ]
    return max(found, default=("", ""))[1]


def _is_said(found: Problem) -> bool:
    """Return whether the scheduler or the kubelet has said what is wrong, which is no guess from the time it takes."""
    return found.delay <= ERROR_DELAY and found.reason != CREATING


def counted(role: str, count: int) -> str:
    """Return a role as the noun after a number."""
    return role if count == 1 or role.endswith("s") or role == "PS" else f"{role}s"


def _withheld(facts: Facts, role: str) -> str:
    own = (item for item in facts.status.waiting if item.role == role and item.reason == start_order.NOT_CREATED)
    found = next((item.message for item in own), "")
    return f": {found}" if found else ""


def _named(members: Sequence[Replica]) -> str:
    if len(members) == 1:
        return str(members[0])
    return f"{members[0].role.lower()} {Indexes.of(member.index for member in members).abridged(ROOM)}"


def waiting_for(facts: Facts) -> list[tuple[str, str]]:
    """Return the reasons of waiting with their messages; of what may only take long, not before it does."""
    pods = ((replica, pod) for replica, pod in facts.current.items() if not pod.over and not pod.deleting)
    found = (problem(facts, replica, pod) for replica, pod in pods)
    lasting = (item for item in found if item and not item.aside)
    late = [item for item in lasting if _is_said(item) or facts.now >= item.since + item.delay]
    late += filter(None, (_ended_in_place(facts, pod) for pod in facts.current.values() if not pod.over))
    return [(item.reason, item.message) for item in late]


def unplaced_roles(facts: Facts) -> set[str]:
    """Return the roles of which a scheduler has placed a pod nowhere."""
    pods = ((replica, pod) for replica, pod in facts.current.items() if not pod.node and not pod.over)
    found = ((replica, problem(facts, replica, pod)) for replica, pod in pods)
    return {replica.role for replica, known in found if known and known.reason in UNPLACED}


def short_of(facts: Facts) -> list[str]:
    """Return the resources of which the scheduler says that nodes have too little, for pods of the job."""
    decisive = facts.status.decisive
    texts = [message for reason, message in waiting_for(facts) if reason in UNPLACED]
    if decisive and decisive.reason in UNPLACED:
        texts.append(decisive.message)
    return list(dict.fromkeys(name.rstrip(".") for text in texts for name in INSUFFICIENT.findall(text)))
