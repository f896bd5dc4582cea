"""What a job did and when, as far as its status and its pods say; and what its limits will do to it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

import msgspec
from msgspec.structs import replace

from trainshed.api.job import Job, Replica
from trainshed.api.job_annotations import FORCE_DELETE_AFTER, HANG_DEADLINE
from trainshed.api.objects import Phase
from trainshed.api.status import STARTUP_DEADLINE, ConditionType, Restart
from trainshed.api.time_spent import ALL_RUN, JobPhase
from trainshed.plan.facts import Facts
from trainshed.plan.failures import APPLICATION, HANG
from trainshed.plan.hangs import FLOOR
from trainshed.views import attempts, training_story
from trainshed.views.durations import exact

from . import replica_history
from .model import PodLife
from .replica_history import Act, Mark, Row, Sign, Span

#: The phases before a job runs for the first time, in their order.
FIRST = (JobPhase.QUEUED, JobPhase.SCHEDULING, JobPhase.INIT, JobPhase.IMAGE_PULL)


class Ahead(msgspec.Struct, frozen=True):
    """When something will happen by itself, of one replica or of the job: `name` is the field that says so.

    `warns` is whether it will probably be the end of what its user wants.
    """

    time: datetime
    name: str
    text: str
    replica: Replica | None = None
    warns: bool = False


class History(msgspec.Struct, frozen=True):
    """What is drawn of a job: its own spans and marks, those of its replicas, and what lies ahead, the next first."""

    now: datetime
    begin: datetime
    end: datetime
    spans: tuple[Span, ...]
    marks: tuple[Mark, ...]
    rows: tuple[Row, ...]
    ahead: tuple[Ahead, ...]
    over: bool


def history(facts: Facts, lives: Sequence[PodLife]) -> History:
    """Return what happened to a job until now; `lives` are all pods that were seen."""
    rows = replica_history.rows(facts, lives)
    spans = tuple(_spans(facts, rows))
    begun = [span.begin for row in rows for span in row.spans[:1]]
    begin = min(filter(None, (facts.job.created, *begun)), default=facts.now)
    over = facts.status.over and not any(span.lasts for row in rows for span in row.spans)
    ends = [span.end for row in rows for span in row.spans[-1:]] + [span.end for span in spans[-1:]]
    end = max((*ends, facts.status.completion or begin, begin + timedelta(seconds=1))) if over else facts.now
    marks = tuple(_marks(facts))
    with_earlier = tuple(_with_earlier(facts, row, spans) for row in rows)
    ahead = tuple(sorted(_ahead(facts), key=lambda one: one.time))
    return History(facts.now, begin, max(end, begin), spans, marks, with_earlier, ahead, over)


def _marks(facts: Facts) -> Iterator[Mark]:
    for item in facts.status.recent_restarts:
        yield Mark(Sign.RESTARTED, item.time, attempts.restart(facts.now, item))
    for kind, sign in ((ConditionType.SUCCEEDED, Sign.SUCCEEDED), (ConditionType.FAILED, Sign.FAILED)):
        found = facts.status.condition(kind)
        if found and found.true:
            yield Mark(sign, facts.status.completion or found.changed, f"{found.reason}: {found.message}")


def _spans(facts: Facts, rows: Sequence[Row]) -> Iterator[Span]:
    """Yield what the job did: what its status says, and between that it ran."""
    status, now = facts.status, facts.now
    end = status.completion or now
    known = sorted(_known(facts, rows, end), key=lambda span: span.begin)
    at = known[0].begin if known else None
    for span in known:
        if at and span.begin > at:
            yield _ran(facts, at, span.begin)
        begin = max(span.begin, at) if at else span.begin
        if span.end > begin:
            yield replace(span, begin=begin)
        at = max(span.end, at) if at else span.end
    if at and end > at:
        yield _ran(facts, at, end, lasts=not status.completion)


def _ran(facts: Facts, begin: datetime, end: datetime, *, lasts: bool = False) -> Span:
    """Return a time in which the job ran, as far as is known: of restarts by the kubelet the status has only sums."""
    spent, known = facts.status.time_spent, facts.status.recent_restarts or facts.current
    if spent.total(JobPhase.RESTART) and not known and facts.status.retries.in_place:
        ran, took = (exact(spent.total(phase)) for phase in (JobPhase.RUNNING, JobPhase.RESTART))
        return Span(
            Act.EARLIER, begin, end, f"it ran for {ran} in all; restarts of containers took {took}", lasts=lasts
        )
    return Span(Act.RUNNING, begin, end, lasts=lasts)


def _known(facts: Facts, rows: Sequence[Row], end: datetime) -> Iterator[Span]:
    """Yield the times in which the job did not run."""
    status, spent = facts.status, facts.status.time_spent
    yield from _beginning(facts, rows)
    yield from _restarts(facts, end)
    yield from _in_place(rows)
    yield from _suspension(facts)
    if spent.phase and spent.since and spent.phase is not JobPhase.RUNNING:
        until = facts.now if spent.phase is JobPhase.TEARDOWN else end
        yield Span(Act(spent.phase), spent.since, until, lasts=True)
    elif status.true(ConditionType.FAILED) and status.failure:
        took = timedelta(seconds=spent.total(JobPhase.TEARDOWN))
        yield Span(Act.TEARDOWN, status.failure.time, status.failure.time + took)


def _restarts(facts: Facts, end: datetime) -> Iterator[Span]:
    """Yield the restarts by the operator: each lasts until all replicas ran again, as their time is counted.

    That is as long before the next failure as they ran then. Where there are other times between, or nothing has
    counted them, it is until the replicas ran of which the status says that.
    """
    status, spent = facts.status, facts.status.time_spent
    restarts, known = status.recent_restarts, spent.until(facts.now)
    goes_on = spent.phase in ALL_RUN or (status.over and spent.phase is not JobPhase.RESTART)
    stop = status.failure.time if status.true(ConditionType.FAILED) and status.failure else end
    following = [(item.time, item.total_running_seconds) for item in restarts[1:]]
    following.append((stop, known.total(*ALL_RUN) if goes_on else None))
    is_simple = not (status.retries.in_place or known.total(JobPhase.SUSPENDED))
    for item, (time, total) in zip(restarts, following, strict=False):
        if spent.phase is JobPhase.RESTART and spent.since and item.time >= spent.since:
            return  # it is the present phase
        until = item.time + timedelta(seconds=item.recovery_seconds or 0)
        if is_simple and item.total_running_seconds is not None and total is not None:
            until = time - timedelta(seconds=total - item.total_running_seconds)
        yield Span(Act.RESTART, item.time, max(item.time, until))


def _in_place(rows: Sequence[Row]) -> Iterator[Span]:
    """Yield the times in which a kubelet started a container again: then not all replicas ran."""
    for row in rows:
        for span in row.spans:
            if span.act is Act.BACK_OFF:
                yield replace(span, act=Act.RESTART, note=f"{row.name} was started again in its pod")
            elif span.act is Act.EARLIER:
                yield replace(span, note=f"{row.name}: {span.note}")


def _beginning(facts: Facts, rows: Sequence[Row]) -> Iterator[Span]:
    """Yield the phases before the first run, which the status has one by one only until the job was resumed.

    After that the last beginning is taken from the pods, all that was before the suspension is not known.
    """
    created, spent = facts.job.created, facts.status.time_spent
    if created is None:
        return
    suspended = facts.status.condition(ConditionType.SUSPENDED)
    if suspended and not suspended.true:
        before = suspended.changed - timedelta(seconds=spent.total(JobPhase.SUSPENDED))
        yield Span(Act.EARLIER, created, max(created, before), "before the suspension")
        starts = [span.begin for row in rows for span in row.spans if span.act is Act.RUNNING]
        first = min((time for time in starts if time > suspended.changed), default=None)
        yield Span(Act.SCHEDULING, suspended.changed, first or facts.now, lasts=first is None)
        return
    at = created
    for phase in FIRST:
        until = at + timedelta(seconds=spent.total(phase))
        yield Span(Act(phase), at, until)
        at = until
    if not facts.status.recent_restarts:
        yield Span(Act.PROGRAM_STARTUP, at, at + timedelta(seconds=spent.total(JobPhase.PROGRAM_STARTUP)))
    elif facts.status.retries.used > len(facts.status.recent_restarts):
        first_known = facts.status.recent_restarts[0].time
        more = facts.status.retries.used - len(facts.status.recent_restarts)
        yield Span(Act.EARLIER, at, first_known, f"{more} earlier restarts, of which the status has no times")


def _suspension(facts: Facts) -> Iterator[Span]:
    found = facts.status.condition(ConditionType.SUSPENDED)
    if found is None:
        return
    if found.true:
        yield Span(Act.SUSPENDED, found.changed, facts.now, found.reason, lasts=True)
        return
    spent = facts.status.time_spent.total(JobPhase.SUSPENDED)
    yield Span(Act.SUSPENDED, found.changed - timedelta(seconds=spent), found.changed)


def _with_earlier(facts: Facts, row: Row, spans: Sequence[Span]) -> Row:
    """Return the row with the attempts of before whose pods were not seen, as far as the status has them.

    A restart of all replicas ended an attempt of each; one of fewer is shown at the replica that failed.
    """
    attempts_of = [span for span in spans if span.act is Act.RUNNING]
    found, marks = [], []
    for item in facts.status.recent_restarts:
        is_named = item.replica == row.name
        run = next((span for span in attempts_of if span.begin < item.time <= span.end), None)
        is_seen = any(span.begin < item.time and span.end >= item.time - timedelta(seconds=5) for span in row.spans)
        if is_seen or not (is_named or item.replicas_restarted >= facts.job.size):
            continue
        if run:
            note = f"attempt {item.attempt - 1}; its pod was not seen"
            found.append(Span(Act.EARLIER, run.begin, item.time, note, item.attempt - 1))
        if is_named:
            marks.append(Mark(_sign(item), item.time, attempts.ended(item.reason, item.exit_code)))
    if not (found or marks):
        return row
    return replace(row, spans=(*found, *row.spans), marks=(*marks, *row.marks))


def _sign(item: Restart) -> Sign:
    return Sign.FAILED if item.kind in (APPLICATION, HANG) else Sign.DISRUPTED


def _ahead(facts: Facts) -> Iterator[Ahead]:
    """Yield what the limits of the job will do, and when; nothing of a job that Trainshed does not run."""
    job, status = facts.job, facts.status
    if job.policy.managed_elsewhere or job.deleting:
        return
    if status.over:
        if job.policy.ttl is not None and status.completion:
            found = _due(status.completion, job.policy.ttl, "ttlSecondsAfterFinished", "the job is deleted")
            yield from (found,) if found.time > facts.now else ()
    elif not status.true(ConditionType.SUSPENDED):
        yield from (one for one in _limits(facts, job) if one.time > facts.now)
    yield from (one for one in _deletions(facts) if one.time > facts.now)


def _limits(facts: Facts, job: Job) -> Iterator[Ahead]:
    status = facts.status
    if status.retries.next_retry_time:
        yield Ahead(status.retries.next_retry_time, "back-off", "new pods are created")
    if job.policy.deadline is not None and status.start:
        early = training_story.miss(status, job.policy.deadline).partition("stops it ")[2]
        text = f"the job fails, {early}" if early else "the job fails unless it has ended"
        yield replace(_due(status.start, job.policy.deadline, "activeDeadlineSeconds", text), warns=bool(early))
    begun = [pod.created for pod in facts.eventful.values() if pod.phase is Phase.PENDING and pod.created]
    if job.startup_deadline is not None and begun:
        text = "the job fails unless all replicas have started"
        yield replace(_due(min(begun), job.startup_deadline, STARTUP_DEADLINE, text), warns=True)
    if job.hang_deadline is not None and status.trainer and status.trains and status.true(ConditionType.RUNNING):
        seconds = max(job.hang_deadline, int(FLOOR.total_seconds()))
        does = "is restarted" if job.restarts_when_hung else "is Stalled"
        text = f"the job {does} at the earliest, without another step"
        yield _due(status.trainer.updated, seconds, HANG_DEADLINE, text)


def _deletions(facts: Facts) -> Iterator[Ahead]:
    """Yield when pods that are being deleted are killed, and when they are removed by force."""
    for pod in facts.terminating:
        replica = facts.replicas_by_pod.get(pod.name)
        if pod.deletion_timestamp is None or replica is None:
            continue
        yield Ahead(pod.deletion_timestamp, "grace period", "the kubelet kills the containers", replica)
        if facts.job.force_delete_after is not None:
            text = "the pod is deleted by force"
            yield _due(pod.deletion_timestamp, facts.job.force_delete_after, FORCE_DELETE_AFTER, text, replica)


def _due(begin: datetime, seconds: int, name: str, text: str, replica: Replica | None = None) -> Ahead:
    return Ahead(begin + timedelta(seconds=seconds), name, text, replica)
