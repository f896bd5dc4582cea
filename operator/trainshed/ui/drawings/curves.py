"""Curves of what a training reports: drawn here as SVG, and given as JSON to the program that draws them larger."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime

import msgspec
from htpy import (
    Element,
    caption,
    details,
    div,
    figcaption,
    figure,
    line,
    polyline,
    span,
    summary,
    svg,
    table,
    tbody,
    td,
    text,
    th,
    thead,
    time,
    tr,
)

from trainshed.api.foreign_text import one_line
from trainshed.api.training import NO_MEASURE
from trainshed.ui.model import Sample

from .axis import Scale, share

#: The most curves of a page, rows of a table and characters of a name.
MOST_CURVES, MOST_TABLE, MOST_NAME = 8, 60, 64
#: The size of a drawing in its own units; its width is stretched.
WIDTH, HEIGHT = 1000, 120
#: The name of the curve of steps.
STEPS = "step"


class MetricCurve(msgspec.Struct, frozen=True):
    """A metric over time."""

    name: str
    points: tuple[tuple[datetime, float], ...]

    @property
    def low(self) -> float:
        """The least value."""
        return min(value for _, value in self.points)

    @property
    def high(self) -> float:
        """The greatest value."""
        return max(value for _, value in self.points)


def curves(samples: Sequence[Sample]) -> list[MetricCurve]:
    """Return the curves of what was reported, the steps first; those with one point only are none."""
    steps = [(one.time, float(one.step)) for one in samples if one.step is not None]
    found: dict[str, list[tuple[datetime, float]]] = {STEPS: steps} if steps else {}
    for one in samples:
        for name, value in one.metrics:
            if name not in NO_MEASURE:
                found.setdefault(one_line(name, MOST_NAME), []).append((one.time, value))
    kept = [MetricCurve(name, tuple(points)) for name, points in found.items() if len(points) > 1]
    return kept[:MOST_CURVES]


def draw(curve: MetricCurve) -> Element:
    """Return one curve as a figure; the page replaces its drawing by a larger one with values where the pointer is."""
    scale = Scale(curve.points[0][0], curve.points[-1][0])
    data = json.dumps(
        {
            "name": curve.name,
            "x": [int(at.timestamp()) for at, _ in curve.points],
            "y": [value for _, value in curve.points],
        }
    )
    last, label = curve.points[-1][1], f"{curve.name} from {curve.points[0][1]:.4g} to {curve.points[-1][1]:.4g}"
    return figure(".curve", data_curve=data)[
        figcaption[span(".curve-name")[curve.name], span(".curve-value")[f"{last:.6g}"]],
        div(".curve-plot")[
            svg(viewBox=f"0 0 {WIDTH} {HEIGHT}", preserveAspectRatio="none", role="img", aria_label=label)[
                line(class_="grid", x1=0, x2=WIDTH, y1=HEIGHT - 1, y2=HEIGHT - 1),
                polyline(class_="curve-line", points=_points(curve, scale)),
            ],
            svg(".curve-range", width="100%", height=HEIGHT, aria_hidden="true")[
                text(class_="tick", x=4, y=12)[f"{curve.high:.4g}"],
                text(class_="tick", x=4, y=HEIGHT - 6)[f"{curve.low:.4g}"],
            ],
        ],
        span(".curve-times")[_clock(curve.points[0][0]), _clock(curve.points[-1][0])],
    ]


def _clock(at: datetime) -> Element:
    return time(datetime=f"{at:%Y-%m-%dT%H:%M:%SZ}")[f"{at:%H:%M:%S}"]


def _points(curve: MetricCurve, scale: Scale) -> str:
    low, high, room = curve.low, curve.high, HEIGHT - 4
    shares = (share(value, low, high) if high > low else 0.5 for _, value in curve.points)
    return " ".join(
        f"{scale.at(at) * WIDTH / 100:.2f},{2 + room * (1 - part):.2f}"
        for (at, _), part in zip(curve.points, shares, strict=True)
    )


def values(samples: Sequence[Sample]) -> Element:
    """Return the last reports as a table, the newest first."""
    names = list(dict.fromkeys(name for one in samples for name, _ in one.metrics if name not in NO_MEASURE))
    shown = [one_line(name, MOST_NAME) for name in names[:MOST_CURVES]]
    return details(".values")[
        summary["Reports as a table"],
        table[
            caption(".unseen")["What the training has reported, the newest first"],
            thead[
                tr[
                    th(scope="col")["Time (UTC)"],
                    (th(".number", scope="col")[name] for name in ("step", "%", *shown)),
                ]
            ],
            tbody[(_row(one, names[:MOST_CURVES]) for one in reversed(samples[-MOST_TABLE:]))],
        ],
    ]


def _row(one: Sample, names: Sequence[str]) -> Element:
    return tr[th(scope="row")[_clock(one.time)], (td(".number")[text] for text in _cells(one, names))]


def _cells(one: Sample, names: Sequence[str]) -> Iterator[str]:
    known = dict(one.metrics)
    yield "" if one.step is None else str(one.step)
    yield "" if one.percentage is None else str(one.percentage)
    yield from (f"{known[name]:.6g}" if name in known else "" for name in names)
