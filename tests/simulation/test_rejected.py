"""A status that the API server rejects: reported, tried again less and less often, and stored once it is accepted."""

from __future__ import annotations

import logging

from simulation.absurd import Tale, log
from simulation.faults import Fair, Fate, refusal
from trainshed.client.transport import Answer, Request

MESSAGE = 'TFJob.kubeflow.org "job" is invalid: status.restarts: Invalid value: must be less than 0'


class Strict(Fair):
    """Accepts no status as long as there is an `answer`; `at` are the times of those that it refused."""

    def __init__(self) -> None:
        self.answer: Answer | None = refusal(422, "Invalid", MESSAGE)
        self.refused = 0

    def exchange(self, process: str, request: Request) -> Fate:
        if self.answer and request.verb == "PATCH" and request.path.endswith("/status"):
            self.refused += 1
            return Fate(instead=self.answer)
        return super().exchange(process, request)


def strict(tale: Tale) -> Strict:
    """Let the server accept no status from now on."""
    found, line = Strict(), tale.stage.machines[0].line
    assert line is not None
    line.weather = found
    return found


def refused() -> tuple[Tale, Strict]:
    """A job of which a worker has failed five minutes ago, and the server that has accepted no status since."""
    tale = Tale()
    tale.stage.loop.run_for(5)
    server = strict(tale)
    tale.fail("job-worker-1")
    tale.stage.loop.run_for(300)
    return tale, server


def told(tale: Tale) -> list[str]:
    """The messages of the Events about it."""
    return [one["message"] for one in tale.stage.server.objects("events") if one["reason"] == "StatusRejected"]


def test_a_rejected_status_is_tried_again_less_and_less_often_and_stored_once_it_is_accepted():
    tale = Tale()
    tale.stage.loop.run_for(5)
    with log() as found:
        server = strict(tale)
        tale.fail("job-worker-1")
        tale.stage.loop.run_for(600)
        assert 5 <= server.refused <= 15, "1, 2, 4 ... 120 s"
        warnings = [record.getMessage() for record in found.records if record.levelno >= logging.WARNING]
        assert len(warnings) == 1
        assert MESSAGE in warnings[0], "the server's words"
        server.answer = None
        tale.stage.loop.run_for(200)
    assert "Succeeded" in tale.states()
    assert found.tracebacks() == []
    tale.close()


def test_users_read_the_servers_words_in_an_event_though_the_status_says_nothing():
    tale, server = refused()
    (event,) = told(tale)
    assert MESSAGE in event
    server.answer = refusal(422, "Invalid", "something else is wrong with it")
    tale.stage.loop.run_for(300)
    assert len(told(tale)) == 2, "another message is another Event"
    tale.close()


def test_rejected_statuses_are_counted_and_nothing_is_done_for_the_job_meanwhile():
    tale, server = refused()
    operator = tale.stage.machines[0].operator
    assert operator is not None
    name, labels = "trainshed_status_updates_rejected_total", {"framework": "tensorflow"}
    assert operator._metrics.registry.get_sample_value(name, labels) == server.refused
    assert [pod["metadata"]["name"] for pod in tale.stage.server.objects("pods")] == [
        "job-chief-0",
        "job-worker-0",
        "job-worker-1",
    ]
    tale.close()
