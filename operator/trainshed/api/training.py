"""What a training says of its progress, in the shape of Trainer's `trainerStatus`, fit to be stored and shown."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import pairwise
from typing import Any

from .coerce import (
    LARGEST,
    as_mapping,
    as_sequence,
    format_time,
    parse_text,
    parse_time,
    text_size,
    truncate_end,
    without_none,
)
from .foreign_text import one_line
from .trainer_status import Metrics, TrainerStatus

#: The most metrics that are kept, the most bytes of a name and of a value, and of all of them in the status.
MAX_METRICS, MAX_METRIC_BYTES, MAX_METRICS_BYTES = 32, 64, 2_600
#: The bytes of a metric besides these two.
METRIC_BYTES = len('{"name":"","value":""},')
#: The characters of a name or a value that are looked at.
LONGEST = 1_024
#: Metrics with which clients of Trainer report what its status has no field for, the first one first.
STEP, TOTAL, EPOCH = ("current_step", "global_step", "step"), ("total_steps", "max_steps"), ("current_epoch", "epoch")
#: All of these: they say how far a training is, and not how good.
NO_MEASURE = frozenset((*STEP, *TOTAL, *EPOCH))
#: The significant digits of numbers that are measured.
DIGITS = 4
#: An interval between two steps that is as much longer than all others, and has so many seconds, is a pause that says
#: nothing about the pace, such as a hang that ended by itself; one that comes again, such as an evaluation, is no such.
PAUSE_RATIO, PAUSE_SECONDS = 5.0, 30.0
#: With fewer intervals a pause cannot be distinguished from a slow training.
FEWEST_INTERVALS = 3


def document(report: TrainerStatus) -> dict[str, Any]:
    """Return a report as the status has it."""
    found = {
        "progressPercentage": report.percentage,
        "estimatedRemainingSeconds": report.remaining_seconds,
        "metrics": [{"name": name, "value": value} for name, value in report.metrics] or None,
        "lastUpdatedTime": format_time(report.updated),
        "step": report.step,
        "totalSteps": report.total_steps,
        "epoch": report.epoch,
        "stepsPerSecond": report.steps_per_second,
    }
    return without_none(found)


def trainer_status(updated: datetime, metrics: Iterable[tuple[object, object]] = (), **found: object) -> TrainerStatus:
    """Return a report of what others have written; what has another type or is out of range is left out.

    `found` are the other fields. A percentage that is not given follows from step and total.
    """
    step, total = _whole(found.get("step")), _whole(found.get("total_steps"))
    percentage = _whole(found.get("percentage"))
    if percentage is None and step is not None and total:
        percentage = step * 100 // total
    return TrainerStatus(
        updated=updated,
        percentage=None if percentage is None else min(percentage, 100),
        remaining_seconds=_whole(found.get("remaining_seconds")),
        metrics=_metrics(metrics),
        step=step,
        total_steps=total,
        epoch=_number(found.get("epoch")),
        steps_per_second=_number(found.get("steps_per_second")),
    )


def parse_report(document: object, updated: datetime) -> TrainerStatus | None:
    """Return what a document in the shape of `trainerStatus` says, None if that is nothing.

    What it has no field for may be among the metrics.
    """
    found = as_mapping(document)
    items = [as_mapping(item) for item in as_sequence(found.get("metrics"))]
    metrics = [(item.get("name"), item.get("value")) for item in items]
    values = {parse_text(name): value for name, value in reversed(metrics)}
    report = trainer_status(
        updated,
        metrics,
        percentage=found.get("progressPercentage"),
        remaining_seconds=found.get("estimatedRemainingSeconds"),
        step=_first(found.get("step"), values, STEP),
        total_steps=_first(found.get("totalSteps"), values, TOTAL),
        epoch=_first(found.get("epoch"), values, EPOCH),
        steps_per_second=found.get("stepsPerSecond"),
    )
    return None if report == TrainerStatus(updated) else report


def parse_stored(document: object) -> TrainerStatus | None:
    """Return the report that a status has; None without its time."""
    updated = parse_time(as_mapping(document).get("lastUpdatedTime"))
    return parse_report(document, updated) if updated else None


def measure(text: str) -> float | None:
    """Return the number that a metric is, of any sign and with all its digits; None if it is no finite one."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def main_metric(names: Iterable[str]) -> str:
    """Return which of the names of metrics tells most about a training: a loss, else the first; empty without one.

    What says how far it is, and not how good, is none.
    """
    found = [name for name in names if name not in NO_MEASURE]
    return next((name for name in found if "loss" in name.lower()), found[0] if found else "")


def pace(steps: Sequence[tuple[float, int]]) -> float | None:
    """Return the steps a second of steps with their times in seconds, both ascending; None as long as nothing follows.

    A single pause that is much longer than all other intervals is left out, with its steps.
    """
    intervals = [(now - then, step - before) for (then, before), (now, step) in pairwise(steps)]
    if len(intervals) >= FEWEST_INTERVALS:
        *others, longest = sorted(intervals)
        if longest[0] >= max(PAUSE_SECONDS, PAUSE_RATIO * others[-1][0]) and others[-1][0]:
            intervals = others
    seconds = sum(seconds for seconds, _ in intervals)
    return sum(done for _, done in intervals) / seconds if seconds > 0 else None


def _first(own: object, metrics: Mapping[str, object], names: Iterable[str]) -> object:
    """Return a value of its own field, or of the first metric that has it."""
    return next((value for value in (own, *map(metrics.get, names)) if _number(value) is not None), None)


def _metrics(found: Iterable[tuple[object, object]]) -> Metrics:
    """Return those that have a name and a value, as far as they fit; of each name the last value."""
    kept: dict[str, str] = {}
    room = MAX_METRICS_BYTES
    for name, value in dict(_texts(found)).items():
        room -= METRIC_BYTES + text_size(name) + text_size(value)
        if room < 0 or len(kept) == MAX_METRICS:
            break
        kept[name] = value
    return tuple(kept.items())


def _texts(found: Iterable[tuple[object, object]]) -> Iterable[tuple[str, str]]:
    for name, value in found:
        given = f"{value:.{DIGITS}g}" if isinstance(value, float) else str(value) if type(value) is int else value
        texts = [truncate_end(one_line(parse_text(text)[:LONGEST]), MAX_METRIC_BYTES) for text in (name, given)]
        if all(texts):
            yield texts[0], texts[1]


def _number(value: object) -> float | None:
    """Return a finite number that is not negative, also from text, with few digits."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        found = float(value if not isinstance(value, str) else value[:MAX_METRIC_BYTES])
    except (ValueError, OverflowError):
        return None
    return round(min(found, float(LARGEST)), DIGITS) if math.isfinite(found) and found >= 0 else None


def _whole(value: object) -> int | None:
    found = _number(value)
    return None if found is None else int(found)
