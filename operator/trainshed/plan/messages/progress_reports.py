"""Why a report of the progress of a training is refused, and the Event that says it to the owner of the job."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from trainshed.api.actions import Event, EventType
from trainshed.api.foreign_text import one_line

#: What becomes of a report that is not refused, as the metric has it; Trainer ignores keys that it does not know.
ACCEPTED, UNKNOWN_KEYS, FORWARDED = "Accepted", "UnknownKeys", "Forwarded"
#: The most keys that are named, and the longest name.
MOST_KEYS, MOST_TEXT = 5, 64


class ReportRefusal(StrEnum):
    """The reasons, as the metric has them."""

    BAD_TOKEN = "BadToken"  # noqa: S105 # nosec B105 - the name of a reason
    OTHER_JOB = "OtherJob"
    UNKNOWN_JOB = "UnknownJob"
    NOT_ASKED_FOR = "NotAskedFor"
    TOO_LARGE = "TooLarge"
    MALFORMED = "Malformed"
    TOO_OFTEN = "TooOften"
    BUSY = "Busy"
    NO_LEADER = "NoLeader"


#: Those that pass by themselves: nothing is said of them in an Event.
PASSING = frozenset((ReportRefusal.TOO_OFTEN, ReportRefusal.BUSY, ReportRefusal.NO_LEADER))
NO_SUCH_JOB = "there is no job of this name that reports here"
NOT_ASKED_FOR = "the job does not have the annotation trainshed.dev/progress: Endpoint"
TOO_OFTEN = "the job reports more often than once a second"
NO_LEADER = "no replica of the operator leads at the moment"
TOO_SLOW = "the report did not arrive in time"


def another_job(pod: str, job: str) -> str:
    """Return why a pod may not report for this job."""
    return f"pod {pod} does not belong to job {job}, and a pod reports for its own job only"


def too_large(most: int) -> str:
    """Return why a long report is refused."""
    return f"the report has more than {most} bytes"


def unknown_keys(keys: Sequence[str], sender: str) -> Event:
    """Return the Event for the first report with keys that are not known."""
    named = ", ".join(one_line(key[:MOST_TEXT]) for key in keys[:MOST_KEYS])
    message = (
        f"A report of the training's progress has keys that are not known, and are ignored ({UNKNOWN_KEYS}): {named}."
        f" It came from {sender}. More such reports are counted in trainshed_progress_reports_total only."
    )
    return Event(EventType.WARNING, "ProgressReportUnknownKeys", message, key=f"progress-{UNKNOWN_KEYS}")


def report_refused(refusal: ReportRefusal, why: str, sender: str) -> Event:
    """Return the Event for the first report that is refused for this reason; the client says nothing itself."""
    message = (
        f"A report of the training's progress was refused ({refusal}): {why}. It came from {sender}."
        " More refusals of this kind are counted in trainshed_progress_reports_total only."
    )
    return Event(EventType.WARNING, "ProgressReportRefused", message, key=f"progress-{refusal}")
