"""V7: the number of writes is bounded by the number of changes, is zero at rest, and statuses stay small."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from . import api_fields
from .change import CREATED, MODIFIED, OPERATOR, Change, Request, Violation
from .records import Records

#: The maximum size of a status in bytes, for jobs of any size.
LARGEST = 16 * 1024
CONFLICT = 409
#: The budget of Events for a job in one life of the operator, with raised counts: a burst, and one more every this many
#: seconds.
BURST, EVERY = 25, 300.0
#: Status writes that any job may cost, that each change of it may cost, and each fault.
ALWAYS, EACH, FAULT = 6, 2, 4


class WriteBudget:
    """Counts the writes of the operator by the uid of the job."""

    def __init__(self) -> None:
        self._statuses: Counter[str] = Counter()
        self._events: Counter[tuple[str, str]] = Counter()
        self._writes: Counter[str] = Counter()
        self._last: list[Request | Change] = []

    def on_change(self, change: Change, records: Records) -> Iterator[Violation]:
        """Count a write of the operator, and check the size of a status."""
        if change.actor != OPERATOR or change.plural == "leases":
            return
        self._last = [change]
        if change.plural == "events":
            self._events[str((change.object.get("involvedObject") or {}).get("uid", "")), change.verb] += 1
            return
        job = records.jobs.get(
            api_fields.uid(change.object) if change.plural in api_fields.JOBS else api_fields.owner(change.object)
        )
        if job is None:
            return
        self._writes[job.uid] += 1
        if change.plural in api_fields.JOBS and change.after:
            self._statuses[job.uid] += 1
            size = len(json.dumps(api_fields.status(change.after)))
            if size > LARGEST:
                yield Violation("V7", job.title, change.at, f"its status has {size} bytes")

    def asked(self, request: Request) -> None:
        """Record the last requested write, whatever its response; an Event that exists costs nothing."""
        again = request.path.partition("?")[0].endswith("/events") and request.status == CONFLICT
        if request.writes and not again:
            self._last = [request]

    def at_rest(self, since: float) -> Iterator[Violation]:
        """Yield the writes of the operator since then, when nothing else changed."""
        for last in self._last:
            if last.at > since:
                message = f"{last.verb} {last.path}" if isinstance(last, Request) else f"{last.verb} {last.plural}"
                yield Violation(
                    "V7", "the operator", last.at, f"wrote at rest, which began at {since:.3f} s: {message}"
                )

    def close(self, records: Records, faults: int, lives: int, at: float) -> Iterator[Violation]:
        """Compare the writes for each job with its changes."""
        for uid, job in records.jobs.items():
            restarts = int(api_fields.status(job.document).get("restarts", 0))
            allowed = ALWAYS + EACH * (job.others + restarts) + FAULT * faults
            if self._statuses[uid] > allowed:
                message = f"its status was written {self._statuses[uid]} times, {allowed} would have been enough"
                yield Violation("V7", job.title, at, message)
            most = (BURST + (at - job.born) / EVERY + 1) * lives
            for verb in (CREATED, MODIFIED):
                if self._events[uid, verb] > most:
                    message = f"{self._events[uid, verb]} events {verb}, {most:.0f} would have been enough"
                    yield Violation("V7", job.title, at, message)

    def budget(self, records: Records, budgets: dict[str, int], at: float) -> Iterator[Violation]:
        """Compare all writes but Events with the budget of each job, by its uid."""
        for uid, most in budgets.items():
            if self._writes[uid] > most:
                message = f"{self._writes[uid]} writes, {most} would have been enough"
                yield Violation("V7", records.jobs[uid].title, at, message)
