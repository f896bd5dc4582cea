"""The axis of time: a scale from times to percentages of the width, and ticks at round times."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import msgspec
from htpy import Element, line, text

#: The steps between ticks in seconds, round as on a clock.
STEPS = (
    *(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800),
    *(3600, 7200, 10_800, 21_600, 43_200, 86_400, 172_800, 604_800),
)
#: The most ticks of an axis, and those that narrow screens show: every second one.
MOST_TICKS = 6
DAY, MINUTE = 86_400, 60
#: Ticks so near to the end, in percent, have their label before them.
NEAR_END = 94.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Scale(msgspec.Struct, frozen=True):
    """The times that a drawing shows, from its left edge to its right one."""

    begin: datetime
    end: datetime

    @property
    def seconds(self) -> float:
        """Its length, never 0."""
        return max(1.0, (self.end - self.begin).total_seconds())

    def at(self, time: datetime) -> float:
        """Return the place of a time in percent of the width, within the drawing."""
        share = (time - self.begin).total_seconds() / self.seconds
        return round(100 * min(1.0, max(0.0, share)), 3)

    def width(self, begin: datetime, end: datetime) -> float:
        """Return the width of a span in percent."""
        return round(self.at(end) - self.at(begin), 3)


def share(value: float, low: float, high: float) -> float:
    """Return where a value is between two others, from 0 to 1, for any numbers; 0 if nothing is between these."""
    extent = high / 2 - low / 2  # of which no difference is infinite
    return min(1.0, max(0.0, (value / 2 - low / 2) / extent)) if extent else 0.0


def ticks(scale: Scale) -> list[datetime]:
    """Return the round times of an axis, in UTC, at most `MOST_TICKS`."""
    step = next((each for each in STEPS if scale.seconds / each <= MOST_TICKS), 0)
    if not step:
        weeks = int(scale.seconds // (MOST_TICKS * STEPS[-1])) + 1
        step = weeks * STEPS[-1]
    first = -(-int((scale.begin - EPOCH).total_seconds()) // step) * step
    last = int((scale.end - EPOCH).total_seconds())
    return [EPOCH + timedelta(seconds=second) for second in range(first, last + 1, step)]


def label(time: datetime, step: float) -> str:
    """Return the label of a tick: the clock, to the second if need be, or the date at midnight."""
    if time.hour == time.minute == time.second == 0:
        return f"{time.day} {time:%b}"
    return f"{time:%H:%M:%S}" if step < MINUTE else f"{time:%H:%M}"


def lines(scale: Scale, height: int) -> Iterator[Element]:
    """Yield the lines of an axis, which are below all that is drawn."""
    for time in ticks(scale):
        place = f"{scale.at(time)}%"
        yield line(class_="grid", x1=place, x2=place, y1=0, y2=height)


def labels(scale: Scale, height: int) -> Iterator[Element]:
    """Yield the labels of an axis of this height; narrow screens leave out every second one."""
    times = ticks(scale)
    step = (times[1] - times[0]).total_seconds() if len(times) > 1 else scale.seconds
    for number, time in enumerate(times):
        place = scale.at(time)
        odd = " odd" if number % 2 else ""
        anchor = "end" if place > NEAR_END else "start" if place < 100 - NEAR_END else "middle"
        yield text(class_=f"tick{odd}", x=f"{place}%", y=height - 8, text_anchor=anchor)[label(time, step)]
