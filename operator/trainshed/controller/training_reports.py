"""What trainings report of their progress: the last report of each job, and how fast its steps follow each other."""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from itertools import pairwise
from statistics import median

import msgspec

from trainshed.api import training
from trainshed.api.job import Job, JobKey
from trainshed.api.signs import Operations, Signs, Stacks, Steps
from trainshed.api.trainer_status import REPORT_INTERVAL, TrainerStatus

#: The number of jobs of which a report is kept, those that have reported last, and of steps of each.
MAX_JOBS, MAX_STEPS = 10_000, 64
#: Seconds between two steps of which the time says something: those of a progress bar arrive many at a time, because
#: container runtimes keep back a line without an end until it has 16 KiB. They make two or three reports.
APART = 15.0
#: The number of reports that another pod makes, without one of the pod that leads, until it leads. Any rank may report,
#: and each at another step: only those of one are compared with each other.
REPORTS_TO_LEAD = 3


class _Training(msgspec.Struct):
    """The last report of a job, the pod that leads and made it, and the steps that it reported, in ascending order.

    `run` is the uid of that pod, as a job that is resumed has another one of the same name. `others` are the reports
    that each other pod has made since then, by its name, with its uid.

    `woken` is when the job was last reconciled because of a report, in seconds of the event loop, and `woken_by` that
    report.
    """

    last: TrainerStatus
    pod: str
    run: str
    advanced: datetime
    steps: deque[tuple[float, int]]
    others: dict[str, tuple[str, list[TrainerStatus]]] = {}
    began: datetime | None = None
    first_step: int | None = None
    left_step: int | None = None
    left: datetime | None = None
    woken: float = 0.0
    woken_by: TrainerStatus | None = None
    timer: asyncio.TimerHandle | None = None


class TrainingReports:
    """The reports of all jobs by uid; `wake` is called for a job with one that may be worth a write, or that it hangs.

    That is at most once in REPORT_INTERVAL: a reconcile costs more than many reports.
    """

    def __init__(self, wake: Callable[[JobKey], None]) -> None:
        self._wake = wake
        self._known: OrderedDict[str, _Training] = OrderedDict()
        #: By uid: what NCCL says of the ranks of a job, and since when this process looks after one that may hang.
        self.operations: dict[str, Operations] = {}
        self._watched: dict[str, datetime] = {}
        #: By uid: where the ranks of a job that hangs are; and of which jobs this process asks for that.
        self.stacks: dict[str, Stacks] = {}
        self.asks_for_stacks: Callable[[Job], bool] = lambda _job: False

    def report(self, key: JobKey, uid: str, status: TrainerStatus, pod: tuple[str, str] = ("", "")) -> None:
        """Keep a report, whose time is that of its arrival, and wake the job soon if it says something new.

        `pod` is the name and the uid of the one that it came from. Only the reports of one pod of a job are kept.
        """
        name, run = pod
        known = self._known.get(uid)
        if known is None:
            if len(self._known) >= MAX_JOBS:
                self.forget(next(iter(self._known)))
            known = self._known[uid] = _Training(status, name, run, status.updated, deque(maxlen=MAX_STEPS))
            differs = True
        else:
            differs = status.differs(known.last)
        self._known.move_to_end(uid)
        if name == known.pod:
            _take_step(known, status, again=run != known.run)
        elif not _lead(known, status, pod):
            return
        known.others.clear()
        known.last, known.pod, known.run = _with_pace(known, status), name, run
        if differs or known.timer:
            self._wake_later(key, uid, known, soon=uid in self._watched)

    def ended(self, key: JobKey, uid: str) -> None:
        """Wake a job soon if it is to be woken: no other report comes that could do so."""
        known = self._known.get(uid)
        if known and known.timer:
            self._wake_later(key, uid, known, soon=True)

    def of(self, uid: str) -> TrainerStatus | None:
        """Return the last report of a job, None if there is none."""
        known = self._known.get(uid)
        return known.last if known else None

    def pod(self, uid: str) -> str:
        """Return the name of the pod that has reported last, empty if it is not known."""
        known = self._known.get(uid)
        return known.pod if known else ""

    def steps(self, uid: str) -> Steps | None:
        """Return what is known of the steps of a job; None until it has reported two, APART from each other."""
        known = self._known.get(uid)
        pairs = list(pairwise(_apart(known.steps))) if known else []
        if known is None or not pairs:
            return None
        usual = median((now - then) / (step - before) for (then, before), (now, step) in pairs)
        rare, often = (
            median(now - then for (then, _), (now, _) in found) for found in (pairs, list(pairwise(known.steps)))
        )
        return Steps(known.advanced, known.steps[-1][1], usual, rare if rare > 2 * APART else often)

    def signs(self, job: Job, now: datetime) -> Signs:
        """Return what is known of whether the training of a job advances, if it is to be noticed that it hangs."""
        if job.hang_deadline is None:
            return Signs()
        watched = self._watched.setdefault(job.uid, now)
        asks, stacks = self.asks_for_stacks(job), self.stacks.get(job.uid)
        return Signs(self.steps(job.uid), self.operations.get(job.uid), watched, stacks, asks)

    def forget(self, uid: str) -> None:
        """Forget a deleted job."""
        self.operations.pop(uid, None)
        self.stacks.pop(uid, None)
        self._watched.pop(uid, None)
        known = self._known.pop(uid, None)
        if known and known.timer:
            known.timer.cancel()

    def _wake_later(self, key: JobKey, uid: str, known: _Training, *, soon: bool) -> None:
        interval = known.last.interval(known.woken_by) if known.woken_by and not soon else REPORT_INTERVAL
        due = known.woken + interval.total_seconds() if known.woken_by else 0.0
        if known.timer is None or due < known.timer.when():
            if known.timer:
                known.timer.cancel()
            known.timer = asyncio.get_running_loop().call_at(due, self._due, key, uid)

    def _due(self, key: JobKey, uid: str) -> None:
        known = self._known[uid]
        known.timer, known.woken, known.woken_by = None, asyncio.get_running_loop().time(), known.last
        self._wake(key)


def _apart(steps: Iterable[tuple[float, int]]) -> Iterator[tuple[float, int]]:
    last = float("-inf")
    for time, step in steps:
        if time - last >= APART:
            last = time
            yield time, step


def _lead(known: _Training, status: TrainerStatus, pod: tuple[str, str]) -> bool:
    """Keep a report of a pod that does not lead, and return whether it leads now: the one that did is silent.

    If it is behind the steps of the one that led, its program runs from before them again.
    """
    name, run = pod
    before, reports = known.others.get(name, (run, []))
    reports = [*reports, status] if before == run else [status]
    known.others[name] = run, reports
    if len(reports) < REPORTS_TO_LEAD:
        return False
    for report in reports:
        _take_step(known, report)
    return True


def _take_step(known: _Training, status: TrainerStatus, *, again: bool = False) -> None:
    """Count a step that is new; a step before the last one begins again, and so does a pod that replaces one."""
    if status.step is None:
        return
    last = known.steps[-1][1] if known.steps else -1
    if again or status.step < last:
        if known.steps:
            known.left_step, known.left = last, known.advanced
        known.steps.clear()
    elif status.step == last:
        return
    if not known.steps:
        known.began, known.first_step = status.updated, status.step
    known.steps.append((status.updated.timestamp(), status.step))
    known.advanced = status.updated


def _with_pace(known: _Training, status: TrainerStatus) -> TrainerStatus:
    """Return a report with where the run of the program began, and with its pace unless it says that itself."""
    pace = status.steps_per_second
    if pace is None and (found := training.pace(known.steps)):
        pace = round(found, training.DIGITS)
    run = {"first_step": known.first_step, "began": known.began, "left_step": known.left_step, "left": known.left}
    return msgspec.structs.replace(status, steps_per_second=pace, **run)
