"""Whether a failure may be retried, which replicas restart, after which delay, and the history of restarts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from datetime import datetime, timedelta
from itertools import islice

import msgspec
from msgspec.structs import replace

from trainshed.api.coerce import LARGEST
from trainshed.api.indexes import Indexes
from trainshed.api.job import Replica, RestartPolicy, RestartScope
from trainshed.api.objects import Phase, Pod, start_of
from trainshed.api.status import MAX_RECENT_RESTARTS, ConditionType, Failure, ReplicaStatus, Restart, Retries, Status

from . import failures
from .facts import Facts, disappeared, hidden_replicas
from .failures import APPLICATION, CASCADING, DISRUPTION, given_up
from .retry_delay import RESET_AFTER, backoff_seconds

#: The number of pods that are replaced at a time with scope Replica; the rest follow later. Bounds the status.
MAX_PENDING_REPLACEMENTS = 64
#: Under restartPolicy ExitCode, exit codes from here on are retryable: v1's rule (TO-178).
RETRYABLE_FROM = 128
#: The failures of a job on one node after which it avoids the node, and the largest number of nodes that it avoids.
AVOIDED_AFTER, MAX_AVOIDED = 2, 3
#: Ends of pods that say nothing about their node.
NOT_OF_THE_NODE = frozenset({"Deleted", "PodDisappeared", "PreemptionByScheduler", "EvictionByEvictionAPI"})


class FailureGroup(msgspec.Struct, frozen=True):
    """The failures to handle now, the earliest first, and how many of them count against backoffLimit.

    Replicas that fail `alone` are replaced without those that would restart with them: they had never joined them.
    All replicas restart `together`, whatever the scope, because of a hang.
    """

    failures: dict[Replica, Failure]
    counted: int
    alone: bool = False
    together: bool = False

    @property
    def first(self) -> tuple[Replica, Failure]:
        """The replica that failed first, and its failure."""
        return next(iter(self.failures.items()))

    @property
    def root_cause(self) -> Failure | None:
        """The first failure that no other caused; it is kept in the status, to recognise those that it causes."""
        return next((failure for failure in self.failures.values() if failure.kind != CASCADING), None)


def failure_group(facts: Facts) -> FailureGroup | None:
    """Return the failures to handle now, or None.

    The first failure decides. Where replicas restart together, it stands for all of them. Elsewhere, failures shortly
    after it are Cascading: they are retried, whatever their exit code, and not counted. A disruption observed in the
    same reconcile goes first, because it explains the rest; so does, within one second, a retryable failure. Replicas
    that have never joined the others stand for themselves, if no other failed.
    """
    return facts.once(_failure_group)


def _failure_group(facts: Facts) -> FailureGroup | None:
    gone = () if hidden_replicas(facts) else disappeared(facts)  # once that has been checked for all of them
    found = {replica: _disappeared(facts, replica) for replica in gone} | facts.failed
    if not found:
        return None
    counting = {replica: failure for replica, failure in found.items() if not _ignored(facts, replica, failure)}
    ordered = dict(sorted(counting.items(), key=lambda item: _precedence(facts, *item)))
    if ordered and not facts.job.grouped and all(_never_joined(facts, replica) for replica in ordered):
        return FailureGroup(ordered, _count(ordered), alone=True)
    if facts.scope is not RestartScope.REPLICA:
        ordered = _first_of_each(facts, ordered)
    if facts.scope is not RestartScope.JOB:
        ordered = _with_cascading(facts, ordered)
    return FailureGroup(ordered, _count(ordered)) if ordered else None


def permanent(facts: Facts, replica: Replica, failure: Failure) -> bool:
    """Return whether the restart policy forbids a retry after this failure."""
    if failure.kind != APPLICATION:
        return failure.kind == DISRUPTION and facts.job.fail_on_disruption
    policy = facts.group(replica).restart_policy
    if policy is RestartPolicy.EXIT_CODE:
        return (failure.exit_code or 0) < RETRYABLE_FROM
    return policy is RestartPolicy.NEVER


def fatal(facts: Facts, failed: FailureGroup) -> Failure | None:
    """Return the failure of these that ends the job, or None if all may be retried."""
    if backoff_limit_reached(facts, failed):
        return failed.first[1]
    ends = (failure for replica, failure in failed.failures.items() if permanent(facts, replica, failure))
    return next(ends, None)


def backoff_limit_reached(facts: Facts, failed: FailureGroup) -> bool:
    """Return whether these failures exceed backoffLimit."""
    limit = facts.job.policy.backoff_limit
    return limit is not None and failed.counted > 0 and facts.status.retries.used + failed.counted > limit


def container_restarts_exhausted(facts: Facts) -> bool:
    """Return whether the kubelet has restarted containers as often as backoffLimit allows; 0 allows no restart."""
    limit = facts.job.policy.backoff_limit
    return limit is not None and facts.observed.retries.in_place >= max(limit, 1)


def scope(facts: Facts, failed: FailureGroup) -> RestartScope:
    """Return which replicas restart because of these failures."""
    own = RestartScope.REPLICA if failed.alone else facts.scope
    return RestartScope.JOB if failed.together else own


def restartable(facts: Facts, failed: FailureGroup) -> FailureGroup | None:
    """Return the part of these failures that can be handled now; None while too many pods are being replaced."""
    if scope(facts, failed) is not RestartScope.REPLICA:
        return failed
    free = MAX_PENDING_REPLACEMENTS - len(facts.observed.pending_replacement)
    failures = dict(islice(failed.failures.items(), max(0, free)))
    return FailureGroup(failures, _count(failures), alone=failed.alone) if failures else None


def next_attempt(facts: Facts, failed: FailureGroup) -> Status:
    """Return the status that restarts the replicas of these failures: their present pods are to be replaced."""
    retries = _next_retries(facts, failed)
    status = replace(facts.observed, failure=failed.root_cause or facts.status.failure, retries=retries)
    if scope(facts, failed) is RestartScope.REPLICA:
        uids = (facts.current[replica].uid for replica in failed.failures)
        return _keep_container_restarts(
            facts, replace(status, pending_replacement=(*status.pending_replacement, *uids)), failed.failures
        )
    together = scope(facts, failed) is RestartScope.JOB
    roles = {group.role for group in facts.job.groups} if together else {replica.role for replica in failed.failures}
    return _keep_container_restarts(
        facts, start_attempt(status, roles), (replica for replica in facts.current if replica.role in roles)
    )


def _keep_container_restarts(facts: Facts, status: Status, gone: Iterable[Replica]) -> Status:
    """Return the status with the container restarts of the replaced pods kept in a count of their own."""
    lost = sum(facts.restarts_in_place(replica) for replica in gone)
    retries = status.retries
    moved = replace(
        retries,
        container_restarts=retries.container_restarts - lost,
        deleted_pod_container_restarts=retries.deleted_pod_container_restarts + lost,
    )
    return replace(status, retries=moved)


def after_failure(status: Status) -> bool:
    """Return whether the present attempt began because replicas failed: not after a disruption or a suspension.

    Survivors of a failure have lost their work, and many of them hang; those of a disruption are healthy and may save
    their work when they get SIGTERM. The stored status says which it was, so a crash does not change the answer.
    """
    cause, suspended = status.failure, status.condition(ConditionType.SUSPENDED)
    if cause is None or (suspended and suspended.changed >= cause.time):
        return False
    return cause.kind != DISRUPTION


def failed_nodes(status: Status) -> tuple[str, ...]:
    """Return the nodes on which recent restarts of the job began more than once, those with most of them first."""
    causes = (restart for restart in status.recent_restarts if restart.node and restart.reason not in NOT_OF_THE_NODE)
    found = Counter(restart.node for restart in causes).most_common(MAX_AVOIDED)
    return tuple(name for name, count in found if count >= AVOIDED_AFTER)


def start_attempt(status: Status, roles: Iterable[str]) -> Status:
    """Return the status with these roles on their next attempt, in which no replica has succeeded yet."""
    wanted = sorted(roles)
    attempts = status.attempts | {role: _attempt_after(status.attempts.get(role, 0)) for role in wanted}
    return clear_completions(replace(status, attempts=attempts), wanted)


def _attempt_after(attempt: int) -> int:
    return attempt + 1 if attempt < LARGEST else 0


def clear_completions(status: Status, roles: Iterable[str]) -> Status:
    """Return the status with no succeeded replicas in these roles."""
    replica_statuses = {
        role: replace(status.replica_statuses.get(role, ReplicaStatus()), succeeded=0, done=Indexes()) for role in roles
    }
    return replace(status, replica_statuses=status.replica_statuses | replica_statuses)


def _disappeared(facts: Facts, replica: Replica) -> Failure:
    return Failure(f"{facts.job.name}-{replica}", DISRUPTION, "PodDisappeared", None, "", "", facts.now)


def _ignored(facts: Facts, replica: Replica, failure: Failure) -> bool:
    """Return whether the failure of an optional replica is ignored: while the job can still succeed without it."""
    if not (replica.role in facts.framework.hooks.optional_roles(facts.job) and permanent(facts, replica, failure)):
        return False
    role = facts.goal.role if facts.goal else ""
    group = facts.job.of(role)
    # Only replicas with a pod can have failed: of many others the first decides.
    others = facts.done[role].gaps(group.count) if group else ()
    return any(
        not ((other := Replica(role, index)) in facts.failed and permanent(facts, other, facts.failed[other]))
        for index in others
    )


def _precedence(facts: Facts, replica: Replica, failure: Failure) -> tuple[object, ...]:
    if failure.kind != APPLICATION:
        return False, failure.time
    # Termination times have a resolution of one second, and an effect never comes before its cause.
    return True, failure.time, permanent(facts, replica, failure)


def _count(found: dict[Replica, Failure]) -> int:
    return sum(1 for failure in found.values() if failure.kind == APPLICATION)


def _first_of_each(facts: Facts, found: dict[Replica, Failure]) -> dict[Replica, Failure]:
    firsts: dict[str, tuple[Replica, Failure]] = {}
    for replica, failure in found.items():
        firsts.setdefault(replica.role if facts.scope is RestartScope.ROLE else "", (replica, failure))
    return dict(firsts.values())


def _with_cascading(facts: Facts, found: dict[Replica, Failure]) -> dict[Replica, Failure]:
    cause = facts.status.failure
    if not _recent(facts, cause):
        cause = next(iter(found.values()), None)
    return {replica: _classified(facts, failure, cause) for replica, failure in found.items()}


def _recent(facts: Facts, cause: Failure | None) -> bool:
    return cause is not None and abs(facts.now - cause.time) <= 2 * _cascade_window(facts)


def _classified(facts: Facts, failure: Failure, cause: Failure | None) -> Failure:
    if cause is None or failure.pod == cause.pod or failure.kind != APPLICATION:
        return failure
    follows = abs(failure.time - cause.time) <= _cascade_window(facts)
    return replace(failure, kind=CASCADING) if follows else failure


def _cascade_window(facts: Facts) -> timedelta:
    return timedelta(seconds=facts.framework.defaults.cascade_window)


def _next_retries(facts: Facts, failed: FailureGroup) -> Retries:
    """Return the retries with a restart for these failures.

    Disruptions, and pods that are replaced alone, make the delay longer only if a replica has not survived since the
    last restart: several pods on a node that is drained, or one of many replicas each few minutes, are no storm.
    """
    before, kinds = facts.observed.retries, {failure.kind for failure in failed.failures.values()}
    if kinds == {CASCADING}:
        return before
    last = before.next_retry_time
    long_ago = last is None or facts.now - last > RESET_AFTER
    spared = failed.alone or kinds <= {DISRUPTION, CASCADING}
    if spared and not long_ago and not any(_is_new(facts, replica) for replica in failed.failures):
        return before
    streak = 1 if long_ago else before.consecutive_failures + 1
    retry = facts.now + timedelta(seconds=backoff_seconds(facts.job.uid, streak))
    return replace(before, used=before.used + failed.counted, consecutive_failures=streak, next_retry_time=retry)


def _is_new(facts: Facts, replica: Replica) -> bool:
    """Return whether the pod of a replica was created after the last restart, as far as is known.

    The replica that failed last has a new pod, whatever the clock of the API server says.
    """
    pod, last = facts.current.get(replica), facts.status.retries.next_retry_time
    if pod is None or pod.created is None or last is None or pod.created >= last:
        return True
    return facts.status.failure is not None and facts.status.failure.pod == pod.name


def _never_joined(facts: Facts, replica: Replica) -> bool:
    """Return whether the pod of a replica has failed before it took part in the work of the others.

    They are still starting, and wait for it, so it is replaced alone.
    """
    pod = facts.current.get(replica)
    return pod is not None and failures.rejected(pod) and not _counted_as_running(facts, replica.role)


def _counted_as_running(facts: Facts, role: str) -> bool:
    """Return whether the status counts more running pods of a role than there are now.

    A kubelet that restarts may reject pods that have run, and forgets the statuses of their containers.
    """
    stored = facts.status.replica_statuses.get(role, ReplicaStatus()).active
    seen = (pod for replica, pod in facts.current.items() if replica.role == role)
    return stored > sum(1 for pod in seen if pod.phase is not Phase.PENDING and not failures.rejected(pod))


#: Two kubelets report two failures in any order, each within two seconds: a kubelet checks its containers once a
#: second, and then the report must arrive. The third second is the rounding of termination times to whole seconds.
SETTLE_DELAY = timedelta(seconds=3)


def settles_at(facts: Facts) -> datetime | None:
    """Return the end of the delay, or None if there is none. It is computed from the pods, so it survives a restart.

    There is no delay if no other replica is left that may have failed before, if the failure has no termination time,
    or if that time is in the future by the operator's clock.
    """
    failed = failure_group(facts)
    failure = fatal(facts, failed) if failed else None
    if failure is None or failure.kind != failures.APPLICATION or not (_dated(facts, failure) and _others_run(facts)):
        return None
    end = failure.time + SETTLE_DELAY
    return end if failure.time <= facts.now < end else None


def _dated(facts: Facts, failure: Failure) -> bool:
    pods = ((replica, pod) for replica, pod in facts.current.items() if pod.name == failure.pod)
    ended = (failures.culprit(pod, facts.group(replica).container) for replica, pod in pods)
    return any(container.finished == failure.time for container in ended if container)


def _others_run(facts: Facts) -> bool:
    others = (pod for replica, pod in facts.current.items() if replica not in facts.failed)
    return any(pod.phase in (Phase.RUNNING, Phase.UNKNOWN) for pod in others)


def record_restart(facts: Facts, failed: FailureGroup, status: Status, cause: Failure) -> Status:
    """Return the status with the restart for these failures in its history; `cause` is its root cause with a message.

    A group of Cascading failures only is added to the restart for the earlier failure that caused them.
    """
    replicas = replicas_restarted(facts, failed)
    if failed.root_cause is None and status.recent_restarts:
        *others, last = status.recent_restarts
        return replace(
            status, recent_restarts=(*others, replace(last, replicas_restarted=last.replicas_restarted + replicas))
        )
    replica, failure = root_cause(failed)
    known, pod = cause if failed.root_cause else status.failure, facts.current.get(replica)
    fresh = Restart(
        time=given_up(pod, failure) if pod and failure.pod else failure.time,
        attempt=status.retries.used + 1,
        replica=str(replica) if failure.pod else "",
        node=failure.node,
        kind=failure.kind,
        reason=failure.reason,
        exit_code=failure.exit_code,
        replicas_restarted=replicas,
    )
    return replace(status, failure=known, recent_restarts=(*status.recent_restarts, fresh)[-MAX_RECENT_RESTARTS:])


def root_cause(failed: FailureGroup) -> tuple[Replica, Failure]:
    """Return the replica that failed first and its failure; a failure that no other caused goes first."""
    causes = ((replica, failure) for replica, failure in failed.failures.items() if failure is failed.root_cause)
    return next(causes, failed.first)


def replicas_restarted(facts: Facts, failed: FailureGroup) -> int:
    """Return how many replicas restart because of these failures."""
    if scope(facts, failed) is RestartScope.REPLICA:
        return len(failed.failures)
    roles = {replica.role for replica in failed.failures}
    groups = (group for group in facts.job.groups if scope(facts, failed) is RestartScope.JOB or group.role in roles)
    return sum(group.count for group in groups)


def record_recovery(facts: Facts, status: Status) -> Status:
    """Return the status with the recovery times of restarts, once the job and the failed replica run again.

    They are computed from the start times of containers, so they are the same at every reconcile, and are stored with
    the next status update that is needed anyway. Restarts before a suspension have no recovery time.
    """
    if not (facts.running or facts.achieved) or all(
        restart.recovery_seconds is not None for restart in status.recent_restarts
    ):
        return status
    return replace(status, recent_restarts=tuple(_with_recovery(facts, restart) for restart in status.recent_restarts))


def _with_recovery(facts: Facts, restart: Restart) -> Restart:
    replica = facts.replicas_by_pod.get(f"{facts.job.name}-{restart.replica}")
    pod = facts.current.get(replica) if replica else None
    first, begun = _started(facts, pod) if pod else None, facts.status.start
    known = first is not None or not restart.replica
    if restart.recovery_seconds is not None or not known or (begun and restart.time < begun):
        return restart
    deciding = (other for replica, other in facts.current.items() if facts.goal and replica.role == facts.goal.role)
    last = max(filter(None, (first, *(_started(facts, other) for other in deciding))), default=None)
    return replace(restart, recovery_seconds=max(0, round((last - restart.time).total_seconds()))) if last else restart


def _started(facts: Facts, pod: Pod) -> datetime | None:
    own = facts.own_container(pod)
    return start_of(own) if own else None
