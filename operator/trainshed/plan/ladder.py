"""The state machine of a job: an ordered tuple of rules, of which the first that returns a plan decides.

Everything that decides a job's life is here: every state transition is made by one of the rules in `LADDER`. The other
modules of this package answer questions for the rules; none of them changes the state of a job by itself.

- A rule takes the facts of one snapshot and returns a `Plan`, or None to pass to the next rule. The last rule always
  returns a plan.
- The order of the tuple is the precedence. To change a precedence, move a line; to add behaviour, add a rule.
- A plan holds the status to store, the Events to record, the actions to execute, and the time of the next reconcile.
  The controller stores the status first, then records the Events, then executes the actions.
- Nothing here reads a clock, a file or the network: the time of the reconcile is `facts.now`.
- The status says what was observed and resolved, never what is about to be tried. Counts are computed from the pods at
  every reconcile. The status keeps only what the pods cannot show again: start and completion time, attempts, counted
  restarts, the first failure, and the terminal condition (Succeeded or Failed), which is final.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from trainshed.api.actions import DeleteJob, Event, EventType, Plan
from trainshed.api.job import Replica
from trainshed.api.status import ConditionType, Failure, ReplicaStatus, Status

from . import (
    absent,
    asides,
    children,
    conditions,
    departures,
    dependents,
    gang,
    gates,
    history,
    obituary,
    restarts,
    results,
    says,
    settling,
    startup,
)
from .conditions import Word
from .facts import Facts
from .restarts import Incident

Rule = Callable[[Facts], Plan | None]


def stand_aside(facts: Facts) -> Plan | None:
    """Leave a job alone that is being deleted or that another controller manages."""
    if facts.job.deleting or facts.job.policy.managed_elsewhere:
        gone = facts.job.deleting
        return Plan(facts.status, actions=results.let_go(facts.snapshot.pods) if gone else ())
    return None


def clean_up(facts: Facts) -> Plan | None:
    """Apply cleanPodPolicy to the pods of a finished job, and delete the job when its TTL has expired."""
    if not facts.status.over:
        return None
    actions = (*children.tidy(facts), *dependents.dismiss(facts))
    notes = says.gang_dismissed(actions)
    ttl, completion = facts.job.policy.ttl, facts.status.completion
    if ttl is None or completion is None:
        return _with_stuck_pods(facts, Plan(facts.status, notes, actions))
    end = completion + timedelta(seconds=ttl)
    if facts.now < end:
        return _with_stuck_pods(facts, Plan(facts.status, notes, actions, look_again=end))
    return Plan(facts.status, actions=(DeleteJob(facts.job.uid, facts.job.version),))


def refuse(facts: Facts) -> Plan | None:
    """Fail a job with an invalid spec; a job that has started is left as it is until the spec is corrected."""
    if not facts.job.problems:
        return None
    if facts.status.start is None and not facts.snapshot.pods:
        return _finish(facts, says.refused(facts))
    message = says.refused(facts).message
    return Plan(facts.status, (Event(EventType.WARNING, "InvalidSpec", message, key=f"InvalidSpec/{message}"),))


def suspend(facts: Facts) -> Plan | None:
    """Delete all pods and Services of a suspended job; pods created later belong to a new attempt."""
    if not facts.job.policy.suspend:
        return None
    status = _created(facts, facts.seen)
    actions = (*children.empty(facts), *dependents.dismiss(facts))
    if status.true(ConditionType.SUSPENDED):
        return _with_stuck_pods(facts, Plan(status, says.gang_dismissed(actions), actions))
    word = says.suspended(facts)
    if facts.snapshot.pods:
        status = replace(status, attempts=restarts.renew(status, facts.groups).attempts)
    if status.true(ConditionType.RUNNING):
        status = conditions.put(status, replace(word, kind=ConditionType.RUNNING), facts.now, true=False)
    status = conditions.without(status, ConditionType.RESTARTING, ConditionType.BLOCKED)
    status = conditions.put(status, word, facts.now)
    return _with_stuck_pods(facts, Plan(status, (_note(word), *says.gang_dismissed(actions)), actions))


def resume(facts: Facts) -> Plan | None:
    """Restart a job that is no longer suspended, with a new start time and so a new deadline."""
    if not facts.status.true(ConditionType.SUSPENDED):
        return None
    word = says.resumed(facts)
    status = conditions.put(facts.seen, word, facts.now, true=False)
    status = restarts.start_over(replace(status, start=facts.now), facts.groups)
    status = replace(status, retries=replace(status.retries, streak=0, not_before=restarts.calm(facts)))
    return Plan(status, (_note(word),), look_again=facts.now)


def expire(facts: Facts) -> Plan | None:
    """Fail a job that has run longer than activeDeadlineSeconds."""
    end = _deadline(facts)
    return _finish(facts, says.too_long(facts)) if end and facts.now >= end else None


def succeed(facts: Facts) -> Plan | None:
    """Complete the job when the replicas that define success have succeeded, whatever the state of the others."""
    return _finish(facts, says.succeeded(facts)) if facts.achieved else None


def settle(facts: Facts) -> Plan | None:
    """Delay a failure that would end the job for a moment, in case another replica turns out to be its cause."""
    end = settling.until(facts)
    if end is None:
        return None
    plan, premature = converge(facts), says.failures(facts)
    notes = tuple(note for note in plan.notes if note not in premature)
    return replace(plan, notes=notes, look_again=_earliest(end, plan.look_again))


def fail(facts: Facts) -> Plan | None:
    """Fail the job after a failure that must not be retried, or when backoffLimit is reached."""
    if restarts.in_place_used_up(facts):
        last = obituary.of_restarted(facts)
        plan = _finish(facts, says.too_many_tries(facts, asides.used_up_in_place(facts, last)))
        return replace(plan, status=replace(plan.status, failure=last or plan.status.failure))
    incident = restarts.incident(facts)
    if incident is None:
        return None
    if restarts.used_up(facts, incident):
        word = says.too_many_tries(facts, asides.used_up(facts, incident))
        return _fatal(facts, incident, word, history.first(incident))
    for member, failure in incident.failures.items():
        if restarts.permanent(facts, member, failure):
            return _fatal(facts, incident, says.failed(facts, member, failure), (member, failure))
    return None


def restart(facts: Facts) -> Plan | None:
    """Restart the failed replicas, and all that restart together with them, and count the restart.

    Replicas are not restarted while one of their pods still exists without the labels that the watch selects by.
    """
    found = None if absent.hidden(facts) else restarts.incident(facts)
    incident = restarts.answerable(facts, found) if found else None
    if incident is None:
        return None
    status = history.began(facts, incident, _created(facts, restarts.again(facts, incident)))
    word = says.restarting(facts, incident, status)
    if not facts.after(status).running:
        status = conditions.put(status, word, facts.now)
    notes = (*says.failures(facts, incident), replace(_note(word), tone=EventType.WARNING))
    return Plan(status, notes, children.sweep(facts.after(status)), look_again=facts.now)


def start_up(facts: Facts) -> Plan | None:
    """Fail a job if a replica has not started running before the start-up deadline."""
    late = startup.late(facts)
    if late is None:
        return None
    plan = _finish(facts, startup.word(facts, late[1]))
    return replace(plan, status=replace(plan.status, failure=late[1]))


def converge(facts: Facts) -> Plan:
    """Delete stale pods and Services, create missing ones, and update the conditions."""
    status = _blocked(facts, _created(facts, absent.seen(facts)))
    if facts.running:
        status = conditions.put(status, says.running(facts), facts.now)
    after = facts.after(status)
    actions = (*dependents.align(after), *children.sweep(after), *results.noted(facts), *children.fill(after))
    wrong = (*says.overwritten(facts), *says.other_schedulers(facts), *results.refused(facts))
    notes = (*wrong, *says.failures(facts), *says.pods(facts))
    look_again = _earliest(_deadline(after), _next_try(after), startup.next_look(after))
    return _with_stuck_pods(facts, Plan(status, notes, actions, look_again=look_again))


LADDER: tuple[Rule, ...] = (
    stand_aside,  # being deleted, or managed by another controller
    clean_up,  # finished: delete the pods as cleanPodPolicy says, and the job after its TTL
    refuse,  # invalid spec
    suspend,  # suspended: delete all pods and Services
    resume,  # no longer suspended
    expire,  # activeDeadlineSeconds exceeded
    succeed,  # the replicas that define success have succeeded
    settle,  # a failure so recent that its cause may not be known yet
    fail,  # a failure that must not be retried, or backoffLimit reached
    restart,  # failed replicas move to their next attempt
    start_up,  # start-up deadline exceeded
    converge,  # delete what is stale, create what is missing
)


def _created(facts: Facts, status: Status) -> Status:
    """Return the status with the condition Created, and with a start time unless the job is suspended."""
    status = history.ran_again(facts, conditions.put(status, says.created(facts), facts.now))
    idle = facts.job.policy.suspend or status.start is not None
    return status if idle else replace(status, start=facts.now)


def _finish(facts: Facts, word: Word) -> Plan:
    """Return the plan that finishes the job. After a success the active replicas count as succeeded, as in v1."""
    status = conditions.put(_created(facts, facts.seen), word, facts.now)
    status = replace(status, completion=facts.now, replacing=())
    if word.kind is ConditionType.SUCCEEDED:
        serves = facts.goal.depends_on if facts.goal else ""
        tallies = {
            role: ReplicaStatus() if role == serves else _active_as_succeeded(tally)
            for role, tally in status.tallies.items()
        }
        status = replace(status, tallies=tallies)
    return Plan(status, (_note(word),), look_again=facts.now)


def _note(word: Word) -> Event:
    return Event(
        EventType.WARNING if word.kind is ConditionType.FAILED else EventType.NORMAL, word.reason, word.message
    )


def _active_as_succeeded(tally: ReplicaStatus) -> ReplicaStatus:
    return replace(tally, succeeded=tally.succeeded + tally.active, active=0, ready=0)


def _fatal(facts: Facts, incident: Incident, word: Word, who: tuple[Replica, Failure]) -> Plan:
    plan = _finish(facts, word)
    notes = (*says.failures(facts, incident), *plan.notes)
    return replace(plan, status=replace(plan.status, failure=obituary.of(facts, *who)), notes=notes)


def _blocked(facts: Facts, status: Status) -> Status:
    """Set the condition Blocked while pods cannot be created or do not terminate, and remove it afterwards."""
    trouble = facts.snapshot.trouble
    if trouble:
        return conditions.put(status, says.blocked(facts, trouble), facts.now)
    if word := gang.waits(facts):
        return conditions.put(status, word, facts.now)
    if word := departures.word(facts):
        return conditions.put(status, word, facts.now)
    known = status.condition(ConditionType.BLOCKED)
    incomplete = gates.gated(facts) != frozenset(facts.missing) or children.services(facts)
    resolved = known is not None and known.reason == departures.STUCK
    return status if incomplete and not resolved else conditions.without(status, ConditionType.BLOCKED)


def _with_stuck_pods(facts: Facts, plan: Plan) -> Plan:
    """Return the plan with Events, forced deletions and a requeue time for pods that are stuck terminating."""
    notes, actions = (*plan.notes, *departures.notes(facts)), (*plan.actions, *departures.force(facts))
    look_again = _earliest(plan.look_again, departures.next_look(facts))
    return replace(plan, notes=notes, actions=actions, look_again=look_again)


def _deadline(facts: Facts) -> datetime | None:
    seconds, start = facts.job.policy.deadline, facts.status.start
    return start + timedelta(seconds=seconds) if seconds is not None and start else None


def _next_try(facts: Facts) -> datetime | None:
    retries = facts.status.retries
    return retries.not_before if retries.wait(facts.now) else None


def _earliest(*times: datetime | None) -> datetime | None:
    return min((time for time in times if time), default=None)
