"""Where the time of a job goes: the phases that follow from its pods, and when each of them began.

A phase ends when the facts say so and not when they were seen, so that it does not matter how often they are looked at.
Only what ends a phase is counted; the present phase is stored with its beginning. So the last fact may be late by as
much as the phase has lasted. Restarts, suspensions and the end of a job are stored before a pod is deleted, and with
them what its pods show.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime, timedelta
from itertools import groupby

from msgspec.structs import replace

from trainshed.api.coerce import EARLIEST, as_mapping, as_sequence
from trainshed.api.framework import own_container
from trainshed.api.job import ReplicaGroup
from trainshed.api.status import ConditionType, Status
from trainshed.api.time_spent import ALL_RUN, JobPhase, TimeSpent

from . import hangs, lost_work, restarts
from .conditions import MAX_CLOCK_SKEW
from .facts import Facts
from .pod_stages import Change, Course, Stage, history, traits, usual_course, with_readiness

#: The phase of a job whose replicas are all at least that far.
PHASES = {
    Stage.SCHEDULING: JobPhase.SCHEDULING,
    Stage.INIT: JobPhase.INIT,
    Stage.IMAGE_PULL: JobPhase.IMAGE_PULL,
    Stage.STARTS: JobPhase.PROGRAM_STARTUP,
    Stage.HELD_BACK: JobPhase.SCHEDULING,
    Stage.RUNS: JobPhase.RUNNING,
    Stage.FINISHED: JobPhase.TEARDOWN,
}
Move = tuple[datetime, JobPhase | None]


def with_time_spent(facts: Facts, after: Status) -> Status:
    """Return the status, which is to be stored in place of the known one, with where the time has gone until now."""
    before, now = facts.status, facts.now.replace(microsecond=0)
    spent = _begun(facts, after, now)
    if spent.since and not -MAX_CLOCK_SKEW < now - spent.since < now - (facts.job.created or EARLIEST) + MAX_CLOCK_SKEW:
        spent = replace(spent, since=now)  # no clock that is nearly right was behind this time
    was_stopped = _stopped(before)
    if not was_stopped and spent.since:
        stalled = spent.phase is JobPhase.STALLED
        for time, phase in _moves(facts, JobPhase.RUNNING if stalled else spent.phase, spent.since, now):
            stalled &= phase is JobPhase.RUNNING
            spent = spent.moved(JobPhase.STALLED if stalled else phase, time)
        spent = _with_hang(facts, after, _with_first_report(facts, spent))
        if after.restarts_pods(before):
            spent = spent.moved(JobPhase.RESTART, now)
    if _stopped(after):
        spent = _with_end(facts, after, spent).moved(_phase_of_stopped(facts, after), now)
    elif was_stopped:
        spent = spent.moved(JobPhase.SCHEDULING, now)
    lost = lost_work.seconds(facts, after)
    spent = replace(spent, lost_work=spent.lost_work + lost)
    history, known = list(after.recent_restarts), {(one.time, one.attempt) for one in before.recent_restarts}
    for number, restart in enumerate(history):
        if (restart.time, restart.attempt) not in known:  # what the job has run has just ended with it
            history[number] = replace(restart, total_running_seconds=spent.total(*ALL_RUN))
    if lost and history and lost_work.is_cause(facts, history[-1]):
        history[-1] = replace(history[-1], lost_work_seconds=(history[-1].lost_work_seconds or 0) + lost)
    return replace(after, time_spent=spent, recent_restarts=tuple(history))


def _with_first_report(facts: Facts, spent: TimeSpent) -> TimeSpent:
    """Return the same with the start of the program as a phase of its own, once its run has reported a step.

    Before the first report of the job as many steps were made as it says, at the pace of the next ones. A run that was
    resumed has made its first step when it reports it: those before are done again.
    """
    report, known, begin = facts.snapshot.training, facts.status.trainer, spent.since
    if spent.phase is not JobPhase.RUNNING or begin is None or report is None:
        return spent
    if report.began is None or report.began <= begin or report.first_step is None:
        return spent
    resumed = known is not None and known.updated <= begin
    if not resumed and known and known.steps_per_second:
        return spent  # it was known when this was stored
    done = 0 if resumed else report.first_step
    if done and not report.steps_per_second:
        return spent
    trained = min(report.began - begin, timedelta(seconds=done / (report.steps_per_second or 1)))
    return replace(spent, phase=JobPhase.PROGRAM_STARTUP).moved(JobPhase.RUNNING, report.began - trained)


def _with_hang(facts: Facts, after: Status, spent: TimeSpent) -> TimeSpent:
    """Return the same with the time without progress of a job that is Stalled as a phase of its own.

    It begins with the last progress, and ends with the next one; or as `Running` does, if there is none.
    """
    known, moved = after.condition(ConditionType.STALLED), hangs.moved(facts)
    if known and spent.phase is JobPhase.RUNNING:
        return spent.moved(JobPhase.STALLED, min((*moved, known.changed)))
    before = facts.status.condition(ConditionType.STALLED)
    if before and known is None and after.true(ConditionType.RUNNING) and spent.phase is JobPhase.STALLED:
        return spent.moved(JobPhase.RUNNING, min((time for time in moved if time > before.changed), default=facts.now))
    return spent


def _with_end(facts: Facts, after: Status, spent: TimeSpent) -> TimeSpent:
    """Return the same with what follows the failure that ends the job as a part of its end: nothing restarts then."""
    cause = after.failure if after.true(ConditionType.FAILED) or after.true(ConditionType.FAILURE_TARGET) else None
    if spent.phase is not JobPhase.RESTART or spent.since is None or cause is None:
        return spent
    runs = (facts.own_container(pod) for pod in facts.current.values())
    ends = (own.before.finished for own in runs if own and own.before)
    again = max(filter(None, (*ends, *(one.time for one in after.recent_restarts))), default=EARLIEST) >= spent.since
    return (
        spent.moved(JobPhase.TEARDOWN, min(cause.time, facts.now)) if again else replace(spent, phase=JobPhase.TEARDOWN)
    )


def _stopped(status: Status) -> bool:
    """Return whether the job is not to have pods any more, or not now."""
    return status.over or status.ending is not None or status.true(ConditionType.SUSPENDED)


def _phase_of_stopped(facts: Facts, status: Status) -> JobPhase | None:
    """Return the phase of a job that is suspended or ends: the last pods that the status counts hold resources."""
    if status.holds_resources:
        return JobPhase.TEARDOWN
    if status.over or status.ending:
        return None
    return JobPhase.QUEUED if facts.job.queued and facts.status.start is None else JobPhase.SUSPENDED


def _begun(facts: Facts, after: Status, now: datetime) -> TimeSpent:
    """Return the time that the stored status has, or the beginning of a job that has none there.

    That is the creation of the job, unless the job was restarted, suspended or finished when nothing counted its time.
    """
    before, created = facts.status, facts.job.created
    if before.time_spent.since:
        return before.time_spent
    unknown = before.over or before.ending or before.condition(ConditionType.SUSPENDED)
    if unknown or created is None or before.retries.total or any(before.attempts.values()):
        phase = JobPhase.RESTART if before.true(ConditionType.RESTARTING) else JobPhase.SCHEDULING
        return TimeSpent(phase=_phase_of_stopped(facts, before) if _stopped(before) else phase, since=now)
    waits = _stopped(after) and not after.over
    return TimeSpent(
        phase=_phase_of_stopped(facts, after) if waits else JobPhase.SCHEDULING,
        since=min(created.replace(microsecond=0), now),
    )


def _moves(facts: Facts, first: JobPhase | None, begin: datetime, end: datetime) -> Iterator[Move]:
    """Yield when the job has come into which phase from the beginning of the phase `first` on."""
    if first in (None, JobPhase.SCHEDULING) and _is_being_scheduled(facts):
        yield begin, JobPhase.SCHEDULING
        return
    stages, changes = _stages(facts, first, begin)
    restarting, starting, phase = first is JobPhase.RESTART, first in (None, JobPhase.SCHEDULING), first
    for time, step in groupby(sorted(changes), key=lambda change: change[0]):
        for _, old, new in step:
            stages[old] -= 1
            stages[new] += 1
            restarting |= new is Stage.FAILED and begin < time <= end
        if time > end:
            return
        restarting |= stages[Stage.FAILED] > 0
        there = min((stage for stage in PHASES if stages[stage]), default=None)
        incomplete = stages[Stage.FAILED] or (stages[Stage.ABSENT] and (restarting or starting))
        if there in (Stage.STARTS, Stage.RUNS) and not incomplete and not stages[Stage.HELD_BACK]:
            restarting = starting = False
            phase = PHASES[there]
        elif restarting:
            phase = JobPhase.RESTART
        elif incomplete:
            phase = JobPhase.SCHEDULING
        elif there is not None:
            phase = PHASES[there]
        yield max(begin, time), phase


def _is_being_scheduled(facts: Facts) -> bool:
    """Return whether a replica has had no node so far, and none has ended a run: what the others do does not matter.

    This is so for as long as the pods of a large job are being created, with a status for some of them each time.
    """
    if facts.failed:
        return False
    there = Counter(replica.role for replica in facts.current)
    waits = any(
        there[role] + len(facts.done[role]) < group.count and _absent(facts, role) is Stage.ABSENT
        for role, group in facts.groups.items()
    )
    for replica, pod in facts.current.items():
        if pod.quiet:
            continue
        if any(container.exit_code is not None or container.before for container in pod.containers):
            return False
        begun = pod.scheduled or any(container.started for container in pod.containers)
        waits = waits or not (begun or pod.over or facts.finished(replica))
    return waits


def _stages(
    facts: Facts, first: JobPhase | None, begin: datetime
) -> tuple[Counter[Stage], list[tuple[datetime, Stage, Stage]]]:
    """Return how far the replicas were in the beginning, and all changes since; one at the beginning at least.

    It matters only whether any replica is at a stage: those that have gone through the same ones count as one.
    """
    stages: Counter[Stage] = Counter()
    ignored = facts.failed if restarts.failure_group(facts) is None else {}
    found: list[tuple[datetime, Stage, Stage]] = [(begin, Stage.RUNS, Stage.RUNS)]
    there: Counter[str] = Counter()
    last: dict[tuple[str, Course], tuple[datetime, ...]] = {}
    seen: set[object] = set()
    probed = {role for role, group in facts.groups.items() if _has_probe(facts, group)}
    running = begin if first is JobPhase.RUNNING else None
    for replica, pod in facts.current.items():
        there[replica.role] += 1
        if running and pod.quiet and (pod.created is None or pod.created <= begin):
            stages[Stage.RUNS] += 1
        elif usual := usual_course(facts, (replica, pod), (begin, running), probed=replica.role in probed):
            course, times = usual
            group = replica.role, course
            last[group] = tuple(map(max, last.get(group, times), times))
        else:
            failure = None if replica in ignored else facts.failed.get(replica)
            if failure is None and replica.role not in probed:
                if (known := traits(facts, (replica, pod))) in seen:
                    continue
                seen.add(known)
            changes = history(facts, (replica, pod), failure, running)
            if replica.role in probed:
                changes = with_readiness(facts, changes, pod, (first, begin))
            found += _changes(stages, _absent(facts, replica.role), begin, changes)
    for (role, course), times in last.items():  # of many pods with the same stages the last one at each step counts
        found += _changes(stages, _absent(facts, role), begin, zip(times, course, strict=True))
    for role, replicas in facts.groups.items():
        without = len(facts.done[role])
        if without:
            without -= sum(1 for replica in facts.current if replica.role == role and facts.finished(replica))
        stages[Stage.FINISHED] += without
        stages[_absent(facts, role)] += max(0, replicas.count - there[role] - without)
    return stages, found


def _changes(
    stages: Counter[Stage], absent: Stage, begin: datetime, changes: Iterable[Change]
) -> Iterator[tuple[datetime, Stage, Stage]]:
    """Yield the changes of a replica from its first stage on, which is counted."""
    stages[absent] += 1
    stage = absent
    for time, new in changes:
        yield max(time, begin), stage, new
        stage = new


def _has_probe(facts: Facts, group: ReplicaGroup) -> bool:
    """Return whether the framework's container of these replicas is ready only once a probe says so."""
    containers = map(as_mapping, as_sequence(as_mapping(group.template.get("spec")).get("containers")))
    own = own_container(facts.framework.container, list(containers), group.container)
    return bool(own.get("readinessProbe") or own.get("startupProbe"))


def _absent(facts: Facts, role: str) -> Stage:
    """Return the stage of a replica of this role that has no pod yet."""
    ordered = not (
        facts.snapshot.job_defaults.gang_scheduler or facts.job.grouped
    ) and facts.framework.hooks.start_after(facts.job, role)
    return Stage.HELD_BACK if ordered else Stage.ABSENT
