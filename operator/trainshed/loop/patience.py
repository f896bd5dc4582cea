"""Status debounce: how long a status may stay unwritten; counts can be computed from the pods again."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainshed.api.status import Status

from .view import Key

#: Counts change often: they are written after they have not changed for QUIET, and at the latest after LONGEST.
QUIET, LONGEST = timedelta(milliseconds=300), timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class _Unstored:
    since: datetime
    changed: datetime
    content: object


class Patience:
    """Remembers since when each job has an unwritten status, so that one write covers changes of many pods."""

    def __init__(self) -> None:
        self._unstored: dict[Key, _Unstored] = {}

    def until(self, key: Key, stored: Status, wanted: Status, now: datetime) -> datetime | None:
        """Return when `wanted` must replace `stored`; None means now, or that nothing has to be written."""
        if wanted == stored or wanted.must_precede(stored):
            self.forget(key)
            return None
        content = (wanted.tallies, tuple((condition.type, condition.true) for condition in wanted.conditions))
        known = self._unstored.get(key)
        if known is None or known.content != content:
            known = _Unstored(known.since if known else now, now, content)
            self._unstored[key] = known
        # The first status of a job can wait for the next change: usually its pods run soon.
        quiet = QUIET if any(tally.active or tally.done for tally in wanted.tallies.values()) else LONGEST
        due = min(known.changed + quiet, known.since + LONGEST)
        if due > now:
            return due
        self.forget(key)
        return None

    def forget(self, key: Key) -> None:
        """Forget a job without an unwritten status, or a deleted one."""
        self._unstored.pop(key, None)
