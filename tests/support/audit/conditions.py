"""V4: a job gets one terminal condition, which stays; and conditions follow each other as allowed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from support.status_readers import misreadings

from . import api_fields
from .change import CREATED, DELETED, USER, Change, Object, Violation
from .records import JobRecord, Records

ANY = {"Created", "Running", "Restarting", "Suspended", "Succeeded", "Failed", "Blocked"}
#: From which state, by the last condition that is true, which others may follow in one write.
TRANSITIONS = {
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


class Conditions:
    """Compares the conditions of each version of a job with the earlier versions."""

    def on_change(self, change: Change, records: Records) -> Iterator[Violation]:
        if change.plural not in api_fields.JOBS or change.verb == DELETED or change.actor == USER:
            return
        assert change.after is not None
        job = records.jobs[api_fields.uid(change.after)]
        if job.forged:
            return
        stored = api_fields.status(change.after).get("conditions") or ()
        before = change.before if change.verb != CREATED else None
        for message in (*misreadings(stored), *_wrong(before, change.after, job)):
            yield Violation("V4", job.title, change.at, message)


def _wrong(before: Object | None, after: Object, job: JobRecord) -> Iterator[str]:
    true = _true(after)
    states = [state for state in true if state in EXCLUSIVE]
    if len(states) > 1:
        yield f"it is {' and '.join(states)} at once"
    if before is None or _conditions(before) == _conditions(after):
        return
    yield from _wrong_end(before, after, job)
    if any(api_fields.condition(before, kind) for kind in api_fields.OVER):
        yield f"its terminal condition was changed: {_listed(before)} became {_listed(after)}"
    if not set(true).isdisjoint(api_fields.OVER) and "completionTime" not in api_fields.status(after):
        yield "it has a terminal condition and no completionTime"
    was = next((state for state in reversed(_true(before)) if state in ANY), "")
    now = next((state for state in reversed(true) if state in ANY), "")
    if now not in TRANSITIONS.get(was, ANY):
        yield f"{was or 'nothing'} was followed by {now or 'nothing'}"


def _wrong_end(before: Object, after: Object, job: JobRecord) -> Iterator[str]:
    """Yield what is wrong with the end of a job of a queue: announced, and set when no pod runs any more."""
    for kind, final in zip(api_fields.ENDING, api_fields.OVER, strict=True):
        kept = api_fields.condition(after, kind) or api_fields.condition(after, final)
        if api_fields.condition(before, kind) and not kept:
            yield f"{kind} was followed by {_listed(after)}"
    over = any(api_fields.condition(after, kind) for kind in api_fields.OVER)
    holding = (pod for pod in job.pods.values() if pod.alive and pod.labelled and not pod.never_bound)
    alive = [pod.name for pod in holding if pod.made and pod.born < job.ended]
    if over and api_fields.queued(after) and alive:
        yield f"it is over in its queue while {', '.join(alive)} run"


def _true(job: Object) -> list[str]:
    return [str(one.get("type")) for one in _conditions(job) if one.get("status") == "True"]


def _conditions(job: Object) -> list[dict[str, Any]]:
    return api_fields.conditions(api_fields.status(job))


def _listed(job: Object) -> str:
    return ", ".join(f"{one.get('type')}={one.get('status')}" for one in _conditions(job))
