"""What a drill has seen of one run of a job: steps, the ends of replicas, and what was written."""

from __future__ import annotations

from enum import StrEnum

import msgspec

from .file_events import FileEvent


class StepReport(msgspec.Struct, frozen=True):
    """A step that the training has reported; `attempt` counts the starts of what reports.

    `skipped` is whether lines before it could not be read, as there were too many. `began_again` is whether it is an
    earlier step than the last one of the same container.
    """

    at: float
    attempt: int
    step: int
    loss: float | None = None
    skipped: bool = False
    began_again: bool = False


class ReplicaEnd(msgspec.Struct, frozen=True):
    """The end of a replica's container; `asked` is when it got SIGTERM, and `grace` how long it had then.

    `restarted` is whether its pod was created after the fault.
    """

    at: float
    pod: str
    code: int
    reason: str = ""
    asked: float | None = None
    grace: float = 0.0
    last_line: str = ""
    restarted: bool = False

    @property
    def was_killed_at_the_deadline(self) -> bool:
        """Whether it did not end within its grace period."""
        return self.asked is not None and self.code == KILLED and self.at - self.asked >= self.grace - SLACK


#: The exit codes after SIGKILL and after SIGTERM without a handler; how accurate times are, in seconds.
KILLED, TERMINATED, SLACK = 137, 143, 0.3


class Ending(StrEnum):
    """Why a run ended."""

    ENOUGH = "enough was seen"
    OVER = "the job was over"
    LATE = "the time was over"
    STUCK = "it failed again and again"


class Observation(msgspec.Struct, frozen=True):
    """A run. Times are seconds of one clock; `fault_at` is None if the fault never came, and `missed` says why then.

    `back_at` is when all replicas ran again after it. `instead` is what the training says in place of steps.
    `target` is the file whose write a kill was to hit: `hit` is whether it did, `cut` whether the drill has emptied the
    file instead, as no write lasted long enough.
    """

    began: float
    ended: float
    ending: Ending
    state: str
    reports: tuple[StepReport, ...] = ()
    ends: tuple[ReplicaEnd, ...] = ()
    files: tuple[FileEvent, ...] = ()
    folders: tuple[str, ...] = ()
    unseen_files: str = ""
    instead: str = ""
    fault_at: float | None = None
    missed: str = ""
    what: str = ""
    back_at: float | None = None
    message: str = ""
    target: str = ""
    hit: bool = False
    cut: bool = False
    logs: str = ""

    @property
    def asked(self) -> list[ReplicaEnd]:
        """The ends of replicas that got SIGTERM after the fault, and were not killed by it."""
        found = [end for end in self.ends if end.asked is not None and end.asked >= (self.fault_at or 0)]
        return [end for end in found if end.code != KILLED or end.was_killed_at_the_deadline]

    @property
    def before(self) -> tuple[StepReport, ...]:
        """What was reported before the fault, and then by what it had not ended yet."""
        if self.fault_at is None:
            return self.reports
        known = [report.attempt for report in self.reports if report.at <= self.fault_at]
        return tuple(report for report in self.reports if known and report.attempt <= known[-1])

    @property
    def after(self) -> tuple[StepReport, ...]:
        """What was reported by what was started after the fault; one line alone may be one of an error."""
        found = self.reports[len(self.before) :]
        return found if len(found) > 1 or self.ending is Ending.ENOUGH else ()
