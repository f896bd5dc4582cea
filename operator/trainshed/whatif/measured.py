"""What a job has shown of itself, in place of assumptions: by its status, of a cluster or of a run on a machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from statistics import fmean

import msgspec

from trainshed.api.status import MAX_RECENT_RESTARTS, ConditionType, Restart, Status
from trainshed.api.time_spent import ALL_RUN, STARTING, JobPhase
from trainshed.plan.failures import DISRUPTION, INFRASTRUCTURE
from trainshed.plan.messages.phrases import plural
from trainshed.plan.retry_delay import RESET_AFTER, backoff_seconds
from trainshed.views.durations import rounded

#: Signals end a program with codes from here on; without any code of its own a failure counts as a kill.
KILLED = 137
#: The least and the most of each value that a job can have shown, in seconds; anyone may have written a status.
TEN_YEARS = 10 * 365 * 86_400
TIMES = dict.fromkeys(("mtbf", "checkpoint-every", "run-time"), (1, TEN_YEARS))
POSSIBLE = TIMES | {
    "start-up": (0, TEN_YEARS),
    "restart-cost": (0, TEN_YEARS),
    "program-failures": (0, 1),
    "exit-code": (1, 255),
}
#: A run of fewer seconds says little: whole seconds are coarse for it, and a failure or two are no rate.
SHORT = 600


class Measure(msgspec.Struct, frozen=True):
    """A value that was measured, in place of an option, and by what it is known."""

    option: str
    value: float
    why: str


class JobMeasures(msgspec.Struct, frozen=True):
    """What is known of a job, by the names of options without dashes, and what is not, each with its reason.

    `mtbf` is the time between failures of the whole job, and `run-time` that of its training with all checkpoints.
    `doubts` are sentences about why all of it may be far off.
    """

    known: tuple[Measure, ...] = ()
    unknown: tuple[tuple[str, str], ...] = ()
    doubts: tuple[str, ...] = ()

    def value(self, option: str) -> float | None:
        """Return the value of an option, None if it is not known."""
        return next((one.value for one in self.known if one.option == option), None)


def measures(uid: str, status: Status, now: datetime, *, size: int, together: bool) -> JobMeasures:
    """Return what the status of a job says; `together` is whether its replicas restart with each other."""
    spent = status.time_spent.until(now)
    known: list[Measure] = []
    unknown: list[tuple[str, str]] = []
    restarts, failures, ran = _failures(status, spent.total(*ALL_RUN), size if together else 1)
    starts = 1 + failures
    program = spent.total(JobPhase.PROGRAM_STARTUP) / starts
    if spent.total(*ALL_RUN):
        start = spent.total(*STARTING) + program
        known.append(Measure("start-up", start, "from its creation until all replicas ran and were ready"))
    else:
        unknown.append(("start-up", "it has not run yet"))
    if recovered := list(_recoveries(uid, restarts)):
        why = f"the mean of {plural(len(recovered), 'restart')}, without their back-off"
        known.append(Measure("restart-cost", fmean(recovered) + program, why))
    else:
        unknown.append(("restart-cost", "no restart of it was measured"))
    if failures and ran:
        why = f"it failed {plural(failures, 'time')} in {rounded(ran)}"
        known.append(Measure("mtbf", ran / failures, why))
    else:
        unknown.append(("mtbf", f"it has not failed in {rounded(spent.total(*ALL_RUN))}"))
    if restarts:
        known += _kinds(restarts)
    lost = [one.lost_work_seconds for one in restarts if one.lost_work_seconds]
    if lost:
        every = max(2 * fmean(lost), *lost, 1)
        why = f"twice the training that {plural(len(lost), 'failure')} lost on average, or the most that one lost"
        known.append(Measure("checkpoint-every", every, why))
    else:
        unknown.append(("checkpoint-every", "it is not known to have done training again"))
    trained = spent.total(JobPhase.RUNNING) - spent.lost_work
    left = status.trainer.remaining_seconds if status.trainer and status.trains else None
    if status.true(ConditionType.SUCCEEDED) and trained > 0:
        known.append(Measure("run-time", trained, "it trained for so long"))
    elif left is not None and trained > 0:
        why = f"it has trained for {rounded(trained)}, and says that {rounded(left)} remain"
        known.append(Measure("run-time", trained + left, why))
    else:
        unknown.append(("run-time", "it has not succeeded, and does not say how much remains"))
    possible = [one for one in known if POSSIBLE[one.option][0] <= one.value <= POSSIBLE[one.option][1]]
    unknown += [(one.option, "its status has what no job can have shown") for one in known if one not in possible]
    return JobMeasures(tuple(possible), tuple(unknown), tuple(_doubts(spent.total(*ALL_RUN))))


def _doubts(ran: float) -> Iterator[str]:
    """Yield why a run of so many seconds says little."""
    if 0 < ran < SHORT:
        yield (
            f"It ran for {rounded(ran)} only, and the times of a status are whole seconds: what follows from it may"
            " be far off. Give what you know yourself, the start-up, restart cost and time between failures first."
        )


def _failures(status: Status, ran: float, at_once: int) -> tuple[tuple[Restart, ...], int, float]:
    """Return the restarts that are known, how many failures there were, and in how many seconds of running.

    The status keeps the last restarts: where there were more, those after the first of them are counted from then on.
    """
    restarts = status.recent_restarts
    failures = len(restarts) + bool(status.failure and status.true(ConditionType.FAILED))
    if len(restarts) == MAX_RECENT_RESTARTS and (before := restarts[0].total_running_seconds) is not None:
        return restarts, failures - 1, ran - before
    return restarts, failures + round(status.retries.in_place / at_once), ran


def _recoveries(uid: str, restarts: tuple[Restart, ...]) -> Iterator[float]:
    """Yield how long each restart took without its back-off, which follows from those before it."""
    row, last = 0, None
    for one in restarts:
        row = row + 1 if last and one.time - last <= RESET_AFTER else 1
        wait = backoff_seconds(uid, row)
        last = one.time + timedelta(seconds=wait)
        if one.recovery_seconds is not None:
            yield max(0, one.recovery_seconds - wait)


def _kinds(restarts: tuple[Restart, ...]) -> Iterator[Measure]:
    """Yield the share of failures of programs, and what most of them exited with."""
    own = [one for one in restarts if one.kind not in (DISRUPTION, INFRASTRUCTURE)]
    why = f"{len(own)} of the last {plural(len(restarts), 'restart')}"
    yield Measure("program-failures", len(own) / len(restarts), why)
    codes = Counter(one.exit_code for one in own if one.exit_code)
    if own:
        yield Measure("exit-code", codes.most_common(1)[0][0] if codes else KILLED, "most of them")
