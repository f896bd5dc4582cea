"""What the operator's next looks at a job would come to: the very plan, worked out ahead and not carried out."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import IntEnum

from trainshed.api.actions import (
    Action,
    CreateDependent,
    CreateService,
    DeleteDependent,
    DeleteJob,
    DeletePod,
    DeleteService,
    Plan,
    UpdateDependent,
)
from trainshed.api.pod import Pod
from trainshed.api.snapshot import Snapshot
from trainshed.api.status import Kind, Status
from trainshed.plan import plan

#: So many looks in a row say all: a verdict, and what follows from it.
LOOKS = 5
#: So many names are told; the rest are counted.
NAMES = 3


class Grade(IntEnum):
    """How much somebody should care."""

    SAME = 0
    GOES_ON = 1
    LOOK = 2


@dataclass(frozen=True, slots=True)
class Outlook:
    """What is to come of a job: how much to care, and sentences about it, none if nothing changes."""

    snapshot: Snapshot
    grade: Grade
    words: tuple[str, ...]

    @property
    def state(self) -> str:
        """What `kubectl get` prints as STATE."""
        conditions = self.snapshot.status.conditions
        return str(conditions[-1].type) if conditions else "New"

    def __str__(self) -> str:
        job, pods = self.snapshot.job, len(self.snapshot.pods)
        told = f"{job.kind} {job.namespace}/{job.name} ({self.state}, {pods} {'pod' if pods == 1 else 'pods'})"
        return f"{told}: {'; '.join(self.words) or 'goes on as it is'}"


def foresee(snapshot: Snapshot) -> Outlook:
    """What the next looks would do; whatever harms a job, or is done to pods that still work, wants a look."""
    job = snapshot.job
    if job.policy.managed_elsewhere:
        return Outlook(snapshot, Grade.SAME, ("left alone: another controller manages it",))
    if job.problems:
        return Outlook(snapshot, Grade.GOES_ON if snapshot.status.over else Grade.LOOK, _refused(snapshot))
    looks = tuple(_looks(snapshot))
    done = Outlook(snapshot, Grade.SAME, ())
    for part in (_told(snapshot, looks), _taken(snapshot, looks), _made(snapshot, looks)):
        done = replace(done, grade=max(done.grade, part.grade), words=(*done.words, *part.words))
    return done


def _looks(snapshot: Snapshot) -> Iterator[Plan]:
    for _ in range(LOOKS):
        decision = plan(snapshot)
        yield decision
        if decision.actions or decision.status == snapshot.status:
            return
        snapshot = replace(snapshot, status=decision.status)


def _refused(snapshot: Snapshot) -> tuple[str, ...]:
    if snapshot.status.over:
        fate = "it is over, and stays as it is"
    elif snapshot.status.start is None:
        fate = "it would fail at once"
    else:
        fate = "it would be left alone, neither restarted nor cleaned up, until its spec is mended"
    return (f"its spec is not accepted, {fate}", *snapshot.job.problems)


def _told(snapshot: Snapshot, looks: tuple[Plan, ...]) -> Outlook:
    """The conditions that would be new or different."""
    before, after = snapshot.status, looks[-1].status
    news = [
        condition
        for condition in after.conditions
        if (known := before.condition(condition.type)) is None or known.true != condition.true
    ]
    words = [f"{item.type}={item.true} ({item.message})" for item in news]
    words += [f"{item.type} goes" for item in before.conditions if after.condition(item.type) is None]
    harmed = after.true(Kind.FAILED) and not before.true(Kind.FAILED)
    grade = Grade.LOOK if harmed or _restarts(before, after) else Grade.GOES_ON if words else Grade.SAME
    return Outlook(snapshot, grade, tuple(words))


def _restarts(before: Status, after: Status) -> bool:
    return after.retries.used > before.retries.used or not set(after.replacing) <= set(before.replacing)


def _taken(snapshot: Snapshot, looks: tuple[Plan, ...]) -> Outlook:
    """The pods that would be deleted, and the job itself."""
    actions = [action for look in looks for action in look.actions]
    if any(isinstance(action, DeleteJob) for action in actions):
        return Outlook(snapshot, Grade.GOES_ON, ("deleted: the time that it was to be kept is up",))
    uids = {action.uid for action in actions if isinstance(action, DeletePod)}
    gone = [pod for pod in snapshot.pods if pod.uid in uids]
    if not gone:
        return Outlook(snapshot, Grade.SAME, ())
    status = looks[-1].status
    wanted = not (status.over or status.true(Kind.SUSPENDED))
    grade = Grade.LOOK if wanted and any(_works(pod) for pod in gone) else Grade.GOES_ON
    return Outlook(snapshot, grade, (f"{_listed([pod.name for pod in gone])} deleted",))


def _works(pod: Pod) -> bool:
    return not pod.over and not pod.deleting


def _made(snapshot: Snapshot, looks: tuple[Plan, ...]) -> Outlook:
    """The objects that would be made, changed or deleted, but for pods that go."""
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for action in (action for look in looks for action in look.actions):
        if not isinstance(action, (DeletePod, DeleteJob)):
            groups[_what(action)].append(action.name)
    words = [f"{_listed(names, kind)} {done}" for (kind, done), names in groups.items()]
    return Outlook(snapshot, Grade.GOES_ON if words else Grade.SAME, tuple(words))


def _what(action: Action) -> tuple[str, str]:
    """Which kind of object, and what is done to it."""
    match action:
        case CreateDependent() | UpdateDependent() | DeleteDependent():
            kind = action.resource.kind
        case CreateService() | DeleteService():
            kind = "Service"
        case _:
            kind = "pod"
    done = {"Create": "made", "Update": "changed", "Delete": "deleted"}
    return kind, done[type(action).__name__[:6]]


def _listed(names: list[str], kind: str = "pod") -> str:
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names[:NAMES])}{more}"
