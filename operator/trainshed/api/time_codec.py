"""Converts where the time of a job has gone to its part of the status, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .coerce import as_mapping, format_time, parse_count, parse_time
from .job import Document
from .time_spent import NOTHING, JobPhase, TimeSpent

#: The fields of the seconds of each phase.
FIELDS: Mapping[JobPhase, str] = {phase: f"{phase[0].lower()}{phase[1:]}Seconds" for phase in JobPhase}
#: The field of the seconds of lost work.
LOST_WORK = "lostWorkSeconds"
#: The fields of shares of these seconds. They follow from the others, and so are never a reason to write a status.
AVAILABILITY, GOODPUT = "availabilityPercentage", "goodputPercentage"


def time_document(spent: TimeSpent, *, steps: bool) -> dict[str, Any]:
    """Return the document of this in a status; what is zero or missing is left out. `steps` says if they are known."""
    since = format_time(spent.since) if spent.since else None
    seconds = {FIELDS[phase]: spent.seconds.get(phase, 0) for phase in JobPhase}
    shares = {AVAILABILITY: spent.availability, GOODPUT: spent.goodput if steps else None}
    found = {**seconds, LOST_WORK: spent.lost_work, **shares, "phase": str(spent.phase or ""), "since": since}
    return {key: value for key, value in found.items() if value}


def parse_time_spent(document: Document) -> TimeSpent:
    """Parse the document of this in a status; values of an unexpected type are skipped."""
    found = as_mapping(document.get("timeSpent"))
    if not found:
        return NOTHING
    seconds = {phase: count for phase, field in FIELDS.items() if (count := parse_count(found.get(field)))}
    since, name = parse_time(found.get("since")), found.get("phase")
    phase = JobPhase(name) if since and name in tuple(JobPhase) else None
    lost = parse_count(found.get(LOST_WORK)) or 0
    return TimeSpent(seconds, phase, since.replace(microsecond=0) if since else None, lost)
