"""The operator's clock advances evenly when the wall clock is changed."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from support.virtual_time import clock as virtual
from support.virtual_time import in_virtual_time
from trainshed import process as module
from trainshed.process import COMPARED, LASTING, Clock, uptime


class Machine:
    """Two clocks that the test controls."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_700_000_000.0, 50.0

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.steady)


def test_the_clock_starts_at_wall_time_and_advances():
    machine = Machine()
    clock = machine.clock()
    began = clock.now()
    assert began == datetime.fromtimestamp(machine.wall, UTC)
    machine.passes(90.5)
    assert clock.now() - began == timedelta(seconds=90.5)
    assert clock.skew() == pytest.approx(0)


@pytest.mark.fault("F2")
@pytest.mark.parametrize("leap", [3600.0, -3600.0])
def test_a_step_of_the_wall_clock_is_measured_but_does_not_change_the_time(leap):
    machine = Machine()
    clock = machine.clock()
    before = clock.now()
    machine.wall += leap
    assert clock.now() == before
    machine.passes(10)
    assert clock.now() - before == timedelta(seconds=10)
    assert clock.skew() == pytest.approx(leap)
    assert machine.clock().now() - before == timedelta(seconds=leap + 10), "the next start uses the wall clock"


def test_the_default_sources_are_the_system_clocks():
    assert abs(Clock().now().timestamp() - time.time()) < 1
    assert abs(Clock().skew()) < 0.1


def test_time_asleep_counts_where_the_system_measures_it(monkeypatch):
    monkeypatch.setattr(module.time, "CLOCK_BOOTTIME", 7, raising=False)
    monkeypatch.setattr(module.time, "clock_gettime", lambda clock: 500.0 if clock == 7 else 100.0)
    assert uptime() == 500
    monkeypatch.delattr(module.time, "CLOCK_BOOTTIME")
    assert abs(uptime() - time.monotonic()) < 1


def found_after(*steps: tuple[float, float], within: float = 3600.0) -> tuple[float, float] | None:
    """Return when a lasting step is detected, and its size.

    `steps` are times with the offset of the wall clock from then on.
    """

    async def story() -> tuple[float, float] | None:
        began = virtual()

        def wall() -> float:
            return 1e9 + virtual() + next((by for at, by in reversed(steps) if virtual() - began >= at), 0.0)

        machine = Clock(wall, virtual)
        times = []
        stepped = asyncio.create_task(machine.stepped())
        while not stepped.done() and virtual() - began < within:
            times.append(machine.now())
            await asyncio.sleep(1)
        assert {later - earlier for earlier, later in pairwise(times)} == {timedelta(seconds=1)}, (
            "the time does not jump"
        )
        stepped.cancel()
        return (virtual() - began, stepped.result()) if stepped.done() else None

    return in_virtual_time(story())


@pytest.mark.fault("F2")
@pytest.mark.parametrize("by", [3600.0, -3600.0, 6.0, 56 * 365 * 86_400.0])
def test_a_lasting_step_of_the_wall_clock_is_detected_within_minutes(by):
    when, how = found_after((100, by))
    assert how == pytest.approx(by)
    assert 100 + LASTING <= when <= 100 + LASTING + 2 * COMPARED + 1


def test_a_reverted_step_does_not_count():
    assert found_after((100, 3600), (150, 0), (300, -3600), (340, 0)) is None


def test_a_leap_second_does_not_count_as_a_step():
    assert found_after((100, 1)) is None


def test_only_the_last_of_several_steps_must_last():
    when, how = found_after((100, 3600), (140, 7200))
    assert how == pytest.approx(7200)
    assert when >= 140 + LASTING
