"""What trainings reported over time: few numbers of each job, over all of its life."""

from __future__ import annotations

import math

from trainshed.api.status import Status
from trainshed.api.training import EPOCH, STEP, TOTAL

from .model import Sample

#: The most samples of a job: when there are more, every second one is dropped, so that they still span all of it.
MOST_SAMPLES = 512
#: Metrics that say how far a training is, and not how good.
NO_MEASURE = frozenset((*STEP, *TOTAL, *EPOCH))


def sample_of(status: Status) -> Sample | None:
    """Return what the last report of a training says in numbers; None without one."""
    report = status.trainer
    if report is None:
        return None
    found = ((name, _number(value)) for name, value in report.metrics)
    metrics = tuple((name, value) for name, value in found if value is not None)
    return Sample(report.updated, report.step, report.percentage, metrics)


def with_sample(samples: tuple[Sample, ...], sample: Sample | None) -> tuple[Sample, ...]:
    """Return samples with a further one, if it is newer than the last."""
    if sample is None or (samples and sample.time <= samples[-1].time):
        return samples
    kept = samples if len(samples) < MOST_SAMPLES else samples[::2]
    return (*kept, sample)


def main_metric(samples: tuple[Sample, ...]) -> str:
    """Return the metric that says most about a training: its loss, else the first one; empty without any."""
    names = [name for name, _ in samples[-1].metrics if name not in NO_MEASURE] if samples else []
    return next((name for name in names if "loss" in name.lower()), names[0] if names else "")


def values_of(samples: tuple[Sample, ...], name: str) -> list[float]:
    """Return the values of a metric, the newest last."""
    return [value for sample in samples for metric, value in sample.metrics if metric == name]


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
