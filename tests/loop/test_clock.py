"""The operator's time goes on evenly, however the machine's clock is set."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from trainshed.loop import clock as module
from trainshed.loop.clock import Clock, uptime


class Machine:
    """Two clocks that the test moves."""

    def __init__(self) -> None:
        self.wall, self.steady = 1_700_000_000.0, 50.0

    def passes(self, seconds: float) -> None:
        self.wall += seconds
        self.steady += seconds

    def clock(self) -> Clock:
        return Clock(lambda: self.wall, lambda: self.steady)


def test_it_begins_with_the_time_of_day_and_goes_on():
    machine = Machine()
    clock = machine.clock()
    began = clock.now()
    assert began == datetime.fromtimestamp(machine.wall, UTC)
    machine.passes(90.5)
    assert clock.now() - began == timedelta(seconds=90.5)
    assert clock.skew() == pytest.approx(0)


@pytest.mark.parametrize("leap", [3600.0, -3600.0])
def test_a_leap_of_the_wall_clock_moves_no_time_and_is_measured(leap):
    machine = Machine()
    clock = machine.clock()
    before = clock.now()
    machine.wall += leap
    assert clock.now() == before
    machine.passes(10)
    assert clock.now() - before == timedelta(seconds=10)
    assert clock.skew() == pytest.approx(leap)
    assert machine.clock().now() - before == timedelta(seconds=leap + 10), "the next start believes the wall"


def test_without_being_told_otherwise_it_is_the_machines():
    assert abs(Clock().now().timestamp() - time.time()) < 1
    assert abs(Clock().skew()) < 0.1


def test_the_time_that_a_machine_slept_counts_where_it_can_be_known(monkeypatch):
    monkeypatch.setattr(module.time, "CLOCK_BOOTTIME", 7, raising=False)
    monkeypatch.setattr(module.time, "clock_gettime", lambda clock: 500.0 if clock == 7 else 100.0)
    assert uptime() == 500
    monkeypatch.delattr(module.time, "CLOCK_BOOTTIME")
    assert abs(uptime() - time.monotonic()) < 1
