"""What is observed about a job: its pods by replica, what failed, what is missing, what the status has lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from datetime import datetime
from functools import cached_property
from itertools import islice
from operator import attrgetter
from typing import Any, TypeVar

from msgspec.structs import replace

from trainshed.api import framework
from trainshed.api.actions import Snapshot, all_pods
from trainshed.api.framework import Framework, Quorum, SuccessPolicy
from trainshed.api.indexes import Indexes
from trainshed.api.job import CleanPodPolicy, Job, Replica, ReplicaGroup, RestartScope, ServiceForm
from trainshed.api.objects import Container, Phase, Pod
from trainshed.api.replicas import NONE, PodRoles, Replicas, Services, others, pod_roles, replicas_by_name, tally
from trainshed.api.status import ConditionType, Failure, ReplicaStatus, Status

from . import failures

T = TypeVar("T")
NOT_COUNTED = ReplicaStatus()
#: The facts that do not depend on the status, and those that depend only on which pods the status replaces.
BY_NAME = {"replicas_by_pod", "present", "seated", "absent", "surplus", "roles", "services"}
INDEPENDENT = {"goal", "scope", "groups", "terminating", *BY_NAME}
BY_REPLACED_PODS = {"stale", "current", "eventful", "early_exits"}
REPLACED_PODS = attrgetter("attempts", "pending_replacement", "scaled_down_to")
#: The maximum number of missing pods of a role that are looked up: if the watch has lost many, these show it.
MAX_NAMED = 32


class Facts:
    """The facts of one snapshot, which do not change.

    `status` is the stored status, `observed` the same with all counts recomputed. `now` is the time of this reconcile.
    """

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.job: Job = snapshot.job
        self.framework: Framework = snapshot.framework
        self.status: Status = snapshot.status
        self.now: datetime = snapshot.now
        self._answers: dict[object, Any] = {}

    def once(self, question: Callable[[Facts], T]) -> T:
        """Return the result of another module's function of these facts, computed at the first call."""
        if question not in self._answers:
            self._answers[question] = question(self)
        found: T = self._answers[question]
        return found

    def after(self, status: Status) -> Facts:
        """Return the facts with `status` as the stored one; facts that do not depend on it are not computed again."""
        found = Facts(replace(self.snapshot, status=status))
        lasting = INDEPENDENT | BY_REPLACED_PODS if REPLACED_PODS(status) == REPLACED_PODS(self.status) else INDEPENDENT
        found.__dict__.update({name: self.__dict__[name] for name in lasting & self.__dict__.keys()})
        return found

    @cached_property
    def goal(self) -> SuccessPolicy | None:
        """The replicas that define the success of the job."""
        return self.framework.hooks.success_policy(self.job)

    @cached_property
    def scope(self) -> RestartScope:
        """The restart scope: the user's, or what the framework needs."""
        return self.job.scope or self.framework.hooks.scope(self.job)

    @cached_property
    def groups(self) -> dict[str, ReplicaGroup]:
        """The replica groups of the job by role."""
        return {group.role: group for group in self.job.groups}

    @cached_property
    def replicas_by_pod(self) -> Mapping[str, Replica]:
        """The requested replicas that have a pod, by its name. Pods are matched by name, never by label."""
        pods = (*all_pods(self.snapshot), *self.snapshot.unwatched)
        return replicas_by_name(self.job, [pod.name for pod in pods])

    @cached_property
    def services(self) -> Services:
        """The Services of the job."""
        each = not self.framework.objects.job_service and self.job.services is ServiceForm.REPLICA
        joined = not each or any(pod.service for pod in all_pods(self.snapshot))
        names = [service.name for service in self.snapshot.services]
        found = replicas_by_name(self.job, names) if each else {}
        return Services(
            needed=frozenset((*found, self.job.name) if joined else found),
            missing=others(self.job, found.values()) if each and len(found) < self.job.size else NONE,
            joined_missing=joined and self.job.name not in names,
        )

    @cached_property
    def present(self) -> frozenset[str]:
        """The names of all pods of the job, in any state."""
        return frozenset([pod.name for pod in self.snapshot.pods])

    @cached_property
    def seated(self) -> AbstractSet[str]:
        """The names of those pods that the spec requests."""
        return self.present & self.replicas_by_pod.keys()

    @cached_property
    def absent(self) -> Replicas:
        """The requested replicas that have no pod of their name."""
        if len(self.seated) == self.job.size:
            return NONE
        return others(self.job, [self.replicas_by_pod[name] for name in self.seated])

    @cached_property
    def terminating(self) -> tuple[Pod, ...]:
        """The pods that have a time at which their grace period ends, requested or not."""
        return tuple([pod for pod in self.owned if pod.deletion_timestamp])

    @cached_property
    def surplus(self) -> tuple[Pod, ...]:
        """Pods that the spec no longer requests: the job was scaled down."""
        if len(self.seated) == len(self.present):
            return ()
        return tuple(pod for pod in self.snapshot.pods if pod.name not in self.seated)

    @cached_property
    def roles(self) -> PodRoles:
        """The replicas that the pods are or were."""
        pods = (*self.surplus, *self.snapshot.unwatched)
        return pod_roles(self.job, self.framework.roles, self.replicas_by_pod, pods)

    @cached_property
    def stale(self) -> tuple[Pod, ...]:
        """Requested pods to delete: they belong to another attempt, or are to be replaced."""
        replicas, pods, attempts = self.replicas_by_pod, self.snapshot.pods, self.status.attempts
        known = {attempts.get(group.role, 0) for group in self.job.groups}
        if len(known) == 1 and not self.status.pending_replacement:  # the usual case: this only saves time
            (newest,) = known
            pods = tuple([pod for pod in pods if pod.deleting or pod.attempt != newest])
        return tuple(pod for pod in pods if pod.name in replicas and self.given_up(pod))

    @cached_property
    def current(self) -> dict[Replica, Pod]:
        """The pods of the current attempt by replica, each with the phase of the framework's own container."""
        replicas, pods = self.replicas_by_pod, self.snapshot.pods
        if left_out := {pod.uid for pod in (*self.surplus, *self.stale)}:
            pods = tuple(pod for pod in pods if pod.uid not in left_out)
        return {replicas[pod.name]: pod if pod.quiet else self._with_outcome(pod) for pod in pods}

    @cached_property
    def eventful(self) -> dict[Replica, Pod]:
        """Those of the `current` pods that do not simply run; only they can have failed, wait or have restarts."""
        return {replica: pod for replica, pod in self.current.items() if not pod.quiet}

    @cached_property
    def unfinished(self) -> Counter[str]:
        """The number of `current` pods by role, without those of replicas that have succeeded."""
        found = Counter([replica.role for replica in self.current])
        if self._some_done:
            found -= Counter([replica.role for replica in self.current if self.finished(replica)])
        return found

    @cached_property
    def done(self) -> dict[str, Indexes]:
        """The indexes of the replicas that have succeeded, by role, whether or not their pods still exist."""
        never = {self.goal.depends_on, self.goal.role if self.early_exits else ""} if self.goal else set()
        ended = (replica for replica, pod in self.eventful.items() if pod.phase is Phase.SUCCEEDED)
        finished = [replica for replica in ended if replica.role not in never]
        return {group.role: self._done(group, finished) for group in self.job.groups}

    @cached_property
    def achieved(self) -> bool:
        """Whether the replicas that define success have succeeded; False if there are none."""
        group = self.job.of(self.goal.role) if self.goal else None
        if self.goal is None or group is None or group.count == 0:
            return False
        done = self.done[group.role]
        if self.goal.quorum is Quorum.ANY:
            return len(done) > 0
        return len(done) >= group.count or (self.goal.quorum is Quorum.FIRST and 0 in done)

    @cached_property
    def running(self) -> bool:
        """Whether a replica that defines success is running, and with it all replicas that it depends on."""
        running = tally([replica.role for replica, pod in self.current.items() if pod.phase is Phase.RUNNING])
        if self.goal is None or not running[self.goal.role]:
            return False
        others = self.job.of(self.goal.depends_on) if self.goal.require_all_running else None
        return others is None or running[others.role] >= others.count

    @cached_property
    def failed(self) -> dict[Replica, Failure]:
        """The failures of replicas, disruptions included, in the order in which they happened."""
        if not self.eventful:
            return {}
        own, now = {role: group.container for role, group in self.groups.items()}, self.now
        found = {replica: failures.failure(pod, own[replica.role], now) for replica, pod in self.eventful.items()}
        found |= self.early_exits
        shown = {replica: failure for replica, failure in found.items() if failure and not self.finished(replica)}
        if reports := self.snapshot.node_reports:
            began = {replica: failures.began(self.current[replica], own[replica.role]) for replica in shown}
            shown = {one: failures.with_node(failure, began[one], reports) for one, failure in shown.items()}
        return dict(sorted(shown.items(), key=lambda item: (item[1].time, item[1].pod)))

    @cached_property
    def early_exits(self) -> dict[Replica, Failure]:
        """Replicas that exited before the replica that depends on them succeeded; none with scope Replica."""
        goal = self.goal
        if goal is None or not goal.depends_on or self.scope is RestartScope.REPLICA:
            return {}
        done = (pod for pod in self.current.values() if pod.phase is Phase.SUCCEEDED)
        succeeded_pods = [pod for pod in done if self.replicas_by_pod[pod.name].role == goal.role]
        needed = {replica: pod for replica, pod in self.current.items() if replica.role == goal.depends_on}
        found = {
            replica: failures.early_exit((pod, self.own_container(pod)), winner, self.own_container(winner), self.now)
            for winner in succeeded_pods
            for replica, pod in needed.items()
        }
        return {replica: failure for replica, failure in found.items() if failure}

    @cached_property
    def missing(self) -> Replicas:
        """The requested replicas that have not succeeded and have no pod of their name."""
        return self.absent.without(self.done) if self._some_done else self.absent

    @cached_property
    def holding(self) -> tuple[Pod, ...]:
        """The pods that hold resources."""
        return tuple(pod for pod in self.owned if pod.holds_resources)

    @cached_property
    def owned(self) -> tuple[Pod, ...]:
        """The pods of the job, and those that have left the watch, if the job is queued or stops its pods."""
        deletes = self.status.limit_exceeded or self.job.policy.clean_pods is not CleanPodPolicy.NONE
        counts = (self.status.over and deletes) or self.status.ending or self.job.in_queue
        return (*self.snapshot.pods, *self.snapshot.unwatched) if counts else self.snapshot.pods

    @cached_property
    def replica_statuses(self) -> dict[str, ReplicaStatus]:
        """The counts by role for status.replicaStatuses. A running pod is active until it is gone, requested or not.

        A role that the spec has no longer stays until its last pod holds nothing.
        """
        idle = {pod.uid for pod in self.eventful.values() if pod.phase is not Phase.RUNNING}
        running = [pod for pod in self.owned if pod.phase is Phase.RUNNING]
        if idle:
            running = [pod for pod in running if pod.uid not in idle]
        held = self.holding if self.job.in_queue else ()
        active = self.roles.count(running)
        others = self.roles.count(held, foreign=True) - active if held else tally([])
        failed = tally([replica.role for replica, pod in self.eventful.items() if pod.phase is Phase.FAILED])
        ready = tally([replica.role for replica, pod in self.current.items() if self.is_ready(pod)])
        found = {
            role: ReplicaStatus(
                active=active[role],
                not_running=others[role],
                succeeded=len(self.done[role]),
                failed=failed[role],
                ready=ready[role],
                selector=framework.selector(self.framework, self.job, role) if self.framework.selectors else "",
                done=self.done[role],
            )
            for role in self.groups
        }
        before = {} if self.groups else self.status.replica_statuses
        left = [role for role in (*active, *others, *before) if role not in found]
        return found | {
            role: replace(before.get(role, NOT_COUNTED), active=active[role], not_running=others[role]) for role in left
        }

    @cached_property
    def container_restarts(self) -> int:
        """The number of restarts of the framework's containers by the kubelet, over the existing pods."""
        return sum(self.restarts_in_place(replica) for replica in self.eventful)

    @cached_property
    def observed(self) -> Status:
        """The stored status with all counts recomputed from the pods.

        If the spec cannot be read, only what the pods hold is known, and the other counts stay until the last is gone.
        """
        before = self.status.retries
        # The restarts of a deleted pod are no longer in the sum; what the sum lost since it was stored is kept apart.
        gone = before.deleted_pod_container_restarts + max(0, before.container_restarts - self.container_restarts)
        retries = replace(before, container_restarts=self.container_restarts, deleted_pod_container_restarts=gone)
        waited_for = self.status.pending_replacement
        if waited_for:
            uids = {pod.uid for pod in self.snapshot.pods}
            waited_for = tuple(uid for uid in waited_for if uid in uids)
        return replace(
            self.status,
            replica_statuses=self.replica_statuses if self.groups or self.snapshot.pods else {},
            retries=retries,
            pending_replacement=waited_for,
            scaled_down_to=self._shrunk,
        )

    def group(self, replica: Replica) -> ReplicaGroup:
        """Return the replica group of a replica."""
        return self.groups[replica.role]

    def own_container(self, pod: Pod) -> Container | None:
        """Return the framework's own container of the pod of a replica, or None if it is not known."""
        return failures.own_container(pod, self.group(self.replicas_by_pod[pod.name]).container)

    def is_ready(self, pod: Pod) -> bool:
        """Return whether the pod of a replica is ready, or at least the framework's own container."""
        own = None if pod.ready or pod.deleting else self.own_container(pod)
        return not pod.deleting and (pod.ready or bool(own and own.ready))

    def restarts_in_place(self, replica: Replica) -> int:
        """Return how often the kubelet has restarted the framework's own container of a replica that has a pod."""
        group, pod = self.group(replica), self.current[replica]
        in_place = group.restart_policy.restarts_in_place
        return failures.container_restarts(pod, group.container) if in_place else 0

    def given_up(self, pod: Pod) -> bool:
        """Return whether a requested pod is to be replaced, or is of another attempt than its role."""
        replica, status = self.replicas_by_pod[pod.name], self.status
        # The job was scaled down and up again before the pod was gone; no other replica was affected by that.
        leftover = pod.deleting and replica.index >= status.scaled_down_to.get(replica.role, replica.index + 1)
        return leftover or pod.uid in status.pending_replacement or pod.attempt != status.attempts.get(replica.role, 0)

    def _with_outcome(self, pod: Pod) -> Pod:
        group = self.group(self.replicas_by_pod[pod.name])
        phase = failures.outcome(pod, group.container, group.restart_policy)
        if self.job.checkpoint_grace is not None and failures.has_saved(pod, group.container):
            phase = Phase.FAILED
        return pod if phase is pod.phase else replace(pod, phase=phase)

    @property
    def _shrunk(self) -> dict[str, int]:
        """The smallest size of each role for which pods are still terminating, without roles of which all are gone."""
        leaving = [found for found in map(self.roles.replica, (*self.surplus, *self.stale)) if found]
        if not leaving:
            return {}
        known = self.status.scaled_down_to
        sizes = {role: min(group.count, known.get(role, group.count)) for role, group in self.groups.items()}
        return {
            role: size for role, size in sizes.items() if any(one.role == role and one.index >= size for one in leaving)
        }

    def finished(self, replica: Replica) -> bool:
        """Return whether a replica has succeeded."""
        return replica.index in self.done[replica.role]

    @property
    def _some_done(self) -> bool:
        return any(done.ranges for done in self.done.values())

    def _done(self, group: ReplicaGroup, finished: list[Replica]) -> Indexes:
        if self.goal and group.role == self.goal.depends_on:
            return Indexes()  # an entry in the status was not written by the operator
        before = self.status.replica_statuses.get(group.role, NOT_COUNTED).done
        observed = [replica.index for replica in finished if replica.role == group.role]
        return (before | Indexes.of(observed)).below(group.count) if before.ranges or observed else before


def hidden_pods(facts: Facts) -> tuple[Pod, ...]:
    """Return the pods that exist though no watch reports them (scope Job only): they have lost their labels."""
    snapshot = facts.snapshot
    return all_pods(snapshot)[len(snapshot.pods) :] if facts.scope is RestartScope.JOB else ()


def disappeared(facts: Facts) -> tuple[Replica, ...]:
    """Return the replicas whose pods are no longer observed though they ran when last observed (scope Job only)."""
    return facts.once(_disappeared)


def _disappeared(facts: Facts) -> tuple[Replica, ...]:
    known = hidden_replicas(facts)
    if facts.scope is not RestartScope.JOB or not facts.status.true(ConditionType.RUNNING):
        return known
    if not facts.absent or facts.stale:  # the first is all that most reconciles check
        return known
    scaled_down_to = (
        facts.status.scaled_down_to | facts.observed.scaled_down_to
    )  # the counts of the status include replicas that were scaled down
    steady = (group for group in facts.job.groups if group.role not in scaled_down_to)
    found = (replica for group in steady for replica in _fewer_than_counted(facts, group))
    return (*known, *(replica for replica in found if replica not in known))


def hidden_replicas(facts: Facts) -> tuple[Replica, ...]:
    """Return those of them whose pods are known to exist and belong to the current attempt."""
    if facts.snapshot.refusal is None:
        return ()
    seated = (pod for pod in hidden_pods(facts) if pod.name in facts.replicas_by_pod and not facts.given_up(pod))
    return tuple(facts.replicas_by_pod[pod.name] for pod in seated if facts.replicas_by_pod[pod.name] in facts.missing)


def _fewer_than_counted(facts: Facts, group: ReplicaGroup) -> tuple[Replica, ...]:
    """Return missing replicas of a role, as many as the role has fewer pods than the status counted as running."""
    stored = facts.status.replica_statuses.get(group.role, NOT_COUNTED)
    wanted = min(stored.active + stored.succeeded, group.count) - len(facts.done[group.role])
    count = min(max(0, wanted - facts.unfinished[group.role]), MAX_NAMED)
    return tuple(Replica(group.role, index) for index in islice(facts.missing.of(group.role), count))
