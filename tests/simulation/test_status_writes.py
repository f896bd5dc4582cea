"""Status updates that conflict or are rejected: few requests, a report, and success as soon as it is possible."""

from __future__ import annotations

import logging
from collections.abc import Callable
from random import Random

import pytest

from simulation.cluster import jobs
from simulation.job_run import JobRun, job_status, log
from simulation.transport import EventOutcome, ReliableNetwork, RequestOutcome, error_response
from trainshed.client.transport import Answer, Request
from trainshed.controller.workqueue import MIN_WAIT

#: Seconds in which the second writer writes all the time.
LONG = 300.0


class SecondWriter(ReliableNetwork):
    """Writes the job just before each status of the operator arrives, a number of `times`."""

    def __init__(self, write: Callable[[], object], times: int) -> None:
        self._write = write
        self.times = times

    def exchange(self, process: str, request: Request) -> RequestOutcome:
        if self.times and request.verb == "PATCH" and "jobs/" in request.path and request.path.endswith("/status"):
            self.times -= 1
            self._write()
        return super().exchange(process, request)


def second_writer(job: JobRun, times: int) -> SecondWriter:
    """Add a writer of the status that is faster than the operator."""
    transport = job.cluster.operators[0].transport
    assert transport is not None
    found = SecondWriter(lambda: job.write(job_status(), {"status": {"ready": f"{job.cluster.now()}"}}), times)
    transport.network = found
    return found


@pytest.fixture
def job():
    job = JobRun()
    job.cluster.loop.run_for(5)
    yield job
    job.close()


def restarted(job: JobRun) -> bool:
    """Return whether the failure of a worker is stored."""
    return job.status().get("restarts") == 1


def test_one_conflict_costs_no_noticeable_time(job):
    second_writer(job, 1)
    job.fail("job-worker-1")
    assert job.cluster.loop.run_until(lambda: restarted(job), 0.1)
    updates = [request.status for request in job.requests if request.verb == "PATCH" and "status" in request.path]
    assert updates[-2:] == [409, 200]


@pytest.mark.slow
@pytest.mark.fault("B2")
def test_conflicts_without_end_cost_few_requests_and_are_reported(job):
    writer = second_writer(job, 10**9)
    before = job.request_count()
    with log() as found:
        job.fail("job-worker-1")
        job.cluster.loop.run_for(LONG)
    assert not restarted(job)
    assert job.request_count() - before <= 2 * (8 + LONG / (MIN_WAIT * 0.5)) + 10, (
        "a PATCH and a GET after 0.01 ... 0.5 s"
    )
    warnings = [record for record in found.records if record.levelno >= logging.WARNING]
    assert len(warnings) == 1
    writer.times = 0
    assert job.cluster.loop.run_until(lambda: "Succeeded" in job.states(), 2), "its chief has succeeded meanwhile"


def test_events_of_the_job_do_not_make_the_back_off_shorter(job):
    second_writer(job, 10**9)
    job.fail("job-worker-1")
    job.cluster.loop.run_for(30)
    before = job.request_count()
    for number in range(1000):
        job.write(job_status(), {"status": {"ready": f"{number}"}})
        job.cluster.loop.run_for(0.1)
    assert job.request_count() - before <= 2 * 100 / (MIN_WAIT * 0.5) + 20


def test_a_success_ends_the_back_off(job):
    writer = second_writer(job, 8)
    job.fail("job-worker-1")
    assert job.cluster.loop.run_until(lambda: restarted(job), 5), "0.01 + 0.02 + ... + 0.5 s"
    job.cluster.loop.run_until(lambda: len(job.cluster.server.objects("pods")) == 3, 10)
    job.cluster.loop.run_for(5)
    writer.times = 1
    job.fail("job-worker-1")
    assert job.cluster.loop.run_until(lambda: job.status().get("restarts") == 2, 0.1)


class Slow(ReliableNetwork):
    """A network on which responses and events take 2.5 to 7.5 ms."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def exchange(self, process: str, request: Request) -> RequestOutcome:
        return RequestOutcome(before=self._latency(), after=self._latency())

    def line(self, process: str, path: str, line: bytes) -> EventOutcome:
        return EventOutcome(delay=self._latency())

    def _latency(self) -> float:
        return 0.005 * (0.5 + self._random.random())


@pytest.mark.fault("B2")
@pytest.mark.parametrize("seed", range(5))
def test_a_status_is_stored_soon_while_another_writer_writes_fifty_times_a_second(job, seed):
    random, transport = Random(seed), job.cluster.operators[0].transport
    transport.network = Slow(random)

    def write() -> None:
        job.write(job_status(), {"status": {"ready": f"{job.cluster.now()}"}})
        job.cluster.later(0.02 * (0.9 + 0.2 * random.random()), write)

    write()
    job.cluster.loop.run_for(1 + random.random())
    job.fail("job-worker-1")
    assert job.cluster.loop.run_until(lambda: restarted(job), 2)


MESSAGE = 'TFJob.kubeflow.org "job" is invalid: status.restarts: Invalid value: must be less than 0'


class RejectingServer(ReliableNetwork):
    """Answers each status update with `answer`, until it is None; `refused` counts them."""

    def __init__(self) -> None:
        self.answer: Answer | None = error_response(422, "Invalid", MESSAGE)
        self.refused = 0

    def exchange(self, process: str, request: Request) -> RequestOutcome:
        if self.answer and request.verb == "PATCH" and request.path.endswith("/status"):
            self.refused += 1
            return RequestOutcome(instead=self.answer)
        return super().exchange(process, request)


def reject_statuses(job: JobRun) -> RejectingServer:
    """Let the server reject every status from now on."""
    found, transport = RejectingServer(), job.cluster.operators[0].transport
    assert transport is not None
    transport.network = found
    return found


def refused() -> tuple[JobRun, RejectingServer]:
    """Return a job with a worker that failed 5 minutes ago, and a server that has rejected every status since."""
    job = JobRun()
    job.cluster.loop.run_for(5)
    server = reject_statuses(job)
    job.fail("job-worker-1")
    job.cluster.loop.run_for(300)
    return job, server


def messages(job: JobRun) -> list[str]:
    """Return the messages of the Events about it."""
    return [one["message"] for one in job.cluster.server.objects("events") if one["reason"] == "StatusRejected"]


@pytest.mark.fault("B19")
def test_a_rejected_status_is_retried_with_back_off_and_stored_once_it_is_accepted():
    job = JobRun()
    job.cluster.loop.run_for(5)
    with log() as found:
        server = reject_statuses(job)
        job.fail("job-worker-1")
        job.cluster.loop.run_for(600)
        assert 5 <= server.refused <= 15, "1, 2, 4 ... 120 s"
        warnings = [record.getMessage() for record in found.records if record.levelno >= logging.WARNING]
        assert len(warnings) == 1
        assert MESSAGE in warnings[0], "the server's words"
        server.answer = None
        job.cluster.loop.run_for(200)
    assert "Succeeded" in job.states()
    assert found.tracebacks() == []
    job.close()


@pytest.mark.fault("B19")
def test_an_event_has_the_servers_message():
    job, server = refused()
    (event,) = messages(job)
    assert MESSAGE in event
    server.answer = error_response(422, "Invalid", "something else is wrong with it")
    job.cluster.loop.run_for(300)
    assert len(messages(job)) == 2, "another message is another Event"
    job.close()


def test_rejected_statuses_are_counted_and_no_pods_change_meanwhile():
    job, server = refused()
    operator = job.cluster.operators[0].operator
    assert operator is not None
    name, labels = "trainshed_status_updates_rejected_total", {"framework": "tensorflow"}
    assert operator._metrics.registry.get_sample_value(name, labels) == server.refused
    assert [pod["metadata"]["name"] for pod in job.cluster.server.objects("pods")] == [
        "job-chief-0",
        "job-worker-0",
        "job-worker-1",
    ]
    job.close()


DEAD = 'Internal error occurred: failed calling webhook "dead": Post "https://10.0.0.{}:1/": connection refused'


@pytest.mark.fault("B19")
@pytest.mark.parametrize("patch", [{}, {"spec": {"runPolicy": {"suspend": True}}}], ids=["runs", "suspended"])
@pytest.mark.parametrize("code", [500, 503, 422, 409])
def test_the_back_off_of_counts_that_cannot_be_stored_grows_and_there_is_one_warning(code, patch):
    """The first status of a job is one that may wait for more changes, which is no success either."""
    job = JobRun()
    server = reject_statuses(job)
    with log() as found:
        assert not patch or job.write(f"{jobs('TFJob')}/job", patch)
        tries = []
        for second in range(120):
            before, server.answer = server.refused, error_response(code, "InternalError", DEAD.format(second))
            job.cluster.loop.run_for(1)
            tries.append(server.refused - before)
    assert sum(tries) <= 30, tries
    assert sum(tries[60:]) <= (10 if code != 422 else 2), tries
    assert sum(record.levelno >= logging.WARNING for record in found.records) == 1
    server.answer = None
    assert job.cluster.loop.run_until(job.states, 130 if code == 422 else 20)
    job.close()
