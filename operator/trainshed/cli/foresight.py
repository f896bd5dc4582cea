"""A dry run of the planner: what the operator's next reconciles would change for a job, computed without acting."""

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
    Snapshot,
    UpdateDependent,
)
from trainshed.api.objects import Pod
from trainshed.api.status import ConditionType, Status
from trainshed.plan import plan

#: Reconciles in a row that are computed: enough for a terminal condition and the clean-up that follows from it.
RECONCILES = 5
#: Names that a sentence lists; the rest are counted.
NAMES = 3


class Grade(IntEnum):
    """The severity of the changes to a job."""

    UNCHANGED = 0
    WILL_CHANGE = 1
    NEEDS_ATTENTION = 2


@dataclass(frozen=True, slots=True)
class Outlook:
    """The forecast for a job: the severity, and sentences about the changes; no sentence if nothing changes."""

    snapshot: Snapshot
    grade: Grade
    words: tuple[str, ...]

    @property
    def state(self) -> str:
        """The state of the job, as `kubectl get` prints it in the column STATE."""
        conditions = self.snapshot.status.conditions
        return str(conditions[-1].type) if conditions else "New"

    def __str__(self) -> str:
        job, pods = self.snapshot.job, len(self.snapshot.pods)
        name = f"{job.kind} {job.namespace}/{job.name} ({self.state}, {pods} {'pod' if pods == 1 else 'pods'})"
        return f"{name}: {'; '.join(self.words) or 'no change'}"


def foresee(snapshot: Snapshot) -> Outlook:
    """Return the forecast for a job: a change needs attention if it harms the job, or pods that are still running."""
    job = snapshot.job
    if job.policy.managed_elsewhere:
        return Outlook(
            snapshot, Grade.UNCHANGED, ("not reconciled: spec.runPolicy.managedBy names another controller",)
        )
    if job.problems:
        return Outlook(
            snapshot, Grade.WILL_CHANGE if snapshot.status.over else Grade.NEEDS_ATTENTION, _invalid(snapshot)
        )
    plans = tuple(_plans(snapshot))
    outlook = Outlook(snapshot, Grade.UNCHANGED, ())
    for part in (_conditions(snapshot, plans), _deletions(snapshot, plans), _other_changes(snapshot, plans)):
        outlook = replace(outlook, grade=max(outlook.grade, part.grade), words=(*outlook.words, *part.words))
    return outlook


def _plans(snapshot: Snapshot) -> Iterator[Plan]:
    for _ in range(RECONCILES):
        decision = plan(snapshot)
        yield decision
        if decision.actions or decision.status == snapshot.status:
            return
        snapshot = replace(snapshot, status=decision.status)


def _invalid(snapshot: Snapshot) -> tuple[str, ...]:
    if snapshot.status.over:
        outcome = "the job is finished and stays unchanged"
    elif snapshot.status.start is None:
        outcome = "the job would fail immediately"
    else:
        outcome = "the job would be neither restarted nor cleaned up until its spec is corrected"
    return (f"its spec is invalid: {outcome}", *snapshot.job.problems)


def _conditions(snapshot: Snapshot, plans: tuple[Plan, ...]) -> Outlook:
    """Return the conditions that would be added, changed or removed."""
    before, after = snapshot.status, plans[-1].status
    changed = [
        condition
        for condition in after.conditions
        if (known := before.condition(condition.type)) is None or known.true != condition.true
    ]
    words = [f"{item.type}={item.true} ({item.message})" for item in changed]
    words += [f"condition {item.type} removed" for item in before.conditions if after.condition(item.type) is None]
    fails = after.true(ConditionType.FAILED) and not before.true(ConditionType.FAILED)
    grade = (
        Grade.NEEDS_ATTENTION if fails or _restarts(before, after) else Grade.WILL_CHANGE if words else Grade.UNCHANGED
    )
    return Outlook(snapshot, grade, tuple(words))


def _restarts(before: Status, after: Status) -> bool:
    return after.retries.used > before.retries.used or not set(after.replacing) <= set(before.replacing)


def _deletions(snapshot: Snapshot, plans: tuple[Plan, ...]) -> Outlook:
    """Return the deletions of pods, or of the job itself."""
    actions = [action for step in plans for action in step.actions]
    if any(isinstance(action, DeleteJob) for action in actions):
        return Outlook(snapshot, Grade.WILL_CHANGE, ("job deleted: ttlSecondsAfterFinished has passed",))
    uids = {action.uid for action in actions if isinstance(action, DeletePod)}
    deleted = [pod for pod in snapshot.pods if pod.uid in uids]
    if not deleted:
        return Outlook(snapshot, Grade.UNCHANGED, ())
    status = plans[-1].status
    wanted = not (status.over or status.true(ConditionType.SUSPENDED))
    grade = Grade.NEEDS_ATTENTION if wanted and any(_active(pod) for pod in deleted) else Grade.WILL_CHANGE
    return Outlook(snapshot, grade, (f"{_listed([pod.name for pod in deleted])} deleted",))


def _active(pod: Pod) -> bool:
    return not pod.over and not pod.deleting


def _other_changes(snapshot: Snapshot, plans: tuple[Plan, ...]) -> Outlook:
    """Return the objects that would be created, updated or deleted, except for deleted pods and the job."""
    groups: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for action in (action for step in plans for action in step.actions):
        if not isinstance(action, (DeletePod, DeleteJob)):
            groups[_kind_and_verb(action)].append(action.name)
    words = [f"{_listed(names, kind)} {verb}" for (kind, verb), names in groups.items()]
    return Outlook(snapshot, Grade.WILL_CHANGE if words else Grade.UNCHANGED, tuple(words))


def _kind_and_verb(action: Action) -> tuple[str, str]:
    """Return the kind of the object, and the past participle of the verb."""
    match action:
        case CreateDependent() | UpdateDependent() | DeleteDependent():
            kind = action.resource.kind
        case CreateService() | DeleteService():
            kind = "Service"
        case _:
            kind = "pod"
    verbs = {"Create": "created", "Update": "updated", "Delete": "deleted"}
    return kind, verbs[type(action).__name__[:6]]


def _listed(names: list[str], kind: str = "pod") -> str:
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return f"{kind}{'s' if len(names) > 1 else ''} {', '.join(names[:NAMES])}{more}"
