"""A webhook or a policy chooses the HTTP code of its refusal; whatever it is, the operator takes it for a refusal."""

from __future__ import annotations

from typing import Any

import pytest

from simulation.cluster import NAMESPACE, jobs
from simulation.job_run import CORE, JobRun, log
from simulation.transport import ReliableNetwork, RequestOutcome, error_response
from trainshed.client.transport import Request

WEBHOOK = 'admission webhook "w.example" denied the request: not today'
POLICY = """pods "x" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: not today"""
#: Codes and reasons that mean something else if they are the API server's own, and the usual.
ANSWERS = [
    (401, "Unauthorized", WEBHOOK),
    (403, "Forbidden", WEBHOOK),
    (404, "NotFound", WEBHOOK),
    (409, "AlreadyExists", WEBHOOK),
    (409, "Conflict", WEBHOOK),
    (410, "Expired", WEBHOOK),
    (503, "ServiceUnavailable", WEBHOOK),
    (401, "Unauthorized", POLICY),
]
SUSPEND = {"spec": {"runPolicy": {"suspend": True}}}


class Denying(ReliableNetwork):
    """Answers each request of this verb whose path has these parts with `answer`, until it is None; counts them."""

    def __init__(self, verb: str, *parts: str) -> None:
        self._verb, self._parts = verb, parts
        self.answer: tuple[int, str, str] | None = None
        self.count = 0

    def exchange(self, process: str, request: Request) -> RequestOutcome:
        if self.answer and request.verb == self._verb and all(part in request.path for part in self._parts):
            self.count += 1
            return RequestOutcome(instead=error_response(*self.answer))
        return super().exchange(process, request)


def denied(job: JobRun, network: Denying, answer: tuple[int, str, str], patch: dict[str, Any] | None) -> str:
    """Change the job and let the server answer so for 20 s; return what the log says meanwhile."""
    job.cluster.loop.run_for(5)
    transport = job.cluster.operators[0].transport
    assert transport is not None
    transport.network, network.answer = network, answer
    with log() as found:
        if patch:
            assert job.write(f"{jobs('TFJob')}/job", patch)
        else:
            job.fail("job-worker-1")
        job.cluster.loop.run_for(20)
    assert found.tracebacks() == []
    return "\n".join(record.getMessage() for record in found.records)


def running(job: JobRun) -> list[str]:
    return [found["metadata"]["name"] for found in job.cluster.server.objects("pods")]


def events(job: JobRun) -> list[str]:
    return [f"{found['reason']} {found['message']}" for found in job.cluster.server.objects("events")]


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer[0]} {answer[1]}")
def test_a_pod_whose_deletion_is_denied_is_neither_taken_for_deleted_nor_forgotten(answer):
    job = JobRun()
    network = Denying("DELETE", "/pods/")
    said = denied(job, network, answer, SUSPEND)
    assert 12 <= network.count <= 18, "three pods after 1, 2, 4 ... 20 s"
    assert len(running(job)) == 3
    assert {role: found.get("active") for role, found in job.status()["replicaStatuses"].items()} == {
        "Chief": 1,
        "Worker": 2,
    }
    assert "not today" in said
    assert "deleted 3 pods" not in said
    assert not any("SuccessfulDeletePod" in event for event in events(job))
    network.answer = None
    job.cluster.loop.run_for(60)
    assert (running(job), job.states()) == ([], ["Created", "Suspended"])
    job.close()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer[0]} {answer[1]}")
def test_a_pod_whose_creation_is_denied_blocks_its_job_and_is_tried_again(answer):
    job = JobRun(scope="Replica")
    network = Denying("POST", "/pods")
    denied(job, network, answer, None)
    assert 3 <= network.count <= 6
    blocked = job.status()["blocked"]
    assert blocked["reason"] == ("DeniedByWebhook" if answer[2] == WEBHOOK else "DeniedByPolicy")
    assert "not today" in blocked["message"]
    network.answer = None
    job.cluster.loop.run_for(60)
    assert "blocked" not in job.status()
    job.close()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer[0]} {answer[1]}")
def test_a_status_that_is_denied_is_rejected_and_its_job_not_forgotten(answer):
    job = JobRun()
    network = Denying("PATCH", "/status")
    said = denied(job, network, answer, SUSPEND)
    assert 3 <= network.count <= 8, "1, 2, 4 ... 120 s"
    assert "no longer exists" not in said
    assert any("StatusRejected" in event and "not today" in event for event in events(job))
    network.answer = None
    job.cluster.loop.run_for(120)
    assert (running(job), job.states()) == ([], ["Created", "Suspended"])
    job.close()


@pytest.mark.parametrize("answer", ANSWERS, ids=lambda answer: f"{answer[0]} {answer[1]}")
def test_a_job_whose_deletion_is_denied_at_its_end_is_deleted_once_it_may(answer):
    job = JobRun()
    network = Denying("DELETE", f"/{NAMESPACE}/tfjobs/")
    said = denied(job, network, answer, {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 1}}})
    job.cluster.loop.run_for(60)
    assert network.count >= 4
    assert "no longer exists" not in said
    network.answer = None
    job.cluster.loop.run_for(60)
    assert job.cluster.job("TFJob", "job") is None
    job.close()


def test_a_status_with_conflicts_although_the_job_does_not_change_is_tried_every_20_seconds():
    job = JobRun()
    network = Denying("PATCH", "/status")
    text = 'Operation cannot be fulfilled on tfjobs.kubeflow.org "job": the object has been modified'
    said = denied(job, network, (409, "Conflict", text), SUSPEND)
    assert 5 <= network.count <= 12, "as where a webhook puts another resourceVersion into what is written"
    assert said.count("although the job has not changed") == 1
    assert sum("StatusReverted" in event for event in events(job)) == 1
    network.answer = None
    job.cluster.loop.run_for(60)
    assert (running(job), job.states()) == ([], ["Created", "Suspended"])
    job.close()


@pytest.mark.parametrize(
    ("taken", "times", "reason", "words"),
    [
        ("job-worker-1", 3, "", ""),
        ("job-worker-1", 99, "ConflictEachTime", "pod job-worker-1 cannot be written"),
        ("elsewhere", 99, "AlteredOnCreation", "has changed its name to that of another, elsewhere"),
    ],
)
def test_a_pod_whose_name_is_taken_and_then_free_is_created_without_alarm_and_blocks_its_job_if_it_always_is(
    taken, times, reason, words
):
    class Taken(Denying):
        def exchange(self, process: str, request: Request) -> RequestOutcome:
            if self.count == times:
                self.answer = None
            return super().exchange(process, request)

    job = JobRun(scope="Replica")
    network = Taken("POST", "/pods")
    said = denied(job, network, (409, "AlreadyExists", f'pods "{taken}" already exists'), None)
    assert 3 <= network.count <= 14
    assert len(running(job)) == (2 if reason else 3)
    assert job.status().get("blocked", {"reason": ""})["reason"] == reason
    assert words in f"{job.status()}"
    assert any("Error creating" in event for event in events(job)) == bool(reason)
    assert reason in said
    job.close()


@pytest.mark.parametrize(
    ("verb", "part", "answer"),
    [
        ("POST", "/pods", (403, "Forbidden", "exceeded quota")),
        ("POST", "/pods", (422, "Invalid", "no such field")),
        ("POST", "/pods", (409, "Conflict", "the object has been modified")),
        ("POST", "/pods", (409, "AlreadyExists", 'pods "elsewhere" already exists')),
        ("POST", "/services", (500, "InternalError", "no answer")),
        ("PATCH", "/status", (422, "Invalid", "no such field")),
        ("PATCH", "/status", (409, "Conflict", "the object has been modified")),
    ],
)
@pytest.mark.parametrize("within", [0.0, 0.01])
def test_a_job_that_is_created_again_is_tried_as_soon_and_as_often_as_the_one_before(verb, part, answer, within):
    times: list[float] = []

    class Timed(Denying):
        def exchange(self, process: str, request: Request) -> RequestOutcome:
            count, outcome = self.count, super().exchange(process, request)
            times.extend([job.cluster.now()] * (self.count - count))
            return outcome

    def tries() -> list[float]:
        began = job.cluster.now()
        times.clear()
        job.cluster.submit(job.job())
        job.cluster.loop.run_for(100)
        return [time - began for time in dict.fromkeys(times)][:6]

    job = JobRun()
    job.cluster.loop.run_for(5)
    path = f"{jobs('TFJob')}/job"
    job.cluster.server.request("user", "DELETE", path)
    job.cluster.loop.run_for(60)
    network = Timed(verb, part)
    job.cluster.operators[0].transport.network, network.answer = network, answer
    first = tries()
    for name in [
        f"{plural}/job-{pod}" for plural in ("pods", "services") for pod in ("chief-0", "worker-0", "worker-1")
    ]:
        if job.cluster.server.object(f"{CORE}/{name}"):  # for which the next job would have to wait
            job.cluster.server.request("user", "DELETE", f"{CORE}/{name}", body={"gracePeriodSeconds": 0})
    job.cluster.server.request("user", "DELETE", path)
    job.cluster.loop.run_for(within)
    again = tries()
    assert len(first) == len(again) == 6
    assert max(one - other for one, other in zip(again, first, strict=True)) < 0.1, (again, first)
    job.close()


TOUCHED = {
    "nothing": ("", {}),
    "a label of the job": (f"{jobs('TFJob')}/job", {"metadata": {"labels": {"stamp": ""}}}),
    "an annotation of the job": (f"{jobs('TFJob')}/job", {"metadata": {"annotations": {"stamp": ""}}}),
    "an annotation of a pod": (f"{CORE}/pods/job-worker-0", {"metadata": {"annotations": {"stamp": ""}}}),
    "a label of a Service": (f"{CORE}/services/job-chief-0", {"metadata": {"labels": {"stamp": ""}}}),
}


@pytest.mark.slow
@pytest.mark.parametrize("touched", TOUCHED)
def test_a_job_whose_pods_are_refused_costs_no_request_while_nothing_changes_that_the_operator_reads(touched):
    job = JobRun(scope="Replica")
    path, patch = TOUCHED[touched]
    job.cluster.loop.run_for(5)
    job.cluster.operators[0].transport.network = network = Denying("POST", "/pods")
    network.answer = (422, "Invalid", "no such field")
    job.fail("job-chief-0")
    job.cluster.loop.run_for(100)
    mark = len(job.requests)
    for number in range(500):
        stamped = {part: {"stamp": f"{number}"} for part in patch.get("metadata", {})}
        assert not path or job.write(path, {"metadata": stamped})
        job.cluster.loop.run_for(0.1)
    asked = [request for request in job.requests[mark:] if "/leases" not in request.path]
    assert 1 <= len(asked) <= 9, "a GET and at times an Event for each POST that is refused"
    job.close()


UNCALLED = 'Internal error occurred: failed calling webhook "w.example": Post "https://10.0.0.1:1/": connection refused'


@pytest.mark.fault("K3")
@pytest.mark.parametrize(("verb", "patch", "each"), [("DELETE", SUSPEND, 3), ("POST", None, 1)])
def test_a_webhook_that_cannot_be_called_costs_few_requests(verb, patch, each):
    job = JobRun(scope="Replica")
    network = Denying(verb, "/pods")
    denied(job, network, (500, "InternalError", UNCALLED), patch)
    assert 5 * each <= network.count <= 10 * each, "after 0.1, 0.2, 0.4 ... 12.8 s, without retries in between"
    job.close()


@pytest.mark.fault("K3")
def test_pods_that_a_webhook_kept_from_being_deleted_go_once_it_can_be_called():
    job = JobRun()
    network = Denying("DELETE", "/pods")
    denied(job, network, (500, "InternalError", UNCALLED), SUSPEND)
    job.cluster.loop.run_for(60)
    before = network.count
    job.cluster.loop.run_for(100)
    assert 12 <= network.count - before <= 18, "three pods every 20 s"
    network.answer = None
    job.cluster.loop.run_for(21)
    assert (running(job), job.states()) == ([], ["Created", "Suspended"])
    job.close()


@pytest.mark.fault("B13")
@pytest.mark.parametrize("change", ["a pod has ended", "a pod is gone", "the job has changed"])
def test_a_job_that_a_quota_refuses_costs_a_try_in_minutes_and_is_tried_at_once_after_a_change(change):
    job = JobRun(scope="Replica")
    job.cluster.loop.run_for(5)
    job.cluster.operators[0].transport.network = network = Denying("POST", "/pods")
    network.answer = (403, "Forbidden", 'pods "x" is forbidden: exceeded quota: q')
    late = job.job()
    late["metadata"]["name"] = "late"
    job.cluster.submit(late)
    job.cluster.loop.run_for(2000)
    before, mark = network.count, len(job.requests)
    job.cluster.loop.run_for(3000)
    assert 9 <= network.count - before <= 11, "every 300 s"
    assert len([request for request in job.requests[mark:] if "/leases" not in request.path]) <= 35
    job.cluster.loop.run_for(100)
    before, network.answer = network.count, None
    match change:
        case "a pod has ended":
            job.fail("job-worker-1", 0)
        case "a pod is gone":
            job.cluster.server.request("user", "DELETE", f"{CORE}/pods/job-worker-1", body={"gracePeriodSeconds": 0})
        case _:
            job.write(f"{jobs('TFJob')}/late", {"spec": {"runPolicy": {"ttlSecondsAfterFinished": 9}}})
    job.cluster.loop.run_for(1)
    assert {f"late-{role}" for role in ("chief-0", "worker-0", "worker-1")} <= set(running(job))
    job.close()
