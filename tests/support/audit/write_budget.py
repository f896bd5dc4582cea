"""V7: the operator writes as often as something happens, never more, and nothing at rest; and nothing grows."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator

from . import words
from .change import CREATED, MODIFIED, OPERATOR, Change, Request, Violation
from .ledger import Ledger

#: Bytes of a status at the most, whatever the size of its job.
LARGEST = 16 * 1024
CONFLICT = 409
#: Events of a job in one life of the operator, and raised counts of them: so many at once, and one more every so many
#: seconds.
BURST, EVERY = 25, 300.0
#: Status writes that a job may cost anyhow, for each thing that happens to it, and for each fault.
ALWAYS, EACH, FAULT = 6, 2, 4


class Thrift:
    """Counts what the operator writes, by the uid of the job that it is about."""

    def __init__(self) -> None:
        self._statuses: Counter[str] = Counter()
        self._events: Counter[tuple[str, str]] = Counter()
        self._writes: Counter[str] = Counter()
        self._last: list[Request | Change] = []

    def hear(self, change: Change, ledger: Ledger) -> Iterator[Violation]:
        """Count a write of the operator, and weigh a status."""
        if change.actor != OPERATOR or change.plural == "leases":
            return
        self._last = [change]
        if change.plural == "events":
            self._events[str((change.object.get("involvedObject") or {}).get("uid", "")), change.verb] += 1
            return
        job = ledger.jobs.get(words.uid(change.object) if change.plural in words.JOBS else words.owner(change.object))
        if job is None:
            return
        self._writes[job.uid] += 1
        if change.plural in words.JOBS and change.after:
            self._statuses[job.uid] += 1
            size = len(json.dumps(words.status(change.after)))
            if size > LARGEST:
                yield Violation("V7", job.title, change.at, f"its status has {size} bytes")

    def asked(self, request: Request) -> None:
        """Remember the last write that was asked for, whatever came of it; but an event that is there costs nothing."""
        again = request.path.partition("?")[0].endswith("/events") and request.status == CONFLICT
        if request.writes and not again:
            self._last = [request]

    def at_rest(self, since: float) -> Iterator[Violation]:
        """Whether the operator has written anything since then, when nothing had happened any more."""
        for last in self._last:
            if last.at > since:
                told = f"{last.verb} {last.path}" if isinstance(last, Request) else f"{last.verb} {last.plural}"
                yield Violation("V7", "the operator", last.at, f"wrote at rest, which began at {since:.3f} s: {told}")

    def close(self, ledger: Ledger, faults: int, lives: int, at: float) -> Iterator[Violation]:
        """Compare what was written about each job with what happened to it."""
        for uid, job in ledger.jobs.items():
            restarts = int(words.status(job.document).get("restarts", 0))
            allowed = ALWAYS + EACH * (job.others + restarts) + FAULT * faults
            if self._statuses[uid] > allowed:
                told = f"its status was written {self._statuses[uid]} times, {allowed} would have been enough"
                yield Violation("V7", job.title, at, told)
            most = (BURST + (at - job.born) / EVERY + 1) * lives
            for verb in (CREATED, MODIFIED):
                if self._events[uid, verb] > most:
                    told = f"{self._events[uid, verb]} events {verb}, {most:.0f} would have been enough"
                    yield Violation("V7", job.title, at, told)

    def budget(self, ledger: Ledger, budgets: dict[str, int], at: float) -> Iterator[Violation]:
        """Compare all writes but events with what each job may cost, by its uid."""
        for uid, most in budgets.items():
            if self._writes[uid] > most:
                told = f"{self._writes[uid]} writes, {most} would have been enough"
                yield Violation("V7", ledger.jobs[uid].title, at, told)
