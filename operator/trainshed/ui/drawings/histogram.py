"""When the runs of a prediction end: a histogram, as an SVG file of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape

import msgspec

from trainshed.views.durations import rounded

from .axis import MOST_TICKS, STEPS, share
from .markup import Markup, tag

#: The size of the drawing, and of the room for the bars in it.
WIDTH, HEIGHT = 880, 320
LEFT, RIGHT, TOP, BOTTOM = 24, 24, 96, 264
BARS = 48
#: The colours of the page, for light and dark surroundings.
STYLE = """
svg { --text: #1b1f24; --quiet: #59636e; --line: #dfe3e8; --fill: #4c92f0; --ground: #ffffff; }
@media (prefers-color-scheme: dark) {
  svg { --text: #e4e8ed; --quiet: #9aa5b1; --line: #2b333d; --fill: #3f86e6; --ground: #0f1318; }
}
text { font: 13px system-ui, sans-serif; fill: var(--text); }
.ground { fill: var(--ground); }
.title { font-size: 16px; font-weight: 600; }
.quiet { fill: var(--quiet); }
.bar { fill: var(--fill); }
.axis, .grid { stroke: var(--line); }
.mark { stroke: var(--text); stroke-width: 1.5; stroke-dasharray: 4 3; }
"""


class TimeMark(msgspec.Struct, frozen=True):
    """A time that is marked, and what it is."""

    seconds: float
    name: str


def draw(title: str, note: str, seconds: Sequence[float], marks: Sequence[TimeMark]) -> str:
    """Return the drawing of times in ascending order; without one only the title and the note."""
    parts = [
        tag("rect", {"class": "ground", "width": WIDTH, "height": HEIGHT}),
        _words((LEFT, 28), title, "title", "start"),
        _words((LEFT, 50), note, "quiet", "start"),
    ]
    if seconds:
        shown = (*seconds, *(mark.seconds for mark in marks))
        low, high = min(shown), max(shown)
        room = max(1.0, (high - low) * 0.04)
        low, high = max(0.0, low - room), high + room
        parts += [*_axis(low, high), *_bars(seconds, low, high), *_marks(marks, low, high)]
    style = f"<style>{STYLE}</style>"
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(title)}">'
    return "\n".join((head, style, *parts, "</svg>\n"))


def _place(value: float, low: float, high: float) -> float:
    return round(LEFT + (WIDTH - LEFT - RIGHT) * share(value, low, high), 1)


def _axis(low: float, high: float) -> Iterator[Markup]:
    """Yield the line below the bars, with round times."""
    step = next((each for each in STEPS if (high - low) / each <= MOST_TICKS), 0)
    step = step or STEPS[-1] * (int((high - low) / STEPS[-1] / MOST_TICKS) + 1)
    for number in range(-int(-low // step), int(high // step) + 1):
        x = _place(number * step, low, high)
        yield tag("line", {"class": "grid", "x1": x, "x2": x, "y1": TOP, "y2": BOTTOM})
        yield _words((x, BOTTOM + 20), rounded(number * step), "quiet")
    yield tag("line", {"class": "axis", "x1": LEFT, "x2": WIDTH - RIGHT, "y1": BOTTOM, "y2": BOTTOM})
    yield _words((WIDTH / 2, BOTTOM + 44), "time from the creation of the job to its success", "quiet")


def _bars(seconds: Sequence[float], low: float, high: float) -> Iterator[Markup]:
    counts = [0] * BARS
    for value in seconds:
        counts[min(BARS - 1, int(BARS * share(value, low, high)))] += 1
    width = (WIDTH - LEFT - RIGHT) / BARS
    for number, count in enumerate(counts):
        height = round((BOTTOM - TOP) * count / max(counts), 1)
        if count:
            place = {"x": round(LEFT + number * width, 1), "y": BOTTOM - height, "width": round(width - 1, 1)}
            yield tag("rect", {"class": "bar", **place, "height": height})


def _marks(marks: Sequence[TimeMark], low: float, high: float) -> Iterator[Markup]:
    """Yield the marks with their names, each in one of two rows so that neighbours do not meet."""
    for number, mark in enumerate(sorted(marks, key=lambda one: one.seconds)):
        x, y = _place(mark.seconds, low, high), TOP - 24 + 16 * (number % 2)
        yield tag("line", {"class": "mark", "x1": x, "x2": x, "y1": y + 4, "y2": BOTTOM})
        anchor = "start" if x < WIDTH / 4 else "end" if x > WIDTH * 3 / 4 else "middle"
        yield _words((x, y), f"{mark.name} {rounded(mark.seconds)}", "", anchor)


def _words(at: tuple[float, float], text: str, css_class: str, anchor: str = "middle") -> Markup:
    kind = {"class": css_class} if css_class else {}
    return tag("text", {**kind, "x": at[0], "y": at[1], "text-anchor": anchor}, Markup(escape(text)))
