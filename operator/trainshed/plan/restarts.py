"""Who may be tried again, in which scope, and after how long."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice

from trainshed.api.indexes import Indexes
from trainshed.api.job import Member, RestartPolicy, Scope
from trainshed.api.status import Failure, Kind, Retries, Status, Tally
from trainshed.api.status_schema import LARGEST

from . import absent
from .facts import Facts
from .failures import APPLICATION, COLLATERAL, DISRUPTION

#: Seconds before the first new try and at the most; doubled from one to the next.
FIRST_DELAY, LONGEST_DELAY = 1, 300
#: Seconds without a failure after which the next one counts as the first again.
FORGIVEN_AFTER = 600
#: Seconds within which being suspended and resumed counts as haste.
HASTE = 10
#: So many pods are replaced one by one at a time; the rest follow when these are gone. Bounds the status.
AT_ONCE = 64
#: Exit codes from here on are worth another try under the policy ExitCode; v1's rule.
RETRYABLE_FROM = 128


@dataclass(frozen=True, slots=True)
class Incident:
    """The failures to answer for now, the first of them first, and how many count against the back-off limit."""

    failures: dict[Member, Failure]
    counted: int

    @property
    def first(self) -> tuple[Member, Failure]:
        """Who failed first, and how."""
        return next(iter(self.failures.items()))

    @property
    def cause(self) -> Failure | None:
        """The first failure that is not another's consequence; it is kept in the status, to know consequences by."""
        return next((failure for failure in self.failures.values() if failure.kind != COLLATERAL), None)


def incident(facts: Facts) -> Incident | None:
    """What has gone wrong and wants an answer, or None.

    The first failure decides. Where members restart together it answers for all; elsewhere those that follow it closely
    are collateral: tried again, whatever their exit code, and not counted. A disruption seen in the same look goes
    first, because it explains the rest; so does, within one second, a failure that may be tried again.
    """
    return facts.once(_incident)


def _incident(facts: Facts) -> Incident | None:
    found = {member: _vanished(facts, member) for member in absent.lost(facts)} | facts.failed
    counting = {member: failure for member, failure in found.items() if not _forgiven(facts, member, failure)}
    ordered = dict(sorted(counting.items(), key=lambda item: _precedence(facts, *item)))
    if facts.scope is not Scope.REPLICA:
        ordered = _firsts(facts, ordered)
    if facts.scope is not Scope.JOB:
        ordered = _told_apart(facts, ordered)
    return Incident(ordered, _count(ordered)) if ordered else None


def permanent(facts: Facts, member: Member, failure: Failure) -> bool:
    """Whether the restart policy rules out another try after this failure."""
    if failure.kind != APPLICATION:
        return failure.kind == DISRUPTION and facts.job.fail_on_disruption
    policy = facts.group(member).restart_policy
    if policy is RestartPolicy.EXIT_CODE:
        return (failure.exit_code or 0) < RETRYABLE_FROM
    return policy is RestartPolicy.NEVER


def fatal(facts: Facts, incident: Incident) -> Failure | None:
    """The failure of this incident that ends the job, or None if all may be tried again."""
    if used_up(facts, incident):
        return incident.first[1]
    ends = (failure for member, failure in incident.failures.items() if permanent(facts, member, failure))
    return next(ends, None)


def used_up(facts: Facts, incident: Incident) -> bool:
    """Whether there were as many tries as the back-off limit allows."""
    limit = facts.job.policy.backoff_limit
    return limit is not None and incident.counted > 0 and facts.status.retries.used + incident.counted > limit


def in_place_used_up(facts: Facts) -> bool:
    """Whether the kubelet has restarted containers as often as the back-off limit allows; 0 allows none."""
    limit, retries = facts.job.policy.backoff_limit, facts.seen.retries
    return limit is not None and retries.in_place + retries.in_place_gone >= max(limit, 1)


def answerable(facts: Facts, incident: Incident) -> Incident | None:
    """As much of an incident as can be answered in one go; None while there is no room for more."""
    if facts.scope is not Scope.REPLICA:
        return incident
    room = AT_ONCE - len(facts.seen.replacing)
    failures = dict(islice(incident.failures.items(), max(0, room)))
    return Incident(failures, _count(failures)) if failures else None


def again(facts: Facts, incident: Incident) -> Status:
    """The status in which the members of this incident are given up on and may be tried again."""
    status = replace(facts.seen, failure=incident.cause or facts.status.failure, retries=_next(facts, incident))
    if facts.scope is Scope.REPLICA:
        uids = (facts.current[member].uid for member in incident.failures)
        return _carried(facts, replace(status, replacing=(*status.replacing, *uids)), incident.failures)
    together = facts.scope is Scope.JOB
    roles = {group.role for group in facts.job.replicas} if together else {member.role for member in incident.failures}
    return _carried(facts, renew(status, roles), (member for member in facts.current if member.role in roles))


def _carried(facts: Facts, status: Status, gone: Iterable[Member]) -> Status:
    """What the kubelet has restarted in pods that are given up on stays counted, whatever it does in the others."""
    lost = sum(facts.current[member].restarts for member in gone if facts.group(member).restart_policy.in_place)
    retries = status.retries
    moved = replace(retries, in_place=retries.in_place - lost, in_place_gone=retries.in_place_gone + lost)
    return replace(status, retries=moved)


def renew(status: Status, roles: Iterable[str]) -> Status:
    """The status with these roles on their next attempt: nobody in them has succeeded yet."""
    wanted = sorted(roles)
    attempts = status.attempts | {role: _following(status.attempts.get(role, 0)) for role in wanted}
    return start_over(replace(status, attempts=attempts), wanted)


def _following(attempt: int) -> int:
    return attempt + 1 if attempt < LARGEST else 0


def start_over(status: Status, roles: Iterable[str]) -> Status:
    """The status with nobody in these roles done."""
    tallies = {role: replace(status.tallies.get(role, Tally()), succeeded=0, done=Indexes()) for role in roles}
    return replace(status, tallies=status.tallies | tallies)


def _vanished(facts: Facts, member: Member) -> Failure:
    return Failure(f"{facts.job.name}-{member}", DISRUPTION, "Lost", None, "", "", facts.now)


def _forgiven(facts: Facts, member: Member, failure: Failure) -> bool:
    """Whether it may go for good: as long as one of those who decide may yet succeed."""
    expendable = member.role in facts.framework.hooks.optional_roles(facts.job) and permanent(facts, member, failure)
    return expendable and any(
        other.role == (facts.goal.role if facts.goal else "")
        and other.index not in facts.done[other.role]
        and not (other in facts.failed and permanent(facts, other, facts.failed[other]))
        for other in facts.job.members
    )


def _precedence(facts: Facts, member: Member, failure: Failure) -> tuple[object, ...]:
    if failure.kind != APPLICATION:
        return False, failure.time
    # What has ended a container is known to the second only, and a consequence never comes before its cause.
    return True, failure.time, permanent(facts, member, failure)


def _count(found: dict[Member, Failure]) -> int:
    return sum(1 for failure in found.values() if failure.kind == APPLICATION)


def _firsts(facts: Facts, found: dict[Member, Failure]) -> dict[Member, Failure]:
    firsts: dict[str, tuple[Member, Failure]] = {}
    for member, failure in found.items():
        firsts.setdefault(member.role if facts.scope is Scope.ROLE else "", (member, failure))
    return dict(firsts.values())


def _told_apart(facts: Facts, found: dict[Member, Failure]) -> dict[Member, Failure]:
    cause = facts.status.failure
    if not _recent(facts, cause):
        cause = next(iter(found.values()), None)
    return {member: _as_seen(facts, failure, cause) for member, failure in found.items()}


def _recent(facts: Facts, cause: Failure | None) -> bool:
    return cause is not None and abs(facts.now - cause.time) <= 2 * _follows_within(facts)


def _as_seen(facts: Facts, failure: Failure, cause: Failure | None) -> Failure:
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
    """When a resumed job may have pods: at once, or a little later if it had some until a moment ago.

    Whoever toggles a job quickly then costs the cluster no set of pods at each turn.
    """
    suspended = facts.status.condition(Kind.SUSPENDED)
    quickly = suspended is not None and facts.now - suspended.changed < timedelta(seconds=HASTE)
    return facts.now + timedelta(seconds=FIRST_DELAY) if quickly and facts.status.attempts else None


def delay(uid: str, streak: int) -> int:
    """Seconds to wait before try `streak` + 1, a little less or more by uid so that jobs do not come back in step."""
    seconds = min(FIRST_DELAY << min(streak - 1, 16), LONGEST_DELAY)
    digest = hashlib.sha256(f"{uid}/{streak}".encode()).digest()
    return seconds + seconds * digest[0] // 1024
