"""The state machine, whole: an ordered tuple of rules, the first of which that speaks decides.

Everything that decides a job's life is here. Nothing here reads a clock, a file or the network. The status says what
was seen and resolved, never what is about to be tried.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta

from trainshed.api.actions import DeleteJob, Note, Plan, Tone
from trainshed.api.job import Member
from trainshed.api.status import Failure, Kind, Status, Tally

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
    """A job that is going away, or that another controller manages, is none of our business."""
    if facts.job.deleting or facts.job.policy.managed_elsewhere:
        gone = facts.job.deleting
        return Plan(facts.status, actions=results.let_go(facts.snapshot.pods) if gone else ())
    return None


def clean_up(facts: Facts) -> Plan | None:
    """Once there is a verdict the pods go as asked, and the job itself when its time is up."""
    if not facts.status.over:
        return None
    actions = (*children.tidy(facts), *dependents.dismiss(facts))
    notes = says.gang_dismissed(actions)
    ttl, completion = facts.job.policy.ttl, facts.status.completion
    if ttl is None or completion is None:
        return _seeing_off(facts, Plan(facts.status, notes, actions))
    end = completion + timedelta(seconds=ttl)
    if facts.now < end:
        return _seeing_off(facts, Plan(facts.status, notes, actions, look_again=end))
    return Plan(facts.status, actions=(DeleteJob(facts.job.uid, facts.job.version),))


def refuse(facts: Facts) -> Plan | None:
    """A spec that asks for what cannot be fails the job; one that runs already is left alone until it is mended."""
    if not facts.job.problems:
        return None
    if facts.status.start is None and not facts.snapshot.pods:
        return _verdict(facts, says.refused(facts))
    message = says.refused(facts).message
    return Plan(facts.status, (Note(Tone.WARNING, "InvalidSpec", message, key=f"InvalidSpec/{message}"),))


def suspend(facts: Facts) -> Plan | None:
    """While it is suspended a job has no pods and no Services; those it had belong to an attempt that is over."""
    if not facts.job.policy.suspend:
        return None
    status = _born(facts, facts.seen)
    actions = (*children.empty(facts), *dependents.dismiss(facts))
    if status.true(Kind.SUSPENDED):
        return _seeing_off(facts, Plan(status, says.gang_dismissed(actions), actions))
    word = says.suspended(facts)
    if facts.snapshot.pods:
        status = replace(status, attempts=restarts.renew(status, facts.groups).attempts)
    if status.true(Kind.RUNNING):
        status = conditions.put(status, replace(word, kind=Kind.RUNNING), facts.now, true=False)
    status = conditions.without(status, Kind.RESTARTING, Kind.BLOCKED)
    status = conditions.put(status, word, facts.now)
    return _seeing_off(facts, Plan(status, (_note(word), *says.gang_dismissed(actions)), actions))


def resume(facts: Facts) -> Plan | None:
    """A job that was suspended and is no longer starts anew, and so does its deadline."""
    if not facts.status.true(Kind.SUSPENDED):
        return None
    word = says.resumed(facts)
    status = conditions.put(facts.seen, word, facts.now, true=False)
    status = restarts.start_over(replace(status, start=facts.now), facts.groups)
    status = replace(status, retries=replace(status.retries, streak=0, not_before=restarts.calm(facts)))
    return Plan(status, (_note(word),), look_again=facts.now)


def expire(facts: Facts) -> Plan | None:
    """A job that was given a time and has used it has failed."""
    end = _deadline(facts)
    return _verdict(facts, says.too_long(facts)) if end and facts.now >= end else None


def succeed(facts: Facts) -> Plan | None:
    """When those whose success counts have succeeded, so has the job, whatever has become of the others."""
    return _verdict(facts, says.succeeded(facts)) if facts.achieved else None


def settle(facts: Facts) -> Plan | None:
    """A failure that would end the job waits a moment, in which its cause may come to light."""
    end = settling.until(facts)
    if end is None:
        return None
    plan, too_early = converge(facts), says.failures(facts)
    notes = tuple(note for note in plan.notes if note not in too_early)
    return replace(plan, notes=notes, look_again=_earliest(end, plan.look_again))


def fail(facts: Facts) -> Plan | None:
    """A failure that may not be tried again, or one too many, fails the job."""
    if restarts.in_place_used_up(facts):
        last = obituary.of_restarted(facts)
        plan = _verdict(facts, says.too_many_tries(facts, asides.used_up_in_place(facts, last)))
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
    """Failed members are given up on, alone or with all that restart together, and the next try is counted.

    A group of which one is there and out of our reach is not restarted.
    """
    found = None if absent.hidden(facts) else restarts.incident(facts)
    incident = restarts.answerable(facts, found) if found else None
    if incident is None:
        return None
    status = history.began(facts, incident, _born(facts, restarts.again(facts, incident)))
    word = says.restarting(facts, incident, status)
    if not facts.after(status).running:
        status = conditions.put(status, word, facts.now)
    notes = (*says.failures(facts, incident), replace(_note(word), tone=Tone.WARNING))
    return Plan(status, notes, children.sweep(facts.after(status)), look_again=facts.now)


def start_up(facts: Facts) -> Plan | None:
    """A member that does not come to run in the time that the user gives it fails the job."""
    late = startup.late(facts)
    if late is None:
        return None
    plan = _verdict(facts, startup.word(facts, late[1]))
    return replace(plan, status=replace(plan.status, failure=late[1]))


def converge(facts: Facts) -> Plan:
    """Sweep what is stale, fill what is missing, and say how it goes."""
    status = _blocked(facts, _born(facts, absent.seen(facts)))
    if facts.running:
        status = conditions.put(status, says.running(facts), facts.now)
    after = facts.after(status)
    actions = (*dependents.align(after), *children.sweep(after), *results.noted(facts), *children.fill(after))
    wrong = (*says.overwritten(facts), *says.other_schedulers(facts), *results.refused(facts))
    notes = (*wrong, *says.failures(facts), *says.pods(facts))
    look_again = _earliest(_deadline(after), _next_try(after), startup.next_look(after))
    return _seeing_off(facts, Plan(status, notes, actions, look_again=look_again))


LADDER: tuple[Rule, ...] = (
    stand_aside,  # going away, or managed by another controller
    clean_up,  # over: let pods go as asked, and the job when its time is up
    refuse,  # the spec asks for something that cannot be
    suspend,  # the seats are to be empty for now
    resume,  # they may be taken again
    expire,  # it was given a time and has used it
    succeed,  # those whose success counts have succeeded
    settle,  # a failure that is too fresh to be the last word
    fail,  # a failure that may not be tried again, or too many tries
    restart,  # failed members move on to their next attempt
    start_up,  # members take longer to come to run than they may
    converge,  # sweep what is stale, fill what is missing
)


def _born(facts: Facts, status: Status) -> Status:
    """Every job that was looked at is Created, and has its start unless it has yet to be resumed."""
    status = history.ran_again(facts, conditions.put(status, says.created(facts), facts.now))
    idle = facts.job.policy.suspend or status.start is not None
    return status if idle else replace(status, start=facts.now)


def _verdict(facts: Facts, word: Word) -> Plan:
    """The last word about a job. After a success those that still run count as succeeded: v1's bookkeeping."""
    status = conditions.put(_born(facts, facts.seen), word, facts.now)
    status = replace(status, completion=facts.now, replacing=())
    if word.kind is Kind.SUCCEEDED:
        serves = facts.goal.depends_on if facts.goal else ""
        tallies = {role: Tally() if role == serves else _settled(tally) for role, tally in status.tallies.items()}
        status = replace(status, tallies=tallies)
    return Plan(status, (_note(word),), look_again=facts.now)


def _note(word: Word) -> Note:
    return Note(Tone.WARNING if word.kind is Kind.FAILED else Tone.NORMAL, word.reason, word.message)


def _settled(tally: Tally) -> Tally:
    return replace(tally, succeeded=tally.succeeded + tally.active, active=0, ready=0)


def _fatal(facts: Facts, incident: Incident, word: Word, who: tuple[Member, Failure]) -> Plan:
    plan = _verdict(facts, word)
    notes = (*says.failures(facts, incident), *plan.notes)
    return replace(plan, status=replace(plan.status, failure=obituary.of(facts, *who)), notes=notes)


def _blocked(facts: Facts, status: Status) -> Status:
    """Why pods cannot be made, or do not go, for as long as that is so; a word that has come true is taken back."""
    trouble = facts.snapshot.trouble
    if trouble:
        return conditions.put(status, says.blocked(facts, trouble), facts.now)
    if word := gang.waits(facts):
        return conditions.put(status, word, facts.now)
    if word := departures.word(facts):
        return conditions.put(status, word, facts.now)
    known = status.condition(Kind.BLOCKED)
    wanting = gates.gated(facts) != frozenset(facts.missing) or children.services(facts)
    over = known is not None and known.reason == departures.STUCK
    return status if wanting and not over else conditions.without(status, Kind.BLOCKED)


def _seeing_off(facts: Facts, plan: Plan) -> Plan:
    """The plan, with an eye on those pods that should be gone by now."""
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
