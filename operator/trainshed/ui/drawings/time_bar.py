"""Where the time of a job has gone: one stacked bar, with a legend that has the seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
from htpy import Element, abbr, dd, div, dl, dt, figure, span, svg

from trainshed.api.status import Status
from trainshed.api.time_spent import JobPhase
from trainshed.ui.replica_history import Act
from trainshed.views import lost_time
from trainshed.views.durations import exact, human

from . import patterns
from .markup import Attributes, Markup

#: The phases in the order of the bar: first what is productive, then what is not, then what is no loss.
ORDER = (
    *(JobPhase.RUNNING, JobPhase.PROGRAM_STARTUP, JobPhase.STALLED, JobPhase.RESTART),
    *(JobPhase.SCHEDULING, JobPhase.INIT, JobPhase.IMAGE_PULL, JobPhase.TEARDOWN, JobPhase.QUEUED, JobPhase.SUSPENDED),
)
HEIGHT = 20
#: The place of the swatch of a part in its legend.
KEY: Attributes = {"x": 1, "y": 3, "width": 14, "height": 10}
LOST = "Lost work"


class TimePart(msgspec.Struct, frozen=True):
    """A part of the time of a job; `share` is in percent of all of it, `is_lost` if it is training done again."""

    act: Act
    seconds: int
    share: float
    is_lost: bool = False

    @property
    def name(self) -> str:
        """Its name in the legend."""
        return LOST if self.is_lost else str(self.act)

    def area(self, place: Attributes, text: str = "") -> Markup:
        """Return its area in a drawing."""
        return patterns.lost_area(place, text) if self.is_lost else patterns.area(self.act, place, text)


def parts(status: Status, now: datetime) -> list[TimePart]:
    """Return the parts of the time until now that have a second at least; lost work is no part of Running here."""
    spent = status.time_spent.until(now)
    whole = sum(spent.seconds.values())
    lost = min(spent.lost_work, spent.total(JobPhase.RUNNING))
    found: list[TimePart] = []
    for phase in ORDER:
        seconds = spent.total(phase) - (lost if phase is JobPhase.RUNNING else 0)
        if seconds > 0:
            found.append(TimePart(Act(phase), seconds, round(100 * seconds / whole, 3)))
        if phase is JobPhase.RUNNING and lost:
            found.append(TimePart(Act.RUNNING, lost, round(100 * lost / whole, 3), is_lost=True))
    return found


def draw(status: Status, now: datetime) -> Element | None:
    """Return the bar and its legend; None of a job whose time is not counted."""
    found = parts(status, now)
    if not found:
        return None
    label = "Where the time has gone: " + ", ".join(f"{one.name} {one.share:.0f} %" for one in found)
    return figure(".time-bar")[
        svg(height=HEIGHT, width="100%", role="img", aria_label=label)[_bars(found)],
        dl(".parts")[(_part(one) for one in found)],
        div(".shares")[_shares(status, now)],
    ]


def _bars(found: Sequence[TimePart]) -> Iterator[Markup]:
    at = 0.0
    for one in found:
        place = {"x": f"{at:.3f}%", "width": f"{one.share}%", "height": HEIGHT}
        yield one.area(place, f"{one.name} {exact(one.seconds)}, {one.share:.1f} %")
        at += one.share


def _part(one: TimePart) -> Element:
    swatch = svg(".key", width=16, height=16, aria_hidden="true")[one.area(KEY)]
    means = patterns.LOST_MEANS if one.is_lost else patterns.MEANINGS[one.act]
    return div[
        dt[swatch, " ", abbr(title=means)[one.name]], dd[human(one.seconds), span(".share")[f"{one.share:.1f} %"]]
    ]


def _shares(status: Status, now: datetime) -> str:
    availability, goodput = lost_time.shares(status, now)
    parts = (f"availability {availability}" if availability else "", f"goodput {goodput}" if goodput else "")
    return ", ".join(filter(None, parts))
