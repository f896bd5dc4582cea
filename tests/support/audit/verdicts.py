"""V4: a verdict comes once, is one, and stays; and conditions follow each other as they may."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from . import words
from .change import CREATED, DELETED, USER, Change, Object, Violation
from .ledger import JobFile, Ledger

ANY = {"Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed", "Blocked"}
#: From which state, by the last condition that is true, which others may follow in one write.
MOVES = {
    "": ANY | {""},
    "Created": ANY,
    "Running": ANY,
    "Restarting": ANY - {"Created"},
    "Blocked": ANY,
    "Suspended": {"Suspended", "Created", "Failed"},
    "Succeeded": {"Succeeded"},
    "Failed": {"Failed"},
}
#: States of which a job has one at a time.
EXCLUSIVE = frozenset(("Running", "Restarting", "Suspended", "Succeeded", "Failed"))


class Verdicts:
    """Compares the conditions of each version of a job with those before."""

    def hear(self, change: Change, ledger: Ledger) -> Iterator[Violation]:
        """Look at a version of a job."""
        if change.plural not in words.JOBS or change.verb == DELETED or change.actor == USER:
            return
        assert change.after is not None
        job = ledger.jobs[words.uid(change.after)]
        if job.forged:
            return
        for told in _wrong(change.before if change.verb != CREATED else None, change.after, job):
            yield Violation("V4", job.title, change.at, told)


def _wrong(before: Object | None, after: Object, job: JobFile) -> Iterator[str]:
    true = [str(one.get("type")) for one in _conditions(after) if one.get("status") == "True"]
    states = [state for state in true if state in EXCLUSIVE]
    if len(states) > 1:
        yield f"it is {' and '.join(states)} at once"
    if before is None or _conditions(before) == _conditions(after):
        return
    if any(words.condition(before, kind) for kind in words.OVER):
        yield f"its verdict was changed: {_told(before)} became {_told(after)}"
    if not set(true).isdisjoint(words.OVER) and "completionTime" not in words.status(after):
        yield "it has a verdict and no completionTime"
    was = next((str(one["type"]) for one in reversed(_conditions(before)) if one.get("status") == "True"), "")
    now = true[-1] if true else ""
    if now not in MOVES.get(was, ANY):
        yield f"{was or 'nothing'} was followed by {now or 'nothing'}"


def _conditions(job: Object) -> list[dict[str, Any]]:
    return list(words.status(job).get("conditions") or ())


def _told(job: Object) -> str:
    return ", ".join(f"{one.get('type')}={one.get('status')}" for one in _conditions(job))
