"""The last report of a training in the status of a job, and how often such reports are stored."""

from __future__ import annotations

from datetime import datetime, timedelta

import msgspec

#: The age of a stored report of a training from which the next one is stored, which may come every few seconds: if a
#: table shows the difference, and otherwise.
REPORT_INTERVAL, SAME_REPORT_INTERVAL = timedelta(seconds=15), timedelta(seconds=60)
#: Names and values of what a training measures.
Metrics = tuple[tuple[str, str], ...]


class TrainerStatus(msgspec.Struct, frozen=True):
    """The last report of a training: None or empty is what it does not say. `training.py` makes it.

    `updated` is when the operator got it, by its own clock. `percentage` is from 0 to 100. `first_step` is what this
    run of the program reported first, and `began` when that was. The run before it had come to `left_step`, at the time
    `left`, if this process has heard that. None of the four is stored.
    """

    updated: datetime
    percentage: int | None = None
    remaining_seconds: int | None = None
    metrics: Metrics = ()
    step: int | None = None
    total_steps: int | None = None
    epoch: float | None = None
    steps_per_second: float | None = None
    first_step: int | None = None
    began: datetime | None = None
    left_step: int | None = None
    left: datetime | None = None

    @property
    def column(self) -> str:
        """What a table shows: `52%, 8m left`, and less if less is known."""
        done = f"{self.percentage}%" if self.percentage is not None else ""
        done = done or (f"step {self.step}" if self.step is not None else "")
        return f"{done}, {left} left" if done and (left := self._left) else done

    @property
    def stored(self) -> TrainerStatus:
        """The same without what is not stored."""
        return msgspec.structs.replace(self, first_step=None, began=None, left_step=None, left=None)

    def differs(self, known: TrainerStatus | None) -> bool:
        """Return whether this report says something else than the `known` one, which is older, besides times."""
        return known is None or (
            self.updated >= known.updated and self._content(self.updated) != known._content(self.updated)  # noqa: SLF001 - of the same class
        )

    def interval(self, known: TrainerStatus) -> timedelta:
        """Return the age of `known`, which is stored, from which this report is stored: the longer one if none sees it.

        A training that has gone back is seen: that counts as lost work.
        """
        back = self.step is not None and known.step is not None and self.step < known.step
        seen = back or (self.percentage, self._left) != (known.percentage, known._left)
        return REPORT_INTERVAL if seen else SAME_REPORT_INTERVAL

    @property
    def _left(self) -> str:
        return _rough(self.remaining_seconds) if self.remaining_seconds else ""

    def _content(self, time: datetime) -> TrainerStatus:
        return msgspec.structs.replace(self.stored, updated=time, remaining_seconds=None, steps_per_second=None)


def _rough(seconds: int) -> str:
    """Return a duration in its largest unit, rounded to it: `8m`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f}{unit}"
    return f"{seconds}s"
