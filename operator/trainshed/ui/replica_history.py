"""What each replica of a job did and when, from its pods: spans of time, and marks where something happened."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec

from trainshed.api.foreign_text import one_line
from trainshed.api.job import Replica
from trainshed.api.objects import Container, Phase, Pod
from trainshed.api.replicas import replica_named
from trainshed.api.status import ConditionType
from trainshed.plan.facts import Facts
from trainshed.plan.failures import own_container, why_removed
from trainshed.plan.waiting import CRASH_LOOP
from trainshed.views import attempts, training_story
from trainshed.views.durations import exact

from .model import PodLife

#: The most characters of what others have written in a title.
MOST_TEXT = 200
#: Of the runs of a container that are over the kubelet keeps the last one.
KEPT_RUNS = 1


class Act(StrEnum):
    """What a job or a replica spends its time with. The names are those of `status.timeSpent` as far as it has them.

    In `BackOff` the kubelet waits before it starts a container again. `Earlier` are attempts whose pods were not seen.
    """

    QUEUED = "Queued"
    SUSPENDED = "Suspended"
    SCHEDULING = "Scheduling"
    INIT = "Init"
    IMAGE_PULL = "ImagePull"
    PROGRAM_STARTUP = "ProgramStartup"
    RUNNING = "Running"
    STALLED = "Stalled"
    RESTART = "Restart"
    BACK_OFF = "BackOff"
    TERMINATING = "Terminating"
    TEARDOWN = "Teardown"
    EARLIER = "Earlier"


class Sign(StrEnum):
    """What a mark stands for."""

    FAILED = "failed"
    SUCCEEDED = "succeeded"
    DISRUPTED = "disrupted"
    STOPPED = "stopped"
    RESTARTED = "restarted"
    BEHIND = "behind"


class Span(msgspec.Struct, frozen=True):
    """A span of time in which one thing is done; `note` is what else is to be said about it.

    One that `lasts` has not ended: its end is now. `node` is that of the pod, empty before it has one.
    """

    act: Act
    begin: datetime
    end: datetime
    note: str = ""
    attempt: int = 0
    lasts: bool = False
    node: str = ""

    @property
    def seconds(self) -> int:
        """Its length in whole seconds."""
        return int((self.end - self.begin).total_seconds())

    @property
    def text(self) -> str:
        """What it says when it is pointed at."""
        length = f"{exact(self.seconds)}{' so far' if self.lasts else ''}"
        note = f": {self.note}" if self.note else ""
        return f"{self.act} {self.begin:%H:%M:%S} to {self.end:%H:%M:%S}, {length}{note}"


class Mark(msgspec.Struct, frozen=True):
    """Something that happened at a time, in words."""

    sign: Sign
    time: datetime
    text: str


class Row(msgspec.Struct, frozen=True):
    """A replica: its spans in the order of their times, its marks, and its present pod, if it has one.

    One of a job that is `over` may have had a pod that was gone before it was seen. The others wait for one that is
    `behind`.
    """

    replica: Replica
    spans: tuple[Span, ...] = ()
    marks: tuple[Mark, ...] = ()
    pod: Pod | None = None
    ready: bool = False
    restarts: int = 0
    over: bool = False
    behind: bool = False

    @property
    def name(self) -> str:
        """The name of the replica, such as `worker-1`."""
        return str(self.replica)

    @property
    def node(self) -> str:
        """The node of its present pod; empty without one."""
        return one_line(self.pod.node, MOST_TEXT) if self.pod else ""

    @property
    def last(self) -> Span | None:
        """What it does now, or did last."""
        return self.spans[-1] if self.spans else None

    @property
    def state(self) -> str:
        """Its state in one word."""
        if self.pod is None:
            return "Gone" if self.spans or self.over else "NotCreated"
        if self.pod.over:
            is_stopped = bool(self.marks) and self.marks[-1].sign is Sign.STOPPED
            return "Stopped" if is_stopped else str(self.pod.phase)
        return str(self.last.act) if self.last else str(self.pod.phase)

    @property
    def is_well(self) -> bool:
        """Whether it runs, has ended well or was only stopped, and has never failed."""
        is_well = self.state in (Act.RUNNING, Phase.SUCCEEDED, "Stopped")
        return is_well and all(one.sign in (Sign.SUCCEEDED, Sign.STOPPED) for one in self.marks)


def rows(facts: Facts, lives: Sequence[PodLife]) -> tuple[Row, ...]:
    """Return a row for each replica that is asked for, and for those that had pods, in the order of roles and indexes.

    `lives` are all pods that were seen, those that are gone among them.
    """
    job, roles = facts.job, facts.framework.roles
    found: dict[Replica, list[PodLife]] = {replica: [] for replica in job.all_replicas}
    for life in lives:
        replica = facts.replicas_by_pod.get(life.pod.name) or replica_named(job, roles, life.pod.name)
        if replica:
            found.setdefault(replica, []).append(life)
    return tuple(_row(facts, replica, own) for replica, own in found.items())


def _row(facts: Facts, replica: Replica, lives: Sequence[PodLife]) -> Row:
    group = facts.groups.get(replica.role)
    name = group.container if group else ""
    spans: list[Span] = []
    marks: list[Mark] = []
    for life in lives:
        spans += _of_pod(life, own_container(life.pod, name), facts.now)
        marks += _marks(facts, life, own_container(life.pod, name))
    present = [life.pod for life in lives if life.removed is None]
    pod = present[-1] if present else None
    own = own_container(pod, name) if pod else None
    is_ready = bool(pod and not pod.over and (pod.ready or (own and own.ready)) and not pod.deleting)
    restarts = own.restarts if own else 0
    late = bool(pod and not pod.over and pod.name in {one.pod for one in facts.status.stragglers})
    marks += [_behind(facts)] if late else []
    return Row(replica, tuple(spans), tuple(marks), pod, is_ready, restarts, over=facts.status.over, behind=late)


def _behind(facts: Facts) -> Mark:
    """Return the mark of a replica that is behind: where the training stopped, or now if it only lags."""
    since = training_story.still_since(facts)
    text = "is behind, and the others wait for it" if since else "lags behind the others, which wait for it"
    return Mark(Sign.BEHIND, since or facts.now, text)


class _Course:
    """Collects the spans of a pod, each from the end of the one before; those without length are left out."""

    def __init__(self, begin: datetime, stop: datetime, attempt: int, *, lasts: bool) -> None:
        self.spans: list[Span] = []
        self._at, self._stop, self._attempt, self._lasts = begin, stop, attempt, lasts

    def until(self, act: Act, end: datetime | None, note: str = "") -> None:
        """Add what is done up to `end`, None if it is not over."""
        until = min(max(end, self._at), self._stop) if end else self._stop
        if until > self._at:
            open_ended = self._lasts and end is None
            self.spans.append(Span(act, self._at, until, note, self._attempt, lasts=open_ended))
        self._at = until

    def skip(self, time: datetime) -> None:
        """Leave the time up to then out."""
        self._at = min(max(time, self._at), self._stop)


def _of_pod(life: PodLife, own: Container | None, now: datetime) -> list[Span]:
    """Return what a pod did from its creation to its end."""
    pod = life.pod
    if pod.created is None:
        return []
    gone = life.removed or now
    deletion = pod.deletion_requested
    alive = min(deletion, gone) if deletion else gone
    ended = _ended(pod, own)
    stop = min(ended, alive) if ended else alive
    course = _Course(pod.created, stop, pod.attempt, lasts=stop == now and not ended)
    _starts(course, pod, own)
    spans = course.spans
    if deletion and gone > deletion and not ended:
        where = f"grace period of {exact(pod.grace)}" if pod.grace else ""
        spans.append(Span(Act.TERMINATING, max(deletion, pod.created), gone, where, pod.attempt, lasts=gone == now))
    node = one_line(pod.node, MOST_TEXT)
    return [msgspec.structs.replace(one, node=node) for one in spans]


def _ended(pod: Pod, own: Container | None) -> datetime | None:
    """Return when a pod that is over ended, as far as it says that."""
    if not pod.over:
        return None
    ends = [one.finished for one in pod.containers if one.finished]
    return (own.finished if own else None) or max(ends, default=None) or pod.disrupted or pod.scheduled or pod.created


def _starts(course: _Course, pod: Pod, own: Container | None) -> None:
    """Add what a pod did until its program ran, and how that ran."""
    waits = one_line(pod.unschedulable or pod.unplaced, MOST_TEXT)
    begun = min((one.started for one in pod.containers if one.started), default=None)
    course.until(Act.SCHEDULING, pod.scheduled or begun, waits)
    inits = [one for one in pod.containers if one.init and not one.sidecar]
    if inits:
        running = next((one for one in inits if one.exit_code is None or one.exit_code), None)
        over = max((one.finished for one in inits if one.finished), default=None)
        course.until(Act.INIT, None if running and not own_started(own) else over, _said(running) if running else "")
    first = own_started(own)
    if own and own.restarts > KEPT_RUNS:
        course.until(Act.EARLIER, first, f"its image, {own.restarts - KEPT_RUNS} runs and the back-offs after them")
    course.until(Act.IMAGE_PULL, first, _said(own) if own and first is None else "")
    if first and own:
        _runs(course, pod, own)


def own_started(own: Container | None) -> datetime | None:
    """Return when a container started first, as far as the kubelet keeps that; runtimes may say 1970."""
    if own is None:
        return None
    started = own.before.started if own.before and own.restarts else own.started
    return started if started and started.timestamp() > 0 else None


def _runs(course: _Course, pod: Pod, own: Container) -> None:
    """Add the runs of the program. The kubelet keeps the last two: earlier ones are in the time before."""
    if own.before and own.restarts:
        course.until(Act.RUNNING, own.before.finished)
        again = own.started if not own.waiting else None
        course.until(Act.BACK_OFF, again, _said(own))
    if own.waiting or not own.started:
        return
    if own.exit_code is not None and not pod.over:
        course.until(Act.RUNNING, own.finished)
        if own.exit_code:  # else others of the pod run, such as a sidecar
            course.until(Act.BACK_OFF, None, _said(own))
        return
    if not own.restarts and pod.became_ready and pod.became_ready - own.started > timedelta(seconds=1):
        course.until(Act.PROGRAM_STARTUP, pod.became_ready)
    elif not own.ready and not pod.ready and own.exit_code is None:
        course.until(Act.PROGRAM_STARTUP, None, "not ready")
    course.until(Act.RUNNING, None, f"on {one_line(pod.node, MOST_TEXT)}" if pod.node else "")


def _said(container: Container) -> str:
    """Return what the kubelet says of a container that does not run."""
    if container.waiting or container.exit_code:
        parts = (container.name, container.reason, container.message if container.waiting else "")
        return one_line(": ".join(filter(None, parts)), MOST_TEXT)
    return ""


def _marks(facts: Facts, life: PodLife, own: Container | None) -> Iterator[Mark]:
    pod, now = life.pod, facts.now
    if own and own.restarts:
        before = own.before
        if before and before.finished:
            times = "" if own.restarts == 1 else f"; {own.restarts} restarts in this pod"
            text = f"{attempts.ended(before.reason, before.exit_code)}, and was restarted by the kubelet{times}"
            yield Mark(Sign.RESTARTED, before.finished, text)
        elif own.waiting and own.reason == CRASH_LOOP:
            yield Mark(Sign.RESTARTED, now, f"{own.restarts} restarts in this pod")
    ended = _ended(pod, own)
    if pod.disruption and pod.disrupted and not (ended and ended < pod.disrupted):
        yield Mark(Sign.DISRUPTED, pod.disrupted, _disruption(pod))
    elif ended and pod.phase is Phase.SUCCEEDED:
        yield Mark(Sign.SUCCEEDED, ended, "succeeded")
    elif ended and pod.deletion_requested and ended >= pod.deletion_requested:
        yield Mark(Sign.STOPPED, ended, _stopped(facts, pod))
    elif ended:
        yield Mark(Sign.FAILED, ended, _failure(pod, own))


def _stopped(facts: Facts, pod: Pod) -> str:
    """Return why a pod was stopped that had not failed by itself: who had failed first, if another one had."""
    status, failure = facts.status, facts.status.failure
    causes = [(item.time, item.replica, attempts.ended(item.reason, item.exit_code)) for item in status.recent_restarts]
    if failure and status.over:
        causes.append((failure.time, failure.replica, attempts.ended(failure.reason, failure.exit_code)))
    asked, own = pod.deletion_requested or facts.now, str(facts.replicas_by_pod.get(pod.name, ""))
    before = [(who, how) for time, who, how in causes if time <= asked and who != own]
    if status.true(ConditionType.SUCCEEDED) and status.completion and status.completion <= asked:
        return "was stopped, as the job had succeeded"
    if not before:
        return "was stopped: its pod was deleted"
    who, how = before[-1]
    return one_line(f"was stopped, as {who} {how} first" if who else "was stopped, as the job failed", MOST_TEXT)


def _disruption(pod: Pod) -> str:
    said = f": {pod.message}" if pod.message else ""
    return one_line(f"{attempts.ended(why_removed(pod), None)}{said}", MOST_TEXT)


def _failure(pod: Pod, own: Container | None) -> str:
    """Return how a pod failed, in words."""
    if pod.reason:
        said = f": {pod.message}" if pod.message else ""
        return one_line(f"{attempts.ended(pod.reason, None)}{said}", MOST_TEXT)
    failed = own if own and own.exit_code else next((one for one in pod.containers if one.exit_code), None)
    if failed is None:
        return "failed"
    who = f"container {failed.name} " if failed is not own else ""
    return one_line(f"{who}{attempts.ended(failed.reason, failed.exit_code)}", MOST_TEXT)


def by_role(found: Sequence[Row]) -> dict[str, list[Row]]:
    """Return the rows of each role."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in found:
        groups[row.replica.role].append(row)
    return groups
