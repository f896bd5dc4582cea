"""Writes that succeeded and have to be made again, as another client undoes them: each waits longer than the last."""

from __future__ import annotations

from collections import OrderedDict

import msgspec

#: Seconds of back-off of a write that was undone twice, doubled from one to the next, and the longest. Once is no
#: reason to wait: people delete a Service by mistake.
FIRST, LONGEST = 1.0, 20.0
#: Seconds for which a write is remembered, and how many of all jobs.
KEPT, MOST = 600.0, 20_000


class _Write(msgspec.Struct, frozen=True):
    content: object
    undone: int
    at: float


class UndoneWrites:
    """The last write to each object, and how often in a row it was made again.

    A write is `undone` if the next one to its object is the same: nothing of the operator has changed it in between.
    Times are in seconds; a clock that is set back makes no write wait longer.
    """

    def __init__(self) -> None:
        self._last: OrderedDict[object, _Write] = OrderedDict()

    def wait(self, target: object, content: object, now: float) -> float:
        """Return the seconds for which this write has to wait, at most 0 if it need not."""
        times = self._times(target, content, now)
        if times <= 1:
            return 0.0
        return min(FIRST * float(1 << min(times - 2, 30)), LONGEST) - abs(now - self._last[target].at)

    def wrote(self, target: object, content: object, now: float) -> None:
        """Remember a write that has succeeded."""
        times = self._times(target, content, now)
        self._last.pop(target, None)
        self._last[target] = _Write(content, times, now)
        while len(self._last) > MOST or abs(now - next(iter(self._last.values())).at) > KEPT:
            self._last.popitem(last=False)

    def _times(self, target: object, content: object, now: float) -> int:
        """Return how often this write has been undone in a row, 0 if the last one was another or is forgotten."""
        last = self._last.get(target)
        is_same = last is not None and last.content == content and abs(now - last.at) <= KEPT
        return last.undone + 1 if last and is_same else 0

    def forget(self, target: object) -> None:
        """Forget the writes to an object."""
        self._last.pop(target, None)

    def clear(self) -> None:
        """Forget all writes."""
        self._last.clear()
