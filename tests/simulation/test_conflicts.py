"""A second writer of a job's status: a conflict costs no noticeable time, conflicts without end few requests."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

import pytest

from simulation.absurd import Tale, job, log
from simulation.faults import Fair, Fate, Passage
from trainshed.client.transport import Request
from trainshed.controller.workqueue import MIN_WAIT

#: Seconds in which the second writer writes all the time.
LONG = 300.0


class Faster(Fair):
    """Lets somebody write a job just before each status that the operator sends, as often as it may."""

    def __init__(self, write: Callable[[], object], times: int) -> None:
        self._write = write
        self.times = times

    def exchange(self, process: str, request: Request) -> Fate:
        if self.times and request.verb == "PATCH" and "jobs/" in request.path and request.path.endswith("/status"):
            self.times -= 1
            self._write()
        return super().exchange(process, request)


def a_second_writer(tale: Tale, times: int) -> Faster:
    """Somebody who is faster than the operator, so often."""
    line = tale.stage.machines[0].line
    assert line is not None
    found = Faster(lambda: tale.write(job("TFJob"), {"status": {"ready": f"{tale.stage.now()}"}}), times)
    line.weather = found
    return found


@pytest.fixture
def tale():
    tale = Tale()
    tale.stage.loop.run_for(5)
    yield tale
    tale.close()


def restarted(tale: Tale) -> bool:
    """Whether the failure of a member is stored."""
    return tale.status().get("restarts") == 1


def test_one_conflict_costs_no_noticeable_time(tale):
    a_second_writer(tale, 1)
    tale.fail("job-worker-1")
    assert tale.stage.loop.run_until(lambda: restarted(tale), 0.1)
    assert [request.status for request in tale.asked if request.verb == "PATCH" and "status" in request.path][-2:] == [
        409,
        200,
    ]


def test_conflicts_without_end_cost_few_requests_and_are_reported(tale):
    writer = a_second_writer(tale, 10**9)
    before = tale.cost()
    with log() as found:
        tale.fail("job-worker-1")
        tale.stage.loop.run_for(LONG)
    assert not restarted(tale)
    assert tale.cost() - before <= 2 * (8 + LONG / (MIN_WAIT * 0.5)) + 10, "a PATCH and a GET after 0.01 ... 0.5 s"
    warnings = [record for record in found.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    writer.times = 0
    assert tale.stage.loop.run_until(lambda: "Succeeded" in tale.states(), 2), "its chief has succeeded meanwhile"


def test_events_of_the_job_do_not_make_the_back_off_shorter(tale):
    a_second_writer(tale, 10**9)
    tale.fail("job-worker-1")
    tale.stage.loop.run_for(30)
    before = tale.cost()
    for number in range(1000):
        tale.write(job("TFJob"), {"status": {"ready": f"{number}"}})
        tale.stage.loop.run_for(0.1)
    assert tale.cost() - before <= 2 * 100 / (MIN_WAIT * 0.5) + 20


def test_a_success_ends_the_back_off(tale):
    writer = a_second_writer(tale, 8)
    tale.fail("job-worker-1")
    assert tale.stage.loop.run_until(lambda: restarted(tale), 5), "0.01 + 0.02 + ... + 0.5 s"
    tale.stage.loop.run_until(lambda: len(tale.stage.server.objects("pods")) == 3, 10)
    tale.stage.loop.run_for(5)
    writer.times = 1
    tale.fail("job-worker-1")
    assert tale.stage.loop.run_until(lambda: tale.status().get("restarts") == 2, 0.1)


class Slow(Fair):
    """A server whose answers and events take 5 ms, more or less."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def exchange(self, process: str, request: Request) -> Fate:
        return Fate(before=self._some(), after=self._some())

    def line(self, process: str, path: str, line: bytes) -> Passage:
        return Passage(delay=self._some())

    def _some(self) -> float:
        return 0.005 * (0.5 + self._random.random())


@pytest.mark.parametrize("seed", range(5))
def test_where_somebody_writes_fifty_times_a_second_a_status_is_stored_soon(tale, seed):
    random, line = Random(seed), tale.stage.machines[0].line
    line.weather = Slow(random)

    def write() -> None:
        tale.write(job("TFJob"), {"status": {"ready": f"{tale.stage.now()}"}})
        tale.stage.later(0.02 * (0.9 + 0.2 * random.random()), write)

    write()
    tale.stage.loop.run_for(1 + random.random())
    tale.fail("job-worker-1")
    assert tale.stage.loop.run_until(lambda: restarted(tale), 2)
