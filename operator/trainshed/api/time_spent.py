"""Where the time of a job has gone, by its phases."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum

import msgspec
from msgspec.structs import replace


class JobPhase(StrEnum):
    """What a job spends its time with; it is in one phase at a time (docs/progress.md has the beginning of each)."""

    QUEUED = "Queued"
    SUSPENDED = "Suspended"
    SCHEDULING = "Scheduling"
    INIT = "Init"
    IMAGE_PULL = "ImagePull"
    PROGRAM_STARTUP = "ProgramStartup"
    RUNNING = "Running"
    STALLED = "Stalled"
    RESTART = "Restart"
    TEARDOWN = "Teardown"


#: The phases in which a job waits for others, or has to: no time of it is lost.
WAITING = (JobPhase.QUEUED, JobPhase.SUSPENDED)
#: The phases before all replicas of a job run for the first time, or again after a suspension.
STARTING = (JobPhase.SCHEDULING, JobPhase.INIT, JobPhase.IMAGE_PULL)
#: The phases in which all replicas of a job run.
ALL_RUN = (JobPhase.PROGRAM_STARTUP, JobPhase.RUNNING, JobPhase.STALLED)
#: The phases of an admitted job, from its admission to its end: those that its availability is a share of.
ADMITTED = (*STARTING, *ALL_RUN, JobPhase.RESTART)
#: The classes of Google's goodput library (`BadputType`) that fit. It measures from the first start of the program on,
#: and so has none for the time in a queue.
GOODPUT_CLASSES: Mapping[JobPhase, str] = {
    **dict.fromkeys((*STARTING, JobPhase.STALLED, JobPhase.TEARDOWN), "OTHER"),
    JobPhase.PROGRAM_STARTUP: "PROGRAM_STARTUP",
    JobPhase.RESTART: "INFRASTRUCTURE_RECOVERY_FROM_DISRUPTION",
}
#: The class of lost work.
LOST_WORK_CLASS = "WASTED_PROGRESS_FROM_DISRUPTION"


class TimeSpent(msgspec.Struct, frozen=True):
    """The whole seconds that a job has spent in each phase, up to `since`; from then on it has been in `phase`.

    `lost_work` are those seconds of `Running` whose steps were done again after a restart, as far as steps are known.
    After the end of the job, and of its pods as far as they are counted, it is in no phase.
    """

    seconds: Mapping[JobPhase, int] = {}
    phase: JobPhase | None = None
    since: datetime | None = None
    lost_work: int = 0

    def moved(self, phase: JobPhase | None, time: datetime) -> TimeSpent:
        """Return the same with a phase that begins at this time, or at once if that is before the last one began."""
        if phase is self.phase or self.since is None:
            return self if self.since else replace(self, phase=phase, since=time)
        time = max(time.replace(microsecond=0), self.since)
        return replace(self.until(time), phase=phase, since=time)

    def until(self, now: datetime) -> TimeSpent:
        """Return the same with the present phase counted up to now."""
        if self.since is None or self.phase is None or now < self.since + timedelta(seconds=1):
            return self
        spent = int((now - self.since).total_seconds())
        seconds = {**self.seconds, self.phase: self.seconds.get(self.phase, 0) + spent}
        return replace(self, seconds=seconds, since=self.since + timedelta(seconds=spent))

    def total(self, *phases: JobPhase) -> int:
        """Return the seconds in these phases."""
        return sum(self.seconds.get(phase, 0) for phase in phases)

    @property
    def availability(self) -> int | None:
        """The percentage of the time since admission in which all replicas ran; None if there was no such time."""
        return self._percentage(self.total(*ALL_RUN))

    @property
    def goodput(self) -> int | None:
        """The same without the programs' start, hangs and lost work; it says something only if the steps are known."""
        return self._percentage(self.total(JobPhase.RUNNING) - self.lost_work)

    def _percentage(self, seconds: int) -> int | None:
        """Return 100 only if no second was lost."""
        admitted = self.total(*ADMITTED)
        return max(0, seconds) * 100 // admitted if admitted else None


#: No time at all: of a job that is not counted yet.
NOTHING = TimeSpent()
