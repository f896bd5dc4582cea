"""The questions that the rules ask of a snapshot, each answered once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Any, TypeVar, cast

from trainshed.api.framework import Framework, Quorum, SuccessPolicy
from trainshed.api.indexes import Indexes
from trainshed.api.job import Job, Member, Replicas, Scope
from trainshed.api.pod import Phase, Pod
from trainshed.api.snapshot import Snapshot
from trainshed.api.status import Failure, Status, Tally

from . import failures, names

T = TypeVar("T")
#: The facts that do not depend on the status; the last two do on which pods it gives up.
LASTING = ("goal", "scope", "seats", "groups", "addresses", "present", "surplus", "stale", "current")


@dataclass(frozen=True)
class Facts:
    """What a snapshot tells; `status` is the stored one, `seen` the same with everything recounted."""

    snapshot: Snapshot
    _answers: dict[object, Any] = field(default_factory=dict, repr=False, compare=False)

    def once(self, question: Callable[[Facts], T]) -> T:
        """The answer to a question that another module asks, found at the first time that it is asked."""
        if question not in self._answers:
            self._answers[question] = question(self)
        return cast("T", self._answers[question])

    @property
    def job(self) -> Job:
        """The job."""
        return self.snapshot.job

    @property
    def framework(self) -> Framework:
        """Its framework."""
        return self.snapshot.framework

    @property
    def status(self) -> Status:
        """The status as it was stored last."""
        return self.snapshot.status

    @property
    def now(self) -> datetime:
        """The time of this look."""
        return self.snapshot.now

    def after(self, status: Status) -> Facts:
        """The same world, once `status` is stored; what no status changes is not found once more."""
        found = Facts(replace(self.snapshot, status=status))
        parts = ("attempts", "replacing", "shrunk")
        same = all(getattr(status, part) == getattr(self.status, part) for part in parts)
        lasting = LASTING if same else LASTING[:-2]
        found.__dict__.update({name: self.__dict__[name] for name in lasting if name in self.__dict__})
        return found

    @property
    def own_container(self) -> str:
        """The name of the framework's own container, or nothing if it is the first."""
        return self.framework.container.name if self.framework.container.by_name else ""

    @cached_property
    def goal(self) -> SuccessPolicy | None:
        """Whose success is the job's."""
        return self.framework.hooks.success_policy(self.job)

    @cached_property
    def scope(self) -> Scope:
        """How far a restart reaches: as the user says, or as the framework needs."""
        return self.job.scope or self.framework.hooks.scope(self.job)

    @cached_property
    def groups(self) -> dict[str, Replicas]:
        """The roles that the job has, by their names."""
        return {group.role: group for group in self.job.replicas}

    @cached_property
    def seats(self) -> dict[str, Member]:
        """The members that the job asks for, by the name of their pod. Names decide, never labels."""
        return {names.child(self.job, member): member for member in self.job.members}

    @cached_property
    def addresses(self) -> Mapping[str, Member | None]:
        """The names of the job's Services, each with its member; the one that is the whole job's has none."""
        return {self.job.name: None} if self.framework.objects.job_service else self.seats

    @cached_property
    def present(self) -> frozenset[str]:
        """The names of all pods that are ours, whatever state they are in."""
        return frozenset(pod.name for pod in self.snapshot.pods)

    @cached_property
    def surplus(self) -> tuple[Pod, ...]:
        """Pods that have no seat: the job was scaled down."""
        return tuple(pod for pod in self.snapshot.pods if pod.name not in self.seats)

    @cached_property
    def stale(self) -> tuple[Pod, ...]:
        """Pods that have been given up on: they belong to another attempt, or are to be replaced."""
        return tuple(pod for pod in self.snapshot.pods if pod.name in self.seats and self.given_up(pod))

    @cached_property
    def current(self) -> dict[Member, Pod]:
        """The pods that count, by their seat, each in the phase that the framework's own container gives it."""
        pods = (pod for pod in self.snapshot.pods if pod.name in self.seats and not self.given_up(pod))
        return {self.seats[pod.name]: self._judged(pod) for pod in pods}

    @cached_property
    def done(self) -> dict[str, Indexes]:
        """Which members have succeeded, by role, whether their pods are still there or not."""
        never = {self.goal.depends_on, self.goal.role if self.deserters else ""} if self.goal else set()
        ended = (member for member, pod in self.current.items() if pod.phase is Phase.SUCCEEDED)
        finished = [member for member in ended if member.role not in never]
        return {group.role: self._done(group, finished) for group in self.job.replicas}

    @cached_property
    def achieved(self) -> bool:
        """Whether those whose success is the job's have succeeded; nobody's success is nobody's."""
        group = self.job.of(self.goal.role) if self.goal else None
        if self.goal is None or group is None or group.count == 0:
            return False
        done = self.done[group.role]
        if self.goal.quorum is Quorum.ANY:
            return len(done) > 0
        return len(done) >= group.count or (self.goal.quorum is Quorum.FIRST and 0 in done)

    @cached_property
    def running(self) -> bool:
        """Whether one of those who decide is running now, and all whom it takes."""
        running = Counter(member.role for member, pod in self.current.items() if pod.phase is Phase.RUNNING)
        if self.goal is None or not running[self.goal.role]:
            return False
        others = self.job.of(self.goal.depends_on) if self.goal.require_all_running else None
        return others is None or running[others.role] >= others.count

    @cached_property
    def failed(self) -> dict[Member, Failure]:
        """The members that have failed or were taken away, in the order in which it happened."""
        now, own = self.now, self.own_container
        found = {member: failures.failure(pod, own, now) for member, pod in self.current.items()} | self.deserters
        shown = {member: failure for member, failure in found.items() if failure and not self.finished(member)}
        return dict(sorted(shown.items(), key=lambda item: (item[1].time, item[1].pod)))

    @cached_property
    def deserters(self) -> dict[Member, Failure]:
        """Those who left before the one they served had succeeded; where members come and go nobody deserts."""
        goal = self.goal
        if goal is None or not goal.depends_on or self.scope is Scope.REPLICA:
            return {}
        done = (pod for pod in self.current.values() if pod.phase is Phase.SUCCEEDED)
        winners = [pod for pod in done if self.seats[pod.name].role == goal.role]
        servants = {member: pod for member, pod in self.current.items() if member.role == goal.depends_on}
        found = {
            member: failures.desertion(pod, winner, self.now) for winner in winners for member, pod in servants.items()
        }
        return {member: failure for member, failure in found.items() if failure}

    @cached_property
    def missing(self) -> tuple[Member, ...]:
        """The seats that want a pod and have none of that name."""
        return tuple(
            member
            for name, member in self.seats.items()
            if name not in self.present and member.index not in self.done[member.role]
        )

    @cached_property
    def tallies(self) -> dict[str, Tally]:
        """The replicas of each role, counted. A running pod is active until it is gone, wanted or not."""
        roles = {group.role.lower(): group.role for group in self.job.replicas}
        ended = {pod.uid for pod in self.current.values() if pod.over}
        running = (pod for pod in self.snapshot.pods if pod.phase is Phase.RUNNING and pod.uid not in ended)
        active = Counter(roles.get(pod.role) for pod in running)
        failed = Counter(member.role for member, pod in self.current.items() if pod.phase is Phase.FAILED)
        ready = Counter(member.role for member, pod in self.current.items() if pod.ready and not pod.deleting)
        return {
            role: Tally(
                active=active[role],
                succeeded=len(self.done[role]),
                failed=failed[role],
                ready=ready[role],
                selector=names.selector(self.framework, self.job, role) if self.framework.selectors else "",
                done=self.done[role],
            )
            for role in roles.values()
        }

    @cached_property
    def in_place(self) -> int:
        """How often the kubelet has restarted containers of the pods that are there."""
        return sum(pod.restarts for member, pod in self.current.items() if self.group(member).restart_policy.in_place)

    @cached_property
    def seen(self) -> Status:
        """The stored status, with whatever the pods tell now."""
        before = self.status.retries
        # A pod that is gone takes its count along; what the sum has lost since it was stored is kept apart.
        gone = before.in_place_gone + max(0, before.in_place - self.in_place)
        retries = replace(before, in_place=self.in_place, in_place_gone=gone)
        uids = {pod.uid for pod in self.snapshot.pods}
        waited_for = tuple(uid for uid in self.status.replacing if uid in uids)
        shrunk = {role: count for role in self.groups if (count := self._shrunk(role)) is not None}
        return replace(self.status, tallies=self.tallies, retries=retries, replacing=waited_for, shrunk=shrunk)

    def group(self, member: Member) -> Replicas:
        """The role of a member."""
        return self.groups[member.role]

    def given_up(self, pod: Pod) -> bool:
        """Whether a pod that has a seat is to be replaced, or is of another attempt than the role."""
        seat, status = self.seats[pod.name], self.status
        # Its seat was taken away and given back before it was gone; nobody else has been disturbed by that.
        leftover = pod.deleting and seat.index >= status.shrunk.get(seat.role, seat.index + 1)
        return leftover or pod.uid in status.replacing or pod.attempt != status.attempts.get(seat.role, 0)

    def _judged(self, pod: Pod) -> Pod:
        policy = self.group(self.seats[pod.name]).restart_policy
        phase = failures.outcome(pod, self.own_container, policy)
        return pod if phase is pod.phase else replace(pod, phase=phase)

    def _shrunk(self, role: str) -> int | None:
        """How few members a role was to have since its last surplus pod began to leave; None once all are gone."""
        count = self.groups[role].count
        fewest = min(count, self.status.shrunk.get(role, count))
        leaving = (pod for pod in (*self.surplus, *self.stale) if pod.role == role.lower() and pod.index >= fewest)
        return fewest if any(True for _ in leaving) else None

    def finished(self, member: Member) -> bool:
        """Whether it has succeeded."""
        return member.index in self.done[member.role]

    def _done(self, group: Replicas, finished: list[Member]) -> Indexes:
        if self.goal and group.role == self.goal.depends_on:
            return Indexes()  # whoever wrote something else into the status was not us
        before = self.status.tallies.get(group.role, Tally()).done
        now = Indexes.of(member.index for member in finished if member.role == group.role)
        return (before | now).below(group.count)
