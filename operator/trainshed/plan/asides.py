"""The details that follow v1's sentence in a message: the first failure, the other replicas, and the next step."""

from __future__ import annotations

from trainshed.api.job import Replica, RestartPolicy, Scope
from trainshed.api.objects import Phase
from trainshed.api.status import Failure, Status

from . import history, obituary
from .facts import Facts
from .failures import DISRUPTION
from .restarts import Incident


def restarting(facts: Facts, incident: Incident, after: Status) -> str:
    """Return which failure causes a restart, of how many replicas, its number, and when; `after` is the new status."""
    return "; ".join(filter(None, (_cause(facts, incident), _others(facts, incident), _next(facts, incident, after))))


def used_up(facts: Facts, incident: Incident) -> str:
    """Return that all restarts of backoffLimit are used, with the last failure."""
    limit = facts.job.policy.backoff_limit or 0
    text = f"{limit} of {_counted(limit, 'restart')} used" if limit else "backoffLimit is 0"
    return "; ".join(filter(None, (text, f"last failure: {_cause(facts, incident)}", _others(facts, incident))))


def used_up_in_place(facts: Facts, last: Failure | None) -> str:
    """Return how often the kubelet has restarted containers, and the `last` failure of one of them."""
    retries, limit = facts.seen.retries, facts.job.policy.backoff_limit
    times = retries.in_place + retries.in_place_gone
    text = f"containers were restarted {_counted(times, 'time')} in place (backoffLimit {limit})"
    return f"{text}; last failure: {obituary.sentence(last)}" if last else text


def permanent(facts: Facts, member: Replica, failure: Failure) -> str:
    """Return the failure that ends the job, and why it is not retried."""
    text = obituary.sentence(obituary.of(facts, member, failure))
    others = _followers(len(facts.failed.keys() - {member}))
    if failure.kind == DISRUPTION:
        rule = "trainshed.dev/on-disruption is Fail"
    elif facts.group(member).restart_policy is RestartPolicy.EXIT_CODE:
        rule = "restartPolicy ExitCode retries only exit codes 128 and above"
    else:
        rule = f"restartPolicy is {facts.group(member).restart_policy}"
    return "; ".join(filter(None, (text, others, rule)))


def too_long(facts: Facts) -> str:
    """Return the deadline, and the states of the replicas when it was exceeded."""
    seconds = facts.job.policy.deadline
    done = sum(len(done) for done in facts.done.values())
    running = sum(1 for pod in facts.current.values() if pod.phase is Phase.RUNNING and not pod.deleting)
    waiting = sum(1 for pod in facts.current.values() if pod.phase is Phase.PENDING)
    absent = len(facts.missing)
    states = {"running": running, "succeeded": done, "pending": waiting, "without a pod": absent}
    (first, count), *others = [item for item in states.items() if item[1]] or [("running", 0)]
    rest = "".join(f", {number} {state}" for state, number in others)
    return f"limit {seconds} s; {count} of {_counted(facts.job.size, 'replica')} {first}{rest}"


def _cause(facts: Facts, incident: Incident) -> str:
    member, failure = history.first(incident)
    text = obituary.sentence(obituary.of(facts, member, failure))
    before = facts.status.failure
    if incident.cause or before is None:
        return text
    return f"{text}, caused by the failure of {before.member or before.pod}"


def _others(facts: Facts, incident: Incident) -> str:
    return _followers(len(facts.failed.keys() | incident.failures.keys()) - 1)


def _followers(others: int) -> str:
    return f"{_counted(others, 'other replica')} failed afterwards" if others > 0 else ""


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _next(facts: Facts, incident: Incident, after: Status) -> str:
    members = history.restarted(facts, incident)
    limit, role = facts.job.policy.backoff_limit, history.first(incident)[0].role
    if members <= 1:
        what = "it"
    elif facts.scope is Scope.JOB:
        what = f"all {members} replicas"
    elif facts.scope is Scope.ROLE:
        what = f"all {members} {role} replicas"
    else:
        what = f"these {members} replicas"
    restart = f"restart {after.retries.used}" + (f" of {limit}" if limit is not None else "")
    which = restart if incident.counted else "not counted against backoffLimit"
    begin = after.retries.not_before
    wait = round((begin - facts.now).total_seconds()) if begin else 0
    return f"restarting {what} {f'in {wait} s' if wait > 0 else 'now'} ({which})"
