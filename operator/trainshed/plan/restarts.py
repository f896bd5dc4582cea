"""Whether a failure may be retried, which replicas restart, after which delay, and the history of restarts."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from trainshed.api.indexes import Indexes
from trainshed.api.job import Replica, RestartPolicy, Scope
from trainshed.api.status import ConditionType, Failure, ReplicaStatus, Retries, Status
from trainshed.api.status_schema import LARGEST

from . import absent
from .facts import Facts
from .failures import APPLICATION, COLLATERAL, DISRUPTION

#: Seconds of back-off before the first retry, and at most; doubled from one retry to the next.
FIRST_DELAY, LONGEST_DELAY = 1, 300
#: Seconds without a failure after which the back-off begins again at its shortest.
FORGIVEN_AFTER = 600
#: A job that is resumed within this number of seconds after it was suspended gets its pods after a short delay.
HASTE = 10
#: The number of pods that are replaced at a time with scope Replica; the rest follow later. Bounds the status.
AT_ONCE = 64
#: Under restartPolicy ExitCode, exit codes from here on are retryable: v1's rule (TO-178).
RETRYABLE_FROM = 128


@dataclass(frozen=True, slots=True)
class Incident:
    """The failures to handle now, the earliest first, and how many of them count against backoffLimit."""

    failures: dict[Replica, Failure]
    counted: int

    @property
    def first(self) -> tuple[Replica, Failure]:
        """The replica that failed first, and its failure."""
        return next(iter(self.failures.items()))

    @property
    def cause(self) -> Failure | None:
        """The first failure that no other caused; it is kept in the status, to recognise those that it causes."""
        return next((failure for failure in self.failures.values() if failure.kind != COLLATERAL), None)


def incident(facts: Facts) -> Incident | None:
    """Return the failures to handle now, or None.

    The first failure decides. Where replicas restart together, it stands for all of them. Elsewhere, failures shortly
    after it are Collateral: they are retried, whatever their exit code, and not counted. A disruption observed in the
    same reconcile goes first, because it explains the rest; so does, within one second, a retryable failure.
    """
    return facts.once(_incident)


def _incident(facts: Facts) -> Incident | None:
    found = {member: _disappeared(facts, member) for member in absent.lost(facts)} | facts.failed
    counting = {member: failure for member, failure in found.items() if not _ignored(facts, member, failure)}
    ordered = dict(sorted(counting.items(), key=lambda item: _precedence(facts, *item)))
    if facts.scope is not Scope.REPLICA:
        ordered = _firsts(facts, ordered)
    if facts.scope is not Scope.JOB:
        ordered = _with_cascading(facts, ordered)
    return Incident(ordered, _count(ordered)) if ordered else None


def permanent(facts: Facts, member: Replica, failure: Failure) -> bool:
    """Return whether the restart policy forbids a retry after this failure."""
    if failure.kind != APPLICATION:
        return failure.kind == DISRUPTION and facts.job.fail_on_disruption
    policy = facts.group(member).restart_policy
    if policy is RestartPolicy.EXIT_CODE:
        return (failure.exit_code or 0) < RETRYABLE_FROM
    return policy is RestartPolicy.NEVER


def fatal(facts: Facts, incident: Incident) -> Failure | None:
    """Return the failure of this incident that ends the job, or None if all may be retried."""
    if used_up(facts, incident):
        return incident.first[1]
    ends = (failure for member, failure in incident.failures.items() if permanent(facts, member, failure))
    return next(ends, None)


def used_up(facts: Facts, incident: Incident) -> bool:
    """Return whether this incident exceeds backoffLimit."""
    limit = facts.job.policy.backoff_limit
    return limit is not None and incident.counted > 0 and facts.status.retries.used + incident.counted > limit


def in_place_used_up(facts: Facts) -> bool:
    """Return whether the kubelet has restarted containers as often as backoffLimit allows; 0 allows no restart."""
    limit, retries = facts.job.policy.backoff_limit, facts.seen.retries
    return limit is not None and retries.in_place + retries.in_place_gone >= max(limit, 1)


def answerable(facts: Facts, incident: Incident) -> Incident | None:
    """Return the part of an incident that can be handled now; None while too many pods are being replaced."""
    if facts.scope is not Scope.REPLICA:
        return incident
    free = AT_ONCE - len(facts.seen.replacing)
    failures = dict(islice(incident.failures.items(), max(0, free)))
    return Incident(failures, _count(failures)) if failures else None


def again(facts: Facts, incident: Incident) -> Status:
    """Return the status that restarts the replicas of this incident: their present pods are to be replaced."""
    status = replace(facts.seen, failure=incident.cause or facts.status.failure, retries=_next(facts, incident))
    if facts.scope is Scope.REPLICA:
        uids = (facts.current[member].uid for member in incident.failures)
        return _keep_container_restarts(facts, replace(status, replacing=(*status.replacing, *uids)), incident.failures)
    together = facts.scope is Scope.JOB
    roles = {group.role for group in facts.job.replicas} if together else {member.role for member in incident.failures}
    return _keep_container_restarts(
        facts, renew(status, roles), (member for member in facts.current if member.role in roles)
    )


def _keep_container_restarts(facts: Facts, status: Status, gone: Iterable[Replica]) -> Status:
    """Return the status with the container restarts of the replaced pods kept in a count of their own."""
    lost = sum(facts.current[member].restarts for member in gone if facts.group(member).restart_policy.in_place)
    retries = status.retries
    moved = replace(retries, in_place=retries.in_place - lost, in_place_gone=retries.in_place_gone + lost)
    return replace(status, retries=moved)


def renew(status: Status, roles: Iterable[str]) -> Status:
    """Return the status with these roles on their next attempt, in which no replica has succeeded yet."""
    wanted = sorted(roles)
    attempts = status.attempts | {role: _following(status.attempts.get(role, 0)) for role in wanted}
    return start_over(replace(status, attempts=attempts), wanted)


def _following(attempt: int) -> int:
    return attempt + 1 if attempt < LARGEST else 0


def start_over(status: Status, roles: Iterable[str]) -> Status:
    """Return the status with no succeeded replicas in these roles."""
    tallies = {role: replace(status.tallies.get(role, ReplicaStatus()), succeeded=0, done=Indexes()) for role in roles}
    return replace(status, tallies=status.tallies | tallies)


def _disappeared(facts: Facts, member: Replica) -> Failure:
    return Failure(f"{facts.job.name}-{member}", DISRUPTION, "Lost", None, "", "", facts.now)


def _ignored(facts: Facts, member: Replica, failure: Failure) -> bool:
    """Return whether the failure of an optional replica is ignored: while the job can still succeed without it."""
    expendable = member.role in facts.framework.hooks.optional_roles(facts.job) and permanent(facts, member, failure)
    return expendable and any(
        other.role == (facts.goal.role if facts.goal else "")
        and other.index not in facts.done[other.role]
        and not (other in facts.failed and permanent(facts, other, facts.failed[other]))
        for other in facts.job.members
    )


def _precedence(facts: Facts, member: Replica, failure: Failure) -> tuple[object, ...]:
    if failure.kind != APPLICATION:
        return False, failure.time
    # Termination times have a resolution of one second, and an effect never comes before its cause.
    return True, failure.time, permanent(facts, member, failure)


def _count(found: dict[Replica, Failure]) -> int:
    return sum(1 for failure in found.values() if failure.kind == APPLICATION)


def _firsts(facts: Facts, found: dict[Replica, Failure]) -> dict[Replica, Failure]:
    firsts: dict[str, tuple[Replica, Failure]] = {}
    for member, failure in found.items():
        firsts.setdefault(member.role if facts.scope is Scope.ROLE else "", (member, failure))
    return dict(firsts.values())


def _with_cascading(facts: Facts, found: dict[Replica, Failure]) -> dict[Replica, Failure]:
    cause = facts.status.failure
    if not _recent(facts, cause):
        cause = next(iter(found.values()), None)
    return {member: _classified(facts, failure, cause) for member, failure in found.items()}


def _recent(facts: Facts, cause: Failure | None) -> bool:
    return cause is not None and abs(facts.now - cause.time) <= 2 * _follows_within(facts)


def _classified(facts: Facts, failure: Failure, cause: Failure | None) -> Failure:
    if cause is None or failure.pod == cause.pod or failure.kind != APPLICATION:
        return failure
    follows = abs(failure.time - cause.time) <= _follows_within(facts)
    return replace(failure, kind=COLLATERAL) if follows else failure


def _follows_within(facts: Facts) -> timedelta:
    return timedelta(seconds=facts.framework.defaults.cascade_window)


def _next(facts: Facts, incident: Incident) -> Retries:
    before = facts.seen.retries
    if all(failure.kind in (DISRUPTION, COLLATERAL) for failure in incident.failures.values()):
        return before
    long_ago = before.not_before is None or facts.now - before.not_before > timedelta(seconds=FORGIVEN_AFTER)
    streak = 1 if long_ago else before.streak + 1
    return replace(
        before,
        used=before.used + incident.counted,
        streak=streak,
        not_before=facts.now + timedelta(seconds=delay(facts.job.uid, streak)),
    )


def calm(facts: Facts) -> datetime | None:
    """Return when a resumed job may get pods: None for at once, later if it was suspended a moment ago.

    This rate-limits pod creation when `suspend` is toggled quickly.
    """
    suspended = facts.status.condition(ConditionType.SUSPENDED)
    quickly = suspended is not None and facts.now - suspended.changed < timedelta(seconds=HASTE)
    return facts.now + timedelta(seconds=FIRST_DELAY) if quickly and facts.status.attempts else None


def delay(uid: str, streak: int) -> int:
    """Return the seconds of back-off after `streak` consecutive failures, with jitter by uid to spread the retries."""
    seconds = min(FIRST_DELAY << min(streak - 1, 16), LONGEST_DELAY)
    digest = hashlib.sha256(f"{uid}/{streak}".encode()).digest()
    return seconds + seconds * digest[0] // 1024
