"""The course of a metric in the height of a line of text."""

from __future__ import annotations

from collections.abc import Sequence

from htpy import Element, path, svg

from .axis import share

#: The size of the drawing, the room around the line, and the most points of it.
WIDTH, HEIGHT, EDGE, MOST = 96, 20, 2, 64


def sparkline(values: Sequence[float], label: str) -> Element | None:
    """Return a line through values, the oldest at the left; None for fewer than two."""
    if len(values) < 2:  # noqa: PLR2004 - a line has two ends
        return None
    step = -(-len(values) // MOST)
    shown = [*values[:-1:step], values[-1]]
    low, high = min(shown), max(shown)
    across, room = (WIDTH - 2 * EDGE) / (len(shown) - 1), HEIGHT - 2 * EDGE
    heights = (room * share(value, low, high) for value in shown)
    points = (f"{EDGE + across * at:.1f} {HEIGHT - EDGE - up:.1f}" for at, up in enumerate(heights))
    return svg(
        ".sparkline",
        viewBox=f"0 0 {WIDTH} {HEIGHT}",
        width=str(WIDTH),
        height=str(HEIGHT),
        role="img",
        aria_label=label,
    )[path(d=f"M{'L'.join(points)}")]
