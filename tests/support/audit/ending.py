"""V8 and V9: it ends in time, and as it would have ended had nothing gone wrong."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from . import words
from .change import CREATED, OPERATOR, Change, Violation
from .ledger import Ledger

#: Seconds within which all must be quiet once nothing goes wrong any more, besides a back-off that is in force.
IN_TIME = 30.0
#: What of an object differs from one run to the next.
MOVING = ("uid", "resourceVersion", "creationTimestamp", "deletionTimestamp", "generation", "managedFields")
#: What of a status does: times, what is counted by the way, and who failed when.
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

Portrait = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Ending:
    """What the driver knows at the end, at `at`.

    `lifted` is when the last fault was lifted and `quiet` when the last thing happened after that; None leaves the time
    unasked. `patience` are the seconds of the longest back-off in force. `injected` gives the countable failures, at
    least and at most, by the uid of the job; `reference` is the portrait of a run without faults.
    """

    at: float
    lifted: float | None = None
    quiet: float | None = None
    patience: float = 0.0
    faults: int = 0
    lives: int = 1
    injected: Mapping[str, tuple[int, int]] | None = None
    budgets: Mapping[str, int] | None = None
    reference: Portrait | None = None


class Counts:
    """How often the operator has made and deleted each object, by plural, namespace and name."""

    def __init__(self) -> None:
        self._made: Counter[str] = Counter()
        self._deleted: Counter[str] = Counter()

    def hear(self, change: Change, _ledger: Ledger) -> Iterator[Violation]:
        """Count."""
        if change.actor == OPERATOR and change.plural not in words.EXEMPT:
            name = words.title(change.plural, change.object)
            self._made[name] += change.verb == CREATED
            self._deleted[name] += change.vanishing
        yield from ()

    def portrait(self, ledger: Ledger) -> Portrait:
        """All that is there, but for what differs from run to run, and how often each object was made and deleted."""
        there = {
            words.title(plural, found): _masked(found)
            for (plural, _, _), found in sorted(ledger.objects.items())
            if plural not in words.EXEMPT
        }
        made = {f"{name}, made": count for name, count in sorted(self._made.items()) if count}
        gone = {f"{name}, deleted": count for name, count in sorted(self._deleted.items()) if count}
        return there | made | gone

    def close(self, ledger: Ledger, ending: Ending) -> Iterator[Violation]:
        """Compare the times with what is promised, and the end with the reference."""
        if ending.lifted is not None and ending.quiet is not None:
            took, allowed = ending.quiet - ending.lifted, IN_TIME + ending.patience
            if took > allowed:
                told = f"{took:.1f} s after the last fault something was still going on; {allowed:.0f} s are promised"
                yield Violation("V8", "the cluster", ending.at, told)
        for about, told in differences(ending.reference, self.portrait(ledger)) if ending.reference else ():
            yield Violation("V9", about, ending.at, told)


def differences(reference: Portrait, found: Portrait) -> Iterator[tuple[str, str]]:
    """About whom two portraits differ, and how."""
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
