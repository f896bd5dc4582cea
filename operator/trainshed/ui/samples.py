"""What trainings reported over time: few numbers of each job, over all of its life."""

from __future__ import annotations

from trainshed.api import training
from trainshed.api.status import Status

from .model import Sample

#: The most samples of a job: when there are more, every second one is dropped, so that they still span all of it.
MOST_SAMPLES = 512


def sample_of(status: Status) -> Sample | None:
    """Return what the last report of a training says in numbers; None without one."""
    report = status.trainer
    if report is None:
        return None
    found = ((name, training.measure(value)) for name, value in report.metrics)
    metrics = tuple((name, value) for name, value in found if value is not None)
    return Sample(report.updated, report.step, report.percentage, metrics)


def with_sample(samples: tuple[Sample, ...], sample: Sample | None) -> tuple[Sample, ...]:
    """Return samples with a further one, if it is newer than the last."""
    if sample is None or (samples and sample.time <= samples[-1].time):
        return samples
    kept = samples if len(samples) < MOST_SAMPLES else samples[::2]
    return (*kept, sample)


def main_metric(samples: tuple[Sample, ...]) -> str:
    """Return the metric that says most about a training; empty without any."""
    return training.main_metric(name for name, _ in samples[-1].metrics) if samples else ""


def values_of(samples: tuple[Sample, ...], name: str) -> list[float]:
    """Return the values of a metric, the newest last."""
    return [value for sample in samples for metric, value in sample.metrics if metric == name]
