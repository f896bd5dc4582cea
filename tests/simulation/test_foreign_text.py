"""Whatever others write into an object of a job, the operator's log, its Events and conditions are printable lines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from simulation.cluster import NAMESPACE
from simulation.job_run import CORE, JobRun, group, log, pod
from simulation.server_events import observe_changes
from simulation.transport import DELIVERED, ReliableNetwork, RequestOutcome, error_response
from support.audit.change import OPERATOR, Change
from trainshed.client.transport import Request

#: Forges a line of a log, clears the screen with 7-bit and 8-bit sequences, and turns the direction of writing.
FORGED = "A\n2026-01-01 ERROR FORGED\x1b[2J\x9b2J\u202e\u2028\x00\r"
SHOWN = "A 2026-01-01 ERROR FORGED"
END = {"exitCode": 137, "reason": "Error", "startedAt": "2026-01-01T00:00:00Z", "finishedAt": "2026-01-01T00:00:01Z"}
#: The fields whose value has several lines where it is shown.
SEVERAL_LINES = ("terminationMessage",)


def container(**fields: Any) -> dict[str, Any]:
    return {"status": {"containerStatuses": [{"name": "tensorflow", "image": "x:1", "restartCount": 0, **fields}]}}


def ended(**fields: Any) -> dict[str, Any]:
    status = container(state={"terminated": {**END, **fields}})["status"]
    return {"status": {**status, "phase": "Failed"}}


def waiting(reason: str, message: str = FORGED, **fields: Any) -> dict[str, Any]:
    status = container(state={"waiting": {"reason": reason, "message": message}}, **fields)["status"]
    return {"status": {**status, "phase": "Pending"}}


def condition(kind: str, status: str) -> dict[str, Any]:
    found = {"type": kind, "status": status, "reason": FORGED, "message": FORGED}
    return {"status": {"phase": "Pending", "containerStatuses": None, "conditions": [found]}}


CRASHED = {"terminated": {**END, "reason": FORGED, "message": FORGED}}
#: By the name of the field: the path below the pod, and what is written.
POD_FIELDS: dict[str, tuple[str, dict[str, Any]]] = {
    "reason of a pod": ("/status", {"status": {"phase": "Failed", "reason": FORGED, "message": FORGED}}),
    "message of an eviction": ("/status", {"status": {"phase": "Failed", "reason": "Evicted", "message": FORGED}}),
    "reason of a container that ended": ("/status", ended(reason=FORGED)),
    "termination message": ("/status", ended(message=FORGED)),
    "message of a start error": ("/status", ended(reason="StartError", message=FORGED)),
    "reason of a waiting container": ("/status", waiting(FORGED)),
    "message of a failed pull": ("/status", waiting("ErrImagePull")),
    "image that cannot be pulled": ("/status", waiting("ImagePullBackOff", image=FORGED)),
    "message of a wrong configuration": ("/status", waiting("CreateContainerConfigError")),
    "name of a container": ("/status", waiting("ErrImagePull", name=FORGED)),
    "last run of a crash loop": ("/status", waiting("CrashLoopBackOff", restartCount=7, lastState=CRASHED)),
    "reason of a disruption": ("/status", condition("DisruptionTarget", "True")),
    "message of the scheduler": ("/status", condition("PodScheduled", "False")),
    "finalizer": ("", {"metadata": {"finalizers": [FORGED], "deletionTimestamp": "2026-01-01T00:00:00Z"}}),
    "attempt": ("", {"metadata": {"annotations": {"trainshed.dev/restart-attempt": FORGED}}}),
    "template hash": ("", {"metadata": {"annotations": {"trainshed.dev/template-hash": FORGED}}}),
    "service": ("", {"metadata": {"annotations": {"trainshed.dev/job-service": FORGED}}}),
}


class Shown:
    """Keeps what the operator shows to users: the texts of the jobs' statuses and of Events."""

    def __init__(self, run: JobRun) -> None:
        self.texts: list[str] = []
        self._several: list[str] = []
        observe_changes(run.cluster.server, self._observe)

    def unfit(self, lines: list[str]) -> list[str]:
        """Return the texts that are not printable, in Events and statuses and in these lines of a log."""
        several = [line for text in self._several for line in text.split("\n")]
        return [text for text in (*self.texts, *several, *lines) if not text.isprintable()]

    def _observe(self, change: Change) -> None:
        if change.actor != OPERATOR or change.object["kind"] not in ("Event", "TFJob", "MPIJob"):
            return
        found = change.object if change.object["kind"] == "Event" else change.object.get("status", {})
        for key, text in _texts("", found):
            (self._several if key in SEVERAL_LINES else self.texts).append(text)


def _texts(key: str, found: object) -> Iterator[tuple[str, str]]:
    if isinstance(found, dict):
        for name, value in found.items():
            yield from _texts(name, value)
    elif isinstance(found, list):
        for value in found:
            yield from _texts(key, value)
    elif isinstance(found, str):
        yield key, found


def shows(run: JobRun, path: str, patch: dict[str, Any]) -> list[str]:
    """Run the job with this written into it; return what the operator shows, all of which must be fit to be shown."""
    shown = Shown(run)
    with log() as found:
        run.run(path, patch)
        lines = [record.getMessage() for record in found.records]
    run.close()
    assert shown.unfit(lines) == []
    return shown.texts + lines


@pytest.mark.parametrize("what", POD_FIELDS)
def test_text_in_a_pod_is_shown_as_printable_lines(what):
    part, patch = POD_FIELDS[what]
    shows(JobRun(), pod(part=part), patch)


@pytest.mark.parametrize("what", ["reason of a pod", "termination message", "image that cannot be pulled"])
def test_the_printable_part_of_a_text_is_shown(what):
    part, patch = POD_FIELDS[what]
    texts = shows(JobRun(), pod(part=part), patch)
    assert any("ERROR FORGED" in text for text in texts)


def test_the_owner_of_a_name_is_shown_in_one_line():
    run = JobRun()
    shown = Shown(run)
    owner = {"apiVersion": "v1", "kind": FORGED, "name": FORGED, "uid": "x", "controller": True}
    body = {
        "metadata": {"name": "late-worker-0", "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "c", "image": "x"}]},
    }
    late = run.cluster.job("TFJob", "job") or {}
    with log() as found:
        run.cluster.server.request("user", "POST", f"{CORE}/pods", body=body)
        run.cluster.submit({**late, "metadata": {"name": "late", "namespace": NAMESPACE}, "status": {}})
        run.cluster.loop.run_for(30)
        lines = [record.getMessage() for record in found.records]
    run.close()
    assert shown.unfit(lines) == []
    assert any(f"its controller is {SHOWN} {SHOWN}" in text for text in shown.texts)
    assert any(f"its controller is {SHOWN} {SHOWN}" in text for text in lines)


def test_a_value_of_a_job_that_is_refused_is_shown_in_one_line():
    run = JobRun()
    shows(run, f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/tfjobs/job", annotated("trainshed.dev/restart-scope"))


def annotated(name: str) -> dict[str, Any]:
    return {"metadata": {"annotations": {name: FORGED}}}


@pytest.mark.parametrize("what", ["phase", "conditions"])
def test_text_in_a_pod_group_is_shown_in_one_line(what):
    said = {"status": "True", "type": FORGED, "reason": FORGED, "message": FORGED}
    status = {"phase": FORGED} if what == "phase" else {"phase": "Pending", "conditions": [said]}
    shows(JobRun(gang="volcano"), group(), {"status": status})


class Webhook(ReliableNetwork):
    """Refuses each pod with a message of its own."""

    def exchange(self, process: str, request: Request) -> RequestOutcome:
        del process
        if request.verb != "POST" or not request.path.endswith("/pods"):
            return DELIVERED
        return RequestOutcome(instead=error_response(403, "Forbidden", f"admission webhook denied: {FORGED}"))


def test_the_refusal_of_a_webhook_is_shown_in_one_line(monkeypatch):
    monkeypatch.setattr("simulation.cluster.ReliableNetwork", Webhook)
    texts = shows(JobRun(), f"/apis/kubeflow.org/v1/namespaces/{NAMESPACE}/tfjobs/job", {})
    assert any(f"admission webhook denied: {SHOWN}" in text for text in texts)
