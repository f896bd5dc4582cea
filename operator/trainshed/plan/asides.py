"""What we say after v1's words, in the same breath: who it was, what became of the others, and what comes next."""

from __future__ import annotations

from trainshed.api.job import Member, RestartPolicy, Scope
from trainshed.api.pod import Phase
from trainshed.api.status import Failure, Status

from . import history, obituary
from .facts import Facts
from .failures import DISRUPTION
from .restarts import Incident


def restarting(facts: Facts, incident: Incident, after: Status) -> str:
    """Why members are tried again, how many, for which time, and when; `after` is the status that says so."""
    return "; ".join(filter(None, (_cause(facts, incident), _others(facts, incident), _next(facts, incident, after))))


def used_up(facts: Facts, incident: Incident) -> str:
    """That there were as many tries as the back-off limit allows, and what the last of them came to."""
    limit = facts.job.policy.backoff_limit or 0
    used = min(facts.status.retries.used + incident.counted, limit + 1)
    told = f"{used} of {limit + 1} {'try' if limit == 0 else 'tries'} used"
    return "; ".join(filter(None, (f"{told}; last: {_cause(facts, incident)}", _others(facts, incident))))


def used_up_in_place(facts: Facts, last: Failure | None) -> str:
    """That the kubelet has started containers anew as often as the back-off limit allows, and how one ended `last`."""
    retries, limit = facts.seen.retries, facts.job.policy.backoff_limit
    times = retries.in_place + retries.in_place_gone
    told = f"containers were started anew {times} {'time' if times == 1 else 'times'} in place (limit {limit})"
    return f"{told}; last: {obituary.sentence(last)}" if last else told


def permanent(facts: Facts, member: Member, failure: Failure) -> str:
    """Who failed for good, and what it is that rules out another try."""
    told = obituary.sentence(obituary.of(facts, member, failure))
    others = _count(len(facts.failed.keys() - {member}))
    if failure.kind == DISRUPTION:
        why = "trainshed.dev/on-disruption is Fail"
    elif facts.group(member).restart_policy is RestartPolicy.EXIT_CODE:
        why = "under restartPolicy ExitCode only codes from 128 on are tried again"
    else:
        why = f"restartPolicy is {facts.group(member).restart_policy}"
    return "; ".join(filter(None, (told, others, why)))


def too_long(facts: Facts) -> str:
    """How long it was given, and what its members were doing when that was over."""
    seconds = facts.job.policy.deadline
    size = facts.job.size
    done = sum(len(done) for done in facts.done.values())
    running = sum(1 for pod in facts.current.values() if pod.phase is Phase.RUNNING and not pod.deleting)
    waiting = sum(1 for pod in facts.current.values() if pod.phase is Phase.PENDING)
    absent = len(facts.missing)
    parts = {"running": running, "succeeded": done, "pending": waiting, "without a pod": absent}
    told = ", ".join(f"{count} {what}" for what, count in parts.items() if count)
    return f"it had {seconds} s; of {size} members {told or 'none running'}"


def _cause(facts: Facts, incident: Incident) -> str:
    member, failure = history.first(incident)
    told = obituary.sentence(obituary.of(facts, member, failure))
    before = facts.status.failure
    if incident.cause or before is None:
        return told
    return f"{told}, in consequence of {before.member or before.pod}"


def _others(facts: Facts, incident: Incident) -> str:
    return _count(len(facts.failed.keys() | incident.failures.keys()) - 1)


def _count(others: int) -> str:
    return f"{others} {'other' if others == 1 else 'others'} followed" if others > 0 else ""


def _next(facts: Facts, incident: Incident, after: Status) -> str:
    members = history.restarted(facts, incident)
    limit, role = facts.job.policy.backoff_limit, history.first(incident)[0].role
    if facts.scope is Scope.JOB:
        whom = f"all {members}" if members > 1 else "it"
    elif facts.scope is Scope.ROLE:
        whom = f"all {members} of {role}" if members > 1 else "it"
    else:
        whom = f"these {members}" if members > 1 else "it"
    attempt = f"attempt {after.retries.used + 1}" + (f" of {limit + 1}" if limit is not None else "")
    which = attempt if incident.counted else "not counted as an attempt"
    begin = after.retries.not_before
    wait = round((begin - facts.now).total_seconds()) if begin else 0
    return f"restarting {whom} ({which}) {f'in {wait} s' if wait > 0 else 'now'}"
