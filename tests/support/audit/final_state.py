"""V8 and V9: the cluster becomes quiet in time, in the same state as without faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import api_fields
from .change import CREATED, OPERATOR, Change, Violation
from .records import Records

#: Seconds until the cluster must be quiet after the last fault, in addition to a back-off in force.
MAX_TIME_TO_QUIET = 30.0
#: Fields of an object that differ from run to run.
MOVING = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation", "managedFields")
#: Fields of a status that do: times, derived counts, and the last failure.
TIMES = frozenset(
    (
        "startTime",
        "completionTime",
        "lastReconcileTime",
        "lastUpdateTime",
        "lastTransitionTime",
        "time",
        "nextRetryTime",
    )
)
PASSING = frozenset(("podsPendingReplacement", "retry"))

Summary = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class RunEnd:
    """The facts that a run knows at its end, at `at`.

    `lifted` is when the last fault was lifted and `quiet` when the last thing happened after that; None skips the
    check of the time. `longest_back_off` is in seconds, of those in force. `injected` has the countable failures, at
    least and at most, by the uid of the job; `reference` is the summary of a run without faults.
    """

    at: float
    lifted: float | None = None
    quiet: float | None = None
    longest_back_off: float = 0.0
    faults: int = 0
    lives: int = 1
    injected: Mapping[str, tuple[int, int]] | None = None
    budgets: Mapping[str, int] | None = None
    reference: Summary | None = None


class WriteCounts:
    """Counts how often the operator has made and deleted each object, by plural, namespace and name."""

    def __init__(self) -> None:
        self._made: Counter[str] = Counter()
        self._deleted: Counter[str] = Counter()

    def on_change(self, change: Change, _records: Records) -> Iterator[Violation]:
        if change.actor == OPERATOR and change.plural not in api_fields.EXEMPT:
            name = api_fields.title(change.plural, change.object)
            self._made[name] += change.verb == CREATED
            self._deleted[name] += change.requests_deletion
        yield from ()

    def summary(self, records: Records) -> Summary:
        """Return all objects without what differs from run to run, and how often each object was made and deleted."""
        there = {
            api_fields.title(plural, found): _masked(found)
            for (plural, _, _), found in sorted(records.objects.items())
            if plural not in api_fields.EXEMPT
        }
        made = {f"{name}, made": count for name, count in sorted(self._made.items()) if count}
        gone = {f"{name}, deleted": count for name, count in sorted(self._deleted.items()) if count}
        return there | made | gone

    def close(self, records: Records, end: RunEnd) -> Iterator[Violation]:
        """Check the time, and compare the end with the reference."""
        if end.lifted is not None and end.quiet is not None:
            took, allowed = end.quiet - end.lifted, MAX_TIME_TO_QUIET + end.longest_back_off
            if took > allowed:
                message = (
                    f"{took:.1f} s after the last fault something was still going on; {allowed:.0f} s are promised"
                )
                yield Violation("V8", "the cluster", end.at, message)
        for about, message in differences(end.reference, self.summary(records)) if end.reference else ():
            yield Violation("V9", about, end.at, message)


def differences(reference: Summary, found: Summary) -> Iterator[tuple[str, str]]:
    """Yield the objects in which two summaries differ, and how."""
    for name in sorted(reference.keys() | found.keys()):
        was, now = reference.get(name), found.get(name)
        if was != now:
            yield name, f"without faults {was}, with them {now}"


def _masked(found: Mapping[str, Any]) -> Any:
    meta = {key: value for key, value in (found.get("metadata") or {}).items() if key not in MOVING}
    meta["ownerReferences"] = [one.get("name") for one in meta.get("ownerReferences") or ()]
    status = _timeless(found.get("status") or {})
    return {"metadata": meta, "spec": found.get("spec"), "status": status}


def _timeless(found: Any) -> Any:
    if isinstance(found, dict):
        return {key: _timeless(value) for key, value in found.items() if key not in TIMES and key not in PASSING}
    if isinstance(found, list):
        return [_timeless(one) for one in found]
    return found
