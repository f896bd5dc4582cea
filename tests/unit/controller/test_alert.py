"""Only internal errors fire the alert `TrainshedInternalError`; responses of the API server do not."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from support.virtual_time import in_virtual_time, now
from trainshed.api.job import JobKey
from trainshed.client import (
    AdmissionDenied,
    Altered,
    ApiError,
    Conflict,
    Forbidden,
    Gone,
    Invalid,
    LabelRemoved,
    NameConflict,
    NotFound,
    NotLeader,
    PreviousJobTerminating,
    Reverted,
    StatusRejected,
    StatusReverted,
    TooLarge,
    TooManyRequests,
    Unavailable,
)
from trainshed.client.transport import AlreadyExists
from trainshed.controller.metrics import Metrics
from trainshed.controller.reconciler import Result
from trainshed.controller.workqueue import Worker, WorkQueue

ALERTS = yaml.safe_load((Path(__file__).parents[3] / "charts" / "trainshed" / "files" / "alerts.yaml").read_text())
(RULE,) = (rule["expr"] for rule in ALERTS if rule["alert"] == "TrainshedInternalError")
ANSWERS = (
    StatusReverted,
    *(Conflict, AlreadyExists, NotFound, NameConflict, LabelRemoved, Forbidden, Invalid, StatusRejected),
    *(Gone, TooManyRequests, NotLeader, PreviousJobTerminating, Unavailable, TooLarge, Altered, Reverted, ApiError),
    AdmissionDenied,
)


class FakeReconciler:
    """A reconciler whose every reconcile has this outcome."""

    def __init__(self, end: Callable[[], Result]) -> None:
        self._end = end

    async def reconcile(self, _key: JobKey, _now: datetime) -> Result:
        return self._end()


def raised(end: Callable[[], Result]) -> float:
    """Return the increase of the alert's series after reconciles with this outcome."""

    async def story() -> float:
        metrics = Metrics()
        queue = WorkQueue(metrics.observe_queue_time)
        worker = asyncio.create_task(Worker(queue, {"": FakeReconciler(end)}, metrics, lambda: True, now).run())
        queue.add(JobKey("ml", "TFJob", "a"))
        await asyncio.sleep(30)
        worker.cancel()
        return matched(metrics)

    return in_virtual_time(story())


def matched(metrics: Metrics) -> float:
    """Return the sum of the series that match the alert's label selector."""
    name, selector = re.search(r"(trainshed_\w+)(?:\{([^}]*)\})?\[", RULE).groups()
    label, unlike = re.fullmatch(r'(\w+)!~"([^"]*)"', selector).groups() if selector else ("", "")
    samples = [sample for family in metrics.registry.collect() for sample in family.samples if sample.name == name]
    assert samples or selector, f"{name} is not served"
    return sum(one.value for one in samples if not (label and re.fullmatch(unlike, one.labels[label])))


@pytest.mark.parametrize("answer", ANSWERS)
def test_api_server_errors_do_not_fire_the_alert(answer: type[ApiError]):
    assert raised(lambda: Result(error=answer("no"))) == 0


@pytest.mark.parametrize("error", [ZeroDivisionError(), KeyError("metadata"), RecursionError(), Conflict("not caught")])
def test_an_internal_error_fires_the_alert(error: Exception):
    def end() -> Result:
        raise error

    assert raised(end) >= 1


def test_all_api_errors_are_covered():
    def below(kind: type[ApiError]) -> set[type[ApiError]]:
        return {kind}.union(*(below(one) for one in kind.__subclasses__()))

    assert {one for one in below(ApiError) if one.__module__.startswith("trainshed.")} == set(ANSWERS)
