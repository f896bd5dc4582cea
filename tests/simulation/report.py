"""What came of a schedule: the promises that were broken, the figures, and all that happened as lines."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from support.audit import words
from support.audit.change import Change, Request, Violation


@dataclass(frozen=True, slots=True)
class Report:
    """What came of a schedule; `counts` are named `faults/...` and `steps/...`, the rest are sums of the run."""

    violations: tuple[Violation, ...]
    counts: Counter[str]
    heard: tuple[Change, ...]
    asked: tuple[Request, ...]

    @property
    def trace(self) -> list[str]:
        """All that happened, a line each, in order."""
        changes = ((one.at, 0, _changed(one)) for one in self.heard)
        requests = ((one.at, 1, f"  asked {one.verb} {one.path}: {one.status}") for one in self.asked)
        told = sorted((*changes, *requests), key=lambda one: one[:2])
        return [f"{at - self.heard[0].at:9.3f} {line}" for at, _, line in told]


def _changed(change: Change) -> str:
    meta = words.meta(change.object)
    told = f"{change.actor or '?'} {change.verb} {words.title(change.plural, change.object)}"
    if change.plural in words.JOBS:
        status = words.status(change.object)
        true = [one["type"] for one in status.get("conditions") or () if one.get("status") == "True"]
        rest = {key: status[key] for key in ("restarts", "attempts", "podsPendingReplacement") if status.get(key)}
        return f"{told} {' '.join(true)} {rest or ''}{' leaving' if 'deletionTimestamp' in meta else ''}"
    if change.plural == "pods":
        leaving = " leaving" if "deletionTimestamp" in meta else ""
        return f"{told} {words.phase(change.object)}{leaving} attempt {words.attempt(change.object)}"
    if change.plural == "events":
        return f"{told} {change.object.get('reason')}: {change.object.get('message')}"
    return told
