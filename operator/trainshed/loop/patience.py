"""How long a status may stay unstored: counts change often, and can be told again by looking at the pods."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from trainshed.api.status import Status

from .view import Key

#: A job's counts are stored once they have been quiet for so long, and after so long at the latest.
QUIET, LONGEST = timedelta(milliseconds=300), timedelta(seconds=2)


@dataclass(frozen=True, slots=True)
class _Unstored:
    since: datetime
    changed: datetime
    says: object


class Patience:
    """Remembers since when which job has something to store. One write then tells of many pods."""

    def __init__(self) -> None:
        self._unstored: dict[Key, _Unstored] = {}

    def until(self, key: Key, stored: Status, wanted: Status, now: datetime) -> datetime | None:
        """When `wanted` is to be stored in the place of `stored`; None means now, or that there is nothing to store."""
        if wanted == stored or wanted.must_precede(stored):
            self.forget(key)
            return None
        says = (wanted.tallies, tuple((condition.type, condition.true) for condition in wanted.conditions))
        known = self._unstored.get(key)
        if known is None or known.says != says:
            known = _Unstored(known.since if known else now, now, says)
            self._unstored[key] = known
        # That a job is there is news that can wait for the next: mostly its pods will run in a moment.
        quiet = QUIET if any(tally.active or tally.done for tally in wanted.tallies.values()) else LONGEST
        due = min(known.changed + quiet, known.since + LONGEST)
        if due > now:
            return due
        self.forget(key)
        return None

    def forget(self, key: Key) -> None:
        """The job has nothing unstored, or is gone."""
        self._unstored.pop(key, None)
