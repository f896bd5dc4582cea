"""A small part of SVG: boxes, text and arrows, in colours for light and dark pages."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape

STYLE = """<style>
text { font: 14px system-ui, sans-serif; fill: #263238; }
.mono { font: 600 14px ui-monospace, monospace; }
.small { font-size: 12px; fill: #546e7a; }
.box { fill: #e8eaf6; stroke: #3949ab; stroke-width: 1.5; }
.good { fill: #e8f5e9; stroke: #2e7d32; stroke-width: 1.5; }
.bad { fill: #ffebee; stroke: #c62828; stroke-width: 1.5; }
.group { fill: none; stroke: #90a4ae; stroke-width: 1.5; stroke-dasharray: 6 4; }
.arrow { fill: none; stroke: #546e7a; stroke-width: 1.5; marker-end: url(#tip); }
</style>
<defs><marker id="tip" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" markerHeight="7" orient="auto">
<path d="M0 0 L10 5 L0 10 z" fill="#546e7a"/></marker></defs>"""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle, given by its centre and size in pixels."""

    x: float
    y: float
    width: float = 120
    height: float = 40

    @property
    def centre(self) -> tuple[float, float]:
        """The centre."""
        return self.x, self.y

    def edge(self, towards: tuple[float, float]) -> tuple[float, float]:
        """Return the point of the border in the direction of another point."""
        dx, dy = towards[0] - self.x, towards[1] - self.y
        reach = min(
            (half / abs(part) for half, part in ((self.width / 2, dx), (self.height / 2, dy)) if part), default=0.0
        )
        return self.x + dx * reach, self.y + dy * reach

    def drawn(self, style: str = "box") -> str:
        """Return the SVG of the box, with round corners."""
        x, y = self.x - self.width / 2, self.y - self.height / 2
        return f'<rect class="{style}" x="{x:g}" y="{y:g}" width="{self.width:g}" height="{self.height:g}" rx="8"/>'


def words(at: tuple[float, float], text: str, style: str = "", anchor: str = "middle") -> str:
    """Return a line of text, centred at a point or starting there."""
    kind = f' class="{style}"' if style else ""
    return f'<text{kind} x="{at[0]:g}" y="{at[1] + 5:g}" text-anchor="{anchor}">{escape(text)}</text>'


def arrow(start: Box, end: Box, aside: float = 0, bend: float = 0) -> str:
    """Return an arrow between two boxes, `aside` pixels beside the straight line, or bent away from it."""
    dx, dy = end.x - start.x, end.y - start.y
    length = math.hypot(dx, dy)
    right = -dy / length, dx / length
    middle = (start.x + dx / 2 + right[0] * bend, start.y + dy / 2 + right[1] * bend)
    points = (
        (start.edge(middle), middle, end.edge(middle)) if bend else (start.edge(end.centre), end.edge(start.centre))
    )
    moved = [f"{x + right[0] * aside:.0f} {y + right[1] * aside:.0f}" for x, y in points]
    return f'<path class="arrow" d="M{moved[0]} {"Q" if bend else "L"}{" ".join(moved[1:])}"/>'


def picture(size: tuple[int, int], title: str, *parts: str) -> str:
    """Return a complete SVG; screen readers use the title."""
    box = f"0 0 {size[0]} {size[1]}"
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="{box}" role="img" aria-label="{escape(title)}">'
    ground = '<rect width="100%" height="100%" rx="8" fill="#fafafa"/>'
    return "\n".join((head, STYLE, ground, *parts, "</svg>\n"))
